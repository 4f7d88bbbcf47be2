"""Guards each message of one batch against being processed twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

from deadletter.contract import MINUTE
from deadletter.processing.idempotency import BusinessKey, Claim, Claims, ClaimsUnavailable
from deadletter.processing.result import Trouble, Troubles

CLAIM_MARGIN_SECONDS = 5.0
"""How long a claim outlasts its batch: clocks differ, and the process ends at its deadline."""


LONGEST_BUSY_SECONDS = 15.0 * MINUTE + CLAIM_MARGIN_SECONDS
"""How long a message is hidden at most while another process has its key: as long as Lambda
lets a function run. A poller may hold a claim for longer; then its copy asks again."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Guard:
    """The claims of one batch; `deadline` (epoch seconds) is when its process ends.

    Without `claims` nothing is guarded, and a claim is None. `new_id` gives a unique text.
    `execution` names a durable execution, which runs its handlers again when it is resumed.
    """

    claims: Claims | None
    new_id: Callable[[], str]
    deadline: float
    troubles: Troubles
    execution: str = ""
    untold: list[tuple[str, Claim]] = field(default_factory=list)
    """The messages that were processed, and whose claims could not be told so."""

    def claim(self, key: BusinessKey, message_id: str = "") -> Claim | None:
        """Claim a message; raises ClaimsUnavailable.

        With its `message_id`, a durable execution finds the claim that it made before it was
        suspended.
        """
        if self.claims is None:
            return None
        until = self.deadline + CLAIM_MARGIN_SECONDS
        return self.claims.claim(key, self._owner(message_id), until)

    def _owner(self, message_id: str) -> str:
        if not self.execution or not message_id:
            return self.new_id()
        return sha256(f"{self.execution}/{message_id}".encode()).hexdigest()[:32]

    def seconds_busy(self, claim: Claim, now: float) -> float:
        """Seconds until another owner's claim ends, after which the message may be processed."""
        return min(LONGEST_BUSY_SECONDS, max(1.0, claim.until - now))

    def done(self, message_id: str, claim: Claim | None) -> None:
        """Mark a message as processed. Its effect has happened, so an error is only noted."""
        if self.claims is None or claim is None:
            return
        with self.troubles.noticing(ClaimsUnavailable, Trouble.CLAIMS, message_id):
            try:
                if not self.claims.done(claim):
                    self.troubles.notice(message_id, Trouble.LEASE_LOST)
            except ClaimsUnavailable:
                self.untold.append((message_id, claim))
                raise

    def tell_again(self, message_id: str, claim: Claim) -> None:
        """Say once more, seconds later, that a message was processed: a table may be back."""
        if self.claims is not None:
            with self.troubles.noticing(ClaimsUnavailable, Trouble.CLAIMS, message_id):
                self.claims.done(claim)

    def withdraw(self, message_id: str, claim: Claim | None, *, tried: bool = True) -> bool:
        """Let the next receive process the message. An error is only noted.

        A message that was not `tried` has the number of this try once more.

        Returns False if a newer owner has the message.
        """
        with self.troubles.noticing(ClaimsUnavailable, Trouble.CLAIMS, message_id):
            if self.claims is None or claim is None or self.claims.withdraw(claim, tried=tried):
                return True
            self.troubles.notice(message_id, Trouble.LEASE_LOST)
            return False
        return True
