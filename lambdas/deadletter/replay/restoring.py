"""Brings discarded letters back to where they were parked, as long as their copies are kept.

What became of a letter if anything here raises: its copy is in the bucket until it waits in lane
`parked`. One write puts it there and notes that it is back, so that it comes back once, whoever
else restores it; then its copy is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Protocol

from deadletter.contract import DISCARDED, PARKED_LANE
from deadletter.message.queue import ReceivedLetter
from deadletter.redrive.concurrency import InParallel
from deadletter.redrive.order import Order
from deadletter.redrive.router_client import next_request
from deadletter.redrive.waiting_room import never, shard_of
from deadletter.replay.counted import CountedOrigins
from deadletter.replay.discarded import DiscardedLetter, NotADiscardedLetter, discarded_letter
from deadletter.replay.objects import RunObjects
from deadletter.replay.plan import ReplayPlan
from deadletter.replay.run import BadRunRow, ReplayRun, ReplayRuns, RunState
from deadletter.replay.ticket import ReplayOutcome, Ticket, Tickets
from deadletter.routing.decision import Hold
from deadletter.routing.router import Question, Router, usable_picks

TOGETHER = 10
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


class Restoring:
    """Restores the letters that a plan chooses, and that a person has counted.

    `folders` are the runs that may keep copies; the ports of each are made when its turn comes.
    `note_bad_row` is told of a row of such a run that cannot be read: it costs its own letters.
    """

    def __init__(
        self,
        *,
        run: ReplayRun,
        plan: ReplayPlan,
        counted: CountedOrigins | None,
        folders: Callable[[], Iterable[str]],
        objects: Callable[[str], RunObjects],
        tickets: Callable[[str], Tickets],
        letters: Callable[[str], RestoredLetters],
        runs: ReplayRuns,
        router: Router,
        fifo: bool,
        in_parallel: InParallel,
        clock: Callable[[], float],
        note_bad_row: Callable[[str], None],
    ) -> None:
        self._run = run
        self._plan = plan
        self._counted = counted
        self._folders = folders
        self._objects = objects
        self._tickets = tickets
        self._letters = letters
        self._runs = runs
        self._router = router
        self._fifo = fifo
        self._in_parallel = in_parallel
        self._clock = clock
        self._note_bad_row = note_bad_row
        self._bad_rows: set[str] = set()

    def run(self, deadline: float) -> bool:
        """Restore until `deadline` (epoch seconds); returns whether nothing is left to restore.

        It stops within a few letters of a change of the run. Raises the errors of the stores.
        """
        of_one = self._plan.restored_run
        for folder in self._folders() if of_one is None else (of_one,):
            names = [stored.name for stored in self._objects(folder).listed(DISCARDED)]
            for begin in range(0, len(names), TOGETHER):
                if self._clock() >= deadline - WIND_DOWN or not self._goes_on():
                    return False
                self._restore(folder, names[begin : begin + TOGETHER])
        return True

    def _goes_on(self) -> bool:
        now = self._runs.read(self._run.id)
        return now is not None and now.generation == self._run.generation

    def _restore(self, folder: str, names: Sequence[str]) -> None:
        chosen = self._chosen(self._read(folder, names))
        if not chosen:
            return
        letters, gone = self._letters(folder), self._final(folder, chosen)
        back = letters.back(sorted(gone))
        for name, discarded in chosen.items():
            copy = discarded.letter.message_id
            if copy in gone and copy not in back:
                order = self._order(folder, discarded)
                letters.put_back(copy, order, self._ticket(order))
            if copy in gone:
                self._objects(folder).delete([name])

    def _read(self, folder: str, names: Sequence[str]) -> dict[str, DiscardedLetter]:
        """The letters in these objects; one that is damaged stays where it is."""
        objects = self._objects(folder)
        found = self._in_parallel([partial(objects.get, name) for name in names])
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
        counted = self._counted
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
            picks = self._router.select(questions, self._plan.selection, release=True)
            usable = usable_picks(picks, [each.letter.message_id for each in part])
            chosen |= {copy for copy, pick in usable.items() if pick.chosen}
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
        tickets = self._tickets(folder)
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
            run = self._runs.read(folder)
        except BadRunRow as error:
            self._note(error)
            return False
        return run is None or run.state is RunState.DONE

    def _note(self, error: BadRunRow) -> None:
        """Tell of a bad row, once however often it is read."""
        if str(error) not in self._bad_rows:
            self._bad_rows.add(str(error))
            self._note_bad_row(str(error))

    def _order(self, folder: str, discarded: DiscardedLetter) -> Order:
        """The order that puts a letter back as it was, as a copy of its own.

        Whatever a worker of the discarding run still deletes under the old id, late or twice, is
        not this copy.
        """
        run = self._run.id
        because = f"restored by run {run}"
        old, stamp = discarded.letter, discarded.parked_stamp
        letter = replace(old, message_id=restored_copy(folder, old.message_id))
        if stamp.because is None:
            stamp = replace(stamp, because=because, at=int(self._clock()))
        return Order(
            ReceivedLetter(letter, "", 0.0, discarded.parked_in),
            Hold(PARKED_LANE, never(letter), because),
            stamp,
        )

    def _ticket(self, order: Order) -> Ticket:
        return Ticket(
            run=self._run.id,
            origin=order.stamp.origin,
            copy=order.copy,
            shard=shard_of(order.received.letter, self._fifo),
            position=-1,
            attempt=order.stamp.attempt,
            at=self._clock(),
            fate=ReplayOutcome.RESTORED,
            generation=self._run.generation,
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
