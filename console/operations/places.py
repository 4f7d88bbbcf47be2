"""Messages where they lie. What a record tells costs nothing; a queue has to be received from."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.contract import (
    CAUSE_SHARDS,
    CAUSES,
    DUE_LANE,
    MAIN_DLQ,
    PARKED_LANE,
    delay_lane,
    parking_source,
    run_lane,
)

from .app import App, DeployedPipeline
from .deadline import side_by_side
from .errors import Cause, Denied, Problem, aws_errors, explain
from .grouping import entry_of, said_by_aws
from .letter_walk import (
    FoundLetter,
    Reach,
    as_parked,
    discarded,
    in_parts,
    letters_of_lane,
    look_into_queue,
)
from .matching import FoundMessage, Matcher
from .queue import bare_queue, depth
from .selection import Choice, ChosenPlace, PlaceKind, closest, unknown
from .session import Here, Session
from .verbs import Asked
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

_UNREAD_ROW = "its row cannot be read: dlq run list names it"

_PAGE, _PART = 1_000, 100

# Messages of a lane that are told from those in queues: the record of both is the same.
_MOST_ORIGINS = 2_000


def place(text: str) -> ChosenPlace:
    """The place in a text; Problem that names what is wrong and what is allowed."""
    word, colon, name = text.strip().partition(":")
    kind = PLACE_KINDS.get(word)
    if kind is None:
        raise Problem(unknown("place", word, list(map(str, PLACE_KINDS.values()))), Cause.INPUT)
    if kind.value and not (name or kind.optional):
        raise Problem(f"{text!r} needs a name: {kind}.", Cause.INPUT)
    if colon and not kind.value:
        raise Problem(f"{text!r}: {word} takes no name.", Cause.INPUT)
    return ChosenPlace(kind, name)


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
        self.counts: list[int | None] = []
        """Their messages; None if unknown, or if a place that was counted may have the same."""
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
            _OfPipeline(self, Here(self._session, app, pipeline), matcher).walk()

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
                entry = entry_of(found.letter, None, None, session.clock())
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
        trusted: Sequence[str] = (),
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
            trusted=trusted,
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
        self._compared = self._matching = self._forged = 0
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
                self._forged += message.is_forged
                walk.see(message, self._matcher)
            walk.seen |= {key, (message.pipeline, message.origin)}

    def end(self, of_all: Callable[[], int | None] | None = None, *, is_whole: bool = True) -> None:
        """Note how it ended; `of_all` counts the messages of the place if a few were enough."""
        walk = self._walk
        walk.notes += forged(self._forged, self.place)
        messages: int | None = self._compared
        is_cut = not (is_whole and self._is_whole)
        if is_cut and walk.few is not None and self._compared >= walk.few:
            messages = None if of_all is None else of_all()
        elif is_cut:
            walk.is_complete = False
            rest = f"the rest of {self.place}"
            walk.unsearched.append(UnsearchedPlace(self.pipeline, rest, None, ENDED))
        walk.counts.append(messages)
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

    def __init__(self, walk: Walk, here: Here, matcher: Matcher) -> None:
        self._walk, self._here, self._matcher = walk, here, matcher
        pipeline = here.pipeline
        self._pipeline, self._name = pipeline, pipeline.name
        self._room, self._index = here.room, here.index
        of_outcomes = matcher.outcomes is not None
        if of_outcomes and any(place.kind is not RUN for place in walk.chosen.places):
            raise Problem("An outcome is that of a run: --in run:ID.", Cause.INPUT)
        usual = [] if of_outcomes else [kind for kind in PLACE_KINDS.values() if kind.usual]
        # What is over is known to runs alone.
        over = [RUN] if of_outcomes or walk.chosen.ids else []
        self._places = walk.chosen.places or tuple(map(ChosenPlace, (*usual, *over)))
        self._is_everywhere = not (walk.chosen.places or of_outcomes)
        self._queues = [
            (self._named(place.kind, name), pipeline.urls[id_])
            for place in self._places
            for name, id_ in place.queues_of(pipeline).items()
        ]

    def walk(self) -> None:
        walk = self._walk
        lanes = sorted(lane.name for lane in self._room.lanes())
        for lane in lanes:
            if self._is_everywhere or any(place.has_lane(lane) for place in self._places):
                self._lane(lane)
        self._name_what_is_near(lanes)
        for place, url in self._queues:
            if walk.look and walk.reaches(self._name, place):
                searching = PlaceSearch(walk, self._name, place, self._matcher)
                seen = partial(self._with_records, place)
                fifo, trusted = self._pipeline.fifo, self._pipeline.trusted_senders
                walk.queue(searching, url, seen, fifo=fifo, trusted=trusted)
        searches = dict.fromkeys(place.kind.more for place in self._places if place.kind.more)
        for search in searches:
            search(self)
        if _OfPipeline.records in searches:
            self._of_ids()
        self._name_unsearched()

    def _named(self, kind: PlaceKind, name: str) -> str:
        """The place of a queue; the only parking queue is called by its kind alone."""
        is_only = kind is PARKED and len(self._pipeline.parking) == 1
        return str(ChosenPlace(kind, "" if is_only else name))

    def _compare(
        self,
        place: str,
        found: Iterable[FoundMessage],
        of_all: Callable[[], int | None] | None = None,
        lane: str = "",
    ) -> None:
        walk = self._walk
        if walk.reaches(self._name, place):
            is_counted = any(self._may_share(place, each) for each in walk.searched)
            searching = PlaceSearch(walk, self._name, place, self._matcher, lane)
            searching.compare(found)
            searching.end(of_all)
            if is_counted:
                walk.counts[-1] = None

    def _may_share(self, place: str, other: SearchedPlace) -> bool:
        """Whether messages of a place may be those of another one of which a few were read."""
        if other.is_whole or other.pipeline != self._name:
            return False
        # Records are told from the first messages of each lane, and from none of a queue.
        is_told = other.waits_for and (other.messages or MOST) <= _MOST_ORIGINS
        return other.place == place or (place == IN_A_QUEUE and not is_told)

    # The waiting room.

    def _lane(self, lane: str) -> None:
        walk, place, room = self._walk, place_of(lane), self._room
        if not (walk.read_letters or self._matcher.reads_content):
            most = MOST if walk.few is None else walk.few + 1
            seen = (self._waiting(place, each) for each in room.look(lane, most))
            self._compare(place, self._recorded(seen), partial(self._letters_of, lane), lane)
            return
        broken: list[int] = []
        letters = letters_of_lane(self._here, lane, broken.append)
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
        for part in in_parts(found, _PART):
            entries = self._index.whole([each.origin for each in part if each.entry is None])
            for each in part:
                each.entry = each.entry or entries.get(each.origin)
                if self._is_everywhere or not each.lane or any(self._of_places(each)):
                    yield each

    def _of_places(self, found: FoundMessage) -> Iterator[bool]:
        """Whether a message that waits is one of each of the places."""
        for place in self._places:
            yield place.has_lane(found.lane) and place.kind.means(place.name, found)

    def _name_what_is_near(self, lanes: Sequence[str]) -> None:
        """Say of a named place that nothing waits there, and which is near."""
        for place in self._places:
            is_named = place.kind in (_CIRCUIT, _RULE)
            if is_named and not any(map(place.has_lane, lanes)):
                near = closest(str(place), list(map(place_of, lanes)))
                meant = f" Did you mean {near}?" if near else ""
                self._walk.notes.append(f"Nothing of {self._name} waits for {place}.{meant}")

    # Queues.

    def _with_records(self, place: str, letters: Iterable[FoundLetter]) -> Iterator[FoundMessage]:
        return self._recorded(received(self._name, place, each) for each in letters)

    def _name_unsearched(self) -> None:
        walk, pipeline = self._walk, self._pipeline
        if not walk.look:
            for place, url in self._queues:
                walk.left_out(pipeline.name, place, url)
        kinds = {place.kind for place in self._places}
        if MAIN in kinds:
            why = "never searched: a receive would count as a failed try of the consumer"
            walk.left_out(pipeline.name, "main", pipeline.main_url, why)
        if self._matcher.untold and self._matcher.outcomes is None:
            why = f"their failure records do not say whether they match; {COST}"
            untold = UnsearchedPlace(pipeline.name, IN_A_QUEUE, self._matcher.untold, why)
            walk.unsearched.append(untold)
        if self._matcher.reads_times and kinds & {MAIN, DLQ}:
            walk.notes.append("Of what only failure records know, the first failure counts.")

    # Failure records.

    def records(self) -> None:
        """Search what only failure records tell of."""
        self._compare(IN_A_QUEUE, self._failing())

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
        if self._walk.few is None and self._is_everywhere:
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
        walk, ledger = self._walk, self._here.ledger
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
            walk.notes.append(f"{id_} {says}. Its story:\ndlq show {quote(id_)}")

    # Runs, and what was discarded.

    def snapshots(self) -> None:
        """Search what runs took: those that are named, else the latest."""
        from .replay_census import letters_of
        from .replay_runs import RunSwitch

        walk = self._walk
        named = dict.fromkeys(place.name for place in walk.chosen.places if place.kind is RUN)
        for run, messages in (named or self._latest_runs()).items():
            why = ""
            try:
                switch = RunSwitch(self._here.session, self._name, run)
                place = f"run:{switch.id}"
                found = (self._of_run(place, listed) for listed in letters_of(switch))
                self._compare(place, self._recorded(found))
            except Problem as problem:
                if problem.cause is Cause.ABSENT:
                    # Another pipeline's, or what it took is not on record any more.
                    walk.absent += [problem] if named else []
                    why = "what it took is not on record any more" if messages else ""
                elif problem.cause is not Cause.FAILED:
                    raise
                elif self._matcher.outcomes is not None:
                    why = "it has not taken all of its messages yet"
            if why:
                walk.unsearched.append(UnsearchedPlace(self._name, f"run:{run}", messages, why))

    def _latest_runs(self) -> Mapping[str, int | None]:
        def unread(row: str) -> None:
            place = f"run:{row.rpartition(' ')[2]}"
            self._walk.unsearched.append(UnsearchedPlace(self._name, place, None, _UNREAD_ROW))

        runs = sorted(self._here.every_run(unread), key=lambda run: run.created, reverse=True)
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

    def copies(self) -> None:
        """Search the copies of what was discarded."""
        damaged: list[str] = []
        self._compare("discarded", self._discarded(damaged))
        self._walk.notes += [f"The copy {each} is damaged." for each in damaged]

    def _discarded(self, damaged: list[str]) -> Iterator[FoundMessage]:
        from deadletter.aws.objects import runs_with_objects

        s3, bucket = self._here.session.aws.s3, self._here.app.messages_bucket
        for run in list(runs_with_objects(s3, bucket, self._name)):
            for copy in discarded(self._here, run, damaged):
                found = received(self._name, "discarded", as_parked(copy))
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


def forged(messages: int, place: str) -> Iterator[str]:
    """That so many messages have a stamp that is not believed; nothing if there are none."""
    if messages:
        of = f"{count(messages, 'message')} with an attribute Redrive of another sender ({place})"
        yield f"{of}: it is ignored here, as by the automatic retry."


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
        is_forged=found.is_forged,
        **more,
    )


def search(walk: Walk, app: App | None, pipelines: Sequence[str]) -> Sequence[str]:
    """Walk over all places of a choice; the names of the pipelines that were searched.

    `app` is None if none of the places is one of an app.
    """
    for place in walk.chosen.places:
        if place.kind.alone is not None:
            place.kind.alone(walk, place.name)
    if app is None:
        return ()
    found = app.select(pipelines)
    for pipeline in found:
        walk.pipeline(app, pipeline)
    runs = [place for place in walk.chosen.places if place.kind is RUN]
    if runs and len(walk.absent) == len(runs) * len(found):
        raise walk.absent[0]
    return [pipeline.name for pipeline in found]


# The kinds of places, in the order in which they are searched.

MAIN = PlaceKind(
    word="main",
    usual=True,
    refuses="Messages of the main queue are with the consumer: there is nothing to take.",
    more=_OfPipeline.records,
)
DLQ = PlaceKind(word="dlq", usual=True, queues=lambda _: {"": MAIN_DLQ}, more=_OfPipeline.records)
DEDICATED = PlaceKind(
    word="dedicated",
    value="NAME",
    optional=True,
    usual=True,
    lanes=("dedicated",),
    queues=lambda pipeline: {id_: id_ for id_ in pipeline.dedicated},
)
PARKED = PlaceKind(
    word="parked",
    value="NAME",
    optional=True,
    usual=True,
    lanes=("parked",),
    means=lambda name, found: not name or found.home == parking_source(name),
    queues=lambda pipeline: {id_: parking_source(id_) for id_ in pipeline.parking},
)
_COPIES = PlaceKind(
    word="discarded",
    refuses="Discarded messages come back by\ndlq restore ID",
    more=_OfPipeline.copies,
)
RUN = PlaceKind(
    word="run",
    value="NAME",
    refuses="Messages of run {0} are its own. This parks them:\ndlq run abort {0}",
    lanes=("run",),
    is_lane=lambda name, lane: lane.startswith(name),
    more=_OfPipeline.snapshots,
)
QUEUE = PlaceKind(
    word="queue",
    value="NAME",
    refuses="A queue of no pipeline is only read: nothing is taken from it.",
    alone=Walk.bare,
)
WAITING = PlaceKind(word="waiting", usual=True, lanes=("due", "delay", "rule", "circuit", "run"))
_CIRCUIT = PlaceKind(word="circuit", value="NAME", lanes=("circuit",))
_RULE = PlaceKind(word="rule", value="NAME", lanes=("rule", "delay"))
_CAUSE = PlaceKind(
    word="cause",
    value="NAME",
    refuses="Name the cause as a term: -f cause={0}",
    lanes=WAITING.lanes,
    is_lane=lambda _name, _lane: True,
    means=lambda name, found: found.cause.startswith(name.lower()),
)
_TIME = PlaceKind(word="time", lanes=("due", "delay"))

PLACE_KINDS: Mapping[str, PlaceKind] = {
    kind.word: kind
    for kind in (
        *(MAIN, DLQ, DEDICATED, PARKED, _COPIES, RUN, QUEUE),
        *(WAITING, _CIRCUIT, _RULE, _CAUSE, _TIME),
    )
}
"""Each kind of place, by its word."""

HELD_BY_US = [kind for kind in PLACE_KINDS.values() if kind.usual and not kind.refuses]
"""Where messages lie that can be sent or discarded."""

Places = Annotated[
    tuple[str, ...],
    Asked(f"Only there: {', '.join(map(str, PLACE_KINDS.values()))}; repeatable.",
          ("--in",), "PLACE"),
]  # fmt: skip
"""A request's field: where messages lie, or what they wait for."""
