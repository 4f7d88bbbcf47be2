"""Canaries of the main queue: live messages, each tried at most once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from deadletter.circuit.transitions import CanaryVerdict
from deadletter.contract import circuit_lane
from deadletter.message.letter import whole_number
from deadletter.message.queue import ReceivedLetter
from deadletter.outage.canary_sources import (
    POLL_SECONDS,
    CanaryResult,
    CanarySource,
    HidingQueue,
    NotInLaneYet,
)
from deadletter.outage.lane_moves import LaneMover
from deadletter.routing.decision import Hold, Redrive
from deadletter.routing.router import Question, Router, RouterUnavailable, Verdict, usable_verdicts

LEAST_RECEIVES_LEFT = 1
"""Receives that a message must have left to be tried: without an answer it comes back, and at its
last receive it would die of it."""

LEAST_RECEIVES_LEFT_IN_ORDER = 3
"""The same on FIFO, where a message that is moved away is overtaken by its group."""

LEAST_RECEIVES_LEFT_UNMOVED = 4
"""The same where we may move nothing: a message that fails goes back."""

REST_SECONDS = 60
"""How long a message with too few receives left is hidden: each look at it is a receive."""

MOST_LOOKED_AT = 3
"""Messages that one probe receives at most."""


class LiveQueue(HidingQueue, Protocol):
    """A queue whose messages die after a number of receives."""

    def max_receives(self) -> int | None:
        """Receives after which a message goes to the DLQ; None if it never does."""


class MainQueueCanaries(CanarySource):
    """The next message of the main queue: in HALF_OPEN it is the one that is let through.

    One that fails is moved into the circuit's lane, whatever its fault, and is the next canary
    there: a live message is never tried twice. Without a `mover` it goes back to the queue.
    `keys` are the circuits that any message can test. For the circuit of a single key it gives
    no letter: finding one means receiving many, and each receive counts for its letter. Nor does
    it give a letter that another circuit holds, such as that of its endpoint.
    """

    def __init__(
        self,
        *,
        queue: LiveQueue,
        arn: str,
        fifo: bool,
        keys: Callable[[str], bool],
        mover: LaneMover | None,
        router: Router,
    ) -> None:
        self._queue = queue
        self._arn = arn
        self._keys = keys
        self._mover = mover
        self._router = router
        self._key = ""
        if mover is None:
            self._least = LEAST_RECEIVES_LEFT_UNMOVED
        else:
            self._least = LEAST_RECEIVES_LEFT_IN_ORDER if fifo else LEAST_RECEIVES_LEFT

    @property
    def arn(self) -> str:
        return self._arn

    def take(self, key: str, lock_seconds: float) -> ReceivedLetter | None:
        """As CanarySource; raises NotInLaneYet after it has moved a message that would die."""
        if not self._keys(key):
            return None
        self._key = key
        most = self._queue.max_receives()
        for _ in range(MOST_LOOKED_AT):
            batch = self._queue.receive(1, math.ceil(lock_seconds), POLL_SECONDS)
            if not batch:
                return None
            try:
                verdict = self._verdict_on(batch[0])
            except RouterUnavailable:
                # A router without an answer must not keep live traffic paused.
                verdict = None
            holder = _holder(verdict, key)
            left = None if most is None else most - _receives(batch[0])
            if holder == key and (left is None or left >= self._least):
                return batch[0]
            # Released at its last receive, it would die of our look at it.
            dies = left is not None and left <= 0
            if not dies or not self._move(batch[0], verdict, holder):
                self._queue.hide([(batch[0].handle, REST_SECONDS)])
            elif holder == key:
                raise NotInLaneYet(key)
        return None

    def hides(self, key: str) -> bool:
        """Whether messages that could test this circuit are hidden at present."""
        return self._keys(key) and self._queue.depth().in_flight > 0

    def record(self, received: ReceivedLetter) -> bool:
        return False

    def settle(self, received: ReceivedLetter, result: CanaryResult) -> bool:
        if result.proof is not None:
            return not self._queue.delete([(received, result.proof)])
        if result.verdict is CanaryVerdict.NO_ANSWER:
            return False
        # What the ledger says of it has changed by the failure, so the router is asked again.
        if not self._move(received, self._verdict_on(received), self._key):
            self.give_back(received)
        return False

    def give_back(self, received: ReceivedLetter) -> None:
        self._queue.make_visible([received.handle])

    def _move(self, received: ReceivedLetter, verdict: Verdict | None, key: str) -> bool:
        """Move a message into the lane of a circuit. Returns False if it may still be here."""
        if self._mover is None or verdict is None or isinstance(verdict.decision, Redrive):
            # Without a mover we may move nothing; or its circuit has closed meanwhile.
            return False
        return self._mover.move(self._queue, received, verdict, key)

    def _verdict_on(self, received: ReceivedLetter) -> Verdict | None:
        copy = received.letter.message_id
        answer = self._router.decide([Question(received.letter, served=True, home=received.home)])
        return usable_verdicts(answer, [copy]).get(copy)


def _holder(verdict: Verdict | None, key: str) -> str:
    """The circuit that holds a message back: `key`, or another one, such as its endpoint's."""
    decision, prefix = verdict.decision if verdict else None, circuit_lane("")
    if isinstance(decision, Hold) and decision.lane.startswith(prefix):
        return decision.lane.removeprefix(prefix)
    return key


def _receives(received: ReceivedLetter) -> int:
    """How often the message was received, this time included."""
    return whole_number(received.letter.system.get("ApproximateReceiveCount")) or 1
