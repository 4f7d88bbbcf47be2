"""An edit changes what it says, keeps all else as it was written, and refuses what it can't do."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.message import stamp as stamps
from deadletter.message.letter import MAX_BYTES, Attribute, Letter
from deadletter.message.strict_json import read_json
from deadletter.replay.edits import (
    EditRefused,
    checked_patch,
    edited,
    patched,
    to_text,
    typed_attribute,
)
from tests.each_row import each_row

BODY = '{"id": 7, "total": 1.10, "lines": [{"sku": "a"}, {"sku": "b"}], "a/b": {"m~n": null}}'


@each_row(
    ("step", "after"),
    [
        ({"op": "add", "path": "/currency", "value": "EUR"},
         '{"id":7,"total":1.10,"lines":[{"sku":"a"},{"sku":"b"}],"a/b":{"m~n":null},'
         '"currency":"EUR"}'),
        ({"op": "replace", "path": "/id", "value": 8},
         '{"id":8,"total":1.10,"lines":[{"sku":"a"},{"sku":"b"}],"a/b":{"m~n":null}}'),
        ({"op": "remove", "path": "/lines/0"},
         '{"id":7,"total":1.10,"lines":[{"sku":"b"}],"a/b":{"m~n":null}}'),
        ({"op": "remove", "path": "/lines/1"},
         '{"id":7,"total":1.10,"lines":[{"sku":"a"}],"a/b":{"m~n":null}}'),
        ({"op": "add", "path": "/lines/1", "value": 1},
         '{"id":7,"total":1.10,"lines":[{"sku":"a"},1,{"sku":"b"}],"a/b":{"m~n":null}}'),
        ({"op": "add", "path": "/lines/-", "value": 1},
         '{"id":7,"total":1.10,"lines":[{"sku":"a"},{"sku":"b"},1],"a/b":{"m~n":null}}'),
        ({"op": "add", "path": "/lines/1/sku", "value": "c"},
         '{"id":7,"total":1.10,"lines":[{"sku":"a"},{"sku":"c"}],"a/b":{"m~n":null}}'),
        ({"op": "replace", "path": "/lines/0", "value": 1},
         '{"id":7,"total":1.10,"lines":[1,{"sku":"b"}],"a/b":{"m~n":null}}'),
        ({"op": "move", "from": "/id", "path": "/number"},
         '{"total":1.10,"lines":[{"sku":"a"},{"sku":"b"}],"a/b":{"m~n":null},"number":7}'),
        ({"op": "copy", "from": "/lines/0/sku", "path": "/first"},
         '{"id":7,"total":1.10,"lines":[{"sku":"a"},{"sku":"b"}],"a/b":{"m~n":null},"first":"a"}'),
        ({"op": "replace", "path": "/a~1b/m~0n", "value": True},
         '{"id":7,"total":1.10,"lines":[{"sku":"a"},{"sku":"b"}],"a/b":{"m~n":true}}'),
        ({"op": "test", "path": "/lines/0", "value": {"sku": "a"}},
         '{"id":7,"total":1.10,"lines":[{"sku":"a"},{"sku":"b"}],"a/b":{"m~n":null}}'),
        ({"op": "replace", "path": "", "value": [1]}, "[1]"),
    ],
)  # fmt: skip
def test_a_patch_changes_what_it_says_and_keeps_digits_and_order(step: Any, after: str) -> None:
    assert patched(BODY, checked_patch([step])) == after


@each_row(
    ("step", "why"),
    [
        ({"op": "remove", "path": "/nope"}, r"operation 1 \(remove\): its path is not there"),
        ({"op": "replace", "path": "/nope", "value": 1}, "its path is not there"),
        ({"op": "add", "path": "/nope/x", "value": 1}, "its path is not there"),
        ({"op": "add", "path": "/lines/3", "value": 1}, "its path is not there"),
        ({"op": "add", "path": "/lines/01", "value": 1}, "its path is not there"),
        ({"op": "add", "path": "/lines/first", "value": 1}, "its path is not there"),
        ({"op": "add", "path": "/lines/\u00b2", "value": 1}, "its path is not there"),
        ({"op": "add", "path": "/id/x", "value": 1}, "its path is not there"),
        ({"op": "test", "path": "/id", "value": 8}, "the value there is another"),
        ({"op": "test", "path": "/id", "value": True}, "the value there is another"),
        ({"op": "test", "path": "/lines", "value": [{"sku": "a"}]}, "the value there is another"),
        ({"op": "test", "path": "/lines/0", "value": {}}, "the value there is another"),
        ({"op": "test", "path": "/lines/0", "value": 7}, "the value there is another"),
        ({"op": "test", "path": "/lines/0", "value": [1]}, "the value there is another"),
        ({"op": "test", "path": "/lines", "value": 7}, "the value there is another"),
        ({"op": "test", "path": "/id", "value": [7]}, "the value there is another"),
        ({"op": "copy", "from": "/id/x", "path": "/y"}, "its path is not there"),
        ({"op": "replace", "path": "/lines/2", "value": 1}, "its path is not there"),
        ({"op": "remove", "path": "/lines/2"}, "its path is not there"),
        ({"op": "remove", "path": "/id/x"}, "its path is not there"),
        ({"op": "add", "path": "/lines/-1", "value": 1}, "its path is not there"),
        ({"op": "move", "from": "/nope", "path": "/x"}, "its path is not there"),
        (
            {"op": "test", "path": "/lines", "value": [{"sku": "a"}, {"sku": "c"}]},
            "the value there is another",
        ),
        ({"op": "move", "from": "/a~1b", "path": "/a~1b/x"}, "can't move into itself"),
    ],
)
def test_a_patch_that_does_not_fit_is_refused(step: Any, why: str) -> None:
    with pytest.raises(EditRefused, match=why):
        patched(BODY, checked_patch([step]))


def test_true_is_not_1_and_false_is_not_0() -> None:
    for body, value in (("[1]", True), ("[true]", 1), ("[0]", False), ("[false]", 0)):
        with pytest.raises(EditRefused, match="the value there is another"):
            patched(body, checked_patch([{"op": "test", "path": "/0", "value": value}]))
    assert (
        patched("[true]", checked_patch([{"op": "test", "path": "/0", "value": True}])) == "[true]"
    )


def test_a_value_may_move_to_where_it_is_and_to_the_whole() -> None:
    assert patched(BODY, checked_patch([{"op": "move", "from": "/id", "path": "/id"}]))
    assert patched("[7]", checked_patch([{"op": "copy", "from": "/0", "path": ""}])) == "7"
    assert patched("[7]", checked_patch([{"op": "remove", "path": ""}])) == "null"


def test_a_patch_is_made_whole_or_not_at_all() -> None:
    steps = [{"op": "remove", "path": "/id"}, {"op": "test", "path": "/total", "value": 9}]
    with pytest.raises(EditRefused, match="operation 2"):
        patched(BODY, checked_patch(steps))


@each_row(
    ("data", "why"),
    [
        ({}, "a JSON Patch is a list of 1 to 100 operations"),
        ([], "a JSON Patch is a list"),
        ([{"op": "add"}] * 101, "a JSON Patch is a list"),
        ([{"op": "delete", "path": "/a"}], "operation 1 has no op; allowed are add, remove"),
        ([1], "operation 1 has no op"),
        ([{"op": "add", "path": "/a"}], r"operation 1 \(add\) has no value"),
        ([{"op": "add", "path": "a", "value": 1}], "begins with /"),
        ([{"op": "move", "from": 1, "path": "/a"}], "begins with /"),
    ],
)
def test_what_is_no_patch_is_refused(data: Any, why: str) -> None:
    with pytest.raises(EditRefused, match=why):
        checked_patch(data)


@pytest.mark.parametrize("body", ["not json", '{"a": 1, "a": 2}', "[" * 5_000])
def test_a_body_that_can_not_be_read_for_sure_is_not_edited(body: str) -> None:
    with pytest.raises(EditRefused, match="the body can't be read"):
        patched(body, checked_patch([{"op": "add", "path": "/a", "value": 1}]))


def test_the_letter_keeps_all_but_its_body() -> None:
    letter = Letter("m", '{"a":1}', {}, {"MessageGroupId": "g"})
    assert edited(letter, '{"a":2}') == Letter("m", '{"a":2}', {}, {"MessageGroupId": "g"})


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('{"a":1}', "changes nothing"),
        ("", "empty"),
        ('{"a":', "would be JSON no longer"),
        (json.dumps("x" * 1024 * 1024), "SQS takes 1,048,576"),
    ],
)
def test_a_letter_that_sqs_or_the_consumer_would_not_take_is_refused(body: str, why: str) -> None:
    with pytest.raises(EditRefused, match=why):
        edited(Letter("m", '{"a":1}'), body)


def test_a_body_that_was_no_json_may_stay_none() -> None:
    assert edited(Letter("m", "plain"), "text").body == "text"


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8"), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(_VALUES)
def test_what_is_written_is_read_as_the_same(value: Any) -> None:
    assert read_json(to_text(value), exact=True) == value


# Attributes.

PLAIN = Letter("m1", "{}", {"kept": Attribute("String.odd label", "as it was")})


@each_row(
    ("text", "name", "attribute"),
    [
        ("tenant=String:acme", "tenant", Attribute("String", "acme")),
        ("when=String:10:30=late", "when", Attribute("String", "10:30=late")),
        ("n=Number.int:-5", "n", Attribute("Number.int", "-5")),
        ("n=Number:1.50E+3", "n", Attribute("Number", "1.50E+3")),
        ("b=Binary.png:AP8=", "b", Attribute("Binary.png", b"\x00\xff")),
        ("a-b_c.d=String:\u00e4", "a-b_c.d", Attribute("String", "\u00e4")),
    ],
)
def test_an_attribute_is_set_with_its_name_its_type_and_its_value(
    text: str, name: str, attribute: Attribute
) -> None:
    assert typed_attribute(text) == (name, attribute)
    after = edited(PLAIN, "{}", {**PLAIN.attributes, name: attribute})
    assert after.attributes[name] == attribute
    assert after.attributes["kept"] == PLAIN.attributes["kept"]


@each_row("text", ["", "name", "name=", "name=String", "name:String=x", "b=Binary:no base64"])
def test_what_is_no_attribute_is_refused(text: str) -> None:
    with pytest.raises(EditRefused):
        typed_attribute(text)


SECRET = "4111-1111"


@each_row(
    ("name", "attribute", "why"),
    [
        *(
            (name, Attribute("String", SECRET), "a name of an attribute")
            for name in (
                "",
                "a" * 257,
                ".a",
                "a.",
                "a..b",
                "a b",
                "\u00e4",
                "aWs.x",
                "AMAZON.x",
                "a\n",
            )
        ),
        *(
            ("n", Attribute(kind, SECRET), "the type of an attribute")
            for kind in ("", "Text", "string", "String.", "String.a b", "String." + "a" * 256)
        ),
        ("n", Attribute("String", ""), "an empty value"),
        ("n", Attribute("String", f"{SECRET}\x00"), "in no text"),
        ("n", Attribute("String", f"{SECRET}\ud800"), "in no text"),
        ("n", Attribute("Binary", SECRET), "bytes are the value"),
        ("n", Attribute("String", SECRET.encode()), "bytes are the value"),
        *(
            ("n", Attribute("Number", value), "no number")
            for value in (SECRET, "1,5", "NaN", "Infinity", "1e", "0x1", " 1", "\u0661", "1" * 401)
        ),
        *(
            ("n", Attribute("Number", value), "38 digits")
            for value in ("1" * 39, "1e127", "1e-129", "12e126")
        ),
        (stamps.NAME, Attribute("String", SECRET), "is ours"),
    ],
)
def test_an_attribute_that_sqs_would_not_take_is_refused_without_a_word_of_it(
    name: str, attribute: Attribute, why: str
) -> None:
    with pytest.raises(EditRefused, match=why) as refused:
        edited(PLAIN, "{}", {**PLAIN.attributes, name: attribute})
    assert SECRET not in str(refused.value)


@each_row("value", ["0", "-0.0", "1" * 38, "1e126", "1e-128", "0e999", ".5", "5.", "1" + "0" * 100])
def test_numbers_that_sqs_takes_are_taken_as_they_are_written(value: str) -> None:
    after = edited(PLAIN, "{}", {"n": Attribute("Number", value)})
    assert after.attributes["n"].value == value


def test_ten_attributes_of_the_producer_fit_and_ours_does_not_count() -> None:
    ours = {stamps.NAME: Attribute("String", "{}")}
    letter = replace(PLAIN, attributes=ours)
    ten = {str(number): Attribute("String", "x") for number in range(10)}
    assert len(edited(letter, "{}", {**ours, **ten}).attributes) == 11
    with pytest.raises(EditRefused, match="11 attributes, and SQS takes 10"):
        edited(letter, "{}", {**ours, **ten, "more": Attribute("String", "x")})


def test_attributes_count_for_the_limit_of_a_message() -> None:
    with pytest.raises(EditRefused, match="SQS takes 1,048,576"):
        edited(PLAIN, "{}", {"n": Attribute("String", "x" * MAX_BYTES)})


def test_an_edit_that_leaves_body_and_attributes_changes_nothing() -> None:
    with pytest.raises(EditRefused, match="it changes nothing"):
        edited(PLAIN, "{}", dict(PLAIN.attributes))
