"""Which letters of its source join a run and under which names, and where the others go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from deadletter.contract import Reason
from deadletter.message.letter import Letter
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.report import Tally
from deadletter.redrive.run_limits import RunStopped
from deadletter.replay.names import Name, from_lines, key_hash
from deadletter.replay.objects import ObjectsUnavailable
from deadletter.replay.plan import ReplayPlan
from deadletter.replay.snapshot import Snapshot, joined
from deadletter.routing.decision import Hold, Park, Redrive
from deadletter.routing.router import Question, RouterAnswer, RouterUnavailable, Verdict
from deadletter.routing.selection import Pick
from deadletter.signals.figures import Count
from deadletter.testing.clock import START, Clock
from tests.each_row import each_row

PLAN = ReplayPlan(pipeline="orders", source="lane:due")
RUN = PLAN.run_id


class Pass:
    """One pass in a lane; the router picks each letter unless `picks` says something else."""

    def __init__(self, **changes: Any) -> None:
        self.clock, self.tally = Clock(), Tally()
        self.picks: dict[str, Pick | None] = {}
        self.refusals = 0
        self.asked: list[tuple[Sequence[Question], bool]] = []
        self.pages: dict[str, bytes] = {}
        self.full = False
        self.plan = changes.pop("plan", PLAN)
        setup: Any = SimpleNamespace(
            clock=self.clock,
            tally=self.tally,
            router=self,
            room=self,
            home="parking:default",
            trusted_senders=frozenset(),
        )
        ports: Any = self
        known = {"counted": None, "lane": "parked", **changes}
        self.verdicts_ = Snapshot(setup, self.plan, objects=ports, token="t", **known)

    def key(self, received: ReceivedLetter) -> tuple[str, str]:
        return ("pk", received.letter.message_id)

    def put(self, name: str, data: bytes) -> None:
        if self.full:
            raise ObjectsUnavailable("SlowDown")
        self.pages[name] = data

    def select(
        self, questions: Sequence[Question], _selection: Any, *, release: bool = False
    ) -> list[Pick]:
        if self.refusals:
            self.refusals -= 1
            raise RouterUnavailable("throttled")
        self.asked.append((questions, release))
        copies = [question.letter.message_id for question in questions]
        picks = [self.picks.get(copy, pick(copy)) for copy in copies]
        return [each for each in picks if each is not None]

    def take(self, *copies: str, **fields: Any) -> dict[str, Verdict]:
        return self.verdicts_.verdicts([letter(copy, **fields) for copy in copies], served=False)


def letter(copy: str, **fields: Any) -> ReceivedLetter:
    stamp = Stamp(f"first-{copy}", attempt=2, run="earlier")
    return ReceivedLetter(Letter(copy, "{}"), "", 0.0, **{"home": "dlq", "stamp": stamp, **fields})


def pick(copy: str, **fields: Any) -> Pick:
    stamp = Stamp(f"first-{copy}", attempt=2, first_sent=9)
    return Pick(message_id=copy, **{"chosen": True, "stamp": stamp, **fields})


def test_letters_that_join_are_on_a_page_and_are_held_in_the_lane_of_their_run() -> None:
    run = Pass()
    run.picks["b"] = pick("b", key="k", sequence="7", cause="f", category="http", tenant="t")
    verdicts = run.take("a", "b")
    assert set(verdicts) == {"a", "b"}
    [(name, data)] = run.pages.items()
    assert name == "pages/t-000001.jsonl"
    names = {each.copy: each for each in from_lines(data)}
    size = letter("a").letter.size
    assert names["a"] == Name(
        copy="a",
        origin="first-a",
        place=("pk", "a"),
        key=key_hash("first-a"),
        attempt=2,
        size=size,
        first_sent=9,
    )
    assert names["b"] == replace(
        names["a"],
        copy="b",
        origin="first-b",
        place=("pk", "b"),
        key=key_hash("k"),
        sequence="7",
        cause="f",
        category="http",
        tenant="t",
    )
    for copy, verdict in verdicts.items():
        hold: Any = verdict.decision
        assert (hold.lane, hold.because) == (f"run:{RUN}", f"run {RUN}")
        assert hold.shard == names[copy].shard
        assert verdict.before == run.picks.get(copy, pick(copy)).stamp  # type: ignore[union-attr]
        assert verdict.stamp.run == RUN
    run.take("c")
    assert list(run.pages) == ["pages/t-000001.jsonl", "pages/t-000002.jsonl"]


def test_the_stamp_of_a_letter_that_joins_counts_its_tries_anew_and_keeps_its_reason() -> None:
    before = Stamp(
        "o",
        attempt=3,
        rule="rule",
        run="earlier",
        ticket="t",
        canary="c",
        reason="POISON",
        decision="PARK",
    )
    after = joined(before, replace(PLAN, accept="collision"), "because", START + 0.9)
    assert after == Stamp(
        "o",
        attempt=3,
        base=3,
        spared=4,
        run=replace(PLAN, accept="collision").run_id,
        accept="collision",
        reason="POISON",
        decision="HOLD",
        because="because",
        at=int(START),
    )


@each_row(
    ("picked", "joins"),
    [
        ({"chosen": False}, False),
        ({"chosen": False, "left_out": "POISON"}, False),
        ({"left_out": "POISON"}, False),
        ({"stamp": Stamp("uncounted")}, False),
        ({}, True),
    ],
)
def test_only_a_letter_joins_that_is_chosen_counted_and_not_left_out(
    picked: dict[str, Any], joins: bool
) -> None:
    run = Pass(counted={"first-a"})
    run.picks["a"] = pick("a", **picked)
    assert (set(run.take("a")), len(run.pages)) == ({"a"} if joins else set(), int(joins))


@each_row(
    ("in_lane", "counted", "fields", "is_asked"),
    [
        (True, {"first-a"}, {}, True),
        (True, {"other"}, {}, False),
        (True, {"other"}, {"stamp": None}, True),
        (True, None, {}, True),
        (False, {"other"}, {}, True),
        (True, {"first-a"}, {"home": "elsewhere"}, False),
    ],
)
def test_of_a_letter_that_cannot_join_the_router_is_not_asked(
    in_lane: bool, counted: Any, fields: dict[str, Any], is_asked: bool
) -> None:
    plan = replace(PLAN, source="lane:due" if in_lane else "parking:default")
    run = Pass(counted=counted, lane=plan.lane, plan=plan, of_source=lambda home: home == "dlq")
    run.take("a", **fields)
    assert bool(run.asked) is is_asked


def test_a_letter_is_asked_about_as_it_lies_there() -> None:
    run = Pass(plan=replace(PLAN, source="lane:parked"))
    run.take("a")
    [([question], release)] = run.asked
    assert (question.replay, release) == (False, True)


def test_a_router_that_gives_no_answer_is_asked_once_more() -> None:
    run = Pass()
    run.refusals = 1
    assert set(run.take("a")) == {"a"}
    assert run.tally.count_of(Count.ROUTER_UNAVAILABLE) == 1
    run.refusals = 2
    with pytest.raises(RouterUnavailable):
        run.take("b")


@each_row(
    "picked",
    [
        None,
        # The run has sent it already: it would count its attempts anew.
        pick("a", stamp=Stamp("first-a", attempt=3, base=2, run=RUN)),
    ],
)
def test_a_letter_of_which_too_little_or_too_much_is_known_stays(picked: Pick | None) -> None:
    run = Pass()
    run.picks["a"] = picked
    assert set(run.take("a", "b")) == {"b"}
    assert len(run.pages) == 1


@each_row(
    "stamp",
    [
        Stamp("first-a", attempt=3, base=3, run=RUN),
        Stamp("first-a", attempt=3, base=2, run="another"),
    ],
)
def test_a_letter_that_the_run_has_not_sent_joins(stamp: Stamp) -> None:
    run = Pass()
    run.picks["a"] = pick("a", stamp=stamp)
    assert set(run.take("a")) == {"a"}


def test_a_pass_stops_when_its_time_is_over_or_its_page_is_refused() -> None:
    run = Pass()
    run.verdicts_._stops = START + 10.0
    run.clock.advance(9.9)
    assert run.take("a")
    run.clock.advance(0.1)
    with pytest.raises(RunStopped, match="long enough"):
        run.take("b")
    assert run.take() == {}
    full = Pass()
    full.full = True
    with pytest.raises(RunStopped, match="a page of the run cannot be stored: SlowDown"):
        full.take("a")
    report = full.tally.report("orders", "dlq", "")
    assert (report.trouble, report.ended_well) == ("SlowDown", False)


def test_a_snapshot_puts_off_what_would_be_sent_and_leaves_what_would_not() -> None:
    decisions = {
        "a": Redrive(60, "again"),
        "b": Park(Reason.POISON, "poison"),
        "c": Hold("lane", 5.0, "wait"),
    }

    run = Pass(plan=replace(PLAN, source="dlq"), lane=None)
    said = [Verdict(copy, decision, Stamp(copy, 3)) for copy, decision in decisions.items()]
    run.decide = lambda _: RouterAnswer(tuple(said))  # type: ignore[attr-defined] - as a router
    run.picks = {copy: pick(copy, chosen=False) for copy in decisions}
    verdicts = run.take("a", "b", "c")
    hold = Hold("due", START + 60.0, "again; a snapshot sends nothing")
    assert verdicts["a"].decision == hold
    assert (verdicts["a"].stamp.attempt, verdicts["b"].stamp.attempt) == (2, 3)
    assert [verdicts[copy].decision for copy in "bc"] == [decisions["b"], decisions["c"]]
