"""The exceptions by which a handler judges a message."""

from __future__ import annotations

import pytest

from deadletter.failure.failure import Category
from deadletter.failure.signals import Permanent, Skip, Transient


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
