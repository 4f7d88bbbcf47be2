"""The witness's account of duplicates: each has a count of its own, made before its send began."""

from __future__ import annotations

import pytest

from tests.simulation.scheduler import Process


def paid(counted_before: list[int]) -> list[bool]:
    """Of sends that come true in this order, which are paid; each began after so many counts."""
    process = Process("redriver 1", published=max(counted_before))
    paid = []
    for counted in counted_before:
        paid.append(process.can_pay(counted))
        if paid[-1]:
            process.pay(counted)
    return paid


@pytest.mark.parametrize("order", [[1, 2], [2, 1], [1, 3, 2], [3, 1, 2]])
def test_sends_side_by_side_are_each_paid_whatever_order_they_end_in(order: list[int]) -> None:
    assert paid(order) == [True] * len(order)


@pytest.mark.parametrize("order", [[0], [1, 1], [2, 1, 1], [1, 2, 2], [3, 3, 3, 3]])
def test_a_send_without_a_count_from_before_it_is_not_paid(order: list[int]) -> None:
    assert paid(order)[-1] is False
    assert all(paid(order)[:-1])


def test_a_count_of_the_other_process_that_may_have_made_it_is_taken_over() -> None:
    this, other = Process("redriver 1", published=1), Process("redriver 2", published=1)
    assert this.can_pay(1)
    this.pay(1)
    this.paid_beside.append(other)
    assert this.can_pay(1)
    this.pay(1)
    assert not this.can_pay(1)
    assert other.used == 1
