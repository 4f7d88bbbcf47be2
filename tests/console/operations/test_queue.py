"""A queue that belongs to no app of ours."""

from __future__ import annotations

import time
from functools import partial

import pytest

from console.operations import aws
from console.operations.errors import Cause, Problem
from console.operations.queue import bare_queue
from console.operations.session import Session
from tests.console.conftest import REGION, Cloud


@pytest.fixture
def session(cloud: Cloud) -> Session:
    """A session in an account where nothing of ours is deployed."""
    return Session(partial(aws.connect, None, REGION), "deadletter", time.time)


@pytest.mark.parametrize("named", ["billing-dlq", f"arn:aws:sqs:{REGION}:123456789012:billing-dlq"])
def test_it_is_named_by_its_name_or_arn_as_well(cloud: Cloud, session: Session, named: str) -> None:
    url = cloud.queue("billing-dlq")

    assert bare_queue(session, named).url == url


@pytest.mark.parametrize("named", ["nowhere", f"https://sqs.{REGION}.amazonaws.com/1/nowhere"])
def test_a_queue_that_does_not_exist_is_named(cloud: Cloud, session: Session, named: str) -> None:
    with pytest.raises(Problem, match=r"There is no queue '.*nowhere'") as raised:
        bare_queue(session, named)

    assert raised.value.cause is Cause.ABSENT
