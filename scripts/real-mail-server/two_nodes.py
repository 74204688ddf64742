"""Two nodes on one PostgreSQL database, with every time in seconds: an endpoint fails, is warned of, disabled, enabled again, and works again.

Each administrator gets one e-mail of each step, however many nodes there are. Needs EVERHOOK_TEST_POSTGRES and psql.
"""

import os
import shutil
import subprocess
import time
import uuid
from contextlib import contextmanager

from support import Everhook, Inbox, Receiver, call, wait_for

ADMINS = ["dev@example.com", "ops@example.com"]
SEAL_KEY = "dGhlIHNlYWxpbmcga2V5IG9mIHR3byByZWFsIG5vZGU="
HEALTH = [
    "--endpoint-failing-min=2", "--endpoint-failing-spread=0s", "--endpoint-warning-after=3s", "--endpoint-disable-after=8s",
    "--health-check-cron=* * * * * *",
]
# Longer than a check, a hint and a retry of an e-mail: what would come twice has come by then.
QUIET_FOR = 7
STORY = ["[Everhook - Warning] Failing Endpoint: Shop", "[Everhook - Action Required] Endpoint Disabled: Shop", "[Everhook - Info] Endpoint Recovered: Shop"]


def run(binary, folder):
    postgres = os.environ.get("EVERHOOK_TEST_POSTGRES")
    if not postgres or not shutil.which("psql"):
        print("two nodes: skipped, EVERHOOK_TEST_POSTGRES is not set or psql is missing")
        return
    with database(postgres) as url, Inbox() as inbox, Receiver(500) as receiver:
        flags = ["--database", url, "--seal-key", SEAL_KEY, "--smtp", inbox.url, "--smtp-from", "Everhook <hooks@example.com>", *HEALTH]
        flags += ["--admin-emails", ", ".join(ADMINS)]
        with Everhook(binary, folder, "first", flags) as first, Everhook(binary, folder, "second", flags) as second:
            play([first.address, second.address], receiver, inbox)


def play(nodes, receiver, inbox):
    endpoint = call(nodes[0], "POST", "/v1/endpoints", {"url": receiver.url, "name": "Shop", "event_types": ["order.paid"]})["id"]
    began = time.monotonic()
    while not all(inbox.subjects(admin)[1:] for admin in ADMINS):
        assert time.monotonic() - began < 60, f"the endpoint was not disabled: {[inbox.subjects(admin) for admin in ADMINS]}"
        for node in nodes:
            call(node, "POST", "/v1/events", {"type": "order.paid", "data": {}})
        time.sleep(0.5)
    for node in nodes:
        health = wait_for(lambda: disabled(node, endpoint), "a node does not show that the endpoint is disabled")
        assert [record["kind"] for record in health["history"]] == ["disabled", "warned"], health["history"]
    receiver.status = 204
    call(nodes[1], "PUT", f"/v1/endpoints/{endpoint}", {"enabled": True})
    call(nodes[0], "POST", "/v1/events", {"type": "order.paid", "data": {}})
    wait_for(lambda: all(inbox.subjects(admin)[2:] for admin in ADMINS), "nobody heard that the endpoint works again")
    for node in nodes:
        call(node, "POST", "/v1/events", {"type": "order.paid", "data": {}})
    time.sleep(QUIET_FOR)
    for admin in ADMINS:
        assert inbox.subjects(admin) == STORY, inbox.subjects(admin)
    notifications = call(nodes[0], "GET", "/v1/notifications?status=delivered&limit=100")["data"]
    assert len(notifications) == len(STORY) * len(ADMINS), notifications
    print(f"two nodes: each of {len(ADMINS)} administrators got one e-mail of each of {len(STORY)} steps")


def disabled(node, endpoint):
    health = call(node, "GET", f"/v1/endpoints/{endpoint}/health")
    return health if health["status"] == "disabled" else None


@contextmanager
def database(postgres):
    """A database of its own on that server, and its URL."""
    name = "mail_" + uuid.uuid4().hex[:12]
    psql(postgres, f"CREATE DATABASE {name}")
    try:
        yield postgres.rpartition("/")[0] + "/" + name
    finally:
        psql(postgres, f"DROP DATABASE {name} WITH (FORCE)")


def psql(postgres, statement):
    subprocess.run(["psql", "-qAt", "-d", postgres, "-c", statement], check=True)
