"""The name of each line of a chart stands beside it, on a telephone too."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.demo.labels import Box, Line, place

HEIGHT = 0.08
WIDTHS = {"a": 0.3, "b": 0.4, "c": 0.25}

shares = st.floats(0, 1, allow_nan=False)


@st.composite
def lines(draw: st.DrawFn) -> dict[str, Line]:
    """Lines of the same looks, as a chart has them."""
    places = sorted({0.0, 1.0, *draw(st.lists(shares, max_size=8))})
    return {name: [(x, draw(shares)) for x in places] for name in WIDTHS}


@given(lines())
def test_no_name_covers_another_or_leaves_the_plot(drawn: dict[str, Line]) -> None:
    taken = Box(0.0, 0.0, 0.3, HEIGHT)
    boxes = place(drawn, WIDTHS, HEIGHT, [taken])
    assert boxes.keys() == drawn.keys()
    for box, other in combinations([taken, *boxes.values()], 2):
        assert not box.covers(other)
    for box in boxes.values():
        assert min(box.left, box.top) >= 0
        assert max(box.right, box.bottom) <= 1 + 1e-9


def test_a_name_stands_beside_its_own_line_and_no_line_crosses_it() -> None:
    flat = {name: [(0.0, y), (1.0, y)] for name, y in (("a", 0.1), ("b", 0.5), ("c", 0.9))}
    for name, box in place(flat, WIDTHS, HEIGHT, []).items():
        gaps = {other: box.gap_to(line[0][1]) for other, line in flat.items()}
        assert min(gaps, key=gaps.__getitem__) == name
        assert 0 < gaps[name] < 0.05


def test_a_name_stands_where_its_line_is_high_and_another_is_not() -> None:
    peak = [(0.0, 1.0), (0.3, 1.0), (0.5, 0.2), (0.7, 0.2), (0.9, 1.0), (1.0, 1.0)]
    floor = [(0.0, 1.0), (1.0, 1.0)]
    box = place({"a": peak, "b": floor}, WIDTHS, HEIGHT, [])["a"]
    assert box.bottom < 0.6


@pytest.mark.parametrize("above", [True, False])
def test_boxes_that_only_touch_do_not_cover_each_other(above: bool) -> None:
    box = Box(0.0, 0.5, 0.5, 0.1)
    other = Box(0.2, 0.4, 0.5, 0.1) if above else Box(0.5, 0.5, 0.5, 0.1)
    assert not box.covers(other)
    assert box.covers(Box(0.4, 0.45, 0.5, 0.1))
