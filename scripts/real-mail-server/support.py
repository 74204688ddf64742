"""What both stories need: a mail server that is not ours, an endpoint, and servers of Everhook."""

import email
import email.policy
import http.client
import http.server
import json
import os
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from aiosmtpd.controller import Controller

KEY = "eh_" + "m" * 32


class Inbox:
    """A mail server that keeps what it is given."""

    def __init__(self):
        self.mails = []
        port = free_port()
        self.url = f"smtp://127.0.0.1:{port}"
        self.server = Controller(self, hostname="127.0.0.1", port=port)

    async def handle_DATA(self, server, session, envelope):
        self.mails.append((envelope, email.message_from_bytes(envelope.content, policy=email.policy.default)))
        return "250 taken"

    def subjects(self, recipient):
        """The subjects of the mails to one address, in the order in which they came."""
        return [mail["subject"] for envelope, mail in self.mails if envelope.rcpt_tos == [recipient]]

    def __enter__(self):
        self.server.start()
        return self

    def __exit__(self, *_):
        self.server.stop()


class Receiver:
    """An endpoint that answers every request with one status, which can be changed."""

    def __init__(self, status):
        self.status = status
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(receiver.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()


class Everhook:
    """The binary as a process. Its log must be free of errors when it ends."""

    def __init__(self, binary, folder, name, flags):
        self.address = f"127.0.0.1:{free_port()}"
        self.folder, self.log = folder, open(Path(folder) / f"{name}.log", "w+")
        data = str(Path(folder) / name)
        self.command = [os.path.abspath(binary), "serve", "--listen", self.address, "--data", data, "--admin-key", KEY, "--allow-private-networks", *flags]

    def __enter__(self):
        # None of the caller's settings: the command says all there is.
        settings = {name: value for name, value in os.environ.items() if not name.startswith("EVERHOOK_")}
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log, cwd=self.folder, env=settings)
        try:
            wait_for(lambda: call(self.address, "GET", "/readyz"), "the server is not ready")
        except BaseException:
            self.log.seek(0)
            print(self.log.read())
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)
        self.log.seek(0)
        faults = [line for line in self.log if " ERROR " in line or "panicked" in line]
        assert not faults, "".join(faults)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(look, otherwise):
    """What `look` returns as soon as it is true, within 30 seconds."""
    for _ in range(300):
        try:
            if found := look():
                return found
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError):
            pass
        time.sleep(0.1)
    raise SystemExit(otherwise)


def call(address, method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"authorization": "Bearer " + KEY, "content-type": "application/json"}
    request = urllib.request.Request(f"http://{address}{path}", data, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)
