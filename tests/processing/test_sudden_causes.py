"""What one process counts of causes, when it writes it, and what it parks for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest

from deadletter.contract import Blame, Category
from deadletter.failure.causes import (
    AGAIN,
    BUCKET,
    NO_CAUSES,
    WINDOW,
    CauseHold,
    Causes,
    CausesUnavailable,
    FailedTry,
    Second,
    bucket_of,
)
from deadletter.failure.classify import Diagnosis
from deadletter.failure.fate import Fate
from deadletter.failure.signals import Permanent
from deadletter.message.stamp import Stamp
from deadletter.processing.sudden_causes import (
    BETWEEN_FAILURES,
    BETWEEN_WRITES,
    KNOWN_FOR,
    MOST_PENDING,
    MOST_UNTOLD,
    SuddenCauses,
    hash_of,
)
from deadletter.signals.figures import Count
from deadletter.testing.clock import Clock
from tests.each_row import each_row
from tests.processing.doubles import DEADLINE, Site, record, redriven
from tests.samples import NOW, letter

NEW = Stamp("a")
BAD = Diagnosis(Category.SCHEMA, "ValidationError", "no field", fingerprint="bad")


@dataclass
class Row:
    """The row of causes, and what was written to it."""

    causes: Causes = NO_CAUSES
    writes: list[list[Second]] = field(default_factory=list)
    down: bool = False
    reads: int = 0

    def read(self) -> Causes:
        self.reads += 1
        if self.down:
            raise CausesUnavailable
        return self.causes

    def count(self, seconds: Iterable[Second], now: float) -> tuple[Causes, tuple[str, ...]]:
        if self.down:
            raise CausesUnavailable
        counted = list(seconds)
        self.writes.append(counted)
        before, self.causes = self.causes, self.causes.counting(counted, now).judged(now)
        return self.causes, tuple(self.causes.held(now).keys() - before.held(now).keys())

    def tries(self) -> int:
        return sum(second.total for write in self.writes for second in write)


@dataclass
class Process:
    """One process, the row that it shares, and what it counted."""

    row: Row = field(default_factory=Row)
    clock: Clock = field(default_factory=Clock)
    counted: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.causes = SuddenCauses(
            self.row, self.clock, lambda name, number: self.counted.append((name, number))
        )

    def after_a_healthy_hour(self) -> Process:
        number = bucket_of(self.clock.now)
        totals = {number - back: 100 for back in range(1, 10)}
        self.row.causes = replace(self.row.causes, totals=totals, counts={"old": {number - 9: 1}})
        # A process reads the row with its first write.
        self.causes.processed(1, NEW)
        self.causes.report()
        self.row.writes.clear()
        return self

    def fail(self, origin: str, diagnosis: Diagnosis = BAD, receive: int = 1) -> bool:
        """One letter fails; whether it may be parked when it fails again."""
        self.causes.failed(receive, Stamp(origin), diagnosis)
        return self.causes.may_park(diagnosis.fingerprint, receive=2)


def test_in_good_times_a_process_writes_once_in_two_minutes() -> None:
    process = Process()
    for _ in range(360):
        process.causes.processed(1, NEW)
        process.causes.report()
        process.clock.advance(1)
    assert len(process.row.writes) == 3
    assert process.row.tries() == 241


def test_a_busy_process_writes_sooner_and_keeps_no_more_than_a_thousand() -> None:
    process = Process()
    for _ in range(5 * MOST_PENDING):
        process.causes.processed(1, NEW)
        process.causes.report()
        process.clock.advance(0.01)
    assert len(process.row.writes) == 5
    assert process.row.tries() == 1 + 4 * MOST_PENDING


@each_row(
    ("receive", "stamp", "counts"),
    [
        (1, NEW, True),
        (2, NEW, False),
        # Sent back from the DLQ: it has failed before.
        (1, Stamp("a", 1), False),
        (1, Stamp("a", 3, base=2), False),
        # It was never tried.
        (1, Stamp("a", 2, base=2), True),
        # It was tried while its cause dominated.
        (1, Stamp("a", 3, base=3, spared=3), False),
        (1, Stamp("a", 3, base=1, spared=3), False),
    ],
)
def test_only_the_first_try_of_a_letter_counts(receive: int, stamp: Stamp, counts: bool) -> None:
    process = Process()
    process.causes.processed(receive, stamp)
    process.causes.failed(receive, stamp, BAD)
    process.causes.report()
    assert process.row.tries() == (2 if counts else 0)


def test_only_failures_that_speak_of_nothing_else_have_a_cause() -> None:
    process = Process()
    process.causes.failed(1, Stamp("a"), replace(BAD, blame=Blame.DEPENDENCY))
    process.causes.failed(1, Stamp("b"), replace(BAD, fingerprint=""))
    process.causes.failed(1, Stamp("c"), BAD)
    process.causes.report()
    [[second]] = process.row.writes
    assert second.total == 3
    assert second.failed == (FailedTry("bad", "ValidationError", hash_of("c")),)


def test_failures_that_may_become_sudden_are_written_at_most_once_a_second() -> None:
    process = Process().after_a_healthy_hour()
    process.fail("a")
    assert process.row.writes == []
    process.clock.advance(BETWEEN_FAILURES)
    process.fail("b")
    assert [write[-1].failed[-1].letter for write in process.row.writes] == [hash_of("b")]
    for number in range(MOST_UNTOLD):
        process.fail(f"c{number}")
    assert len(process.row.writes) == 2


def test_failures_that_change_nothing_wait_with_the_totals() -> None:
    process = Process()
    process.row.causes = replace(
        NO_CAUSES, holds={"bad": CauseHold(process.clock.now, process.clock.now + 3_600, "E")}
    )
    assert not process.fail("first")
    for number in range(50):
        assert not process.fail(str(number))
        process.clock.advance(1)
    assert len(process.row.writes) == 1
    process.clock.advance(BETWEEN_WRITES)
    process.causes.report()
    assert process.row.tries() == 51


def test_parking_stops_when_a_cause_suddenly_dominates_and_it_is_counted_once() -> None:
    process = Process().after_a_healthy_hour()
    other = Process(process.row, process.clock)
    parked = 0
    for number in range(40):
        parked += process.fail(f"a{number}") + other.fail(f"b{number}")
        process.clock.advance(0.1)
    assert 15 <= parked <= 20 + MOST_UNTOLD
    assert process.counted + other.counted == [(Count.SUDDENLY_PERMANENT, 1)]


def test_a_new_cause_parks_no_first_receive_and_a_known_one_does() -> None:
    process = Process().after_a_healthy_hour()
    old = replace(BAD, fingerprint="old")
    process.causes.failed(1, Stamp("a"), BAD)
    process.causes.failed(1, Stamp("b"), old)
    assert [process.causes.may_park(cause, 1) for cause in ("bad", "old")] == [False, True]
    assert [process.causes.may_park(cause, 2) for cause in ("bad", "old")] == [True, True]
    # It is known once its bucket is neither the present one nor the last.
    process.clock.advance(BETWEEN_FAILURES)
    process.causes.report()
    process.clock.advance(BUCKET)
    assert not process.causes.may_park("bad", 1)
    process.clock.advance(BUCKET)
    assert process.causes.may_park("bad", 1)


def test_a_message_of_a_new_cause_comes_back_by_the_queues_own_time_and_is_parked_then() -> None:
    process = Process().after_a_healthy_hour()
    site = Site(clock=process.clock, causes=process.causes)
    site.raises = {"m1": Permanent("no field")}
    [first] = site.process(record(letter(message_id="m1"))).results
    assert (first.fate, first.wait, site.lot.sent) == (Fate.FAILED, None, [])
    assert site.queue.calls == []
    [second] = site.process(record(letter(message_id="m1"), receive=2)).results
    assert (second.fate, len(site.lot.sent)) == (Fate.PARKED, 1)


def test_of_a_deployment_that_breaks_every_message_no_letter_is_parked() -> None:
    """Ten processes, two messages a second, each again after three minutes: from its first second
    to its last."""
    row = Row()
    processes = [Process(row).after_a_healthy_hour() for _ in range(10)]
    clock = processes[0].clock
    parked = 0
    for second in range(1_200):
        for process in processes:
            process.clock.now = clock.now
        for number in (2 * second, 2 * second + 1):
            process = processes[number % 10]
            process.causes.failed(1, Stamp(f"m{number}"), BAD)
            parked += process.causes.may_park("bad", 1)
            again = number - 360
            if again >= 0:
                process.causes.failed(2, Stamp(f"m{again}"), BAD)
                parked += process.causes.may_park("bad", 2)
        clock.advance(1)
    assert parked == 0


def test_what_is_not_written_yet_counts_for_the_process_that_counted_it() -> None:
    process = Process().after_a_healthy_hour()
    for number in range(18):
        process.fail(str(number))
        process.clock.advance(1)
    assert process.row.causes.holds == {}
    process.row.down = True
    assert [process.fail(name) for name in "abcdef"] == [True] + 5 * [False]


def test_without_an_answer_nothing_is_parked_and_nothing_is_lost() -> None:
    process = Process()
    process.row.down = True
    assert [process.fail(name) for name in "abcdef"] == [False] * 6
    process.clock.advance(BETWEEN_FAILURES)
    process.row.down = False
    assert process.fail("g")
    assert process.row.tries() == 7


def test_a_store_that_refuses_is_asked_once_a_second() -> None:
    process = Process()
    process.row.down = True
    asked = 0

    def refuse(_: Iterable[Second], __: float) -> tuple[Causes, tuple[str, ...]]:
        nonlocal asked
        asked += 1
        raise CausesUnavailable

    process.row.count = refuse  # type: ignore[method-assign]
    for name in "abcdefgh":
        process.fail(name)
    assert asked == 1


def test_a_process_that_counted_nothing_reads_the_causes_once_before_it_parks() -> None:
    """The receive before left no record: its process was killed, or the table throttled it."""
    process = Process()
    assert [process.fail(name, receive=2) for name in "abc"] == [True] * 3
    assert (process.row.reads, process.row.writes) == (1, [])


def test_a_process_that_cannot_read_the_causes_parks_nothing_and_asks_once_a_second() -> None:
    process = Process()
    process.row.down = True
    assert [process.fail(name, receive=2) for name in "abc"] == [False] * 3
    assert process.row.reads == 1
    process.clock.advance(BETWEEN_FAILURES)
    process.row.down = False
    assert process.fail("d", receive=2)


def test_a_hold_that_others_began_is_known_within_a_minute_without_a_write() -> None:
    process = Process()
    assert process.fail("a", receive=2)
    hold = CauseHold(process.clock.now, process.clock.now + 3_600, "E")
    process.row.causes = replace(NO_CAUSES, holds={"bad": hold})
    process.clock.advance(KNOWN_FOR)
    assert not process.fail("b", receive=2)
    assert (process.row.reads, process.row.writes) == (2, [])


@pytest.mark.parametrize("down", [False, True])
def test_a_permanent_failure_is_parked_at_the_receive_that_shows_it(down: bool) -> None:
    """Its first receive ended without a record: no process has counted anything yet."""
    process = Process()
    process.row.down = down
    site = Site(clock=process.clock, causes=process.causes)
    site.raises = {"m1": Permanent("no field")}
    [result] = site.process(record(letter(message_id="m1"), receive=2)).results
    assert result.fate is (Fate.FAILED if down else Fate.PARKED)
    assert len(site.lot.sent) == (0 if down else 1)


def test_outcomes_older_than_the_window_are_not_written() -> None:
    process = Process()
    process.row.down = True
    process.fail("old")
    process.row.down = False
    process.clock.advance(WINDOW + 1)
    process.fail("new")
    assert process.row.tries() == 1


def test_a_letter_whose_cause_suddenly_dominates_comes_back() -> None:
    process = Process()
    site = Site(clock=process.clock, causes=process.causes)
    error = Permanent("no field")
    site.raises = {"m1": error, "m2": error}
    [parked] = site.process(record(letter(message_id="m1"), receive=2)).results
    assert (parked.fate, len(site.lot.sent)) == (Fate.PARKED, 1)
    assert parked.diagnosis is not None
    hold = CauseHold(process.clock.now, process.clock.now + 60, "Permanent")
    process.row.causes = replace(process.row.causes, holds={parked.diagnosis.fingerprint: hold})
    site.causes = Process(process.row, process.clock).causes
    [held] = site.process(record(letter(message_id="m2"))).results
    assert (held.fate, len(site.lot.sent)) == (Fate.FAILED, 1)
    assert held.wait is not None
    assert AGAIN[0] <= held.wait <= AGAIN[1]


def test_a_letter_of_a_held_cause_is_tried_again_and_again_and_renews_the_hold() -> None:
    """Its error may be over at any moment; each of its receives counts, the first or not."""
    process = Process().after_a_healthy_hour()
    site = Site(clock=process.clock, causes=process.causes, unguarded=True)
    site.raises = {"m1": KeyError("a"), "m2": ConnectionRefusedError("x")}
    [first] = site.process(record(letter(message_id="m1"))).results
    assert first.wait is not None
    assert first.wait <= 10
    assert first.diagnosis is not None
    hold = CauseHold(process.clock.now, process.clock.now + 300, "KeyError")
    holds = {first.diagnosis.fingerprint: hold}
    process.row.causes = replace(process.row.causes, holds=holds, totals={})
    process.causes.report()
    tries = process.row.tries()
    process = Process(process.row, process.clock)
    process.causes.may_park("another", 2)
    site.causes = process.causes
    [again, other] = site.process(
        record(letter(message_id="m1"), 2), record(letter(message_id="m2"), 2)
    ).results
    assert again.wait is not None
    assert other.wait is not None
    assert AGAIN[0] <= again.wait <= AGAIN[1]
    assert other.wait <= 20
    process.clock.advance(BETWEEN_WRITES)
    process.causes.report()
    assert process.row.causes.holds[first.diagnosis.fingerprint].until > hold.until
    assert process.row.tries() == tries


def test_a_batch_counts_what_was_tried_and_a_canary_nothing() -> None:
    process = Process()
    site = Site(clock=process.clock, causes=process.causes, unguarded=True)
    site.raises = {"m2": KeyError("a")}
    messages = [letter(message_id=f"m{number}") for number in range(3)]
    site.process(*map(record, messages), permit="permit")
    assert process.row.writes == []
    site.process(*map(record, messages))
    [[second]] = process.row.writes
    assert (second.total, len(second.failed)) == (3, 1)


def test_a_batch_that_is_about_to_end_writes_nothing_of_causes() -> None:
    process = Process()
    site = Site(clock=process.clock, causes=process.causes)
    site.process(record(letter()), handle=lambda _: process.clock.advance(DEADLINE - NOW - 0.4))
    assert process.row.writes == []


def test_a_letter_counts_once_whatever_copy_of_it_fails() -> None:
    process = Process()
    site = Site(clock=process.clock, causes=process.causes, unguarded=True)
    site.raises = {"m1": KeyError("a"), "m2": KeyError("a")}
    site.process(
        record(redriven(letter(message_id="m1"), 0, origin="first")),
        record(redriven(letter(message_id="m2"), 0, origin="first")),
    )
    [[second]] = process.row.writes
    assert {failed.letter for failed in second.failed} == {hash_of("first")}


@pytest.mark.parametrize("origin", ["", "x", "\ud800", "ü" * 500])
def test_any_origin_is_a_number(origin: str) -> None:
    assert 0 <= hash_of(origin) < 2**32
