"""A look at a queue that belongs to no app of ours."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest

from console.operations import aws
from console.operations.problem import Cause, Problem
from console.operations.queue import bare_queue
from console.operations.session import Session
from tests.console.conftest import REGION, Cloud


@pytest.fixture
def session(cloud: Cloud) -> Session:
    """A session in an account where nothing of ours is deployed."""
    return Session(partial(aws.connect, None, REGION), "deadletter", time.time)


def test_a_bare_queue_shows_its_attributes_and_its_messages(cloud: Cloud, session: Session) -> None:
    url = cloud.queue("billing-dlq", MessageRetentionPeriod="345600")
    id_ = cloud.letter('{"order": 7}', queue="billing-dlq", kind="order")

    queue = bare_queue(session, url)

    assert (queue.name, queue.is_fifo) == ("billing-dlq", False)
    assert queue.attributes["MessageRetentionPeriod"] == "345600"
    assert queue.depth.visible == 1
    [letter] = queue.letters
    assert (letter.message_id, letter.body) == (id_, '{"order": 7}')
    assert letter.attributes["kind"].value == "order"
    assert queue.is_whole


def test_its_messages_are_visible_again_at_once(cloud: Cloud, session: Session) -> None:
    url = cloud.queue("billing-dlq")
    for number in range(12):
        cloud.letter(str(number), queue="billing-dlq")

    assert bare_queue(session, url).looked_at == 12

    assert cloud.visible("billing-dlq") == 12


@pytest.mark.parametrize("most", [0, 3, 11])
def test_it_looks_at_no_more_messages_than_asked_for(
    cloud: Cloud, session: Session, most: int
) -> None:
    url = cloud.queue("billing-dlq")
    for number in range(15):
        cloud.letter(str(number), queue="billing-dlq")
    requests: list[Any] = []
    session.aws.sqs.meta.events.register(
        "provide-client-params.sqs.ReceiveMessage",
        lambda params, **_: requests.append(params["MaxNumberOfMessages"]),
    )

    queue = bare_queue(session, url, most=most)

    assert (queue.looked_at, len(queue.letters), sum(requests)) == (most, most, most)
    assert not queue.is_whole
    assert cloud.visible("billing-dlq") == 15


@pytest.mark.parametrize("named", ["billing-dlq", f"arn:aws:sqs:{REGION}:123456789012:billing-dlq"])
def test_it_is_named_by_its_name_or_arn_as_well(cloud: Cloud, session: Session, named: str) -> None:
    url = cloud.queue("billing-dlq")

    assert bare_queue(session, named, most=0).url == url


@pytest.mark.parametrize("named", ["nowhere", f"https://sqs.{REGION}.amazonaws.com/1/nowhere"])
def test_a_queue_that_does_not_exist_is_named(cloud: Cloud, session: Session, named: str) -> None:
    with pytest.raises(Problem, match=r"There is no queue '.*nowhere'") as raised:
        bare_queue(session, named)

    assert raised.value.cause is Cause.ABSENT
