"""Bugs of the claims: each one lets two owners act, or an act be forgotten."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

from deadletter.aws.claims import DynamoDBClaims
from deadletter.aws.table import equals
from deadletter.processing.idempotency import BusinessKey, Claim, Standing
from tests.simulation.planted import whoever_owns_it
from tests.simulation.planting import Bugs

_claim, _change = DynamoDBClaims.claim, DynamoDBClaims._change


def _whatever_the_owner(status: str) -> Callable[..., bool]:
    def change(self: DynamoDBClaims, claim: Claim, sets: Any, when: Any) -> bool:
        if sets.get("status") == status:
            when = whoever_owns_it(when)
        return _change(self, claim, sets, when)

    return change


def _deleting(self: DynamoDBClaims, claim: Claim, *, tried: bool = True) -> bool:
    self._table.write_many(deletes=[(self._partition(claim), "claim")])
    return True


def _compared_while_claimed(
    self: DynamoDBClaims, key: BusinessKey, owner: str, until: float
) -> Claim:
    """As releases before did it: another payload is another message, whatever became of one."""
    claim = _claim(self, key, owner, until)
    if claim.standing is not Standing.BUSY or key.payload == "a":
        return claim
    return replace(_claim(self, replace(key, apart=True), owner, until), collision=True)


def _with_the_payload_of_the_first(
    self: DynamoDBClaims, key: BusinessKey, owner: str, until: float
) -> Claim:
    """A withdrawn row keeps the payload of its message."""
    claim = _claim(self, key, owner, until)
    if claim.standing is Standing.MINE and not claim.collision:
        change = {"payload": "a"}
        self._change(claim, change, equals("own", owner))
    return claim


def _without_payload(self: DynamoDBClaims, key: BusinessKey, owner: str, until: float) -> Claim:
    return _claim(self, replace(key, payload="any"), owner, until)


def _with_lease(end: float) -> Callable[[DynamoDBClaims, BusinessKey, str, float], Claim]:
    def claim(self: DynamoDBClaims, key: BusinessKey, owner: str, until: float) -> Claim:
        return _claim(self, key, owner, end or self.clock())

    return claim


def _with_one_owner(self: DynamoDBClaims, key: BusinessKey, owner: str, until: float) -> Claim:
    return _claim(self, key, "the batch", until)


def _uncounted(self: DynamoDBClaims, key: BusinessKey, owner: str, until: float) -> Claim:
    return replace(_claim(self, key, owner, until), tries=1)


BUGS = Bugs()
for _name, _method, _wrong in (
    ("done whatever the owner", "_change", _whatever_the_owner("DONE")),
    ("released whatever the owner", "_change", _whatever_the_owner("RELEASED")),
    ("a withdrawal deletes the row", "withdraw", _deleting),
    ("no hash of the payload", "claim", _without_payload),
    ("a payload is compared with a claim", "claim", _compared_while_claimed),
    ("a row keeps the payload of its first message", "claim", _with_the_payload_of_the_first),
    ("a lease that never ends", "claim", _with_lease(1e10)),
    ("a lease that has ended at once", "claim", _with_lease(0)),
    ("one token for all", "claim", _with_one_owner),
    ("a try that is not counted", "claim", _uncounted),
):
    BUGS[_name] = partial(patch.object, DynamoDBClaims, _method, _wrong)
