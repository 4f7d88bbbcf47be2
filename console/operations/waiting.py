"""Letters that wait outside SQS: what waits where and why, and calling them back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from deadletter.contract import (
    DUE_LANE,
    PARKED_LANE,
    circuit_lane,
    dedicated_lane,
    delay_lane,
    rule_lane,
    run_lane,
)

from . import deployed, rule_table
from .adapter_errors import aws_errors
from .answer import Answer
from .audit import IntendedChange, recorded
from .letter_walk import letters_of_lane, waiting_room
from .problem import Cause, Problem
from .redrive_function import request
from .session import Session
from .words import count

if TYPE_CHECKING:
    from deadletter.redrive.waiting_room import WaitingRoomEntry
    from deadletter.routing.selection import Selection

# Entries that one question to the index answers, and letters between two reports of progress.
_PAGE = 500

Progress = Callable[[str], object]
"""Told how far it is."""


def waits_for(lane: str) -> str:
    """What the letters of a lane wait for, in words."""
    name = lane.partition(":")[2]
    for prefix, words in (
        (rule_lane(""), f"rule {name} to end, or to let them go"),
        (delay_lane(""), f"the delay that rule {name} gave them"),
        (circuit_lane(""), f"circuit {name} to close"),
        (run_lane(""), f"replay run {name}"),
        (dedicated_lane(""), f"the schedule of dedicated DLQ {name}, or a person"),
    ):
        if lane.startswith(prefix):
            return words
    return {
        DUE_LANE: "their backoff",
        PARKED_LANE: "a person: they are parked",
    }.get(lane, "something that this version of dlq does not know")


def way_out(lane: str, pipeline: str) -> str | None:
    """The command that takes letters out of a lane that no recall opens; None for any other."""
    name, here = lane.partition(":")[2], f"--pipeline {pipeline}"
    if lane.startswith(run_lane("")):
        return f"dlq run abort {name}"
    if lane.startswith(dedicated_lane("")):
        return f"dlq redrive now {here} --source {name}"
    return f"dlq parked release {here} --all" if lane == PARKED_LANE else None


def _named(names: Sequence[str], lane: str | None, rule: str | None) -> list[str]:
    """The lanes among `names` that meet what a person has named; none if nothing was."""
    if lane is None and rule is None:
        return []
    of_rule = None if rule is None else (rule_lane(rule), delay_lane(rule))
    return [name for name in names if lane in (None, name) and (of_rule is None or name in of_rule)]


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """Which letters a person calls back: those that meet everything that is given."""

    pipeline: str | None
    lane: str | None = None
    rule: str | None = None
    selection: Selection | None = None


@dataclass(frozen=True, slots=True)
class Recalled(Answer):
    """What `dlq waiting recall` answers."""

    at: Annotated[datetime, "when it was done"]
    pipeline: Annotated[str, "name of the pipeline"]
    letters: Annotated[int, "letters that are due now, and judged anew by the next run"]
    gone: Annotated[int, "letters that had left their lane meanwhile"]
    lanes: Annotated[dict[str, int], "the letters that were chosen, by lane"]


class Recall:
    """Letters that a person is about to call back: chosen, and not touched yet."""

    def __init__(
        self, session: Session, request: RecallRequest, progress: Progress = lambda _: None
    ) -> None:
        self._session = session
        self._app = session.app()
        self._pipeline = self._app.pipeline(request.pipeline)
        self._room = waiting_room(session, self._app, self._pipeline)
        self.pipeline = self._pipeline.name
        self._chosen = tuple(self._choose(request, progress))
        if not self._chosen:
            raise Problem(
                f"No waiting letter of {self.pipeline} matches: nothing was done. "
                f"dlq list --in waiting --pipeline {self.pipeline} shows what waits where.",
                Cause.ABSENT,
            )

    @property
    def lanes(self) -> Counter[str]:
        """The letters that were chosen, by lane."""
        return Counter(entry.lane for entry in self._chosen)

    def still_held(self) -> list[str]:
        """The rules in force that hold letters of these lanes: what they match stays."""
        rules = [lane.removeprefix(rule_lane("")) for lane in self.lanes if _is_of_rule(lane)]
        if not rules:
            return []
        stored = rule_table.table(self._session.aws, self._app.rules_table).read()
        book = rule_table.book([row.columns for row in stored], deployed.terms(self._pipeline))
        return sorted(set(rules) & set(book.holding(self._session.clock(), {})))

    def do(self, why: str, progress: Progress = lambda _: None) -> Recalled:
        """Has the redriver's function make the letters due now; one that has left its lane is
        let alone.
        """
        lanes = self.lanes
        names = ", ".join(f"{letters:,} in {lane}" for lane, letters in sorted(lanes.items()))
        change = IntendedChange("waiting recall", self.pipeline, f"letters that wait: {names}", why)
        due = 0
        with recorded(self._session, self._app, change) as record:
            for start in range(0, len(self._chosen), _PAGE):
                due += self._make_due(self._chosen[start : start + _PAGE])
                done = min(start + _PAGE, len(self._chosen))
                progress(f"{done:,} of {count(len(self._chosen), 'letter')} called back")
            record.done({"due": due})
        return Recalled(
            **self._session.place,
            at=self._session.now,
            pipeline=self.pipeline,
            letters=due,
            gone=len(self._chosen) - due,
            lanes=dict(sorted(lanes.items())),
        )

    def _make_due(self, entries: Sequence[WaitingRoomEntry]) -> int:
        from deadletter.redrive.recall import to_request

        answer = request(
            self._session.aws,
            self._pipeline,
            "recall",
            to_request(entries),
            expects="recalled",
            lost="letters may be due already; type it again, which makes the others due",
        )
        if trouble := answer.get("trouble"):
            raise Problem(
                f"Not all letters could be made due: {trouble}. Those that are due stay due; "
                "type it again in a minute.",
                Cause.UNREACHABLE,
            )
        return int(answer["recalled"])

    def _choose(self, request: RecallRequest, progress: Progress) -> Iterator[WaitingRoomEntry]:
        with aws_errors():
            names = sorted(each.name for each in self._room.lanes())
        if request.lane is not None or request.rule is not None:
            names = _named(names, request.lane, request.rule)
        if request.lane is not None and (way := way_out(request.lane, self.pipeline)) is not None:
            raise Problem(
                f"Letters of lane {request.lane} wait for {waits_for(request.lane)}: no recall "
                f"takes them, but {way} does.",
                Cause.INPUT,
            )
        if request.selection is not None and self._pipeline.fifo:
            raise Problem(
                f"{self.pipeline} is FIFO, where a group leaves whole: recall by --lane or --rule.",
                Cause.INPUT,
            )
        seen = 0
        for name in names:
            if way_out(name, self.pipeline) is not None:
                continue
            wanted = None if request.selection is None else self._matching(name, request.selection)
            for entry in self._entries(name):
                seen += 1
                if seen % _PAGE == 0:
                    progress(f"{count(seen, 'letter')} looked at")
                if wanted is None or entry.copy in wanted:
                    yield entry

    def _entries(self, lane: str) -> Iterator[WaitingRoomEntry]:
        """All entries of a lane, page by page."""
        from deadletter.redrive.waiting_room import FOREVER, SHARDS

        for shard in range(SHARDS):
            after = None
            while True:
                with aws_errors():
                    page = self._room.due(lane, shard, FOREVER, _PAGE, after)
                if not page:
                    break
                yield from page
                after = page[-1]

    def _matching(self, lane: str, selection: Selection) -> set[str]:
        """The copies of a lane's letters that a selection matches, read whole."""
        from deadletter.message import stamp as stamps
        from deadletter.routing.selector import Selector
        from deadletter.rules.document import DocumentBuilder

        judge = deployed.judge(self._session.aws, self._pipeline)
        selector, builder = Selector(selection), DocumentBuilder(judge.settings)
        matching = set()
        for found in letters_of_lane(self._session, self._app, self._pipeline, lane):
            stamp = stamps.read(found.letter, judge.trusted_senders).stamp
            document = builder.build(found.letter, stamp, None, self._session.clock())
            if selector.matches(found.letter, stamp, None, document):
                matching.add(found.letter.message_id)
        return matching


def _is_of_rule(lane: str) -> bool:
    return lane.startswith(rule_lane(""))


def describe(recall: Recall) -> list[str]:
    """What a recall would do, for the question before it."""
    lanes = ", ".join(f"{number:,} in {lane}" for lane, number in sorted(recall.lanes.items()))
    total = count(sum(recall.lanes.values()), "letter")
    lines = [f"Call back {total} of {recall.pipeline}: {lanes}.", "The next run judges them anew."]
    for rule in recall.still_held():
        lines.append(f"Rule {rule} is in force: what it matches still is held again.")
    return lines
