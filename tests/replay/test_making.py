"""One pass of a run that repeats another: which letters it makes, and when it stops."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from deadletter.failure.ledger import LedgerRow
from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter, to_json
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.order import Order
from deadletter.redrive.waiting_room import HeldItem
from deadletter.replay.bringing_back import Repeating, restored_copy
from deadletter.replay.names import Name, from_lines, key_hash
from deadletter.replay.objects import StoredObject, line_of, packed
from deadletter.replay.plan import ReplayPlan
from deadletter.replay.run import ReplayRun, RunState, held
from deadletter.testing.clock import START, Clock
from tests.each_row import each_row

PLAN = ReplayPlan(pipeline="orders", source="originals:first")
RUN = ReplayRun(id="again", pipeline="orders", state=RunState.MOVING)


@dataclass
class Objects:
    """The objects of one run; those in `gone` are listed and cannot be read any more."""

    stored: dict[str, bytes] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    reads: list[str] = field(default_factory=list)

    def put(self, name: str, data: bytes) -> None:
        self.stored[name] = data

    def get(self, name: str) -> bytes | None:
        self.reads.append(name)
        return None if name in self.gone else self.stored[name]

    def listed(self, folder: str) -> Sequence[StoredObject]:
        names = sorted(name for name in self.stored if name.startswith(folder))
        return [StoredObject(name, len(self.stored[name])) for name in names]


def object_of(numbers: Sequence[int], attempt: int = 2) -> bytes:
    """An object with the originals of these letters, as a freeze stores it."""
    lines = []
    for number in numbers:
        origin, copy = f"o{number}", f"c{number}"
        name = Name(copy=copy, origin=origin, place=("pk", copy), key=key_hash(origin), attempt=1)
        held_item = HeldItem(
            ("pk", copy),
            name.shard,
            home="dlq",
            stamp=str(stamps.attribute(Stamp(origin, attempt, run="first")).value),
            letter=json.dumps(to_json(Letter(copy, "{}")), separators=(",", ":")).encode(),
        )
        line = line_of(name.to_line().encode(), held_item)
        assert line is not None
        lines.append(line)
    return packed(lines)


class Pass:
    """A pass over some objects of originals; `there` are places whose letter is made already."""

    def __init__(self, objects: dict[str, bytes], **changes: Any) -> None:
        self.clock = Clock()
        self.originals, self.own = Objects(dict(objects)), Objects()
        self.run: ReplayRun | None = RUN
        self.rows_: dict[str, LedgerRow] = {}
        self.there: set[tuple[str, str]] = set()
        self.puts: list[Sequence[Order]] = []
        self.damage: list[str] = []
        self.changes = changes

    # The run, the ledger and the lane.

    def read(self, _run: str) -> ReplayRun | None:
        return self.run

    def rows(self, origins: Sequence[str]) -> dict[str, LedgerRow]:
        return {origin: self.rows_[origin] for origin in origins if origin in self.rows_}

    def place(self, received: ReceivedLetter) -> tuple[str, str]:
        return ("pk", received.letter.message_id)

    def held(self, places: Sequence[tuple[str, str]]) -> Collection[tuple[str, str]]:
        return self.there.intersection(places)

    def put(self, orders: Sequence[Order]) -> None:
        self.puts.append(orders)

    def take(self, seconds: float = 60.0) -> bool:
        ports: Any = self
        originals: Any = self.originals
        own: Any = self.own
        known: dict[str, Any] = {"plan": PLAN, "counted": None, **self.changes}
        repeating = Repeating(
            run=RUN,
            originals=originals,
            objects=own,
            letters=ports,
            ledger=ports,
            runs=ports,
            clock=self.clock,
            note_damage=self.damage.append,
            **known,
        )
        return repeating.repeat(self.clock() + seconds)

    @property
    def made(self) -> list[Order]:
        return [order for orders in self.puts for order in orders]

    @property
    def pages(self) -> dict[str, list[str]]:
        """The origins that each page names."""
        return {
            name: [each.origin for each in from_lines(data)]
            for name, data in self.own.stored.items()
            if name.startswith("pages/")
        }


def test_letters_are_named_before_they_are_made_fifty_at_a_time() -> None:
    run = Pass({"a": object_of(range(120)), "b": object_of([200])})
    assert run.take()
    assert [len(orders) for orders in run.puts] == [50, 50, 20, 1]
    assert {name: len(origins) for name, origins in run.pages.items()} == {
        "pages/a-00.jsonl": 50,
        "pages/a-01.jsonl": 50,
        "pages/a-02.jsonl": 20,
        "pages/b-00.jsonl": 1,
    }
    assert {order.stamp.origin for order in run.made} == {
        *(f"o{number}" for number in range(120)),
        "o200",
    }
    assert {"taken/a", "taken/b"} <= set(run.own.stored)


def test_a_letter_is_made_as_a_copy_of_its_own_in_the_lane_of_its_run() -> None:
    run = Pass({"a": object_of([7])})
    run.take()
    [order] = run.made
    copy, because = restored_copy("again", "c7"), "run again repeats run first"
    assert (order.copy, order.received.home) == (copy, "dlq")
    hold: Any = order.decision
    assert (hold.lane, hold.because) == ("run:again", because)
    assert hold.shard == Name(copy="", origin="", place=("", ""), key=key_hash("o7")).shard
    mark = order.stamp
    assert (mark.run, mark.base, mark.spared, mark.at) == (PLAN.run_id, 2, 3, int(START))
    assert mark.accept is None
    [name] = from_lines(run.own.stored["pages/a-00.jsonl"])
    assert (name.copy, name.place, name.attempt) == (copy, ("pk", copy), 2)


def test_letters_that_a_person_has_processed_once_more_get_a_key_of_the_run() -> None:
    run = Pass({"a": object_of([7])}, plan=replace(PLAN, accept="again"))
    run.take()
    assert run.made[0].stamp.accept == f"{stamps.AGAIN}again"


@each_row(
    ("row", "attempt"),
    [
        (LedgerRow(attempt=1), 2),
        (LedgerRow(attempt=5), 5),
        (LedgerRow(attempt=5, recovered_attempt=6), 6),
        (LedgerRow(attempt=5, recovered_attempt=6, ended_attempt=7), 7),
    ],
)
def test_a_letter_begins_behind_every_life_that_the_ledger_knows(
    row: LedgerRow, attempt: int
) -> None:
    run = Pass({"a": object_of([7])})
    run.rows_["o7"] = row
    run.take()
    assert run.made[0].stamp.attempt == attempt


def test_only_counted_letters_are_made_and_none_that_is_there() -> None:
    run = Pass({"a": object_of(range(4))}, counted={"o0", "o2", "o3"})
    run.there = {("pk", restored_copy("again", "c2"))}
    assert run.take()
    assert [order.stamp.origin for order in run.made] == ["o0", "o3"]
    assert run.pages == {"pages/a-00.jsonl": sorted(["o0", "o2", "o3"], key=_in_order)}
    again = Pass({"a": object_of([2])})
    again.there = run.there
    assert again.take()
    assert again.puts == []


def _in_order(origin: str) -> Any:
    return Name(copy="", origin=origin, place=("", ""), key=key_hash(origin)).sort_key


def test_what_was_taken_is_not_read_again_and_what_is_gone_is_passed_over() -> None:
    run = Pass({"a": object_of([1]), "b": object_of([2]), "c": object_of([3])})
    run.own.stored["taken/a"] = b""
    run.originals.gone = {"b"}
    assert run.take()
    assert run.originals.reads == ["b", "c"]
    assert [order.stamp.origin for order in run.made] == ["o3"]


@each_row("seconds", [9.0, 10.0])
def test_no_object_is_begun_in_the_last_ten_seconds(seconds: float) -> None:
    run = Pass({"a": object_of([1])})
    assert not run.take(seconds)
    assert (run.made, run.own.stored) == ([], {})
    assert run.take(10.1)


@each_row("now", [None, held(RUN, at=START, by="ada", because="wait")])
def test_a_run_that_was_changed_makes_no_more_letters(now: ReplayRun | None) -> None:
    run = Pass({"a": object_of([1])})
    run.run = now
    assert not run.take()
    assert (run.made, run.own.stored) == ([], {})


def test_what_cannot_be_read_is_named_and_the_rest_is_made() -> None:
    whole = [object_of([1]), object_of([2])]
    torn = packed([b'{"name":1}\n'])
    run = Pass({"a": whole[0], "b": b"torn", "c": torn, "d": whole[1]})
    assert run.take()
    assert run.damage == ["b", "c:1"]
    assert [order.stamp.origin for order in run.made] == ["o1", "o2"]
