"""What DynamoDB does, on every backend: a table of scenes, each a plain sentence and its steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pytest

from deadletter.aws.table import (
    OrElse,
    above,
    absent,
    at_least,
    at_most,
    begins,
    below,
    between,
    differs,
    equals,
    every,
    is_number,
    kept,
    one_of,
    present,
    unchanged,
)
from tests.aws.backends import Aws
from tests.aws.dynamodb_steps import (
    CANCELED,
    CONDITION,
    KB,
    KEY,
    Step,
    action,
    answers,
    batch_get,
    batch_write,
    call,
    canceled,
    condition,
    delete,
    holds,
    keys,
    n,
    play,
    put,
    query,
    raises,
    reads,
    refused,
    s,
    shows,
    transact,
    update,
)
from tests.aws.rows import cases, row
from tests.tables import create_keyed_table

P, DUE = equals("pk", "p"), equals("lane", "due")
MISSING = "ResourceNotFoundException"
NOT_THERE = absent("pk")


@pytest.fixture(autouse=True)
def tables(aws: Aws) -> None:
    """One table with a sort key and two indexes, and one without indexes."""
    create_keyed_table(
        aws.dynamodb,
        "letters",
        ("pk", "sk"),
        {"lanes": ("lane", "due"), "keys": ("lane",)},
        whole=("lanes",),
    )
    create_keyed_table(aws.dynamodb, "numbers", ("id", "at"))


# fmt: off


# Items.


def test_what_a_caller_does_to_an_answer_stays_with_the_caller(aws: Aws) -> None:
    read = call("get_item")
    play(aws, [put(map={"M": {"a": s("b")}})])
    read(aws)["Item"]["map"]["M"]["a"]["S"] = "changed"
    assert read(aws)["Item"]["map"] == {"M": {"a": s("b")}}


def nested(levels: int) -> dict[str, Any]:
    value = s("x")
    for _ in range(levels):
        value = {"L": [value]}
    return value


EVERYTHING = {
    "text": s("héllo"),
    "empty": s(""),
    "number": n("-12.5"),
    "blob": {"B": b"\x00\xff"},
    "yes": {"BOOL": True},
    "nothing": {"NULL": True},
    "list": {"L": [s("a"), n(1), {"L": []}]},
    "map": {"M": {"a": s("b"), "c": {"M": {}}}},
}

# pk, p, sk, s and the attribute's name are seven bytes.
LARGEST = s("x" * (400 * KB - 7))
TOO_LARGE = s("x" * (400 * KB - 6))

ITEMS = [
    row("an item comes back as it was put", [put(**EVERYTHING), reads({**KEY, **EVERYTHING})]),
    *(row(f"a set comes back with its members: {kind}",
          [put(tags={kind: members}), reads({**KEY, "tags": {kind: members}})])
      for kind, members in [("SS", ["b", "a"]), ("NS", ["10", "9"]), ("BS", [b"2", b"1"])]),
    *(row(f"the number {number} is kept as {kept}",
          [put(number=n(number)), reads({**KEY, "number": n(kept)})], but=but)
      for number, kept, but in [
        ("007", "7", "dynamodb-number-spelling"),
        ("1.50", "1.5", "dynamodb-number-spelling"),
        ("1e3", "1000", "dynamodb-number-spelling"),
        ("-0", "0", "dynamodb-number-spelling"),
        ("12345678901234567890123456789012345678", "12345678901234567890123456789012345678", ""),
    ]),
    row("an item that is not there is an answer without one", [reads(None)]),
    row("putting again replaces the whole item", [put(a=s("1")), put(b=s("2")),
         reads({**KEY, "b": s("2")})]),
    row("a deleted item is gone, and may be deleted again",
        [put(a=s("1")), delete(), reads(None), delete(), reads(None)]),
    *(row(f"an item is refused: {what}", [refused(put(**attributes))], but=but)
      for what, attributes, but in cases([
        ("sort key of a wrong type", {"sk": n(1)}, ""),
        ("empty hash key", {"pk": s("")}, ""),
        ("empty sort key", {"sk": s("")}, ""),
        ("hash key of 2,049 bytes", {"pk": s("x" * 2049)}, ""),
        ("sort key of 1,025 bytes", {"sk": s("x" * 1025)}, ""),
        ("index key of a wrong type", {"lane": n(1)}, "dynamodb-index-key"),
        ("empty index key", {"lane": s("")}, ""),
        ("empty set", {"a": {"SS": []}}, ""),
        ("a member twice", {"a": {"SS": ["x", "x"]}}, "dynamodb-set-members"),
        ("a number twice", {"a": {"NS": ["1", "1.0"]}}, "dynamodb-number"),
        ("number that is a text", {"a": n("x")}, ""),
        ("number of 39 digits", {"a": n("1" * 39)}, "dynamodb-number"),
        ("number too large", {"a": n("1e126")}, "dynamodb-number"),
        ("number too small", {"a": n("1e-131")}, ""),
        ("null that is false", {"a": {"NULL": False}}, ""),
        ("value without a type", {"a": {}}, "dynamodb-one-type"),
        ("value of two types", {"a": {"S": "x", "N": "1"}}, "dynamodb-one-type"),
    ])),
    row("an item without its whole key is refused",
        [refused(call("put_item", Item={"pk": s("p")}))]),
    *(row(f"a key is refused: {what}",
          [refused(call("get_item", Key=key)), refused(delete(Key=key))], but=but)
      for what, key, but in [
        ("half a key", {"pk": s("p")}, ""),
        ("more than the key", {**KEY, "a": s("x")}, ""),
        ("key of a wrong type", {"pk": n(1), "sk": s("s")}, "dynamodb-key-type"),
    ]),
    # The text inside is a level too.
    row("a value nests 32 levels deep", [put(deep=nested(31))]),
    row("a value does not nest 33 levels deep", [refused(put(deep=nested(32)))],
        but="dynamodb-nesting"),
    row("an item may have 400 kilobytes", [put(a=LARGEST)], but="dynamodb-item-size"),
    row("an item may not have one byte more", [refused(put(a=TOO_LARGE))]),
    row("an update may not let an item grow beyond 400 kilobytes",
        [put(a=s("x" * 300 * KB)), refused(update({"b": "x" * 100 * KB}))]),
]

TABLES = [
    row("a table that does not exist has an error of its own",
        [refused(call("get_item", TableName="none"), MISSING),
         refused(call("put_item", TableName="none"), MISSING),
         refused(call("batch_get_item", RequestItems={"none": {"Keys": [KEY]}}), MISSING),
         raises(MISSING, delete(TableName="none"))]),
    row("a table is created once",
        [refused(call("create_table", TableName="numbers",
                      KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
                      AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
                      BillingMode="PAY_PER_REQUEST"), "ResourceInUseException")]),
]


# Conditions.

ITEM = {
    "a": s("text"),
    "num": n(5),
    "five": n("5.0"),
    "m": {"M": {"x": n(5)}},
    "l": {"L": [s("tex"), s("u")]},
    "tags": {"SS": ["tex", "tag"]},
    "flag": {"BOOL": True},
}

# Of ITEM.
TRUE = [
    present("pk"),
    present("a"),
    absent("gone"),
    present(("m", "x")),
    absent(("m", "y")),
    absent(("gone", "x")),
    equals("num", 5),
    equals("five", 5),
    equals("a", "text"),
    equals(("m", "x"), 5),
    equals("flag", True),
    equals("tags", {"tag", "tex"}),
    equals("l", ["tex", "u"]),
    equals("m", {"x": 5}),
    differs("gone", 5),
    differs("a", 5),
    differs("num", 6),
    below("num", 10),
    below("num", Decimal("5.5")),
    at_most("num", 5),
    at_least("num", 5),
    above("a", "tex"),
    between("num", 5, 10),
    one_of("num", [10, 5]),
    begins("a", "tex"),
    begins("a", ""),
    is_number("num"),
    ~is_number("a"),
    ~is_number("gone"),
    ~equals("num", 5) | equals("a", "text"),
    equals("num", 10) | equals("num", 5) & equals("a", "text"),
    equals("num", 5) & ~(equals("a", 5) | equals("gone", 5)),
    every([equals("num", 5), present("a"), absent("gone")]),
    unchanged({"a": "text", "num": 5}, ["a", "num", "gone"]),
]
FALSE = [
    absent("pk"),
    present("gone"),
    present(("m", "y")),
    equals("gone", 5),
    equals("a", 5),
    equals("num", "5"),
    differs("num", 5),
    differs("five", 5),
    below("gone", 5),
    below("num", 5),
    above("num", 5),
    above("a", 5),
    at_most("a", 5),
    at_least("gone", 0),
    between("num", 10, 11),
    between("gone", 0, 9),
    one_of("num", [10]),
    one_of("gone", [10]),
    begins("a", "5"),
    begins("gone", "x"),
    is_number("a"),
    is_number("gone"),
    ~equals("num", 5),
    (equals("num", 5) | equals("num", 10)) & equals("a", 5),
    unchanged({"a": "text"}, ["a", "num"]),
]

CONDITIONS = [
    row("conditions that hold", [put(**ITEM), *map(condition, TRUE)]),
    row("conditions that do not hold",
        [put(**ITEM), *(refused(condition(when), CANCELED) for when in FALSE)]),
    row("a condition on an item that is not there sees nothing",
        [condition(NOT_THERE), refused(condition(equals("a", "x")), CANCELED),
         condition(differs("a", "x"))]),
    row("an attribute may have a name that DynamoDB reserves",
        [put(status=s("x"), **{"a column, as typed": s("y")}),
         condition(equals("status", "x") & equals("a column, as typed", "y"))]),
    row("a put that its condition stops changes nothing",
        [put(a=s("old")),
         refused(call("put_item", Item={**KEY, "a": s("new")}, When=NOT_THERE), CONDITION),
         raises(CONDITION, call("put_item", When=NOT_THERE)),
         reads({**KEY, "a": s("old")})]),
    *(row(f"a failed condition of {operation} shows the item",
          [put(owner=s("other")), refused(step, CONDITION, Item={**KEY, "owner": s("other")}),
           delete(), refused(step, CONDITION, Item=None)])
      for operation in ("put_item", "update_item", "delete_item")
      for step in [call(operation, When=equals("owner", "me"))]),
]


# Updates.

BEFORE = {
    "a": s("old"),
    "num": n(5),
    "l": {"L": [s("x"), s("y")]},
    "m": {"M": {"x": s("x"), "y": n(1)}},
    "tags": {"SS": ["a", "b"]},
}


def after(changes: dict[str, Any]) -> dict[str, Any]:
    """The item of BEFORE with these changes; an attribute that changes to None is gone."""
    return {name: value for name, value in {**KEY, **BEFORE, **changes}.items() if value}


def tags(members: str) -> dict[str, Any]:
    return {"SS": [*members]}


UPDATES = [
    *(row(f"an update {what}", [put(**BEFORE), update(*changed), reads(after(changes))])
      for what, changed, changes in [
        ("sets an attribute", [{"a": "x"}], {"a": s("x")}),
        ("sets what is no text", [{"a": 1, "b": [True, None], "c": b"x"}],
         {"a": n(1), "b": {"L": [{"BOOL": True}, {"NULL": True}]}, "c": {"B": b"x"}}),
        ("replaces a map", [{"m": {"z": "z"}}], {"m": {"M": {"z": s("z")}}}),
        ("keeps what exists", [kept({"num": 0})], {"num": n(5)}),
        ("begins what does not exist", [kept({"c": 2})], {"c": n(2)}),
        ("keeps by another attribute", [{"b": OrElse("a", "x"), "c": OrElse("gone", "y")}],
         {"b": s("old"), "c": s("y")}),
        ("keeps what was there before it", [{"a": "x", "b": OrElse("a", "y")}],
         {"a": s("x"), "b": s("old")}),
        ("removes attributes", [None, None, ["a", "m"]], {"a": None, "m": None}),
        ("may remove what is not there", [None, None, ["gone"]], {}),
        ("adds a negative number", [None, {"num": -5}], {"num": n(0)}),
        ("adds a fraction", [None, {"num": Decimal("0.5")}], {"num": n("5.5")}),
        ("adds to a number that is not there", [None, {"c": 3}], {"c": n(3)}),
        ("adds members to a set", [None, {"tags": {"b", "c"}}], {"tags": tags("abc")}),
        ("adds to a set that is not there", [None, {"c": {1}}], {"c": {"NS": ["1"]}}),
        ("has three sections", [{"a": "z"}, {"num": 1}, ["m"]],
         {"a": s("z"), "num": n(6), "m": None}),
    ]),
    *(row(f"an update is refused: {what}",
          [put(**BEFORE), refused(update(*changed)), reads(after({}))],
          but=but and f"dynamodb-{but}")
      for what, changed, but in [
        ("key attribute", [{"pk": "x"}], ""),
        ("an attribute twice", [{"a": "x"}, None, ["a"]], "update-twice"),
        ("number added to a text", [None, {"a": 1}], ""),
        ("text added", [None, {"num": "x"}], ""),
        ("numbers added to texts", [None, {"tags": {1}}], ""),
        ("index key changed to a wrong type", [{"lane": 1}], "index-key"),
        ("more than 38 digits", [None, {"num": Decimal("0." + "0" * 37 + "1")}], "digits"),
    ]),
    row("an update creates a missing item",
        [update(None, {"num": 1}), reads({**KEY, "num": n(1)})]),
    *(row(f"an update shows what was asked for: {returns}",
          [put(a=s("1"), b=s("1")), answers(update({"a": "2"}, ReturnValues=returns),
                                            Attributes=shown)])
      for returns, shown in [
        ("NONE", None),
        ("ALL_OLD", {**KEY, "a": s("1"), "b": s("1")}),
        ("ALL_NEW", {**KEY, "a": s("2"), "b": s("1")}),
        ("UPDATED_OLD", {"a": s("1")}),
    ]),
]


# Queries and scans, most of them of these six items.

SORT_KEYS = ("a0", "a1", "a2", "b3", "b4")
SIX = [
    *(put(sk=s(key), lane=s("due"), due=n(10 - number), note=s("x" * 10))
      for number, key in enumerate(SORT_KEYS)),
    put(pk=s("q"), sk=s("a0")),
]

LAST_OF_THREE = {"pk": s("p"), "sk": s("a2"), "lane": s("due"), "due": n(8)}


def pages(aws: Aws, operation: str, **arguments: Any) -> Iterator[dict[str, Any]]:
    """The answers of a query or a scan, each going on where the one before ended."""
    last: dict[str, Any] = {}
    while True:
        answer = call(operation, **arguments, **last)(aws)
        yield answer
        if "LastEvaluatedKey" not in answer:
            return
        last = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}


@pytest.mark.parametrize("forward", [row("forward", True), row("backward", False)])
def test_a_query_goes_on_where_its_last_page_ended(aws: Aws, forward: bool) -> None:
    play(aws, SIX)
    answers = [*pages(aws, "query", Where=P, Limit=2, ScanIndexForward=forward)]
    shown = [item["sk"]["S"] for answer in answers for item in answer["Items"]]
    assert shown == [*SORT_KEYS][:: 1 if forward else -1]
    assert all(answer["LastEvaluatedKey"].keys() == {"pk", "sk"} for answer in answers[:-1])


def test_a_scan_comes_by_every_item_page_by_page(aws: Aws) -> None:
    play(aws, SIX)
    items = [item for answer in pages(aws, "scan", Limit=2) for item in answer["Items"]]
    shown = sorted((item["pk"]["S"], item["sk"]["S"]) for item in items)
    assert shown == [*(("p", key) for key in SORT_KEYS), ("q", "a0")]


def index_shows(index: str, *attributes: str) -> Step:
    """An index shows these attributes of each item in a lane."""
    return holds(
        query(DUE, IndexName=index),
        lambda answer: {frozenset(item) for item in answer["Items"]} == {frozenset(attributes)},
    )


def number_at(at: str) -> Step:
    return call("put_item", TableName="numbers", Item={"id": n(1), "at": n(at)})


QUERIES = [
    *(row(f"a query finds a range in order: {sort or 'a whole partition'}",
          [*SIX,
           shows(query(whole), found, Count=count, ScannedCount=count, LastEvaluatedKey=None),
           shows(query(whole, ScanIndexForward=False), " ".join(found.split()[::-1]))])
      for sort, found in [
        (None, "a0 a1 a2 b3 b4"),
        (equals("sk", "a1"), "a1"),
        (below("sk", "a1"), "a0"),
        (at_most("sk", "a1"), "a0 a1"),
        (above("sk", "a2"), "b3 b4"),
        (at_least("sk", "a2"), "a2 b3 b4"),
        (between("sk", "a1", "b3"), "a1 a2 b3"),
        (begins("sk", "a"), "a0 a1 a2"),
        (begins("sk", "c"), ""),
      ]
      for whole in [P if sort is None else P & sort]
      for count in [len(found.split())]),
    row("numbers are ordered as numbers",
        [*map(number_at, ("10", "-1", "9.5", "2")),
         answers(query(equals("id", 1) & above("at", 0), TableName="numbers"),
                 Items=[{"id": n(1), "at": n(at)} for at in ("2", "9.5", "10")])]),
    row("a page ends after a mebibyte",
        [*(put(**key, a=s("x" * 350 * KB)) for key in keys(4)),
         holds(query(P),
               lambda answer: 1 <= answer["Count"] <= 3 and "LastEvaluatedKey" in answer)]),
    *(row(sentence, [*SIX, shows(query(where, **arguments), shown, **members)], but=but)
      for sentence, where, arguments, shown, members, but in cases([
        ("a page that is just full says that there may be more",
         P, {"Limit": 5}, "a0 a1 a2 b3 b4",
         {"Count": 5, "LastEvaluatedKey": {"pk": s("p"), "sk": s("b4")}}, "dynamodb-last-page"),
        ("the limit counts before the filter",
         P, {"Keep": below("due", 8), "Limit": 4}, "b3",
         {"Count": 1, "ScannedCount": 4, "LastEvaluatedKey": {"pk": s("p"), "sk": s("b3")}}, ""),
        ("a query can count without showing", P, {"Select": "COUNT"}, "", {"Count": 5}, ""),
        ("an index has its own order",
         DUE & below("due", 10), {"IndexName": "lanes"}, "b4 b3 a2 a1", {}, ""),
        ("an index can be filtered by the table's key",
         DUE, {"IndexName": "lanes", "Keep": ~begins("sk", "a")}, "b4 b3", {}, ""),
        ("an index is read page by page",
         DUE, {"IndexName": "lanes", "Limit": 3}, "b4 b3 a2",
         {"LastEvaluatedKey": LAST_OF_THREE}, ""),
        ("an index goes on where its last page ended",
         DUE, {"IndexName": "lanes", "ExclusiveStartKey": LAST_OF_THREE}, "a1 a0", {}, ""),
    ])),
    row("a query shows what is asked for",
        [*SIX, holds(query(P, Only=["sk", "due", "gone"], Limit=1),
                     lambda answer: answer["Items"] == [{"sk": s("a0"), "due": n(10)}])]),
    row("an index of everything shows whole items",
        [*SIX, index_shows("lanes", "pk", "sk", "lane", "due", "note")]),
    row("an index of keys shows the keys of the table and its own",
        [*SIX, index_shows("keys", "pk", "sk", "lane")]),
    row("an item leaves an index with its key attribute",
        [*SIX, update(removes=["lane"], Key={"pk": s("p"), "sk": s("a0")}),
         shows(query(DUE, IndexName="lanes"), "b4 b3 a2 a1"),
         update({"lane": "due", "due": 0}, Key={"pk": s("p"), "sk": s("a0")}),
         shows(query(DUE, IndexName="lanes"), "a0 b4 b3 a2 a1")]),
    *(row(f"a query is refused: {what}", [refused(query(where, **arguments))],
          but=but and f"dynamodb-{but}")
      for what, where, arguments, but in cases([
        ("no hash key", equals("sk", "x"), {}, ""),
        ("range of hash keys", above("pk", "x"), {}, ""),
        ("another attribute", P & equals("note", "x"), {}, ""),
        ("unequal sort key", P & differs("sk", "x"), {}, "key-operators"),
        ("alternative", P | equals("sk", "x"), {}, "key-operators"),
        ("hash key of a wrong type", equals("pk", 1), {}, "key-type"),
        ("empty key", equals("pk", ""), {}, ""),
        ("reversed bounds", P & between("sk", "b", "a"), {}, "key-condition"),
        ("unknown index", P, {"IndexName": "none"}, "query"),
        ("filter on a key", P, {"Keep": equals("sk", "x")}, "filter-on-key"),
        ("half a start key", P, {"ExclusiveStartKey": {"pk": s("p")}}, "query"),
        ("start key of another hash key", P,
         {"ExclusiveStartKey": {"pk": s("q"), "sk": s("s")}}, "query"),
        ("consistent read of an index", DUE, {"IndexName": "lanes", "ConsistentRead": True}, ""),
    ])),
    *(row(f"a start key outside the range is refused {way}",
          [*SIX, *(refused(query(P & between("sk", "a1", "a2"),
                                 ExclusiveStartKey={"pk": s("p"), "sk": s(start)},
                                 ScanIndexForward=way == "forward")) for start in ("a0", "b4"))],
          but="dynamodb-query")
      for way in ("forward", "backward")),
    row("a scan can be filtered",
        [*SIX, holds(call("scan", Keep=at_most("due", 7)),
                     lambda answer: sorted(item["sk"]["S"] for item in answer["Items"])
                     == ["b3", "b4"] and (answer["Count"], answer["ScannedCount"]) == (2, 6))]),
]


# Batches.

LARGE = s("x" * (390 * KB - 100))

BATCHES = [
    row("a batch writes and deletes",
        [put(), answers(batch_write(*keys(24), deletes=[KEY]), UnprocessedItems={}),
         answers(query(P), Count=24)]),
    *(row(f"a batch of writes is refused as a whole: {what}",
          [refused(batch_write(*items, {"pk": s("p"), "sk": s("good")}, deletes=deletes)),
           answers(query(P), Count=0)], but=but)
      for what, items, deletes, but in [
        ("26 items", keys(26), [], "dynamodb-batch"),
        ("an item twice", [KEY, KEY], [], ""),
        ("an item put and deleted", [KEY], [KEY], "dynamodb-batch"),
        ("half a key", [{"pk": s("p")}], [], ""),
        ("a large item", [{**KEY, "a": s("x" * 400 * KB)}], [], ""),
    ]),
    row("a batch reads what is there",
        [batch_write(*keys(3)),
         holds(batch_get(keys(4), Only=["sk"]),
               lambda answer: sorted(item["sk"]["S"] for item in answer["Responses"]["letters"])
               == ["0", "1", "2"] and answer["UnprocessedKeys"] == {})]),
    *(row(f"a batch of reads is refused: {what}", [refused(batch_get(wanted))])
      for what, wanted in [
        ("101 keys", keys(101)), ("a key twice", [KEY, KEY]), ("half a key", [{"pk": s("p")}]),
    ]),
    row("a batch reads 16 megabytes and names the rest",
        [*(put(**key, a=LARGE) for key in keys(43)),
         holds(batch_get(keys(43)),
               lambda answer: len(answer["Responses"]["letters"]) == 42
               and len(answer["UnprocessedKeys"]["letters"]["Keys"]) == 1)],
        but="dynamodb-batch-read-size"),
]


# Transactions.

FIRST, SECOND, THIRD, FOURTH = keys(4)


TRANSACTIONS = [
    row("a transaction does everything",
        [*(put(**key, num=n(1)) for key in (SECOND, THIRD, FOURTH)),
         transact(
             action("Put", Item=FIRST),
             action("Update", Key=SECOND, Adds={"num": 1}, When=equals("num", 1)),
             action("Delete", Key=THIRD),
             action("ConditionCheck", Key=FOURTH, When=present("pk"))),
         answers(query(P),
                 Items=[FIRST, {**SECOND, "num": n(2)}, {**FOURTH, "num": n(1)}])]),
    row("a transaction does everything or nothing",
        [put(owner=s("other")),
         canceled(transact(action("Put", Item={"pk": s("p"), "sk": s("new")}),
                           action("Delete", When=NOT_THERE)),
                  "None", "ConditionalCheckFailed"),
         answers(query(P), Count=1)]),
    row("an update that does not fit its item cancels a transaction",
        [put(a=s("text")),
         canceled(transact(action("Update", Adds={"a": 1})), "ValidationError")],
        but="dynamodb-transaction-update"),
    *(row(f"a transaction is refused: {what}", [refused(transact(*actions))])
      for what, actions in [
        ("101 items", [action("Put", Item=key) for key in keys(101)]),
        ("an item twice", [action("Put"), action("Delete")]),
        ("an item too large", [action("Put", Item={**KEY, "a": s("x" * 400 * KB)})]),
    ]),
    row("a transaction may have a hundred items",
        [transact(*(action("Put", Item=key) for key in keys(100))),
         answers(query(P), Count=100)]),
]

# fmt: on

TABLE = [
    *ITEMS,
    *TABLES,
    *CONDITIONS,
    *UPDATES,
    *QUERIES,
    *BATCHES,
    *TRANSACTIONS,
]


@pytest.mark.parametrize("steps", TABLE)
def test_dynamodb(aws: Aws, steps: Sequence[Step]) -> None:
    play(aws, steps)
