"""JSON bodies of untrusted senders."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.message.strict_json import ExactFloat, Unreadable, read_json
from tests.each_row import each_row


@each_row(
    ("text", "why"),
    [
        ("", "not JSON at line 1 column 1"),
        ("hello", "not JSON at line 1 column 1"),
        ('{"a":\n  1;}', "not JSON at line 2 column 4"),
        ("{'a': 1}", "not JSON at line 1 column 2"),
        ('{"a": 1} {"b": 2}', "not JSON at line 1 column 10"),
        ("\ufeff{}", "not JSON at line 1 column 1"),
        ('"\t"', "not JSON at line 1 column 2"),
        ("NaN", "NaN is not JSON"),
        ("[Infinity]", "Infinity is not JSON"),
        ('{"a": -Infinity}', "-Infinity is not JSON"),
        ("1e999", "a number too large to read"),
        ("[-1e999]", "a number too large to read"),
        ("9" * 5_000, "a number too long to read"),
        ('{"tenantId": "a", "tenantId": "b"}', "a key appears twice in one object"),
        ('[{"x": {"a": 1, "\\u0061": 2}}]', "a key appears twice in one object"),
        ("[" * 100_000, "nested too deep"),
        ('{"a":' * 100_000, "nested too deep"),
        ("[" * 100_000 + "]" * 100_000, "nested too deep"),
        ('"\\ud800"', "half of a surrogate pair"),
        ('{"\\udfff": 1}', "half of a surrogate pair"),
        ('["\\udc00\\ud800"]', "half of a surrogate pair"),
    ],
)
def test_an_ambiguous_or_invalid_body_is_unreadable(text: str, why: str) -> None:
    with pytest.raises(Unreadable) as refused:
        read_json(text)
    assert str(refused.value) == why


@each_row(
    ("text", "value"),
    [
        ("null", None),
        ("false", False),
        ("0", 0),
        ("-0.0", 0.0),
        ("1e-999", 0.0),
        ("12345678901234567890", 12345678901234567890),
        ('"\\ud83d\\ude00"', "😀"),
        ('"😀\\u0000"', "😀\0"),
        (" [1, [2]] ", [1, [2]]),
        ('{"a": {"a": 1}}', {"a": {"a": 1}}),
    ],
)
def test_a_body_need_not_be_an_object(text: str, value: Any) -> None:
    assert read_json(text) == value


def test_a_number_knows_its_digits_only_where_that_is_asked_for() -> None:
    """An amount of 1.10 is edited as 1.10; JSON writers do not know the type that says so."""
    amount = read_json("1.10", exact=True)
    assert isinstance(amount, ExactFloat)
    assert (amount, amount.text) == (1.1, "1.10")
    assert type(read_json("1.10")) is float


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(10**400), 10**400)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=10),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=15,
    ),
    st.booleans(),
)
def test_written_json_is_read_back_unchanged(value: Any, ascii_only: bool) -> None:
    assert read_json(json.dumps(value, ensure_ascii=ascii_only)) == value


@given(
    st.text()
    | st.text(alphabet='{}[]":,\\u018dDeE+-.naNfIity \n', max_size=40)
    | st.integers(0, 3_000).map(lambda depth: '{"a":[' * depth)
)
def test_reading_a_text_raises_only_unreadable(text: str) -> None:
    try:
        value = read_json(text)
    except Unreadable:
        return
    json.dumps(value, allow_nan=False, ensure_ascii=False).encode()


def test_the_reason_never_quotes_the_body() -> None:
    secret = "hunter2"
    for text in (f"{secret}", f'{{"{secret}": 1, "{secret}": 2}}', f'["{secret}", \\ud800'):
        with pytest.raises(Unreadable) as refused:
            read_json(text)
        assert secret not in str(refused.value)


@pytest.mark.parametrize("inner", ['""', '"\\u0041"'], ids=["plain", "escaped"])
def test_no_depth_of_nesting_raises_anything_else(inner: str) -> None:
    """Reading and checking reach Python's limit at different depths."""
    limit = sys.getrecursionlimit()
    for depth in range(limit - 200, limit + 10):
        try:
            read_json("[" * depth + inner + "]" * depth)
        except Unreadable as error:
            assert str(error) == "nested too deep"  # noqa: PT017 - most depths are readable


def test_half_of_a_surrogate_pair_is_refused_at_every_depth() -> None:
    limit = sys.getrecursionlimit()
    for depth in range(limit - 200, limit + 10):
        with pytest.raises(Unreadable):
            read_json("[" * depth + '"\\ud800"' + "]" * depth)
