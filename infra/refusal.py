"""Why settings are refused: one sentence that names the key, its value and what is allowed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from .duration import MINUTE, written

# Characters of a wrong value that are shown.
LONGEST_VALUE = 80

# How a duration is typed.
NOTATION = ", in seconds or written like 90s, 15m, 4d"

Schema = Mapping[str, Any]


class Refused(ValueError):
    """The settings cannot be deployed; the message says why, in one sentence."""


def refuse(key: str, value: object, allowed: str) -> PydanticCustomError:
    """The error a validator raises about `key`, relative to the model it stands in."""
    return PydanticCustomError(
        "refused",
        "{key} is {value}; allowed: {allowed}",
        {"key": key, "value": value, "allowed": allowed},
    )


def value_refused(key: str, value: object, allowed: str) -> str:
    """`key is value; allowed: ...`, the body of every sentence."""
    return f"{key} is {_shown(value)}; allowed: {allowed}"


def sentence(error: ValidationError, schema: Schema, typed: object) -> str:
    """The first error in `error` as a sentence, without the name of the app or pipeline.

    `schema` is the JSON schema of the model and says what is allowed, so that the
    sentence, the schema and the docs can't differ. `typed` is what was validated: the
    value is shown as the person wrote it, unless it is a default.
    """
    first = error.errors(include_url=False)[0]
    keys, node = _find(schema, first["loc"])
    value, may_be = first["input"], allowed(schema, node)
    if first["type"] == "refused":
        keys += first["ctx"]["key"].split(".")
        value, may_be = first["ctx"]["value"], first["ctx"]["allowed"]
    key = ".".join(keys) or "the whole"
    if first["type"] == "extra_forbidden":
        _, parent = _find(schema, first["loc"][:-1])
        known = ", ".join(sorted(parent["properties"]))
        return f"{key} is {_shown(value)}, but there is no such key; allowed: {known}"
    if first["loc"][-1:] == ("[key]",):
        return f"{key.rpartition('.')[0]} has the key {_shown(value)}; allowed: {may_be}"
    if first["type"] == "missing":
        return f"{key} is missing; allowed: {may_be}"
    return value_refused(key, _as_typed(typed, keys, value), may_be)


def allowed(schema: Schema, node: Schema) -> str:
    """What a value described by `node` of `schema` may be, in words."""
    node = resolved(schema, node)
    match node:
        case {"allowed": str(words)}:
            return words
        case {"oneOf": [*kinds]} | {"anyOf": [*kinds]}:
            return ", or ".join(allowed(schema, kind) for kind in kinds)
        case {"const": value}:
            return json.dumps(value)
        case {"enum": [*values]}:
            return ", ".join(str(value) for value in values)
        case {"type": "integer", "unit": "seconds"}:
            whole = " of whole minutes" if node.get("multipleOf") == MINUTE else ""
            bounds = _bounds(node, written)
            return f"a duration{whole}{bounds}{NOTATION}"
        case {"type": "integer"}:
            return f"a whole number{_bounds(node, str)}"
        case {"type": "number"}:
            return f"a number{_bounds(node, lambda bound: f'{bound:g}')}"
        case {"type": "boolean"}:
            return "true or false"
        case {"type": "null"}:
            return "null"
        case {"type": "array", "items": items}:
            return f"a list, each item {allowed(schema, items)}"
        case {"type": "object", "properties": properties}:
            return f"an object with the keys {', '.join(properties)}"
        case {"type": "object"}:
            return f"an object, each value {allowed(schema, _values(node))}"
    return "text"


def _bounds(node: Schema, show: Any) -> str:
    low, high = node.get("minimum"), node.get("maximum")
    above = node.get("exclusiveMinimum")
    if above is not None:
        return f" above {show(above)}" + (f", up to {show(high)}" if high is not None else "")
    if low is not None and high is not None:
        return f" from {show(low)} to {show(high)}"
    if low is not None:
        return f", at least {show(low)}"
    return f", at most {show(high)}" if high is not None else ""


def _find(schema: Schema, location: Sequence[int | str]) -> tuple[list[str], Schema]:
    """The keys that lead to `location`, as a person types them, and the schema of the value."""
    keys: list[str] = []
    node = resolved(schema, schema)
    for step in [step for step in location if step != "[key]"]:
        tags = node.get("discriminator", {}).get("mapping", {})
        if step in tags:
            # The tag of a union is in the location, but a person does not type it.
            node = resolved(schema, {"$ref": tags[step]})
            continue
        parent = node
        if isinstance(step, int):
            keys[-1] += f"[{step}]"
            node = parent["items"]
        elif step in parent.get("properties", {}):
            keys.append(step)
            node = parent["properties"][step]
        else:
            keys.append(step)
            # For a bad key instead of a bad value, pydantic adds one more step.
            node = parent["propertyNames"] if location[-1] == "[key]" else _values(parent)
        node = resolved(schema, node)
    return keys, node


def _values(node: Schema) -> Schema:
    """The schema of the values of an object whose keys are free."""
    [values] = [*node.get("patternProperties", {}).values()] or [node.get("additionalProperties")]
    return values or {}


def _as_typed(typed: object, keys: Sequence[str], otherwise: object) -> object:
    for key in keys:
        if not isinstance(typed, Mapping) or key not in typed:
            return otherwise
        typed = typed[key]
    return typed


def resolved(schema: Schema, node: Schema) -> Schema:
    """`node` without references to other parts of `schema`, and without `or null`."""
    while "$ref" in node:
        name = str(node["$ref"]).rpartition("/")[2]
        beside = {key: value for key, value in node.items() if key != "$ref"}
        node = {**schema["$defs"][name], **beside}
    match node:
        # Of `X | None`, a person types X.
        case {"anyOf": [dict() as typed, {"type": "null"}]}:
            beside = {key: value for key, value in node.items() if key != "anyOf"}
            return resolved(schema, {**typed, **beside})
    return node


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
