"""Verifies captured requests with the official Python package: python verify.py captured-requests.json"""

import json
import sys

from standardwebhooks import Webhook, WebhookVerificationError


def is_valid(secret, body, headers):
    try:
        Webhook(secret).verify(body, headers)
        return True
    except WebhookVerificationError:
        return False


STRANGER = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
faults = 0
with open(sys.argv[1], encoding="utf-8") as file:
    cases = json.load(file)
for case in cases:
    body, headers = case["body"], case["headers"]
    checks = [(f"secret {n + 1} verifies", is_valid(secret, body, headers)) for n, secret in enumerate(case["secrets"])]
    checks.append(("a changed body does not", not is_valid(case["secrets"][0], body + " ", headers)))
    checks.append(("a stranger's secret does not", not is_valid(STRANGER, body, headers)))
    for name, holds in checks:
        print(f"{'ok' if holds else 'FAILED'}  python  {case['name']}: {name}")
        faults += not holds
sys.exit(1 if faults or not cases else 0)
