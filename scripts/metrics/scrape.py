"""Scrapes a server of its own with the official parser of Prometheus' client library, and checks the names. With promtool, it lints them as well.

Usage: scrape.py <everhook binary> [<promtool>]
"""

import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

KEY = "eh_" + "m" * 32

# As the designs that Everhook follows write them; `docs/monitoring.md` has all others.
SAMPLES = {
    "webhook_deliveries_total": {"status", "event_type", "failure_category", "tenant_id"},
    "webhook_delivery_duration_seconds": {"percentile"},
    "webhook_delivery_duration_seconds_bucket": {"status", "le"},
    "webhook_retry_attempt_number_bucket": {"outcome", "le"},
    "webhook_queue_depth": {"priority"},
    "webhook_circuit_breaker_state": {"webhook_id", "state"},
    "webhook_circuit_breaker_transitions_total": {"from_state", "to_state", "reason"},
    "webhook_dlq_size": {"tenant_id"},
    "webhook_worker_pool_utilization": {"pool_id"},
    "endpoint_failures_total": {"endpoint_id"},
    "endpoint_disabled_count": set(),
    "retry_attempts_total": {"tenant_id", "retry_schedule", "attempt", "outcome"},
}
# Nothing of these happens in this short life.
FAMILIES = {
    "webhook_circuit_breaker_redis_fallback_active",
    "webhook_rate_limit_hits",
    "webhook_circuit_blocked_deliveries",
    "notification_sent_count",
}


# What promtool says about names, which stay: the designs that Everhook follows write them so, and dashboards use them.
KNOWN_COMPLAINTS = {
    'endpoint_disabled_count non-histogram and non-summary metrics should not have "_count" suffix',
    'notification_sent_count non-histogram and non-summary metrics should not have "_count" suffix',
}


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % probe.getsockname()[1]


def ask(address, path, body=None):
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(f"http://{address}{path}", data, headers), timeout=10) as response:
        return response.read().decode()


def scrape(address):
    families = list(text_string_to_metric_families(ask(address, "/metrics")))
    samples = {}
    for family in families:
        for sample in family.samples:
            samples.setdefault(sample.name, sample.labels)
    return families, samples


def wait_until_ready(address):
    for _ in range(300):
        try:
            return ask(address, "/readyz")
        except urllib.error.URLError:
            time.sleep(0.1)
    raise SystemExit("the server is not ready")


def check(address):
    breaker = {"rule": "consecutive", "failure_threshold": 1, "success_threshold": 1}
    once = json.loads(ask(address, "/v1/retry-schedules", {"name": "once", "strategy": "custom", "intervals": [1], "max_attempts": 1}))
    endpoint = {"url": "http://127.0.0.1:9/", "event_types": ["*"], "retry_schedule_id": once["id"], "circuit_breaker": breaker}
    ask(address, "/v1/endpoints", endpoint)
    ask(address, "/v1/events", {"type": "order.paid", "data": {}})
    for _ in range(300):
        families, samples = scrape(address)
        missing = sorted(set(SAMPLES) - set(samples))
        if not missing:
            break
        time.sleep(0.1)
    assert not missing, f"no samples of {missing}"
    for name, labels in SAMPLES.items():
        assert set(samples[name]) == labels, f"{name} has the labels {set(samples[name])} instead of {labels}"
    kinds = {family.name: family.type for family in families if family.documentation}
    absent = sorted(FAMILIES - set(kinds))
    assert not absent, f"{absent} are not exported"
    assert kinds["webhook_delivery_duration_seconds"] == "histogram", kinds
    print(f"the official parser read {len(kinds)} metrics")


def lint(address, promtool):
    checked = subprocess.run([promtool, "check", "metrics"], input=ask(address, "/metrics"), capture_output=True, text=True)
    complaints = {line.strip() for line in (checked.stdout + checked.stderr).splitlines() if line.strip()}
    new = sorted(complaints - KNOWN_COMPLAINTS)
    assert not new, f"promtool: {new}"
    # 3: it complained about something.
    assert checked.returncode in ([3] if complaints else [0]), f"promtool ended with {checked.returncode}"
    print(f"promtool has {len(complaints)} complaints, all of them known")


def main():
    with tempfile.TemporaryDirectory() as folder:
        address = free_address()
        command = [sys.argv[1], "serve", "--listen", address, "--data", str(Path(folder) / "data"), "--admin-key", KEY, "--allow-private-networks"]
        with open(Path(folder) / "log", "w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                wait_until_ready(address)
                check(address)
                if len(sys.argv) > 2:
                    lint(address, sys.argv[2])
            finally:
                process.terminate()
                process.wait(30)


main()
