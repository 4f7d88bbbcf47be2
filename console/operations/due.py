"""Messages that wait outside SQS, due now: the next automatic run decides about them anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from deadletter.contract import circuit_lane, is_of_delays, rule_lane

from . import deployed, rule_table
from .adapter_errors import aws_errors
from .audit import IntendedChange, recorded
from .letter_walk import waiting_room
from .problem import Cause, Problem
from .redrive_function import request
from .replay_census import census
from .replay_source import ReplaySource
from .session import Session
from .words import count

if TYPE_CHECKING:
    from deadletter.redrive.waiting_room import WaitingRoomEntry

    from .sources import Chosen

# Entries that one question to the index answers.
_PAGE = 500


def opens(source: ReplaySource) -> bool:
    """Whether a time lets the messages of a source go: those of circuits, rules and delays."""
    lane = source.lane or ""
    return is_of_delays(lane) or lane.startswith((circuit_lane(""), rule_lane("")))


class DueNow:
    """Waiting messages that a person is about to have decided anew: chosen, and not touched yet."""

    def __init__(self, session: Session, found: Chosen, sources: Sequence[ReplaySource]) -> None:
        self._session = session
        self._found = found
        self._room = waiting_room(session, found.app, found.pipeline)
        if found.pipeline.fifo and found.is_filtered and sources:
            raise Problem(
                f"{found.pipeline.name} is FIFO, where a group leaves whole: name the place alone,"
                " as in --in rule:ID",
                Cause.INPUT,
            )
        self._chosen = tuple(entry for source in sources for entry in self._of(source))

    def __len__(self) -> int:
        return len(self._chosen)

    @property
    def lanes(self) -> Counter[str]:
        """The messages, by what they wait for."""
        return Counter(entry.lane for entry in self._chosen)

    @property
    def _where(self) -> str:
        return ", ".join(f"{number:,} in {lane}" for lane, number in sorted(self.lanes.items()))

    def question(self) -> Iterator[str]:
        """What would happen to them."""
        if not self._chosen:
            return
        yield (
            f"{count(len(self), 'message')} that wait would be due now ({self._where}): the next"
            " automatic run decides anew, by its rules and circuits."
        )
        for rule in self._still_held():
            yield f"Rule {rule} is in force: what it matches waits again. It is lifted by"
            yield f"  dlq rules disable {rule}"

    def _still_held(self) -> list[str]:
        """The rules in force that hold messages of these lanes: what they match stays."""
        of_rules = [lane for lane in self.lanes if lane.startswith(rule_lane(""))]
        rules = [lane.removeprefix(rule_lane("")) for lane in of_rules]
        if not rules:
            return []
        stored = rule_table.table(self._session.aws, self._found.app.rules_table).read()
        terms = deployed.terms(self._found.pipeline)
        book = rule_table.book([row.columns for row in stored], terms)
        return sorted(set(rules) & set(book.holding(self._session.clock(), {})))

    def do(self, reason: str) -> int:
        """Has the function make them due; returns how many: one that has left is let alone."""
        if not self._chosen:
            return 0
        name = self._found.pipeline.name
        change = IntendedChange("retry", name, f"messages that wait: {self._where}", reason)
        due = 0
        with recorded(self._session, self._found.app, change) as record:
            for start in range(0, len(self._chosen), _PAGE):
                due += self._make_due(self._chosen[start : start + _PAGE])
                done = min(start + _PAGE, len(self._chosen))
                self._session.say(f"{done:,} of {count(len(self._chosen), 'message')} due")
            record.done({"due": due})
        return due

    def _make_due(self, entries: Sequence[WaitingRoomEntry]) -> int:
        from deadletter.redrive.recall import to_request

        answer = request(
            self._session.aws,
            self._found.pipeline,
            "recall",
            to_request(entries),
            expects="recalled",
            lost="messages can be due already; type it again, which makes the others due",
        )
        if trouble := answer.get("trouble"):
            raise Problem(
                f"Not all messages could be made due: {trouble}. Those that are due stay due; "
                "type it again in a minute.",
                Cause.UNREACHABLE,
            )
        return int(answer["recalled"])

    def _of(self, source: ReplaySource) -> Iterator[WaitingRoomEntry]:
        """The chosen entries of a lane."""
        from deadletter.redrive.waiting_room import FOREVER, SHARDS

        wanted = self._wanted(source)
        for shard in range(SHARDS):
            after = None
            while True:
                with aws_errors():
                    page = self._room.due(source.lane or "", shard, FOREVER, _PAGE, after)
                if not page:
                    break
                yield from filter(wanted, page)
                after = page[-1]

    def _wanted(self, source: ReplaySource) -> Callable[[WaitingRoomEntry], bool]:
        if not self._found.is_filtered:
            return lambda _: True
        found = self._found
        counted = census(self._session, found.app, found.pipeline, source, found.selection)
        copies = {letter.copy for letter in (*counted.taken, *counted.left_out)}
        return lambda entry: entry.copy in copies
