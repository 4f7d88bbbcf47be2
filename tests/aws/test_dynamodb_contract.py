"""What DynamoDB does, on every backend: a table of scenes, each a plain sentence and its steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pytest

from deadletter.aws.table import (
    above,
    absent,
    at_least,
    at_most,
    begins,
    below,
    between,
    differs,
    equals,
    present,
)
from tests.aws.backends import Aws
from tests.aws.dynamodb_steps import (
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
        "messages",
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
    "digits": n("12345678901234567890123456789012345678"),
    "texts": {"SS": ["b", "a"]},
    "numbers": {"NS": ["10", "9"]},
    "blobs": {"BS": [b"2", b"1"]},
    "list": {"L": [s("a"), n(1), {"L": []}]},
    "map": {"M": {"a": s("b"), "c": {"M": {}}}},
}

# pk, p, sk, s and the attribute's name are seven bytes.
LARGEST = s("x" * (400 * KB - 7))
TOO_LARGE = s("x" * (400 * KB - 6))

ITEMS = [
    row("an item comes back as it was put", [put(**EVERYTHING), reads({**KEY, **EVERYTHING})]),
    row("a number is kept in its shortest spelling",
        [step for number, kept in [("007", "7"), ("1.50", "1.5"), ("1e3", "1000"), ("-0", "0")]
         for step in [put(number=n(number)), reads({**KEY, "number": n(kept)})]],
        but="dynamodb-number-spelling"),
    row("an item that is not there is an answer without one", [reads(None)]),
    row("putting again replaces the whole item", [put(a=s("1")), put(b=s("2")),
         reads({**KEY, "b": s("2")})]),
    row("a deleted item is gone, and may be deleted again",
        [put(a=s("1")), delete(), reads(None), delete(), reads(None)]),
    row("an item is refused whose key or value DynamoDB does not know",
        [refused(put(**attributes)) for attributes in cases([
            {"sk": n(1)}, {"pk": s("")}, {"sk": s("")}, {"lane": s("")},
            {"pk": s("x" * 2049)}, {"sk": s("x" * 1025)},
            {"a": {"SS": []}}, {"a": n("x")}, {"a": n("1e-131")}, {"a": {"NULL": False}},
        ])]),
    *(row(f"an item is refused: {what}", [refused(put(**attributes))], but=f"dynamodb-{but}")
      for what, attributes, but in cases([
        ("index key of a wrong type", {"lane": n(1)}, "index-key"),
        ("a member twice", {"a": {"SS": ["x", "x"]}}, "set-members"),
        ("a number twice", {"a": {"NS": ["1", "1.0"]}}, "number"),
        ("number of 39 digits", {"a": n("1" * 39)}, "number"),
        ("number too large", {"a": n("1e126")}, "number"),
        ("value without a type", {"a": {}}, "one-type"),
        ("value of two types", {"a": {"S": "x", "N": "1"}}, "one-type"),
    ])),
    row("an item without its whole key is refused",
        [refused(call("put_item", Item={"pk": s("p")}))]),
    *(row(f"a key is refused: {what}",
          [refused(step) for key in wrong for step in (call("get_item", Key=key), delete(Key=key))],
          but=but)
      for what, wrong, but in cases([
        ("half of it, or more", [{"pk": s("p")}, {**KEY, "a": s("x")}], ""),
        ("a wrong type", [{"pk": n(1), "sk": s("s")}], "dynamodb-key-type"),
    ])),
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


# Conditions. What each of them and each change comes to: test_generated_writes.

CONDITIONS = [
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

BEFORE = {"a": s("old"), "num": n(5)}

UPDATES = [
    *(row(f"an update is refused: {what}",
          [put(**BEFORE), refused(update(*changed)), reads({**KEY, **BEFORE})],
          but=but and f"dynamodb-{but}")
      for what, changed, but in [
        ("key attribute", [{"pk": "x"}], ""),
        ("an attribute twice", [{"a": "x"}, None, ["a"]], "update-twice"),
        ("text added", [None, {"num": "x"}], ""),
        ("index key changed to a wrong type", [{"lane": 1}], "index-key"),
        ("more than 38 digits", [None, {"num": Decimal("0." + "0" * 37 + "1")}], "digits"),
    ]),
    row("an update shows what was asked for",
        [step for returns, shown in [
            ("NONE", None),
            ("ALL_OLD", {**KEY, **BEFORE}),
            ("ALL_NEW", {**KEY, **BEFORE, "a": s("new")}),
            ("UPDATED_OLD", {"a": s("old")}),
         ] for step in [put(**BEFORE),
                        answers(update({"a": "new"}, ReturnValues=returns), Attributes=shown)]]),
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
    row("a query finds a range in order",
        [*SIX,
         *(step for sort, found in [
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
           for count in [len(found.split())]
           for step in [
            shows(query(whole), found, Count=count, ScannedCount=count, LastEvaluatedKey=None),
            shows(query(whole, ScanIndexForward=False), " ".join(found.split()[::-1]))])]),
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
    row("a query is refused that is not of one partition, or asks an index for the newest",
        [refused(query(where, **arguments)) for where, arguments in cases([
            (equals("sk", "x"), {}), (above("pk", "x"), {}), (equals("pk", ""), {}),
            (P & equals("note", "x"), {}), (DUE, {"IndexName": "lanes", "ConsistentRead": True}),
        ])]),
    *(row(f"a query is refused: {what}", [refused(query(where, **arguments))],
          but=f"dynamodb-{but}")
      for what, where, arguments, but in cases([
        ("unequal sort key", P & differs("sk", "x"), {}, "key-operators"),
        ("alternative", P | equals("sk", "x"), {}, "key-operators"),
        ("hash key of a wrong type", equals("pk", 1), {}, "key-type"),
        ("reversed bounds", P & between("sk", "b", "a"), {}, "key-condition"),
        ("unknown index", P, {"IndexName": "none"}, "query"),
        ("filter on a key", P, {"Keep": equals("sk", "x")}, "filter-on-key"),
        ("half a start key", P, {"ExclusiveStartKey": {"pk": s("p")}}, "query"),
        ("start key of another hash key", P,
         {"ExclusiveStartKey": {"pk": s("q"), "sk": s("s")}}, "query"),
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
          [*(refused(batch_write(*items, {"pk": s("p"), "sk": s("good")}, deletes=deletes))
             for items, deletes in batches), answers(query(P), Count=0)], but=but)
      for what, batches, but in cases([
        ("an item twice, half a key or too large",
         [([KEY, KEY], []), ([{"pk": s("p")}], []), ([{**KEY, "a": s("x" * 400 * KB)}], [])], ""),
        ("26 items", [(keys(26), [])], "dynamodb-batch"),
        ("an item put and deleted", [([KEY], [KEY])], "dynamodb-batch"),
    ])),
    row("a batch reads what is there",
        [batch_write(*keys(3)),
         holds(batch_get(keys(4), Only=["sk"]),
               lambda answer: sorted(item["sk"]["S"] for item in answer["Responses"]["messages"])
               == ["0", "1", "2"] and answer["UnprocessedKeys"] == {})]),
    row("a batch of reads is refused: 101 keys, a key twice, half a key",
        [refused(batch_get(wanted)) for wanted in (keys(101), [KEY, KEY], [{"pk": s("p")}])]),
    row("a batch reads 16 megabytes and names the rest",
        [*(put(**key, a=LARGE) for key in keys(43)),
         holds(batch_get(keys(43)),
               lambda answer: len(answer["Responses"]["messages"]) == 42
               and len(answer["UnprocessedKeys"]["messages"]["Keys"]) == 1)],
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
    row("a transaction is refused: 101 items, an item twice, an item too large",
        [refused(transact(*actions)) for actions in [
            [action("Put", Item=key) for key in keys(101)],
            [action("Put"), action("Delete")],
            [action("Put", Item={**KEY, "a": s("x" * 400 * KB)})],
        ]]),
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
