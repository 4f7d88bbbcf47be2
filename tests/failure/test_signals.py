"""The exceptions by which a handler judges a message."""

from __future__ import annotations

import inspect

import pytest

from deadletter.contract import Category
from deadletter.failure.signals import (
    OutOfTime,
    Permanent,
    Skip,
    Transient,
    reject_deferred_result,
)


def test_a_permanent_failure_is_business_by_default() -> None:
    assert Permanent("too late").category is Category.BUSINESS
    error = Permanent("no such field", category=Category.SCHEMA, status=422)
    assert (str(error), error.category, error.status) == ("no such field", Category.SCHEMA, 422)


@pytest.mark.parametrize("category", [Category.TRANSIENT, Category.INTEGRATION])
def test_a_curable_category_is_not_permanent(category: Category) -> None:
    with pytest.raises(ValueError, match=f"business or schema, not {category}"):
        Permanent(category=category)


def test_a_verdict_needs_no_text() -> None:
    assert [str(error) for error in (Permanent(), Transient(), Skip())] == ["", "", ""]
    assert (Transient().status, Transient().retry_after) == (None, None)


def test_the_text_of_a_verdict_may_be_named() -> None:
    verdicts = (Permanent(why="gone"), Transient(why="busy"), Skip(why="known"))
    assert [str(error) for error in verdicts] == ["gone", "busy", "known"]


def test_a_handler_that_is_out_of_time_says_so() -> None:
    error = OutOfTime(ended=True)
    assert (str(error), error.ended) == (
        "the handler was cancelled because the function was about to end",
        True,
    )


def test_a_coroutine_is_refused_and_closed() -> None:
    async def later() -> None:
        """Never runs."""

    result = later()
    with pytest.raises(TypeError, match="plain function"):
        reject_deferred_result(result)
    assert inspect.getcoroutinestate(result) == inspect.CORO_CLOSED


def test_an_awaitable_that_cannot_be_closed_is_refused_too() -> None:
    class Later:
        def __await__(self) -> None:
            """Never runs."""

    with pytest.raises(TypeError, match="plain function"):
        reject_deferred_result(Later())
