"""Repeats a run: makes letters of its originals, in the custody of another run.

What became of a letter if anything here raises: its original is where it was, and nothing was
sent. A page names the copies before they are in the run's lane, as for every snapshot; from there
on they are letters of the run like all others. Nothing can be put in once the freeze, or the end of
the run, has closed it: a pass that was paused for long changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from deadletter.contract import run_lane
from deadletter.failure.ledger import NO_ROW, Ledger, LedgerRow
from deadletter.message import stamp as stamps
from deadletter.message.letter import MAX_BYTES
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.order import Order
from deadletter.redrive.waiting_room import never
from deadletter.replay.counted import CountedOrigins
from deadletter.replay.names import Name, to_lines
from deadletter.replay.new_key import NO_ROOM, has_room
from deadletter.replay.objects import RunObjects
from deadletter.replay.originals import NotAnOriginal, Original, originals_in
from deadletter.replay.plan import AGAIN, ReplayPlan
from deadletter.replay.restoring import WIND_DOWN, restored_copy
from deadletter.replay.run import ReplayRun, ReplayRuns
from deadletter.replay.snapshot import PAGES, joined
from deadletter.routing.decision import Hold

TAKEN = "taken/"
"""The folder of the run with an object for each object of originals that is taken: the names of its
letters that have no room for a new key."""

TOGETHER = 50
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


class Repeating:
    """Makes the letters of a run out of the originals of another one.

    `counted` are the letters that the person has seen counted; None: all of them. `note_damage` is
    told the name of an object that has what cannot be read: that is not sent. `max_bytes` is the
    size of a message that the main queue takes; `note_no_room` is told how many letters would go
    without their new key, and are not made.
    """

    def __init__(
        self,
        *,
        run: ReplayRun,
        plan: ReplayPlan,
        counted: CountedOrigins | None,
        originals: RunObjects,
        objects: RunObjects,
        letters: MadeLetters,
        ledger: Ledger,
        runs: ReplayRuns,
        clock: Callable[[], float],
        note_damage: Callable[[str], None],
        max_bytes: int = MAX_BYTES,
        note_no_room: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._run = run
        self._plan = plan
        self._counted = counted
        self._originals = originals
        self._objects = objects
        self._letters = letters
        self._ledger = ledger
        self._runs = runs
        self._clock = clock
        self._note_damage = note_damage
        self._max_bytes = max_bytes
        self._note_no_room = note_no_room

    def run(self, deadline: float) -> bool:
        """Make letters until `deadline` (epoch seconds); returns whether all are made.

        It stops within a few hundred letters of a change of the run. Raises the errors of the
        stores.
        """
        taken = {
            stored.name.removeprefix(TAKEN): stored.size for stored in self._objects.listed(TAKEN)
        }
        for stored in self._originals.listed(""):
            if stored.name in taken:
                continue
            if self._clock() >= deadline - WIND_DOWN or not self._goes_on():
                return False
            data = self._originals.get(stored.name)
            no_room = b"" if data is None else self._take(stored.name, data)
            self._objects.put(f"{TAKEN}{stored.name}", no_room)
            taken[stored.name] = len(no_room)
        names = [self._objects.get(f"{TAKEN}{name}") for name, size in taken.items() if size]
        if names:
            self._objects.put(NO_ROOM, b"".join(filter(None, names)))
        return True

    def _goes_on(self) -> bool:
        now = self._runs.read(self._run.id)
        return now is not None and now.generation == self._run.generation

    def _take(self, name: str, data: bytes) -> bytes:
        """Make the letters of an object; returns the names of those that have no room."""
        part: list[Original] = []
        no_room: list[Name] = []
        number = 0
        try:
            for original in originals_in(data, lambda line: self._note_damage(f"{name}:{line}")):
                if self._counted is not None and original.name.origin not in self._counted:
                    continue
                stamp = self._stamp(original, original.stamp.attempt)
                if not has_room(original.letter, stamp, self._max_bytes):
                    no_room.append(original.name)
                    continue
                part.append(original)
                if len(part) == TOGETHER:
                    self._make(f"{PAGES}{name}-{number:02}.jsonl", part)
                    part, number = [], number + 1
        except NotAnOriginal:
            self._note_damage(name)
        if part:
            self._make(f"{PAGES}{name}-{number:02}.jsonl", part)
        if no_room:
            self._note_no_room(len(no_room))
        return to_lines(no_room)

    def _make(self, page: str, part: Sequence[Original]) -> None:
        """Name letters on a page, and put those in that are not there yet."""
        rows = self._ledger.rows(sorted({original.name.origin for original in part}))
        made = [self._made(original, rows) for original in part]
        self._objects.put(page, to_lines([name for name, _ in made]))
        # What is there may have been edited, while a person held the run.
        here = self._letters.held([name.place for name, _ in made])
        missing = [order for name, order in made if name.place not in here]
        if missing:
            self._letters.put(missing)

    def _made(self, original: Original, rows: Mapping[str, LedgerRow]) -> tuple[Name, Order]:
        run = self._run.id
        # As one that was restored: it has an id of its own, the same each time it is made. So SQS's
        # deduplication, which goes by it, knows the run.
        copy = restored_copy(run, original.letter.message_id)
        letter = replace(original.letter, message_id=copy)
        received = ReceivedLetter(letter, "", 0.0, original.home)
        # Behind every life that the ledger knows of: its outcome must not be that of another one.
        attempt = max(original.stamp.attempt, _last(rows.get(original.name.origin, NO_ROW)))
        stamp = self._stamp(original, attempt)
        name = replace(
            original.name, copy=copy, place=self._letters.place(received), attempt=attempt
        )
        hold = Hold(run_lane(run), never(letter), self._because, shard=name.shard)
        return name, Order(received, hold, stamp)

    @property
    def _because(self) -> str:
        return f"run {self._run.id} repeats run {self._plan.repeated_run}"

    def _stamp(self, original: Original, attempt: int) -> Stamp:
        before = replace(original.stamp, attempt=attempt)
        stamp = joined(before, self._plan, self._because, self._clock())
        if self._plan.accept == AGAIN:
            stamp = replace(stamp, accept=f"{stamps.AGAIN}{self._run.id}")
        return stamp


def _last(row: LedgerRow) -> int:
    """The last life that a row knows of."""
    return max(row.attempt, row.recovered_attempt or 0, row.ended_attempt or 0)
