"""Bugs by name, each a context in which the production code has it."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from deadletter.aws.table import Condition, Joined
from deadletter.redrive.journal import OpenIntents

Planted = Callable[[], contextlib.AbstractContextManager[Any]]


class Bugs(dict[str, Planted]):
    """The bugs of one simulator."""

    def plant(self, name: str) -> Callable[[Callable[[], Iterator[None]]], None]:
        """Make the generator below it the bug of this name."""

        def register(plant: Callable[[], Iterator[None]]) -> None:
            self[name] = contextlib.contextmanager(plant)

        return register


def replaced(owner: Any, name: str, make: Callable[[Any], Any]) -> Any:
    """`owner.name` replaced by what `make` makes of the original.

    Raises TypeError if the replacement does not take the original's arguments: each call of it
    would fail, and the bug be caught for that.
    """
    original = getattr(owner, name)
    replacement = make(original)
    names, takes = _parameters(original), _parameters(replacement)
    by_keyword = set(_by_keyword(original)) - set(_by_keyword(replacement))
    fits = len(takes) >= len(names) or any(each.startswith("*") for each in takes)
    takes_keywords = not by_keyword or any(each.startswith("**") for each in takes)
    if not fits or not (takes_keywords or takes == ["*"]):
        raise TypeError(f"{name} takes {names}, and the planted one takes {takes}")
    return patch.object(owner, name, replacement)


def on_record(**fields: Any) -> Any:
    """What intents say of each letter replaced in some fields."""

    def make(original: Any) -> Any:
        return lambda self, copy: replace(original(self, copy), **fields)

    return replaced(OpenIntents, "record_of", make)


def rewritten(
    condition: Condition, change: Callable[[Condition], Condition | None]
) -> Condition | None:
    """A condition, of which each part is changed, the innermost first; None leaves a part out."""
    if isinstance(condition, Joined):
        parts = [new for part in condition.parts if (new := rewritten(part, change)) is not None]
        condition = parts[0] if len(parts) == 1 else Joined(condition.word, tuple(parts))
    return change(condition)


def _parameters(function: Any) -> list[str]:
    """The names of a function's parameters, as they are written."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ["*"]
    return [str(each).partition(":")[0].partition("=")[0] for each in parameters]


def _by_keyword(function: Any) -> list[str]:
    """The parameters that a function takes by keyword alone."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY]
