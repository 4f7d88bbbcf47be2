"""Rows of the contract suite's tables: a plain sentence, what it is about, what AWS does."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

differs = pytest.mark.difference


def row(sentence: str, *values: Any, but: str = "") -> Any:
    """One row of a table; `but` names known differences, separated by spaces."""
    marks = [pytest.mark.difference(name) for name in but.split()]
    return pytest.param(*values, id=sentence, marks=marks)


def cases(table: list[Any]) -> list[Any]:
    """Cases that become rows, with values of any type."""
    return table


def error_of(call: Any, **arguments: Any) -> dict[str, Any]:
    """The whole answer of a call that is refused."""
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    return dict(caught.value.response)


def refusal(call: Any, **arguments: Any) -> str:
    """The error code that a call is refused with."""
    return str(error_of(call, **arguments)["Error"]["Code"])
