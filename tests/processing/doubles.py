"""The ports of a consumer in memory; a test can make each of them fail."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Any

from deadletter.circuit.state import Circuit, CircuitsUnavailable, OutcomeCounts, State
from deadletter.contract import DEFAULT_PARKING
from deadletter.failure.blame import SILENT, TeamsWord
from deadletter.failure.failure import Failure
from deadletter.failure.ledger import (
    AboutLetter,
    LedgerUnavailable,
    RecordsUnavailable,
    Recovery,
)
from deadletter.message.confirmation import Confirmation
from deadletter.message.envelope import Envelope, QueueTraits
from deadletter.message.letter import Attribute, Letter, to_event
from deadletter.message.queue import QueueUnavailable, SendResult
from deadletter.message.stamp import Stamp
from deadletter.message.stamp import attribute as stamp_attribute
from deadletter.pace.kinds import NONE_SICK, SickKinds
from deadletter.pace.pace import CallPace, PaceGrant, Wish
from deadletter.processing.batch import Consumer, Handle
from deadletter.processing.collisions import Collisions
from deadletter.processing.delivery import Delivery
from deadletter.processing.idempotency import BusinessKey, Claim, ClaimsUnavailable, Standing
from deadletter.processing.result import BatchResult
from deadletter.processing.sudden_causes import SuddenCauses
from deadletter.processing.visibility import FirstTries, LastReceive
from deadletter.settings.pipeline import Pipeline
from deadletter.testing.clock import Clock
from tests.samples import NOW, REDRIVER

PACE = CallPace(limit=5.0, normal=5.0, since=NOW - 10, changed=NOW - 10, cap=9.0, waited=NOW)
"""The pace of a dependency that has just come back, and that has no call left."""

ARN = "arn:aws:sqs:eu-west-1:111122223333:orders"
DEADLINE = NOW + 30


@dataclass
class Log:
    """The ledger: the failures and recoveries that were recorded, in order."""

    failures: list[tuple[str, Failure]] = field(default_factory=list)
    recoveries: list[tuple[str, int, float]] = field(default_factory=list)
    ways: list[Recovery] = field(default_factory=list)
    parkings: list[tuple[str, int, float, str]] = field(default_factory=list)
    about: dict[str, AboutLetter | None] = field(default_factory=dict)
    notes: list[tuple[str, float, str, str]] = field(default_factory=list)
    left_index: list[str] = field(default_factory=list)
    stamps: dict[str, Stamp] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    raises: Exception | None = None
    takes: tuple[float, Clock] | None = None

    def failed(
        self, origin: str, failure: Failure, about: AboutLetter | None = None, *, anew: bool = False
    ) -> None:
        self._answer()
        self.failures.append((origin, failure))
        self.about[origin] = about

    def recovered(
        self, origin: str, attempt: int, at: float, how: Recovery = Recovery.PROCESSED
    ) -> bool:
        self._answer()
        known = any(recovery[0] == origin for recovery in self.recoveries)
        self.recoveries.append((origin, attempt, at))
        self.ways.append(how)
        return not known

    def parked(self, origin: str, attempt: int, at: float, reason: str) -> None:
        self._answer()
        self.parkings.append((origin, attempt, at, reason))

    def note_parked(self, origin: str, at: float, reason: str, rule: str) -> None:
        self._answer()
        self.notes.append((origin, at, reason, rule))

    def leave_index(self, origin: str) -> None:
        self._answer()
        self.left_index.append(origin)

    def stored_stamp(self, message_id: str) -> Stamp | None:
        if isinstance(self.raises, RecordsUnavailable):
            raise LedgerUnavailable("no answer")
        self._answer()
        self.asked.append(message_id)
        return self.stamps.get(message_id)

    def _answer(self) -> None:
        if self.takes is not None:
            seconds, clock = self.takes
            clock.now += seconds
        if self.raises is not None:
            raise self.raises


@dataclass
class Desk:
    """The claims: rows by the key's text and payload, and the calls in order."""

    rows: dict[tuple[str, str], str] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    untils: list[float] = field(default_factory=list)
    raises: dict[str, Exception] = field(default_factory=dict)
    fenced: bool = False
    collision: bool = False
    taken_over: bool = False
    differences: tuple[str, ...] | None = None
    owners: list[str] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)
    busy_until: float = 0.0

    def claim(self, key: BusinessKey, owner: str, until: float) -> Claim:
        self._answer("claim")
        self.untils.append(until)
        row = (key.text, key.payload)
        standing = {
            "done": Standing.DUPLICATE,
            "claimed": Standing.BUSY,
        }.get(self.rows.get(row, ""), Standing.MINE)
        if standing is Standing.MINE:
            self.rows[row] = "claimed"
        self.owners.append(owner)
        collision = self.collision and not key.text.startswith("parked:")
        return Claim(
            "\n".join(row),
            owner,
            self.busy_until if standing is Standing.BUSY else until,
            standing,
            collision,
            self.taken_over,
            self.differences,
        )

    def done(self, claim: Claim) -> bool:
        return self._end(claim, "done")

    def withdraw(self, claim: Claim, *, tried: bool = True) -> bool:
        if not tried:
            self.untried.append(claim.key.partition("\n")[0])
        return self._end(claim, "withdraw")

    def _end(self, claim: Claim, how: str) -> bool:
        self._answer(how)
        if self.fenced:
            return False
        text, payload = claim.key.split("\n")
        self.rows[text, payload] = how
        return True

    def _answer(self, call: str) -> None:
        self.calls.append(call)
        if call in self.raises:
            raise self.raises[call]

    def states(self) -> dict[str, str]:
        return {text: state for (text, _), state in self.rows.items()}


@dataclass
class Store:
    """The circuits."""

    circuits: dict[str, Circuit] = field(default_factory=dict)
    reads: list[Sequence[str]] = field(default_factory=list)
    # Whether each of them may have been old.
    lagging: list[bool] = field(default_factory=list)
    raises: Exception | None = None

    def read(self, keys: Sequence[str], *, lagging: bool = False) -> Mapping[str, Circuit]:
        self.reads.append(keys)
        self.lagging.append(lagging)
        if self.raises is not None:
            raise self.raises
        return {key: self.circuits.get(key, Circuit(key)) for key in keys}

    def open(self, key: str = "orders", until: float = 0.0) -> None:
        self.circuits[key] = Circuit(key, State.OPEN, open_until=until)


@dataclass
class Reports:
    """The outcomes that were reported: key, successes, failures.

    From the failure of this number on, what is written is answered with an open circuit. `wishes`
    is what paces were asked for, `left` the calls that they still have; with `opened` their
    circuit has opened meanwhile. `slowed` is what was written of sick kinds, `taken` what another
    process has written before.
    """

    reported: list[tuple[str, int, int]] = field(default_factory=list)
    counts: list[OutcomeCounts] = field(default_factory=list)
    raises: Exception | None = None
    opens_at: int | None = None
    left: int = 0
    wishes: list[tuple[str, Wish]] = field(default_factory=list)
    until: float = math.inf
    opened: bool = False
    has_answer: bool = True
    slowed: list[SickKinds] = field(default_factory=list)
    taken: SickKinds | None = None

    def report(
        self, key: str, outcomes: OutcomeCounts, known: Circuit | None = None
    ) -> Circuit | None:
        if self.raises is not None:
            raise self.raises
        if outcomes != OutcomeCounts(refused=outcomes.refused):
            self.reported.append((key, outcomes.good, outcomes.bad))
        self.counts.append(outcomes)
        if self.opens_at is None or self.totals[key][1] < self.opens_at:
            return None
        return Circuit(key, State.OPEN, open_until=NOW + 30)

    def take(
        self, known: Circuit, outcomes: OutcomeCounts, wish: Wish
    ) -> tuple[Circuit, PaceGrant] | None:
        if self.raises is not None:
            raise self.raises
        self.wishes.append((known.key, wish))
        self.counts.append(outcomes)
        if not self.has_answer:
            return None
        if self.opened or known.pace is None:
            return Circuit(known.key, State.OPEN, open_until=NOW + 30), PaceGrant(PACE, 0, (), 0.0)
        calls = min(wish.calls, self.left)
        self.left -= calls
        waits = tuple(10.0 * number for number in range(1, wish.places + 1))
        return known, PaceGrant(known.pace, calls, waits, self.until)

    def slow(
        self, known: Circuit, change: Callable[[SickKinds], SickKinds | None]
    ) -> tuple[Circuit, bool] | None:
        if self.raises is not None:
            raise self.raises
        if not self.has_answer:
            return None
        if self.taken is not None:
            return replace(known, sick=self.taken), False
        after = change(known.sick or NONE_SICK)
        if after is None:
            return known, False
        self.slowed.append(after)
        return replace(known, sick=after if after.kinds else None), True

    @property
    def totals(self) -> dict[str, tuple[int, int]]:
        """Successes and failures by key."""
        sums: dict[str, tuple[int, int]] = {}
        for key, good, bad in self.reported:
            before = sums.get(key, (0, 0))
            sums[key] = (before[0] + good, before[1] + bad)
        return sums


@dataclass
class Hidden:
    """The visibility of the main queue."""

    calls: list[list[tuple[str, int]]] = field(default_factory=list)
    failing: int = 0
    raises: Exception | None = None
    most: int | None = None
    asked: int = 0

    def max_receives(self) -> int | None:
        self.asked += 1
        if self.raises is not None:
            raise self.raises
        return self.most

    def hide(self, waits: Sequence[tuple[str, int]]) -> int:
        if self.raises is not None:
            raise self.raises
        self.calls.append(list(waits))
        return self.failing


@dataclass
class Lot:
    """A parking queue; `answer` is the result of a send."""

    sent: list[Envelope] = field(default_factory=list)
    answer: str = "confirmed"
    raises: Exception | None = None
    max_bytes: int = 1024 * 1024

    @property
    def traits(self) -> QueueTraits:
        if self.raises is not None:
            raise self.raises
        return QueueTraits(max_bytes=self.max_bytes)

    def send(self, batch: Sequence[Envelope]) -> SendResult:
        [envelope] = batch
        self.sent.append(envelope)
        match self.answer:
            case "confirmed":
                return SendResult(
                    confirmed={envelope.copy: Confirmation(envelope.copy, "parking", "new")}
                )
            case "refused":
                return SendResult(refused={envelope.copy: "AccessDenied"})
            case "failed":
                return SendResult(failed={envelope.copy: "InternalError"})
            case _:
                return SendResult(unknown=frozenset({envelope.copy}))

    def receive(self, *_: object) -> Any:
        raise AssertionError("a consumer takes nothing from the parking lot")

    delete = make_visible = depth = receive


@dataclass
class Site:
    """A consumer with all its ports, and the ids of the messages that its handler got."""

    pipeline: Pipeline = field(default_factory=lambda: Pipeline("orders"))
    clock: Clock = field(default_factory=Clock)
    log: Log = field(default_factory=Log)
    claims: Desk = field(default_factory=Desk)
    circuits: Store = field(default_factory=Store)
    outcomes: Reports = field(default_factory=Reports)
    queue: Hidden = field(default_factory=Hidden)
    lot: Lot = field(default_factory=Lot)
    handled: list[str] = field(default_factory=list)
    raises: dict[str, BaseException] = field(default_factory=dict)
    unguarded: bool = False
    published: list[tuple[str, int]] = field(default_factory=list)
    team: TeamsWord = SILENT
    lot_id: str = DEFAULT_PARKING
    causes: SuddenCauses | None = None
    collisions: Collisions | None = None
    last_receive: LastReceive | None = None
    first_tries: FirstTries = field(default_factory=FirstTries)
    pauses: list[float] = field(default_factory=list)

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock.now += seconds

    def handle(self, delivery: Delivery) -> None:
        self.handled.append(delivery.letter.message_id)
        error = self.raises.get(delivery.letter.message_id)
        if error is not None:
            raise error

    def consumer(self, handle: Handle | None = None) -> Consumer:
        names = count()
        lot: Any = self.lot
        return Consumer(
            pipeline=self.pipeline,
            handle=handle or self.handle,
            log=self.log,
            claims=None if self.unguarded else self.claims,
            circuits=self.circuits,
            outcomes=self.outcomes,
            queue=self.queue,
            parking={self.lot_id: lot},
            trusted_senders=frozenset({REDRIVER}),
            clock=self.clock,
            random=Random(1),
            new_id=lambda: f"owner{next(names)}",
            count_now=lambda name, number: self.published.append((name, number)),
            team=self.team,
            causes=self.causes,
            collisions=self.collisions,
            last_receive=self.last_receive,
            first_tries=self.first_tries,
            pause=self.pause,
        )

    def process(
        self,
        *records: Any,
        permit: str | None = None,
        handle: Handle | None = None,
        run: str | None = None,
    ) -> BatchResult:
        return self.consumer(handle).process(records, deadline=DEADLINE, permit=permit, run=run)


def record(letter: Letter, receive: int = 1, arn: str = ARN) -> dict[str, Any]:
    """The letter as a record of a Lambda event, in its receive number `receive`."""
    counted = replace(letter, system={**letter.system, "ApproximateReceiveCount": str(receive)})
    return to_event(counted, receipt_handle=f"handle of {letter.message_id}", source_arn=arn)


def redriven(
    letter: Letter, attempt: int = 1, origin: str = "first", run: str | None = None
) -> Letter:
    """The letter as the redriver sends it back, or a replay run."""
    stamp = stamp_attribute(Stamp(origin, attempt, 1, run=run))
    attributes: dict[str, Attribute] = {**letter.attributes, "Redrive": stamp}
    return replace(
        letter, attributes=attributes, system={**letter.system, "SenderId": f"{REDRIVER}:run"}
    )


UNAVAILABLE: Mapping[str, Callable[[], Exception]] = {
    "ledger": lambda: RecordsUnavailable("no answer"),
    "claims": lambda: ClaimsUnavailable("no answer"),
    "circuits": lambda: CircuitsUnavailable("no answer"),
    "queue": lambda: QueueUnavailable("no answer"),
    "a bug": lambda: ZeroDivisionError("ours"),
}
