"""A table that is one case: every row is run, and each that fails is named."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from reprlib import Repr
from typing import Any

import pytest

# Characters of a value in the name of its row.
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 80

# What `pytest.param` makes.
_PARAM = type(pytest.param())

Test = Callable[..., None]


def each_row(
    names: str | Sequence[str],
    rows: Iterable[Any],
    ids: Callable[[Any], str | None] | Iterable[str] | None = None,
) -> Callable[[Test], Test]:
    """Like `pytest.mark.parametrize`, but one case; its rows share the test's fixtures.

    For tests of plain values: a case of its own costs more than what such a row asserts. Raises
    ExceptionGroup with the error of each row that fails.
    """
    words = names.replace(",", " ").split() if isinstance(names, str) else list(names)
    table = _table(words, list(rows), ids if ids is None or callable(ids) else list(ids))

    def decorate(test: Test) -> Test:
        @wraps(test)
        def one_case(*args: Any, **fixtures: Any) -> None:
            failed = []
            for name, values in table:
                try:
                    test(*args, **fixtures, **values)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"Row: {name}")
                    # Of what pytest raises itself, a group takes none.
                    failed.append(error if isinstance(error, Exception) else _failure(error))
                except pytest.skip.Exception as skip:
                    # The rows after it would not be run.
                    raise RuntimeError(f"a row cannot be skipped: {name}") from skip
            if failed:
                raise ExceptionGroup(f"{len(failed)} of {len(table)} rows fail", failed)

        signature = inspect.signature(test)
        kept = [each for name, each in signature.parameters.items() if name not in words]
        one_case.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return one_case

    return decorate


def _failure(error: BaseException) -> AssertionError:
    """The same as an error of its own, which begins where the test failed."""
    failure = AssertionError(str(error)).with_traceback(error.__traceback__)
    for note in getattr(error, "__notes__", ()):
        failure.add_note(note)
    return failure


def _table(
    words: Sequence[str],
    rows: Sequence[Any],
    ids: Callable[[Any], str | None] | Sequence[str] | None,
) -> Sequence[tuple[str, Mapping[str, Any]]]:
    """The name of each row, and what it gives to the test."""
    if not rows:
        raise ValueError("a table without rows proves nothing")
    table = []
    for number, row in enumerate(rows):
        values, name = row if len(words) > 1 else (row,), None
        if isinstance(row, _PARAM):
            values, name = row.values, row.id if isinstance(row.id, str) else None
            if row.marks:
                raise ValueError(f"a row has no marks of its own: {values}")
        if name is None and ids is not None:
            name = (
                "-".join(ids(value) or _SHORT.repr(value) for value in values)
                if callable(ids)
                else ids[number]
            )
        name = name or ", ".join(map(_SHORT.repr, values))
        table.append((name, dict(zip(words, values, strict=True))))
    return table
