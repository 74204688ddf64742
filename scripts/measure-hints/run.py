#!/usr/bin/env python3
"""What hints over RabbitMQ bring over PostgreSQL's NOTIFY, with two nodes on one database.

    scripts/measure-hints/run.py BINARY POSTGRES_URL AMQP_URL [EVENTS] [ROUNDS]

Starts two nodes on a new database, publishes events one after the other through the first alone, and measures how long each takes until its endpoint
gets it: about half of the endpoints are sent for by the second node, which learns of their events by a hint. Then it publishes as fast as eight
connections can, and reads the CPU time that the connections of the nodes took of the database. The two ways alternate, in one run, so that
a busy machine disturbs both alike. It needs `psql`, and the right to create databases; it drops what it created.
"""
import http.client, json, os, re, shutil, signal, socket, statistics, subprocess, sys, tempfile, threading, time, urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ENDPOINTS = 16
CONNECTIONS = 8
READY_TIMEOUT = 120
arrivals, arrived = {}, threading.Condition()


class Sink(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        with arrived:
            arrivals.setdefault(json.loads(body)["data"]["n"], time.perf_counter())
            arrived.notify_all()
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


class Node:
    def __init__(self, binary, folder, database, amqp):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        os.makedirs(folder)
        env = {name: value for name, value in os.environ.items() if not name.startswith("EVERHOOK_")}
        env.update(EVERHOOK_ADMIN_KEY="eh_measure_0123456789abcdef0123456789", EVERHOOK_DATABASE=database, EVERHOOK_SEAL_KEY="A" * 43 + "=")
        if amqp:
            env["EVERHOOK_AMQP"] = amqp
        command = [binary, "serve", "--listen", f"127.0.0.1:{self.port}", "--allow-private-networks=127.0.0.0/8", "--data", folder + "/data"]
        self.log = open(folder + "/log", "w")
        self.process = subprocess.Popen(command, env=env, cwd=folder, stdout=self.log, stderr=self.log)
        deadline = time.time() + READY_TIMEOUT
        while self.status() != 200:
            if self.process.poll() is not None or time.time() > deadline:
                sys.exit(open(folder + "/log").read()[-2000:])
            time.sleep(0.1)

    def status(self):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            connection.request("GET", "/readyz")
            return connection.getresponse().status
        except OSError:
            return None

    def connect(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

        def ask(path, body):
            headers = {"authorization": "Bearer eh_measure_0123456789abcdef0123456789", "content-type": "application/json"}
            connection.request("POST", path, json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status >= 300:
                raise RuntimeError(f"{path}: {answer.status} {text[:300]}")
            return json.loads(text)

        return ask

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()


def database_cpu(name):
    """Seconds of CPU that the connections to a database have taken."""
    total = 0.0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = open(f"/proc/{pid}/cmdline").read()
            if command.startswith("postgres:") and f" {name} " in command:
                fields = open(f"/proc/{pid}/stat").read().rsplit(") ", 1)[1].split()
                total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except OSError:
            pass
    return total


def await_arrivals(wanted, seconds=60):
    with arrived:
        if not arrived.wait_for(lambda: all(n in arrivals for n in wanted), seconds):
            raise RuntimeError(f"{sum(n not in arrivals for n in wanted)} events did not arrive within {seconds} s")


def measure(binary, url, amqp, events):
    name = f"everhook_hints_{os.getpid()}_{time.time_ns()}"
    parts = urllib.parse.urlsplit(url)
    own = parts._replace(path="/" + name).geturl()
    subprocess.run(["psql", "-q", url, "-c", f"CREATE DATABASE {name}"], check=True)
    folder, nodes = tempfile.mkdtemp(prefix="measure-hints-"), []
    try:
        nodes = [Node(binary, f"{folder}/{n}", own, amqp) for n in ("first", "second")]
        time.sleep(5)  # until each has its share of the shards
        ask = nodes[0].connect()
        for n in range(ENDPOINTS):
            ask("/v1/endpoints", {"url": f"http://127.0.0.1:{sink.server_port}/", "event_types": [f"measure.{n}"]})
        base = measure.next = getattr(measure, "next", 0) + 1_000_000
        took = []
        for n in range(base, base + events):
            began = time.perf_counter()
            ask("/v1/events", {"type": f"measure.{n % ENDPOINTS}", "data": {"n": n}})
            await_arrivals([n])
            took.append((arrivals[n] - began) * 1e3)
        took = sorted(took[ENDPOINTS:])  # the first of each endpoint connects
        before, began = database_cpu(name), time.perf_counter()
        load = range(base + events, base + events + events * 4)

        def publish(part):
            ask = nodes[0].connect()
            for n in part:
                ask("/v1/events", {"type": f"measure.{n % ENDPOINTS}", "data": {"n": n}})

        threads = [threading.Thread(target=publish, args=(load[part::CONNECTIONS],)) for part in range(CONNECTIONS)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        await_arrivals(load)
        seconds = time.perf_counter() - began
        cpu = (database_cpu(name) - before) * 1e3 / len(load)
        return {"p50": took[len(took) // 2], "p99": took[int(len(took) * 0.99)], "rate": len(load) / seconds, "cpu": cpu}
    finally:
        [node.stop() for node in nodes]
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run(["psql", "-q", url, "-c", f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"])


if __name__ == "__main__":
    binary, url, amqp = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3]
    events, rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 500, int(sys.argv[5]) if len(sys.argv) > 5 else 3
    sink = ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    threading.Thread(target=sink.serve_forever, daemon=True).start()
    runs = {"NOTIFY": [], "RabbitMQ": []}
    for _ in range(rounds):
        for way, broker in (("NOTIFY", None), ("RabbitMQ", amqp)):
            runs[way].append(measure(binary, url, broker, events))
            print(way, {key: round(value, 2) for key, value in runs[way][-1].items()}, flush=True)
    print(f"\n{'medians of ' + str(rounds):<28} {'NOTIFY':>10} {'RabbitMQ':>10} {'ratio':>7}")
    titles = {"p50": "publish to arrival, p50 ms", "p99": "publish to arrival, p99 ms", "rate": "events per second", "cpu": "database CPU, ms an event"}
    for key, title in titles.items():
        first, second = (statistics.median(run[key] for run in runs[way]) for way in runs)
        print(f"{title:<28} {first:>10.2f} {second:>10.2f} {second / first if first else 0:>7.2f}")
