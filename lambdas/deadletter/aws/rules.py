"""The rules in DynamoDB, as on-call engineers edit them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deadletter.aws.dynamodb import DynamoDBClient, DynamoDBTable
from deadletter.aws.errors import Failed, ours
from deadletter.contract import BOOK_ROW, EVERY_PIPELINE, MINUTE, RULES, book_partition
from deadletter.rules.rulebook import RulesUnavailable

REMEMBERED = 5.0
"""Seconds that rules are used before it is asked whether they have changed."""

REMEMBERED_AT_MOST = 10 * MINUTE
"""Seconds after which the rules are read anyway: the checker that notes changes may not run."""


@dataclass(frozen=True, slots=True)
class _KnownRules:
    """Rules, when they were read and last found unchanged, and the versions before they were read.

    `versions` is None if they could not be read.
    """

    items: Sequence[Mapping[str, Any]]
    versions: tuple[str, ...] | None
    read_at: float
    asked_at: float


@dataclass(eq=False, repr=False)
class DynamoDBRules:
    """The stored rules, read consistently when they have changed.

    A book of a thousand rules is half a megabyte, and routers need it all day: at most once in five
    seconds they read its versions, two small rows that the rule checker writes in `messages_table`.
    """

    client: DynamoDBClient
    table: str
    messages_table: str
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        self._table = DynamoDBTable(self.client, self.table, RULES)
        self._letters = DynamoDBTable(self.client, self.messages_table)
        self._known: dict[str, _KnownRules] = {}

    def items(self, pipeline: str) -> Sequence[Mapping[str, Any]]:
        now = self.clock()
        known = self._known.get(pipeline)
        if known is not None and 0 <= now - known.asked_at < REMEMBERED:
            return known.items
        # Before the rules: an edit between the two is read now, and noted as unread.
        versions = self._versions(pipeline)
        if known is not None and _is_unchanged(known, versions, now):
            self._known[pipeline] = replace(known, asked_at=now)
            return known.items
        items = self._query(pipeline)
        self._known[pipeline] = _KnownRules(items, versions, now, now)
        return items

    def _versions(self, pipeline: str) -> tuple[str, ...] | None:
        keys = [(book_partition(name), BOOK_ROW) for name in (pipeline, EVERY_PIPELINE)]
        try:
            rows = self._letters.get_many(keys)
        except Failed:
            # Without them the rules are read as often as they would have been asked for.
            return None
        return tuple(str(rows.get(key, {}).get("version", "")) for key in keys)

    def _query(self, pipeline: str) -> Sequence[Mapping[str, Any]]:
        with ours(RulesUnavailable):
            return [item for key in (pipeline, EVERY_PIPELINE) for item in self._table.query(key)]


def _is_unchanged(known: _KnownRules, versions: tuple[str, ...] | None, now: float) -> bool:
    is_recent = 0 <= now - known.read_at < REMEMBERED_AT_MOST
    return is_recent and versions is not None and versions == known.versions
