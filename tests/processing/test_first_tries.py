"""In trouble a message that failed comes back no sooner than plain SQS gives it back."""

from __future__ import annotations

import pytest

from deadletter.failure.signals import Transient
from deadletter.processing.visibility import REMEMBERED, FirstTries
from tests.each_row import each_row
from tests.processing.doubles import Site, record
from tests.samples import letter


@each_row(
    ("good", "bad", "trouble"),
    [(0, 0, False), (0, 1, False), (0, 2, True), (18, 2, False), (17, 3, True), (18, 1, False)],
)
def test_a_blip_is_no_trouble_and_more_is(good: int, bad: int, trouble: bool) -> None:
    tries = FirstTries()
    for failed in [True] * bad + [False] * good:
        tries.tried(failed=failed)
    assert tries.show_trouble is trouble


def test_trouble_is_over_after_twenty_messages_that_went_well() -> None:
    tries = FirstTries()
    for failed in [True] * REMEMBERED + [False] * (REMEMBERED - 2):
        tries.tried(failed=failed)
    assert not tries.show_trouble


def waits(site: Site, error: Exception, receive: int, count: int = 4) -> list[float | None]:
    """The seconds that each of some messages is hidden for, in the order of their failures."""
    names = [f"m{number}" for number in range(count)]
    site.raises = dict.fromkeys(names, error)
    records = [record(letter(message_id=name), receive) for name in names]
    return [result.wait for result in site.process(*records).results]


def test_the_first_failure_comes_back_soon_and_those_that_follow_as_the_queue_has_it() -> None:
    first, *others = waits(Site(), ConnectionRefusedError("x"), 1)
    assert first is not None
    assert first <= 10
    assert others == [None, None, None]


def test_what_fails_by_its_own_fault_comes_back_soon_and_is_no_sign_of_trouble() -> None:
    """Plain SQS takes a quarter of an hour to give up a poisonous message."""
    site = Site()
    assert None not in waits(site, RuntimeError("x"), 1)
    assert waits(site, ConnectionRefusedError("x"), 1, count=1) != [None]
    assert waits(site, ConnectionRefusedError("x"), 1) == [None] * 4
    assert None not in waits(site, RuntimeError("x"), 2)


def test_retries_are_no_first_tries() -> None:
    assert None not in waits(Site(), ConnectionRefusedError("x"), 2)


def test_a_dependency_that_says_when_is_called_then() -> None:
    site = Site()
    waits(site, ConnectionRefusedError("x"), 1)
    assert waits(site, Transient(retry_after=60), 2) == [pytest.approx(60)] * 4
