"""The ledger in DynamoDB: one row per letter, by its origin id."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from deadletter.aws.dynamodb import PipelineRows, number_in
from deadletter.aws.errors import Conflict, Failed, NoteRow, ignore, ours, row_name
from deadletter.aws.table import (
    SORT,
    Change,
    Key,
    absent,
    at_most,
    below,
    kept,
    present,
    stored_number,
)
from deadletter.contract import CAUSES, Partition
from deadletter.failure.failure import Failure
from deadletter.failure.ledger import (
    LIVES,
    NO_COUNTS,
    PARKED,
    AboutLetter,
    LedgerRow,
    LedgerUnavailable,
    RecordsConflict,
    RecordsUnavailable,
    Recovery,
    RuleCounts,
    row_from_item,
    slot,
    uses_attempt,
)
from deadletter.message import stamp as stamps
from deadletter.message.stamp import Stamp

_ROW = "ledger"


@dataclass(eq=False, repr=False)
class DynamoDBLedger(PipelineRows):
    """The rows of one pipeline, read consistently where they may not be `lagging`.

    `keep_seconds` is how long a row stays after its last write. `lives` is the number of
    lives whose failures a row keeps: at least as many as make a letter poison.
    """

    clock: Callable[[], float]
    keep_seconds: float
    lives: int = LIVES
    note_bad_row: NoteRow = ignore

    def rows(self, origins: Sequence[str], *, lagging: bool = False) -> Mapping[str, LedgerRow]:
        keys = {self._key(origin): origin for origin in origins}
        items = self._get(list(keys), lagging=lagging)
        rows = {key: row_from_item(item) for key, item in items.items()}
        for key, row in rows.items():
            if row.unreadable:
                self.note_bad_row(row_name(self._table.name, *key))
        return {keys[key]: row for key, row in rows.items()}

    def erase(self, ids: Sequence[str]) -> None:
        """Delete the rows of these ids, of first lives or of copies; a missing one is no error."""
        with ours(LedgerUnavailable):
            self._table.write_many(deletes=[self._key(each) for each in ids])

    def matches(self, keys: Sequence[str]) -> Mapping[str, int]:
        items = self._get([self._matches_key(key) for key in keys])
        for key, item in items.items():
            if not _is_count(item.get(_MATCHED, 0)):
                self.note_bad_row(row_name(self._table.name, *key))
        return {item[SORT]: _count(item.get(_MATCHED, 0)) for item in items.values()}

    def all_counts(self) -> Mapping[str, RuleCounts]:
        """What each version of a rule has matched so far, by `rule_counts_key`."""
        with ours(LedgerUnavailable):
            items = self._table.query(Partition.MATCHES.of(self.pipeline))
        return {item[SORT]: _rule_counts(item) for item in items}

    def counts(self, keys: Sequence[str]) -> Mapping[str, RuleCounts]:
        """The same of these versions alone."""
        items = self._get([self._matches_key(key) for key in keys]).values()
        return {item[SORT]: _rule_counts(item) for item in items}

    @ours(RecordsUnavailable)
    def store_stamps(self, stamps_by_id: Mapping[str, Stamp]) -> None:
        expires = self._expires()
        # No puts: the consumer may have written failures into these rows already.
        facts = {
            self._key(message_id): {"stamp": stamps.attribute(stamp).value, "ttl": expires}
            for message_id, stamp in stamps_by_id.items()
        }
        try:
            if len(facts) == 1:
                self._table.change(*next(iter(facts.items())))
            else:
                self._table.together(changes=[Change(key, sets) for key, sets in facts.items()])
        except Conflict as conflict:
            raise RecordsConflict(str(conflict)) from conflict

    def failed(
        self, origin: str, failure: Failure, about: AboutLetter | None = None, *, anew: bool = False
    ) -> None:
        # Only a consumer writes failures.
        from deadletter.failure.cause_index import entry_change

        tried = {"tried": failure.attempt} if uses_attempt(failure) else {}
        entry = entry_change(self.pipeline, origin, failure, about)
        name, item = slot(failure, self.lives), _without_floats(failure.to_data())
        facts = {**tried, **_without_floats(entry.sets)}
        first = slot(replace(failure, receive=1), self.lives)
        # What is to be told anew, a stale read may not know yet.
        is_like_others = not anew and name != first
        if is_like_others and self._knows(origin, (name, first), item, facts, entry.removes):
            return
        # Unconditional: this failure happened, whatever the row says.
        with ours(RecordsUnavailable):
            self._table.change(
                self._key(origin),
                {name: item, "ttl": self._expires(), **facts, **kept(_without_floats(entry.keeps))},
                removes=entry.removes,
            )

    def _knows(
        self,
        origin: str,
        slots: Sequence[str],
        failure: Mapping[str, Any],
        facts: Mapping[str, Any],
        removes: Sequence[str],
    ) -> bool:
        """Whether the row ends with this failure of an earlier receive of this life.

        `slots` are the life's, that of its later receives first.

        Most messages fail alike at each receive, and a read costs a tenth of the write and of its
        copy in the index. A stale read only lets the failure be written again.
        """
        key = self._key(origin)
        try:
            row = self._table.get_many([key], lagging=True).get(key, {})
        except Failed:
            return False
        maps = (each for each in map(row.get, slots) if isinstance(each, dict))
        last = next((each for each in maps if each.get("attempt") == failure["attempt"]), {})
        return (
            _of_any_receive(last) == _of_any_receive(failure)
            and all(row.get(fact) == value for fact, value in facts.items())
            and not any(fact in row for fact in removes)
        )

    @ours(RecordsUnavailable)
    def recovered(
        self, origin: str, attempt: int, at: float, how: Recovery = Recovery.PROCESSED
    ) -> bool:
        #  no recovery ──life 1──► life 1 ──life 3──► life 3 ──life 2, or life 3 again──► life 3
        recovery: dict[str, Any] = {
            "recovered_at": stored_number(at),
            "recovered_attempt": Decimal(attempt),
            "recovered_as": str(how),
        }
        try:
            overwritten = self._table.change(
                self._key(origin),
                {"ttl": self._expires(), **recovery},
                removes=[CAUSES.partition],
                when=absent("recovered_at") | below("recovered_attempt", attempt),
                shown="UPDATED_OLD",
            )
        except Conflict as conflict:
            row = conflict.item or {}
            if CAUSES.partition in row:
                # A copy of the letter has failed since another one was processed.
                self.leave_index(origin)
            # The SDK repeats a write whose answer was lost: the row may hold this recovery.
            return all(row.get(name) == value for name, value in recovery.items())
        return "recovered_at" not in overwritten

    @ours(RecordsUnavailable)
    def parked(self, origin: str, attempt: int, at: float, reason: str) -> None:
        end = {
            "ended_attempt": Decimal(attempt),
            "ended_at": stored_number(at),
            "ended_as": PARKED,
            "ended_reason": reason,
        }
        # A later life may have ended meanwhile.
        self._table.changed(
            self._key(origin),
            {"ttl": self._expires(), **end, **_parking(at, reason)},
            removes=[CAUSES.partition, "parked_rule"],
            when=absent("ended_attempt") | at_most("ended_attempt", attempt),
        )

    def note_parked(self, origin: str, at: float, reason: str, rule: str) -> None:
        parking = {**_parking(at, reason), **({"parked_rule": rule} if rule else {})}
        removes = [CAUSES.partition, *([] if rule else ["parked_rule"])]
        with ours(RecordsUnavailable):
            self._table.change(
                self._key(origin), {"ttl": self._expires(), **parking}, removes=removes
            )

    @ours(RecordsUnavailable)
    def note_discarded(self, origin: str, at: float) -> None:
        discarded = {"ttl": self._expires(), "discarded_at": stored_number(at)}
        self._table.change(self._key(origin), discarded)

    @ours(RecordsUnavailable)
    def leave_index(self, origin: str) -> None:
        # Most letters that are processed have no row at all.
        index = CAUSES.partition
        self._table.changed(self._key(origin), {}, removes=[index], when=present(index))

    def stored_stamp(self, message_id: str) -> Stamp | None:
        row = self.rows([message_id]).get(message_id)
        if row is None:
            return None
        if row.unreadable:
            raise LedgerUnavailable("a row of the ledger is malformed")
        return row.stamp

    def count_matches(
        self, matched: Mapping[str, int], shadow_matched: Mapping[str, int] = NO_COUNTS
    ) -> None:
        for column, counts in ((_MATCHED, matched), (_SHADOW_MATCHED, shadow_matched)):
            for key, count in counts.items():
                at = {_LAST[column]: int(self.clock())}
                with ours(RecordsUnavailable):
                    self._table.change(self._matches_key(key), at, adds={column: count})

    @ours(RecordsUnavailable)
    def claim_matches(self, key: str, letters: int, limit: int) -> bool:
        return self._table.changed(
            self._matches_key(key),
            {_LAST[_MATCHED]: int(self.clock())},
            adds={_MATCHED: letters},
            # A malformed count is no number below the limit.
            when=absent(_MATCHED) | below(_MATCHED, limit),
        )

    def _get(self, keys: Sequence[Key], *, lagging: bool = False) -> dict[Key, dict[str, Any]]:
        with ours(LedgerUnavailable):
            return self._table.get_many(keys, lagging=lagging)

    def _expires(self) -> int:
        return int(self.clock() + self.keep_seconds)

    def _key(self, origin: str) -> Key:
        return (Partition.LEDGER.of(self.pipeline, origin), _ROW)

    def _matches_key(self, counts_key: str) -> Key:
        return (Partition.MATCHES.of(self.pipeline), counts_key)


_MATCHED, _SHADOW_MATCHED = "matched", "shadow_matched"
_LAST = {_MATCHED: "last_matched", _SHADOW_MATCHED: "last_shadow"}


def _rule_counts(item: Mapping[str, Any]) -> RuleCounts:
    return RuleCounts(
        _count(item.get(_MATCHED, 0)),
        number_in(item, _LAST[_MATCHED]),
        _count(item.get(_SHADOW_MATCHED, 0)),
        number_in(item, _LAST[_SHADOW_MATCHED]),
    )


def _count(value: Any) -> int:
    """The matches of a rule. A malformed count is larger than any limit, so the rule stops."""
    return int(value) if _is_count(value) else sys.maxsize


def _is_count(value: Any) -> bool:
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    return is_number and 0 <= value < sys.maxsize


def _parking(at: float, reason: str) -> dict[str, Any]:
    return {"parked_at": stored_number(at), "parked_as": reason}


def _of_any_receive(failure: Mapping[str, Any]) -> dict[str, Any]:
    """What a stored failure says of its life, and not of the one receive."""
    return {name: value for name, value in failure.items() if name not in _OF_ONE_RECEIVE}


_OF_ONE_RECEIVE = ("at", "receive", "request_id")


def _without_floats(data: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data with numbers as DynamoDB stores them."""
    return {
        name: stored_number(value) if isinstance(value, float) else value
        for name, value in data.items()
    }
