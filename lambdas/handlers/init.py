"""What a function makes while Lambda starts it, before its first event."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from deadletter.aws.wiring.world import why_boto3

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

T = TypeVar("T")


@cache
def by_boto3() -> str:
    """Why boto3 makes all calls of this function; empty if it need not."""
    return why_boto3(os.environ)


def prepared(make: Callable[[], T]) -> _lru_cache_wrapper[T]:
    """Makes something once: while Lambda starts the function, or else at the first event."""
    made = cache(make)
    in_init(made)
    return made


def in_init(make: Callable[[], object]) -> None:
    """Make what the first event needs; its settings are in the environment by then.

    Anywhere else than in Lambda it is made at the first event: a test that imports a handler has
    neither region nor settings.
    """
    if "AWS_LAMBDA_INITIALIZATION_TYPE" not in os.environ:
        return
    # All of it stays: to search it for garbage took a fifth of a cold start.
    gc.disable()
    try:
        make()
    finally:
        gc.enable()
