"""The rules table, read and changed by a person who may not be the only one doing so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from deadletter.contract import EVERY_PIPELINE
from deadletter.message.strict_json import Unreadable, read_json
from deadletter.rules.rule import COLUMNS, VERDICT, Rule
from deadletter.rules.rulebook import RefusedRule, RuleBook, read_rules
from deadletter.settings.pipeline import Pipeline

from . import item
from .aws import Aws, error_code
from .problem import Exit, Problem

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

NOTES = ("reason", "ticket", "created_by")
"""Columns for people: why there is a rule, and who wants it."""


class RuleTableChange(Exception):
    """Somebody else has changed the rule since it was read."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One rule in the table: its columns as JSON-ready data, and as DynamoDB holds them."""

    columns: Mapping[str, Any]
    raw: Mapping[str, Any]

    @property
    def pipeline(self) -> str:
        return str(self.columns["pipeline"])

    @property
    def rule_id(self) -> str:
        return str(self.columns["rule_id"])


class RuleTable:
    """The rules of an app. Every write is conditional on what its writer last saw."""

    def __init__(self, dynamodb: DynamoDBClient, name: str) -> None:
        self._dynamodb = dynamodb
        self._name = name

    def read(self) -> Sequence[Stored]:
        """All rules there are, also those of pipelines that do not exist, by pipeline and id."""
        pages = self._dynamodb.get_paginator("scan").paginate(
            TableName=self._name, ConsistentRead=True
        )
        found = (Stored(item.plain(raw), raw) for page in pages for raw in page["Items"])
        return sorted(found, key=lambda one: (one.pipeline, one.rule_id))

    def put(self, columns: Mapping[str, Any], over: Stored | None) -> None:
        """Writes a rule in the place of `over`, or of nothing; raises Changed."""
        condition = _unchanged(over, columns) if over else _ABSENT
        self._write(self._dynamodb.put_item, Item=item.stored(columns), **condition)

    def remove(self, rule: Stored) -> None:
        """Deletes a rule; raises Changed."""
        self._write(self._dynamodb.delete_item, Key=_key(rule), **_unchanged(rule, {}))

    def disable(self, rule: Stored, reason: str) -> None:
        """Switches a rule off, whatever else was changed on it; raises Changed if it is gone."""
        self._write(
            self._dynamodb.update_item,
            Key=_key(rule),
            UpdateExpression="SET enabled = :off, #reason = :reason",
            ConditionExpression="attribute_exists(rule_id)",
            ExpressionAttributeNames={"#reason": "reason"},
            ExpressionAttributeValues={":off": {"BOOL": False}, ":reason": {"S": reason}},
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
    """The rules table of that name; Problem if the app has none."""
    if not name:
        raise Problem("This app has no rules table: deploy it again.", Exit.ABSENT)
    return RuleTable(aws.dynamodb, name)


def book(rules: Sequence[Mapping[str, Any]], settings: Pipeline) -> RuleBook:
    """Of these rules the ones that hold for a pipeline, as its router reads them."""
    return read_rules(
        [one for one in rules if one.get("pipeline") in (settings.name, EVERY_PIPELINE)], settings
    )


def spoilt(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], settings: Pipeline
) -> Iterator[RefusedRule]:
    """What a pipeline would refuse with all of `after`, and does not with the `before` alone."""
    yield from (Counter(book(after, settings).refused) - Counter(book(before, settings).refused))


def told(columns: Mapping[str, Any]) -> dict[str, Any]:
    """What a rule says, in a fixed order, whoever wrote it how: the form to keep and compare.

    The verdict is left out, and a pattern that was typed as text is the object it stands for.
    """
    first = ("pipeline", "rule_id", "action")
    context = sorted(columns.keys() - COLUMNS - VERDICT)
    rest = (one.name for one in fields(Rule) if one.name not in first)
    said = {one: columns[one] for one in (*first, *context, *rest, *NOTES) if one in columns}
    if isinstance(pattern := said.get("pattern"), str):
        with suppress(Unreadable):
            said["pattern"] = read_json(pattern)
    return said


def _key(rule: Stored) -> dict[str, Any]:
    return {"pipeline": rule.raw["pipeline"], "rule_id": rule.raw["rule_id"]}


_ABSENT = {"ConditionExpression": "attribute_not_exists(rule_id)"}


def _unchanged(rule: Stored, new: Mapping[str, Any]) -> dict[str, Any]:
    """The condition that a rule still says what it said, its verdict aside."""
    said = {name: value for name, value in rule.raw.items() if name not in VERDICT}
    # A column that was added since counts as a change too, if it is one we know of.
    names = sorted({*said, *new, *COLUMNS})
    halves = [
        f"#c{number} = :c{number}" if name in said else f"attribute_not_exists(#c{number})"
        for number, name in enumerate(names)
    ]
    return {
        "ConditionExpression": " AND ".join(halves),
        "ExpressionAttributeNames": {f"#c{number}": name for number, name in enumerate(names)},
        "ExpressionAttributeValues": {
            f":c{number}": said[name] for number, name in enumerate(names) if name in said
        },
    }
