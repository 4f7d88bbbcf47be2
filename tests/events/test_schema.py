"""One schema of events: the page, the JSON Schema and the check of what code emits agree."""

from __future__ import annotations

import json
from typing import Any

from deadletter.contract import EventType
from deadletter.events.schema import BY_TYPE, COMMON, SCHEMAS, EventSchema, json_schema
from tests.each_row import each_row
from tests.events.emitted import problems
from tools import events_page


def test_the_page_is_up_to_date() -> None:
    assert events_page.PAGE.read_text() == events_page.page(), "run `make docs`"


def test_the_json_schema_is_up_to_date() -> None:
    assert events_page.SCHEMA.read_text() == events_page.schema(), "run `make docs`"


def test_every_event_of_the_contract_has_a_schema_and_a_section() -> None:
    assert [schema.type for schema in SCHEMAS] == list(EventType)
    page = events_page.page()
    assert all(f"\n## {each}\n" in page and f"](#{each.lower()})" in page for each in EventType)


@each_row("schema", SCHEMAS, ids=lambda schema: schema.type)
def test_an_example_is_valid_with_and_without_what_is_optional(schema: EventSchema) -> None:
    assert problems(schema.type, schema.example) == []
    optional = {field.name for field in schema.fields if field.is_optional}
    least = {name: value for name, value in schema.example.items() if name not in optional}
    assert problems(schema.type, least) == []


@each_row("schema", SCHEMAS, ids=lambda schema: schema.type)
def test_a_detail_of_an_example_is_what_the_json_schema_says(schema: EventSchema) -> None:
    described = json_schema()["$defs"][str(schema.type)]
    assert set(described["properties"]) == set(schema.example)
    assert set(described["required"]) >= {field.name for field in COMMON}
    types = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "object": dict}
    for name, value in schema.example.items():
        assert isinstance(value, types[described["properties"][name]["type"]]), name  # type: ignore[arg-type]


@each_row(
    ("changes", "why"),
    [
        ({"body": "a secret"}, "CauseAppeared.body is not in the schema"),
        ({"messages": "12"}, "CauseAppeared.messages must be whole number: '12'"),
        ({"messages": True}, "CauseAppeared.messages must be whole number: True"),
        ({"messages": -1}, "CauseAppeared.messages must be whole number: -1"),
        ({"sample": None}, "CauseAppeared.sample must be text: None"),
        ({"is_at_least": 0}, "CauseAppeared.is_at_least must be true or false: 0"),
        ({"since": "today"}, "CauseAppeared.since must be epoch seconds: 'today'"),
    ],
)
def test_what_the_schema_does_not_say_is_a_problem(changes: dict[str, Any], why: str) -> None:
    example = BY_TYPE["CauseAppeared"].example
    assert problems("CauseAppeared", {**example, **changes}) == [why]


def test_a_missing_field_a_wrong_choice_and_an_unknown_event_are_problems() -> None:
    example = BY_TYPE["CircuitStateChanged"].example
    assert problems("CircuitStateChanged", {**example, "state": "AJAR"}) == [
        "CircuitStateChanged.state must be text: 'AJAR'"
    ]
    del example["app"]
    assert problems("CircuitStateChanged", example) == ["CircuitStateChanged.app is missing"]
    assert problems("Nothing", {}) == ["no such event: Nothing"]


def test_counts_are_whole_numbers_by_name() -> None:
    example = BY_TYPE["RunStateChanged"].example
    for counts in ({"OPEN": "3"}, {"OPEN": 1.5}, [1]):
        assert problems("RunStateChanged", {**example, "counts": counts})


def test_the_json_schema_is_json() -> None:
    assert json.loads(events_page.schema()) == json_schema()
