"""When a message that collides is parked, and when too many of them do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from deadletter.contract import DAY
from deadletter.processing.collisions import (
    BETWEEN_CALM_WRITES,
    BETWEEN_WRITES,
    FIRST_DAY,
    LEAST,
    MOST_UNTOLD,
    SHARE,
    WINDOW,
    Collisions,
    CollisionsUnavailable,
    Counts,
    KnownCollisions,
)
from deadletter.processing.idempotency import Claim, Standing
from deadletter.signals.figures import Count
from deadletter.testing.clock import START, Clock


@dataclass
class Row:
    """The row of a pipeline, which any number of processes write."""

    known: KnownCollisions | None = None
    writes: list[Mapping[int, tuple[int, int]]] = field(default_factory=list)
    stops: list[float] = field(default_factory=list)
    away: bool = False

    @classmethod
    def of_yesterday(cls) -> Row:
        """The row of a pipeline that is past its first day."""
        return cls(KnownCollisions(START - FIRST_DAY))

    def count(self, counts: Counts, paths: tuple[str, ...], now: float) -> KnownCollisions:
        if self.away:
            raise CollisionsUnavailable("no answer")
        self.writes.append(dict(counts))
        known = self.known or KnownCollisions(now)
        sums = {
            minute: (
                known.counts.get(minute, (0, 0))[0] + counts.get(minute, (0, 0))[0],
                known.counts.get(minute, (0, 0))[1] + counts.get(minute, (0, 0))[1],
            )
            for minute in known.counts.keys() | counts.keys()
        }
        self.known = replace(known, counts=sums, paths=paths or known.paths)
        return self.known

    def stop(self, until: float, now: float) -> bool:
        assert self.known is not None
        begun = not self.known.is_stopped(now)
        self.stops.append(until)
        self.known = replace(self.known, stopped_until=until)
        return begun


class Process:
    """A process of the consumer; several share a row and a clock."""

    def __init__(self, row: Row | None = None) -> None:
        self.row = row or Row.of_yesterday()
        self.clock = Clock()
        self.metrics: Counter[str] = Counter()
        self.port = Collisions(self.row, self.clock, lambda name, n: self.metrics.update({name: n}))

    def sees(self, number: int = 1, standing: Standing = Standing.MINE) -> None:
        for _ in range(number):
            claim = Claim("k", "o", 1e10, standing, collision=False, taken_over=False)
            self.port.seen(claim)

    def collides(self, path: str = "body.at") -> bool:
        """A message collides: whether it is parked."""
        claim = Claim("k", "o", 1e10, Standing.MINE, True, taken_over=False, differences=(path,))
        self.port.seen(claim)
        return self.port.parks()


def test_the_pipelines_first_day_only_counts() -> None:
    process = Process(Row())
    assert not process.collides()
    process.clock.advance(FIRST_DAY - 1)
    assert not process.collides()
    process.clock.advance(1)
    assert process.collides()
    assert FIRST_DAY == DAY


def test_the_first_batch_of_a_process_writes_and_then_one_in_five_minutes() -> None:
    process = Process()
    process.port.report()
    assert process.row.writes == [{}]
    process.sees(3)
    process.clock.advance(BETWEEN_CALM_WRITES - 1)
    process.port.report()
    assert len(process.row.writes) == 1
    process.clock.advance(1)
    process.port.report()
    process.port.report()
    assert [sum(n for n, _ in counts.values()) for counts in process.row.writes] == [0, 3]


def test_a_process_writes_once_in_ten_seconds_while_messages_collide() -> None:
    process = Process()
    process.port.report()
    process.clock.advance(BETWEEN_WRITES)
    # It has seen one itself; then it knows of one in the window.
    process.collides("body.at")
    process.port.report()
    process.clock.advance(BETWEEN_WRITES)
    process.sees(3)
    process.port.report()
    counted = [list(counts.values()) for counts in process.row.writes]
    assert counted == [[], [(1, 1)], [(3, 0)]]


def test_a_message_that_is_busy_is_not_counted_and_a_duplicate_is() -> None:
    process = Process()
    process.sees(standing=Standing.BUSY)
    process.sees(standing=Standing.DUPLICATE)
    process.port.report()
    [counts] = process.row.writes
    assert list(counts.values()) == [(1, 0)]


def test_a_collision_with_a_message_of_an_earlier_release_is_not_counted_as_one() -> None:
    process = Process()
    claim = Claim("k", "o", 1e10, Standing.MINE, True, taken_over=False, differences=None)
    process.port.seen(claim)
    process.port.report()
    [counts] = process.row.writes
    assert list(counts.values()) == [(1, 0)]


def test_parking_stops_with_twenty_collisions_that_are_more_than_five_percent() -> None:
    process = Process()
    assert [process.collides() for _ in range(LEAST)] == [True] * (LEAST - 1) + [False]
    assert process.metrics[Count.MANY_COLLISIONS] == 1
    process.collides()
    assert process.metrics[Count.MANY_COLLISIONS] == 2
    many = Process()
    many.sees(int(100 / SHARE))
    assert all(many.collides() for _ in range(100))
    assert many.metrics == {}


def test_all_processes_know_that_many_collide() -> None:
    row = Row.of_yesterday()
    for _ in range(LEAST):
        process = Process(row=row)
        process.collides()
    assert not Process(row=row).collides()


def test_a_process_asks_after_a_few_collisions_and_not_after_each_once_it_is_stopped() -> None:
    process = Process()
    process.port.report()
    for _ in range(MOST_UNTOLD):
        process.collides()
    assert len(process.row.writes) == 2
    for _ in range(200):
        process.collides()
    assert len(process.row.writes) < 10


def test_parking_goes_on_when_a_window_has_gone_by_without_so_many() -> None:
    process = Process()
    for _ in range(LEAST + 10):
        process.collides()
    process.clock.advance(WINDOW - 1)
    assert not process.collides()
    assert WINDOW == 600
    # The window in which it was seen last, and one more.
    process.clock.advance(2 * WINDOW)
    assert process.collides()


def test_a_pipeline_pages_in_its_first_day_too() -> None:
    process = Process(Row())
    for _ in range(LEAST):
        process.collides()
    assert process.metrics[Count.MANY_COLLISIONS] == 1


def test_without_an_answer_nothing_is_parked() -> None:
    process = Process(Row(away=True))
    assert not process.collides()
    process.clock.advance(DAY * 2)
    assert not process.collides()


def test_what_could_not_be_written_goes_with_the_next_write() -> None:
    process = Process(row=Row(away=True))
    process.sees(5)
    process.port.report()
    process.row.away = False
    process.clock.advance(BETWEEN_CALM_WRITES)
    process.port.report()
    assert [sum(n for n, _ in counts.values()) for counts in process.row.writes] == [5]


def test_what_is_older_than_a_window_is_forgotten() -> None:
    process = Process(row=Row(away=True))
    process.sees(5)
    process.clock.advance(2 * WINDOW)
    process.row.away = False
    process.port.report()
    assert process.row.writes == [{}]


def test_the_paths_that_differ_most_often_are_known() -> None:
    process = Process()
    for path in ("body.at", "body.id", "body.at"):
        process.collides(path)
    process.clock.advance(BETWEEN_WRITES)
    process.collides("body.at")
    assert process.row.known is not None
    assert process.row.known.paths == ("body.at", "body.id")
