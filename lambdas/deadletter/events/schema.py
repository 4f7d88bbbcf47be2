"""The fields of each event: the one place from which the page and the JSON Schema are made.

No function loads this at run time. The tests check every event that the code emits against it:
a field that is not in here, or a missing one, fails them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from deadletter.contract import EVENT_SOURCE, EVENT_VERSION, Category, EventType


class FieldType(StrEnum):
    """The types of fields, in the page's words."""

    TEXT = "text"
    WHOLE = "whole number"
    SECONDS = "seconds"
    TIME = "epoch seconds"
    YES_NO = "true or false"
    COUNTS = "numbers by name"


@dataclass(frozen=True, slots=True)
class EventField:
    """One field of an event's detail; `choices` are all values that a text may have."""

    type: FieldType
    name: str
    meaning: str
    example: Any
    is_optional: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSchema:
    """One type of event: when it is sent, by which function, and its own fields."""

    type: EventType
    when: str
    sender: str
    own: tuple[EventField, ...]

    @property
    def fields(self) -> tuple[EventField, ...]:
        """The fields that all events have, and its own."""
        return (*COMMON, *self.own)

    @property
    def example(self) -> dict[str, Any]:
        """A whole detail."""
        return {field.name: field.example for field in self.fields}


_text = partial(EventField, FieldType.TEXT)
_whole = partial(EventField, FieldType.WHOLE)
_time = partial(EventField, FieldType.TIME)


def _command(example: str) -> EventField:
    return _text("command", "the first command to type", example)


_AT = 1_796_000_000.0

COMMON = (
    _whole("version", "of this schema; a field may be added within a version", EVENT_VERSION),
    _text("app", "name of the app", "deadletter"),
    _text("pipeline", "name of the pipeline; `*` for a rule of all pipelines", "orders"),
    _time("at", "when it was noticed", _AT),
)
"""The fields that the detail of each event begins with."""

_CAUSE = (
    _text("cause", "the cause, as `dlq groups` shows it", "3f9c2a71b0d4"),
    _text("category", f"{', '.join(Category)}; empty if unknown", "transient"),
    _text("error_type", "type of the error of its newest message; empty if unknown", "HTTPError"),
)
_STATES = (
    *("PLANNED", "MOVING", "WAITING_APPROVAL", "CANARY", "RUNNING", "HELD"),
    *("ABORTED", "DONE", "BROKEN"),
)
_SOURCE = "`dlq`, a dedicated DLQ's id, `parking:<id>`, or `main` for the main queue"

SCHEMAS: Sequence[EventSchema] = (
    EventSchema(
        type=EventType.CAUSE_APPEARED,
        when="Messages begin to fail for a cause that none failed for.",
        sender="monitor",
        own=(
            *_CAUSE,
            _whole("http_status", "of the answer, if there was one", 503, is_optional=True),
            _whole("messages", "messages that fail for it so far", 12),
            EventField(
                FieldType.YES_NO,
                "is_at_least",
                "whether there may be more messages: not all were read",
                False,
            ),
            _time("since", "first failure of the oldest of them", _AT - 240),
            _text(
                "sample",
                "id of one of its messages, for `dlq show`",
                "8f14e45f-ceea-467f-9575-2a8c1d6e2b11",
            ),
            _command("dlq groups orders"),
        ),
    ),
    EventSchema(
        type=EventType.CAUSE_OVER,
        when="No message has failed, or waited, for a cause for five minutes.",
        sender="monitor",
        own=(
            *_CAUSE,
            _whole("messages", "the most messages of it at one time", 420),
            _time("since", "when it was noticed", _AT - 3600),
            _command("dlq groups orders"),
        ),
    ),
    EventSchema(
        type=EventType.MESSAGES_RECOVERED,
        when="Dead messages were processed by the consumer; at most every ten minutes.",
        sender="monitor",
        own=(
            _whole("count", "messages that were processed", 87),
            _time("since", "the beginning of the time that was counted", _AT - 780),
            _time("until", "its end", _AT - 180),
            _command("dlq status orders"),
        ),
    ),
    EventSchema(
        type=EventType.MESSAGES_PARKED,
        when="A parking queue has more messages than before; at most every ten minutes.",
        sender="monitor",
        own=(
            _text("queue", "id of the parking queue", "default"),
            _whole("count", "messages that came", 3),
            _whole("messages", "messages that are parked there now", 5),
            _command("dlq list --in parked --look --pipeline orders"),
        ),
    ),
    EventSchema(
        type=EventType.MESSAGES_EXPIRE_SOON,
        when="A queue's oldest message is within `expiry_warning` of being dropped by SQS: once.",
        sender="monitor",
        own=(
            _text("source", _SOURCE, "dlq"),
            EventField(FieldType.SECONDS, "seconds", "until SQS drops the oldest message", 41_400),
            _whole("messages", "messages in that queue", 20),
            _command("dlq status orders"),
        ),
    ),
    EventSchema(
        type=EventType.CIRCUIT_STATE_CHANGED,
        when="The pipeline's own circuit changes its state.",
        sender="circuit, probe",
        own=(
            _text("key", "key of the circuit: the pipeline's name", "orders"),
            _text("state", "its state", "OPEN", choices=("CLOSED", "OPEN", "HALF_OPEN")),
            _text(
                "before",
                "the state that was announced before",
                "CLOSED",
                is_optional=True,
                choices=("CLOSED", "OPEN", "HALF_OPEN"),
            ),
            _whole("change", "grows with each change of the circuit", 12),
            _whole("restart", "how often the outage's execution was started anew", 0),
            _whole("openings", "openings in this outage", 1),
            _time("opened_at", "when it opened", _AT - 2),
            _time("open_until", "when it is probed next", _AT + 28),
            _text("forced_by", "the person who holds it, if one does", "ada", is_optional=True),
        ),
    ),
    EventSchema(
        type=EventType.RUN_STATE_CHANGED,
        when="A run changes its state.",
        sender="replay, monitor",
        own=(
            _text("run", "id of the run", "r-7c1e52a90b3d"),
            _text("state", "its state", "RUNNING", choices=_STATES),
            _text(
                "before",
                "the state that was announced before",
                "CANARY",
                is_optional=True,
                choices=_STATES,
            ),
            EventField(
                FieldType.COUNTS,
                "counts",
                "its messages by outcome, as last added up",
                {"OPEN": 80, "RECOVERED": 20},
            ),
            _whole("messages", "its messages; absent before they are taken", 100, is_optional=True),
            _text("because", "why it was held, aborted or broken; may be empty", ""),
            _text("by", "the person or the function that changed it", "ada"),
            _command("dlq show r-7c1e52a90b3d"),
        ),
    ),
    EventSchema(
        type=EventType.RULE_REFUSED,
        when="An edit of a routing rule is invalid, and the rule matches nothing.",
        sender="check-rules",
        own=(
            _text("rule_id", "id of the rule", "stop-tenant-123"),
            _text("reason", "what is wrong, and what is allowed", "priority must be a number"),
        ),
    ),
)
"""All our events."""

BY_TYPE: Mapping[str, EventSchema] = {schema.type: schema for schema in SCHEMAS}


_JSON_TYPES: Mapping[FieldType, Mapping[str, Any]] = {
    FieldType.TEXT: {"type": "string"},
    FieldType.WHOLE: {"type": "integer", "minimum": 0},
    FieldType.SECONDS: {"type": "number", "minimum": 0},
    FieldType.TIME: {"type": "number", "minimum": 0},
    FieldType.YES_NO: {"type": "boolean"},
    FieldType.COUNTS: {"type": "object", "additionalProperties": {"type": "integer"}},
}


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of our events as EventBridge delivers them."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Events of Deadletter on EventBridge",
        "type": "object",
        "required": ["source", "detail-type", "detail"],
        "properties": {"source": {"const": EVENT_SOURCE}},
        "oneOf": [
            {
                "properties": {
                    "detail-type": {"const": str(schema.type)},
                    "detail": {"$ref": f"#/$defs/{schema.type}"},
                }
            }
            for schema in SCHEMAS
        ],
        "$defs": {str(schema.type): _detail_schema(schema) for schema in SCHEMAS},
    }


def _detail_schema(schema: EventSchema) -> dict[str, Any]:
    return {
        "description": schema.when,
        "type": "object",
        "required": [field.name for field in schema.fields if not field.is_optional],
        "properties": {
            field.name: {
                **_JSON_TYPES[field.type],
                **({"enum": list(field.choices)} if field.choices else {}),
                **({"const": EVENT_VERSION} if field.name == "version" else {}),
                "description": field.meaning,
                "examples": [field.example],
            }
            for field in schema.fields
        },
    }
