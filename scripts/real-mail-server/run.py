"""Sends mail of a server of its own through aiosmtpd, a mail server that is not ours, and reads it with Python's own parser.

Usage: run.py <everhook binary>

One node on SQLite disables an endpoint that answers 410 Gone. If EVERHOOK_TEST_POSTGRES is set, two nodes on one PostgreSQL database then report an endpoint
that fails for long (see two_nodes.py).
"""

import sys
import tempfile
import time

from support import KEY, call, Everhook, Inbox, Receiver, wait_for
import two_nodes

ADMINS = ["dev@example.com", "ops@example.com"]
HOSTILE = "Orders <script>\u00fc {{x}}"


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


def run(binary, folder):
    with Inbox() as inbox, Receiver(410) as receiver:
        flags = ["--smtp", inbox.url, "--smtp-from", "Everhook <hooks@example.com>", "--admin-emails", ", ".join(ADMINS), "--brand", "Hooks"]
        with Everhook(binary, folder, "alone", flags) as server:
            disable_by_410(server.address, receiver.url, inbox)


def disable_by_410(address, url, inbox):
    call(address, "POST", "/v1/endpoints", {"url": url, "name": HOSTILE, "event_types": ["order.paid"]})
    call(address, "POST", "/v1/events", {"type": "order.paid", "data": {}})
    wait_for(lambda: len(inbox.mails) == 2, "the mails did not come")
    assert sorted(mail["to"] for _, mail in inbox.mails) == ADMINS
    for envelope, mail in inbox.mails:
        check(mail, envelope.rcpt_tos[0])
    tried = call(address, "POST", f"/v1/channels/{ADMINS[0]}/test", {})
    assert tried["delivered"] and tried["status"] == 250, tried
    assert inbox.mails[2][1]["subject"] == "[Hooks - Test] Test Notification"
    wait_for(lambda: len(call(address, "GET", "/v1/notifications?status=delivered")["data"]) == 2, "two are not listed as delivered")
    time.sleep(1)
    assert len(inbox.mails) == 3, "each came once"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        run(sys.argv[1], scratch)
        two_nodes.run(sys.argv[1], scratch)
