"""Reads the JSON of settings; an error names the variable or key that is wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar


class BadSettings(ValueError):
    """The settings are invalid; the message names the variable or key."""


def json_value(where: str, text: str) -> Any:
    """The value of a JSON text; raises BadSettings that names `where`, as all here do."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadSettings(f"{where} is not JSON") from error


def json_object(where: str, text: str) -> dict[str, Any]:
    """The object in a JSON text."""
    return as_object(where, json_value(where, text))


def as_object(where: str, data: Any) -> dict[str, Any]:
    """The data, if it is an object."""
    if not isinstance(data, dict):
        raise BadSettings(f"{where} must be a JSON object")
    return data


def texts(where: str, data: Any) -> tuple[str, ...]:
    """The data as a tuple, if it is a list of texts."""
    if not isinstance(data, list) or not all(isinstance(text, str) for text in data):
        raise BadSettings(f"{where} must be a JSON list of texts")
    return tuple(data)


T = TypeVar("T")


def build(kind: type[T], where: str, data: Mapping[str, Any]) -> T:
    """The dataclass `kind` with these values; an unknown or a missing key is refused."""
    names = sorted(item.name for item in fields(kind))  # type: ignore[arg-type]
    for key in data:
        if key not in names:
            raise BadSettings(f"{where}: unknown key {key!r}; known are {', '.join(names)}")
    try:
        return kind(**data)
    except TypeError as error:
        raise BadSettings(f"{where}: {error}") from error


def changed(default: T, where: str, data: Mapping[str, Any]) -> T:
    """The dataclass `default` with what the data says otherwise, also in dataclasses within.

    The default of a field says what its value has to be. An unknown key is refused.
    """
    names = sorted(item.name for item in fields(default))  # type: ignore[arg-type]
    values = {}
    for key, value in data.items():
        if key not in names:
            raise BadSettings(f"{where}: unknown key {key!r}; known are {', '.join(names)}")
        before, path = getattr(default, key), f"{where}.{key}"
        if is_dataclass(before):
            value = changed(before, path, as_object(path, value))
        elif isinstance(before, Enum):
            try:
                value = type(before)(value)
            except ValueError as error:
                raise BadSettings(f"{path}: {error}") from error
        elif isinstance(before, tuple):
            value = texts(path, value)
        values[key] = value
    return replace(default, **values)  # type: ignore[type-var]
