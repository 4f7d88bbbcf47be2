"""Tables in DynamoDB, and its own form of values, conditions and changes: written here alone.

boto3 has a converter and values of conditions too. The one walks through a value type by type and
looks each one's method up by name, which takes half of the time in which a page of rows is read;
the other's module brings the whole of boto3 into a function that needs botocore alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from decimal import Clamped, Context, Decimal, Inexact, Overflow, Rounded, Underflow
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar

from botocore.exceptions import ClientError

from deadletter.aws.errors import (
    AWS_ERRORS,
    Conflict,
    NotSent,
    Unknown,
    code,
    member,
    refusal,
    surely_refused,
)
from deadletter.aws.table import (
    Change,
    Compared,
    Condition,
    Joined,
    Key,
    Opposite,
    OrElse,
    Path,
    Shown,
    equals,
    parts,
)
from deadletter.contract import END_OF_TIME, MESSAGES, Index, Table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient as DynamoDBClient
else:
    # Adapters name it in what they are made of; a function has no types of boto3's.
    DynamoDBClient = object

# DynamoDB's numbers have 38 digits. What does not fit is an error, and is not rounded.
_NUMBERS = Context(
    prec=38, Emin=-128, Emax=126, traps=[Clamped, Overflow, Inexact, Rounded, Underflow]
)
_DIGITS = 38
_MOST_DIGITS = 10**_DIGITS
_LONG = Context(prec=200, traps=[Inexact])


def stored(item: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data as DynamoDB attribute values. Raises TypeError for what has none."""
    return {name: _value(value) for name, value in item.items()}


def number_in(row: Mapping[str, Any], name: str) -> float | None:
    """A number of a row; None for what no clock, rate or count can be."""
    value = row.get(name)
    if not isinstance(value, Decimal | int) or isinstance(value, bool):
        return None
    number = float(value)
    return number if abs(number) < END_OF_TIME else None


MANY = 10**16
"""More than anybody has counted, and than the number of any minute or bucket."""


def is_counted(number: str) -> bool:
    """Whether the end of a counter's name is a number: Python reads none with thousands of digits.

    Anybody may have written it.
    """
    return number.isdecimal() and len(number) < len(str(MANY))


def counters_in(row: Mapping[str, Any], prefix: str) -> dict[int, int]:
    """The counters of a row by the number in their names; impossible ones are left out."""
    return {
        int(number): int(value)
        for name, value in row.items()
        if (number := name.removeprefix(prefix)) != name
        and is_counted(number)
        and isinstance(value, Decimal | int)
        and 0 <= value < MANY
    }


def text_in(row: Mapping[str, Any], name: str) -> str:
    """A text of a row; empty if it has none."""
    value = row.get(name)
    return value if isinstance(value, str) else ""


def plain(item: Mapping[str, Any]) -> dict[str, Any]:
    """DynamoDB attribute values as plain data; numbers are Decimal, binaries bytes."""
    plain_item = {}
    for name, value in item.items():
        # Most values are texts and numbers: they are not worth a call each.
        kind = next(iter(value), None)
        if kind == "S":
            plain_item[name] = value["S"]
        elif kind == "N":
            plain_item[name] = Decimal(value["N"])
        else:
            plain_item[name] = _plain_value(value)
    return plain_item


def _plain_value(value: Mapping[str, Any]) -> Any:
    for kind, content in value.items():
        return content if kind == "S" else _READ[kind](content)
    raise TypeError("a value without a type")


def _value(value: Any) -> dict[str, Any]:
    kind = type(value)
    if kind is str:
        return {"S": value}
    if kind is int:
        return {"N": _number(value)}
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case int() | Decimal():
            return {"N": _number(value)}
        # One of an enumeration is a text too.
        case str():
            return {"S": value}
        case bytes() | bytearray():
            return {"B": value}
        case Mapping():
            return {"M": stored(value)}
        case list() | tuple():
            return {"L": [_value(each) for each in value]}
        case Set():
            return _set(value)
    raise TypeError(f"{kind.__name__} has no attribute value in DynamoDB")


def _number(value: int | Decimal) -> str:
    if type(value) is int and -_MOST_DIGITS < value < _MOST_DIGITS:
        return str(value)
    number = Decimal(value)
    try:
        if number.adjusted() >= _DIGITS:
            # As DynamoDB shows a large number, with all its zeros.
            number = number.normalize(_LONG)
        number = _NUMBERS.create_decimal(number)
    except ArithmeticError as error:
        # It comes from a row that anybody may have written: adapters know what a lost call means.
        raise NotSent("a number of more than 38 digits for dynamodb") from error
    if not number.is_finite():
        raise NotSent("a number that DynamoDB does not store")
    return str(number)


def _set(values: Set[Any]) -> dict[str, Any]:
    """A set, whose values have one type."""
    typed = [_value(value) for value in values]
    kinds = {kind for each in typed for kind in each}
    if len(kinds) != 1 or not kinds <= {"S", "N", "B"}:
        raise TypeError("a set in DynamoDB has texts, numbers or binaries, and at least one")
    [kind] = kinds
    return {f"{kind}S": [each[kind] for each in typed]}


def _same(value: Any) -> Any:
    return value


def _list(values: list[dict[str, Any]]) -> list[Any]:
    return [*map(_plain_value, values)]


_READ: Mapping[str, Callable[[Any], Any]] = {
    "S": _same,
    "N": Decimal,
    "B": bytes,
    "BOOL": _same,
    "NULL": lambda _: None,
    "M": plain,
    "L": _list,
    "SS": set,
    "NS": lambda values: set(map(Decimal, values)),
    "BS": lambda values: set(map(bytes, values)),
}


_INFIX = frozenset({"=", "<>", "<", "<=", ">", ">="})


def worded(request: Mapping[str, Any]) -> dict[str, Any]:
    """A request whose conditions and changes are values, in DynamoDB's own language.

    Its members are those of boto3, and these: `Sets`, `Adds` and `Removes` say what to change;
    `When` is the condition of a write, and a row that does not meet it is asked for; `Where` is
    that of a query, and `Keep` its filter; `Only` are the attributes that are asked for.
    """
    worded_request = {name: value for name, value in request.items() if name not in _OURS}
    if len(worded_request) < len(request):
        worded_request |= _written(request)
    if "RequestItems" in request:
        worded_request["RequestItems"] = {
            name: worded(each) if isinstance(each, Mapping) else each
            for name, each in request["RequestItems"].items()
        }
    if "TransactItems" in request:
        worded_request["TransactItems"] = [
            {kind: worded(each) for kind, each in item.items()} for item in request["TransactItems"]
        ]
    return worded_request


_CONDITIONS = {
    "When": "ConditionExpression",
    "Where": "KeyConditionExpression",
    "Keep": "FilterExpression",
}
_OURS = frozenset({"Sets", "Adds", "Removes", "Only", *_CONDITIONS})
"""The members of a request that are values."""


def _written(request: Mapping[str, Any]) -> dict[str, Any]:
    """The members that DynamoDB reads in place of ours."""
    writer = _Writer()
    arguments: dict[str, Any] = {"UpdateExpression": writer.update(request)}
    for name, argument in _CONDITIONS.items():
        if name in request:
            arguments[argument] = writer.condition(request[name])
    arguments["ProjectionExpression"] = ", ".join(map(writer.place, request.get("Only", ())))
    arguments["ExpressionAttributeNames"] = writer.names
    arguments["ExpressionAttributeValues"] = writer.values
    if "When" in request:
        arguments["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    # DynamoDB refuses each of them when it is empty.
    return _only(**arguments)


class _Writer:
    """Writes expressions of one request, in which each name and each value has a placeholder.

    So an attribute may have any name: DynamoDB reserves hundreds, such as `ttl` and `status`.
    """

    def __init__(self) -> None:
        self._places: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.values: dict[str, Any] = {}

    def place(self, path: Path) -> str:
        if isinstance(path, tuple):
            return ".".join(map(self.place, path))
        place = self._places.setdefault(path, f"#n{len(self._places)}")
        self.names[place] = path
        return place

    def value(self, value: Any) -> str:
        place = f":v{len(self.values)}"
        self.values[place] = _value(value)
        return place

    def update(self, request: Mapping[str, Any]) -> str:
        sets, adds = request.get("Sets", {}), request.get("Adds", {})
        clauses = {
            "SET": [f"{self.place(name)} = {self._set(value)}" for name, value in sets.items()],
            "ADD": [f"{self.place(name)} {self.value(value)}" for name, value in adds.items()],
            "REMOVE": [*map(self.place, request.get("Removes", ()))],
        }
        return " ".join(f"{word} {', '.join(each)}" for word, each in clauses.items() if each)

    def _set(self, value: Any) -> str:
        if not isinstance(value, OrElse):
            return self.value(value)
        return f"if_not_exists({self.place(value.name)}, {self.value(value.value)})"

    def condition(self, condition: Condition) -> str:
        match condition:
            case Joined(word, parts):
                return f"({f' {word} '.join(map(self.condition, parts))})"
            case Opposite(inner):
                return f"NOT {self.condition(inner)}"
            case Compared(sign, path, values):
                return self._comparison(sign, self.place(path), [*map(self.value, values)])
        raise TypeError(f"{type(condition).__name__} is no condition")

    def _comparison(self, sign: str, place: str, values: Sequence[str]) -> str:
        if sign in _INFIX:
            return f"{place} {sign} {values[0]}"
        if sign == "BETWEEN":
            return f"{place} BETWEEN {values[0]} AND {values[1]}"
        if sign == "IN":
            return f"{place} IN ({', '.join(values)})"
        return f"{sign}({', '.join([place, *values])})"


_NOT_MET = "ConditionalCheckFailedException"
_CANCELLED = "TransactionCanceledException"

_ALWAYS = {"batch_get_item": "Responses", "query": "Count", "scan": "Count"}
"""What answers have whatever is found: without it, rows would count as missing."""

MOST_TRIES = 5
"""Requests for one batch, the first among them, before its unprocessed rest is given up."""


@dataclass(eq=False, repr=False)
class DynamoDBTable:
    """One table with the keys of `keys`. Raises NotSent and Unknown, and Conflict where it says so.

    Reads are consistent, but for those that may be `lagging` and those of an index. `only` are the
    attributes that a read asks for; without, it is all of them.
    """

    client: DynamoDBClient
    name: str
    keys: Table = MESSAGES

    def get(self, key: Key, *, lagging: bool = False) -> dict[str, Any] | None:
        """One row; None if it is missing. Needs permission for GetItem."""
        consistent = _only(ConsistentRead=not lagging)
        answer = self._ask("get_item", TableName=self.name, Key=self._key(key), **consistent)
        return plain(answer["Item"]) if "Item" in answer else None

    def get_many(
        self, keys: Sequence[Key], *, only: Sequence[str] = (), lagging: bool = False
    ) -> dict[Key, dict[str, Any]]:
        """The rows that exist. Needs permission for BatchGetItem."""
        partition, sort, _ = self.keys
        rows: dict[Key, dict[str, Any]] = {}
        for part in parts(sorted(set(keys)), 100):
            wanted = {"Keys": [*map(self._key, part)], "ConsistentRead": not lagging}
            request = {self.name: {**wanted, **_only(Only=only)}}
            for answer in self._answers("batch_get_item", request, "UnprocessedKeys"):
                for row in map(plain, answer.get("Responses", {}).get(self.name, [])):
                    rows[row[partition], row[sort]] = row
        return rows

    def put(self, item: Mapping[str, Any], when: Condition | None = None) -> None:
        """Put one row if the one that it replaces meets the condition, else raise Conflict."""
        self._ask("put_item", TableName=self.name, Item=stored(item), **_only(When=when))

    def change(
        self,
        key: Key,
        sets: Mapping[str, Any],
        *,
        adds: Mapping[str, Any] = {},
        removes: Sequence[str] = (),
        when: Condition | None = None,
        shown: Shown = "",
    ) -> dict[str, Any]:
        """Change attributes of one row as `Change` describes. Returns what is to be `shown`.

        Raises Conflict.
        """
        answer = self._ask(
            "update_item",
            TableName=self.name,
            Key=self._key(key),
            **_only(Sets=sets, Adds=adds, Removes=removes, When=when, ReturnValues=shown),
        )
        return plain(answer.get("Attributes", {}))

    def changed(self, key: Key, sets: Mapping[str, Any], **options: Any) -> bool:
        """Change one row as `change` does; False if it does not meet the condition."""
        try:
            self.change(key, sets, **options)
        except Conflict:
            return False
        return True

    def delete(self, key: Key, when: Condition | None = None) -> None:
        """Delete one row if it meets the condition, else raise Conflict."""
        self._ask("delete_item", TableName=self.name, Key=self._key(key), **_only(When=when))

    def write_many(
        self, puts: Sequence[Mapping[str, Any]] = (), deletes: Sequence[Key] = ()
    ) -> None:
        """Put and delete rows, unconditionally and in no particular order."""
        requests = [{"PutRequest": {"Item": stored(item)}} for item in puts]
        requests += [{"DeleteRequest": {"Key": self._key(key)}} for key in deletes]
        for part in parts(requests, 25):
            request = {self.name: list(part)}
            self._answers("batch_write_item", request, "UnprocessedItems")

    def together(
        self,
        *,
        checks: Sequence[tuple[Key, Condition]] = (),
        changes: Sequence[Change] = (),
        puts: Sequence[tuple[Mapping[str, Any], Condition | None]] = (),
        deletes: Sequence[tuple[Key, Condition]] = (),
    ) -> None:
        """Make up to a hundred writes, all if each one's condition holds, else none.

        Raises Conflict.
        """
        requests: list[tuple[str, dict[str, Any]]] = [
            ("ConditionCheck", {"Key": self._key(key), "When": when}) for key, when in checks
        ]
        for key, sets, when, adds, removes in changes:
            change = _only(Sets=sets, Adds=adds, Removes=removes, When=when)
            requests.append(("Update", {"Key": self._key(key), **change}))
        requests += [("Put", {"Item": stored(item), **_only(When=when)}) for item, when in puts]
        requests += [("Delete", {"Key": self._key(key), "When": when}) for key, when in deletes]
        self._ask(
            "transact_write_items",
            TransactItems=[{kind: {"TableName": self.name, **each}} for kind, each in requests],
        )

    def query(
        self, partition: str, sort: Condition | None = None, **options: Any
    ) -> list[dict[str, Any]]:
        """All rows of a partition that meet a condition on the sort key, in its order.

        `options` are those of `page`; with a `limit` no more rows than that.
        """
        limit = options.get("limit")
        items: list[dict[str, Any]] = []
        for page in self._pages(partition, sort, **options):
            items.extend(map(plain, page.get("Items", [])))
            if limit is not None and len(items) >= limit:
                break
        return items[:limit]

    def stored_items(
        self, partition: str, sort: Condition | None = None, **options: Any
    ) -> Iterator[dict[str, Any]]:
        """The same as DynamoDB sends them, for callers that read thousands; `limit` is a page's."""
        for page in self._pages(partition, sort, **options):
            yield from page.get("Items", [])

    def count(
        self, partition: str, sort: Condition | None = None, **options: Any
    ) -> tuple[int, int, bool]:
        """The number of rows that `query` finds, and of those that it finds without `keep`.

        The last value is whether there are more: with `pages`, that many answers are read at most.
        """
        pages = [*self._pages(partition, sort, Select="COUNT", **options)]
        matching, read = (sum(page[name] for page in pages) for name in ("Count", "ScannedCount"))
        return matching, read, bool(pages[-1].get("LastEvaluatedKey"))

    def page(
        self, partition: str, sort: Condition | None = None, **options: Any
    ) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
        """The rows of one answer, and where the next one begins: `after`; None at the end.

        index      the index that is read, which lags
        keep       the condition on the rows that are shown; others are read all the same
        backwards  the last row first
        limit      the rows that are read
        after      the key of the last row before, with that of the index
        """
        page = next(self._pages(partition, sort, **options))
        last = page.get("LastEvaluatedKey")
        return [*map(plain, page.get("Items", []))], plain(last) if last else None

    def scan(self, *, lagging: bool = False) -> Iterator[dict[str, Any]]:
        """All rows of the table."""
        pages = self._pages(None, lagging=lagging)
        return (plain(row) for page in pages for row in page["Items"])

    def _pages(
        self,
        partition: str | None,
        sort: Condition | None = None,
        *,
        index: Index | None = None,
        keep: Condition | None = None,
        only: Sequence[str] = (),
        lagging: bool = False,
        backwards: bool = False,
        limit: int | None = None,
        pages: int | None = None,
        after: Mapping[str, Any] | None = None,
        **asked: Any,
    ) -> Iterator[dict[str, Any]]:
        """Each answer to a query, to the last page or for so many; without a partition, a scan."""
        operation, key = "scan", None
        if partition is not None:
            operation, key = "query", equals((index or self.keys).partition, partition)
            key = key if sort is None else key & sort
        asked |= _only(Where=key, Keep=keep, Only=only, IndexName=index and index.name)
        asked |= _only(ConsistentRead=index is None and not lagging, Limit=limit)
        asked |= _only(ExclusiveStartKey=after and stored(after))
        if backwards:
            asked["ScanIndexForward"] = False
        for _ in count() if pages is None else range(pages):
            answer = self._ask(operation, TableName=self.name, **asked)
            yield answer
            if not answer.get("LastEvaluatedKey"):
                return
            asked["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def _answers(
        self, operation: str, request: Mapping[str, Any], unprocessed: str
    ) -> list[dict[str, Any]]:
        """The answers to a batch and to its unprocessed rest, until it is empty.

        After MOST_TRIES requests DynamoDB is throttling.
        """
        answers: list[dict[str, Any]] = []
        for _ in range(MOST_TRIES):
            answers.append(self._ask(operation, RequestItems=request))
            request = answers[-1].get(unprocessed) or {}
            if not request:
                return answers
        raise Unknown(f"throttling by dynamodb on {self.name}")

    def _ask(self, operation: str, **request: Any) -> dict[str, Any]:
        """The answer to one call. Here alone an error of DynamoDB becomes one of a table.

        A table in memory takes values, and is not asked in DynamoDB's language.
        """
        if not getattr(self.client, "takes_values", False):
            request = worded(request)
        try:
            answer: dict[str, Any] = getattr(self.client, operation)(**request)
            if operation in _ALWAYS:
                member(answer, _ALWAYS[operation])
        except AWS_ERRORS as error:
            if isinstance(error, ClientError) and code(error) == _NOT_MET:
                item: Any = error.response.get("Item", {})
                raise Conflict(plain(item)) from error
            if code(error) == _CANCELLED:
                raise Conflict(None) from error
            failed = NotSent if surely_refused(error) else Unknown
            raise failed(refusal(error, "dynamodb", self.name)) from error
        return answer

    def _key(self, key: Key) -> dict[str, Any]:
        return {self.keys.partition: {"S": key[0]}, self.keys.sort: {"S": key[1]}}


@dataclass(eq=False, repr=False)
class PipelineRows:
    """The rows of one pipeline in a table with this name: what most adapters begin with."""

    client: DynamoDBClient
    table: str
    pipeline: str

    KEYS: ClassVar[Table] = MESSAGES

    def __post_init__(self) -> None:
        self._table = DynamoDBTable(self.client, self.table, self.KEYS)


def _only(**members: Any) -> dict[str, Any]:
    """Those of these members of a request that say anything."""
    return {name: value for name, value in members.items() if value}
