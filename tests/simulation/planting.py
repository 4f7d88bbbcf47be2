"""Bugs by name, each a context in which the production code has it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

Planted = Callable[[], contextlib.AbstractContextManager[Any]]


class Bugs(dict[str, Planted]):
    """The bugs of one simulator."""

    def plant(self, name: str) -> Callable[[Callable[[], Iterator[None]]], None]:
        """Make the generator below it the bug of this name."""

        def register(plant: Callable[[], Iterator[None]]) -> None:
            self[name] = contextlib.contextmanager(plant)

        return register


def replaced(owner: Any, name: str, make: Callable[[Any], Any]) -> Any:
    """`owner.name` replaced by what `make` makes of the original."""
    return patch.object(owner, name, make(getattr(owner, name)))
