"""Sends messages again: judged anew in a run, or due at once where they wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from shlex import quote
from typing import TYPE_CHECKING

from deadletter.contract import EDITS, originals_object, rule_lane
from deadletter.replay.plan import AGAIN, ORIGINALS, ReplayPlan

from . import rule_table
from .audit import IntendedChange, recorded
from .errors import Cause, Problem, aws_errors
from .letter_walk import in_parts
from .redrive import request
from .replay_census import Census, ListedLetter, ReplaySource, census, letters_of
from .replay_plan import circuits, observing, pace, planned, start
from .replay_runs import FAILED, IN_DOUBT, PROCESSED, ReplayRow, RunSwitch
from .words import count

if TYPE_CHECKING:
    from deadletter.redrive.waiting_room import WaitingRoomEntry
    from deadletter.settings.pipeline import Pipeline

    from .sources import Chosen


def ended(switch: RunSwitch) -> RunSwitch:
    """The run; Problem if it has not ended."""
    if switch.before.is_live:
        raise Problem(
            f"Run {switch.id} is {switch.before.state}: only what an ended run took can be sent "
            f"again. This waits for its end:\ndlq show {quote(switch.id)} --watch",
            Cause.FAILED,
        )
    return switch


class OnceMore:
    """Messages of an ended run that would be made anew: they are counted, and nothing is made.

    `chooses` tells which.
    """

    def __init__(
        self,
        switch: RunSwitch,
        chooses: Callable[[ListedLetter], bool],
        *,
        rate: float | None,
        approve: bool,
        hold: bool,
    ) -> None:
        self._switch = ended(switch)
        self._settings = switch.pipeline.settings()
        self._of = self._run_with_originals()
        self.letters = list(filter(chooses, letters_of(switch)))
        if not self.letters:
            raise Problem(f"Run {switch.id} has no such message: nothing was done.", Cause.ABSENT)
        self._plan = self._planned(rate, approve, hold)

    def __len__(self) -> int:
        return len(self.letters)

    def _run_with_originals(self) -> str:
        """The run that has kept the messages; Problem if none of them is kept."""
        from deadletter.aws.objects import S3RunObjects

        switch, plan = self._switch, self._switch.plan
        if plan.is_for_discarders:
            says = f"Run {switch.id} sent nothing: it threw messages away, or brought them back."
            back = f" What is discarded comes back by\ndlq restore {quote(switch.id)}"
            raise Problem(f"{says}{back if plan.keep_export else ''}", Cause.INPUT)
        of = plan.repeated_run or switch.id
        bucket, pipeline = switch.app.messages_bucket, switch.pipeline.name
        originals = S3RunObjects(switch.session.aws.s3, bucket, pipeline, of, originals_object)
        with aws_errors():
            kept = originals.listed("")
        if not kept:
            says = f"No message of run {of} is kept: replay_days are over, or the setting is 0."
            typed = f"dlq retry --in run:{quote(switch.id)}"
            more = f"Those that failed and are still parked are sent by\n{typed}"
            raise Problem(f"{says} {more}", Cause.ABSENT)
        return of

    def question(self) -> Iterator[str]:
        """What would be sent, and what a person should know."""
        switch, all_ = self._switch, len(self.letters)
        yield (
            f"{count(all_, 'message')} of run {switch.id} would be made anew, with a new "
            "idempotency key, as they were before that run."
        )
        aborted = "this run would be aborted before it makes a message"
        yield from observing(switch.pipeline, aborted)
        processed = sum(letter.outcome in PROCESSED for letter in self.letters)
        in_doubt = sum(letter.outcome in IN_DOUBT for letter in self.letters)
        yield from _idempotency_says(self._settings, processed, in_doubt, all_)
        if parked := sum(letter.outcome in FAILED - IN_DOUBT for letter in self.letters):
            yield (
                f"{parked:,} of {all_:,} were parked, and can be parked still: they stay there "
                "beside what is made of them. Without --again the parked ones themselves are sent."
            )
        with aws_errors():
            changed = {each.name.rpartition("-")[0] for each in switch.objects.listed(EDITS)}
        if changed:
            yield (
                f"Edited in run {switch.id}: {count(len(changed), 'message')}. What is sent is the "
                "message as it was before."
            )
        yield from circuits(switch.here)
        yield from pace_says(self._plan)

    def start(self, reason: str) -> ReplayRow:
        """Start the run."""
        from dataclasses import replace

        origins = sorted({letter.name.origin for letter in self.letters})
        plan = replace(self._plan, why=reason)
        return start(self._switch.session, plan, origins, command="retry")

    def _planned(self, rate: float | None, approve: bool, hold: bool) -> ReplayPlan:
        here = self._switch.here
        counted = len({letter.name.origin for letter in self.letters})
        terms = ReplayPlan(
            pipeline=here.pipeline.name,
            source=f"{ORIGINALS}{self._of}",
            counted=counted,
            approve=approve,
            hold=hold,
            accept=AGAIN,
        )
        return planned(here, terms, pace(here, rate), counted)


def pace_says(plan: ReplayPlan) -> Iterator[str]:
    """How a run goes on, and who lets it."""
    first = ", ".join(map(str, plan.canary))
    yield f"First {first}, then up to {plan.rate:g}/s; it holds itself if they fail again."
    if plan.approve:
        yield "A second person has to approve it before anything is sent."


def _idempotency_says(
    settings: Pipeline, processed: int, in_doubt: int, all_: int
) -> Iterator[str]:
    """What comes of a new key where messages were processed before, or may have been."""
    before = f"{processed:,} of {all_:,} were processed before"
    if in_doubt:
        before += f", and {in_doubt:,} with no known outcome may have been"
    if not (processed or in_doubt):
        return
    if settings.consumer_library:
        yield f"{before}: the consumer processes them once more, with all their effects."
    else:
        yield (
            f"{before}: the consumer does not use the library, so a new key means nothing to it, "
            "and nothing of ours keeps it from processing them twice."
        )


_MOST_NAMED = 10
"""IDs of messages that the record of a change names; `dlq show` finds the change by them."""

# Entries that one question to the index answers.
_PAGE = 500


class DueNow:
    """Waiting messages that a person is about to have decided anew: chosen, and not touched yet.

    `counted` are those of them that were compared with the choice.
    """

    def __init__(self, found: Chosen, sources: Sequence[ReplaySource]) -> None:
        self._session = found.here.session
        self._found = found
        self._room = found.here.room
        self.counted: list[Census] = []
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
        yield from observing(self._found.pipeline, "its next automatic run moves none of them")
        for rule in self._still_held():
            yield (
                f"Rule {rule} is in force: what it matches waits again. It is lifted by\n"
                f"dlq rules disable {quote(rule)} -p {quote(self._found.pipeline.name)}"
            )

    def _still_held(self) -> list[str]:
        """The rules in force that hold messages of these lanes: what they match stays."""
        of_rules = [lane for lane in self.lanes if lane.startswith(rule_lane(""))]
        rules = [lane.removeprefix(rule_lane("")) for lane in of_rules]
        if not rules:
            return []
        stored = rule_table.table(self._session.aws, self._found.here.app.rules_table).read()
        terms = self._found.pipeline.rule_terms()
        book = rule_table.book([row.columns for row in stored], terms)
        return sorted(set(rules) & set(book.holding(self._session.clock(), {})))

    def do(self, reason: str) -> int:
        """Has the function make them due; returns how many: one that has left is let alone."""
        if not self._chosen:
            return 0
        name = self._found.pipeline.name
        ids = sorted(self._found.selection.ids)[:_MOST_NAMED]
        target = f"messages that wait: {self._where}{': ' if ids else ''}{' '.join(ids)}"
        change = IntendedChange("retry", name, target, reason)
        due = 0
        with recorded(self._session, self._found.here.app, change) as record:
            for part in in_parts(self._chosen, _PAGE):
                due += self._make_due(part)
                self._session.say(f"{due:,} of {count(len(self._chosen), 'message')} due")
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
        # What keeps a message out of a run is decided anew.
        counted = census(self._found.here, source, self._found.selection).without_reasons
        self.counted.append(counted)
        copies = {letter.copy for letter in counted.taken}
        return lambda entry: entry.copy in copies
