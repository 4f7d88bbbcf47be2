"""Adapters that are made, and whose modules are loaded, at their first use."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar, cast

T = TypeVar("T")


def lazily(make: Callable[[], T]) -> T:
    """What `make` returns, made once, when its first attribute is used.

    A team's function pays for what it loads at each cold start: for an adapter that most
    processes never use, it need not.
    """
    return cast(T, _Lazy(make))


class _Lazy:
    """Stands for an object that is not made yet."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._lock = Lock()
        self._made: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        with self._lock:
            if not self._made:
                self._made.append(self._make())
        return getattr(self._made[0], name)
