"""The JSON of settings: objects, lists and dataclasses, each refused with the name of its key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar


class BadSettings(ValueError):
    """The environment does not describe a pipeline; the message says which part."""


def json_value(where: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadSettings(f"{where} is not JSON") from error


def json_object(where: str, text: str) -> dict[str, Any]:
    data = json_value(where, text)
    if not isinstance(data, dict):
        raise BadSettings(f"{where} must be a JSON object")
    return data


def texts(where: str, data: Any) -> tuple[str, ...]:
    if not isinstance(data, list) or not all(isinstance(one, str) for one in data):
        raise BadSettings(f"{where} must be a JSON list of texts")
    return tuple(data)


T = TypeVar("T")


def build(kind: type[T], where: str, data: Mapping[str, Any]) -> T:
    known = {one.name for one in fields(kind)}  # type: ignore[arg-type]
    for key in data:
        if key not in known:
            raise BadSettings(f"{where}: unknown key {key!r}; known are {', '.join(sorted(known))}")
    try:
        return kind(**data)
    except TypeError as error:
        raise BadSettings(f"{where}: {error}") from error
