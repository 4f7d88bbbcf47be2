"""The list of letters that a person has counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.replay import counted
from deadletter.replay.counted import CountedOrigins, packed

_origins = st.lists(st.uuids().map(str) | st.text(max_size=5), max_size=40)


@given(_origins, _origins)
def test_what_was_counted_is_in_the_list_and_nothing_else(
    some: list[str], others: list[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counted, "MOST_IN_A_ROW", 7)
        rows = packed(some)
    listed = CountedOrigins(rows)
    assert len(listed) == len(set(some))
    assert all(origin in listed for origin in some)
    assert not any(origin in listed for origin in set(others) - set(some))


def test_a_row_fits_into_an_item() -> None:
    [row, rest] = packed(map(str, range(counted.MOST_IN_A_ROW + 1)))
    assert (len(row), len(rest)) == (320_000, 16)


def test_nothing_counted_is_nothing_allowed() -> None:
    assert packed([]) == []
    assert "a" not in CountedOrigins([])
    assert "a" not in CountedOrigins([b""])


def test_a_row_that_is_cut_off_is_refused() -> None:
    with pytest.raises(ValueError, match="cut off"):
        CountedOrigins([b"x" * 17])
