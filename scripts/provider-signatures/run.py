"""Sends requests that the providers' own packages have signed to sources of a server of its own.

Each must be accepted as it is and refused with one byte of its body changed.

Usage: run.py <everhook binary> <folder with node_modules, or nothing to leave out the Node packages>.
"""

import base64
import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

KEY = "eh_" + "p" * 32
SIGN_GITHUB = "import { sign } from '@octokit/webhooks-methods'; console.log(await sign(process.argv[1], process.argv[2]))"


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % probe.getsockname()[1]


class Server:
    def __init__(self, binary, folder):
        self.address = free_address()
        command = [binary, "serve", "--listen", self.address, "--data", str(Path(folder) / "data"), "--admin-key", KEY]
        self.log = open(Path(folder) / "log", "w")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, cwd=folder)
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://{self.address}/readyz", timeout=10).close()
                return
            except urllib.error.URLError:
                time.sleep(0.1)
        raise SystemExit("the server is not ready")

    def ask(self, path, body=None):
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.address}{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{path}: {error.code} {error.read().decode()}") from error

    def push(self, path, body, headers):
        request = urllib.request.Request(f"http://{self.address}{path}", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


def json_bytes(value):
    return json.dumps(value).encode()


def stripe():
    import stripe

    secret, body = "whsec_oracle_0123456789", json_bytes({"id": "evt_1", "type": "charge.succeeded"})
    now = int(time.time())
    signature = stripe.WebhookSignature._compute_signature(f"{now}.{body.decode()}", secret)
    return {"kind": "stripe", "secrets": [secret]}, body, {"Stripe-Signature": f"t={now},v1={signature}"}


def slack():
    from slack_sdk.signature import SignatureVerifier

    secret, now = "8f742231b10e8888abcd99yyyzzz85a5", str(int(time.time()))
    body = json_bytes({"type": "event_callback", "event_id": "Ev1", "event": {"type": "message"}})
    signature = SignatureVerifier(secret).generate_signature(timestamp=now, body=body)
    return {"kind": "slack", "secrets": [secret]}, body, {"X-Slack-Request-Timestamp": now, "X-Slack-Signature": signature}


def twilio():
    from twilio.request_validator import RequestValidator

    secret, url = "12345678901234567890", "https://hooks.example.com/in/twilio?foo=1&bar=2"
    params = {"CallSid": "CA1", "From": "+14158675309", "Digits": "1234", "To": "+18005551212"}
    signature = RequestValidator(secret).compute_signature(url, params)
    headers = {"X-Twilio-Signature": signature, "Content-Type": "application/x-www-form-urlencoded"}
    return {"kind": "twilio", "secrets": [secret], "public_url": url}, urllib.parse.urlencode(params).encode(), headers


def sendgrid():
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from sendgrid.helpers.eventwebhook import EventWebhook

    key = ec.generate_private_key(ec.SECP256R1())
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    public = base64.b64encode(key.public_key().public_bytes(serialization.Encoding.DER, spki)).decode()
    now, body = str(int(time.time())), b'[{"email":"a@example.com","event":"delivered","sg_event_id":"e1"}]\r\n'
    signature = base64.b64encode(key.sign(now.encode() + body, ec.ECDSA(hashes.SHA256()))).decode()
    webhook = EventWebhook(public)
    assert webhook.verify_signature(body.decode(), signature, now), "the official package does not accept it"
    name = "X-Twilio-Email-Event-Webhook-"
    return {"kind": "sendgrid", "secrets": [public]}, body, {name + "Signature": signature, name + "Timestamp": now}


def adyen():
    from Adyen.util import generate_notification_sig

    secret = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
    item = {
        "pspReference": "7914073381342284",
        "originalReference": "",
        "merchantAccountCode": "TestMerchant",
        "merchantReference": "TestPayment-1407325143704",
        "amount": {"value": 1130, "currency": "EUR"},
        "eventCode": "AUTHORISATION",
        "success": "true",
    }
    item["additionalData"] = {"hmacSignature": generate_notification_sig(item, secret).decode()}
    body = json_bytes({"live": "false", "notificationItems": [{"NotificationRequestItem": item}]})
    return {"kind": "adyen", "secrets": [secret]}, body, {}


def braintree():
    import braintree

    private = "braintree-private-key-0123456789"
    configuration = braintree.Configuration(
        braintree.Environment.Development, merchant_id="m", public_key="integration_public_key", private_key=private
    )
    gateway = braintree.BraintreeGateway(configuration)
    sample = gateway.webhook_testing.sample_notification(braintree.WebhookNotification.Kind.SubscriptionWentPastDue, "my_id")
    body = urllib.parse.urlencode(sample).encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    return {"kind": "braintree", "secrets": [private]}, body, headers


def hubspot():
    from hubspot.utils.signature import Signature

    secret, url, now = "hubspot-secret-0123456789", "https://hooks.example.com/in/hubspot", str(int(time.time() * 1000))
    body = json_bytes([{"eventId": 1, "subscriptionType": "contact.creation"}, {"eventId": 2, "subscriptionType": "contact.deletion"}])
    signature = Signature.get_signature(secret, body.decode(), "v3", url, "POST", now)
    headers = {"X-HubSpot-Signature-v3": signature, "X-HubSpot-Request-Timestamp": now}
    return {"kind": "hubspot", "secrets": [secret], "public_url": url}, body, headers


def paddle():
    from paddle_billing.Notifications import PaddleSignature

    secret, now = "pdl_ntfset_0123456789", int(time.time())
    body = json_bytes({"event_id": "evt_1", "event_type": "transaction.paid"})
    signature = PaddleSignature.calculate_hmac(secret, f"{now}:".encode() + body).hexdigest()
    return {"kind": "paddle", "secrets": [secret]}, body, {"Paddle-Signature": f"ts={now};h1={signature}"}


def standard():
    from datetime import datetime, timezone

    from standardwebhooks import Webhook

    secret, now = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", datetime.now(timezone.utc)
    body = json_bytes({"type": "invoice.paid", "data": {"id": 1}})
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(int(now.timestamp()))}
    headers["webhook-signature"] = Webhook(secret).sign("msg_1", now, body.decode())
    return {"kind": "standard", "secrets": [secret]}, body, headers


def github(node_modules):
    secret, body = "It's a Secret to Everybody", json_bytes({"action": "opened"})
    command = ["node", "--input-type=module", "-e", SIGN_GITHUB, secret, body.decode()]
    signed = subprocess.run(command, cwd=node_modules, check=True, capture_output=True, text=True, timeout=60)
    headers = {"X-Hub-Signature-256": signed.stdout.strip(), "X-GitHub-Event": "issues", "X-GitHub-Delivery": "d1"}
    return {"kind": "github", "secrets": [secret]}, body, headers


def one_byte_changed(body):
    # Some bytes carry nothing that is signed, such as the blanks of JSON where only some values are: the last digit always does.
    at = max(index for index, byte in enumerate(body) if chr(byte).isalnum())
    return body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]


def check(server, source, body, headers):
    kind = source["kind"]
    created = server.ask("/v1/sources", {"name": f"oracle-{kind}", **source})
    query = urllib.parse.urlsplit(source.get("public_url", "")).query
    path = f"/in/{created['id']}" + (f"?{query}" if query else "")
    headers = {"Content-Type": "application/json", **headers}
    accepted, forged = server.push(path, body, headers), server.push(path, one_byte_changed(body), headers)
    stored = server.ask(f"/v1/sources/{created['id']}/events")["data"]
    checks = [
        (f"a signed request is accepted ({accepted[0]} {accepted[1][:200]})", 200 <= accepted[0] < 300),
        (f"one changed byte is refused ({forged[0]} {forged[1][:200]})", forged[0] == 401),
        (f"what was accepted is stored, and nothing else ({len(stored)})", len(stored) == (2 if kind == "hubspot" else 1)),
    ]
    for name, holds in checks:
        print(f"{'ok' if holds else 'FAILED'}  {kind}: {name}")
    return sum(not holds for _, holds in checks)


def main():
    binary, node_modules = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    makers = [stripe, slack, twilio, sendgrid, adyen, braintree, hubspot, paddle, standard]
    with tempfile.TemporaryDirectory() as folder:
        server = Server(str(Path(binary).resolve()), folder)
        try:
            faults = sum(check(server, *make()) for make in makers)
            if node_modules:
                faults += check(server, *github(node_modules))
        finally:
            server.stop()
    sys.exit(1 if faults else 0)


main()
