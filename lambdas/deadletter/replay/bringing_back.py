"""Brings letters back: those that were discarded, and those of a run that is repeated.

What became of a letter if anything here raises:

    restored   its copy is in the bucket until it waits in lane `parked`. One write puts it there
               and notes that it is back, so that it comes back once, however many restore it; then
               its copy is deleted.
    repeated   its original is where it was, and nothing was sent. A page names the copies before
               they are in the run's lane, as for every snapshot; from there on they are letters
               of the run like all others. Nothing can be put in once the freeze, or the end of the
               run, has closed it: a pass that was paused for long changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from typing import Protocol

from deadletter.contract import DISCARDED, PARKED_LANE, run_lane
from deadletter.failure.ledger import NO_ROW, Ledger, LedgerRow
from deadletter.message import stamp as stamps
from deadletter.message.letter import MAX_BYTES
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.concurrency import InParallel
from deadletter.redrive.order import Order
from deadletter.redrive.router_client import next_request
from deadletter.redrive.waiting_room import never, shard_of
from deadletter.replay.names import CountedOrigins, Name, to_lines
from deadletter.replay.objects import (
    NO_ROOM,
    DiscardedLetter,
    NotADiscardedLetter,
    NotAnOriginal,
    Original,
    RunObjects,
    discarded_letter,
    has_room,
    originals_in,
)
from deadletter.replay.plan import AGAIN, ReplayPlan
from deadletter.replay.run import BadRunRow, ReplayRun, ReplayRuns, RunState
from deadletter.replay.snapshot import PAGES, joined
from deadletter.replay.ticket import ReplayOutcome, Ticket, Tickets
from deadletter.routing.decision import Hold
from deadletter.routing.router import Question, Router, usable

RESTORED_TOGETHER = 10
"""Copies in memory at once: each may have a mebibyte."""

WIND_DOWN = 10.0
"""Seconds before the deadline in which no letter is begun."""


class RestoredLetters(Protocol):
    """The letters of one run that are back. Raises RoomUnavailable."""

    def back(self, copies: Sequence[str]) -> Collection[str]:
        """Those of these copies that were put back before, read consistently."""

    def put_back(self, copy: str, order: Order, ticket: Ticket) -> None:
        """Put a letter into its lane in place of the discarded copy, unless it was put back before.

        The letter, the record that it is back, and the ticket: all or nothing.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoring:
    """Restores the letters that a plan chooses, and that a person has counted.

    `folders` are the runs that may keep copies; the ports of each are made when its turn comes.
    `note_bad_row` is told of a row of such a run that cannot be read: it costs its own letters.
    """

    run: ReplayRun
    plan: ReplayPlan
    counted: CountedOrigins | None
    folders: Callable[[], Iterable[str]]
    objects: Callable[[str], RunObjects]
    tickets: Callable[[str], Tickets]
    letters: Callable[[str], RestoredLetters]
    runs: ReplayRuns
    router: Router
    fifo: bool
    in_parallel: InParallel
    clock: Callable[[], float]
    note_bad_row: Callable[[str], None]

    _bad_rows: set[str] = field(default_factory=set, init=False)

    def restore(self, deadline: float) -> bool:
        """Restore until `deadline` (epoch seconds); returns whether nothing is left to restore.

        It stops within a few letters of a change of the run. Raises the errors of the stores.
        """
        of_one = self.plan.restored_run
        for folder in self.folders() if of_one is None else (of_one,):
            names = [stored.name for stored in self.objects(folder).listed(DISCARDED)]
            for begin in range(0, len(names), RESTORED_TOGETHER):
                if self.clock() >= deadline - WIND_DOWN or not self._goes_on():
                    return False
                self._restore(folder, names[begin : begin + RESTORED_TOGETHER])
        return True

    def _goes_on(self) -> bool:
        now = self.runs.read(self.run.id)
        return now is not None and now.generation == self.run.generation

    def _restore(self, folder: str, names: Sequence[str]) -> None:
        chosen = self._chosen(self._read(folder, names))
        if not chosen:
            return
        letters, gone = self.letters(folder), self._final(folder, chosen)
        back = letters.back(sorted(gone))
        for name, discarded in chosen.items():
            copy = discarded.letter.message_id
            if copy in gone and copy not in back:
                order = self._order(folder, discarded)
                letters.put_back(copy, order, self._ticket(order))
            if copy in gone:
                self.objects(folder).delete([name])

    def _read(self, folder: str, names: Sequence[str]) -> dict[str, DiscardedLetter]:
        """The letters in these objects; one that is damaged stays where it is."""
        objects = self.objects(folder)
        found = self.in_parallel([partial(objects.get, name) for name in names])
        letters = {}
        for name, data in zip(names, found, strict=True):
            if data is None:
                # Another restore was faster.
                continue
            try:
                letters[name] = discarded_letter(name, data)
            except NotADiscardedLetter:
                # The person has seen it named before this began.
                continue
        return letters

    def _chosen(self, letters: Mapping[str, DiscardedLetter]) -> dict[str, DiscardedLetter]:
        """Those that the plan's selection matches, and that the person has counted."""
        counted = self.counted
        seen = {
            name: discarded
            for name, discarded in letters.items()
            if counted is None or discarded.stamp.origin in counted
        }
        names = {discarded.letter.message_id: name for name, discarded in seen.items()}
        asked = [_as_parked(discarded) for discarded in seen.values()]
        chosen = set()
        while asked:
            part, asked = next_request(asked, len(asked))
            questions = [Question(each.letter, stamp=each.stamp) for each in part]
            # What was parked before stays out of no restore.
            picks = self.router.select(questions, self.plan.selection, release=True)
            found = usable(picks, [each.letter.message_id for each in part])
            chosen |= {copy for copy, pick in found.items() if pick.chosen}
        return {name: seen[name] for copy, name in names.items() if copy in chosen}

    def _final(self, folder: str, letters: Mapping[str, DiscardedLetter]) -> set[str]:
        """The copies whose letters are gone for good.

        A letter is copied before it is discarded: a run that was cut off may have left it. The
        ticket says so; it expires before the copy, but not before its run has ended, and a run
        that is aborted deletes the copies of the letters that it leaves.
        """
        keys = [(each.stamp.origin, each.letter.message_id) for each in letters.values()]
        tickets = self._readable_tickets(folder, keys)
        has_ended = self._has_ended(folder)
        return {
            key[1]
            for key, ticket in tickets.items()
            if (has_ended if ticket is None else ticket.fate is ReplayOutcome.DISCARDED)
        }

    def _readable_tickets(
        self, folder: str, keys: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], Ticket | None]:
        """The tickets with these keys, None for one that is missing; without those that are bad."""
        tickets = self.tickets(folder)
        try:
            found = tickets.read(keys)
        except BadRunRow as error:
            if len(keys) > 1:
                each = [self._readable_tickets(folder, [key]) for key in keys]
                return {key: ticket for one in each for key, ticket in one.items()}
            self._note(error)
            return {}
        return {key: found.get(key) for key in keys}

    def _has_ended(self, folder: str) -> bool:
        """Whether a run has done all that it had to do; one that cannot be read may have not."""
        try:
            run = self.runs.read(folder)
        except BadRunRow as error:
            self._note(error)
            return False
        return run is None or run.state is RunState.DONE

    def _note(self, error: BadRunRow) -> None:
        """Tell of a bad row, once however often it is read."""
        if str(error) not in self._bad_rows:
            self._bad_rows.add(str(error))
            self.note_bad_row(str(error))

    def _order(self, folder: str, discarded: DiscardedLetter) -> Order:
        """The order that puts a letter back as it was, as a copy of its own.

        Whatever a worker of the discarding run still deletes under the old id, late or twice, is
        not this copy.
        """
        run = self.run.id
        because = f"restored by run {run}"
        old, stamp = discarded.letter, discarded.parked_stamp
        letter = replace(old, message_id=restored_copy(folder, old.message_id))
        if stamp.because is None:
            stamp = replace(stamp, because=because, at=int(self.clock()))
        return Order(
            ReceivedLetter(letter, "", 0.0, discarded.parked_in),
            Hold(PARKED_LANE, never(letter), because),
            stamp,
        )

    def _ticket(self, order: Order) -> Ticket:
        return Ticket(
            run=self.run.id,
            origin=order.stamp.origin,
            copy=order.copy,
            shard=shard_of(order.received.letter, self.fifo),
            position=-1,
            attempt=order.stamp.attempt,
            at=self.clock(),
            fate=ReplayOutcome.RESTORED,
            generation=self.run.generation,
        )


def restored_copy(folder: str, copy: str) -> str:
    """The id of the copy that comes back: the same one, whoever restores it."""
    digits = blake2b(f"{folder}/{copy}".encode(), digest_size=16).hexdigest()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _as_parked(discarded: DiscardedLetter) -> ReceivedLetter:
    """The letter as it lay in the parking lot."""
    return ReceivedLetter(
        discarded.letter, "", 0.0, discarded.parked_in, stamp=discarded.parked_stamp
    )


TAKEN = "taken/"
"""The folder of the run with an object for each object of originals that is taken: the names of its
letters that have no room for a new key."""

MADE_TOGETHER = 50
"""Letters that are put in by one request: all or none."""


class MadeLetters(Protocol):
    """The lane of one run that letters are made for. Raises RoomUnavailable."""

    def place(self, received: ReceivedLetter) -> tuple[str, str]:
        """The key of a letter's item, whether it is there or not."""

    def held(self, places: Sequence[tuple[str, str]]) -> Collection[tuple[str, str]]:
        """Those of these items that are in the lane, read consistently."""

    def put(self, orders: Sequence[Order]) -> None:
        """Put letters in, all or none; raises RoomUnavailable too if the lane is closed."""

    def close(self) -> None:
        """From now on nothing is put in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeating:
    """Makes the letters of a run out of the originals of another one.

    `counted` are the letters that the person has seen counted; None: all of them. `note_damage` is
    told the name of an object that has what cannot be read: that is not sent. `max_bytes` is the
    size of a message that the main queue takes; `note_no_room` is told how many letters would go
    without their new key, and are not made.
    """

    run: ReplayRun
    plan: ReplayPlan
    counted: CountedOrigins | None
    originals: RunObjects
    objects: RunObjects
    letters: MadeLetters
    ledger: Ledger
    runs: ReplayRuns
    clock: Callable[[], float]
    note_damage: Callable[[str], None]
    max_bytes: int = MAX_BYTES
    note_no_room: Callable[[int], None] = lambda _: None

    def repeat(self, deadline: float) -> bool:
        """Make letters until `deadline` (epoch seconds); returns whether all are made.

        It stops within a few hundred letters of a change of the run. Raises the errors of the
        stores.
        """
        taken = {
            stored.name.removeprefix(TAKEN): stored.size for stored in self.objects.listed(TAKEN)
        }
        for stored in self.originals.listed(""):
            if stored.name in taken:
                continue
            if self.clock() >= deadline - WIND_DOWN or not self._goes_on():
                return False
            data = self.originals.get(stored.name)
            no_room = b"" if data is None else self._take(stored.name, data)
            self.objects.put(f"{TAKEN}{stored.name}", no_room)
            taken[stored.name] = len(no_room)
        names = [self.objects.get(f"{TAKEN}{name}") for name, size in taken.items() if size]
        if names:
            self.objects.put(NO_ROOM, b"".join(filter(None, names)))
        return True

    def _goes_on(self) -> bool:
        now = self.runs.read(self.run.id)
        return now is not None and now.generation == self.run.generation

    def _take(self, name: str, data: bytes) -> bytes:
        """Make the letters of an object; returns the names of those that have no room."""
        part: list[Original] = []
        no_room: list[Name] = []
        number = 0
        try:
            for original in originals_in(data, lambda line: self.note_damage(f"{name}:{line}")):
                if self.counted is not None and original.name.origin not in self.counted:
                    continue
                stamp = self._stamp(original, original.stamp.attempt)
                if not has_room(original.letter, stamp, self.max_bytes):
                    no_room.append(original.name)
                    continue
                part.append(original)
                if len(part) == MADE_TOGETHER:
                    self._make(f"{PAGES}{name}-{number:02}.jsonl", part)
                    part, number = [], number + 1
        except NotAnOriginal:
            self.note_damage(name)
        if part:
            self._make(f"{PAGES}{name}-{number:02}.jsonl", part)
        if no_room:
            self.note_no_room(len(no_room))
        return to_lines(no_room)

    def _make(self, page: str, part: Sequence[Original]) -> None:
        """Name letters on a page, and put those in that are not there yet."""
        rows = self.ledger.rows(sorted({original.name.origin for original in part}))
        made = [self._made(original, rows) for original in part]
        self.objects.put(page, to_lines([name for name, _ in made]))
        # What is there may have been edited, while a person held the run.
        here = self.letters.held([name.place for name, _ in made])
        missing = [order for name, order in made if name.place not in here]
        if missing:
            self.letters.put(missing)

    def _made(self, original: Original, rows: Mapping[str, LedgerRow]) -> tuple[Name, Order]:
        run = self.run.id
        # As one that was restored: it has an id of its own, the same each time it is made. So SQS's
        # deduplication, which goes by it, knows the run.
        copy = restored_copy(run, original.letter.message_id)
        letter = replace(original.letter, message_id=copy)
        received = ReceivedLetter(letter, "", 0.0, original.home)
        # Behind every life that the ledger knows of: its outcome must not be that of another one.
        attempt = max(original.stamp.attempt, _last(rows.get(original.name.origin, NO_ROW)))
        stamp = self._stamp(original, attempt)
        name = replace(
            original.name, copy=copy, place=self.letters.place(received), attempt=attempt
        )
        hold = Hold(run_lane(run), never(letter), self._because, shard=name.shard)
        return name, Order(received, hold, stamp)

    @property
    def _because(self) -> str:
        return f"run {self.run.id} repeats run {self.plan.repeated_run}"

    def _stamp(self, original: Original, attempt: int) -> Stamp:
        before = replace(original.stamp, attempt=attempt)
        stamp = joined(before, self.plan, self._because, self.clock())
        if self.plan.accept == AGAIN:
            stamp = replace(stamp, accept=f"{stamps.AGAIN}{self.run.id}")
        return stamp


def _last(row: LedgerRow) -> int:
    """The last life that a row knows of."""
    return max(row.attempt, row.recovered_attempt or 0, row.ended_attempt or 0)
