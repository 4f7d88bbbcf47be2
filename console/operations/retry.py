"""Messages sent again: those that a person means, from wherever they lie, as one plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import Annotated, Any

from deadletter.contract import MAIN_DLQ, Reason
from deadletter.message.letter import Letter
from deadletter.replay.edits import EditRefused
from deadletter.replay.plan import DELIVER, DISCARD, MAIN_QUEUE, KeyPolicy, ReplayPlan
from deadletter.replay.run import RunState
from deadletter.routing.selection import Selection

from . import causes, edits, redrive
from .again import DueNow, OnceMore, ended, pace_says
from .app import DeployedPipeline
from .discard import by_place, nothing, received, told
from .edits import Change
from .errors import Cause, Problem
from .letter_walk import FoundLetter
from .places import DEDICATED, DLQ, RUN, Places, place
from .redrive import RedriveTarget
from .replay_census import CountedLetter, ListedLetter, StaysOut, letters_of, parked_sources
from .replay_plan import DraftPlan, draft_of, start
from .replay_runs import LEAVE_TO, ReplayRow, RunSwitch, outcomes_of
from .selection import All, Choice, ChosenPlace, Ids, Pipeline, Terms, choice
from .session import Answer, Session
from .sources import Chosen, chosen
from .verbs import Asked, Verb
from .words import count
from .words import duration as in_time

_LOOK_SECONDS = 2.0
"""Between two looks at a run whose messages are to be edited."""

_SAMPLE = 3
"""Messages whose difference is shown before many are edited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRequest:
    """Send messages again: from DLQs, the parked, or those that wait.

    Say which: an ID, -f KEY=VALUE, a place with a name, or --all. Without --in they are looked for
    in all these places. Each place has a run of its own: it sends 1, 2, 5 and 20 first, holds
    itself if they fail, and is watched until its end; Ctrl-C leaves it running. What waits for a
    circuit, a rule or a time is due now instead, and decided anew. Nothing is forced past a rule
    that stops it or an open circuit: the plan says which, and how that is lifted.

    With --edit or --patch messages are edited before they are sent; with --hold nothing is sent
    until dlq run resume. --in run:ID sends what failed in a run again, and --again what it took,
    once more, with a new idempotency key. --auto runs the automatic retry now.

    The exit status is 1 if a message failed again or has no known outcome, or a run waits for a
    person.
    """

    ids: Ids = ()
    pipeline: Pipeline = None
    places: Places = ()
    terms: Terms = ()
    everything: All = False
    edit: Annotated[
        bool, Asked("Edit body and attributes of one message in $EDITOR first.", ("--edit",))
    ] = False
    patch: Annotated[
        str | None,
        Asked("Change each body by a JSON Patch (RFC 6902) first.", ("--patch",), "FILE",
              reads=True),
    ] = None  # fmt: skip
    to: Annotated[
        str,
        Asked("main; deliver (to the consumer function, in order); or a dedicated DLQ's id.",
              ("--to",), "ID"),
    ] = MAIN_QUEUE  # fmt: skip
    rate: Annotated[
        float | None,
        Asked("Messages per second at full pace; else 15 % of the usual.", ("--rate",), "N",
              least=0.01, most=1_000.0),
    ] = None  # fmt: skip
    approve: Annotated[
        bool, Asked("A second person has to agree before anything is sent.", ("--approve",))
    ] = False
    accept_conflict: Annotated[
        bool,
        Asked("Process them although another message with their key was processed.",
              ("--accept-conflict",)),
    ] = False  # fmt: skip
    stop_on_failure: Annotated[
        bool, Asked("An ordering key stops at a message that fails.", ("--stop-on-failure",))
    ] = False
    auto: Annotated[
        bool, Asked("Run the automatic retry now: what is due, by its own rules.", ("--auto",))
    ] = False
    again: Annotated[
        bool,
        Asked("With --in run:ID: make its messages anew, with a new idempotency key.",
              ("--again",)),
    ] = False  # fmt: skip
    hold: Annotated[
        bool, Asked("Take them and send nothing: dlq run resume starts exactly this.", ("--hold",))
    ] = False

    @property
    def needs_run(self) -> bool:
        """Whether messages that wait have to go by a run: it asks for more than to be due."""
        asked = (self.edit, self.patch, self.approve, self.accept_conflict, self.stop_on_failure)
        return any((*asked, self.hold, self.rate)) or self.to != MAIN_QUEUE


@dataclass(frozen=True, slots=True)
class Edit:
    """What a person changes before messages are sent, and what is known of it.

    `change` is None until it was written. `found` is one message as it is, `samples` are messages
    before and after.
    """

    change: Change | None
    found: FoundLetter | None
    samples: Sequence[tuple[Letter, Letter]] = ()
    says: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RetryPlan:
    """What would be sent again: counted, and nothing moved. Only one kind of it, or runs and what
    is made due.
    """

    request: RetryRequest
    chosen: Chosen | None = None
    drafts: Sequence[DraftPlan] = ()
    due: DueNow | None = None
    out: StaysOut = field(default_factory=StaysOut)
    edit: Edit | None = None
    again: OnceMore | None = None
    auto: Sequence[RedriveTarget] = ()
    notes: Sequence[str] = ()
    causes: Sequence[str] = ()

    @property
    def runs(self) -> Sequence[DraftPlan]:
        """The drafts that have a message."""
        return [draft for draft in self.drafts if draft.census.taken]

    @property
    def letters(self) -> Sequence[CountedLetter]:
        """What the runs would take."""
        return [letter for draft in self.drafts for letter in draft.census.taken]


@dataclass(frozen=True, slots=True)
class Retried(Answer):
    """What `dlq retry` answers."""

    pipeline: Annotated[str, "name of the pipeline"]
    messages: Annotated[int, "messages counted; with --auto those that were moved"]
    runs: Annotated[Sequence[ReplayRow], "the runs, one for each place, as they were seen last"]
    due: Annotated[int, "messages that waited, and are decided anew by the next automatic run"]
    left_out: Annotated[Mapping[str, int], "messages that match and are not sent, by reason"]
    not_found: Annotated[Sequence[str], "the ids that were given and that no message has"]
    not_edited: Annotated[Mapping[str, int], "messages that could not be edited, by the reason"]
    reports: Annotated[
        Sequence[Mapping[str, Any]],
        "with --auto, what each run reported: `stopped` (why it ended), `ended_well`, `trouble`"
        " (what AWS refused or did not answer), `received`, `decisions`, `moved`, `failed`, `left`,"
        " and whatever else it counted",
    ]
    reason: Annotated[str, "the reason given"]


def prepare(session: Session, request: RetryRequest) -> RetryPlan:
    """What would be sent again; Problem if there is nothing to send."""
    places = map(place, request.places)
    choose = choice(request.ids, places, request.terms, everything=request.everything)
    if request.edit and request.patch is not None:
        raise Problem("Give one of --edit and --patch.", Cause.INPUT)
    if request.auto:
        return _automatic(session, request, choose)
    runs = [place.name for place in choose.places if place.kind is RUN]
    if runs or request.again:
        if len(choose.places) != 1 or len(runs) != 1:
            raise Problem("Name one run alone: --in run:ID", Cause.INPUT)
        return _of_run(session, request, choose, runs[0])
    return _planned(request, chosen(session, choose, request.pipeline))


def _automatic(session: Session, request: RetryRequest, choose: Choice) -> RetryPlan:
    if choose.is_narrow or request.needs_run or request.again:
        raise Problem(
            "--auto takes all that is due, as the schedule does: of --in dedicated:ID or --in dlq,"
            " and by no other choice.",
            Cause.INPUT,
        )
    places = choose.places or (ChosenPlace(DLQ),)
    if others := [str(each) for each in places if each.kind not in (DLQ, DEDICATED)]:
        raise Problem(f"--auto takes no {others[0]}: the automatic retry reads DLQs.", Cause.INPUT)
    app = session.app()
    pipeline = app.pipeline(request.pipeline)
    ids = [id_ for each in places for id_ in each.queues_of(pipeline).values()]
    return RetryPlan(request, auto=[RedriveTarget(app, pipeline, id_) for id_ in ids])


def _of_run(session: Session, request: RetryRequest, choose: Choice, run: str) -> RetryPlan:
    """Messages of an ended run: the parked ones themselves, or all of them made anew."""
    switch = RunSwitch(session, request.pipeline, run)
    outcomes = [term for term in choose.terms if term.key == "outcome"]
    if len(outcomes) != len(choose.terms):
        raise Problem("Of a run messages are chosen by ID or -f outcome=failed", Cause.INPUT)
    names = [value for term in outcomes for value in term.values]
    if not (names or choose.ids or request.again):
        names = ["failed", "left"]
    wanted, ids = outcomes_of(names), set(choose.ids)

    def chooses(letter: ListedLetter) -> bool:
        is_named = not ids or bool(ids & {letter.name.copy, letter.name.origin})
        return is_named and (not names or letter.outcome in wanted)

    if request.again:
        if request.edit or request.patch:
            raise Problem("--again sends messages as they were: it takes no edit.", Cause.INPUT)
        once_more = OnceMore(
            switch, chooses, rate=request.rate, approve=request.approve, hold=request.hold
        )
        known = {id_ for each in once_more.letters for id_ in (each.name.copy, each.name.origin)}
        out = StaysOut(not_found=[id_ for id_ in choose.ids if id_ not in known])
        return RetryPlan(request, again=once_more, out=out)
    letters = [letter.name for letter in letters_of(ended(switch)) if chooses(letter)]
    if not letters:
        raise Problem(f"Run {switch.id} has no such message: nothing was done.", Cause.ABSENT)
    origins = tuple(name.origin for name in letters)
    named = {
        id_: {name.origin for name in letters if id_ in (name.copy, name.origin)}
        for id_ in choose.ids
    }
    sources = parked_sources(switch.pipeline)
    found = Chosen(switch.here, sources, Selection(ids=origins), named=named)
    plan = _planned(request, found)
    elsewhere = len(origins) - len(plan.letters) - sum(plan.out.left_out.values())
    note = (
        f"{count(elsewhere, 'message')} of {len(origins):,} are not parked, and not sent: they "
        "have no known outcome, or were sent or discarded since."
    )
    return replace(plan, notes=(*plan.notes, note)) if elsewhere > 0 else plan


def _planned(request: RetryRequest, found: Chosen) -> RetryPlan:
    from deadletter.redrive.recall import is_recallable

    _check_destination(found.pipeline, request.to)
    is_edited = request.edit or request.patch is not None
    lanes = [each for each in found.sources if each.lane and is_recallable(each.lane)]
    by_due = [] if request.needs_run else lanes
    by_run = [each for each in found.sources if each not in by_due]
    trial = _Trial(found, request)
    behind_failure = KeyPolicy.STOP if request.stop_on_failure else KeyPolicy.GO
    terms = ReplayPlan(
        pipeline=found.pipeline.name,
        destination=request.to,
        on_failure=behind_failure,
        on_unknown=behind_failure,
        approve=request.approve,
        # Edited before anything is sent.
        hold=request.hold or is_edited,
        accept="collision" if request.accept_conflict else None,
    )
    see = trial.see if is_edited else None
    drafts = [draft_of(found, source, terms, request.rate, see) for source in by_run]
    due = DueNow(found, by_due)
    counted = [*(draft.census for draft in drafts), *due.counted]
    out = StaysOut.of(found.pipeline.name, counted, found.named)
    plan = RetryPlan(request, found, drafts, due, out)
    if not plan.runs and not due:
        if found.or_else is not None and len(out.not_found) == len(found.named):
            return _planned(request, found.or_else)
        raise nothing(found, drafts, out)
    held = _held_causes(found)
    more = (f"Cause {each} is counted anew: its hold ends." for each in held)
    plan = replace(plan, notes=(*out.says(), *more), causes=held)
    return replace(plan, edit=trial.edit()) if is_edited else plan


def _check_destination(pipeline: DeployedPipeline, destination: str) -> None:
    allowed = (MAIN_QUEUE, DELIVER, *pipeline.dedicated)
    if destination not in allowed:
        discards = " Messages are thrown away by\ndlq discard" if destination == DISCARD else ""
        raise Problem(
            f"Pipeline {pipeline.name} has no destination {destination!r}: "
            f"it has {', '.join(allowed)}.{discards}",
            Cause.ABSENT,
        )


def _held_causes(found: Chosen) -> Sequence[str]:
    """The chosen causes that are held now."""
    prefixes = tuple(
        value.lower() for term in found.terms if term.key == "cause" for value in term.values
    )
    if not prefixes:
        return ()
    known = causes.held(found.here)
    return [each for each in known if each.startswith(prefixes)]


class _Trial:
    """Tries an edit on each message that is counted, and keeps a few."""

    def __init__(self, found: Chosen, request: RetryRequest) -> None:
        self._here, self._accept = found.here, request.accept_conflict
        self._change = None if request.patch is None else edits.patch(request.patch)
        self._refused: Counter[str] = Counter()
        self._samples: list[tuple[Letter, Letter]] = []
        self._says: dict[str, None] = {}
        self._seen: list[FoundLetter] = []

    def see(self, letter: FoundLetter) -> None:
        """Called with each message that would be sent."""
        if self._change is None:
            self._seen = [*self._seen, letter][:2]
            return
        try:
            after, says = edits.tried(self._here, letter, self._change, self._accept)
        except EditRefused as error:
            self._refused[str(error)] += 1
            return
        self._says[says] = None
        if len(self._samples) < _SAMPLE:
            self._samples.append((letter.letter, after))

    def edit(self) -> Edit:
        """What was tried; Problem if not all messages can be edited."""
        if self._refused:
            whys = "; ".join(f"{number:,}: {why}" for why, number in self._refused.most_common())
            raise Problem(f"Nothing was done: not all can be edited. {whys}.", Cause.FAILED)
        if self._change is None and len(self._seen) != 1:
            raise Problem("--edit takes one message: give its ID. --patch takes many.", Cause.INPUT)
        found = self._seen[0] if self._seen else None
        return Edit(self._change, found, self._samples, tuple(self._says))


def with_edit(session: Session, plan: RetryPlan, change: Change) -> RetryPlan:
    """The plan with what a person has written. Raises EditRefused."""
    assert plan.edit is not None
    assert plan.edit.found is not None
    assert plan.chosen is not None
    letter, accept = plan.edit.found, plan.request.accept_conflict
    after, says = edits.tried(plan.chosen.here, letter, change, accept)
    return replace(plan, edit=Edit(change, letter, ((letter.letter, after),), (says,)))


def question(plan: RetryPlan) -> Iterator[str]:
    """What would be sent, from where, what stays out, how fast, and what to think about."""
    for queue in plan.auto:
        name = "the DLQ" if queue.source == MAIN_DLQ else f"dedicated DLQ {queue.source}"
        moves = "moves nothing: it observes" if queue.observes else "moves what is due"
        yield f"Run the automatic retry of {queue.pipeline.name} over {name} now: it {moves}."
    if plan.again is not None:
        yield from plan.again.question()
        yield from plan.out.says()
    if plan.chosen is None:
        return
    yield from _counts(plan, plan.chosen)
    yield from plan.due.question() if plan.due is not None else ()
    yield from plan.notes
    if plan.edit is not None:
        for before, after in plan.edit.samples:
            yield f"Message {after.message_id} would be sent with this change:"
            yield from (f"  {each}" for each in edits.difference(before, after))
        yield from plan.edit.says
    for draft in plan.runs:
        yield from pace_says(draft.plan)
        yield f"About {in_time(draft.seconds)}, at {draft.rate_because}."
    yield from received(plan.chosen, plan.runs)
    for text in dict.fromkeys(text for draft in plan.runs for text in draft.warnings):
        yield f"Note: {text}"


def _counts(plan: RetryPlan, found: Chosen) -> Iterator[str]:
    if plan.runs:
        held = ", held until you resume it" if plan.request.hold else ""
        where = "" if plan.request.to == MAIN_QUEUE else f" to {plan.request.to}"
        number = count(len(plan.letters), "message")
        yield f"Send {number} of {found.pipeline.name} again{where}{held}: {by_place(plan.runs)}."
        yield from told(plan.letters)
        yield "What fails again is parked as RUN_FAILED, or for what it fails with."
        if any(letter.reason == Reason.QUARANTINED for letter in plan.letters):
            yield "Some were parked by a rule: while it is in force, the run parks them again."


def trial(session: Session, plan: RetryPlan) -> Iterator[str]:
    """With --dry-run: what the automatic retry would decide."""
    for queue in plan.auto:
        report = redrive.start(session, queue, dry_run=True)
        yield f"It ended because: {report.get('stopped') or 'it gave no reason'}."
        yield from redrive.figures(report)
        for letter in report.get("messages", ()):
            to = letter.get("lane") or letter.get("queue") or letter.get("reason") or ""
            yield (
                f"{letter.get('message_id')} {letter.get('action')} {to}: "
                f"{letter.get('because', '')}"
            )


def commit(session: Session, plan: RetryPlan, reason: str) -> Retried:
    """Starts what was planned; messages that are edited are sent once all of them are."""
    answer = begin(session, plan, reason)
    return replace(answer, not_edited=edited(session, plan, answer.runs, reason))


def begin(session: Session, plan: RetryPlan, reason: str) -> Retried:
    """Starts what was planned. A run whose messages are to be edited sends none of them yet."""
    if plan.auto:
        return _run_now(session, plan, reason)
    if plan.again is not None:
        run = plan.again.start(reason)
        messages = len(plan.again)
        return _answer(session, plan, reason, pipeline=run.pipeline, messages=messages, runs=(run,))
    assert plan.chosen is not None
    runs = [
        start(session, draft.because(reason), draft.origins, command="retry") for draft in plan.runs
    ]
    due = plan.due.do(reason) if plan.due is not None else 0
    for cause in plan.causes:
        causes.mend(plan.chosen.here, cause, reason)
    done = {"messages": len(plan.letters) + due, "runs": tuple(runs), "due": due}
    return _answer(session, plan, reason, pipeline=plan.chosen.pipeline.name, **done)


def edited(
    session: Session, plan: RetryPlan, runs: Sequence[ReplayRow], reason: str
) -> Mapping[str, int]:
    """Edits what these runs have taken, and sends it; gives why some could not be edited.

    It waits until the runs have their messages.
    """
    change = None if plan.edit is None else plan.edit.change
    each = (_edited(session, plan, run, change, reason) for run in runs if change)
    return dict(sum(each, Counter[str]()))


def _edited(
    session: Session, plan: RetryPlan, started: ReplayRow, change: Change, reason: str
) -> Counter[str]:
    """Edits the messages of a run once it has them, and lets it go on if all could be edited."""
    switch = RunSwitch(session, started.pipeline, started.run)
    run = switch.read()
    try:
        while run.state in (RunState.PLANNED, RunState.MOVING):
            session.say(f"run {run.id} takes its messages")
            session.pause(_LOOK_SECONDS)
            run = switch.read()
    except KeyboardInterrupt as error:
        raise Problem(
            f"Stopped: nothing was edited or sent. Run {run.id} is held once it has its messages:\n"
            f"dlq run abort {quote(run.id)}",
            Cause.FAILED,
        ) from error
    switch = RunSwitch(session, run.pipeline, run.id)
    if run.messages is None and run.is_live:
        # Resumed later, it would send what nobody has edited.
        switch.abort(reason, LEAVE_TO[0])
        raise Problem(
            f"Run {run.id} was {run.state} before it had its messages ({run.because}), so it was "
            "ended: nothing was edited or sent.",
            Cause.FAILED,
        )
    if not run.messages:
        return Counter()
    refused = edits.apply_to(switch, change, reason, plan.request.accept_conflict)
    if not refused and run.state is RunState.HELD and not plan.request.hold:
        switch.resume(reason)
    return refused


def _run_now(session: Session, plan: RetryPlan, reason: str) -> Retried:
    reports = [redrive.start(session, queue, dry_run=False, why=reason) for queue in plan.auto]
    moved = sum(int(each.get("moved") or 0) for each in reports)
    done = {"messages": moved, "reports": tuple(reports)}
    return _answer(session, plan, reason, pipeline=plan.auto[0].pipeline.name, **done)


def _answer(session: Session, plan: RetryPlan, reason: str, **done: Any) -> Retried:
    none: dict[str, Any] = {"runs": (), "due": 0, "not_edited": {}, "reports": ()}
    return Retried(**session.place, reason=reason, **{**none, **plan.out.facts, **done})


VERB = Verb(
    name="retry",
    request=RetryRequest,
    examples=(
        'dlq retry A-4711 --edit --reason "amount was 0"',
        'dlq retry --in parked -f cause=e05b3c77 --reason "fixed in 4.2"',
        'dlq retry --in run:4f0c1b -f outcome=failed --reason "fixed in 4.2.1"',
        'dlq retry --auto --reason "the bank is back"',
    ),
    change="A retry",
    prepare=prepare,
    question=question,
    commit=commit,
    trial=trial,
)
