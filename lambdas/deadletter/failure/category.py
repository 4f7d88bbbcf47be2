"""What a failure is: who can cure it, and what it speaks of."""

from __future__ import annotations

from enum import StrEnum

from deadletter.contract import Category as Category


class Blame(StrEnum):
    """What a failure speaks of: the dependency, its configuration, or neither of them.

    CONFIGURATION is a missing permission, an invalid key or an endpoint that does not exist: a
    person has to repair it, and until then every message fails. NEITHER is the message, the
    code, the machine, or unknown.
    """

    DEPENDENCY = "dependency"
    CONFIGURATION = "configuration"
    NEITHER = "neither"


COLLIDED = "collision"
"""The fingerprint of a letter that was not processed because its idempotency key belongs to
another message; of no exception."""

PERMANENT = frozenset({Category.SCHEMA, Category.BUSINESS})
"""Categories that further attempts cannot cure."""
