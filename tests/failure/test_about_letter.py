"""What the ledger keeps of a message's content."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.contract import LedgerKeeps
from deadletter.failure.cause_index import LARGEST_CONTEXT, about_letter, hashed
from deadletter.failure.ledger import AboutLetter

CONTEXT = {"tenantId": "t-1", "priority": 3, "urgent": True}


def kept(
    context: dict[str, Any], how: LedgerKeeps = LedgerKeeps.PLAIN, endpoint: str = ""
) -> AboutLetter:
    return about_letter(context, endpoint, 12, how, "orders")


def test_a_value_has_all_the_room_that_is_left() -> None:
    assert len(kept({"a": "x" * 300}).context["a"].encode()) == 255


def test_values_are_kept_as_texts() -> None:
    about = kept(CONTEXT, endpoint="t-1/default")
    assert about.context == {"tenantId": "t-1", "priority": "3", "urgent": "true"}
    assert (about.endpoint, about.size) == ("t-1/default", 12)


def test_hashed_values_still_tell_equal_ones_from_others_and_not_across_pipelines() -> None:
    about = kept(CONTEXT, LedgerKeeps.HASHED, "t-1")
    assert about.context["tenantId"] == about.endpoint == hashed("t-1", "orders")
    assert about.context["tenantId"].startswith("hash:")
    assert len(about.context["tenantId"]) == len("hash:") + 12
    assert len({hashed("t-1", "orders"), hashed("t-2", "orders"), hashed("t-1", "bills")}) == 3
    assert "t-1" not in str(about)


def test_a_pipeline_with_a_long_name_can_hash_too() -> None:
    assert hashed("t-1", "n" * 200).startswith("hash:")


def test_nothing_of_the_content_is_kept_if_the_settings_say_so() -> None:
    assert kept(CONTEXT, LedgerKeeps.NONE, "t-1/default") == AboutLetter(size=12)


def test_the_largest_values_are_cut_first() -> None:
    about = kept({"a": "short", "b": "b" * 5_000, "c": "c" * 90})
    assert about.context["a"] == "short"
    assert about.context["c"] == "c" * 90
    assert about.context["b"].endswith("b…")


def test_names_that_leave_no_room_for_a_value_leave_no_context() -> None:
    assert kept({f"{n}" * 150: "value" for n in (1, 2)}).context == {}


@pytest.mark.parametrize("how", LedgerKeeps)
@given(
    context=st.dictionaries(
        st.text(max_size=40),
        st.text() | st.integers() | st.booleans() | st.floats() | st.just("\ud800"),
    )
)
def test_any_context_is_small_and_can_be_stored(how: LedgerKeeps, context: dict[str, Any]) -> None:
    texts = [text for pair in kept(context, how).context.items() for text in pair]
    assert sum(len(text.encode()) for text in texts) <= LARGEST_CONTEXT
