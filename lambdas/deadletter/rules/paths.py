"""Paths of the settings: JMESPath expressions over a letter's document."""

from __future__ import annotations

from typing import Any

import jmespath
from jmespath import functions
from jmespath.exceptions import JMESPathError
from jmespath.parser import ParsedResult

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


_OPTIONS = jmespath.Options(custom_functions=_Functions())


def compiled(setting: str, path: str) -> ParsedResult:
    """The compiled expression of a setting; raises BadSettings if it is invalid."""
    try:
        return jmespath.compile(path)
    except JMESPathError as error:
        raise BadSettings(f"{setting}: {path!r} is not a JMESPath expression") from error


def value_at(path: ParsedResult, document: Any) -> Any:
    """What the expression finds in a document; None if it finds nothing or fails.

    A message may hold any JSON, which the functions of JMESPath may refuse: an expression that
    fails on one message must not fail its batch.
    """
    try:
        return path.search(document, options=_OPTIONS)
    except (JMESPathError, TypeError, ValueError, ArithmeticError, RecursionError):
        return None
