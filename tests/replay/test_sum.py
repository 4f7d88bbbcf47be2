"""The sum of a run whose letters are all at their end, from its rows alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from deadletter.redrive.waiting_room import SHARDS
from deadletter.replay.manifest import ManifestIndex, PartStatus
from deadletter.replay.names import PART, Name, key_hash
from deadletter.replay.plan import ReplayPlan
from deadletter.replay.reconcile import ReconcileSetup, reconcile
from deadletter.replay.run import ReplayRun, RunState, RunSum
from deadletter.replay.ticket import ReplayOutcome, Ticket
from deadletter.testing.clock import Clock
from tests.each_row import each_row

RECOVERED, PARKED = ReplayOutcome.RECOVERED, ReplayOutcome.PARKED

Row = tuple[Name, ReplayOutcome]


def named(number: int, key: str = "", **fields: Any) -> Name:
    return Name(
        copy=f"c{number}",
        origin=f"o{number}",
        place=("pk", "sk"),
        key=key or key_hash(f"o{number}"),
        **fields,
    )


@dataclass
class Rows:
    """A run whose letters lie in one shard of the manifest, each with its outcome."""

    letters: Sequence[Row]
    tickets: Sequence[Ticket] = ()
    shard: int = 3
    plan: ReplayPlan = field(default_factory=lambda: ReplayPlan(pipeline="orders"))
    known: int | None = None
    objects: dict[str, bytes] = field(default_factory=dict)

    def part(self, shard: int, part: int) -> Sequence[Name]:
        assert shard == self.shard
        return [name for name, _ in self.letters[part * PART : (part + 1) * PART]]

    def read(self, shard: int) -> Mapping[int, PartStatus]:
        if shard != self.shard:
            return {}
        outcomes = "".join(outcome for _, outcome in self.letters)
        starts = range(0, len(outcomes), PART)
        return {at // PART: PartStatus(outcomes[at : at + PART], "1") for at in starts}

    def put(self, name: str, data: bytes) -> None:
        self.objects[name] = data

    def sum(self, seconds: float = 60.0) -> RunSum:
        rows: Any = self
        clock = Clock()
        lengths = [0] * SHARDS
        lengths[self.shard] = len(self.letters)
        run = ReplayRun(
            id="r", pipeline="orders", state=RunState.ABORTED, messages=self.known, manifest="hash"
        )
        setup = ReconcileSetup(
            plan=self.plan,
            run=run,
            index=ManifestIndex(tuple(lengths), "hash"),
            manifest=rows,
            statuses=rows,
            tickets=rows,
            all_tickets=lambda: self.tickets,
            ledger=rows,
            room=rows,
            objects=rows,
            clock=clock,
        )
        return reconcile(setup, clock() + seconds)


@each_row("outcome", [each for each in ReplayOutcome if each not in " s?"])
def test_each_letter_at_its_end_is_accounted_for(outcome: ReplayOutcome) -> None:
    rows = Rows([(named(number), outcome) for number in range(PART + 2)])
    counted = rows.sum()
    assert (counted.counts, counted.unaccounted) == ({outcome.name: PART + 2}, 0)
    assert json.loads(rows.objects["report.json"]) == counted.report


def test_a_letter_that_is_nowhere_and_one_of_which_no_row_tells_are_not() -> None:
    letters = [(named(1), RECOVERED), (named(2), ReplayOutcome.MISSING)]
    counted = Rows(letters, known=4).sum()
    assert (counted.counts, counted.unaccounted) == ({"RECOVERED": 1, "MISSING": 1}, 3)
    assert Rows(letters[:1], known=0).sum().unaccounted == 1


def test_a_report_says_which_run_it_is_of() -> None:
    report = Rows([(named(1), RECOVERED)], known=1).sum().report
    assert (
        report.items()
        >= {
            "run": "r",
            "pipeline": "orders",
            "at": int(Clock()()),
            "state": "ABORTED",
            "messages": 1,
            "manifest": "hash",
            "counts": {"RECOVERED": 1},
            "unaccounted": 0,
            "returned": 1,
        }.items()
    )


def test_a_report_has_the_twenty_keys_with_most_failures() -> None:
    letters = [
        (named(100 * key + number, f"{key:032x}"), PARKED if number < failed else RECOVERED)
        for key, failed in enumerate(range(24))
        for number in range(24)
    ]
    keys = Rows(letters).sum().report["keys"]
    assert keys == [
        {"key": f"{key:032x}", "messages": 24, "counts": {"PARKED": key, "RECOVERED": 24 - key}}
        for key in range(23, 3, -1)
    ]


@each_row(
    ("outcome", "is_good"),
    [
        *((outcome, True) for outcome in map(ReplayOutcome, "rdaxb")),
        *((outcome, False) for outcome in map(ReplayOutcome, "pqheul")),
    ],
)
def test_a_key_is_bad_by_letters_that_are_not_where_they_were_to_go(
    outcome: ReplayOutcome, is_good: bool
) -> None:
    letters = [(named(1, f"{1:032x}"), outcome), (named(2), PARKED), (named(3), PARKED)]
    keys = Rows(letters).sum().report["keys"]
    counts = {"key": f"{1:032x}", "messages": 1, "counts": {outcome.name: 1}}
    assert keys == ([] if is_good else [counts])


def test_causes_and_tenants_behind_the_first_five_hundred_are_added_up() -> None:
    letters = [
        (named(number, cause=f"f{number:03}", tenant=f"t{number:03}", category="http"), PARKED)
        for number in range(503)
    ]
    # What is named already is counted under its name.
    letters.append((named(600, cause="f000", tenant="t000"), PARKED))
    report = Rows(letters).sum().report
    names = [f"{number:03}" for number in range(500)]
    assert [(each["cause"], each["messages"]) for each in report["causes"]] == [
        ("(others)", 3),
        ("f000", 2),
        *((f"f{name}", 1) for name in names[1:]),
    ]
    assert [each["tenant"] for each in report["tenants"]][:3] == ["(others)", "t000", "t001"]
    assert len(report["tenants"]) == 501
    assert {each["category"] for each in report["causes"]} == {"", "http"}


def sent(at: float, fate: ReplayOutcome = ReplayOutcome.SENT, **fields: Any) -> Ticket:
    known = {"position": 0, "attempt": 1, **fields}
    return Ticket(run="r", origin="o", copy="c", shard=3, at=at, fate=fate, **known)


@each_row(
    ("ticket", "word"),
    [
        (sent(125.0), "RECOVERED"),
        (sent(125.0, ReplayOutcome.UNKNOWN), "RECOVERED"),
        (sent(125.0, position=-1), "SENT"),
        (sent(125.0, ReplayOutcome.UNKNOWN, position=-1), "UNKNOWN"),
        (sent(125.0, ReplayOutcome.LEFT), "LEFT"),
        (sent(125.0, returned="c2"), "RETURNED"),
        (sent(125.0, ReplayOutcome.UNKNOWN, returned="c2"), "RETURNED"),
    ],
)
def test_a_runs_course_has_each_try_in_the_minute_of_its_send(ticket: Ticket, word: str) -> None:
    rows = Rows([(named(0), RECOVERED)], [ticket, replace(ticket, at=179.0), sent(180.0)])
    minutes = {"120": {word: 2}, "180": {"RECOVERED": 1}}
    assert rows.sum().report["minutes"] == minutes
    assert rows.sum(seconds=0.0).report["minutes"] == {}


def test_letters_that_were_restored_have_tickets_and_no_manifest() -> None:
    back = [sent(0.0, ReplayOutcome.RESTORED, position=-1)] * 2
    plan = ReplayPlan(pipeline="orders", source="discarded", destination="restore")
    assert Rows([], back, plan=plan, known=2).sum().counts == {"RESTORED": 2}
    assert Rows([], back, known=2).sum().counts == {}
