"""Generates clients from the OpenAPI document of a server of its own, type-checks them and runs them against it.

Usage: run.py <everhook binary> python <folder with bin/openapi-python-client and bin/mypy> | node <folder with node_modules>.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
KEY = "eh_" + "c" * 32


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

    def document(self):
        for _ in range(300):
            try:
                with urllib.request.urlopen(f"http://{self.address}/openapi.json", timeout=10) as response:
                    return json.load(response)
            except urllib.error.URLError:
                time.sleep(0.1)
        raise SystemExit("the server is not ready")

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


def run(command, folder, **env):
    subprocess.run(command, cwd=folder, env={**os.environ, **env}, check=True, timeout=300)


def check_python(tools, folder, document, where):
    tools = Path(tools).resolve() / "bin"
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    # Warnings of the generator mean that a part of the API is missing in the client.
    generate = [tools / "openapi-python-client", "generate", "--path", document, "--output-path", folder / "everhook_client", "--meta", "none"]
    run([*generate, "--fail-on-warning"], folder, PATH=path)
    (folder / "use.py").write_text((HERE / "use.py").read_text())
    # What the generator writes of its own is not strict; how its types are used here is.
    run([tools / "mypy", "--strict", "--no-incremental", "--follow-imports=silent", "use.py"], folder, PATH=path)
    run([tools / "python", "use.py"], folder, **where)


def check_node(tools, folder, document, where):
    modules = Path(tools).resolve() / "node_modules"
    (folder / "node_modules").symlink_to(modules)
    run([modules / ".bin/openapi-typescript", document, "-o", folder / "everhook.d.ts"], folder)
    (folder / "use.ts").write_text((HERE / "use.ts").read_text())
    (folder / "package.json").write_text('{"type": "module"}')
    compile_strictly = [modules / ".bin/tsc", "--strict", "--module", "nodenext", "--target", "es2022", "--types", "node", "use.ts"]
    run(compile_strictly, folder)
    run(["node", "use.js"], folder, **where)


def main(everhook, language, tools):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        server = Server(os.path.abspath(everhook), folder)
        try:
            document = folder / "openapi.json"
            document.write_text(json.dumps(server.document()))
            where = {"EVERHOOK_URL": f"http://{server.address}", "EVERHOOK_KEY": KEY}
            {"python": check_python, "node": check_node}[language](tools, folder, document, where)
        finally:
            server.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
