"""Edits of the rules table: out of its stream, with the verdict back onto the item."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, code, condition_failed
from deadletter.aws.table import changes, plain, stored
from deadletter.contract import AUDIT, RULES
from deadletter.rules.checker import (
    CheckedBatch,
    CheckUnavailable,
    RuleChange,
    RuleEdit,
    RuleVerdict,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


# Digits of a sequence number, says the API's model.
_LONGEST_SEQUENCE = 40


def edits(records: Sequence[Mapping[str, Any]]) -> list[RuleEdit]:
    """The edits in an event of the stream, in their order."""
    return [_edit(one) for one in records]


def response(checked: CheckedBatch) -> dict[str, Any]:
    """What Lambda is told: to come again with the edit that failed and those after it."""
    failed = [checked.failed] if checked.failed else []
    return {"batchItemFailures": [{"itemIdentifier": one} for one in failed]}


def _edit(record: Mapping[str, Any]) -> RuleEdit:
    change = record["dynamodb"]
    keys = plain(change["Keys"])
    return RuleEdit(
        sequence=change["SequenceNumber"],
        event_id=record["eventID"],
        at=float(change["ApproximateCreationDateTime"]),
        pipeline=keys[RULES.partition],
        rule_id=keys[RULES.sort],
        old=_image(change.get("OldImage")),
        new=_image(change.get("NewImage")),
    )


def _image(image: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return None if image is None else plain({name: _binary(one) for name, one in image.items()})


def _binary(value: Mapping[str, Any]) -> dict[str, Any]:
    """An attribute value as boto3 gives it: in an event, binaries are base64 text."""
    [(kind, inner)] = value.items()
    match kind:
        case "B":
            return {kind: base64.b64decode(inner)}
        case "BS":
            return {kind: [base64.b64decode(one) for one in inner]}
        case "L":
            return {kind: [_binary(one) for one in inner]}
        case "M":
            return {kind: {name: _binary(one) for name, one in inner.items()}}
    return {kind: inner}


class DynamoDBVerdicts:
    """Writes verdicts into the rules table."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client: Any = client
        self._table = table

    def write(self, verdict: RuleVerdict) -> bool:
        # The newer edit wins: each half says that one column is as it was judged.
        judged = dict(enumerate(verdict.judged.items()))
        same = [f"#j{number} = :j{number}" for number in judged]
        missing = [f"attribute_not_exists(#a{number})" for number in range(len(verdict.absent))]
        names = {
            **{f"#j{number}": name for number, (name, _) in judged.items()},
            **{f"#a{number}": name for number, name in enumerate(verdict.absent)},
        }
        outcome = {
            "status": str(verdict.status),
            "checked_at": verdict.at,
            "status_reason": verdict.reason,
        }
        try:
            self._client.update_item(
                TableName=self._table,
                Key=stored({RULES.partition: verdict.pipeline, RULES.sort: verdict.rule_id}),
                **changes(
                    {name: value for name, value in outcome.items() if value is not None},
                    removes=[name for name, value in outcome.items() if value is None],
                    condition=" AND ".join(same + missing),
                    values={f":j{number}": value for number, (_, value) in judged.items()},
                    names=names,
                ),
            )
        except AWS_ERRORS as error:
            if condition_failed(error):
                return False
            raise CheckUnavailable(f"the rules table: {code(error)}") from error
        return True


class DynamoDBHistory:
    """Keeps changes in the audit table, each for `keep_seconds`."""

    def __init__(
        self,
        client: DynamoDBClient,
        table: str,
        clock: Callable[[], float],
        keep_seconds: float,
    ) -> None:
        self._client: Any = client
        self._table = table
        self._clock = clock
        self._keep_seconds = keep_seconds

    def keep(self, change: RuleChange) -> None:
        images = {"old": change.old, "new": change.new}
        item = {
            AUDIT.partition: f"{change.pipeline}#{change.rule_id}",
            # Numbers of the stream are not all of one length.
            AUDIT.sort: f"{change.at}#{change.sequence:0>{_LONGEST_SEQUENCE}}",
            "at": change.at,
            "event_id": change.event_id,
            "ttl": int(self._clock() + self._keep_seconds),
            **{name: image for name, image in images.items() if image is not None},
        }
        try:
            self._client.put_item(TableName=self._table, Item=stored(item))
        except AWS_ERRORS as error:
            raise CheckUnavailable(f"the audit table: {code(error)}") from error
