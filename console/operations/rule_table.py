"""The rules table, as people read and change it, several at the same time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from deadletter.contract import EVERY_PIPELINE
from deadletter.message.strict_json import Unreadable, read_json
from deadletter.rules.refused_rule import RefusedRule
from deadletter.rules.rule import COLUMNS, VERDICT, Rule
from deadletter.rules.rulebook import RuleBook, read_rules
from deadletter.settings.pipeline import Pipeline

from . import item
from .aws import Aws, error_code

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

NOTES = ("reason", "ticket", "created_by")
"""Columns for people: why the rule exists, and who wrote it."""


class RuleTableChange(Exception):
    """The rule has changed since it was read."""


@dataclass(frozen=True, slots=True)
class StoredRule:
    """A rule in the table: its columns as JSON-ready data, and as DynamoDB holds them."""

    columns: Mapping[str, Any]
    raw: Mapping[str, Any]

    @property
    def pipeline(self) -> str:
        return str(self.columns["pipeline"])

    @property
    def rule_id(self) -> str:
        return str(self.columns["rule_id"])


class RuleTable:
    """The rules of an app. Every write is conditional on what the writer last read."""

    def __init__(self, dynamodb: DynamoDBClient, name: str) -> None:
        self._dynamodb = dynamodb
        self._name = name

    def read(self) -> Sequence[StoredRule]:
        """All rules, also those of unknown pipelines, by pipeline and id."""
        pages = self._dynamodb.get_paginator("scan").paginate(
            TableName=self._name, ConsistentRead=True
        )
        rules = (StoredRule(item.plain(raw), raw) for page in pages for raw in page["Items"])
        return sorted(rules, key=lambda rule: (rule.pipeline, rule.rule_id))

    def of_id(self, rule_id: str, keys: Sequence[str]) -> Sequence[StoredRule]:
        """The rules with this id under these keys: pipelines, or `*`. Reads no other rule."""
        found = []
        for key in dict.fromkeys(keys):
            answer = self._dynamodb.query(
                TableName=self._name,
                KeyConditionExpression="pipeline = :key AND rule_id = :id",
                ExpressionAttributeValues={":key": {"S": key}, ":id": {"S": rule_id}},
                ConsistentRead=True,
            )
            found += [StoredRule(item.plain(raw), raw) for raw in answer["Items"]]
        return found

    def put(self, columns: Mapping[str, Any], over: StoredRule | None) -> None:
        """Writes a rule over `over`, or a new rule; raises RuleTableChange."""
        condition = _unchanged(over, columns) if over else _ABSENT
        self._write(self._dynamodb.put_item, Item=item.stored(columns), **condition)

    def remove(self, rule: StoredRule) -> None:
        """Deletes a rule; raises RuleTableChange."""
        self._write(self._dynamodb.delete_item, Key=_key(rule), **_unchanged(rule, {}))

    def disable(self, rule: StoredRule, reason: str) -> None:
        """Disables a rule, also if it has changed; raises RuleTableChange if it is deleted."""
        self._write(
            self._dynamodb.update_item,
            Key=_key(rule),
            UpdateExpression="SET enabled = :enabled, #reason = :reason",
            ConditionExpression="attribute_exists(rule_id)",
            ExpressionAttributeNames={"#reason": "reason"},
            ExpressionAttributeValues={":enabled": {"BOOL": False}, ":reason": {"S": reason}},
        )

    def _write(self, call: Callable[..., object], **request: Any) -> None:
        from botocore.exceptions import ClientError

        try:
            call(TableName=self._name, **request)
        except ClientError as error:
            if error_code(error) != "ConditionalCheckFailedException":
                raise
            raise RuleTableChange from error


def table(aws: Aws, name: str) -> RuleTable:
    """The rules table of that name."""
    return RuleTable(aws.dynamodb, name)


def book(rules: Sequence[Mapping[str, Any]], settings: Pipeline) -> RuleBook:
    """The rules among these that apply to a pipeline, as its router reads them."""
    return read_rules(
        [rule for rule in rules if rule.get("pipeline") in (settings.name, EVERY_PIPELINE)],
        settings,
    )


def newly_refused(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], settings: Pipeline
) -> Iterator[RefusedRule]:
    """The rules that a pipeline refuses among `after` and not among `before`."""
    yield from (Counter(book(after, settings).refused) - Counter(book(before, settings).refused))


def canonical(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a rule in a fixed order: the form to keep and to compare.

    The verdict is left out, and a pattern typed as text is parsed.
    """
    first = ("pipeline", "rule_id", "action")
    context = sorted(columns.keys() - COLUMNS - VERDICT)
    of_rule = (column.name for column in fields(Rule))
    rest = (name for name in (*of_rule, "breadth") if name not in first and name not in VERDICT)
    names = (*first, *context, *rest, *NOTES)
    rule = {name: columns[name] for name in names if name in columns}
    if isinstance(pattern := rule.get("pattern"), str):
        with suppress(Unreadable):
            rule["pattern"] = read_json(pattern)
    return rule


_MAX_VALUE = 120  # characters of one value in a list of changes


def column_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Each column that differs, in words; both sides are in canonical form."""
    for column in [*before, *(name for name in after if name not in before)]:
        old, new = before.get(column), after.get(column)
        if old != new:
            yield f"{column}: {_value(old)} -> {_value(new)}"


def _value(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=True)
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 3]}..."


def target(rule_id: str) -> str:
    """A rule as the audit table names it."""
    return f"rule {rule_id}"


def _key(rule: StoredRule) -> dict[str, Any]:
    return {"pipeline": rule.raw["pipeline"], "rule_id": rule.raw["rule_id"]}


_ABSENT = {"ConditionExpression": "attribute_not_exists(rule_id)"}


def _unchanged(rule: StoredRule, new: Mapping[str, Any]) -> dict[str, Any]:
    """The condition that a rule, its verdict aside, has not changed."""
    old = {name: value for name, value in rule.raw.items() if name not in VERDICT}
    # A known column that was added since is a change too.
    names = sorted({*old, *new, *COLUMNS})
    halves = [
        f"#c{number} = :c{number}" if name in old else f"attribute_not_exists(#c{number})"
        for number, name in enumerate(names)
    ]
    return {
        "ConditionExpression": " AND ".join(halves),
        "ExpressionAttributeNames": {f"#c{number}": name for number, name in enumerate(names)},
        "ExpressionAttributeValues": {
            f":c{number}": old[name] for number, name in enumerate(names) if name in old
        },
    }
