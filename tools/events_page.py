"""The events as a page and as a JSON Schema: `python -m tools.events_page` writes both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from deadletter.contract import EVENT_SOURCE
from deadletter.events.schema import COMMON, SCHEMAS, EventField, EventSchema, json_schema

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "events.md"
SCHEMA = DOCS / "events.schema.json"

INTRODUCTION = f"""\
# Events

Deadletter puts events on the account's default EventBridge bus, with the source `{EVENT_SOURCE}`.
An alarm calls a person; an event is news, for a channel, a ticket or another system. No event
has content of a message. There is [a JSON Schema](events.schema.json), and [an
example](../examples/slack/README.md) that sends them to Slack without code.

| event | when | by |
|---|---|---|
"""

PROMISES = """\

## What you can rely on

- **At least once.** The monitor looks each minute. An event that EventBridge did not take is tried
  again in the next minute and counted in the metric `EventRefused`; it never stops other work. One
  that was sent twice has the same `pipeline`, `cause` and `since`, or `run` and `state`.
- **In order of time, not of arrival.** EventBridge does not order events: sort by `at`.
- **Facts of that minute.** Counts of SQS are approximate. Messages that come and go between two
  looks are not announced, except recovered ones, which CloudWatch counts.
- Fields may be added within version 1; none is removed or changes its meaning.

A rule for all of them:

```json
{"source": ["deadletter"]}
```

For new causes of one pipeline:

```json
{"source": ["deadletter"], "detail-type": ["CauseAppeared"], "detail": {"pipeline": ["orders"]}}
```

## In every event

"""


def page() -> str:
    """The page."""
    return INTRODUCTION + "".join(_summary()) + PROMISES + "".join(_sections())


def schema() -> str:
    """The JSON Schema."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def _summary() -> Iterator[str]:
    for each in SCHEMAS:
        yield f"| [`{each.type}`](#{each.type.lower()}) | {each.when} | {each.sender} |\n"


def _sections() -> Iterator[str]:
    yield from _table(COMMON)
    yield f"\nA whole event:\n\n```json\n{_example(SCHEMAS[0])}\n```\n"
    for each in SCHEMAS:
        yield f"\n## {each.type}\n\n"
        yield from _table(each.own)


def _table(fields: tuple[EventField, ...]) -> Iterator[str]:
    yield "| field | type | meaning | example |\n|---|---|---|---|\n"
    for field in fields:
        optional = ", optional" if field.is_optional else ""
        choices = f": {', '.join(field.choices)}" if field.choices else ""
        meaning, example = f"{field.meaning}{choices}", json.dumps(field.example)
        yield f"| `{field.name}` | {field.type}{optional} | {meaning} | `{example}` |\n"


def _example(each: EventSchema) -> str:
    event = {"source": EVENT_SOURCE, "detail-type": each.type, "detail": each.example}
    return json.dumps(event, indent=2)


def main() -> None:
    """Write both."""
    PAGE.write_text(page(), encoding="utf-8")
    SCHEMA.write_text(schema(), encoding="utf-8")


if __name__ == "__main__":
    main()
