"""The idempotency collisions of a pipeline: one row of the circuits table, beside its circuits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, StillUnprocessed, condition_failed, refusal
from deadletter.aws.table import batch_get, plain, stored, stored_number
from deadletter.contract import CIRCUITS, COLLISIONS_ROW, MINUTE, ROWS_KEPT
from deadletter.processing.collisions import (
    WINDOW,
    CollisionStore,
    CollisionsUnavailable,
    Counts,
    KnownCollisions,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

MESSAGES, COLLIDED = "n_", "c_"
"""Prefixes of the counters of a minute: any number of processes add to them at once."""


class DynamoDBCollisions(CollisionStore):
    """The collisions of one pipeline."""

    def __init__(self, client: DynamoDBClient, table: str, pipeline: str) -> None:
        self._client: Any = client
        self._table = table
        self._key = stored({CIRCUITS.partition: pipeline, CIRCUITS.sort: COLLISIONS_ROW})
        self._known: KnownCollisions | None = None

    def read(self) -> KnownCollisions | None:
        """What is known; None if the pipeline has no row. Raises CollisionsUnavailable."""
        try:
            items = batch_get(self._client, self._table, [self._key])
        except (*AWS_ERRORS, StillUnprocessed) as error:
            raise self._unavailable(error) from error
        return known_from(items[0]) if items else None

    def count(self, counts: Counts, paths: tuple[str, ...], now: float) -> KnownCollisions:
        sets = ["since = if_not_exists(since, :now)", "#ttl = :ttl"]
        values: dict[str, Any] = {":now": stored_number(now), ":ttl": int(now + ROWS_KEPT)}
        if paths:
            sets.append("#paths = :paths")
            values[":paths"] = json.dumps(paths, ensure_ascii=False)
        adds = []
        for minute, (messages, collided) in counts.items():
            for prefix, number in ((MESSAGES, messages), (COLLIDED, collided)):
                if number:
                    adds.append(f"{prefix}{minute} :{prefix}{minute}")
                    values[f":{prefix}{minute}"] = number
        stale = self._stale(counts, now)
        expression = "SET " + ", ".join(sets)
        expression += f" ADD {', '.join(adds)}" if adds else ""
        expression += f" REMOVE {', '.join(stale)}" if stale else ""
        names = {"#ttl": "ttl", **({"#paths": "paths"} if paths else {})}
        try:
            answer = self._client.update_item(
                TableName=self._table,
                Key=self._key,
                UpdateExpression=expression,
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=stored(values),
                ReturnValues="ALL_NEW",
            )
        except AWS_ERRORS as error:
            raise self._unavailable(error) from error
        self._known = known_from(plain(answer["Attributes"]))
        return self._known

    def note_bad_claim(self, name: str, now: float) -> None:
        """Keep the name of a claim that could not be read: only consumers read claims.

        It never raises: the next consumer that meets it tries again.
        """
        with suppress(*AWS_ERRORS):
            self._client.update_item(
                TableName=self._table,
                Key=self._key,
                UpdateExpression="SET bad_claim = :name, bad_claim_at = :now, #ttl = :ttl",
                ExpressionAttributeNames={"#ttl": "ttl"},
                ExpressionAttributeValues=stored(
                    {":name": name, ":now": stored_number(now), ":ttl": int(now + ROWS_KEPT)}
                ),
            )

    def stop(self, until: float, now: float) -> bool:
        try:
            answer = self._client.update_item(
                TableName=self._table,
                Key=self._key,
                UpdateExpression="SET stopped_until = :until",
                ConditionExpression="attribute_not_exists(stopped_until) OR stopped_until < :until",
                ExpressionAttributeValues=stored({":until": stored_number(until)}),
                ReturnValues="ALL_OLD",
            )
        except AWS_ERRORS as error:
            if condition_failed(error):
                return False
            raise self._unavailable(error) from error
        before = known_from(plain(answer.get("Attributes", {})))
        return not before.is_stopped(now)

    def _stale(self, counts: Counts, now: float) -> list[str]:
        """The counters of minutes that no window holds any more."""
        oldest = int((now - WINDOW) // MINUTE)
        known = self._known.counts if self._known is not None else {}
        old = [minute for minute in sorted(known) if minute < oldest and minute not in counts]
        return [f"{prefix}{minute}" for minute in old for prefix in (MESSAGES, COLLIDED)]

    def _unavailable(self, error: Exception) -> CollisionsUnavailable:
        return CollisionsUnavailable(refusal(error, "dynamodb", self._table))


def known_from(item: Mapping[str, Any]) -> KnownCollisions:
    """What a row says. A malformed part says nothing."""
    messages, collided = _minutes(item, MESSAGES), _minutes(item, COLLIDED)
    return KnownCollisions(
        since=_number(item.get("since")),
        counts={
            minute: (messages.get(minute, 0), collided.get(minute, 0))
            for minute in messages.keys() | collided.keys()
        },
        stopped_until=_number(item.get("stopped_until")),
        paths=_paths(item.get("paths")),
        bad_claim=item["bad_claim"] if isinstance(item.get("bad_claim"), str) else "",
        bad_claim_at=_number(item.get("bad_claim_at")),
    )


def _minutes(item: Mapping[str, Any], prefix: str) -> dict[int, int]:
    return {
        int(name.removeprefix(prefix)): int(value)
        for name, value in item.items()
        if name.startswith(prefix)
        and name.removeprefix(prefix).isdecimal()
        and isinstance(value, Decimal)
    }


def _number(value: Any) -> float:
    return float(value) if isinstance(value, Decimal) else 0.0


def _paths(value: Any) -> tuple[str, ...]:
    try:
        paths = json.loads(value)
    except (TypeError, ValueError, RecursionError):
        return ()
    if not isinstance(paths, list):
        return ()
    return tuple(path for path in paths if isinstance(path, str))
