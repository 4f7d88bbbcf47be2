"""`dlq groups`: what fails now, how many messages, since when, whether more come, what to type."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.contract import CAUSE_SHARDS, CAUSES, PARKED_LANE, Blame
from deadletter.failure.cause_index import CUT
from deadletter.signals.causes import Explanation
from deadletter.signals.commands import typed

from .app import DeployedPipeline
from .causes import CauseRow, read_causes
from .deadline import Asking, Deadline, side_by_side
from .errors import Cause, Problem
from .grouping import (
    CONTEXT_NAMES,
    By,
    Letters,
    PipelineContext,
    attempts_of,
    cause_of,
    entry_of,
    grouped,
    stored_fingerprint,
    tenants_of,
    without_stale,
)
from .life_place import Step
from .matching import FoundMessage, Matcher
from .places import COST, IN_A_QUEUE, Places, SearchedPlace, UnsearchedPlace, Walk, place, search
from .queue import LOOKS_COUNT, deployed_queue
from .selection import Choice, NamedPipeline, Terms, choice
from .session import Answer, Here, Session
from .verbs import Asked, Verb
from .words import count, moment

if TYPE_CHECKING:
    from deadletter.aws.cause_entries import CausePage, DynamoDBCauseEntries
    from deadletter.failure.cause_index import CauseEntry
    from deadletter.redrive.waiting_room import LaneCount

    from .deadline import Read, Start

MOST_ROWS = 20_000
"""Rows of the index that are read: then the answer says "at least"."""

MOST_SECONDS = 5.0
"""Seconds that reading may take: then the answer says "at least"."""

PAGE = 1_000
"""Rows of one request: half a second's work at most, so that reading ends in time."""

FIRST = 200
"""Rows that are read of each cause in a shard before more is read of any."""

A_FEW = 25
"""The same, once MOST_ROWS have been read; and the smallest page."""

MOST_CAUSES = 100
"""Causes with more rows than that, in a shard, behind which no others are looked for."""

MOST_NEWEST = 200
"""Groups whose newest letter is read with all that is known of it; of a cause the oldest too."""

MOST_TENANTS = 8
"""Tenants that the letters of each group are counted by."""

READ_BY: Mapping[By, Sequence[str]] = {
    By.CAUSE: ("error_type", "context"),
    By.CATEGORY: ("category",),
    By.TENANT: ("context",),
    By.TYPE: ("context",),
    By.ENDPOINT: ("endpoint",),
    By.STATUS: ("http_status",),
    By.SIZE: ("size",),
    By.AGE: (),
    By.ATTEMPTS: ("life",),
}
"""The attributes that are read of each letter: each costs time in the SDK."""

# A lane takes a query per shard, and circuits of webhook endpoints can make thousands of lanes.
_MOST_LANES = 40

# Letters of a lane whose origins are compared with old rows.
_MOST_WAITING = 2_000


@dataclass(frozen=True, kw_only=True)
class GroupsRequest:
    """What is failing, and why: messages by cause, tenant and more, with what to type.

    The largest group is first. It reads the index that the consumer library keeps, for 5
    seconds and 20,000 messages at most; beyond that the figures are "at least", and the exit
    status is 1 if nothing was read. A message is in the index from its first failure until
    it is processed, parked or discarded. Nothing is received from a queue.

    With --in, the messages of these places are grouped; what only a receive could tell is
    named as not searched, and --look receives it. `--in queue:NAME --look` takes any queue,
    with nothing deployed.

    A success keeps no version of the consumer: one that is not named may work or fail.

    HELD marks a cause that suddenly fails most messages: within 5 minutes at least 20
    failed for it, more than for all else, and next to none in the hour before. Then a
    deployment or a dependency has changed, not the messages. None is parked for it, and its
    messages are tried again about every three minutes; the hold ends ten minutes after its
    last failure. dlq retry -f cause=ID ends it, and it is MENDED for a day. If its messages are
    wrong indeed, dlq rules add RULE_ID --action QUARANTINE -f cause=ID parks them all the same.
    """

    pipeline: NamedPipeline = None
    places: Places = ()
    terms: Terms = ()
    by: Annotated[By, Asked("What they are grouped by.", ("--by",))] = By.CAUSE
    look: Annotated[
        bool, Asked("Receive from queues too, and give back; SQS counts it.", ("--look",))
    ] = False


@dataclass(frozen=True, slots=True)
class MessageGroup:
    """Messages that are alike in what they are grouped by."""

    name: Annotated[
        str,
        "the cause, or the category, tenant, type, endpoint, status, class of sizes or of ages; "
        "`unknown` if the messages do not say",
    ]
    messages: Annotated[int, "how many"]
    is_at_least: Annotated[bool, "whether not all were read"]
    tenants: Annotated[int | None, "tenants among them; null if none of them says its tenant"]
    tenant: Annotated[str, "the only one of them; empty if there are more, or none"]
    by_tenant: Annotated[Mapping[str, int], "messages of each of the 8 tenants with most"]
    first_seen: Annotated[datetime | None, "first failure of its oldest message"]
    last_seen: Annotated[datetime | None, "its last failure, to five minutes"]
    trend: Annotated[
        str,
        "`rising` or `falling` if the last ten minutes brought over 20 % more or fewer new messages"
        " than the ten minutes before, else `flat`",
    ]
    new: Annotated[int, "messages that failed first within the last ten minutes"]
    new_before: Annotated[int, "messages that failed first in the ten minutes before"]
    mark: Annotated[
        str,
        "of a cause that suddenly dominates: HELD (none is parked for it), or MENDED (a person has "
        "it counted anew); else empty",
    ]
    is_read: Annotated[
        bool, "whether the failure of its newest message was read; if not, what follows has gaps"
    ]
    category: Annotated[str, "what kind of failure its newest message has; empty if unknown"]
    blame: Annotated[str, "who is to blame for that: dependency, configuration or neither"]
    error_type: Annotated[str, "the error of its newest message"]
    text: Annotated[str, "that error's text without data; empty if it is not kept"]
    http_status: Annotated[int | None, "status of the answer; null without one"]
    version: Annotated[str, "of a cause, the version in its earliest failure on record; or empty"]
    version_at: Annotated[datetime | None, "when that was, of its oldest and newest message"]
    last_version: Annotated[str, "the version in the latest failure of these"]
    sample: Annotated[str, "id of its newest message, for `dlq show`"]
    next: Annotated[Step, "the suggested next command"]


@dataclass(frozen=True, slots=True)
class AttemptFigures:
    """How often the messages were tried."""

    mean: Annotated[float, "attempts of a message on average; its first one is one"]
    threshold: Annotated[int, "half of the attempts that the pipeline's policy allows"]
    share_over: Annotated[float, "the share of messages (0 to 1) with more attempts than that"]


@dataclass(frozen=True, slots=True)
class GroupList(Answer):
    """What `dlq groups` answers."""

    pipeline: Annotated[str | None, "name of the pipeline; null for a queue of no pipeline"]
    by: Annotated[str, "what the messages are grouped by"]
    messages: Annotated[int, "messages in all groups"]
    is_at_least: Annotated[bool, "whether not all were read"]
    in_queues: Annotated[
        int | None,
        "messages in DLQs and of those that wait, by SQS's estimate; null if unknown, or "
        "if places or conditions were chosen",
    ]
    tenants: Annotated[Sequence[str], "tenants with most messages in all groups, at most 8"]
    groups: Annotated[Sequence[MessageGroup], "the largest first; sizes and ages in their order"]
    causes: Annotated[
        Sequence[CauseRow] | None, "causes that dominate, or did within a day; null if not read"
    ]
    searched: Annotated[Sequence[SearchedPlace], "the places that were searched, if any was chosen"]
    not_searched: Annotated[Sequence[UnsearchedPlace], "those that were not, and the cost"]
    did_you_mean: Annotated[Sequence[str], "near values, if a value of the choice is nowhere"]
    notes: Annotated[Sequence[str], "what the figures do not cover, and why"]
    attempts: Annotated[
        AttemptFigures | None,
        "how often these messages were tried, with `--by attempts`; null if none is known",
    ] = None


def read(session: Session, request: GroupsRequest) -> GroupList:
    """The messages of a choice in groups: by the index of causes, or place by place.

    Raises Problem.
    """
    chosen = choice((), map(place, request.places), request.terms)
    if chosen.is_of_app and not chosen.places and not request.look:
        app = session.app()
        here = Here(session, app, app.pipeline(request.pipeline))
        reading = FailingReading(here, chosen, Deadline(MOST_SECONDS))
        return reading.answer(request.by)
    return _by_place(session, request, chosen)


# The index.


@dataclass(slots=True)
class ShardReading:
    """What was read of one shard so far: a reader that is left behind has left it here.

    `cut` are the stored fingerprints that have more letters than were read; `is_whole` says that
    no fingerprint behind the last one is missing.
    """

    entries: list[CauseEntry] = field(default_factory=list)
    read: int = 0
    cut: set[str] = field(default_factory=set)
    is_whole: bool = False

    def page(self, most: int, ask: Callable[[], CausePage]) -> CausePage:
        """A page of so many rows, which count as read until its answer is there."""
        self.read += most
        page = ask()
        self.entries += page.entries
        self.read += page.read - most
        return page

    @property
    def cut_causes(self) -> set[str]:
        return {cause_of(entry) for entry in self.entries if stored_fingerprint(entry) in self.cut}


def read_shard(
    index: DynamoDBCauseEntries,
    shard: int,
    reading: ShardReading,
    in_time: Callable[[], bool],
    left: Callable[[], int],
    names: Sequence[str] = (),
) -> None:
    """Read a shard while there is time and rows are `left` to read: some of each cause, then all.

    Rows are in the order of their causes: one with very many letters must not hide the others.
    """
    unfinished: dict[str, Mapping[str, Any]] = {}
    beyond = ""
    while in_time() and len(unfinished) <= MOST_CAUSES:
        size = FIRST if left() > 0 else A_FEW
        page = reading.page(size, partial(index.page, shard, size, names, beyond=beyond))
        if page.last is None:
            reading.is_whole = True
            break
        beyond = page.last_fingerprint
        unfinished[beyond] = page.last
        reading.cut.add(beyond)
    for fingerprint, after in unfinished.items():
        last: Mapping[str, Any] | None = after
        while last is not None:
            if left() <= 0 or not in_time():
                return
            # The shards share what is left.
            size = min(PAGE, max(A_FEW, left() // CAUSE_SHARDS))
            more = partial(index.page, shard, size, names, after=last, of=fingerprint)
            last = reading.page(size, more).last
        reading.cut.discard(fingerprint)


@dataclass(frozen=True, slots=True)
class FailingNow:
    """The messages on record that fail now, as far as they were read.

    `cut` are causes that have more of them than were read, and `stale` is the number of rows of
    messages that SQS must have dropped. `in_queues` is the number of messages in DLQ, dedicated
    DLQs and waiting room, with a record or without; None if it is unknown.
    """

    entries: Sequence[CauseEntry]
    is_at_least: bool
    cut: Collection[str]
    stale: int
    in_queues: int | None
    in_dlq: int


class FailingReading:
    """All reads of one answer, side by side, until the deadline."""

    def __init__(self, here: Here, chosen: Choice, deadline: Deadline) -> None:
        session, pipeline = here.session, here.pipeline
        # Clients are made before threads use them.
        self._here, self._session, self._pipeline = here, session, pipeline
        self._deadline, self._sqs = deadline, session.aws.sqs
        self._index, self._room = here.index, here.lanes
        self._shards = [ShardReading() for _ in range(CAUSE_SHARDS)]
        self._notes: list[str] = []
        self._chosen = chosen
        self._matcher = Matcher(chosen, pipeline.settings(), session.now)

    def failing(self, names: Sequence[str]) -> FailingNow:
        """The messages that fail now, with these attributes of each. Raises Problem."""
        with side_by_side(self._deadline) as start:
            return self._failing(names, start, Asking(start))

    def _failing(self, names: Sequence[str], start: Start, ask: Asking) -> FailingNow:
        pipeline, shards = self._pipeline, self._shards
        main, *dlqs = (
            ask(f"Queue {url.rpartition('/')[2]}", deployed_queue, self._sqs, url)
            for url in (pipeline.main_url, pipeline.dlq_url, *pipeline.dedicated.values())
        )
        lanes = ask("What waits", self._lane_letters)
        self._wait([start(partial(self._read, n, names)) for n in range(CAUSE_SHARDS)])
        main_queue, queues, waiting = main(), [dlq() for dlq in dlqs], lanes()
        known = [queue for queue in queues if queue is not None]
        read = [entry for shard in shards for entry in shard.entries]
        if not read and not all(shard.is_whole for shard in shards):
            # Nothing read is not "no letter".
            raise Problem(
                "Nothing could be read of the index of causes within "
                f"{self._deadline.seconds:g} s, so what is failing is unknown. Try again; "
                "--in dlq --look looks at messages of the DLQ instead, which SQS counts.",
                Cause.FAILED,
            )
        is_known = len(known) == len(queues)
        stale = 0
        if main_queue is not None and is_known:
            longest = max(queue.retention for queue in known)
            gone_before = self._session.clock() - main_queue.retention - longest
            if any(entry.seen < gone_before for entry in read):
                filled = [lane for lane, counted in (waiting or {}).items() if counted.messages]
                looks = [ask("A part of what waits", self._origins, lane) for lane in filled]
                found = [look() for look in looks]
                if waiting is not None and None not in found:
                    waits = {origin for origins in found for origin in origins or ()}
                    read, stale = without_stale(read, gone_before, waits)
        in_queues = None
        is_counted = waiting is not None and not any(lane.is_at_least for lane in waiting.values())
        if waiting is not None and is_counted and is_known:
            in_lanes = sum(lane.messages for lane in waiting.values())
            in_queues = in_lanes + sum(queue.messages for queue in known)
        return FailingNow(
            read,
            is_at_least=not all(shard.is_whole and not shard.cut for shard in shards),
            cut={cause for shard in shards for cause in shard.cut_causes},
            stale=stale,
            in_queues=in_queues,
            in_dlq=0 if queues[0] is None else queues[0].messages,
        )

    def answer(self, by: By) -> GroupList:
        session, pipeline, notes = self._session, self._pipeline, self._notes
        is_narrow = self._chosen.is_narrow
        with side_by_side(self._deadline) as start:
            ask = Asking(start)
            held = ask("The dominant causes", read_causes, self._here)
            failing = self._failing(CAUSES.projected if is_narrow else READ_BY[by], start, ask)
            causes = held()
            entries = [
                entry
                for entry in failing.entries
                if self._matcher.matches(
                    FoundMessage(pipeline.name, IN_A_QUEUE, entry.origin, entry=entry)
                )
            ]
            # Where the time was over before the end of a shard, each cause may have more.
            unread = failing.cut or (set(map(cause_of, entries)) if failing.is_at_least else ())
            found = grouped(entries, by, session.now.timestamp(), unread)
            origins = [group.newest.origin for group in found[:MOST_NEWEST]]
            if by is By.CAUSE:
                origins += [group.oldest.origin for group in found[:MOST_NEWEST]]
            whole = (ask("What failed", self._index.whole, origins)() if origins else {}) or {}
        notes += [f"{what} could not be read: {why.says}" for what, why in ask.lost]
        if failing.cut:
            notes.append(
                f"The index has more than the {count(len(failing.entries), 'row')} that were "
                "read; of the causes that are said to be at least so large, not all were counted."
            )
        elif failing.is_at_least:
            seconds = f"{self._deadline.seconds:g} s"
            notes.append(f"Not all rows were read within {seconds}: there may be more.")
        if failing.stale:
            rows = count(failing.stale, "row")
            notes.append(f"{rows} of messages that SQS must have dropped by now are left out.")
        in_queues = None if is_narrow else failing.in_queues
        if in_queues is not None and not failing.is_at_least:
            notes += _difference(len(entries), in_queues)
        return _answer(
            session,
            by,
            [
                replace(
                    group,
                    oldest=whole.get(group.oldest.origin, group.oldest),
                    newest=whole.get(group.newest.origin, group.newest),
                    is_newest_read=group.newest.origin in whole,
                )
                for group in found
            ],
            entries,
            pipeline,
            notes=notes,
            causes=causes,
            matchers=[self._matcher],
            is_at_least=failing.is_at_least,
            in_queues=in_queues,
            not_searched=tuple(self._unsearched(failing.in_dlq)),
        )

    def _unsearched(self, in_dlq: int) -> Iterator[UnsearchedPlace]:
        """Queues whose messages may have no record, where the index knows none of them."""
        name = self._pipeline.name
        if in_dlq and not any(shard.entries for shard in self._shards):
            yield UnsearchedPlace(name, "dlq", in_dlq, COST)
        if untold := self._matcher.untold:
            why = f"their failure records do not say whether they match; {COST}"
            yield UnsearchedPlace(name, IN_A_QUEUE, untold, why)

    def _read(self, shard: int, names: Sequence[str]) -> None:
        # Time is left for the page that is read then, and for what follows.
        def in_time() -> bool:
            return self._deadline.left() > self._deadline.seconds / 4

        def left() -> int:
            return MOST_ROWS - sum(reading.read for reading in self._shards)

        read_shard(self._index, shard, self._shards[shard], in_time, left, names)

    def _wait(self, shards: Sequence[Read[None]]) -> None:
        """Wait for all shards; raises the first error, but not that the time is over."""
        for read in shards:
            try:
                read.answer("The index of causes")
            except Problem:
                # What was read until then counts.
                if self._deadline.left():
                    raise

    def _lane_letters(self) -> Mapping[str, LaneCount]:
        """The letters of each lane that wait for anything but a person."""
        names = [lane.name for lane in self._room.lanes() if lane.name != PARKED_LANE]
        if len(names) > _MOST_LANES:
            self._notes.append(
                f"Messages wait for {len(names):,} things; those of {_MOST_LANES} are counted."
            )
        return {name: self._room.count(name) for name in names[:_MOST_LANES]}

    def _origins(self, lane: str) -> set[str]:
        waiting = self._room.look(lane, _MOST_WAITING)
        return {letter.stamp.origin for letter in waiting if letter.stamp}


def _difference(known: int, in_queues: int) -> Iterator[str]:
    """What the index and the queues disagree about, in words."""
    if known < in_queues:
        yield (
            f"The index knows {known:,} of {in_queues:,} messages in DLQs and waiting: "
            f"of the other {in_queues - known:,} it has no row, and why they died is not on record "
            "(a consumer that is killed or times out writes none). --in dlq --look looks at the "
            "messages of the DLQ."
        )
    elif known > in_queues:
        yield (
            f"Of these {known:,}, {in_queues:,} are in DLQs or wait: the other "
            f"{known - in_queues:,} have failed and are in neither: in the main queue, with the "
            "consumer, or taken away by others."
        )


# Place by place.


def _by_place(session: Session, request: GroupsRequest, chosen: Choice) -> GroupList:
    """Groups of what a walk over the places finds."""
    now = session.now.timestamp()
    app = session.app() if chosen.is_of_app else None
    pipeline = None if app is None else app.pipeline(request.pipeline)
    context = None if pipeline is None else PipelineContext(pipeline.settings())
    entries: list[CauseEntry] = []

    def see(found: FoundMessage, _: Matcher) -> None:
        entries.append(_entry(found, context, now))

    walk = Walk(session, chosen, see, look=request.look)
    search(walk, app, () if pipeline is None else (pipeline.name,))
    notes = [*walk.notes, *([LOOKS_COUNT] if walk.received else [])]
    if unexplained := sum(not entry.category for entry in entries):
        notes.append(
            f"SQS does not record why a message failed: {unexplained:,} of {len(entries):,} have no"
            " failure record, and are grouped by the error that an AWS service attached, or by the"
            " shape of their bodies. The consumer library records causes (docs/consumer.md)."
        )
    unread = () if walk.is_complete else set(map(cause_of, entries))
    return _answer(
        session,
        request.by,
        grouped(entries, request.by, now, unread),
        entries,
        pipeline,
        " --in ".join(quote(str(each)) for each in chosen.places if each.kind.alone),
        notes=notes,
        causes=() if app is None or pipeline is None else read_causes(Here(session, app, pipeline)),
        matchers=walk.matchers,
        is_at_least=not walk.is_complete,
        in_queues=None,
        searched=tuple(walk.searched),
        not_searched=tuple(walk.unsearched),
    )


def _entry(found: FoundMessage, context: PipelineContext | None, now: float) -> CauseEntry:
    """What is known of a message, also where it has no failure record."""
    from deadletter.failure.cause_index import CauseEntry

    if found.entry is not None:
        return found.entry
    if found.letter is not None:
        return entry_of(found.letter, found.stamp, context, now)
    first = found.first_sent or now
    at = float(found.stamp.at) if found.stamp and found.stamp.at else first
    attempt = found.stamp.attempt if found.stamp else 0
    return CauseEntry(found.origin, "", seen=at, first_at=first, attempt=attempt)


# The answer.


def _about_dimension(by: By, entries: Sequence[CauseEntry]) -> Iterator[str]:
    name = CONTEXT_NAMES.get(by)
    if name and entries and not any(name in entry.about.context for entry in entries):
        yield (
            f"No message says its {by}: give the pipeline's `context` a path named {name} "
            "(docs/settings.md), and let its setting `ledger` keep it."
        )


def _answer(
    session: Session,
    by: By,
    found: Sequence[Letters],
    entries: Sequence[CauseEntry],
    pipeline: DeployedPipeline | None,
    queues: str = "",
    *,
    notes: Sequence[str],
    causes: Sequence[CauseRow] | None,
    matchers: Sequence[Matcher],
    searched: Sequence[SearchedPlace] = (),
    **facts: Any,
) -> GroupList:
    """The answer: its groups, and what they do not cover."""
    marks = {row.cause: row.state for row in causes or ()}
    name = None if pipeline is None else pipeline.name
    near = dict.fromkeys(value for matcher in matchers for value in matcher.meant())
    tenants = [tenant for tenant, _ in tenants_of(entries).most_common(MOST_TENANTS)]
    return GroupList(
        **session.place,
        pipeline=name,
        by=str(by),
        messages=len(entries),
        tenants=tenants,
        groups=tuple(
            _group(group, step_for(group, by, name, queues), marks.get(group.name, ""), tenants)
            for group in found
        ),
        causes=causes,
        searched=searched,
        did_you_mean=() if entries else tuple(near),
        notes=(*dict.fromkeys(notes), *_about_dimension(by, entries)),
        attempts=None if pipeline is None else _attempts(by, entries, pipeline),
        **facts,
    )


def _attempts(
    by: By, entries: Sequence[CauseEntry], pipeline: DeployedPipeline
) -> AttemptFigures | None:
    if by is not By.ATTEMPTS or not entries:
        return None
    tried = [attempts_of(entry) for entry in entries]
    # The first life, and each re-drive.
    threshold = (1 + pipeline.settings().policy.max_attempts) // 2
    over = sum(attempts > threshold for attempts in tried)
    return AttemptFigures(sum(tried) / len(tried), threshold, over / len(tried))


def _group(group: Letters, step: Step, mark: str, tenants: Sequence[str]) -> MessageGroup:
    newest, failures = group.newest, group.own_failures
    return MessageGroup(
        name=group.name,
        messages=group.messages,
        is_at_least=group.is_at_least,
        tenants=len(group.tenants) or None,
        tenant=next(iter(group.tenants)) if len(group.tenants) == 1 else "",
        by_tenant={name: group.tenants[name] for name in tenants if name in group.tenants},
        first_seen=moment(group.oldest.first_at),
        last_seen=moment(group.newest.seen),
        trend=str(group.trend),
        new=group.recent,
        new_before=group.before,
        mark=mark,
        is_read=group.is_newest_read,
        category=newest.category,
        blame=str(newest.blame) if newest.category else "",
        error_type=newest.error_type,
        text=newest.words,
        http_status=newest.http_status,
        version=failures[0].version if failures else "",
        version_at=moment(failures[0].at) if failures else None,
        last_version=failures[-1].version if failures else "",
        sample=newest.origin,
        next=step,
    )


# The command that helps most with a group, and what its failure means.

_BUSY, _FAILS = 429, 500

# As the runtimes and the HTTP libraries call them.
_OF_DNS = ("gaierror", "NameResolution")
_OF_TLS = ("SSL", "Certificate")


def step_for(group: Letters, by: By, pipeline: str | None, queues: str) -> Step:
    """The suggested next command; `queues` are the places of queues of no pipeline, as typed."""
    newest = group.newest
    if pipeline is None:
        return Step(f"dlq list --look --body --in {queues}", "shows messages of the queue")
    if by is By.CAUSE and group.is_newest_read:
        missing = _missing_endpoint(newest)
        return missing or _of_cause(newest, pipeline)
    explained = f"dlq show {quote(newest.origin)} --pipeline {quote(pipeline)}"
    return Step(explained, "tells what happened to one of them, and what to do")


def explanation_of(newest: CauseEntry) -> Explanation:
    """The cause that explains a failure."""
    error = newest.error_type
    if not newest.category:
        return Explanation.UNRECORDED
    for each in Explanation:
        if newest.category in each.value.explains:
            return each
    if newest.blame is Blame.CONFIGURATION:
        return Explanation.REFUSES
    # One without a fingerprint was not tried: its circuit was open.
    if newest.blame is Blame.DEPENDENCY or not newest.fingerprint:
        if newest.http_status == _BUSY or "Throttl" in error:
            return Explanation.BUSY
        if any(word in error for word in _OF_DNS):
            return Explanation.DNS
        if any(word in error for word in _OF_TLS):
            return Explanation.TLS
        return Explanation.FAILS if newest.http_status == _FAILS else Explanation.DOWN
    return Explanation.OTHER


def _of_cause(newest: CauseEntry, pipeline: str) -> Step:
    cause, endpoint = explanation_of(newest).value, _endpoint_of(newest)
    command = cause.endpoint if cause.endpoint and endpoint else cause.repair
    facts = {"pipeline": pipeline, "id": newest.origin, "tenant": endpoint or ""}
    return Step(typed(command, facts), cause.means)


def _endpoint_of(newest: CauseEntry) -> str | None:
    """The message's endpoint as `dlq endpoint` takes it; None if the ledger has not all of it.

    Its key is that of another circuit in pipelines without our webhooks.
    """
    tenant, slash, endpoint = newest.about.endpoint.partition("/")
    return None if not slash or not endpoint or endpoint.endswith(CUT) else f"{tenant}/{endpoint}"


def _missing_endpoint(newest: CauseEntry) -> Step | None:
    """What repairs an endpoint that the dispatcher can't post to because it is not there, or off.

    It is no fault of the endpoint's own, so no blame says so.
    """
    from deadletter.webhook.endpoint import DISABLED, NO_SUCH_ENDPOINT

    name = _endpoint_of(newest)
    if name is None:
        return None
    command = f"dlq endpoint add {quote(name)}"
    if newest.words == NO_SUCH_ENDPOINT:
        return Step(f'{command} --url "<url>"', "adds the endpoint that is missing")
    if newest.words == DISABLED:
        return Step(command, "checks the endpoint, and switches it on again")
    return None


VERB = Verb(
    name="groups",
    request=GroupsRequest,
    examples=[
        "dlq groups",
        "dlq groups orders --by tenant",
        "dlq groups orders --in parked --look",
        "dlq groups --in queue:payments-dlq --look",
        "dlq groups orders -f 'status>499' --json --query 'groups[0].next.command'",
    ],
    read=read,
)
"""Groups what fails."""
