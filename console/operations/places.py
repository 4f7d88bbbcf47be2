"""Messages where they lie. What a record tells costs nothing; a queue has to be received from."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from deadletter.contract import (
    CAUSE_SHARDS,
    CAUSES,
    DISCARDED,
    DUE_LANE,
    PARKED_LANE,
    delay_lane,
    parking_source,
    run_lane,
)

from .app import App, DeployedPipeline
from .deadline import side_by_side
from .errors import Cause, Denied, Problem, aws_errors, explain
from .grouping import entry_of, said_by_aws
from .letter_walk import FoundLetter, Reach, letters_of_lane, look_into_queue, waiting_room
from .life_record import ledger_of
from .matching import FoundMessage, Matcher
from .queue import bare_queue, depth
from .selection import Choice, ChosenPlace, PlaceKind, closest
from .session import Session
from .words import count, moment, waits_for

if TYPE_CHECKING:
    from deadletter.aws.waiting_room import WaitingLetter
    from deadletter.message.letter import Letter
    from deadletter.settings.pipeline import Pipeline

MOST = 20_000
"""Messages that are compared at most."""

SECONDS = 60.0
"""How long it takes at most."""

ENDED = f"it ended after {MOST:,} messages, or {SECONDS:g} s: narrow the choice"

_LATEST_RUNS = 10
"""Runs of a pipeline whose snapshots are searched for ids and outcomes."""

IN_A_QUEUE = "main or dlq"
"""The place of a message that only its failure record tells of."""

COST = "--look receives each and gives it back: its receive count grows by 1"

_PAGE, _PART = 1_000, 100

# Messages of a lane that are told from those in queues: the record of both is the same.
_MOST_ORIGINS = 2_000

T = TypeVar("T")

_WAITING = {PlaceKind.TIME, PlaceKind.RULE, PlaceKind.CIRCUIT, PlaceKind.RUN}


@dataclass(frozen=True, slots=True)
class SearchedPlace:
    """A place that was searched."""

    pipeline: Annotated[str, "name of the pipeline; empty for a queue of none"]
    place: Annotated[str, "the place, as --in takes it"]
    messages: Annotated[int | None, "messages in it, or those that were compared; null: unknown"]
    matching: Annotated[int, "messages that were found in it"]
    is_whole: Annotated[bool, "whether it was searched to its end"]
    first_due: Annotated[datetime | None, "when the first is decided about again; null if unknown"]
    waits_for: Annotated[str, "what they wait for; empty if they do not wait"]


@dataclass(frozen=True, slots=True)
class UnsearchedPlace:
    """A place that was not searched, or not to its end."""

    pipeline: Annotated[str, "name of the pipeline; empty for a queue of none"]
    place: Annotated[str, "the place, as --in takes it"]
    messages: Annotated[int | None, "messages in it, by SQS's estimate; null if unknown"]
    why: Annotated[str, "why it was not searched, or what searching it costs"]


class Walk:
    """A walk over the places of a choice; `see` is told each message that is meant.

    look          whether queues are received from
    few           messages of each place that are enough for a choice without ids and terms;
                  None for all
    read_letters  whether messages are read whole where no receive is needed for it
    """

    def __init__(
        self,
        session: Session,
        chosen: Choice,
        see: Callable[[FoundMessage, Matcher], None],
        *,
        look: bool = False,
        few: int | None = None,
        read_letters: bool = False,
    ) -> None:
        self._session, self.chosen, self.see = session, chosen, see
        self.look, self.read_letters = look, read_letters
        self.few = None if chosen.is_narrow else few
        self._until = session.clock() + SECONDS
        self.seen: set[tuple[str, str]] = set()
        self.compared = 0
        self.matchers: list[Matcher] = []
        self.searched: list[SearchedPlace] = []
        self.unsearched: list[UnsearchedPlace] = []
        self.notes: list[str] = []
        self.absent: list[Problem] = []
        """Why a run that was asked for is not known, once for each pipeline."""
        self.received = self.not_given_back = 0
        self.is_complete = True
        """Whether no search of a place ended before all of it was compared that was wanted."""

    def pipeline(self, app: App, pipeline: DeployedPipeline) -> None:
        """Search a pipeline: records, which say the least, come last."""
        matcher = self._matcher(pipeline.settings())
        with aws_errors():
            _OfPipeline(self, self._session, app, pipeline, matcher).walk()

    def bare(self, name: str) -> None:
        """Search a queue that belongs to no pipeline."""
        from deadletter.settings.pipeline import Pipeline

        session = self._session
        queue = bare_queue(session, name)
        place = f"queue:{queue.name}"
        if not self.look:
            self.left_out("", place, queue.url)
            return
        searching = PlaceSearch(self, "", place, self._matcher(Pipeline(name=queue.name)))

        def seen(letters: Sequence[FoundLetter]) -> Iterator[FoundMessage]:
            for found in letters:
                entry = entry_of(found.letter, None, session.clock())
                yield received("", place, found, entry=entry)

        self.queue(searching, queue.url, seen, fifo=queue.fifo)

    def _matcher(self, settings: Pipeline) -> Matcher:
        matcher = Matcher(self.chosen, settings, self._session.now)
        self.matchers.append(matcher)
        return matcher

    def is_over(self) -> bool:
        return self.compared >= MOST or self._session.clock() >= self._until

    def reaches(self, pipeline: str, place: str) -> bool:
        """Whether there is time for a place; one without is named."""
        if is_over := self.is_over():
            self.is_complete = False
            self.unsearched.append(UnsearchedPlace(pipeline, place, None, ENDED))
        return not is_over

    def left_out(self, pipeline: str, place: str, url: str, why: str = COST) -> None:
        """Name a queue that was not searched, unless it is empty."""
        if messages := depth(self._session.aws.sqs, url).total:
            self.unsearched.append(UnsearchedPlace(pipeline, place, messages, why))

    def queue(
        self,
        searching: PlaceSearch,
        url: str,
        known: Callable[[Sequence[FoundLetter]], Iterable[FoundMessage]],
        *,
        fifo: bool,
    ) -> None:
        """Receive the messages of a queue, give all back, and compare them."""
        session, pipeline, place = self._session, searching.pipeline, searching.place
        left = max(1.0, self._until - session.clock())
        held = depth(session.aws.sqs, url)
        part: list[FoundLetter] = []

        def see(found: FoundLetter) -> None:
            part.append(found)
            if len(part) >= _PART:
                searching.compare(known(part))
                part.clear()

        look = look_into_queue(
            session,
            url,
            place,
            see,
            # Hidden for longer than the look: no message is seen twice.
            reach=Reach(seconds=left, most=MOST - self.compared, hidden=int(left) + 60),
            missing=lambda: searching.missing(len(part)),
            visible=held.visible,
        )
        searching.compare(known(part))
        self.received += look.looked_at
        self.not_given_back += look.not_given_back
        if look.not_given_back:
            messages = count(look.not_given_back, "message")
            self.notes.append(f"{messages} of {place} stay hidden for {int(left) + 60} s.")
        if hidden := held.in_flight + held.delayed:
            why = "another receiver has them, or they are delayed"
            self.unsearched.append(UnsearchedPlace(pipeline, place, hidden, why))
        if fifo:
            self.notes.append(f"{place} is FIFO: of each group only the head is seen.")
        searching.end(lambda: max(held.visible, look.looked_at), is_whole=look.is_whole)


class PlaceSearch:
    """The search of one place: its messages are compared, part by part."""

    def __init__(
        self, walk: Walk, pipeline: str, place: str, matcher: Matcher, lane: str = ""
    ) -> None:
        self._walk, self.pipeline, self.place = walk, pipeline, place
        self._matcher, self._lane = matcher, lane
        self._compared = self._matching = 0
        self._first_due: float | None = None
        self._is_whole = True

    def missing(self, taken: int = 0) -> int:
        """How many messages are wanted yet, when `taken` are not compared: ten, if all are."""
        few = self._walk.few
        if self._walk.is_over():
            return 0
        return 10 if few is None else few - self._compared - taken

    def compare(self, found: Iterable[FoundMessage]) -> None:
        """Compare messages, as long as more are wanted."""
        walk = self._walk
        for message in found:
            # A record tells of no copy: that its message was seen is told by the first id.
            key = (message.pipeline, message.copy or message.origin)
            if key in walk.seen:
                continue
            if self.missing() <= 0:
                self._is_whole = False
                return
            self._compared += 1
            walk.compared += 1
            if self._first_due is None:
                self._first_due = message.due
            if self._matcher.matches(message):
                self._matching += 1
                walk.see(message, self._matcher)
            walk.seen |= {key, (message.pipeline, message.origin)}

    def end(self, of_all: Callable[[], int | None] | None = None, *, is_whole: bool = True) -> None:
        """Note how it ended; `of_all` counts the messages of the place if a few were enough."""
        walk = self._walk
        messages: int | None = self._compared
        is_cut = not (is_whole and self._is_whole)
        if is_cut and walk.few is not None and self._compared >= walk.few:
            messages = None if of_all is None else of_all()
        elif is_cut:
            walk.is_complete = False
            rest = f"the rest of {self.place}"
            walk.unsearched.append(UnsearchedPlace(self.pipeline, rest, None, ENDED))
        walk.searched.append(
            SearchedPlace(
                self.pipeline,
                self.place,
                messages,
                self._matching if walk.few is None else messages or self._matching,
                is_whole=not is_cut,
                first_due=moment(self._first_due),
                waits_for=waits_for(self._lane) if self._lane else "",
            )
        )


class _OfPipeline:
    """The places of one pipeline."""

    def __init__(
        self, walk: Walk, session: Session, app: App, pipeline: DeployedPipeline, matcher: Matcher
    ) -> None:
        from deadletter.aws.cause_entries import DynamoDBCauseEntries

        self._walk, self._session, self._app = walk, session, app
        self._pipeline, self._matcher, self._name = pipeline, matcher, pipeline.name
        self._places = walk.chosen.places
        self._room = waiting_room(session, app, pipeline)
        self._index = DynamoDBCauseEntries(session.aws.dynamodb, app.messages_table, self._name)
        self._named = {PlaceKind.DEDICATED: pipeline.dedicated, PlaceKind.PARKED: pipeline.parking}
        for place in self._places:
            if matcher.outcomes is not None and place.kind is not PlaceKind.RUN:
                raise Problem("An outcome is that of a run: --in run:ID.", Cause.INPUT)
            known = self._named.get(place.kind, {})
            if place.name and place.kind in self._named and place.name not in known:
                names = ", ".join(known) or "none"
                says = f"{self._name} has no {place}: the names are {names}."
                raise Problem(says, Cause.ABSENT)

    def walk(self) -> None:
        walk, of_outcomes = self._walk, self._matcher.outcomes is not None
        names = sorted(lane.name for lane in self._room.lanes())
        for lane in names:
            # Elsewhere no outcome is known: its run tells of what has left it.
            is_told = not of_outcomes or lane.startswith(run_lane(""))
            is_chosen = not self._places or any(holds_lane(place, lane) for place in self._places)
            if is_told and is_chosen:
                self._lane(lane)
        if of_outcomes:
            self._snapshots()
            return
        self._name_what_is_near(names)
        for place, url in self._queues():
            if walk.look and walk.reaches(self._name, place):
                searching = PlaceSearch(walk, self._name, place, self._matcher)
                seen = partial(self._with_records, place)
                walk.queue(searching, url, seen, fifo=self._pipeline.fifo)
        if self._wants(PlaceKind.MAIN, PlaceKind.DLQ):
            self._compare(IN_A_QUEUE, self._failing())
        if self._runs() or (walk.chosen.ids and not self._places):
            self._snapshots()
        if self._wants(PlaceKind.DISCARDED) and self._places:
            self._compare("discarded", self._discarded())
        if self._wants(PlaceKind.MAIN, PlaceKind.DLQ):
            self._of_ids()
        self._name_unsearched()

    def _compare(
        self,
        place: str,
        found: Iterable[FoundMessage],
        of_all: Callable[[], int | None] | None = None,
        lane: str = "",
    ) -> None:
        if self._walk.reaches(self._name, place):
            searching = PlaceSearch(self._walk, self._name, place, self._matcher, lane)
            searching.compare(found)
            searching.end(of_all)

    def _wants(self, *kinds: PlaceKind) -> bool:
        return not self._places or any(place.kind in kinds for place in self._places)

    # The waiting room.

    def _lane(self, lane: str) -> None:
        walk, place, room = self._walk, place_of(lane), self._room
        if not (walk.read_letters or self._matcher.reads_content):
            most = MOST if walk.few is None else walk.few + 1
            seen = (self._waiting(place, each) for each in room.look(lane, most))
            self._compare(place, self._recorded(seen), partial(self._letters_of, lane), lane)
            return
        broken: list[int] = []
        letters = letters_of_lane(self._session, self._app, self._pipeline, lane, broken.append)
        self._compare(place, self._with_records(place, letters), lane=lane)
        if broken:
            walk.notes.append(f"{count(sum(broken), 'item')} of {place} hold no whole message.")

    def _letters_of(self, lane: str) -> int | None:
        """The messages of a lane; None if they are too many to be counted to the end."""
        counted = self._room.count(lane)
        return None if counted.is_at_least else counted.messages

    def _waiting(self, place: str, waiting: WaitingLetter) -> FoundMessage:
        stamp, lane = waiting.stamp, waiting.lane
        timed = lane.partition(":")[0] not in (PARKED_LANE, "run", "dedicated")
        because = waiting.because
        if lane == PARKED_LANE and stamp is not None:
            because = stamp.because or because
        return FoundMessage(
            pipeline=self._name,
            place=place,
            lane=lane,
            home=waiting.home,
            origin=stamp.origin if stamp else waiting.copy,
            copy=waiting.copy,
            stamp=stamp,
            due=waiting.due if timed else None,
            because=because,
            reason=(stamp.reason or "") if stamp and lane == PARKED_LANE else "",
            rule=(stamp.rule or "") if stamp else "",
            outcome=_outcome_in(lane),
            content=partial(self._content, waiting),
        )

    def _content(self, waiting: WaitingLetter) -> Letter | None:
        """The message itself; None, and a note, for people who are not allowed to read it."""
        try:
            with aws_errors():
                return self._room.content(waiting)
        except Exception as error:
            if not isinstance(explain(error), Denied):
                raise
        note = "Waiting messages were not read themselves: that takes the policy BodyReader."
        self._walk.notes.append(note)
        return None

    def _recorded(self, found: Iterable[FoundMessage]) -> Iterator[FoundMessage]:
        """The messages with their failure records, those of the chosen places alone."""
        causes = [place.name.lower() for place in self._places if place.kind is PlaceKind.CAUSE]
        homes = {
            parking_source(place.name) for place in self._places if place.kind is PlaceKind.PARKED
        }
        only_homes = homes and parking_source("") not in homes
        others = [place for place in self._places if place.kind is not PlaceKind.CAUSE]
        for part in _parts(found, _PART):
            entries = self._index.whole([each.origin for each in part if each.entry is None])
            for each in part:
                each.entry = each.entry or entries.get(each.origin)
                cause = each.entry.fingerprint if each.entry else ""
                other = causes and not any(cause.startswith(name) for name in causes)
                if each.lane == PARKED_LANE:
                    is_meant = not only_homes or each.home in homes
                else:
                    is_meant = not other or any(holds_lane(place, each.lane) for place in others)
                if is_meant:
                    yield each

    def _name_what_is_near(self, lanes: Sequence[str]) -> None:
        """Say of a named place that nothing waits there, and which is near."""
        for place in self._places:
            is_named = place.kind in (PlaceKind.CIRCUIT, PlaceKind.RULE)
            if is_named and not any(holds_lane(place, lane) for lane in lanes):
                near = closest(str(place), list(map(place_of, lanes)))
                meant = f" Did you mean {near}?" if near else ""
                self._walk.notes.append(f"Nothing of {self._name} waits for {place}.{meant}")

    # Queues.

    def _queues(self) -> Iterator[tuple[str, str]]:
        """The queues that were asked for and can be looked into, by their places."""
        pipeline = self._pipeline
        for place in self._places or tuple(
            map(ChosenPlace, (PlaceKind.PARKED, PlaceKind.DLQ, PlaceKind.DEDICATED))
        ):
            if place.kind is PlaceKind.DLQ:
                yield "dlq", pipeline.dlq_url
            for name, url in self._named.get(place.kind, {}).items():
                if place.name in ("", name):
                    is_only = place.kind is PlaceKind.PARKED and len(pipeline.parking) == 1
                    yield str(place.kind) if is_only else f"{place.kind}:{name}", url

    def _with_records(self, place: str, letters: Iterable[FoundLetter]) -> Iterator[FoundMessage]:
        return self._recorded(received(self._name, place, each) for each in letters)

    def _name_unsearched(self) -> None:
        walk, pipeline = self._walk, self._pipeline
        if not walk.look:
            for place, url in self._queues():
                walk.left_out(pipeline.name, place, url)
        if self._wants(PlaceKind.MAIN):
            why = "never searched: a receive would count as a failed try of the consumer"
            walk.left_out(pipeline.name, "main", pipeline.main_url, why)
        if self._matcher.untold:
            why = f"their failure records do not say whether they match; {COST}"
            untold = UnsearchedPlace(pipeline.name, IN_A_QUEUE, self._matcher.untold, why)
            walk.unsearched.append(untold)
        if self._matcher.reads_times and self._wants(PlaceKind.MAIN, PlaceKind.DLQ):
            walk.notes.append("Of what only failure records know, the first failure counts.")

    # Failure records.

    def _failing(self) -> Iterator[FoundMessage]:
        """The messages of the index of causes that do not wait, a page of each shard in turn.

        While a page is compared, the next one of its shard is read.
        """
        waiting, place = self._waiting_origins()
        most = _PAGE if self._walk.few is None else self._walk.few + 1
        read = partial(self._index.page, most=most, names=CAUSES.projected)
        with side_by_side() as start:
            reads = deque((n, start(partial(read, n))) for n in range(CAUSE_SHARDS))
            while reads:
                shard, next_page = reads.popleft()
                page = next_page.answer("The index of causes")
                if page.last is not None:
                    reads.append((shard, start(partial(read, shard, after=page.last))))
                for entry in page.entries:
                    if entry.origin not in waiting:
                        origin, size = entry.origin, entry.about.size
                        yield FoundMessage(self._name, place, origin, entry=entry, size=size)

    def _waiting_origins(self) -> tuple[set[str], str]:
        """The first ids of what waits, and the place of messages that are not among them."""
        origins: set[str] = set()
        place = IN_A_QUEUE
        if self._walk.few is None and not self._places:
            # All of it was walked through.
            return origins, place
        for lane in self._room.lanes():
            if lane.name != PARKED_LANE:
                waiting = self._room.look(lane.name, _MOST_ORIGINS)
                origins |= {each.stamp.origin for each in waiting if each.stamp}
                if len(waiting) >= _MOST_ORIGINS:
                    place = f"waiting, {IN_A_QUEUE}"
        return origins, place

    def _of_ids(self) -> None:
        """Say of ids that were not found what their records say."""
        walk, ledger = self._walk, ledger_of(self._session, self._app, self._pipeline)
        missing = [id_ for id_ in walk.chosen.ids if (self._name, id_) not in walk.seen][:100]
        for id_, row in ledger.rows(missing).items() if missing else ():
            last = row.failures[-1].at if row.failures else 0.0
            if row.recovered_at is not None and row.recovered_at >= last:
                how = "processed" if row.was_processed else row.recovered_as
                says = f"is {how}, by its record"
            elif row.is_parked:
                says = f"was parked as {row.parked_as}, by its record"
            else:
                says = "is not in what was searched"
            walk.notes.append(f"{id_} {says}. Its story:\ndlq show {id_}")

    # Runs, and what was discarded.

    def _runs(self) -> Sequence[str]:
        return [place.name for place in self._places if place.kind is PlaceKind.RUN]

    def _snapshots(self) -> None:
        from .replay_census import letters_of
        from .replay_runs import RunSwitch

        walk = self._walk
        for run, messages in (dict.fromkeys(self._runs()) or self._latest_runs()).items():
            why = ""
            try:
                switch = RunSwitch(self._session, self._name, run)
                place = f"run:{switch.id}"
                found = (self._of_run(place, listed) for listed in letters_of(switch))
                self._compare(place, self._recorded(found))
            except Problem as problem:
                if problem.cause is Cause.ABSENT:
                    # Another pipeline's, or what it took is not on record any more.
                    walk.absent += [problem] if self._runs() else []
                    why = "what it took is not on record any more" if messages else ""
                elif problem.cause is not Cause.FAILED:
                    raise
                elif self._matcher.outcomes is not None:
                    why = "it has not taken all of its messages yet"
            if why:
                walk.unsearched.append(UnsearchedPlace(self._name, f"run:{run}", messages, why))

    def _latest_runs(self) -> Mapping[str, int | None]:
        from .replay_runs import runs_of

        every = runs_of(self._session, self._app, self._pipeline).all()
        runs = sorted(every, key=lambda run: run.created, reverse=True)
        self._walk.unsearched += [
            UnsearchedPlace(
                self._name, f"run:{run.id}", run.messages, "an older run: --in searches it"
            )
            for run in runs[_LATEST_RUNS:]
        ]
        return {run.id: run.messages for run in runs[:_LATEST_RUNS]}

    def _of_run(self, place: str, listed: Any) -> FoundMessage:
        from deadletter.message.stamp import Stamp

        name = listed.name
        return FoundMessage(
            pipeline=self._name,
            place=place,
            origin=name.origin,
            copy=name.copy,
            stamp=Stamp(name.origin, attempt=name.attempt, first_sent=name.first_sent),
            outcome=listed.outcome.name,
            tenant=name.tenant,
            size=name.size,
        )

    def _discarded(self) -> Iterator[FoundMessage]:
        from deadletter.aws.objects import S3RunObjects, runs_with_objects
        from deadletter.replay.objects import NotADiscardedLetter, discarded_letter

        s3, bucket = self._session.aws.s3, self._app.messages_bucket
        for run in list(runs_with_objects(s3, bucket, self._name)):
            objects = S3RunObjects(s3, bucket, self._name, run)
            for part in _parts([each.name for each in objects.listed(DISCARDED)], _PART // 2):
                with side_by_side() as start:
                    reads = [(each, start(partial(objects.get, each))) for each in part]
                    data = [(each, read.answer("A discarded message")) for each, read in reads]
                for each, content in data:
                    try:
                        copy = discarded_letter(each, content or b"")
                    except NotADiscardedLetter:
                        self._walk.notes.append(f"The copy {run}/{each} is damaged.")
                        continue
                    kept = FoundLetter(copy.letter, copy.parked_in, kept=copy.parked_stamp)
                    found = received(self._name, "discarded", kept)
                    found.because = f"discarded by {copy.by}: {copy.because}"
                    yield found


def _outcome_in(lane: str) -> str:
    """What its run says of a message that waits in a lane; empty if no run has it."""
    return "OPEN" if lane.startswith(run_lane("")) else ""


def place_of(lane: str) -> str:
    """The place of a lane of the waiting room, as --in takes it."""
    if lane == DUE_LANE:
        return "time"
    if lane.startswith(delay_lane("")):
        return f"rule:{lane.partition(':')[2]}"
    return lane


def _parts(found: Iterable[T], size: int) -> Iterator[list[T]]:
    left = iter(found)
    while part := list(islice(left, size)):
        yield part


def holds_lane(place: ChosenPlace, lane: str) -> bool:
    """Whether a lane of the waiting room is meant by a place."""
    kind, _, name = lane.partition(":")
    found = PlaceKind.TIME if lane == DUE_LANE or kind == "delay" else kind
    match place.kind:
        case PlaceKind.WAITING | PlaceKind.CAUSE:
            return found in _WAITING
        case PlaceKind.RULE:
            return kind in ("rule", "delay") and name == place.name
        case PlaceKind.RUN:
            return found == PlaceKind.RUN and name.startswith(place.name)
        case PlaceKind.PARKED:
            return lane == PARKED_LANE
    return found == place.kind and place.name in ("", name)


def received(pipeline: str, place: str, found: FoundLetter, **more: Any) -> FoundMessage:
    """A message that was read whole: from a queue, a lane or a copy."""
    stamp, letter = found.stamp, found.letter
    code, words = said_by_aws(letter)
    said = ": ".join(filter(None, (code, words)))
    return FoundMessage(
        pipeline=pipeline,
        place=place,
        lane=found.lane or "",
        home=found.home,
        origin=stamp.origin if stamp else letter.message_id,
        copy=letter.message_id,
        stamp=stamp,
        letter=letter,
        because=(stamp.because or "" if stamp else "") or said,
        reason=(stamp.reason or "" if stamp else ""),
        rule=(stamp.rule or "" if stamp else ""),
        outcome=_outcome_in(found.lane or ""),
        **more,
    )


def search(walk: Walk, app: App | None, pipelines: Sequence[str], chosen: Choice) -> Sequence[str]:
    """Walk over all places of a choice; the names of the pipelines that were searched.

    `app` is None if only queues of no pipeline are asked for.
    """
    queues = [place.name for place in chosen.places if place.kind is PlaceKind.QUEUE]
    for queue in queues:
        walk.bare(queue)
    if app is None:
        return ()
    found = app.select(pipelines)
    for pipeline in found:
        walk.pipeline(app, pipeline)
    runs = [place for place in chosen.places if place.kind is PlaceKind.RUN]
    if runs and len(walk.absent) == len(runs) * len(found):
        raise walk.absent[0]
    return [pipeline.name for pipeline in found]


def needs_app(chosen: Choice) -> bool:
    """Whether places of an app are asked for."""
    kinds = {place.kind for place in chosen.places}
    return not kinds or kinds != {PlaceKind.QUEUE}
