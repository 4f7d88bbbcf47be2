"""A body conforms to a JSON Schema as the standard says, and no body can make that take long."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import pytest
from hypothesis import given

from deadletter.contract import SCHEMA_KEYWORDS, SchemaWord
from deadletter.rules.json_schema import JsonSchema, unpacked
from deadletter.settings.json_fields import BadSettings
from tests.each_row import each_row
from tests.samples import json_values

# A schema, values that conform to it, and values that do not.
CASES: list[tuple[Any, list[Any], list[Any]]] = [
    (True, [None, 1, {}], []),
    (False, [], [None, 1, {}]),
    ({}, [None, 1, {}], []),
    ({"type": "integer"}, [0, -3, 1.0], [1.5, "1", True, None, float("inf")]),
    ({"type": "number"}, [0, 1.5], ["1", False, None]),
    ({"type": "boolean"}, [True, False], [0, 1, "true"]),
    ({"type": "null"}, [None], [0, "", False]),
    ({"type": "string"}, ["", "x"], [1, None]),
    ({"type": "array"}, [[], [1]], [{}, "x"]),
    ({"type": "object"}, [{}, {"a": 1}], [[], "x"]),
    ({"type": ["string", "null"]}, ["x", None], [1, []]),
    ({"enum": [1, "a", [1], {"b": 2}]}, [1, 1.0, "a", [1.0], {"b": 2.0}], [True, 2, "b", [2]]),
    ({"enum": [True]}, [True], [1, "true"]),
    ({"const": {"a": [1, 2]}}, [{"a": [1, 2.0]}], [{"a": [2, 1]}, {"a": [1, 2], "b": 1}]),
    ({"const": 0}, [0, -0.0], [False, None, ""]),
    ({"minimum": 2, "maximum": 4}, [2, 3.5, 4, "x", None, True], [1.9, 5]),
    ({"exclusiveMinimum": 2, "exclusiveMaximum": 4}, [3, "x"], [2, 4]),
    ({"multipleOf": 0.1}, [0.3, 1, 0, "x"], [0.25]),
    ({"multipleOf": 3}, [9, -3], [10]),
    ({"minLength": 2, "maxLength": 3}, ["ab", "Ž€x", 1, None], ["a", "abcd"]),
    ({"minItems": 1, "maxItems": 2}, [[1], [1, 2], "x"], [[], [1, 2, 3]]),
    ({"uniqueItems": True}, [[1, True, "1"], [[1], [2]], []], [[1, 1.0], [{"a": 1}, {"a": 1.0}]]),
    ({"uniqueItems": False}, [[1, 1]], []),
    ({"items": {"type": "string"}}, [[], ["a"], "x"], [["a", 1]]),
    ({"prefixItems": [{"type": "string"}], "items": False}, [[], ["a"]], [[1], ["a", "b"]]),
    ({"contains": {"const": 1}}, [[1, 2], {}], [[], [2]]),
    ({"contains": {"const": 1}, "minContains": 2, "maxContains": 3}, [[1, 1]], [[1], [1] * 4]),
    ({"contains": {"const": 1}, "minContains": 0}, [[], [2]], []),
    ({"required": ["a"]}, [{"a": None}, [], 1], [{}, {"b": 1}]),
    ({"properties": {"a": {"type": "string"}}}, [{}, {"a": "x", "b": 1}], [{"a": 1}]),
    (
        {"properties": {"a": True}, "additionalProperties": False},
        [{}, {"a": 1}],
        [{"b": 1}, {"a": 1, "b": 1}],
    ),
    ({"additionalProperties": {"type": "integer"}}, [{"x": 1}], [{"x": "1"}]),
    ({"minProperties": 1, "maxProperties": 1}, [{"a": 1}], [{}, {"a": 1, "b": 2}]),
    ({"propertyNames": {"maxLength": 2}}, [{"ab": 1}], [{"abc": 1}]),
    (
        {"dependentRequired": {"card": ["name", "zip"]}},
        [{}, {"name": 1}, {"card": 1, "name": 1, "zip": 1}],
        [{"card": 1}, {"card": 1, "name": 1}],
    ),
    ({"dependentSchemas": {"a": {"required": ["b"]}}}, [{}, {"a": 1, "b": 1}], [{"a": 1}]),
    ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, [1, 2], [0, 3]),
    ({"anyOf": [{"const": 1}, {"const": 2}]}, [1, 2], [3]),
    ({"oneOf": [{"minimum": 1}, {"maximum": 2}]}, [0, 3], [1, 2]),
    ({"not": {"type": "string"}}, [1], ["x"]),
    (
        {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}},
        [{"a": 1, "b": 1}, {"c": 1}],
        [{"a": 1}, {"b": 1}],
    ),
    ({"then": {"type": "string"}, "else": {"type": "string"}}, [1], []),
    ({"$defs": {"n": {"type": "integer"}}, "items": {"$ref": "#/$defs/n"}}, [[1]], [["x"]]),
    ({"$defs": {"a/b~c d": False}, "$ref": "#/$defs/a~1b~0c%20d"}, [], [1]),
    ({"$ref": "#/$defs/n", "$defs": {"n": {"minimum": 1}}, "maximum": 2}, [1, 2], [0, 3]),
    ({"properties": {"next": {"$ref": "#"}}, "required": ["id"]}, [{"id": 1}], [{}]),
    (
        {"properties": {"next": {"$ref": "#"}}, "required": ["id"]},
        [{"id": 1, "next": {"id": 2}}],
        [{"id": 1, "next": {}}],
    ),
    ({"title": "t", "description": "d", "format": "email", "default": 1}, ["no mail", 2], []),
]


@each_row(("schema", "good", "bad"), CASES, ids=[json.dumps(c[0]) for c in CASES])
def test_a_value_conforms_as_the_standard_says(
    schema: Any, good: list[Any], bad: list[Any]
) -> None:
    compiled = JsonSchema(schema)
    assert [value for value in good if not compiled.admits(value)] == []
    assert [value for value in bad if compiled.admits(value)] == []


@each_row(
    ("schema", "why"),
    [
        ([], "# is no schema"),
        ({"properties": {"a": 5}}, "#/properties/a is no schema"),
        ({"items": [{}]}, "#/items is no schema"),
        ({"allOf": {}}, "#/allOf is no list of schemas"),
        ({"properties": []}, "#/properties is no schemas by name"),
        (
            {"properties": {"a": {"pattern": "(a+)+$"}}},
            "#/properties/a has 'pattern'",
        ),
        ({"patternProperties": {}}, "'patternProperties', which is not supported"),
        ({"$ref": "#/$defs/x"}, "'#/[$]defs/x' leads nowhere"),
        ({"$ref": "other.json"}, "allowed is a place in the schema"),
        ({"$ref": "#/title", "title": "t"}, "leads to no schema"),
        ({"type": "decimal"}, "#/type has a value of the wrong kind"),
        ({"minimum": "2"}, "#/minimum has a value of the wrong kind"),
        ({"required": "a"}, "#/required has a value of the wrong kind"),
        ({"dependentRequired": {"a": "b"}}, "#/dependentRequired has a value"),
        ({"multipleOf": 0}, "#/multipleOf has a value"),
        ({"enum": "a"}, "#/enum has a value"),
        ({"uniqueItems": 1}, "#/uniqueItems has a value"),
    ],
)
def test_a_schema_that_cannot_be_kept_to_is_refused_with_the_place(schema: Any, why: str) -> None:
    with pytest.raises(BadSettings, match=why):
        JsonSchema(schema)


def test_the_cases_use_every_keyword() -> None:
    used = {key for schema, _, _ in CASES if isinstance(schema, dict) for key in schema}
    notes = {word for word, kind in SCHEMA_KEYWORDS.items() if kind is SchemaWord.NOTE}
    assert used >= set(SCHEMA_KEYWORDS) - notes - {"definitions"}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1.5])
def test_a_number_that_is_no_integer_is_refused(value: float) -> None:
    assert not JsonSchema({"type": "integer"}).admits(value)
    assert JsonSchema({"type": "number"}).admits(value)


@given(json_values)
def test_no_value_raises(value: Any) -> None:
    for schema, _, _ in CASES:
        assert JsonSchema(schema).admits(value) in (True, False)


def test_a_schema_that_refers_to_itself_without_end_admits_nothing() -> None:
    assert not JsonSchema({"$ref": "#"}).admits(1)


def test_many_items_are_compared_in_no_time() -> None:
    schema = JsonSchema({"uniqueItems": True, "contains": {"const": -1}})
    assert schema.admits([*range(100_000), -1])


def test_a_schema_is_packed_for_a_variable() -> None:
    text = json.dumps({"type": "object"})
    packed = base64.b64encode(zlib.compress(text.encode())).decode()
    assert unpacked(packed).admits({})
    assert not unpacked(packed).admits([])


@pytest.mark.parametrize("text", ["", "{}", "eJw=", base64.b64encode(b"{}").decode()])
def test_what_is_not_packed_is_refused(text: str) -> None:
    with pytest.raises(BadSettings, match="REPLAY_SCHEMA"):
        unpacked(text)
