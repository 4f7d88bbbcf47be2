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
has anything of a message's content. There is [a JSON Schema](events.schema.json), and
[an example](../examples/slack/README.md) that sends them to Slack without code.

This page is generated from `lambdas/deadletter/events/schema.py`.

| event | when | by |
|---|---|---|
"""

PROMISES = """\

## What you can rely on

- **At least once.** The watch looks each minute. News that EventBridge did not take are tried
  again in the next minute and are counted in the metric `EventRefused`; they never stop the
  watch, an outage or a replay run. A function that ends between the event and its record sends
  the event again: compare `pipeline`, `cause` and `since`, or `run` and `state`.
- **In order of time, not of arrival.** EventBridge does not order events: sort by `at`.
- **Facts of that minute.** Counts of SQS are approximate. Letters that come and go between two
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
    for each in SCHEMAS:
        yield f"\n## {each.type}\n\n{each.when}\n\n"
        yield from _table(each.own)
        yield f"\n```json\n{_example(each)}\n```\n"


def _table(fields: tuple[EventField, ...]) -> Iterator[str]:
    yield "| field | type | meaning |\n|---|---|---|\n"
    for field in fields:
        optional = ", optional" if field.is_optional else ""
        choices = f": {', '.join(field.choices)}" if field.choices else ""
        yield f"| `{field.name}` | {field.type}{optional} | {field.meaning}{choices} |\n"


def _example(each: EventSchema) -> str:
    event = {"source": EVENT_SOURCE, "detail-type": each.type, "detail": each.example}
    return json.dumps(event, indent=2)


def main() -> None:
    """Write both."""
    PAGE.write_text(page(), encoding="utf-8")
    SCHEMA.write_text(schema(), encoding="utf-8")


if __name__ == "__main__":
    main()
