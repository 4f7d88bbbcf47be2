"""What DynamoDB does, on every backend: a table of scenes, each a plain sentence and its steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

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

A_TEXT = {":v": s("x")}
ONE = {":v": n(1)}
P, DUE = {":p": s("p")}, {":p": s("due")}
MISSING = "ResourceNotFoundException"
NOT_THERE = "attribute_not_exists(pk)"


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
    row("an item can be shown in parts",
        [put(a=s("1"), m={"M": {"x": s("2"), "y": s("3")}}, l={"L": [s("4"), s("5"), s("6")]}),
         reads({"a": s("1"), "m": {"M": {"x": s("2")}}, "l": {"L": [s("6")]}},
               ProjectionExpression="a, #m.x, l[2], gone", names={"#m": "m"})]),
    row("putting again replaces the whole item, and shows the old one if asked",
        [put(a=s("1")),
         answers(call("put_item", Item={**KEY, "b": s("2")}, ReturnValues="ALL_OLD"),
                 Attributes={**KEY, "a": s("1")}),
         reads({**KEY, "b": s("2")})]),
    row("deleting shows the old item if asked and if there was one",
        [put(a=s("1")),
         answers(delete(ReturnValues="ALL_OLD"), Attributes={**KEY, "a": s("1")}),
         answers(delete(ReturnValues="ALL_OLD"), Attributes=None), reads(None)]),
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
        [put(a=s("x" * 300 * KB)), refused(update("SET b = :v", {":v": s("x" * 100 * KB)}))]),
    row("a put can not show what is new", [refused(call("put_item", ReturnValues="ALL_NEW"))]),
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

VALUES = {
    **{f":{name}": n(number) for name, number in (("two", 2), ("four", 4), ("five", 5))},
    **{f":{name}": n(number) for name, number in (("ten", 10), ("eleven", 11))},
    **{f":{name}": s(name) for name in ("text", "tex", "ex", "S")},
    ":five_text": s("5"),
    ":true": {"BOOL": True},
    ":tags": {"SS": ["tag", "tex"]},
}

# Of ITEM, with VALUES.
TRUE = """
    attribute_exists(pk)
    attribute_exists(a)
    attribute_not_exists(gone)
    attribute_exists(m.x)
    attribute_exists(l[1])
    num = :five
    num < :ten
    num <= :five
    num >= :five
    five = num
    gone <> :five
    a <> :five
    num BETWEEN :five AND :ten
    num IN (:ten, :five)
    begins_with(a, :tex)
    contains(a, :ex)
    contains(tags, :tex)
    contains(l, :tex)
    attribute_type(a, :S)
    size(a) = :four
    size(l) = :two
    size(tags) = :two
    size(m) < :two
    NOT num = :five OR a = :text
    num = :ten OR num = :five AND a = :text
    num = :five AND NOT (a = :five OR gone = :five)
    l[0] = :tex
    m.x = :five
    flag = :true
    tags = :tags
"""
FALSE = """
    attribute_exists(gone)
    attribute_not_exists(pk)
    attribute_exists(m.y)
    attribute_exists(l[2])
    num <> :five
    num > :five
    gone = :five
    gone < :five
    a = :five
    a > :five
    num between :ten and :eleven
    num IN (:ten)
    begins_with(a, :five_text)
    contains(tags, :ex)
    contains(gone, :tex)
    attribute_type(num, :S)
    attribute_type(gone, :S)
    size(gone) < :two
    NOT num = :five
    (num = :five OR num = :ten) AND a = :five
"""


def conditions(lines: str, truth: bool, but: str = "") -> Iterator[Any]:
    for line in lines.strip().splitlines():
        words = set(line.translate(dict.fromkeys(map(ord, "(),"), " ")).split())
        step = condition(line.strip(), {name: VALUES[name] for name in VALUES if name in words})
        expected = step if truth else refused(step, CANCELED)
        yield row(f"{line.strip()} is {str(truth).lower()}", [put(**ITEM), expected], but=but)


CONDITIONS = [
    *conditions(TRUE, True),
    *conditions(FALSE, False),
    *conditions("gone = lost", False, but="dynamodb-operands"),
    row("a condition on an item that is not there sees nothing",
        [condition(NOT_THERE), refused(condition("a = :v", A_TEXT), CANCELED),
         condition("a <> :v", A_TEXT)]),
    *(row(f"a condition is refused: {what}",
          [put(a=s("x")), refused(condition(text, values))], but=but and f"dynamodb-{but}")
      for what, text, values, but in [
        ("empty", "", {}, "condition-syntax"),
        ("half a comparison", "a =", {}, "condition-syntax"),
        ("half a conjunction", "a = :v AND", A_TEXT, "condition-syntax"),
        ("open bracket", "(a = :v", A_TEXT, "condition-syntax"),
        ("a literal", "a = 5", {}, "condition-syntax"),
        ("a quotation", "a = 'x'", {}, "condition-words"),
        ("unknown function", "shrink(a)", {}, "condition-words"),
        ("function in capitals", "Attribute_Exists(a)", {}, "condition-words"),
        ("reserved word", "status = :v", A_TEXT, ""),
        ("reserved word in capitals", "Name = :v", A_TEXT, ""),
        ("value not given", "a = :v", {}, "condition-syntax"),
        ("name not given", "#a = :v", A_TEXT, "condition-syntax"),
        ("value too many", "a = :v", {**A_TEXT, ":w": s("x")}, "condition-syntax"),
        ("an attribute and itself", "a = a", {}, "operands"),
        ("a boolean before", ":v < a", {":v": {"BOOL": True}}, "operands"),
        ("order of booleans", "a < :v", {":v": {"BOOL": True}}, "operands"),
        ("beginning of a number", "begins_with(a, :v)", ONE, "bounds"),
        ("unknown type", "attribute_type(a, :v)", {":v": s("X")}, "operands"),
        ("bounds reversed", "a BETWEEN :v AND :w", {":v": n(2), ":w": n(1)}, "bounds"),
        ("redundant brackets", "((a = :v))", A_TEXT, ""),
        ("101 alternatives", f"num IN ({', '.join(f':v{i}' for i in range(101))})",
         {f":v{i}": n(i) for i in range(101)}, "operands"),
        ("comparison with an empty set", "a = :v", {":v": {"SS": []}}, "operands"),
    ]),
    row("a condition is refused: name not used",
        [put(a=s("x")), refused(condition("a = :v", A_TEXT, {"#a": "a"}))]),
    row("names without an expression are refused",
        [refused(call("put_item", names={"#a": "a"}))]),
    row("values without an expression are refused",
        [refused(call("put_item", values={":a": s("a")}))], but="dynamodb-condition-syntax"),
    row("a put that its condition stops changes nothing",
        [put(a=s("old")),
         refused(call("put_item", Item={**KEY, "a": s("new")}, ConditionExpression=NOT_THERE),
                 CONDITION, Item=None),
         raises(CONDITION, call("put_item", ConditionExpression=NOT_THERE)),
         reads({**KEY, "a": s("old")})]),
    *(row(f"a failed condition of {operation} shows the item if asked",
          [put(owner=s("other")), refused(step, CONDITION, Item={**KEY, "owner": s("other")}),
           delete(), refused(step, CONDITION, Item=None)])
      for operation in ("put_item", "update_item", "delete_item")
      for step in [call(operation, ConditionExpression="#o = :me", names={"#o": "owner"},
                        values={":me": s("me")}, ReturnValuesOnConditionCheckFailure="ALL_OLD")]),
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


def texts(letters: str) -> dict[str, Any]:
    return {"L": [s(letter) for letter in letters]}


def tags(members: str) -> dict[str, Any]:
    return {"SS": [*members]}


UPDATES = [
    *(row(f"an update {what}", [put(**BEFORE), update(expression, values), reads(after(changes))],
          but=but)
      for what, expression, values, changes, but in cases([
        ("sets an attribute", "SET a = :v", A_TEXT, {"a": s("x")}, ""),
        ("copies an attribute", "SET b = a", {}, {"b": s("old")}, ""),
        ("copies what was there before it", "SET a = :v, b = a", A_TEXT,
         {"a": s("x"), "b": s("old")}, ""),
        ("adds to a number", "SET num = num + :v", {":v": n(2)}, {"num": n(7)}, ""),
        ("subtracts a fraction", "SET num = num - :v", {":v": n("0.5")}, {"num": n("4.5")}, ""),
        ("subtracts from a value", "SET num = :v - num", ONE, {"num": n(-4)}, ""),
        ("keeps what exists", "SET num = if_not_exists(num, :v)", {":v": n(0)}, {"num": n(5)}, ""),
        ("begins a counter", "SET c = if_not_exists(c, :v) + :v", ONE, {"c": n(2)}, ""),
        ("appends to a list", "SET l = list_append(l, :v)", {":v": texts("z")},
         {"l": texts("xyz")}, ""),
        ("puts before a list", "SET l = list_append(:v, l)", {":v": texts("w")},
         {"l": texts("wxy")}, ""),
        ("begins a list", "SET fresh = list_append(if_not_exists(fresh, :gone), :v)",
         {":v": texts("z"), ":gone": texts("")}, {"fresh": texts("z")}, ""),
        ("replaces an element", "SET l[0] = :v", {":v": s("z")}, {"l": texts("zy")}, ""),
        ("sets an element past the end as the last", "SET l[9] = :v", {":v": s("z")},
         {"l": texts("xyz")}, ""),
        ("replaces a member of a map", "SET m.x = :v", {":v": s("z")},
         {"m": {"M": {"x": s("z"), "y": n(1)}}}, ""),
        ("gives a map a member", "SET m.z = :v", {":v": s("z")},
         {"m": {"M": {"x": s("x"), "y": n(1), "z": s("z")}}}, ""),
        ("counts inside a map", "SET m.y = m.y + :v", ONE,
         {"m": {"M": {"x": s("x"), "y": n(2)}}}, ""),
        ("removes an attribute", "REMOVE a", {}, {"a": None}, ""),
        ("may remove what is not there", "REMOVE gone", {}, {}, ""),
        ("removes a member of a map", "REMOVE m.x, a", {},
         {"m": {"M": {"y": n(1)}}, "a": None}, ""),
        ("removes an element", "REMOVE l[0]", {}, {"l": texts("y")}, ""),
        ("removes two elements as the list was before it", "REMOVE l[0], l[1]", {},
         {"l": texts("")}, "dynamodb-removed-elements"),
        ("adds a negative number", "ADD num :v", {":v": n(-5)}, {"num": n(0)}, ""),
        ("adds to a number that is not there", "ADD c :v", {":v": n(3)}, {"c": n(3)}, ""),
        ("adds members to a set", "ADD tags :v", {":v": tags("bc")}, {"tags": tags("abc")}, ""),
        ("deletes members of a set", "DELETE tags :v", {":v": tags("bc")}, {"tags": tags("a")}, ""),
        ("removes a set with its last member", "DELETE tags :v", {":v": tags("ab")},
         {"tags": None}, ""),
        ("may delete from a set that is not there", "DELETE gone :v", {":v": tags("a")}, {}, ""),
        ("has four sections, in any case",
         "set a = :v remove m add num :one delete tags :tags",
         {":v": s("z"), ":one": n(1), ":tags": tags("a")},
         {"a": s("z"), "m": None, "num": n(6), "tags": tags("b")}, ""),
    ])),
    *(row(f"an update is refused: {what}",
          [put(**BEFORE), refused(update(expression, values)), reads(after({}))],
          but=but and f"dynamodb-{but}")
      for what, expression, values, but in [
        ("nothing", "", {}, ""),
        ("half an assignment", "SET a", {}, "update-syntax"),
        ("unknown section", "PUT a = :v", A_TEXT, ""),
        ("a section twice", "SET a = :v SET b = :v", A_TEXT, "update-syntax"),
        ("key attribute", "SET pk = :v", A_TEXT, ""),
        ("a path twice", "SET a = :v, a = :v", A_TEXT, "update-syntax"),
        ("a path within another", "SET m = :v, m.x = :v", A_TEXT, ""),
        ("missing attribute", "SET a = gone", {}, ""),
        ("sum with a missing attribute", "SET a = gone + :v", ONE, ""),
        ("sum with a text", "SET a = a + :v", ONE, "update-operands"),
        ("sum with a text value", "SET a = num + :v", {":v": s("1")}, "update-operands"),
        ("below a missing attribute", "SET gone.x = :v", A_TEXT, ""),
        ("below a text", "SET a.x = :v", A_TEXT, "document-path"),
        ("element of a text", "SET a[0] = :v", A_TEXT, "path-to-nothing"),
        ("removal below nothing", "REMOVE gone.x", {}, "path-to-nothing"),
        ("appended text", "SET l = list_append(l, :v)", A_TEXT, "update-operands"),
        ("list appended to a text", "SET l = list_append(a, :v)", {":v": texts("")},
         "update-operands"),
        ("number added to a text", "ADD a :v", ONE, ""),
        ("text added", "ADD num :v", A_TEXT, ""),
        ("numbers added to texts", "ADD tags :v", {":v": {"NS": ["1"]}}, ""),
        ("member deleted from a text", "DELETE a :v", {":v": tags("x")}, ""),
        ("value not used", "SET a = :v", {**A_TEXT, ":w": s("x")}, ""),
        ("reserved word", "SET size = :v", A_TEXT, "reserved-word"),
        ("index key changed to a wrong type", "SET lane = :v", ONE, ""),
        ("more than 38 digits", "SET num = num + :v", {":v": n("0." + "0" * 37 + "1")}, "digits"),
    ]),
    row("an update creates a missing item",
        [update("ADD num :v", ONE), reads({**KEY, "num": n(1)})]),
    *(row(f"an update shows what was asked for: {returns}",
          [put(a=s("1"), m={"M": {"x": s("1"), "y": s("1")}}),
           answers(update("SET a = :v, m.x = :v", {":v": s("2")}, ReturnValues=returns),
                   Attributes=shown)], but=but)
      for returns, shown, but in [
        ("NONE", None, ""),
        ("ALL_OLD", {**KEY, "a": s("1"), "m": {"M": {"x": s("1"), "y": s("1")}}}, ""),
        ("ALL_NEW", {**KEY, "a": s("2"), "m": {"M": {"x": s("2"), "y": s("1")}}}, ""),
        ("UPDATED_OLD", {"a": s("1"), "m": {"M": {"x": s("1")}}}, "dynamodb-updated-old"),
        ("UPDATED_NEW", {"a": s("2"), "m": {"M": {"x": s("2")}}}, ""),
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
LANE = "lane = :p"
BETWEEN = "pk = :p AND sk BETWEEN :a AND :b"


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
    answers = [*pages(aws, "query", KeyConditionExpression="pk = :p", values=P, Limit=2,
                      ScanIndexForward=forward)]
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
        query(LANE, DUE, IndexName=index),
        lambda answer: {frozenset(item) for item in answer["Items"]} == {frozenset(attributes)},
    )


def number_at(at: str) -> Step:
    return call("put_item", TableName="numbers", Item={"id": n(1), "at": n(at)})


QUERIES = [
    *(row(f"a query finds a range in order: {text or 'a whole partition'} {' '.join(bounds)}",
          [*SIX,
           shows(query(whole, values), found, Count=count, ScannedCount=count,
                 LastEvaluatedKey=None),
           shows(query(whole, values, ScanIndexForward=False), " ".join(found.split()[::-1]))])
      for text, bounds, found in [
        ("", [], "a0 a1 a2 b3 b4"),
        ("sk = :a", ["a1"], "a1"),
        ("sk < :a", ["a1"], "a0"),
        ("sk <= :a", ["a1"], "a0 a1"),
        ("sk > :a", ["a2"], "b3 b4"),
        ("sk >= :a", ["a2"], "a2 b3 b4"),
        ("sk BETWEEN :a AND :b", ["a1", "b3"], "a1 a2 b3"),
        ("begins_with(sk, :a)", ["a"], "a0 a1 a2"),
        ("begins_with(sk, :a)", ["c"], ""),
      ]
      for whole in ["pk = :p" + (f" AND {text}" if text else "")]
      for values in [{**P, **dict(zip((":a", ":b"), map(s, bounds), strict=False))}]
      for count in [len(found.split())]),
    row("numbers are ordered as numbers",
        [*map(number_at, ("10", "-1", "9.5", "2")),
         answers(query("id = :id AND #at > :zero", {":id": n(1), ":zero": n(0)},
                       names={"#at": "at"}, TableName="numbers"),
                 Items=[{"id": n(1), "at": n(at)} for at in ("2", "9.5", "10")])]),
    row("a number is one key in every spelling",
        [number_at("2"),
         answers(query("id = :id", {":id": n("1.0")}, TableName="numbers"), Count=1)],
        but="dynamodb-number-key"),
    row("a page ends after a mebibyte",
        [*(put(**key, a=s("x" * 350 * KB)) for key in keys(4)),
         holds(query("pk = :p", P),
               lambda answer: 1 <= answer["Count"] <= 3 and "LastEvaluatedKey" in answer)]),
    *(row(sentence, [*SIX, shows(query(text, values, **arguments), shown, **members)], but=but)
      for sentence, text, values, arguments, shown, members, but in cases([
        ("a page that is just full says that there may be more",
         "pk = :p", P, {"Limit": 5}, "a0 a1 a2 b3 b4",
         {"Count": 5, "LastEvaluatedKey": {"pk": s("p"), "sk": s("b4")}}, "dynamodb-last-page"),
        ("the limit counts before the filter",
         "pk = :p", {**P, ":d": n(8)}, {"FilterExpression": "due < :d", "Limit": 4}, "b3",
         {"Count": 1, "ScannedCount": 4, "LastEvaluatedKey": {"pk": s("p"), "sk": s("b3")}}, ""),
        ("a query can count without showing",
         "pk = :p", P, {"Select": "COUNT"}, "", {"Count": 5}, ""),
        ("an index has its own order",
         "lane = :p AND due < :d", {**DUE, ":d": n(10)}, {"IndexName": "lanes"}, "b4 b3 a2 a1",
         {}, ""),
        ("an index is read page by page",
         LANE, DUE, {"IndexName": "lanes", "Limit": 3}, "b4 b3 a2",
         {"LastEvaluatedKey": LAST_OF_THREE}, ""),
        ("an index goes on where its last page ended",
         LANE, DUE, {"IndexName": "lanes", "ExclusiveStartKey": LAST_OF_THREE}, "a1 a0", {}, ""),
    ])),
    row("an index of everything shows whole items",
        [*SIX, index_shows("lanes", "pk", "sk", "lane", "due", "note")]),
    row("an index of keys shows the keys of the table and its own",
        [*SIX, index_shows("keys", "pk", "sk", "lane")]),
    row("an item leaves an index with its key attribute",
        [*SIX, update("REMOVE lane", Key={"pk": s("p"), "sk": s("a0")}),
         shows(query(LANE, DUE, IndexName="lanes"), "b4 b3 a2 a1"),
         update("SET lane = :p, due = :d", {**DUE, ":d": n(0)},
                Key={"pk": s("p"), "sk": s("a0")}),
         shows(query(LANE, DUE, IndexName="lanes"), "a0 b4 b3 a2 a1")]),
    *(row(f"a query is refused: {what}", [refused(query(text, values, **arguments))],
          but=but and f"dynamodb-{but}")
      for what, text, values, arguments, but in cases([
        ("no hash key", "sk = :v", A_TEXT, {}, ""),
        ("range of hash keys", "pk > :v", A_TEXT, {}, ""),
        ("another attribute", "pk = :v AND note = :v", A_TEXT, {}, ""),
        ("unequal sort key", "pk = :v AND sk <> :v", A_TEXT, {}, "key-operators"),
        ("alternative", "pk = :v OR sk = :v", A_TEXT, {}, "key-operators"),
        ("hash key of a wrong type", "pk = :v", ONE, {}, "key-type"),
        ("empty key", "pk = :v", {":v": s("")}, {}, ""),
        ("reversed bounds", BETWEEN, {":p": s("x"), ":a": s("b"), ":b": s("a")}, {},
         "key-condition"),
        ("unused value", "pk = :v", {**A_TEXT, ":w": s("x")}, {}, "key-condition"),
        ("unknown index", "pk = :v", A_TEXT, {"IndexName": "none"}, "query"),
        ("filter on a key", "pk = :v", A_TEXT, {"FilterExpression": "sk = :v"}, "filter-on-key"),
        ("half a start key", "pk = :v", A_TEXT, {"ExclusiveStartKey": {"pk": s("x")}}, "query"),
        ("start key of another hash key", "pk = :v", A_TEXT,
         {"ExclusiveStartKey": {"pk": s("q"), "sk": s("s")}}, "query"),
        ("consistent read of an index", "lane = :v", A_TEXT,
         {"IndexName": "lanes", "ConsistentRead": True}, ""),
    ])),
    *(row(f"a start key outside the range is refused {way}",
          [*SIX, *(refused(query(BETWEEN, {**P, ":a": s("a1"), ":b": s("a2")},
                                 ExclusiveStartKey={"pk": s("p"), "sk": s(start)},
                                 ScanIndexForward=way == "forward")) for start in ("a0", "b4"))],
          but="dynamodb-query")
      for way in ("forward", "backward")),
    row("a scan can be filtered",
        [*SIX, holds(call("scan", FilterExpression="due <= :d", values={":d": n(7)},
                          ProjectionExpression="sk"),
                     lambda answer: sorted(item["sk"]["S"] for item in answer["Items"])
                     == ["b3", "b4"] and (answer["Count"], answer["ScannedCount"]) == (2, 6))]),
]


# Batches.

LARGE = s("x" * (390 * KB - 100))

BATCHES = [
    row("a batch writes and deletes",
        [put(), answers(batch_write(*keys(24), deletes=[KEY]), UnprocessedItems={}),
         answers(query("pk = :p", P), Count=24)]),
    *(row(f"a batch of writes is refused as a whole: {what}",
          [refused(batch_write(*items, {"pk": s("p"), "sk": s("good")}, deletes=deletes)),
           answers(query("pk = :p", P), Count=0)], but=but)
      for what, items, deletes, but in [
        ("26 items", keys(26), [], "dynamodb-batch"),
        ("an item twice", [KEY, KEY], [], ""),
        ("an item put and deleted", [KEY], [KEY], "dynamodb-batch"),
        ("half a key", [{"pk": s("p")}], [], ""),
        ("a large item", [{**KEY, "a": s("x" * 400 * KB)}], [], ""),
    ]),
    row("a batch reads what is there",
        [batch_write(*keys(3)),
         holds(batch_get(keys(4), ProjectionExpression="sk"),
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


def adding(value: int) -> Step:
    """A transaction with a token that adds to a number."""
    added = action("Update", UpdateExpression="ADD num :v", values={":v": n(value)})
    return transact(added, ClientRequestToken="t")


TRANSACTIONS = [
    row("a transaction does everything",
        [*(put(**key, num=n(1)) for key in (SECOND, THIRD, FOURTH)),
         transact(
             action("Put", Item=FIRST),
             action("Update", Key=SECOND, UpdateExpression="SET num = num + :v",
                    ConditionExpression="num = :v", values=ONE),
             action("Delete", Key=THIRD),
             action("ConditionCheck", Key=FOURTH, ConditionExpression="attribute_exists(pk)")),
         answers(query("pk = :p", P),
                 Items=[FIRST, {**SECOND, "num": n(2)}, {**FOURTH, "num": n(1)}])]),
    row("a transaction does everything or nothing",
        [put(owner=s("other")),
         canceled(transact(action("Put", Item={"pk": s("p"), "sk": s("new")}),
                           action("Delete", ConditionExpression=NOT_THERE,
                                  ReturnValuesOnConditionCheckFailure="ALL_OLD")),
                  ("None", None), ("ConditionalCheckFailed", {**KEY, "owner": s("other")})),
         answers(query("pk = :p", P), Count=1)]),
    row("a canceled transaction shows no item unless asked",
        [put(), canceled(condition(NOT_THERE), ("ConditionalCheckFailed", None))]),
    row("an update that does not fit its item cancels a transaction",
        [put(a=s("text")),
         canceled(transact(action("Update", UpdateExpression="SET a = a + :v", values=ONE)),
                  ("ValidationError", None))], but="dynamodb-transaction-update"),
    *(row(f"a transaction is refused: {what}", [refused(transact(*actions))])
      for what, actions in [
        ("101 items", [action("Put", Item=key) for key in keys(101)]),
        ("an item twice", [action("Put"), action("Delete")]),
        ("an item too large", [action("Put", Item={**KEY, "a": s("x" * 400 * KB)})]),
    ]),
    row("a transaction may have a hundred items",
        [transact(*(action("Put", Item=key) for key in keys(100))),
         answers(query("pk = :p", P), Count=100)]),
    row("a transaction with a token happens once",
        [adding(1), adding(1), reads({**KEY, "num": n(1)})], but="dynamodb-token"),
    row("a token belongs to one transaction",
        [adding(1), refused(adding(2), "IdempotentParameterMismatchException")],
        but="dynamodb-token"),
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
