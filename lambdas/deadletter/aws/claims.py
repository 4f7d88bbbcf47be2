"""The claims in DynamoDB: one row a message, taken and ended with conditional writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, condition_failed
from deadletter.aws.table import PARTITION, SORT, Table, conflicting_item, stored_number
from deadletter.contract import Partition
from deadletter.processing.idempotency import BusinessKey, Claim, ClaimsUnavailable, Standing

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_ROW = "claim"

_CLAIMED, _RELEASED, _DONE = "CLAIMED", "RELEASED", "DONE"

# Times that one claim begins anew because the row before it changed meanwhile. It takes
# another colliding message, or the end of the row, in that very moment.
_MOST_TRIES = 3


class DynamoDBClaims:
    """The claims of one pipeline.

    `keep_seconds` is how long a row is remembered after its last claim. It has to outlast
    every way in which the message could come back: the retention of main queue, DLQ and
    parking lot together.
    """

    #  no row ──claim──► CLAIMED ──done──► DONE ─────────────── keep ──► no row
    #                     │    ▲
    #             release │    │ claim, by a new owner
    #    (effect failed)  ▼    │
    #                   RELEASED             (the row stays, for the hash of its payload)
    #
    #  owner 1 ─claim─────────────────┤until             done ✗ release ✗ (row is owner 2's)
    #  owner 2        claim: BUSY     │  claim: takes over ──effect──done─► DONE
    #  owner 3                        │                                      claim: DUPLICATE
    #
    # The good path is two round trips: claim and done. A message whose key is another
    # message's already has a row of its own, and pays two more.

    def __init__(
        self,
        client: DynamoDBClient,
        table: str,
        pipeline: str,
        clock: Callable[[], float],
        keep_seconds: float,
    ) -> None:
        self._table = Table(client, table)
        self._pipeline = pipeline
        self._clock = clock
        self._keep_seconds = keep_seconds

    def claim(self, key: BusinessKey, owner: str, until: float) -> Claim:
        first = Claim(key.digest, owner, until, Standing.MINE)
        second = Claim(key.digest_with_payload, owner, until, Standing.MINE, collision=True)
        for _ in range(_MOST_TRIES):
            now = self._clock()
            found = self._put(first, key.payload, now)
            if found is None or found["payload"] == key.payload:
                return self._as_found(first, found)
            if self._keep_longer(first, found, now):
                return self._as_found(second, self._put(second, key.payload, now))
        raise ClaimsUnavailable("the row of another message with this key comes and goes")

    def done(self, claim: Claim) -> bool:
        # Whoever may have claimed since has left another token. A first try whose answer
        # was lost has left ours, so the second one passes too.
        still_ours = "own = :own"
        return self._change(
            claim,
            {"status": _DONE},
            still_ours,
            {":own": claim.owner},
        )

    def withdraw(self, claim: Claim) -> bool:
        still_ours = "own = :own"
        # A release that was held up on its way must not undo its own owner's done.
        not_done = "#status <> :done"
        return self._change(
            claim,
            {"status": _RELEASED},
            f"{still_ours} AND {not_done}",
            {":own": claim.owner, ":done": _DONE},
        )

    def _put(self, claim: Claim, payload: str, now: float) -> Mapping[str, Any] | None:
        """Write the row of a claim; the row that forbids it, or None if it is written."""
        nobody_has_it = "attribute_not_exists(pk)"
        # DynamoDB takes its time to delete what is over.
        forgotten = "#ttl <= :now"
        same_message = "payload = :payload"
        given_up = "#status = :released"
        abandoned = "#status = :claimed AND #until <= :now"
        item = {
            PARTITION: self._partition(claim),
            SORT: _ROW,
            "own": claim.owner,
            "payload": payload,
            "status": _CLAIMED,
            "until": stored_number(claim.until),
            "ttl": self._ttl(now),
        }
        try:
            self._table.put(
                item,
                f"{nobody_has_it} OR {forgotten}"
                f" OR ({same_message} AND ({given_up} OR ({abandoned})))",
                {
                    ":now": stored_number(now),
                    ":payload": payload,
                    ":released": _RELEASED,
                    ":claimed": _CLAIMED,
                },
            )
        except AWS_ERRORS as error:
            row = conflicting_item(error)
            if row is None:
                raise ClaimsUnavailable("the claim was not answered") from error
            return _checked(row)
        return None

    def _as_found(self, claim: Claim, found: Mapping[str, Any] | None) -> Claim:
        """The claim as the row that forbade it says; None: nothing did."""
        # Our own first try may have won although its answer was lost.
        ours = found is None or (found["own"] == claim.owner and found["status"] == _CLAIMED)
        if ours and self._clock() < claim.until:
            return claim
        done = found is not None and found["status"] == _DONE
        # Held up in the call until its own lease had ended, it may be another's already.
        return replace(claim, standing=Standing.DUPLICATE if done else Standing.BUSY)

    def _keep_longer(self, claim: Claim, found: Mapping[str, Any], now: float) -> bool:
        """Make the first message's row stay as long as a second row that begins now.

        If it ended before, the second message, come back, would find its key free and be
        processed again, although its own row says that it is done. False if the first row
        has changed.
        """
        ttl = self._ttl(now)
        if found["ttl"] >= ttl:
            return True
        same_message = "payload = :payload"
        never_shorter = "#ttl < :ttl"
        return self._change(
            claim,
            {"ttl": ttl},
            f"{same_message} AND {never_shorter}",
            {":payload": found["payload"]},
        )

    def _change(
        self,
        claim: Claim,
        sets: Mapping[str, Any],
        condition: str,
        values: Mapping[str, Any],
    ) -> bool:
        """Change the row of a claim; False if it is not as the condition says."""
        try:
            self._table.change(
                (self._partition(claim), _ROW), sets, condition=condition, values=values
            )
        except AWS_ERRORS as error:
            if condition_failed(error):
                return False
            raise ClaimsUnavailable("a change of a claim was not answered") from error
        return True

    def _partition(self, claim: Claim) -> str:
        return Partition.CLAIM.of(self._pipeline, claim.key)

    def _ttl(self, now: float) -> int:
        return int(now + self._keep_seconds)


def _checked(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row, if it is a claim's; raises ClaimsUnavailable if it is not."""
    texts = all(isinstance(row.get(name), str) for name in ("own", "payload", "status"))
    if not texts or not isinstance(row.get("ttl"), Decimal):
        raise ClaimsUnavailable("a row of the claims is malformed")
    return row
