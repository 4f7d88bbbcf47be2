"""Paths of the settings: JMESPath expressions over a letter's document."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

import jmespath
from jmespath import functions
from jmespath.exceptions import JMESPathError

from deadletter.message.strict_json import Unreadable, read_json
from deadletter.settings.json_fields import BadSettings


class _Functions(functions.Functions):  # type: ignore[misc]  # JMESPath has no types
    """The functions of a path: those of JMESPath, and `json`, which opens JSON in a text."""

    @functions.signature({"types": []})  # type: ignore[untyped-decorator]  # the same
    def _func_json(self, text: Any) -> Any:
        """The value of JSON text; null for any other text and any other value."""
        if not isinstance(text, str):
            return None
        try:
            return read_json(text)
        except Unreadable:
            return None

    @functions.signature({"types": []})  # type: ignore[untyped-decorator]  # the same
    def _func_powertools_json(self, text: Any) -> Any:
        """`json` by the name that it has in Powertools."""
        return self._func_json(text)


# Names as JMESPath has them without quotes, with points between.
_ONLY_FIELDS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")

_OPTIONS = jmespath.Options(custom_functions=_Functions())


class Path(Protocol):
    """A compiled expression."""

    def search(self, value: Any, options: jmespath.Options | None = None) -> Any:
        """What the expression finds in a value; raises what JMESPath raises."""


class _Fields:
    """The expression `a.b.c`: most paths are no more, and JMESPath takes ten times as long."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def search(self, value: Any, options: jmespath.Options | None = None) -> Any:
        del options
        for name in self._names:
            # As in JMESPath, what is no object has no fields.
            if not isinstance(value, dict):
                return None
            value = value.get(name)
        return value


def compiled(setting: str, path: str) -> Path:
    """The compiled expression of a setting; raises BadSettings if it is invalid."""
    try:
        expression: Path = jmespath.compile(path)
    except JMESPathError as error:
        raise BadSettings(f"{setting}: {path!r} is not a JMESPath expression") from error
    return _Fields(path.split(".")) if _ONLY_FIELDS.fullmatch(path) else expression


def value_at(path: Path, document: Any) -> Any:
    """What the expression finds in a document; None if it finds nothing or fails.

    A message may hold any JSON, which the functions of JMESPath may refuse: an expression that
    fails on one message must not fail its batch.
    """
    try:
        return path.search(document, options=_OPTIONS)
    except (JMESPathError, TypeError, ValueError, ArithmeticError, RecursionError):
        return None
