"""Edits of rules and endpoints, as the streams of their tables show them, and what comes of them.

Verdicts on rules are written onto their items, versions and counts into the messages table, and
the history of both into the audit table. What a rule may name is in the registrations of pipelines.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from deadletter.aws.dynamodb import DynamoDBClient, DynamoDBTable, plain
from deadletter.aws.errors import Failed, member, ours
from deadletter.aws.table import PARTITION, SORT, begins, parts, unchanged
from deadletter.contract import (
    AUDIT,
    BOOK_ROW,
    CHANGES,
    ENDPOINTS,
    EVERY_PIPELINE,
    RULES,
    Partition,
    book_partition,
    rule_counts_key,
)
from deadletter.rules.checker import (
    CheckedBatch,
    CheckUnavailable,
    RuleEdit,
    RuleVerdict,
    pipeline_from_terms,
)
from deadletter.settings.json_fields import BadSettings

if TYPE_CHECKING:
    from mypy_boto3_ssm import SSMClient

    from deadletter.settings.pipeline import Pipeline
    from deadletter.webhook.endpoint import EndpointEdit

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


class DynamoDBCheckedRules:
    """The rules table: verdicts are written there, and rules found beside an edited one."""

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
        return self._table.changed(
            (verdict.pipeline, verdict.rule_id),
            {name: value for name, value in outcome.items() if value is not None},
            removes=[name for name, value in outcome.items() if value is None],
            # Every column is still as it was judged: a newer edit has its own verdict.
            when=unchanged(verdict.judged, [*verdict.judged, *verdict.absent]),
        )

    def of(self, rule_id: str, keys: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
        with ours(CheckUnavailable):
            items = self._table.get_many([(key, rule_id) for key in keys])
        return {key: item for (key, _), item in items.items()}

    def under(self, key: str) -> Sequence[Mapping[str, Any]]:
        with ours(CheckUnavailable):
            return self._table.query(key)


class DynamoDBBookVersions:
    """The versions of rules, and what they have matched, in the messages table."""

    def __init__(self, client: DynamoDBClient, messages_table: str) -> None:
        self._table = DynamoDBTable(client, messages_table)

    def write(self, pipeline: str, version: str) -> None:
        with ours(CheckUnavailable):
            self._table.change((book_partition(pipeline), BOOK_ROW), {"version": version})

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


@dataclass(eq=False, repr=False)
class _Audited:
    """A history in the audit table. Each change is kept for `keep_seconds`."""

    client: DynamoDBClient
    table: str
    clock: Callable[[], float]
    keep_seconds: float

    def __post_init__(self) -> None:
        self._table = DynamoDBTable(self.client, self.table, AUDIT)

    def _put(self, partition: str, time: str, change: RuleEdit | EndpointEdit, **more: Any) -> None:
        """Keep a change; keeping one twice keeps it once."""
        images = {"old": change.old, "new": change.new}
        self._table.put(
            {
                AUDIT.partition: partition,
                # Padded, because sequence numbers differ in length and are sorted as text.
                AUDIT.sort: f"{time}#{change.sequence:0>{LONGEST_SEQUENCE}}",
                "event_id": change.event_id,
                "ttl": int(self.clock() + self.keep_seconds),
                **{name: image for name, image in images.items() if image is not None},
                **more,
            }
        )


class DynamoDBHistory(_Audited):
    """The history of rules."""

    def keep(self, change: RuleEdit) -> None:
        at = datetime.fromtimestamp(change.at, UTC).isoformat(timespec="seconds")
        with ours(CheckUnavailable):
            self._put(
                f"{change.pipeline}#{change.rule_id}",
                at,
                change,
                **{CHANGES.partition: change.pipeline, str(CHANGES.sort): int(change.at)},
                at=at,
                rule_id=change.rule_id,
            )


_OF_ENDPOINTS = "#endpoints"
"""The partition of all of them: they are few, and no person may write here."""


def endpoint_edits(records: Sequence[Mapping[str, Any]], secrets: str) -> Iterator[EndpointEdit]:
    """The edits in an event of the stream, in order, but for mere pauses."""
    # Endpoints are edited rarely.
    from deadletter.webhook.endpoint import EndpointEdit, edit_facts

    for record in records:
        change = record["dynamodb"]
        keys = plain(change["Keys"])
        old, new = (image(change.get(name)) for name in ("OldImage", "NewImage"))
        if (facts := edit_facts(old, new, secrets)) is not None:
            yield EndpointEdit(
                tenant=keys[ENDPOINTS.partition],
                endpoint=keys[ENDPOINTS.sort],
                at=float(change["ApproximateCreationDateTime"]),
                sequence=change["SequenceNumber"],
                event_id=record["eventID"],
                old=facts[0],
                new=facts[1],
            )


@dataclass(eq=False, repr=False)
class DynamoDBEndpointHistory(_Audited):
    """The changes of endpoints. `secrets` is what the names of their secrets begin with."""

    secrets: str

    def keep(self, records: Sequence[Mapping[str, Any]]) -> CheckedBatch:
        """Keep the edits in an event, in order."""
        for edit in endpoint_edits(records, self.secrets):
            try:
                self._put(
                    _OF_ENDPOINTS,
                    f"{int(edit.at):011}",
                    edit,
                    **{CHANGES.partition: EVERY_PIPELINE, str(CHANGES.sort): int(edit.at)},
                    endpoint=f"{edit.tenant}/{edit.endpoint}",
                )
            except Failed as error:
                return CheckedBatch((), edit.sequence, str(error))
        return CheckedBatch(())


REMEMBERED = 180.0
"""Seconds that the terms are used before they are read again: only a deployment changes them."""

FRESH = 5.0
"""Seconds that the terms count as fresh: a flood of bad rules must not exhaust SSM."""


class SsmPipelines:
    """The `terms` in the parameters under `folder`, one parameter per pipeline.

    `clock` returns epoch seconds.
    """

    def __init__(self, client: SSMClient, folder: str, clock: Callable[[], float]) -> None:
        self._client = client
        self._folder = folder
        self._clock = clock
        self._read_at = float("-inf")
        self._pipelines: Mapping[str, Pipeline] = {}

    def pipelines(self, *, fresh: bool = False) -> Mapping[str, Pipeline]:
        now = self._clock()
        if not 0 <= now - self._read_at < (FRESH if fresh else REMEMBERED):
            self._pipelines = self._read()
            self._read_at = now
        return self._pipelines

    def _read(self) -> Mapping[str, Pipeline]:
        pages = self._client.get_paginator("get_parameters_by_path").paginate(Path=self._folder)
        try:
            with ours(CheckUnavailable, "ssm", "the registrations"):
                parameters = [each for page in pages for each in member(page, "Parameters")]
            named = [(str(each["Name"]).rpartition("/")[2], each["Value"]) for each in parameters]
            return {
                name: pipeline_from_terms(name, json.loads(value).get("terms"))
                for name, value in named
            }
        except (ValueError, AttributeError, BadSettings) as error:
            raise CheckUnavailable(f"the registrations: {error}") from error
