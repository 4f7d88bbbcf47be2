"""The three endpoints answer as they are told to, and remember who came."""

import itertools
import time
from collections.abc import Iterator

import pytest

from deadletter.webhook.http import HttpsClient
from deadletter.webhook.url_guard import read_url
from sandbox.demo.events import HEALTHY, RECOVERING, REFUSING, digest
from sandbox.demo.receiver import Receiver, Visit
from sandbox.progress import STANDSTILL_SECONDS

HEADERS = {"webhook-id": "first-life", "webhook-attempt": "2"}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    seconds = itertools.count(1.0)
    with Receiver(seconds.__next__) as running:
        yield running


def post(receiver: Receiver, tenant: str, body: bytes = b"{}") -> int:
    to = read_url(receiver.url(tenant), allow_loopback=True)
    return HttpsClient(STANDSTILL_SECONDS, time.monotonic)(to, body, HEADERS).status


def test_each_endpoint_has_its_own_answer(receiver):
    answers = [post(receiver, tenant) for tenant in (HEALTHY, RECOVERING, REFUSING, "nobody")]
    assert answers == [200, 503, 422, 404]


def test_a_mended_endpoint_takes_events_and_the_refusing_one_goes_on_refusing(receiver):
    receiver.mend()
    assert [post(receiver, tenant) for tenant in (RECOVERING, REFUSING)] == [200, 422]


def test_every_visit_is_remembered_whatever_the_answer_was(receiver):
    large = b"x" * 900_000
    post(receiver, RECOVERING, large)
    receiver.mend()
    post(receiver, RECOVERING, large)
    visits = [
        Visit(RECOVERING, digest(large), "first-life", 2, status, at)
        for status, at in ((503, 1.0), (200, 2.0))
    ]
    assert list(receiver.visits) == visits
    assert [visit.accepted for visit in receiver.visits] == [False, True]
