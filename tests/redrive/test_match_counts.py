"""Matches of rules are written for many letters at once, soon, and none is left behind."""

from __future__ import annotations

import pytest

from deadletter.failure.ledger import RecordsUnavailable
from deadletter.redrive.mover import ENOUGH_MATCHES, MOST_SECONDS, MatchCounts
from deadletter.signals.figures import Count
from deadletter.testing.clock import START, Clock


class Counted:
    """Writes of counts; `error` is raised by each."""

    def __init__(self) -> None:
        self.writes: list[tuple[dict[str, int], dict[str, int]]] = []
        self.error: Exception | None = None

    def count_matches(self, matched: dict[str, int], shadow_matched: dict[str, int]) -> None:
        self.writes.append((matched, shadow_matched))
        if self.error is not None:
            raise self.error


class Counting:
    def __init__(self) -> None:
        self.records, self.clock = Counted(), Clock(START)
        self.counts = MatchCounts(self.records, self.clock)  # type: ignore[arg-type]

    @property
    def writes(self) -> list[tuple[dict[str, int], dict[str, int]]]:
        return self.records.writes


def test_without_gathering_each_count_is_written_at_once() -> None:
    counting = Counting()
    counting.counts.add(["r", "r"], ["s"])
    counting.counts.add([], [])
    assert counting.writes == [({"r": 2}, {"s": 1})]


def test_a_gathered_count_waits_for_a_chunk_full_of_matches() -> None:
    counting = Counting()
    counting.counts.gathers = True
    counting.counts.add(["r"] * (ENOUGH_MATCHES - 1) + ["q"], ["s"])
    assert counting.writes == []
    counting.counts.add(["r"], ["s"])
    assert counting.writes == [({"r": ENOUGH_MATCHES}, {})]


def test_no_count_waits_longer_than_a_few_seconds() -> None:
    counting = Counting()
    counting.counts.gathers = True
    counting.counts.add(["r"], [])
    counting.clock.advance(MOST_SECONDS - 1)
    counting.counts.add([], ["s"])
    assert counting.writes == []
    counting.clock.advance(1)
    counting.counts.add([], [])
    assert counting.writes == [({"r": 1}, {"s": 1})]
    counting.counts.add(["r"], [])
    assert len(counting.writes) == 1, "the seconds begin with the first match that waits"


def test_counts_that_a_write_lost_are_not_written_twice() -> None:
    counting = Counting()
    counting.records.error = RecordsUnavailable(Count.REDRIVE_UNRECORDED)
    with pytest.raises(RecordsUnavailable):
        counting.counts.add(["r"], [])
    counting.records.error = None
    counting.counts.add([], [])
    assert counting.writes == [({"r": 1}, {})]
