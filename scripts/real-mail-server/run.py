"""Sends mail of a server of its own through aiosmtpd, a mail server that is not ours, and reads it with Python's own parser.

Usage: run.py <everhook binary>
"""

import email
import email.policy
import http.server
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from aiosmtpd.controller import Controller

KEY = "eh_" + "m" * 32
ADMINS = ["dev@example.com", "ops@example.com"]
HOSTILE = "Orders <script>\u00fc {{x}}"


class Mailbox:
    """Keeps what it is given."""

    def __init__(self):
        self.mails = []

    async def handle_DATA(self, server, session, envelope):
        self.mails.append((envelope, email.message_from_bytes(envelope.content, policy=email.policy.default)))
        return "250 taken"


class Gone(http.server.BaseHTTPRequestHandler):
    """An endpoint that wants nothing more."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(410)
        self.end_headers()

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(look, otherwise):
    for _ in range(300):
        try:
            if found := look():
                return found
        except urllib.error.URLError:
            pass
        time.sleep(0.1)
    raise SystemExit(otherwise)


def call(address, method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"authorization": "Bearer " + KEY, "content-type": "application/json"}
    request = urllib.request.Request(f"http://{address}{path}", data, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


def check(mail, recipient):
    assert mail["subject"] == f"[Hooks - Action Required] Endpoint Disabled: {HOSTILE}", mail["subject"]
    assert mail["from"] == "Everhook <hooks@example.com>" and mail["to"] == recipient
    assert mail["list-id"] == "Everhook notifications <notifications.everhook.example.com>", mail["list-id"]
    assert mail["auto-submitted"] == "auto-generated" and mail["message-id"] and mail["date"]
    assert mail.get_content_type() == "multipart/alternative"
    text, html = mail.get_body(("plain",)).get_content(), mail.get_body(("html",)).get_content()
    assert HOSTILE in text and "410 Gone" in text and "What to do" in text
    assert "<script>" not in html and "Orders &lt;script&gt;" in html and "prefers-color-scheme:dark" in html
    for loaded in ("http://", "https://", "src=", "href=", "url("):
        # The endpoint's own URL is a value in a cell.
        assert loaded not in html.replace("http://127.0.0.1", ""), loaded


def run(everhook, folder):
    mailbox, smtp_port = Mailbox(), free_port()
    mail_server = Controller(mailbox, hostname="127.0.0.1", port=smtp_port)
    mail_server.start()
    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Gone)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    address = f"127.0.0.1:{free_port()}"
    log = open(Path(folder) / "log", "w+")
    command = [
        os.path.abspath(everhook), "serve", "--listen", address, "--data", str(Path(folder) / "data"), "--admin-key", KEY,
        "--allow-private-networks", "--smtp", f"smtp://127.0.0.1:{smtp_port}", "--smtp-from", "Everhook <hooks@example.com>",
        "--admin-emails", ", ".join(ADMINS), "--brand", "Hooks",
    ]
    process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        wait_for(lambda: call(address, "GET", "/readyz"), "the server is not ready")
        url = f"http://127.0.0.1:{receiver.server_port}/"
        call(address, "POST", "/v1/endpoints", {"url": url, "name": HOSTILE, "event_types": ["order.paid"]})
        call(address, "POST", "/v1/events", {"type": "order.paid", "data": {}})
        wait_for(lambda: len(mailbox.mails) == 2, "the mails did not come")
        assert sorted(mail["to"] for _, mail in mailbox.mails) == ADMINS
        for envelope, mail in mailbox.mails:
            check(mail, envelope.rcpt_tos[0])
        tried = call(address, "POST", f"/v1/channels/{ADMINS[0]}/test", {})
        assert tried["delivered"] and tried["status"] == 250, tried
        assert mailbox.mails[2][1]["subject"] == "[Hooks - Test] Test Notification"
        wait_for(lambda: len(call(address, "GET", "/v1/notifications?status=delivered")["data"]) == 2, "two are not listed as delivered")
        time.sleep(1)
        assert len(mailbox.mails) == 3, "each came once"
    finally:
        process.terminate()
        process.wait(30)
        mail_server.stop()
        receiver.shutdown()
    log.seek(0)
    faults = [line for line in log if " ERROR " in line or "panicked" in line]
    sys.stdout.writelines(faults)
    return bool(faults)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        sys.exit(run(sys.argv[1], scratch))
