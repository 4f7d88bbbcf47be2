"""Schedules in which a person edits the rules while letters wait for them, under all faults.

The promises: no letter is lost; a letter does not wait for a rule that does not hold it; one that a
rule holds all the time never leaves; a delay counts from when the letter began to wait.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Self
from unittest.mock import patch

from deadletter.message import stamp as stamps
from deadletter.redrive import lane_review
from deadletter.settings.backoff import Backoff
from tests.simulation.scheduler import Plan
from tests.simulation.simulator import NO_WAIT, Shape, Simulation, strikes
from tests.simulation.witness import Broken
from tests.tables import RULES

EDITED_KINDS = ("good", "good", "flaky", "large", "tenantb")
"""What is sent: letters of tenant a, for which rules are edited, and of b, whose rule stays."""

SEVERAL_RUNS = 25
"""Runs after the last edit, one a minute, after which no letter waits for a rule of before. The
first ones may find shards claimed by runs that were cut off."""

DUE_LATER = 10.0
"""Seconds by which a delay may end later than the rule says: times are rounded, clocks differ."""

OVERDUE = 180.0
"""Seconds after which a letter must have left that was due."""

INDEX_LAG = 20.0
"""Seconds within which an index has what was written."""

SKEW = 5.0
"""Seconds by which the clock of a run may be wrong."""

LONG, SHORT = 72_000, 1_500
"""Seconds of a mistyped delay, and of the one that was meant."""

OF_A: Mapping[str, Any] = {"tenantId": "a", "action": "HOLD"}
STILL: Mapping[str, Any] = {"tenantId": "b", "action": "HOLD", "priority": 1}
FLAKY: Mapping[str, Any] = {"pattern": '{"body": {"key": [{"prefix": "flaky"}]}}'}
GOOD: Mapping[str, Any] = {"pattern": '{"body": {"key": [{"prefix": "good"}]}}'}


@dataclass(frozen=True, slots=True)
class Book:
    """The rules that a person leaves behind, and the lanes in which they let a letter wait.

    `lanes` is asked about the uid of a letter of tenant a.
    """

    rules: Mapping[str, Mapping[str, Any]]
    lanes: Callable[[str], Collection[str]]


def _all(*lanes: str) -> Callable[[str], Collection[str]]:
    return lambda uid: lanes


def _only(kind: str, lane: str) -> Callable[[str], Collection[str]]:
    return lambda uid: (lane,) if uid.startswith(kind) else ()


def _later(seconds: int) -> Mapping[str, Any]:
    return {"tenantId": "a", "action": "DELAYED_REDRIVE", "delay_seconds": seconds}


BOOKS: Mapping[str, Book] = {
    "all are held": Book({"stop": OF_A}, _all("rule:stop")),
    "the hold is narrowed": Book({"stop": {**OF_A, **FLAKY}}, _only("flaky", "rule:stop")),
    "the hold is disabled": Book({"stop": {**OF_A, "enabled": "false"}}, _all()),
    "the hold only counts": Book({"stop": {**OF_A, "mode": "shadow"}}, _all()),
    "the hold is removed": Book({}, _all()),
    "the hold has ended": Book({"stop": {**OF_A, "expires_at": 1_000_000_001}}, _all()),
    "the hold is mistyped": Book({"stop": {**OF_A, "action": "HOLDD"}}, _all("rule:stop")),
    "an exception is before it": Book(
        {"fine": {"tenantId": "a", **FLAKY, "action": "DEFAULT", "priority": 50}, "stop": OF_A},
        lambda uid: () if uid.startswith("flaky") else ("rule:stop",),
    ),
    "another hold is before it": Book(
        {"first": {**OF_A, **GOOD, "priority": 50}, "stop": {**OF_A, "enabled": "false"}},
        _only("good", "rule:first"),
    ),
    "all are diverted": Book(
        {"stop": {"tenantId": "a", "action": "DEDICATED_DLQ", "queue": "slow"}}, _all()
    ),
    "all are delayed for long": Book({"later": _later(LONG)}, _all("delay:later")),
    "all are delayed": Book({"later": _later(SHORT)}, _all("delay:later")),
    "some are delayed": Book({"later": {**_later(SHORT), **GOOD}}, _only("good", "delay:later")),
}
"""What is edited, in any order; each edit leaves these rules and no others."""

FIRST_BOOKS = ("all are held", "all are held", "all are delayed for long", "some are delayed")
"""The rules with which a schedule begins: letters come to wait for them."""


class RuleEdits(Simulation):
    """One schedule with edits; raises Broken at the first broken promise.

    `books` are the edits in their order, the last one stands. A run spends `seconds` on judging
    letters again. `astray` counts the letters that an edit made wait where they need not;
    `runs_needed` is how many runs after the faults the last one was where it belongs.
    """

    def __init__(
        self, seed: int, shape: Shape, plan: Plan, books: tuple[str, ...], seconds: float
    ) -> None:
        super().__init__(seed, shape, plan)
        self._seconds = seconds
        self._books = books
        self._book = BOOKS[books[0]]
        self.runs_needed = 0
        self.astray = 0

    def run(self) -> Self:
        # Two shards a lane, like everywhere in the simulator; and a pass that takes several runs.
        with (
            patch.object(lane_review, "SHARDS", 2),
            patch.object(lane_review, "MOST_LISTED", 1),
            patch.object(lane_review, "REVIEW_SECONDS", self._seconds),
        ):
            return super().run()

    def _run(self) -> None:
        self.stage.add_rule("still", **STILL)
        self._write(self._book)
        self.scheduler.add(self._editor())
        if self._shape.lagging:
            self.scheduler.add(self._index())
        super()._run()

    def _editor(self) -> Callable[[], None]:
        random = Random(self._random.random())

        def act() -> None:
            self.scheduler.sleep(40 + random.random() * 60)
            for name in self._books[1:]:
                self.scheduler.sleep(random.choice((20, 150)) * random.random())
                self._write(BOOKS[name])

        return act

    def _index(self) -> Callable[[], None]:
        def act() -> None:
            for _ in range(int(self._shape.minutes * 90 / INDEX_LAG)):
                self.scheduler.sleep(INDEX_LAG)
                self.stage.dynamodb.settle()

        return act

    def _write(self, book: Book) -> None:
        for rule_id in self._book.rules.keys() - book.rules.keys():
            self._remove(rule_id)
        for rule_id, columns in book.rules.items():
            self.stage.add_rule(rule_id, **columns)
        self._book = book
        self.astray += len(self._astray())

    def _remove(self, rule_id: str) -> None:
        key = {"pipeline": {"S": "orders"}, "rule_id": {"S": rule_id}}
        self.stage.dynamodb.delete_item(TableName=RULES, Key=key)

    def _heal(self) -> None:
        """Faults cease, and the rules stay for some runs before they are removed."""
        self._healing = True
        for turn in range(SEVERAL_RUNS):
            self.scheduler.now += 60
            self.stage.dynamodb.settle()
            self.scheduler.add(self._healing_turn(1_000 + turn))
            self.scheduler.run()
            self._check_still()
            if self._astray():
                self.runs_needed = turn + 2
        astray = self._astray()
        if astray:
            raise Broken(f"letters wait for rules that do not hold them: {astray}")
        for rule_id in (*self._book.rules, "still"):
            self._remove(rule_id)
        super()._heal()

    def _check_still(self) -> None:
        """A letter of tenant b was held from the first minute: no handler has had it twice."""
        for uid, life in self._lives.items():
            if uid.startswith("tenantb") and life > 0:
                raise Broken(f"{uid} left although a rule holds it")

    def _astray(self) -> list[str]:
        """The letters that wait where the rules of now do not let them wait."""
        groups: dict[str, list[str | None]] = {}
        for number, item in enumerate(self.stage.waiting()):
            lane = item["lane"]["S"].split("|")[1]
            if not lane.startswith(("rule:", "delay:")):
                continue
            group = item["pk"]["S"] if self._shape.fifo else str(number)
            groups.setdefault(group, []).append(self._why_astray(lane, item))
        # A FIFO group waits, in any lanes, as long as one letter of it has to.
        return [str(whys[0]) for whys in groups.values() if None not in whys]

    def _why_astray(self, lane: str, item: Mapping[str, Any]) -> str | None:
        uid = self.witness.uid_in(item)
        if uid.startswith("tenantb"):
            return None if lane == "rule:still" else f"{uid} in {lane}"
        is_allowed = lane in self._book.lanes(uid)
        if lane.startswith("rule:"):
            return None if is_allowed else f"{uid} in {lane}"
        # Without the rule a letter waits for the backoff, which has begun as long ago.
        rule = self._book.rules[lane.partition(":")[2]] if is_allowed else {}
        delay = float(rule.get("delay_seconds", self._shape.backoff.cap))
        mark, due = stamps.parse(item["stamp"]["S"]), float(item["due"]["N"])
        if mark is None or mark.at is None or due > mark.at + delay + DUE_LATER:
            return f"{uid} in {lane} is due later than its delay ends"
        return None if due > self.scheduler.now - OVERDUE else f"{uid} in {lane} is overdue"


def edits_schedule(seed: int) -> RuleEdits:
    """The schedule of edits with this seed, not yet run."""
    random = Random(seed * 47 + 19)
    shape = Shape(
        fifo=random.random() < 0.3,
        kinds=tuple(random.choice(EDITED_KINDS) for _ in range(random.randint(3, 8))),
        backoff=random.choice((NO_WAIT, Backoff(base=1_500, factor=1, cap=1_500, floor=1_000))),
        redrivers=random.choice((1, 2)),
        always_leased=True,
        lagging=random.random() < 0.3,
        minutes=6,
        skew=random.choice((0.0, SKEW)),
        apart=random.choice((0.2, 7.0)),
        workers=random.choice((1, 2)),
        stale=random.random() < 0.3,
        page=random.choice((None, None, 1)),
    )
    edits = random.choices(tuple(BOOKS), k=random.randint(1, 3))
    books = (random.choice(FIRST_BOOKS), *edits)
    plan = strikes(random, random.choice((0.0, 0.03, 0.1)))
    seconds = random.choice((0.02, 10.0))
    return RuleEdits(seed, shape, plan, books, seconds)


def edited(seed: int) -> RuleEdits:
    """The schedule of edits with this seed, run to its end; raises Broken."""
    return edits_schedule(seed).run()
