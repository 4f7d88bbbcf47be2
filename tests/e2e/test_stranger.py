"""A team's own function, in its own stack, adopts the consumer library, and nothing is missing.

Its role has the managed policy and AWSLambdaBasicExecutionRole, and nothing else; IAM is enforced.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from deadletter.contract import Category
from sandbox.server import ACCOUNT, REGION, Sandbox
from tests.e2e.deployed import Deployed, event
from tests.e2e.receiver import Receiver
from tests.e2e.stranger import FUNCTION, PIPELINE, Shop
from tests.e2e.test_afterwards import whole_session
from tests.infra.test_permissions import TAKE_ONE, THEIR_CONSUMER


@pytest.fixture(scope="module")
def shop(
    sandbox: Sandbox,
    aws: Callable[[str], Any],
    outputs: Mapping[str, str],
    stranger: Shop,
    receiver: Receiver,
) -> Deployed:
    """The pipeline whose consumer is the team's own, which has just adopted the library."""
    # Without the secret that the URLs of webhooks have: it would stand in their environment.
    stranger.adopt(receiver.url("").partition("?")[0])
    return Deployed(sandbox, aws, outputs, PIPELINE)


@pytest.fixture
def shelf() -> str:
    """Where the orders of one test go."""
    return f"s-{uuid.uuid4().hex[:8]}"


def order(shelf: str, number: int, count: int = 1, tenant: str = "") -> str:
    return event(tenant or shelf, shelf=shelf, orderId=f"{shelf}-{number}", count=count)


def ids(receiver: Receiver, shelf: str) -> list[str]:
    """The orders that the shelf took."""
    return [json.loads(body)["orderId"] for body in receiver.bodies[shelf]]


def circuit(shop: Deployed) -> str:
    """The state of their dependency's circuit."""
    answer = shop.aws("dynamodb").get_item(
        TableName=shop.app["circuits_table"],
        Key={"pipeline": {"S": PIPELINE}, "circuit_key": {"S": PIPELINE}},
        ConsistentRead=True,
    )
    state = answer.get("Item", {}).get("state", {"S": "CLOSED"})
    return str(state["S"])


def test_an_order_is_processed_and_its_duplicate_is_skipped(
    shop: Deployed, receiver: Receiver, shelf: str
) -> None:
    skipped = shop.counted("dedup.skip")
    shop.send(order(shelf, 1))
    shop.until(lambda: ids(receiver, shelf), "it is processed")
    shop.send(order(shelf, 1))
    shop.until(lambda: shop.counted("dedup.skip") == skipped + 1, "the duplicate is skipped")
    assert ids(receiver, shelf) == [f"{shelf}-1"]


def test_an_order_of_nothing_is_parked_by_their_own_role(
    shop: Deployed, stranger_role: str, shelf: str
) -> None:
    message_id = shop.send(order(shelf, 1, count=0))
    [parked] = shop.until(lambda: shop.parked(shelf), "it is parked")
    stamp = shop.stamp_of(parked)
    assert (stamp["reason"], stamp["origin"]) == ("PERMANENT", message_id)
    assert parked["Attributes"]["SenderId"] == f"{stranger_role}:{FUNCTION}"
    *_, failure = shop.row(message_id).failures
    assert (failure.category, failure.error_type) == (Category.BUSINESS, "Permanent")


def test_an_order_whose_warehouse_is_busy_is_tried_again(
    shop: Deployed, receiver: Receiver, shelf: str
) -> None:
    # By the fast clock its three tries are over before a test could say that it is busy no more.
    receiver.judges[shelf] = lambda _: 200 if receiver.posts[shelf] else 503
    message_id = shop.send(order(shelf, 1))
    shop.until(lambda: ids(receiver, shelf), "it is processed later")
    failure = shop.row(message_id).failures[0]
    assert (failure.category, failure.http_status) == (Category.TRANSIENT, 503)


def test_their_own_failures_open_the_circuit_which_refuses_and_comes_back(
    shop: Deployed, receiver: Receiver, shelf: str
) -> None:
    refused = shop.counted("RefusedWhileOpen")
    receiver.statuses[shelf] = 503
    numbers = range(6)
    for number in numbers:
        # One tenant's failures alone would not speak of the dependency.
        shop.send(order(shelf, number, tenant=f"{shelf}-{number}"))
    shop.until(lambda: circuit(shop) != "CLOSED", "the circuit opens")
    shop.until(lambda: shop.counted("RefusedWhileOpen") > refused, "messages are refused")
    assert not ids(receiver, shelf)
    receiver.statuses[shelf] = 200
    shop.until(lambda: circuit(shop) == "CLOSED", "a canary closes it")

    def all_processed() -> bool:
        shop.redrive()
        return len(ids(receiver, shelf)) == len(numbers)

    shop.until(all_processed, "all of them are processed")
    assert sorted(ids(receiver, shelf)) == [f"{shelf}-{number}" for number in numbers]


def test_their_role_is_denied_nothing(shop: Deployed) -> None:
    made = [call for call in shop.sandbox.calls() if call.caller == FUNCTION]
    assert [call for call in made if not call.allowed] == []
    assert made


def test_their_role_uses_what_it_is_granted(shop: Deployed, request: pytest.FixtureRequest) -> None:
    if not whole_session(request):
        pytest.skip("only the whole session uses everything")
    made = [call for call in shop.sandbox.calls() if call.caller == FUNCTION]
    granted = set().union(*THEIR_CONSUMER.values())
    # The mapping receives and deletes, which the emulator does not ask; the watch may start the
    # execution of an outage before the function does. No message here has an ordering key.
    unseen = {"sqs:ReceiveMessage", "sqs:DeleteMessage", "states:StartExecution"}
    unseen |= {"dynamodb:Query", "dynamodb:DeleteItem"}
    used = {call.action for call in made} & granted
    assert granted - used <= unseen


def test_their_role_may_do_what_an_event_source_mapping_does(shop: Deployed) -> None:
    role = f"arn:aws:iam::{ACCOUNT}:role/{FUNCTION}"
    needed = sorted({*TAKE_ONE, "sqs:GetQueueAttributes"})

    def may(queue: str) -> set[str]:
        answer = shop.aws("iam").simulate_principal_policy(
            PolicySourceArn=role,
            ActionNames=needed,
            ResourceArns=[f"arn:aws:sqs:{REGION}:{ACCOUNT}:deadletter-{queue}"],
        )
        return {
            result["EvalActionName"]
            for result in answer["EvaluationResults"]
            if result["EvalDecision"] == "allowed"
        }

    assert may("shop-main") == set(needed)
    assert may("orders-main") == set()
