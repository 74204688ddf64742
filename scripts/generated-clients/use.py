"""Uses the client that openapi-python-client made: creates an endpoint, publishes, lists deliveries, and tells a refusal by its type."""

import os
import time

from everhook_client import AuthenticatedClient
from everhook_client.api.deliveries import list_deliveries
from everhook_client.api.endpoints import create_endpoint
from everhook_client.api.events import publish_event
from everhook_client.models import DeliveryList, DeliveryOut, DeliveryStatus, EndpointOut, NewEndpoint, NewEvent, Ordering, Problem, Receipt

client = AuthenticatedClient(base_url=os.environ["EVERHOOK_URL"], token=os.environ["EVERHOOK_KEY"])


def never_called() -> None:
    """What the type checker must refuse: a creation without what it needs. An error that is not there is one of the checker's."""
    NewEndpoint()  # type: ignore[call-arg]
    NewEndpoint(url="https://nowhere.invalid/hook")  # type: ignore[call-arg]


def attempted() -> DeliveryOut:
    for _ in range(100):
        page = list_deliveries.sync(client=client, x_organization="default", limit=10)
        assert isinstance(page, DeliveryList), page
        if page.data and page.data[0].attempt_count > 0:
            return page.data[0]
        time.sleep(0.1)
    raise SystemExit("no attempt was made")


def main() -> None:
    wanted = NewEndpoint(url="https://nowhere.invalid/hook", event_types=["order.*"], uid="shop", ordering=Ordering.STRICT)
    endpoint = create_endpoint.sync(client=client, body=wanted)
    assert isinstance(endpoint, EndpointOut), endpoint
    assert endpoint.ordering is Ordering.STRICT and endpoint.effective_timeout_ms == 15_000

    taken = create_endpoint.sync(client=client, body=wanted)
    assert isinstance(taken, Problem) and taken.type_ == "/docs/problems/uid-taken", taken

    receipt = publish_event.sync(client=client, body=NewEvent(type_="order.paid", data={"order": 1}))
    assert isinstance(receipt, Receipt) and receipt.deliveries == 1, receipt

    refused = publish_event.sync(client=client, body=NewEvent(type_="not a type", data=1))
    assert isinstance(refused, Problem) and refused.status == 422, refused
    assert refused.type_ == "/docs/problems/invalid-fields", refused
    assert [error.field for error in refused.errors or []] == ["type"], refused

    delivery = attempted()
    assert delivery.event_id == receipt.id and delivery.status is DeliveryStatus.WAITING, delivery
    assert delivery.last_error is not None and delivery.ended_at is None, delivery
    print("the generated Python client works")


main()
