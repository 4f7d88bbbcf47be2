"""Whether a message's body conforms to the JSON Schema of its pipeline."""

from __future__ import annotations

import base64
import json
import operator
import zlib
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

from deadletter.contract import SCHEMA_KEYWORDS, SCHEMA_TYPES, SchemaWord
from deadletter.settings.json_fields import BadSettings

Schema = Mapping[str, Any] | bool


class JsonSchema:
    """A JSON Schema (2020-12) with the keywords of SCHEMA_KEYWORDS.

    Raises BadSettings for another keyword, or for a reference that leads nowhere.
    """

    def __init__(self, schema: Any) -> None:
        self._root = schema
        self._check(schema, "#")

    def admits(self, value: Any) -> bool:
        """Whether a JSON value conforms to the schema. Never raises, for any value."""
        try:
            return self._admits(self._root, value)
        except (RecursionError, ArithmeticError):
            # A schema that refers to itself without end admits nothing.
            return False

    def _check(self, schema: Any, place: str) -> None:
        if isinstance(schema, bool):
            return
        if not isinstance(schema, Mapping):
            raise BadSettings(f"{place} is no schema: allowed are an object, true and false")
        for keyword, content in schema.items():
            match SCHEMA_KEYWORDS.get(keyword):
                case None:
                    raise BadSettings(f"{place} has {keyword!r}, which is not supported")
                case SchemaWord.SCHEMA:
                    self._check(content, f"{place}/{keyword}")
                case SchemaWord.LIST if isinstance(content, list):
                    for number, part in enumerate(content):
                        self._check(part, f"{place}/{keyword}/{number}")
                case SchemaWord.BY_NAME if isinstance(content, Mapping):
                    for name, part in content.items():
                        self._check(part, f"{place}/{keyword}/{name}")
                case SchemaWord.LIST | SchemaWord.BY_NAME:
                    raise BadSettings(f"{place}/{keyword} is no {SCHEMA_KEYWORDS[keyword]}")
            if not _is_content(keyword, content):
                raise BadSettings(f"{place}/{keyword} has a value of the wrong kind")
        if "$ref" in schema:
            self._referred(schema["$ref"])

    def _referred(self, reference: Any) -> Schema:
        """The part of the schema that a reference names."""
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            raise BadSettings(f"$ref is {reference!r}; allowed is a place in the schema: #/…")
        part = self._root
        for step in reference.split("/")[1:]:
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            is_there = isinstance(part, Mapping) and name in part
            if isinstance(part, list) and name.isdigit() and int(name) < len(part):
                part = part[int(name)]
            elif is_there:
                part = part[name]
            else:
                raise BadSettings(f"$ref {reference!r} leads nowhere")
        if not isinstance(part, Mapping | bool):
            raise BadSettings(f"$ref {reference!r} leads to no schema")
        return part

    def _admits(self, schema: Schema, value: Any) -> bool:
        if isinstance(schema, bool):
            return schema
        if "$ref" in schema and not self._admits(self._referred(schema["$ref"]), value):
            return False
        return (
            all(_holds(keyword, content, value) for keyword, content in schema.items())
            and self._combines(schema, value)
            and (not isinstance(value, list) or self._admits_items(schema, value))
            and (not isinstance(value, dict) or self._admits_members(schema, value))
        )

    def _combines(self, schema: Mapping[str, Any], value: Any) -> bool:
        if not all(self._admits(part, value) for part in schema.get("allOf", ())):
            return False
        if "anyOf" in schema and not any(self._admits(part, value) for part in schema["anyOf"]):
            return False
        if "oneOf" in schema and sum(self._admits(part, value) for part in schema["oneOf"]) != 1:
            return False
        if "not" in schema and self._admits(schema["not"], value):
            return False
        if "if" in schema:
            branch = "then" if self._admits(schema["if"], value) else "else"
            return self._admits(schema.get(branch, True), value)
        return True

    def _admits_items(self, schema: Mapping[str, Any], items: list[Any]) -> bool:
        first = schema.get("prefixItems", ())
        if not all(self._admits(part, item) for part, item in zip(first, items, strict=False)):
            return False
        rest = schema.get("items", True)
        if not all(self._admits(rest, item) for item in items[len(first) :]):
            return False
        if "contains" in schema:
            count = sum(self._admits(schema["contains"], item) for item in items)
            most = schema.get("maxContains", len(items))
            return bool(schema.get("minContains", 1) <= count <= most)
        return True

    def _admits_members(self, schema: Mapping[str, Any], members: dict[str, Any]) -> bool:
        named, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        names = schema.get("propertyNames", True)
        return all(
            self._admits(named.get(name, others), member) and self._admits(names, name)
            for name, member in members.items()
        ) and all(
            self._admits(part, members)
            for name, part in schema.get("dependentSchemas", {}).items()
            if name in members
        )


def unpacked(text: str) -> JsonSchema:
    """The schema in the variable REPLAY_SCHEMA; raises BadSettings."""
    try:
        schema = json.loads(zlib.decompress(base64.b64decode(text, validate=True)))
    except (ValueError, zlib.error) as error:
        raise BadSettings("REPLAY_SCHEMA is no packed JSON Schema") from error
    return JsonSchema(schema)


def _is_content(keyword: str, content: Any) -> bool:
    """Whether a keyword that is followed by a value has one of its kind."""
    match keyword:
        case "type":
            return all(kind in SCHEMA_TYPES for kind in _types(content))
        case "enum":
            return isinstance(content, list)
        case "required":
            return _are_texts(content)
        case "dependentRequired":
            return isinstance(content, Mapping) and all(map(_are_texts, content.values()))
        case "multipleOf":
            return _is_number(content) and content > 0
        case "uniqueItems":
            return isinstance(content, bool)
    is_limit = keyword.startswith(("min", "max", "exclusive"))
    return not is_limit or _is_number(content)


def _are_texts(content: Any) -> bool:
    return isinstance(content, list) and all(isinstance(text, str) for text in content)


def _types(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
    "number": _is_number,
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def _holds(keyword: str, content: Any, value: Any) -> bool:
    """Whether a keyword without a schema is kept; it says nothing of values of other kinds."""
    match keyword:
        case "type":
            return any(_KINDS[kind](value) for kind in _types(content))
        case "enum":
            return _canonical(value) in map(_canonical, content)
        case "const":
            return _canonical(value) == _canonical(content)
    if _is_number(value):
        return keyword not in _OF_NUMBERS or bool(_OF_NUMBERS[keyword](value, content))
    if isinstance(value, str | list | dict):
        return _size_holds(keyword, content, value)
    return True


_OF_NUMBERS: Mapping[str, Callable[[Any, Any], Any]] = {
    "minimum": operator.ge,
    "maximum": operator.le,
    "exclusiveMinimum": operator.gt,
    "exclusiveMaximum": operator.lt,
    "multipleOf": lambda value, step: Decimal(str(value)) % Decimal(str(step)) == 0,
}


def _size_holds(keyword: str, content: Any, value: Any) -> bool:
    lists = "Items" if isinstance(value, list) else "Properties"
    name = "Length" if isinstance(value, str) else lists
    if keyword == f"min{name}":
        return bool(len(value) >= content)
    if keyword == f"max{name}":
        return bool(len(value) <= content)
    if keyword == "uniqueItems" and content is True and isinstance(value, list):
        return len({_canonical(item) for item in value}) == len(value)
    if keyword == "required" and isinstance(value, dict):
        return all(member in value for member in content)
    if keyword == "dependentRequired" and isinstance(value, dict):
        present = (needed for member, needed in content.items() if member in value)
        return all(member in value for needed in present for member in needed)
    return True


def _canonical(value: Any) -> str:
    """A text that is the same for equal values of JSON: 1 and 1.0 are, 1 and true are not."""
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items()}
    return value
