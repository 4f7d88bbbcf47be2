"""docs/compare.md says what the two systems do now."""

from __future__ import annotations

import pytest

from tests.compare.cases import CASES, ORDER
from tests.compare.page import PAGE, rendered
from tests.compare.systems import Deadletter, Powertools, System


def test_the_page_has_the_outcomes_of_all_cases() -> None:
    page = PAGE.read_text()
    assert rendered(page) == page, "python -m tests.compare writes the page"


def test_every_case_has_a_remark_and_a_name_of_its_own() -> None:
    assert all(case.remark.endswith(".") for case in CASES)
    assert len({case.title for case in CASES}) == len(CASES)


@pytest.mark.parametrize("system", [Powertools, Deadletter])
def test_both_systems_process_a_message_that_nothing_befalls(system: type[System]) -> None:
    shop = system()
    shop.send(ORDER)
    shop.run()
    assert (shop.effects, shop.end) == (["7"], "all acknowledged")


@pytest.mark.parametrize("system", [Powertools, Deadletter])
def test_a_failed_message_comes_back_and_dies_after_five_receives(system: type[System]) -> None:
    receives = []

    def fail(order: object) -> None:
        receives.append(order)
        raise ValueError("never")

    shop = system()
    shop.work = fail
    shop.send(ORDER)
    shop.settle(rounds=40)
    assert (len(receives), shop.end) == (5, "in the DLQ")
