"""What shall be done with one letter under lock."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from deadletter.contract import PARKED_LANE
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.routing.decision import Decision, Hold, Park, Redrive

MAIN = "main"
"""The name of the main queue among the targets of orders."""


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """A letter under our lock, the decision on it, and the stamp that it carries from now on.

    `maybe_sent` says that an earlier run may have sent it: sending it now may make a duplicate.
    `after_kill` says that nobody knows more, because that run's process ended; without it the
    run lived on, and its send had no answer.
    `matched` and `shadow_matched` are the versions of rules that it counts for once it is moved;
    for a rule with a `limit` it counts before.
    """

    received: ReceivedLetter
    decision: Decision
    stamp: Stamp
    maybe_sent: bool = False
    after_kill: bool = False
    matched: str | None = None
    shadow_matched: tuple[str, ...] = ()
    limit: int | None = None
    copy: str = field(init=False)
    """The id of the copy under our lock. It is asked for a dozen times in a move."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "copy", self.received.letter.message_id)

    @property
    def group(self) -> str | None:
        return self.received.letter.group

    @property
    def parked_as(self) -> str | None:
        """Why the letter is parked by this order; None for any other order.

        A letter that goes into the lane of parked letters has the reason in its stamp.
        """
        match self.decision:
            case Park(reason=reason):
                return str(reason)
            case Hold(lane=lane) if lane == PARKED_LANE:
                return self.stamp.reason or ""
        return None

    def shortened(self, share: float) -> Decision:
        """The decision with this share (0 to 1) of its delay, if it is the backoff of a letter that
        goes back for the first time. The delay of a rule or of a later attempt stays."""
        match self.decision:
            case Redrive(delay=delay, rule=None) if share < 1 and self.stamp.attempt <= 1:
                return replace(self.decision, delay=round(delay * share))
        return self.decision

    @property
    def hold(self) -> Hold:
        """The decision of a letter that goes into the waiting room; only such have one."""
        assert isinstance(self.decision, Hold), f"{self.decision} is not a Hold"
        return self.decision
