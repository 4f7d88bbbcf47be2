"""One pass of a restore: which copies come back, which stay, and when it stops."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from deadletter.message.letter import Letter
from deadletter.message.stamp import Stamp
from deadletter.redrive.order import Order
from deadletter.replay.bringing_back import Restoring, restored_copy
from deadletter.replay.objects import DiscardedLetter, StoredObject, discarded_name
from deadletter.replay.plan import ReplayPlan
from deadletter.replay.run import BadRun, ReplayRun, RunState, bad_run_row, held
from deadletter.replay.ticket import BadTicket, ReplayOutcome, Ticket
from deadletter.routing.router import Question
from deadletter.routing.selection import Pick
from deadletter.testing.clock import START, Clock
from tests.each_row import each_row

PLAN = ReplayPlan(pipeline="orders", source="discarded", destination="restore")
RUN = ReplayRun(id="back", pipeline="orders", state=RunState.MOVING, generation=4)
DISCARDED = ReplayOutcome.DISCARDED


class Bucket:
    """The copies that one run has left; `gone` are listed and cannot be read any more."""

    def __init__(self, *copies: str) -> None:
        self.stored = {discarded_name(copy): kept(copy).to_bytes() for copy in copies}
        self.gone: set[str] = set()

    def listed(self, folder: str) -> list[StoredObject]:
        return [StoredObject(name, 0) for name in sorted(self.stored) if name.startswith(folder)]

    def get(self, name: str) -> bytes | None:
        return None if name in self.gone else self.stored[name]

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            del self.stored[name]

    @property
    def copies(self) -> list[str]:
        return [name.removeprefix("discarded/").removesuffix(".json") for name in self.stored]


def kept(copy: str) -> DiscardedLetter:
    return DiscardedLetter(
        letter=Letter(copy, "{}"),
        home="parking:default",
        stamp=Stamp(f"first-{copy}", attempt=3, reason="POISON", run="r"),
        at=7,
        by="ann",
        because="why",
    )


class Pass:
    """A pass over the copies of runs; the tickets say of each that it was discarded."""

    def __init__(self, folders: Mapping[str, Bucket], **changes: Any) -> None:
        self.clock = Clock()
        self.folders = folders
        self.run: ReplayRun | None = RUN
        self.runs_: dict[str, ReplayRun | BadRun] = {}
        self.fates: dict[str, ReplayOutcome | Exception | None] = {}
        self.chosen: Callable[[str], bool] = lambda _copy: True
        self.backs: list[Sequence[str]] = []
        self.there: set[str] = set()
        self.put: list[tuple[str, Order, Ticket]] = []
        self.notes: list[str] = []
        self.releases: list[bool] = []
        self.changes = changes

    # The runs, tickets, letters that are back, and the router.

    def read(self, asked: Any) -> Any:
        if isinstance(asked, str):
            if asked == RUN.id:
                return self.run
            found = self.runs_.get(asked)
            if isinstance(found, Exception):
                raise found
            return found
        return self._tickets(asked)

    def _tickets(self, keys: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], Ticket]:
        found = {}
        for origin, copy in keys:
            fate = self.fates.get(copy, DISCARDED)
            if isinstance(fate, Exception):
                raise fate
            if fate is not None:
                found[origin, copy] = Ticket(
                    run="r",
                    origin=origin,
                    copy=copy,
                    shard=0,
                    position=0,
                    attempt=3,
                    at=0.0,
                    fate=fate,
                )
        return found

    def back(self, copies: Sequence[str]) -> Collection[str]:
        self.backs.append(copies)
        return self.there.intersection(copies)

    def put_back(self, copy: str, order: Order, ticket: Ticket) -> None:
        self.put.append((copy, order, ticket))

    def select(
        self, questions: Sequence[Question], _selection: Any, *, release: bool
    ) -> list[Pick]:
        self.releases.append(release)
        copies = [question.letter.message_id for question in questions]
        return [
            Pick(message_id=copy, chosen=self.chosen(copy), stamp=Stamp(copy)) for copy in copies
        ]

    def take(self, seconds: float = 60.0) -> bool:
        ports: Any = self
        buckets: Any = self.folders
        known: dict[str, Any] = {"plan": PLAN, "counted": None, **self.changes}
        restoring = Restoring(
            run=RUN,
            folders=lambda: buckets,
            objects=lambda folder: buckets[folder],
            tickets=lambda _folder: ports,
            letters=lambda _folder: ports,
            runs=ports,
            router=ports,
            fifo=False,
            in_parallel=lambda calls: [call() for call in calls],
            clock=self.clock,
            note_bad_row=self.notes.append,
            **known,
        )
        return restoring.restore(self.clock() + seconds)

    @property
    def restored(self) -> list[str]:
        return [copy for copy, _, _ in self.put]


def test_a_letter_comes_back_as_it_was_parked_and_its_copy_goes() -> None:
    run = Pass({"r": Bucket("a")})
    assert run.take()
    [(copy, order, ticket)] = run.put
    assert (copy, order.copy) == ("a", restored_copy("r", "a"))
    hold: Any = order.decision
    assert (hold.lane, hold.because) == ("parked", "restored by run back")
    assert order.received.home == "parking:default"
    # What was parked before has no sentence of its own: it gets that of the restore.
    assert order.stamp == replace(kept("a").parked_stamp, because=hold.because, at=int(START))
    assert ticket == Ticket(
        run="back",
        origin="first-a",
        copy=restored_copy("r", "a"),
        shard=ticket.shard,
        position=-1,
        attempt=3,
        at=START,
        fate=ReplayOutcome.RESTORED,
        generation=4,
    )
    assert run.folders["r"].copies == []
    assert run.releases == [True]


def test_copies_are_in_memory_ten_at_a_time_and_those_of_all_runs_come_back() -> None:
    copies = [f"c{number:02}" for number in range(23)]
    run = Pass({"r": Bucket(*copies), "s": Bucket("x")})
    assert run.take()
    assert [len(asked) for asked in run.backs] == [10, 10, 3, 1]
    assert run.restored == [*copies, "x"]


def test_a_restore_of_one_run_leaves_the_copies_of_others() -> None:
    run = Pass({"r": Bucket("a"), "s": Bucket("x")}, plan=replace(PLAN, source="discarded:s"))
    assert run.take()
    assert (run.restored, run.folders["r"].copies) == (["x"], ["a"])


def test_only_chosen_letters_that_were_counted_come_back_and_each_once() -> None:
    counted = {f"first-{copy}" for copy in "abd"}
    run = Pass({"r": Bucket(*"abcd")}, counted=counted)
    run.chosen = lambda copy: copy != "b"
    run.there = {"d"}
    assert run.take()
    assert run.restored == ["a"]
    # The copy of one that is back already is only left over.
    assert run.folders["r"].copies == ["b", "c"]


def test_a_copy_that_another_restore_has_deleted_or_that_is_damaged_is_passed_over() -> None:
    bucket = Bucket("a", "b", "c")
    bucket.gone = {discarded_name("a")}
    bucket.stored[discarded_name("b")] = b"torn"
    run = Pass({"r": bucket})
    assert run.take()
    assert (run.restored, bucket.copies) == (["c"], ["a", "b"])


@each_row("seconds", [9.0, 10.0])
def test_no_letter_is_begun_in_the_last_ten_seconds(seconds: float) -> None:
    run = Pass({"r": Bucket("a")})
    assert not run.take(seconds)
    assert run.put == []
    assert run.take(10.1)


@each_row("now", [None, held(RUN, at=START, by="ann", because="wait")])
def test_a_run_that_was_changed_restores_no_more(now: ReplayRun | None) -> None:
    run = Pass({"r": Bucket("a")})
    run.run = now
    assert not run.take()
    assert run.put == []


def ended(state: RunState) -> ReplayRun:
    return ReplayRun(id="r", pipeline="orders", state=state)


@each_row(
    ("fate", "run", "comes_back"),
    [
        (DISCARDED, ended(RunState.RUNNING), True),
        (ReplayOutcome.LEFT, ended(RunState.DONE), False),
        # Its ticket has expired, or was never written.
        (None, None, True),
        (None, ended(RunState.DONE), True),
        (None, ended(RunState.RUNNING), False),
        (None, ended(RunState.ABORTED), False),
        (None, BadRun(str(bad_run_row("r"))), False),
        (BadTicket("a bad row"), None, False),
    ],
)
def test_a_letter_comes_back_only_if_it_is_gone_for_good(
    fate: ReplayOutcome | Exception | None, run: Any, comes_back: bool
) -> None:
    taken = Pass({"r": Bucket("a", "b")})
    taken.fates["a"] = fate
    if run is not None:
        taken.runs_["r"] = run
    assert taken.take()
    assert taken.restored == (["a", "b"] if comes_back else ["b"])
    assert taken.folders["r"].copies == ([] if comes_back else ["a"])
    bad = [str(each) for each in (fate, run) if isinstance(each, Exception)]
    assert taken.notes == bad


def test_a_bad_row_is_told_of_once() -> None:
    run = Pass({"r": Bucket(*(f"c{number:02}" for number in range(11)))})
    run.runs_["r"] = BadRun("a bad row")
    run.fates = dict.fromkeys((f"c{number:02}" for number in range(11)), None)
    assert run.take()
    assert (run.restored, run.notes) == ([], ["a bad row"])
