"""What an emitted event has against the schema of events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deadletter.events.schema import BY_TYPE, EventField, EventSchema, FieldType


def problems(event_type: str, detail: Mapping[str, Any]) -> list[str]:
    """What an emitted detail has against its schema: a sentence each; empty if it is valid."""
    schema = BY_TYPE.get(event_type)
    return [f"no such event: {event_type}"] if schema is None else list(_problems(schema, detail))


def _problems(schema: EventSchema, detail: Mapping[str, Any]) -> Iterator[str]:
    fields = {field.name: field for field in schema.fields}
    for name in detail.keys() - fields.keys():
        yield f"{schema.type}.{name} is not in the schema"
    for name, field in fields.items():
        if name not in detail:
            if not field.is_optional:
                yield f"{schema.type}.{name} is missing"
        elif not _fits(field, detail[name]):
            yield f"{schema.type}.{name} must be {field.type}: {detail[name]!r}"


def _fits(field: EventField, value: Any) -> bool:
    match field.type:
        case FieldType.TEXT:
            return isinstance(value, str) and (not field.choices or value in field.choices)
        case FieldType.YES_NO:
            return isinstance(value, bool)
        case FieldType.COUNTS:
            return isinstance(value, dict) and all(
                isinstance(name, str) and _is_whole(number) for name, number in value.items()
            )
        case FieldType.WHOLE:
            return _is_whole(value)
        case _:
            return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
