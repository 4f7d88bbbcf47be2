"""Edits of the rules table: read from its stream; their verdicts are written onto the items."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from deadletter.aws.dynamodb import DynamoDBTable, plain
from deadletter.aws.errors import Conflict, ours
from deadletter.aws.table import PARTITION, SORT, begins, parts, unchanged
from deadletter.contract import (
    AUDIT,
    BOOK_ROW,
    CHANGES,
    RULES,
    Partition,
    book_partition,
    rule_counts_key,
)
from deadletter.rules.checker import (
    CheckUnavailable,
    RuleChange,
    RuleEdit,
    RuleVerdict,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


LONGEST_SEQUENCE = 40
"""Digits of the longest sequence number, by the model of the DynamoDB Streams API."""


def edits(records: Sequence[Mapping[str, Any]]) -> list[RuleEdit]:
    """The edits in an event of the stream, in order."""
    return [_edit(record) for record in records]


def _edit(record: Mapping[str, Any]) -> RuleEdit:
    change = record["dynamodb"]
    keys = plain(change["Keys"])
    return RuleEdit(
        sequence=change["SequenceNumber"],
        event_id=record["eventID"],
        at=float(change["ApproximateCreationDateTime"]),
        pipeline=keys[RULES.partition],
        rule_id=keys[RULES.sort],
        old=image(change.get("OldImage")),
        new=image(change.get("NewImage")),
    )


def image(seen: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """An item as it was, in plain data; None if there was none."""
    if seen is None:
        return None
    return plain({name: _attribute_value(value) for name, value in seen.items()})


def _attribute_value(value: Mapping[str, Any]) -> dict[str, Any]:
    """An attribute value as boto3 returns it. In an event, binaries are base64 text."""
    [(kind, inner)] = value.items()
    match kind:
        case "B":
            return {kind: base64.b64decode(inner)}
        case "BS":
            return {kind: [base64.b64decode(text) for text in inner]}
        case "L":
            return {kind: [_attribute_value(item) for item in inner]}
        case "M":
            return {kind: {name: _attribute_value(item) for name, item in inner.items()}}
    return {kind: inner}


class DynamoDBVerdicts:
    """Writes verdicts into the rules table."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._table = DynamoDBTable(client, table, RULES)

    @ours(CheckUnavailable)
    def write(self, verdict: RuleVerdict) -> bool:
        outcome = {
            "status": str(verdict.status),
            "checked_at": verdict.at,
            "status_reason": verdict.reason,
            "version": verdict.version,
        }
        try:
            self._table.change(
                (verdict.pipeline, verdict.rule_id),
                {name: value for name, value in outcome.items() if value is not None},
                removes=[name for name, value in outcome.items() if value is None],
                # Every column is still as it was judged: a newer edit has its own verdict.
                when=unchanged(verdict.judged, [*verdict.judged, *verdict.absent]),
            )
        except Conflict:
            return False
        return True


class DynamoDBNamesakes:
    """Finds rules in the rules table: those with the same id, and those of a pipeline."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._table = DynamoDBTable(client, table, RULES)

    def of(self, rule_id: str, keys: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
        with ours(CheckUnavailable):
            items = self._table.get_many([(key, rule_id) for key in keys])
        return {key: item for (key, _), item in items.items()}

    def under(self, key: str) -> Sequence[Mapping[str, Any]]:
        with ours(CheckUnavailable):
            return self._table.query(key)


class DynamoDBBookVersions:
    """The versions of rules, in the letters table."""

    def __init__(self, client: DynamoDBClient, letters_table: str) -> None:
        self._table = DynamoDBTable(client, letters_table)

    def write(self, pipeline: str, version: str) -> None:
        with ours(CheckUnavailable):
            self._table.change((book_partition(pipeline), BOOK_ROW), {"version": version})


class DynamoDBVersionCounts:
    """What versions of rules have matched, in the letters table."""

    def __init__(self, client: DynamoDBClient, letters_table: str) -> None:
        self._table = DynamoDBTable(client, letters_table)

    def forget(self, pipelines: Iterable[str], rule_id: str, keep: str | None) -> None:
        kept = None if keep is None else rule_counts_key(rule_id, keep)
        with ours(CheckUnavailable):
            for pipeline in pipelines:
                partition = Partition.MATCHES.of(pipeline)
                items = self._table.query(partition, begins(SORT, rule_id), only=(PARTITION, SORT))
                keys = [str(item[SORT]) for item in items]
                # Before versions, the key was the rule's id alone.
                gone = [key for key in keys if _rule_of(key) == rule_id or key == rule_id]
                for part in parts([key for key in gone if key != kept], 25):
                    self._table.write_many(deletes=[(partition, key) for key in part])


def _rule_of(counts_key: str) -> str:
    return counts_key.rpartition("#")[0]


class DynamoDBHistory:
    """The history of rules in the audit table. Each change is kept for `keep_seconds`."""

    def __init__(
        self,
        client: DynamoDBClient,
        table: str,
        clock: Callable[[], float],
        keep_seconds: float,
    ) -> None:
        self._table = DynamoDBTable(client, table, AUDIT)
        self._clock = clock
        self._keep_seconds = keep_seconds

    def keep(self, change: RuleChange) -> None:
        images = {"old": change.old, "new": change.new}
        item = {
            AUDIT.partition: f"{change.pipeline}#{change.rule_id}",
            # Padded, because sequence numbers differ in length and are sorted as text.
            AUDIT.sort: f"{change.at}#{change.sequence:0>{LONGEST_SEQUENCE}}",
            "at": change.at,
            CHANGES.partition: change.pipeline,
            str(CHANGES.sort): int(datetime.fromisoformat(change.at).timestamp()),
            "rule_id": change.rule_id,
            "event_id": change.event_id,
            "ttl": int(self._clock() + self._keep_seconds),
            **{name: image for name, image in images.items() if image is not None},
        }
        with ours(CheckUnavailable):
            self._table.put(item)
