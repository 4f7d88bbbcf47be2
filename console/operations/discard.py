"""Messages thrown away by a person, from wherever they lie; a copy of each is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from deadletter.contract import REPORT_DAYS
from deadletter.replay.plan import DISCARD, ReplayPlan

from .errors import Cause, Problem
from .places import Places, place
from .replay_census import CountedLetter, StaysOut
from .replay_plan import DraftPlan, RunsStarted, draft_of, start
from .selection import All, Ids, Pipeline, Terms, choice
from .session import Session
from .sources import Chosen, chosen
from .verbs import Asked, Verb
from .words import count, moment

DISCARD_RATE = 100.0
"""Messages per second that are thrown away: that loads no consumer."""

_MOST_NAMED = 5
"""Messages that are named before a person says yes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardRequest:
    """Throw messages away, for a reason that is kept with them.

    Say which: an ID, -f KEY=VALUE, a place with a name, or --all. Without --in they are looked for
    in the DLQs, among the parked and among those that wait. A run takes them: other messages of a
    queue that it looks through wait outside of it from then on, parked ones still parked.

    A copy of each whole message is kept for 90 days, and dlq restore brings it back. With --no-copy
    nothing does: type the app's name when asked, or give it with --confirm.
    """

    ids: Ids = ()
    pipeline: Pipeline = None
    places: Places = ()
    terms: Terms = ()
    everything: All = False
    no_copy: Annotated[bool, Asked("Keep no copy: nothing brings them back.", ("--no-copy",))] = (
        False
    )


@dataclass(frozen=True, slots=True)
class DiscardPlan:
    """Messages that would be thrown away: counted, and not touched."""

    chosen: Chosen
    drafts: Sequence[DraftPlan]
    keeps_copies: bool
    out: StaysOut

    @property
    def letters(self) -> Sequence[CountedLetter]:
        return [letter for draft in self.drafts for letter in draft.census.taken]


def told(letters: Sequence[CountedLetter]) -> Iterator[str]:
    """What a person has to see of messages before a yes; never what is in them.

    Why they are parked, how they failed, the oldest, and which some of them are.
    """
    reasons = Counter(letter.reason for letter in letters if letter.reason)
    if reasons:
        yield f"Parked for {_numbers(reasons)}."
    yield f"Last failures: {_numbers(Counter(map(_failure, letters)))}."
    known = [letter for letter in letters if letter.first_sent]
    oldest = min(known, key=lambda letter: letter.first_sent, default=None)
    if oldest is not None and (sent := moment(oldest.first_sent / 1000)) is not None:
        yield f"The oldest was first sent at {sent:%Y-%m-%d %H:%M} UTC: {oldest.origin}"
    ids = sorted({letter.origin for letter in letters})
    more = len(ids) - _MOST_NAMED
    yield f"They are {', '.join(ids[:_MOST_NAMED])}{f' and {more:,} more' if more > 0 else ''}."


def _failure(letter: CountedLetter) -> str:
    if not letter.cause:
        return "not on record"
    return f"{letter.error_type or letter.category} ({letter.cause[:8]})"


def _numbers(letters: Counter[str]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in letters.most_common())


def prepare(session: Session, request: DiscardRequest) -> DiscardPlan:
    """The messages that would be thrown away; Problem if there are none."""
    places = map(place, request.places)
    choose = choice(request.ids, places, request.terms, everything=request.everything)
    return _planned(chosen(session, choose, request.pipeline), request)


def _planned(found: Chosen, request: DiscardRequest) -> DiscardPlan:
    terms = ReplayPlan(
        pipeline=found.pipeline.name,
        destination=DISCARD,
        # What is thrown away has no outcome to wait for.
        canary=(),
        ramp=(1.0,),
        keep_export=not request.no_copy,
    )
    every = [draft_of(found, source, terms, DISCARD_RATE) for source in found.sources]
    drafts = [draft for draft in every if draft.census.taken or draft.census.groups]
    out = StaysOut.of(found.pipeline.name, [draft.census for draft in every], found.named)
    if not drafts:
        if found.or_else is not None and len(out.not_found) == len(found.named):
            return _planned(found.or_else, request)
        raise nothing(found, every, out)
    joined = sum(draft.census.widened for draft in drafts)
    if joined or any(draft.origins is None for draft in drafts):
        raise Problem(
            f"{found.pipeline.name} is FIFO, where a message is taken with its whole group: "
            f"{count(joined, 'other message')} would be thrown away too. Choose whole groups.",
            Cause.INPUT,
        )
    return DiscardPlan(found, drafts, not request.no_copy, out)


def nothing(found: Chosen, drafts: Sequence[DraftPlan], out: StaysOut) -> Problem:
    """That there is nothing to take: where it was looked, of which only the records, and why."""
    read = {draft.source for draft in drafts if draft.census.by_ledger}
    says = " (its failure records: nothing was received)"
    looked = ", ".join(f"{each.name}{says if each in read else ''}" for each in found.sources)
    none = "" if out.left_out else f"No message of {found.pipeline.name} matches. "
    texts = (
        f"{none}Nothing was done. Looked through: {looked or 'no place has messages'}. Not looked "
        "through: the main queue, whose messages are with the consumer.",
        *out.says(),
    )
    return Problem(" ".join(texts), Cause.ABSENT)


def received(found: Chosen, drafts: Sequence[DraftPlan]) -> Iterator[str]:
    """What the count has cost."""
    for draft in drafts:
        if draft.census.looked_at:
            yield (
                f"{count(draft.census.looked_at, 'message')} of {draft.source.name} received "
                f"to count them: adds {found.looks} to each receive count."
            )


def by_place(drafts: Sequence[DraftPlan]) -> str:
    """How many messages there are in each of the places."""
    return ", ".join(f"{len(each.census.taken):,} in {each.source.name}" for each in drafts)


def question(plan: DiscardPlan) -> Iterator[str]:
    """What would be thrown away, and until when it can be restored."""
    number = count(len(plan.letters), "message")
    yield f"Discard {number} of {plan.chosen.pipeline.name}: {by_place(plan.drafts)}."
    yield from told(plan.letters)
    yield from plan.out.says()
    yield from received(plan.chosen, plan.drafts)
    if plan.keeps_copies:
        yield f"They can be restored for {REPORT_DAYS} days."
    else:
        yield "No copy is kept: nothing brings them back."


def commit(session: Session, plan: DiscardPlan, reason: str) -> RunsStarted:
    """Starts a run for each place."""
    runs = tuple(
        start(session, draft.because(reason), draft.origins, command="discard")
        for draft in plan.drafts
    )
    facts = {**session.place, **plan.out.facts, "messages": len(plan.letters)}
    return RunsStarted(**facts, pipeline=plan.chosen.pipeline.name, runs=runs, reason=reason)


VERB = Verb(
    name="discard",
    request=DiscardRequest,
    examples=(
        'dlq discard A-4711 --reason "sent by mistake"',
        'dlq discard --in parked -f reason=EXPIRED --reason "the sale is over"',
    ),
    change="A discard",
    prepare=prepare,
    question=question,
    commit=commit,
    severe=lambda plan: not plan.keeps_copies,
)
