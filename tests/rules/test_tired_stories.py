"""What a tired person types into the row of a rule, what was meant, and what the row says then.

A story ends RIGHT if the rule does what was meant, and SAID if the row says what is wrong. Else it
is SILENT: the rule is VALID, does something else, and no person learns of it.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from deadletter.message import stamp
from deadletter.message.letter import Letter
from deadletter.rules.checker import RuleEdit, check
from deadletter.rules.document import DocumentBuilder
from deadletter.rules.rule import Action
from deadletter.rules.rulebook import read_rules
from deadletter.settings.pipeline import Pipeline, RetryPolicy
from tests.each_row import each_row
from tests.samples import NOW

ORDERS = Pipeline(
    "orders",
    context={"tenantId": "body.tenantId", "messageType": "body.type"},
    dedicated=("bulk",),
    policies={"gold": RetryPolicy()},
)
# NOW is 2026-09-21 14:13:20 UTC.
HOUR, DAY = 3_600, 86_400


class Ending(StrEnum):
    RIGHT = "right"
    SAID = "said"
    SILENT = "silent"


RIGHT, SAID, SILENT = Ending


@dataclass(frozen=True)
class Story:
    """A row as it was typed, and messages (their bodies) that it was meant to act on, or not."""

    meant: str
    typed: dict[str, Any]
    ends: Ending
    says: str = ""
    acts_on: tuple[dict[str, Any], ...] = ({"tenantId": "cedar"},)
    spares: tuple[dict[str, Any], ...] = ({"tenantId": "birch"},)
    seconds: float = 60
    """How long after it was typed the messages come."""
    beside: tuple[dict[str, Any], ...] = ()

    def row(self) -> dict[str, Any]:
        keys = {"pipeline": "orders", "rule_id": "stop-cedar", "action": "QUARANTINE"}
        return {name: value for name, value in {**keys, **self.typed}.items() if value is not None}


CEDAR = {"tenantId": "cedar"}
BOTH = ({"tenantId": "cedar"}, {"tenantId": "birch"})
OAK = ({"tenantId": "oak"},)
BIG = ({"amount": 100},)
SMALL = ({"amount": 1},)

STORIES = [
    # The value.
    Story("cedar", CEDAR, RIGHT),
    Story("cedar, with a space of the clipboard", {"tenantId": " cedar\u00a0"}, RIGHT),
    Story("cedar, pasted from a chat", {"tenantId": "cedar\u200b"},
          RIGHT, "invisible characters around tenantId are left out"),
    Story("cedar, pasted from a file with a byte order mark", {"tenantId": "\ufeffcedar"},
          RIGHT, "invisible characters"),
    Story("cedar, in quotes as in JSON", {"tenantId": '"cedar"'},
          RIGHT, "quotes around tenantId are left out"),
    Story("cedar, in quotes of a text processor", {"tenantId": "\u201ccedar\u201d"},
          RIGHT, "quotes around"),
    Story("cedar and birch", {"tenantId": "cedar, birch"},
          SAID, 'pattern = {"context": {"tenantId": ["cedar", "birch"]}}', BOTH, OAK),
    Story("cedar and birch, one a line", {"tenantId": "cedar\nbirch"},
          SAID, "several values", BOTH, OAK),
    Story("cedar and birch", {"tenantId": '["cedar", "birch"]'}, SAID, "several values", BOTH, OAK),
    Story("cedar-1, cedar-2 …", {"tenantId": "cedar*"}, SAID, "* has no special meaning",
          ({"tenantId": "cedar-1"},)),
    Story("cedar, as a regular expression", {"tenantId": "^cedar$"}, SAID, "^$ has no special"),
    Story("cedar or birch", {"tenantId": "cedar|birch"}, SAID, "| has no special", BOTH, OAK),
    Story("cedar, in another case", {"tenantId": "Cedar"}, SILENT),
    Story("cedar, mistyped", {"tenantId": "ceder"}, SILENT),
    Story("tenant 42", {"tenantId": 42}, RIGHT, "", ({"tenantId": "42"}, {"tenantId": 42})),
    Story("café, from a Mac", {"tenantId": "cafe\u0301"},
          SAID, "look like others", ({"tenantId": "café"},)),
    # The other columns.
    Story("tenantId", {"tenantID": "cedar"}, SAID, "did you mean tenantId?"),
    Story("QUARANTINE", {**CEDAR, "action": "quarantine "}, RIGHT),
    Story("QUARANTINE", {**CEDAR, "action": "QURANTINE"}, SAID, "allowed are QUARANTINE"),
    Story("pipeline orders", {**CEDAR, "pipeline": "Orders"}, SAID, "did you mean orders?"),
    Story("pipeline orders, by its ARN", {**CEDAR, "pipeline": "arn:aws:sqs:eu-west-1:1:orders"},
          SAID, "there are orders"),
    Story("at most ten", {**CEDAR, "max_matches": "ten"}, SAID, "max_matches must be a number"),
    Story("switched off", {**CEDAR, "enabled": "no"}, SAID, "enabled must be true or false",
          (), ({"tenantId": "cedar"},)),
    Story("after two hours", {**CEDAR, "action": "DELAYED_REDRIVE", "delay_seconds": "2h"}, SAID,
          "delay_seconds must be a number"),
    Story("after 15 minutes", {**CEDAR, "action": "DELAYED_REDRIVE", "delay_seconds": 15},
          SAID, "delay_seconds counts seconds: 15 s",
          (), ({"tenantId": "cedar"},)),
    # Its end.
    Story("until tomorrow, with the month mistaken", {**CEDAR, "expires_at": "2026-08-22T14:00Z"},
          SAID, "it ended 2026-08-22 14:00 UTC, and matches nothing"),
    Story("until the evening of that day", {**CEDAR, "expires_at": "2026-09-22"},
          SAID, "it means 2026-09-22 00:00 UTC",
          seconds=20 * HOUR),
    Story("until 20:00 in New York", {**CEDAR, "expires_at": "2026-09-21 20:00"},
          SAID, "expires_at has no zone: it means 2026-09-21 20:00 UTC",
          seconds=8 * HOUR),
    Story("until tomorrow", {**CEDAR, "expires_at": "tomorrow"}, SAID, "ISO 8601"),
    Story("until tomorrow", {**CEDAR, "expires_at": int(NOW + DAY) * 1000}, SAID, "epoch seconds"),
    # The pattern.
    Story("cedar", {"pattern": "{'context': {'tenantId': ['cedar']}}"}, SAID, "not readable"),
    Story("cedar", {"pattern": {"tenantId": ["cedar"]}}, SAID, "no message has tenantId"),
    Story("amount 100", {"pattern": {"body": {"amount": ["100"]}}},
          SAID, "messages with the number 100 do not match", BIG, SMALL),
    Story("cedar-1, cedar-2 …", {"pattern": {"context": {"tenantId": [{"prefix": "cedar-*"}]}}},
          SAID, "* is no wildcard in prefix of context.tenantId", ({"tenantId": "cedar-1"},)),
    # Other rules.
    Story("all of cedar, imports too", CEDAR, SAID, "slow-imports goes before it, by the alphabet",
          ({"tenantId": "cedar", "type": "import"},),
          beside=({"rule_id": "slow-imports", "action": "DELAYED_REDRIVE", "delay_seconds": 60,
                   "messageType": "import", "pipeline": "orders"},)),
    Story("off for orders; the rule of all stays", {**CEDAR, "enabled": False}, RIGHT,
          "that one counts in orders",
          beside=({"rule_id": "stop-cedar", "action": "QUARANTINE", "pipeline": "*", **CEDAR},)),
]  # fmt: skip


def acts(story: Story, body: dict[str, Any]) -> bool:
    """Whether a message with this body is quarantined, whichever rule does it."""
    at = NOW + story.seconds
    letter = Letter("m", json.dumps(body), {}, {"SentTimestamp": str(int(NOW * 1000))})
    document = DocumentBuilder(ORDERS).build(letter, stamp.initial_stamp(letter), None, at)
    rows = [row for row in (story.row(), *story.beside) if row["pipeline"] in ("orders", "*")]
    rule = read_rules(rows, ORDERS).first(document.value, at, {}).rule
    return rule is not None and rule.action is Action.QUARANTINE


def said(story: Story) -> tuple[str, str]:
    """The status of the row and its reason, as the rule checker writes them."""
    row = story.row()
    edit = RuleEdit("1", "e", NOW, row["pipeline"], row["rule_id"], None, row)
    namesakes = {each["pipeline"]: each for each in story.beside if each["rule_id"] == edit.rule_id}
    others = [each for each in story.beside if each["rule_id"] != edit.rule_id]
    verdict = check(edit, {"orders": ORDERS}, NOW, namesakes, others).verdict
    assert verdict is not None
    return str(verdict.status), verdict.reason or ""


def ending(story: Story) -> Ending:
    status, reason = said(story)
    does = all(acts(story, body) for body in story.acts_on)
    spares = not any(acts(story, body) for body in story.spares)
    if status == "VALID" and does and spares and story.acts_on:
        return RIGHT
    return SAID if status == "INVALID" or (story.says and story.says in reason) else SILENT


@each_row("story", STORIES, ids=lambda story: f"{story.meant}: {story.typed}")
def test_each_story_ends_as_the_table_says(story: Story) -> None:
    assert ending(story) is story.ends
    assert story.says in said(story)[1]


def test_the_stories_are_36_and_two_are_silent() -> None:
    endings = Counter(story.ends for story in STORIES)
    assert (len(STORIES), endings[SILENT]) == (36, 2)
