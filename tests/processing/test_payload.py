"""When two payloads are one, and what is said of those that differ."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.contract import EVERYTHING
from deadletter.message.letter import Attribute
from deadletter.message.strict_json import read_json
from deadletter.message.wrappers import MOST_WRAPPERS, SERVICES
from deadletter.processing.payload import BEYOND, GROUPING, MOST_PATHS, Content, content_of, listed
from tests.each_row import each_row
from tests.speed import is_quick

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


def content(body: Any, setting: str = EVERYTHING, **attributes: Attribute) -> Content:
    return content_of(setting, {"body": body}, attributes)


def written(text: str) -> Content:
    return content(read_json(text, exact=True))


def differences(first: Any, second: Any) -> tuple[str, ...] | None:
    return content(second).differences(content(first).stored())


@given(documents)
def test_a_payload_is_equal_to_itself_and_fits_into_a_row(body: Any) -> None:
    assert differences(body, body) == ()
    assert len(content(body).stored()) <= 600


@given(documents, documents)
def test_payloads_that_differ_are_never_one(first: Any, second: Any) -> None:
    one, two = (json.dumps(body, sort_keys=True) for body in (first, second))
    if written(one).core == written(two).core:
        # 1 and 1.0 are one number.
        assert first == second
    else:
        assert one != two
        assert written(two).differences(written(one).stored())


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ('{"a": 1, "b": 2}', '{"b":2,\n"a":1}'),
        ("[1, 10, 0.5, 100]", "[1.0, 1e1, 5e-1, 1E+2]"),
        ("0", "-0.00"),
        ('"\\u00e9"', '"é"'),
    ],
)
def test_how_json_is_written_makes_no_difference(one: str, two: str) -> None:
    assert written(one).core == written(two).core


@each_row(
    ("one", "two"),
    [
        ("0.1", "0.10000000000000000001"),
        ("9007199254740993", "9007199254740992.0"),
        ("1", '"1"'),
        ("1", "true"),
        ("null", '"None"'),
        ("{}", "[]"),
        ("[]", "null"),
        ('{"a": null}', "{}"),
        ("[[1], 2]", "[1, [2]]"),
        ("[1, 2]", "[2, 1]"),
        ("1e-999", "1e-998"),
        ("1" + "0" * 400, "1" + "0" * 401),
    ],
)
def test_every_digit_and_every_kind_of_value_makes_one(one: str, two: str) -> None:
    assert written(one).core != written(two).core


def test_differing_paths_are_named_without_their_values() -> None:
    first = {"id": 7, "lines": [{"price": 1}, {"price": 2}], "to": {"city": "Berlin"}}
    second = {"id": 7, "lines": [{"price": 1}, {"price": 3}], "to": {"city": "Bern"}, "new": 1}
    assert differences(first, second) == ("body.lines[].price", "body.new", "body.to.city")
    assert differences(second, first) == (
        *("body.lines[].price", "body.to.city"),
        "1 more that only the first message has",
    )
    assert differences([[1], [2]], [[1, 2]]) == (GROUPING,)


@each_row("key", ["anna@example.com", "Anna Schmidt", "4711", "", "9f8e7d6c5b4a", "a" * 41, "ключ"])
def test_a_key_that_may_be_data_is_hidden(key: str) -> None:
    assert differences({key: 1}, {key: 2}) == ("body.…",)


@each_row("key", ["orderId", "line_1", "sha256", "x-request-id", "_private"])
def test_the_name_of_a_field_is_shown(key: str) -> None:
    assert differences({key: 1}, {key: 2}) == (f"body.{key}",)


def test_attributes_are_part_of_what_is_compared() -> None:
    first = content({}, a=Attribute("String", "1"), b=Attribute("Binary", b"2"))
    for changed in (
        content({}, a=Attribute("String", "2"), b=Attribute("Binary", b"2")),
        content({}, a=Attribute("Number", "1"), b=Attribute("Binary", b"2")),
        content({}, a=Attribute("String", "1")),
    ):
        assert changed.differences(first.stored())


def test_a_wrapper_is_compared_only_with_another_of_its_service() -> None:
    def wrapped(service: str, kind: str) -> Content:
        return content_of(EVERYTHING, {"body": 1}, {}, [(service, {"kind": kind})])

    raw, placed = content(1), wrapped("EventBridge", "placed")
    assert raw.differences(placed.stored()) == placed.differences(raw.stored()) == ()
    assert wrapped("SNS", "x").differences(placed.stored()) == ()
    cancelled = wrapped("EventBridge", "cancelled")
    assert cancelled.differences(placed.stored()) == ("the facts of EventBridge",)
    assert len({raw.identity, placed.identity, cancelled.identity}) == 3


def test_three_wrappers_of_any_services_fit_into_a_row() -> None:
    body = {f"field{'abcdefghij'[n % 10]}{n}": n for n in range(500)}
    for services in combinations(SERVICES, MOST_WRAPPERS):
        facts = [(service, {"kind": service}) for service in services]
        one = content_of(EVERYTHING, {"body": body}, {}, facts)
        assert len(one.stored()) <= 600
        assert one.differences(one.stored()) == ()
        for changed in services:
            others = [(name, {"kind": "x"} if name == changed else kind) for name, kind in facts]
            other = content_of(EVERYTHING, {"body": body}, {}, others)
            assert other.differences(one.stored()) == (f"the facts of {changed}",)


def test_what_another_setting_or_another_release_stored_is_not_compared() -> None:
    assert content(1).differences(content(1, "body.a").stored()) is None
    for strange in (b"", b"x" * 200, b"\x01" + content(1).stored()[1:]):
        assert content(1).differences(strange) is None


def test_of_many_paths_the_first_are_named_and_the_others_count_all_the_same() -> None:
    body = {f"field{'abcdefghijklmnopqrstuvwxyz'[n % 26]}_{n:03}": n for n in range(300)}
    last = max(body)
    assert differences(body, {**body, last: "changed"}) == (BEYOND,)
    assert len(content(body).paths) <= MOST_PATHS
    assert listed(["b", "a", "b", "c", "d", "e", "f", "g"]) == "b, a, c, d, e and 2 more"


@pytest.mark.parametrize("depth", [100, 900])
def test_a_body_of_any_shape_is_read_in_little_time(depth: int) -> None:
    texts = [
        "[" * depth + "1" + "]" * depth,
        '{"a":' * depth + "[" + ",".join(["1.5"] * 50_000) + "]" + "}" * depth,
        json.dumps({f"k{n}": [n, str(n)] for n in range(30_000)}),
    ]
    for text in texts:
        assert is_quick(lambda text=text: written(text), 2)
