"""Sends the letters of a chunk: side by side, each call once, and nothing that is late."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from deadletter.message.confirmation import Confirmation
from deadletter.message.envelope import Envelope, seal
from deadletter.message.queue import Queue, batches, waves
from deadletter.redrive.concurrency import InParallel
from deadletter.redrive.fifo import unbroken
from deadletter.redrive.order import Order
from deadletter.redrive.report import Tally
from deadletter.redrive.run_limits import LOCK_PAST_DEADLINE, SEND_AND_MARK
from deadletter.routing.decision import Redrive
from deadletter.signals.figures import Count

LAST_SEND = LOCK_PAST_DEADLINE + SEND_AND_MARK
"""Seconds before a lock ends in which nothing is sent any more. A lock outlasts the run's
deadline, at which the function dies: what it moves just before, it can neither mark nor
delete."""


def end_of_locks(orders: Iterable[Order]) -> float:
    """When the first lock of these letters ends."""
    return min(order.received.locked_until for order in orders)


def last_moment(orders: Iterable[Order]) -> float:
    """The time from which these letters are left alone: a send could not be marked any more."""
    return end_of_locks(orders) - LAST_SEND


@dataclass(slots=True)
class Moves:
    """How the letters of a chunk stand that go the same way, by the id of the copy.

    `pending` are the orders to send now: at first all, then those that SQS confirmed not to
    have taken, which are `failed`. A copy is in `unknown` from its send until its answer.
    """

    pending: list[Order]
    confirmed: dict[str, Confirmation] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    attempted: set[str] = field(default_factory=set)
    envelopes: dict[str, Envelope] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Sends letters to their targets; the targets are queues by name."""

    fifo: bool
    targets: Mapping[str, Queue]
    clock: Callable[[], float]
    in_parallel: InParallel
    tally: Tally

    def send(self, moves: Moves, target_of: Callable[[Order], str]) -> None:
        """Send what is pending; afterwards `pending` are the letters that another try may help.

        On FIFO no letter is sent while an earlier one of its group was not taken; those behind
        a letter that is tried again are pending with it.
        """
        orders = moves.pending
        self._seal(moves, target_of)
        sendable = [order for order in orders if order.copy in moves.envelopes]
        if self.fifo:
            sendable = unbroken(orders, sendable)
        # Until the pass has ended nothing is to be tried again: an error may end it here.
        moves.pending = []
        moves.failed.clear()
        stopped: set[str | None] = set()
        for wave in waves(sendable, self.fifo):
            if self.fifo:
                wave = [order for order in wave if order.group not in stopped]
            self._send_wave(wave, moves, target_of)
            stopped |= {order.group for order in wave if order.copy not in moves.confirmed}
        moves.pending = self._to_try_again(sendable, moves)

    def _to_try_again(self, orders: Sequence[Order], moves: Moves) -> list[Order]:
        if not self.fifo:
            return [order for order in orders if order.copy in moves.failed]
        here = [order for order in orders if order.copy not in moves.confirmed]
        untried = {order.copy for order in here} - moves.attempted
        waiting = [order for order in here if order.copy in untried | moves.failed]
        return unbroken(here, waiting)

    def _seal(self, moves: Moves, target_of: Callable[[Order], str]) -> None:
        for order in [each for each in moves.pending if each.copy not in moves.envelopes]:
            traits = self.targets[target_of(order)].traits
            letter, stamp = order.received.letter, order.stamp
            if isinstance(order.decision, Redrive):
                envelope = seal(letter, stamp, traits, order.decision.delay)
            else:
                envelope = seal(letter, stamp, traits, consumed=False)
            # Its stamp has its new key: without it the consumer would skip the letter.
            has_key = envelope.marked or not (stamp.again and isinstance(order.decision, Redrive))
            if envelope.size <= traits.max_bytes and has_key:
                moves.envelopes[order.copy] = envelope
            else:
                self.tally.count(Count.UNSENDABLE)

    def _send_wave(
        self, wave: Sequence[Order], moves: Moves, target_of: Callable[[Order], str]
    ) -> None:
        """Send one wave to all its targets at once."""
        by_target: defaultdict[str, list[Order]] = defaultdict(list)
        for order in wave:
            by_target[target_of(order)].append(order)
        self.tally.count_possible_duplicates(
            order for order in wave if order.copy not in moves.attempted
        )
        moves.attempted.update(order.copy for order in wave)
        self.in_parallel(
            [
                partial(self._send_batch, self.targets[target], batch, last_moment(orders), moves)
                for target, orders in by_target.items()
                for batch in batches([moves.envelopes[order.copy] for order in orders])
            ]
        )

    def _send_batch(
        self, queue: Queue, batch: Sequence[Envelope], until: float, moves: Moves
    ) -> None:
        # The last moment to check the clock: after the lock has ended, another run may
        # have sent the letter already.
        if self.clock() >= until:
            self.tally.count(Count.TOO_LATE_TO_SEND, len(batch))
            return
        copies = {envelope.copy for envelope in batch}
        # Until there is an answer the letters may have arrived, whatever ends this call.
        moves.unknown |= copies
        result = queue.send(batch)
        moves.confirmed.update(result.confirmed)
        moves.failed |= result.failed.keys()
        moves.unknown -= copies - result.unknown
