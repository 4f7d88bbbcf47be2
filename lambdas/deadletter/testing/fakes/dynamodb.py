"""DynamoDB as its documentation describes it at its least forgiving, in one process's memory."""

# ruff: noqa: N803 - the arguments are spelled as boto3 spells them

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from operator import sub
from typing import Any, NamedTuple, cast

from deadletter.aws.table import Condition
from deadletter.testing.fakes.attribute_values import Item, ValidationError, Value, copied_item
from deadletter.testing.fakes.conditions import holds
from deadletter.testing.fakes.dynamodb_requests import (
    ConditionFailed,
    View,
    Write,
    batched,
    change,
    check_distinct,
    delete,
    index_of,
    key_range,
    put,
    shown_of,
    transacted,
)
from deadletter.testing.fakes.dynamodb_table import (
    OUTSIDE,
    FakeIndex,
    FakeTable,
    Rows,
    Spot,
    StoredRow,
    kept,
    write_units,
)
from deadletter.testing.fakes.dynamodb_table import KeySchema as Schema
from deadletter.testing.fakes.errors import Declined, Exceptions, Method, malformed, operation
from deadletter.testing.fakes.words import WORDED, valued

# Bytes.
_LARGEST_PAGE = 1024 * 1024
_LARGEST_BATCH = 16 * 1024 * 1024
_LARGEST_TRANSACTION = 4 * 1024 * 1024
_READ_UNIT = 4_096
# Items of one request.
_MOST_READS = 100
_MOST_WRITES = 25
_MOST_TRANSACTED = 100

_READ_MEMBERS = frozenset(("Keys", "ConsistentRead", "Only"))
_ANY_RETURN = ("NONE", "ALL_OLD", "ALL_NEW", "UPDATED_OLD")


class Consumed(NamedTuple):
    """What a client has cost so far. Subtract an earlier one to get what happened in between.

    A request is one call, however many items it names. Units are those that AWS bills on demand:
    writes by the KB, each index again, transactions twice; reads by 4 KB, half if not consistent.
    """

    read_requests: int = 0
    read_units: float = 0.0
    write_requests: int = 0
    write_units: int = 0

    def __sub__(self, earlier: Consumed) -> Consumed:
        return Consumed(*map(sub, self, earlier))


def _asked(method: Method) -> Method:
    """A call that takes values, also for requests in DynamoDB's language."""

    @operation
    @wraps(method)
    def call(self: MemoryDynamoDB, **request: Any) -> Any:
        if not _WORDED_OR_MANY.isdisjoint(request):
            request = valued(request)
        return method(self, **request)

    return cast(Method, call)


_WORDED_OR_MANY = WORDED | {"RequestItems", "TransactItems"}


class MemoryDynamoDB:
    """A `boto3.client("dynamodb")` over tables that live in this object.

    It is the low-level client: items are dicts of typed values, `{"pk": {"S": "…"}}`. Conditions
    and changes are values, in the members that `deadletter.aws.dynamodb.worded` names, or what
    `words` understands of DynamoDB's language. `clock`
    returns epoch seconds. With `lagging_indexes`, a query of an index sees the items as they were
    at the last `settle()`, as it may at AWS; otherwise indexes are always up to date. So does
    each other read without ConsistentRead for which `stale_reads` says yes, asked at each of them.
    A page of a query or a scan ends after `page_items` items, as one of large items would.
    `consumed` tells what the calls would have cost.

    One thread only. Two calls with the same history answer the same.
    """

    takes_values = True

    exceptions = Exceptions()

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        lagging_indexes: bool = False,
        stale_reads: Callable[[], bool] | None = None,
        page_items: int | None = None,
    ) -> None:
        self._clock = clock
        self._lagging = lagging_indexes
        self._stale_reads = stale_reads
        self._page_items = page_items
        self._tables: dict[str, FakeTable] = {}
        self._read_requests = 0
        self._read_units = 0.0
        self._write_requests = 0
        self._write_units = 0

    # What a test or a simulator does, and boto3 doesn't offer.

    @property
    def consumed(self) -> Consumed:
        return Consumed(
            self._read_requests, self._read_units, self._write_requests, self._write_units
        )

    def settle(self) -> None:
        """Let lagging indexes, and what stale reads see, catch up with their tables."""
        for table in self._tables.values():
            table.settle()

    def expire(self, table_name: str, spared: Callable[[], bool], attribute: str = "ttl") -> int:
        """Delete items whose time to live has ended; returns how many.

        DynamoDB deletes late: each item for which `spared` says yes stays for now.
        """
        table, now = self._tables[table_name], self._clock()
        ended = [
            spot
            for spot, row in table.rows.all(None)
            if attribute in row.item
            and float(row.item[attribute].get("N", "inf")) < now
            and not spared()
        ]
        for spot in ended:
            table.write(spot, None)
        return len(ended)

    def items(self, table_name: str) -> list[Item]:
        """Every item of a table, free of charge and not copied: look, don't touch."""
        rows = self._tables[table_name].rows
        return [row.item for _, row in rows.all(None)]

    # Tables.

    @operation
    def create_table(
        self,
        *,
        TableName: str,
        KeySchema: Sequence[Mapping[str, str]],
        AttributeDefinitions: Sequence[Mapping[str, str]],
        GlobalSecondaryIndexes: Sequence[Mapping[str, Any]] = (),
        BillingMode: str = "PAY_PER_REQUEST",
    ) -> dict[str, Any]:
        """The table is active at once."""
        if TableName in self._tables:
            raise Declined("ResourceInUseException", f"Table already exists: {TableName}")
        types = {row["AttributeName"]: row["AttributeType"] for row in AttributeDefinitions}
        key = Schema(KeySchema, types)
        has_replica = self._stale_reads is not None
        table = FakeTable(TableName, key, lagging=self._lagging, has_replica=has_replica)
        for index in GlobalSecondaryIndexes:
            name, index_key = index["IndexName"], Schema(index["KeySchema"], types)
            held = kept(index["Projection"], key, index_key)
            table.indexes[name] = FakeIndex(name, index_key, held)
        self._tables[TableName] = table
        return {}

    @operation
    def describe_table(self, *, TableName: str) -> dict[str, Any]:
        return {"Table": {"TableName": self._table(TableName).name, "TableStatus": "ACTIVE"}}

    # Single items.

    @_asked
    def get_item(
        self,
        *,
        TableName: str,
        Key: Mapping[str, Value],
        ConsistentRead: bool = False,
        Only: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Without such an item, the answer has no `Item`."""
        table = self._table(TableName)
        spot = table.primary(Key)
        self._read_requests += 1
        row = self._rows(table, ConsistentRead).get(*spot)
        self._read(row.size if row else 0, ConsistentRead)
        return {"Item": copied_item(shown_of(row.item, Only))} if row else {}

    @_asked
    def put_item(
        self, *, TableName: str, Item: Mapping[str, Value], When: Condition | None = None
    ) -> dict[str, Any]:
        self._carry_out(put(self._table(TableName), Item, When))
        return {}

    @_asked
    def delete_item(
        self, *, TableName: str, Key: Mapping[str, Value], When: Condition | None = None
    ) -> dict[str, Any]:
        self._carry_out(delete(self._table(TableName), Key, When))
        return {}

    @_asked
    def update_item(
        self,
        *,
        TableName: str,
        Key: Mapping[str, Value],
        Sets: Mapping[str, Any] = {},
        Adds: Mapping[str, Any] = {},
        Removes: Sequence[str] = (),
        When: Condition | None = None,
        ReturnValues: str = "NONE",
    ) -> dict[str, Any]:
        if ReturnValues not in _ANY_RETURN:
            raise ValidationError(f"ReturnValues is one of {', '.join(_ANY_RETURN)}")
        write = change(self._table(TableName), Key, Sets, Adds, Removes, When)
        old, new = self._carry_out(write)
        row = {"NONE": None, "ALL_NEW": new}.get(ReturnValues, old)
        only = (*Sets, *Adds, *Removes) if ReturnValues == "UPDATED_OLD" else ()
        shown = shown_of(row.item, only) if row else {}
        return {"Attributes": copied_item(shown)} if shown else {}

    # Many items.

    @_asked
    def query(
        self,
        *,
        TableName: str,
        Where: Condition,
        IndexName: str = "",
        Keep: Condition | None = None,
        Only: Sequence[str] = (),
        ExclusiveStartKey: Mapping[str, Value] | None = None,
        Limit: int | None = None,
        ScanIndexForward: bool = True,
        ConsistentRead: bool = False,
        Select: str = "",
    ) -> dict[str, Any]:
        """A page that ends at its limit has a `LastEvaluatedKey`, also if nothing comes after."""
        table = self._table(TableName)
        index = index_of(table, IndexName, consistent=ConsistentRead)
        view = View(table, index, Keep, Only, Select == "COUNT", Limit)
        hash_key, sign, bounds = key_range(view, Where)
        after = view.spot_of(ExclusiveStartKey)
        if after is not None and after[0] != hash_key:
            raise ValidationError(OUTSIDE)
        rows = (index.rows if index else self._rows(table, ConsistentRead)).between(
            hash_key, sign, bounds, after[1] if after else None, ScanIndexForward
        )
        return self._page(view, rows, ConsistentRead)

    @_asked
    def scan(
        self,
        *,
        TableName: str,
        Keep: Condition | None = None,
        ExclusiveStartKey: Mapping[str, Value] | None = None,
        Limit: int | None = None,
        ConsistentRead: bool = False,
    ) -> dict[str, Any]:
        """Partitions come in an order that means nothing, items within one in order."""
        table = self._table(TableName)
        view = View(table, None, Keep, (), False, Limit)
        rows = self._rows(table, ConsistentRead).all(view.spot_of(ExclusiveStartKey))
        return self._page(view, rows, ConsistentRead)

    @_asked
    def batch_get_item(self, *, RequestItems: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """What doesn't fit in 16 MB comes back as `UnprocessedKeys`."""
        wanted: list[tuple[str, bool, Sequence[str], list[tuple[Any, Spot]]]] = []
        if not isinstance(RequestItems, Mapping):
            raise malformed("RequestItems is a mapping of table names")
        for name, request in RequestItems.items():
            table = self._table(name)
            if "Keys" not in request or not request.keys() <= _READ_MEMBERS:
                raise malformed("a table's part of a BatchGetItem has Keys and no unknown member")
            spots = [(key, table.primary(key)) for key in request["Keys"]]
            check_distinct([spot for _, spot in spots])
            only = request.get("Only", ())
            wanted.append((name, request.get("ConsistentRead", False), only, spots))
        count = sum(len(spots) for *_, spots in wanted)
        if not 1 <= count <= _MOST_READS:
            raise ValidationError("Too many items requested for the BatchGetItem call, or none")
        self._read_requests += 1
        found: dict[str, list[Item]] = {}
        left: dict[str, Any] = {}
        room = _LARGEST_BATCH
        for name, consistent, only, spots in wanted:
            table = self._tables[name]
            found[name] = []
            for key, spot in spots:
                row = self._rows(table, consistent).get(*spot)
                room -= row.size if row else 0
                if room < 0:
                    rest = {k: v for k, v in RequestItems[name].items() if k != "Keys"}
                    left.setdefault(name, {**rest, "Keys": []})["Keys"].append(key)
                    continue
                self._read(row.size if row else 0, consistent)
                if row is not None:
                    found[name].append(copied_item(shown_of(row.item, only)))
        return {"Responses": found, "UnprocessedKeys": left}

    @operation
    def batch_write_item(
        self, *, RequestItems: Mapping[str, Sequence[Mapping[str, Any]]]
    ) -> dict[str, Any]:
        """Puts and deletes, no conditions; all are processed, or the whole batch is refused."""
        writes: list[Write] = []
        if not isinstance(RequestItems, Mapping):
            raise malformed("RequestItems is a mapping of table names")
        for name, requests in RequestItems.items():
            table = self._table(name)
            mine = [batched(table, request) for request in requests]
            check_distinct([write.spot for write in mine])
            writes += mine
        if not 1 <= len(writes) <= _MOST_WRITES:
            raise ValidationError("Too many items requested for the BatchWriteItem call")
        if sum(write.put.size for write in writes if write.put) > _LARGEST_BATCH:
            raise ValidationError("The batch exceeds 16 MB")
        self._write_requests += 1
        for write in writes:
            self._write_units += sum(write.table.write(write.spot, write.put))
        return {"UnprocessedItems": {}}

    @_asked
    def transact_write_items(
        self, *, TransactItems: Sequence[Mapping[str, Any]], ClientRequestToken: str = ""
    ) -> dict[str, Any]:
        """All or nothing; a token is not remembered."""
        if not 1 <= len(TransactItems) <= _MOST_TRANSACTED:
            raise ValidationError("A transaction has 1 to 100 items")
        writes = [
            transacted(self._table(members["TableName"]), kind, members)
            for request in TransactItems
            for kind, members in request.items()
        ]
        if len({(write.table.name, write.spot) for write in writes}) != len(writes):
            raise ValidationError(
                "Transaction request cannot include multiple operations on one item"
            )
        self._write_requests += 1
        reasons: list[dict[str, Any]] = []
        rows: list[StoredRow | None] = []
        total = 0
        for write in writes:
            reason: dict[str, Any] = {"Code": "None"}
            old, new = write.table.get(write.spot), None
            try:
                _, new = write.outcome()
            except (ConditionFailed, ValidationError) as refused:
                is_condition = isinstance(refused, ConditionFailed)
                code = "ConditionalCheckFailed" if is_condition else "ValidationError"
                reason = {"Code": code, "Message": refused.message}
            reasons.append(reason)
            rows.append(new)
            largest = max(old.size if old else 0, new.size if new else 0)
            total += largest
            # Preparing costs as much as doing it, and a failed transaction pays both.
            self._write_units += 2 * write_units(largest)
        if total > _LARGEST_TRANSACTION:
            raise ValidationError("The transaction's items exceed 4 MB together")
        codes = [reason["Code"] for reason in reasons]
        if {*codes} != {"None"}:
            raise Declined(
                "TransactionCanceledException",
                "Transaction cancelled, please refer cancellation reasons for specific reasons "
                f"[{', '.join(codes)}]",
                CancellationReasons=reasons,
            )
        for write, row in zip(writes, rows, strict=True):
            if not write.leaves_alone:
                _, index_units = write.table.write(write.spot, row)
                self._write_units += index_units
        return {}

    # The inside.

    def _table(self, name: str) -> FakeTable:
        if name not in self._tables:
            raise Declined("ResourceNotFoundException", "Requested resource not found")
        return self._tables[name]

    def _rows(self, table: FakeTable, consistent: bool) -> Rows:
        """What a read sees: the table, or its replica."""
        if consistent or self._stale_reads is None or not self._stale_reads():
            return table.rows
        return table.replica

    def _read(self, size: int, consistent: bool) -> None:
        units = max(1, -(-size // _READ_UNIT))
        self._read_units += units if consistent else units / 2

    def _carry_out(self, write: Write) -> tuple[StoredRow | None, StoredRow | None]:
        self._write_requests += 1
        try:
            old, new = write.outcome()
        except ConditionFailed as failed:
            # A write that its condition stops is paid for all the same.
            self._write_units += write_units(failed.row.size if failed.row else 0)
            raise
        self._write_units += sum(write.table.write(write.spot, new))
        return old, new

    def _page(
        self,
        view: View,
        rows: Iterator[tuple[Spot, StoredRow]],
        consistent: bool,
    ) -> dict[str, Any]:
        self._read_requests += 1
        seen = size = 0
        items: list[Item] = []
        count = 0
        last: StoredRow | None = None
        has_more = False
        most = self._page_items
        for _, row in rows:
            if seen in (view.limit, most) or (seen and size + row.size > _LARGEST_PAGE):
                has_more = True
                break
            seen += 1
            size += row.size
            last = row
            if holds(view.keep, row.item):
                count += 1
                if not view.counts:
                    items.append(copied_item(shown_of(row.item, view.only)))
        self._read(size, consistent)
        answer: dict[str, Any] = {"Count": count, "ScannedCount": seen}
        if not view.counts:
            answer["Items"] = items
        # DynamoDB stops at the limit without looking whether anything comes after it.
        if last is not None and (has_more or seen == view.limit):
            answer["LastEvaluatedKey"] = copied_item(view.key_of(last.item))
        return answer
