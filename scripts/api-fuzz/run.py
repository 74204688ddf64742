"""Asks a server of its own everything that its OpenAPI document allows, and much that it does not.

Usage: run.py <everhook binary> <schemathesis binary>. The seed is fixed, so that a failure comes again; FUZZ_SEED=random draws another and prints it.
"""

import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

KEY = "eh_" + "f" * 32
SEED = 20260131
# Random requests for each route. One worker: with two, the same seed does not ask the same, and the generator sometimes fails on its own threads.
EXAMPLES = 30
# Nothing leaves the machine: names that end so never resolve (RFC 2606).
NOWHERE = "https://nowhere.invalid/"
SECONDS_MAX = 1200

# What the server says where names that were made up are looked up and no resolver answers: then look-ups wait for each other.
NO_RESOLVER = "too many host names are being resolved"


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % probe.getsockname()[1]


class Server:
    def __init__(self, binary, folder):
        self.address = free_address()
        self.log = open(Path(folder) / "log", "w+")
        command = [binary, "serve", "--listen", self.address, "--data", str(Path(folder) / "data"), "--admin-key", KEY]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, cwd=folder)
        self.wait_for(lambda: self.call("GET", "/readyz"), "the server is not ready")

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"authorization": "Bearer " + KEY, "content-type": "application/json"}
        request = urllib.request.Request(f"http://{self.address}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=10) as response:
            return json.load(response)

    def wait_for(self, look, otherwise):
        for _ in range(300):
            try:
                if found := look():
                    return found
            except urllib.error.URLError:
                pass
            time.sleep(0.1)
        raise SystemExit(otherwise)

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


def make_things(server):
    """One thing of each kind that a path can name, as variables for schemathesis.toml."""
    endpoint = {"url": NOWHERE, "event_types": ["*"], "retry_config": {"max_attempts": 1}}
    made = {
        "ENDPOINT": server.call("POST", "/v1/endpoints", endpoint),
        "SPARE_ENDPOINT": server.call("POST", "/v1/endpoints", endpoint),
        "SPARE_RETRY_SCHEDULE": server.call("POST", "/v1/retry-schedules", {"name": "Spare", "intervals": [5]}),
        "SPARE_EVENT_TYPE": server.call("POST", "/v1/event-types", {"name": "order.spare"}),
        "SPARE_API_KEY": server.call("POST", "/v1/api-keys", {"name": "Spare", "scopes": ["read"]}),
        "EVENT": server.call("POST", "/v1/events", {"type": "order.paid", "data": {"order": 1}}),
        "RETRY_SCHEDULE": server.call("POST", "/v1/retry-schedules", {"name": "Patience", "intervals": [5]}),
        "EVENT_TYPE": server.call("POST", "/v1/event-types", {"name": "order.named"}),
        "APPLICATION": server.call("POST", "/v1/applications", {"name": "Shop"}),
        "ORGANIZATION": server.call("POST", "/v1/organizations", {"name": "Elsewhere"}),
        "DELIVERY": server.call("GET", "/v1/deliveries")["data"][0],
        "DEAD_LETTER": server.wait_for(lambda: server.call("GET", "/v1/dlq")["data"], "no dead letter came about")[0],
    }
    return {"FUZZ_" + name: thing["id"] for name, thing in made.items()}


def fuzz(schemathesis, server, seed, folder):
    command = [
        os.path.abspath(schemathesis), "--config-file", str(Path(__file__).resolve().with_name("schemathesis.toml")),
        "run", f"http://{server.address}/openapi.json", "--header", "Authorization: Bearer " + KEY,
        "--phases", "examples,coverage,fuzzing", "--max-examples", str(EXAMPLES), "--seed", str(seed),
        "--generation-database", "none", "--continue-on-failure", "--warnings", "off", "--no-color",
    ]
    return subprocess.run(command, env={**os.environ, **make_things(server)}, cwd=folder, timeout=SECONDS_MAX).returncode


def main(everhook, schemathesis):
    wanted = os.environ.get("FUZZ_SEED", str(SEED))
    seed = random.randrange(2**31) if wanted == "random" else int(wanted)
    print(f"the seed is {seed}; FUZZ_SEED={seed} asks the same again, FUZZ_SEED=random something new", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        server = Server(os.path.abspath(everhook), folder)
        try:
            failed = fuzz(schemathesis, server, seed, folder)
        finally:
            server.stop()
        server.log.seek(0)
        faults = [line for line in server.log if (" ERROR " in line or "panicked" in line) and NO_RESOLVER not in line]
    sys.stdout.writelines(faults)
    return failed or bool(faults)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
