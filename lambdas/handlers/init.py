"""What a function makes while Lambda starts it, before its first event."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from deadletter.aws.wiring import world as wiring
from handlers.runtime import world

if TYPE_CHECKING:
    from deadletter.aws.wiring.world import Whereabouts


def in_init(make: Callable[[], object]) -> None:
    """Make what the first event needs; its settings are in the environment by then.

    Anywhere else than in Lambda it is made at the first event: a test that imports a handler has
    neither region nor settings.
    """
    if "AWS_LAMBDA_INITIALIZATION_TYPE" in os.environ:
        make()


@cache
def whereabouts() -> Whereabouts | None:
    """Where this function runs; None unless its environment is as Lambda sets it."""
    return wiring.whereabouts(os.environ, world().clock)
