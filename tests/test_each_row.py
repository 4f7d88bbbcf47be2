"""A table that is one case runs every row, and says which fail."""

from __future__ import annotations

from typing import Any

import pytest

from tests.each_row import each_row


def errors_of(test: Any, *args: Any, **fixtures: Any) -> list[tuple[str, ...]]:
    """The notes of the rows that fail."""
    with pytest.raises(ExceptionGroup) as caught:
        test(*args, **fixtures)
    return [tuple(error.__notes__) for error in caught.value.exceptions]


def test_each_row_runs_and_each_that_fails_is_named() -> None:
    seen = []

    @each_row("number, text", [(1, "a"), (2, "b"), pytest.param(3, "c", id="the third"), (4, "a")])
    def test(number: int, text: str) -> None:
        seen.append(number)
        assert text == "a"

    assert errors_of(test) == [("Row: 2, 'b'",), ("Row: the third",)]
    assert seen == [1, 2, 3, 4]


def test_a_row_may_be_one_value_and_be_named_by_a_function() -> None:
    @each_row("pair", [(1, 1), (1, 2)], ids=str)
    def test(pair: tuple[int, int]) -> None:
        assert pair[0] == pair[1]

    assert errors_of(test) == [("Row: (1, 2)",)]


def test_what_pytest_raises_itself_fails_a_row_too() -> None:
    @each_row("number", [1, 2], ids=["one", "two"])
    def test(number: int) -> None:
        with pytest.raises(ZeroDivisionError):
            1 / (number - 1)

    assert errors_of(test) == [("Row: two",)]


@each_row("number", [1, 2])
def test_fixtures_are_what_is_no_name_of_a_row(number: int, tmp_path: Any) -> None:
    assert number in (1, 2)
    assert tmp_path.is_dir()


def test_two_tables_are_all_their_pairs() -> None:
    seen = []

    @each_row("a", [1, 2])
    @each_row("b", [3, 4])
    def test(a: int, b: int) -> None:
        seen.append((a, b))

    test()
    assert seen == [(1, 3), (1, 4), (2, 3), (2, 4)]


def test_a_row_cannot_be_skipped() -> None:
    @each_row("number", [1, 2])
    def test(number: int) -> None:
        pytest.skip("no")

    with pytest.raises(RuntimeError, match="a row cannot be skipped: 1"):
        test()


def test_a_table_without_rows_or_with_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="without rows"):
        each_row("number", [])
    with pytest.raises(ValueError, match="no marks"):
        each_row("number", [pytest.param(1, marks=pytest.mark.nightly)])
    with pytest.raises(ValueError, match="zip"):
        each_row("a, b", [(1,)])
