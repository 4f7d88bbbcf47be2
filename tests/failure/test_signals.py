"""What a handler may say of a message."""

from __future__ import annotations

import pytest

from deadletter.failure.failure import Category
from deadletter.failure.signals import Permanent, Skip, Transient


def test_a_permanent_failure_is_the_businesss_unless_it_says_otherwise() -> None:
    assert Permanent("too late").category is Category.BUSINESS
    found = Permanent("no such field", category=Category.SCHEMA, status=422)
    assert (str(found), found.category, found.status) == ("no such field", Category.SCHEMA, 422)


@pytest.mark.parametrize("category", [Category.TRANSIENT, Category.INTEGRATION])
def test_what_waiting_or_a_repair_cures_is_not_permanent(category: Category) -> None:
    with pytest.raises(ValueError, match=f"business or schema, not {category}"):
        Permanent(category=category)


def test_a_verdict_needs_no_words() -> None:
    assert [str(one) for one in (Permanent(), Transient(), Skip())] == ["", "", ""]
    assert (Transient().status, Transient().retry_after) == (None, None)
