"""What DynamoDB does, on every backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.aws.backends import Aws
from tests.aws.rows import differs, refusal, row
from tests.tables import create_keyed_table

KB = 1024
VALIDATION = "ValidationException"
CONDITION = "ConditionalCheckFailedException"


def s(value: str) -> dict[str, Any]:
    return {"S": value}


def n(value: object) -> dict[str, Any]:
    return {"N": str(value)}


KEY = {"pk": s("p"), "sk": s("s")}
A_TEXT = {":v": s("x")}
"""One value, as an expression is given it."""


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


def put(aws: Aws, **attributes: Any) -> None:
    aws.dynamodb.put_item(TableName="letters", Item={**KEY, **attributes})


def get(aws: Aws, **arguments: Any) -> Any:
    answer = aws.dynamodb.get_item(TableName="letters", Key=KEY, ConsistentRead=True, **arguments)
    return answer.get("Item")


def given(values: dict[str, Any] | None, names: dict[str, str] | None = None) -> dict[str, Any]:
    """The placeholders of an expression, each kind only where there are any."""
    both = {"ExpressionAttributeValues": values, "ExpressionAttributeNames": names}
    return {name: placeholders for name, placeholders in both.items() if placeholders}


def update(aws: Aws, expression: str, values: Any = None, **arguments: Any) -> Any:
    return aws.dynamodb.update_item(
        TableName="letters", Key=KEY, UpdateExpression=expression, **given(values), **arguments
    )


def holds(aws: Aws, condition: str, values: Any = None, names: Any = None) -> bool:
    """Whether a condition is true of the item that is there."""
    arguments = {"ConditionExpression": condition, **given(values, names)}
    check = {"TableName": "letters", "Key": KEY, **arguments}
    try:
        aws.dynamodb.transact_write_items(TransactItems=[{"ConditionCheck": check}])
    except ClientError as error:
        if error.response["Error"]["Code"] == "TransactionCanceledException":
            return False
        raise
    return True


# Items.


def test_an_item_comes_back_as_it_was_put(aws: Aws) -> None:
    everything = {
        "text": s("héllo"),
        "empty": s(""),
        "number": n("-12.5"),
        "blob": {"B": b"\x00\xff"},
        "yes": {"BOOL": True},
        "nothing": {"NULL": True},
        "list": {"L": [s("a"), n(1), {"L": []}]},
        "map": {"M": {"a": s("b"), "c": {"M": {}}}},
    }
    put(aws, **everything)
    assert get(aws) == {**KEY, **everything}


@pytest.mark.parametrize(
    ("kind", "members"), [("SS", ["b", "a"]), ("NS", ["10", "9"]), ("BS", [b"2", b"1"])]
)
def test_a_set_comes_back_with_its_members(aws: Aws, kind: str, members: list[Any]) -> None:
    put(aws, tags={kind: members})
    assert set(get(aws)["tags"][kind]) == set(members)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        row("007", "007", "7", but="dynamodb-number-spelling"),
        row("1.50", "1.50", "1.5", but="dynamodb-number-spelling"),
        row("1e3", "1e3", "1000", but="dynamodb-number-spelling"),
        row("-0", "-0", "0", but="dynamodb-number-spelling"),
        ("12345678901234567890123456789012345678", "12345678901234567890123456789012345678"),
    ],
)
def test_a_number_has_one_spelling(aws: Aws, given: str, kept: str) -> None:
    put(aws, number=n(given))
    assert get(aws)["number"] == n(kept)


def test_what_a_caller_does_to_an_answer_stays_with_the_caller(aws: Aws) -> None:
    put(aws, map={"M": {"a": s("b")}})
    get(aws)["map"]["M"]["a"]["S"] = "changed"
    assert get(aws)["map"] == {"M": {"a": s("b")}}


def test_an_item_that_is_not_there_is_an_answer_without_one(aws: Aws) -> None:
    assert get(aws) is None


def test_an_item_can_be_shown_in_parts(aws: Aws) -> None:
    put(aws, a=s("1"), m={"M": {"x": s("2"), "y": s("3")}}, l={"L": [s("4"), s("5"), s("6")]})
    found = get(
        aws,
        ProjectionExpression="a, #m.x, l[2], gone",
        ExpressionAttributeNames={"#m": "m"},
    )
    assert found == {"a": s("1"), "m": {"M": {"x": s("2")}}, "l": {"L": [s("6")]}}


def test_putting_again_replaces_the_whole_item(aws: Aws) -> None:
    put(aws, a=s("1"))
    answer = aws.dynamodb.put_item(
        TableName="letters", Item={**KEY, "b": s("2")}, ReturnValues="ALL_OLD"
    )
    assert answer["Attributes"] == {**KEY, "a": s("1")}
    assert get(aws) == {**KEY, "b": s("2")}


def test_deleting_shows_the_old_item_if_asked_and_if_there_was_one(aws: Aws) -> None:
    put(aws, a=s("1"))
    delete = {"TableName": "letters", "Key": KEY, "ReturnValues": "ALL_OLD"}
    assert aws.dynamodb.delete_item(**delete)["Attributes"] == {**KEY, "a": s("1")}
    assert "Attributes" not in aws.dynamodb.delete_item(**delete)
    assert get(aws) is None


# fmt: off
REFUSED_ITEMS = [
    row("sort key of a wrong type", {"sk": n(1)}),
    row("empty hash key", {"pk": s("")}),
    row("empty sort key", {"sk": s("")}),
    row("hash key of 2,049 bytes", {"pk": s("x" * 2049)}),
    row("sort key of 1,025 bytes", {"sk": s("x" * 1025)}),
    row("index key of a wrong type", {"lane": n(1)}, but="dynamodb-index-key"),
    row("empty index key", {"lane": s("")}),
    row("empty set", {"a": {"SS": []}}),
    row("a member twice", {"a": {"SS": ["x", "x"]}}, but="dynamodb-set-members"),
    row("a number twice", {"a": {"NS": ["1", "1.0"]}}, but="dynamodb-number"),
    row("number that is a text", {"a": n("x")}),
    row("number of 39 digits", {"a": n("1" * 39)}, but="dynamodb-number"),
    row("number too large", {"a": n("1e126")}, but="dynamodb-number"),
    row("number too small", {"a": n("1e-131")}),
    row("null that isn't", {"a": {"NULL": False}}),
    row("value without a type", {"a": {}}, but="dynamodb-one-type"),
    row("value of two types", {"a": {"S": "x", "N": "1"}}, but="dynamodb-one-type"),
]
# fmt: on


@pytest.mark.parametrize("attributes", REFUSED_ITEMS)
def test_items_that_are_refused(aws: Aws, attributes: dict[str, Any]) -> None:
    item = {**KEY, **attributes}
    assert refusal(aws.dynamodb.put_item, TableName="letters", Item=item) == VALIDATION


def test_an_item_without_its_whole_key_is_refused(aws: Aws) -> None:
    item = {"pk": s("p")}
    assert refusal(aws.dynamodb.put_item, TableName="letters", Item=item) == VALIDATION


@pytest.mark.parametrize(
    "key",
    [
        row("half a key", {"pk": s("p")}),
        row("more than the key", {**KEY, "a": s("x")}),
        row("key of a wrong type", {"pk": n(1), "sk": s("s")}, but="dynamodb-key-type"),
    ],
)
def test_keys_that_are_refused(aws: Aws, key: dict[str, Any]) -> None:
    assert refusal(aws.dynamodb.get_item, TableName="letters", Key=key) == VALIDATION
    assert refusal(aws.dynamodb.delete_item, TableName="letters", Key=key) == VALIDATION


def nested(levels: int) -> dict[str, Any]:
    value = s("x")
    for _ in range(levels):
        value = {"L": [value]}
    return value


def test_a_value_nests_32_levels_deep(aws: Aws) -> None:
    # The text inside is a level too.
    put(aws, deep=nested(31))


@differs("dynamodb-nesting")
def test_a_value_does_not_nest_33_levels_deep(aws: Aws) -> None:
    item = {**KEY, "deep": nested(32)}
    assert refusal(aws.dynamodb.put_item, TableName="letters", Item=item) == VALIDATION


@differs("dynamodb-item-size")
def test_an_item_may_have_400_kilobytes(aws: Aws) -> None:
    # pk, p, sk, s and the attribute's name are seven bytes.
    put(aws, a=s("x" * (400 * KB - 7)))


def test_an_item_may_not_have_one_byte_more(aws: Aws) -> None:
    item = {**KEY, "a": s("x" * (400 * KB - 6))}
    assert refusal(aws.dynamodb.put_item, TableName="letters", Item=item) == VALIDATION


def test_an_update_may_not_let_an_item_grow_beyond_400_kilobytes(aws: Aws) -> None:
    put(aws, a=s("x" * 300 * KB))
    more = {":b": s("x" * 100 * KB)}
    assert refusal(update, aws=aws, expression="SET b = :b", values=more) == VALIDATION


def test_a_table_that_does_not_exist_has_an_error_of_its_own(aws: Aws) -> None:
    code = "ResourceNotFoundException"
    assert refusal(aws.dynamodb.get_item, TableName="none", Key=KEY) == code
    assert refusal(aws.dynamodb.put_item, TableName="none", Item=KEY) == code
    assert refusal(aws.dynamodb.batch_get_item, RequestItems={"none": {"Keys": [KEY]}}) == code
    with pytest.raises(aws.dynamodb.exceptions.ResourceNotFoundException):
        aws.dynamodb.delete_item(TableName="none", Key=KEY)


def test_a_table_is_created_once(aws: Aws) -> None:
    code = refusal(
        aws.dynamodb.create_table,
        TableName="numbers",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    assert code == "ResourceInUseException"


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


def conditions(text: str, truth: bool) -> Iterator[Any]:
    for line in text.strip().splitlines():
        yield row(f"{line.strip()} is {str(truth).lower()}", line.strip(), truth)


@pytest.mark.parametrize(
    ("condition", "truth"),
    [
        *conditions(TRUE, True),
        *conditions(FALSE, False),
        row("gone = lost is false", "gone = lost", False, but="dynamodb-operands"),
    ],
)
def test_what_conditions_mean(aws: Aws, condition: str, truth: bool) -> None:
    put(aws, **ITEM)
    used = {name: value for name, value in VALUES.items() if name in _words(condition)}
    assert holds(aws, condition, used) is truth


def _words(text: str) -> set[str]:
    for sign in "(),":
        text = text.replace(sign, " ")
    return set(text.split())


# fmt: off
REFUSED_CONDITIONS = [
    row("empty condition", "", {}, {}, but="dynamodb-condition-syntax"),
    row("half a comparison", "a =", {}, {}, but="dynamodb-condition-syntax"),
    row("half a conjunction", "a = :v AND", A_TEXT, {}, but="dynamodb-condition-syntax"),
    row("open bracket", "(a = :v", A_TEXT, {}, but="dynamodb-condition-syntax"),
    row("a literal", "a = 5", {}, {}, but="dynamodb-condition-syntax"),
    row("a quotation", "a = 'x'", {}, {}, but="dynamodb-condition-words"),
    row("unknown function", "shrink(a)", {}, {}, but="dynamodb-condition-words"),
    row("function in capitals", "Attribute_Exists(a)", {}, {}, but="dynamodb-condition-words"),
    row("reserved word", "status = :v", A_TEXT, {}),
    row("reserved word in capitals", "Name = :v", A_TEXT, {}),
    row("value not given", "a = :v", {}, {}, but="dynamodb-condition-syntax"),
    row("name not given", "#a = :v", A_TEXT, {}, but="dynamodb-condition-syntax"),
    row("value too many", "a = :v", {**A_TEXT, ":w": s("x")}, {}, but="dynamodb-condition-syntax"),
    row("name not used", "a = :v", A_TEXT, {"#a": "a"}),
    row("an attribute and itself", "a = a", {}, {}, but="dynamodb-operands"),
    row("a boolean before", ":v < a", {":v": {"BOOL": True}}, {}, but="dynamodb-operands"),
    row("order of booleans", "a < :v", {":v": {"BOOL": True}}, {}, but="dynamodb-operands"),
    row("beginning of a number", "begins_with(a, :v)", {":v": n(1)}, {}, but="dynamodb-bounds"),
    row("unknown type", "attribute_type(a, :v)", {":v": s("X")}, {}, but="dynamodb-operands"),
    row("bounds reversed", "a BETWEEN :v AND :w", {":v": n(2), ":w": n(1)}, {},
        but="dynamodb-bounds"),
    row("redundant brackets", "((a = :v))", A_TEXT, {}),
    row("101 alternatives", f"num IN ({', '.join(f':v{i}' for i in range(101))})",
        {f":v{i}": n(i) for i in range(101)}, {}, but="dynamodb-operands"),
    row("comparison with an empty set", "a = :v", {":v": {"SS": []}}, {}, but="dynamodb-operands"),
]
# fmt: on


@pytest.mark.parametrize(("condition", "values", "names"), REFUSED_CONDITIONS)
def test_conditions_that_are_refused(
    aws: Aws, condition: str, values: dict[str, Any], names: dict[str, str]
) -> None:
    put(aws, a=s("x"))
    assert refusal(holds, aws=aws, condition=condition, values=values, names=names) == VALIDATION


@pytest.mark.parametrize(
    "member",
    [
        "ExpressionAttributeNames",
        row(
            "ExpressionAttributeValues",
            "ExpressionAttributeValues",
            but="dynamodb-condition-syntax",
        ),
    ],
)
def test_placeholders_without_an_expression_are_refused(aws: Aws, member: str) -> None:
    given = {"#a": "a"} if member == "ExpressionAttributeNames" else {":a": s("a")}
    code = refusal(aws.dynamodb.put_item, TableName="letters", Item=KEY, **{member: given})
    assert code == VALIDATION


def test_a_put_that_its_condition_stops_changes_nothing(aws: Aws) -> None:
    put(aws, a=s("old"))
    with pytest.raises(aws.dynamodb.exceptions.ConditionalCheckFailedException) as caught:
        aws.dynamodb.put_item(
            TableName="letters",
            Item={**KEY, "a": s("new")},
            ConditionExpression="attribute_not_exists(pk)",
        )
    assert caught.value.response["Error"]["Code"] == CONDITION
    assert "Item" not in caught.value.response
    assert get(aws)["a"] == s("old")


@pytest.mark.parametrize("operation", ["put", "update", "delete"])
def test_a_failed_condition_shows_the_item_if_asked(aws: Aws, operation: str) -> None:
    put(aws, owner=s("other"))
    call = getattr(aws.dynamodb, f"{operation}_item")
    target = {"Item": KEY} if operation == "put" else {"Key": KEY}
    arguments = {
        "TableName": "letters",
        **target,
        "ConditionExpression": "#o = :me",
        "ExpressionAttributeNames": {"#o": "owner"},
        "ExpressionAttributeValues": {":me": s("me")},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    response: Any = caught.value.response
    assert response["Item"] == {**KEY, "owner": s("other")}
    aws.dynamodb.delete_item(TableName="letters", Key=KEY)
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    assert caught.value.response["Error"]["Code"] == CONDITION
    assert "Item" not in caught.value.response


def test_a_condition_on_an_item_that_is_not_there_sees_nothing(aws: Aws) -> None:
    assert holds(aws, "attribute_not_exists(pk)")
    assert not holds(aws, "a = :v", {":v": s("x")})
    assert holds(aws, "a <> :v", {":v": s("x")})


# Updates.


# fmt: off
UPDATES = [
    ("SET a = :v", {":v": s("new")}, {"a": s("new")}),
    ("SET b = a", {}, {"b": s("old")}),
    ("SET a = :v, b = a", {":v": s("new")}, {"a": s("new"), "b": s("old")}),
    ("SET num = num + :v", {":v": n(2)}, {"num": n(7)}),
    ("SET num = num - :v", {":v": n("0.5")}, {"num": n("4.5")}),
    ("SET num = :v - num", {":v": n(1)}, {"num": n(-4)}),
    ("SET num = if_not_exists(num, :v)", {":v": n(0)}, {"num": n(5)}),
    ("SET c = if_not_exists(c, :v) + :v", {":v": n(1)}, {"c": n(2)}),
    ("SET l = list_append(l, :v)", {":v": {"L": [s("z")]}}, {"l": {"L": [*"xyz"]}}),
    ("SET l = list_append(:v, l)", {":v": {"L": [s("w")]}}, {"l": {"L": [*"wxy"]}}),
    ("SET fresh = list_append(if_not_exists(fresh, :gone), :v)",
     {":v": {"L": [s("z")]}, ":gone": {"L": []}}, {"fresh": {"L": [*"z"]}}),
    ("SET l[0] = :v", {":v": s("z")}, {"l": {"L": [*"zy"]}}),
    ("SET l[9] = :v", {":v": s("z")}, {"l": {"L": [*"xyz"]}}),
    ("SET m.x = :v", {":v": s("z")}, {"m": {"M": {"x": s("z"), "y": n(1)}}}),
    ("SET m.z = :v", {":v": s("z")}, {"m": {"M": {"x": s("x"), "y": n(1), "z": s("z")}}}),
    ("SET m.y = m.y + :v", {":v": n(1)}, {"m": {"M": {"x": s("x"), "y": n(2)}}}),
    ("REMOVE a", {}, {"a": None}),
    ("REMOVE gone", {}, {}),
    ("REMOVE m.x, a", {}, {"m": {"M": {"y": n(1)}}, "a": None}),
    ("REMOVE l[0]", {}, {"l": {"L": [*"y"]}}),
    row("REMOVE l[0], l[1]", "REMOVE l[0], l[1]", {}, {"l": {"L": []}},
        but="dynamodb-removed-elements"),
    ("ADD num :v", {":v": n(-5)}, {"num": n(0)}),
    ("ADD c :v", {":v": n(3)}, {"c": n(3)}),
    ("ADD tags :v", {":v": {"SS": ["b", "c"]}}, {"tags": {"SS": ["a", "b", "c"]}}),
    ("DELETE tags :v", {":v": {"SS": ["b", "c"]}}, {"tags": {"SS": ["a"]}}),
    ("DELETE tags :v", {":v": {"SS": ["a", "b"]}}, {"tags": None}),
    ("DELETE gone :v", {":v": {"SS": ["a"]}}, {}),
    ("set a = :v remove m add num :one delete tags :tags",
     {":v": s("z"), ":one": n(1), ":tags": {"SS": ["a"]}},
     {"a": s("z"), "m": None, "num": n(6), "tags": {"SS": ["b"]}}),
]
# fmt: on


@pytest.mark.parametrize(("expression", "values", "after"), UPDATES)
def test_what_updates_do(
    aws: Aws, expression: str, values: dict[str, Any], after: dict[str, Any]
) -> None:
    before = {
        **KEY,
        "a": s("old"),
        "num": n(5),
        "l": {"L": [s("x"), s("y")]},
        "m": {"M": {"x": s("x"), "y": n(1)}},
        "tags": {"SS": ["a", "b"]},
    }
    aws.dynamodb.put_item(TableName="letters", Item=before)
    update(aws, expression, values)
    changes = {
        name: {"L": [s(t) if isinstance(t, str) else t for t in value["L"]]}
        if value and "L" in value
        else value
        for name, value in after.items()
    }
    expected = {name: v for name, v in {**before, **changes}.items() if v is not None}
    found = get(aws)
    if "SS" in found.get("tags", {}):
        found["tags"]["SS"].sort()
    assert found == expected


# fmt: off
REFUSED_UPDATES = [
    row("nothing", "", {}),
    row("half an assignment", "SET a", {}, but="dynamodb-update-syntax"),
    row("unknown section", "PUT a = :v", A_TEXT),
    row("a section twice", "SET a = :v SET b = :v", A_TEXT, but="dynamodb-update-syntax"),
    row("key attribute", "SET pk = :v", A_TEXT),
    row("a path twice", "SET a = :v, a = :v", A_TEXT, but="dynamodb-update-syntax"),
    row("a path within another", "SET m = :v, m.x = :v", A_TEXT),
    row("missing attribute", "SET a = gone", {}),
    row("sum with a missing attribute", "SET a = gone + :v", {":v": n(1)}),
    row("sum with a text", "SET a = a + :v", {":v": n(1)}, but="dynamodb-update-operands"),
    row("sum with a text value", "SET a = num + :v", {":v": s("1")},
        but="dynamodb-update-operands"),
    row("below a missing attribute", "SET gone.x = :v", A_TEXT),
    row("below a text", "SET a.x = :v", A_TEXT, but="dynamodb-document-path"),
    row("element of a text", "SET a[0] = :v", A_TEXT, but="dynamodb-path-to-nothing"),
    row("removal below nothing", "REMOVE gone.x", {}, but="dynamodb-path-to-nothing"),
    row("appended text", "SET l = list_append(l, :v)", A_TEXT, but="dynamodb-update-operands"),
    row("list appended to a text", "SET l = list_append(a, :v)", {":v": {"L": []}},
        but="dynamodb-update-operands"),
    row("number added to a text", "ADD a :v", {":v": n(1)}),
    row("text added", "ADD num :v", A_TEXT),
    row("numbers added to texts", "ADD tags :v", {":v": {"NS": ["1"]}}),
    row("member deleted from a text", "DELETE a :v", {":v": {"SS": ["x"]}}),
    row("value not used", "SET a = :v", {**A_TEXT, ":w": s("x")}),
    row("reserved word", "SET size = :v", A_TEXT, but="dynamodb-reserved-word"),
    row("index key changed to a wrong type", "SET lane = :v", {":v": n(1)}),
    row("more than 38 digits", "SET num = num + :v", {":v": n("0." + "0" * 37 + "1")},
        but="dynamodb-digits"),
]
# fmt: on


@pytest.mark.parametrize(("expression", "values"), REFUSED_UPDATES)
def test_updates_that_are_refused(aws: Aws, expression: str, values: dict[str, Any]) -> None:
    put(aws, a=s("x"), num=n(5), m={"M": {"x": s("x")}}, l={"L": []}, tags={"SS": ["a"]})
    before = get(aws)
    assert refusal(update, aws=aws, expression=expression, values=values) == VALIDATION
    assert get(aws) == before


def test_an_update_creates_a_missing_item(aws: Aws) -> None:
    update(aws, "ADD num :v", {":v": n(1)})
    assert get(aws) == {**KEY, "num": n(1)}


@pytest.mark.parametrize(
    ("returns", "shown"),
    [
        ("NONE", None),
        ("ALL_OLD", {**KEY, "a": s("1"), "m": {"M": {"x": s("1"), "y": s("1")}}}),
        ("ALL_NEW", {**KEY, "a": s("2"), "m": {"M": {"x": s("2"), "y": s("1")}}}),
        row(
            "UPDATED_OLD",
            "UPDATED_OLD",
            {"a": s("1"), "m": {"M": {"x": s("1")}}},
            but="dynamodb-updated-old",
        ),
        ("UPDATED_NEW", {"a": s("2"), "m": {"M": {"x": s("2")}}}),
    ],
)
def test_an_update_shows_what_was_asked_for(aws: Aws, returns: str, shown: Any) -> None:
    put(aws, a=s("1"), m={"M": {"x": s("1"), "y": s("1")}})
    answer = update(aws, "SET a = :v, m.x = :v", {":v": s("2")}, ReturnValues=returns)
    assert answer.get("Attributes") == shown


def test_a_put_can_not_show_what_is_new(aws: Aws) -> None:
    code = refusal(aws.dynamodb.put_item, TableName="letters", Item=KEY, ReturnValues="ALL_NEW")
    assert code == VALIDATION


# Queries.


@pytest.fixture
def rows(aws: Aws) -> None:
    for number in range(5):
        aws.dynamodb.put_item(
            TableName="letters",
            Item={
                "pk": s("p"),
                "sk": s(f"a{number}" if number < 3 else f"b{number}"),
                "lane": s("due"),
                "due": n(10 - number),
                "note": s("x" * 10),
            },
        )
    aws.dynamodb.put_item(TableName="letters", Item={"pk": s("q"), "sk": s("a0")})


def query(aws: Aws, condition: str, values: dict[str, Any], **arguments: Any) -> Any:
    return aws.dynamodb.query(
        TableName="letters",
        KeyConditionExpression=condition,
        ExpressionAttributeValues=values,
        **arguments,
    )


def sort_keys(answer: Any) -> list[str]:
    return [item["sk"]["S"] for item in answer["Items"]]


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize(
    ("condition", "bounds", "found"),
    [
        ("", [], "a0 a1 a2 b3 b4"),
        ("sk = :a", ["a1"], "a1"),
        ("sk < :a", ["a1"], "a0"),
        ("sk <= :a", ["a1"], "a0 a1"),
        ("sk > :a", ["a2"], "b3 b4"),
        ("sk >= :a", ["a2"], "a2 b3 b4"),
        ("sk BETWEEN :a AND :b", ["a1", "b3"], "a1 a2 b3"),
        ("begins_with(sk, :a)", ["a"], "a0 a1 a2"),
        ("begins_with(sk, :a)", ["c"], ""),
    ],
)
def test_a_query_finds_a_range_in_order(
    aws: Aws, condition: str, bounds: list[str], found: str
) -> None:
    values = {":p": s("p"), **dict(zip((":a", ":b"), map(s, bounds), strict=False))}
    text = "pk = :p" + (f" AND {condition}" if condition else "")
    answer = query(aws, text, values)
    assert sort_keys(answer) == found.split()
    assert answer["Count"] == answer["ScannedCount"] == len(found.split())
    assert "LastEvaluatedKey" not in answer
    backward = query(aws, text, values, ScanIndexForward=False)
    assert sort_keys(backward) == found.split()[::-1]


def test_numbers_are_ordered_as_numbers(aws: Aws) -> None:
    for at in ("10", "-1", "9.5", "2"):
        aws.dynamodb.put_item(TableName="numbers", Item={"id": n(1), "at": n(at)})
    answer = aws.dynamodb.query(
        TableName="numbers",
        KeyConditionExpression="id = :id AND #at > :zero",
        ExpressionAttributeNames={"#at": "at"},
        ExpressionAttributeValues={":id": n(1), ":zero": n(0)},
    )
    assert [item["at"]["N"] for item in answer["Items"]] == ["2", "9.5", "10"]


@differs("dynamodb-number-key")
def test_a_number_is_one_key_in_every_spelling(aws: Aws) -> None:
    aws.dynamodb.put_item(TableName="numbers", Item={"id": n(1), "at": n(2)})
    answer = aws.dynamodb.query(
        TableName="numbers",
        KeyConditionExpression="id = :id",
        ExpressionAttributeValues={":id": n("1.0")},
    )
    assert answer["Count"] == 1


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("forward", [True, False])
def test_a_query_goes_on_where_its_last_page_ended(aws: Aws, forward: bool) -> None:
    found: list[str] = []
    start: dict[str, Any] = {}
    while True:
        answer = query(aws, "pk = :p", {":p": s("p")}, Limit=2, ScanIndexForward=forward, **start)
        found += sort_keys(answer)
        if "LastEvaluatedKey" not in answer:
            break
        assert answer["LastEvaluatedKey"].keys() == {"pk", "sk"}
        start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}
    assert found == ["a0", "a1", "a2", "b3", "b4"][:: 1 if forward else -1]


def test_a_page_ends_after_a_mebibyte(aws: Aws) -> None:
    for number in range(4):
        put_key = {"pk": s("p"), "sk": s(str(number))}
        aws.dynamodb.put_item(TableName="letters", Item={**put_key, "a": s("x" * 350 * KB)})
    answer = query(aws, "pk = :p", {":p": s("p")})
    assert 1 <= answer["Count"] <= 3
    assert "LastEvaluatedKey" in answer


P, DUE = {":p": s("p")}, {":p": s("due")}
LAST_OF_THREE = {"pk": s("p"), "sk": s("a2"), "lane": s("due"), "due": n(8)}

# fmt: off
PAGES = [
    row("a page that is just full says that there may be more",
        "pk = :p", P, {"Limit": 5}, "a0 a1 a2 b3 b4",
        {"Count": 5, "LastEvaluatedKey": {"pk": s("p"), "sk": s("b4")}}, but="dynamodb-last-page"),
    row("the limit counts before the filter",
        "pk = :p", {**P, ":d": n(8)}, {"FilterExpression": "due < :d", "Limit": 4}, "b3",
        {"Count": 1, "ScannedCount": 4, "LastEvaluatedKey": {"pk": s("p"), "sk": s("b3")}}),
    row("a query can count without showing",
        "pk = :p", P, {"Select": "COUNT"}, "", {"Count": 5}),
    row("an index has its own order",
        "lane = :p AND due < :d", {**DUE, ":d": n(10)}, {"IndexName": "lanes"}, "b4 b3 a2 a1", {}),
    row("an index is read page by page",
        "lane = :p", DUE, {"IndexName": "lanes", "Limit": 3}, "b4 b3 a2",
        {"LastEvaluatedKey": LAST_OF_THREE}),
    row("an index goes on where its last page ended",
        "lane = :p", DUE, {"IndexName": "lanes", "ExclusiveStartKey": LAST_OF_THREE}, "a1 a0", {}),
]
# fmt: on


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize(("condition", "values", "arguments", "shown", "members"), PAGES)
def test_what_a_query_answers(
    aws: Aws,
    condition: str,
    values: dict[str, Any],
    arguments: dict[str, Any],
    shown: str,
    members: dict[str, Any],
) -> None:
    answer = query(aws, condition, values, **arguments)
    assert [item["sk"]["S"] for item in answer.get("Items", [])] == shown.split()
    assert {name: answer.get(name) for name in members} == members


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize(
    ("index", "attributes"),
    [("lanes", {"pk", "sk", "lane", "due", "note"}), ("keys", {"pk", "sk", "lane"})],
)
def test_an_index_shows_its_projection(aws: Aws, index: str, attributes: set[str]) -> None:
    answer = query(aws, "lane = :p", DUE, IndexName=index)
    assert {frozenset(item) for item in answer["Items"]} == {frozenset(attributes)}


@pytest.mark.usefixtures("rows")
def test_an_item_leaves_an_index_with_its_key_attribute(aws: Aws) -> None:
    key = {"pk": s("p"), "sk": s("a0")}
    aws.dynamodb.update_item(TableName="letters", Key=key, UpdateExpression="REMOVE lane")
    answer = query(aws, "lane = :l", {":l": s("due")}, IndexName="lanes")
    assert sort_keys(answer) == ["b4", "b3", "a2", "a1"]
    aws.dynamodb.update_item(
        TableName="letters",
        Key=key,
        UpdateExpression="SET lane = :l, due = :d",
        ExpressionAttributeValues={":l": s("due"), ":d": n(0)},
    )
    answer = query(aws, "lane = :l", {":l": s("due")}, IndexName="lanes")
    assert sort_keys(answer) == ["a0", "b4", "b3", "a2", "a1"]


BETWEEN = "pk = :v AND sk BETWEEN :b AND :a"
BOUNDS = {":a": s("a"), ":b": s("b")}


# fmt: off
REFUSED_QUERIES = [
    row("no hash key", "sk = :v", A_TEXT, {}),
    row("range of hash keys", "pk > :v", A_TEXT, {}),
    row("another attribute", "pk = :v AND note = :v", A_TEXT, {}),
    row("unequal sort key", "pk = :v AND sk <> :v", A_TEXT, {}, but="dynamodb-key-operators"),
    row("alternative", "pk = :v OR sk = :v", A_TEXT, {}, but="dynamodb-key-operators"),
    row("hash key of a wrong type", "pk = :v", {":v": n(1)}, {}, but="dynamodb-key-type"),
    row("empty key", "pk = :v", {":v": s("")}, {}),
    row("reversed bounds", BETWEEN, {**A_TEXT, **BOUNDS}, {}, but="dynamodb-key-condition"),
    row("unused value", "pk = :v", {**A_TEXT, ":w": s("x")}, {}, but="dynamodb-key-condition"),
    row("unknown index", "pk = :v", A_TEXT, {"IndexName": "none"}, but="dynamodb-query"),
    row("filter on a key", "pk = :v", A_TEXT, {"FilterExpression": "sk = :v"},
        but="dynamodb-filter-on-key"),
    row("half a start key", "pk = :v", A_TEXT, {"ExclusiveStartKey": {"pk": s("x")}},
        but="dynamodb-query"),
    row("start key of another hash key", "pk = :v", A_TEXT,
        {"ExclusiveStartKey": {"pk": s("q"), "sk": s("s")}}, but="dynamodb-query"),
    row("consistent read of an index", "lane = :v", A_TEXT,
        {"IndexName": "lanes", "ConsistentRead": True}),
]
# fmt: on


@pytest.mark.parametrize(("condition", "values", "arguments"), REFUSED_QUERIES)
def test_queries_that_are_refused(
    aws: Aws, condition: str, values: dict[str, Any], arguments: dict[str, Any]
) -> None:
    code = refusal(query, aws=aws, condition=condition, values=values, **arguments)
    assert code == VALIDATION


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("forward", [True, False])
@differs("dynamodb-query")
def test_a_start_key_outside_the_range_is_refused(aws: Aws, forward: bool) -> None:
    for sort_key in ("a0", "b4"):
        code = refusal(
            query,
            aws=aws,
            condition="pk = :p AND sk BETWEEN :a AND :b",
            values={":p": s("p"), ":a": s("a1"), ":b": s("a2")},
            ExclusiveStartKey={"pk": s("p"), "sk": s(sort_key)},
            ScanIndexForward=forward,
        )
        assert code == VALIDATION


@pytest.mark.usefixtures("rows")
def test_a_scan_comes_by_every_item_page_by_page(aws: Aws) -> None:
    found: list[tuple[str, str]] = []
    start: dict[str, Any] = {}
    while True:
        answer = aws.dynamodb.scan(TableName="letters", Limit=2, **start)
        found += [(item["pk"]["S"], item["sk"]["S"]) for item in answer["Items"]]
        if "LastEvaluatedKey" not in answer:
            break
        start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}
    assert sorted(found) == [
        *(("p", key) for key in ("a0", "a1", "a2", "b3", "b4")),
        ("q", "a0"),
    ]


@pytest.mark.usefixtures("rows")
def test_a_scan_can_be_filtered(aws: Aws) -> None:
    answer = aws.dynamodb.scan(
        TableName="letters",
        FilterExpression="due <= :d",
        ExpressionAttributeValues={":d": n(7)},
        ProjectionExpression="sk",
    )
    assert sorted(sort_keys(answer)) == ["b3", "b4"]
    assert (answer["Count"], answer["ScannedCount"]) == (2, 6)


# Batches.


def keys(count: int) -> list[dict[str, Any]]:
    return [{"pk": s("p"), "sk": s(str(number))} for number in range(count)]


def puts(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"PutRequest": {"Item": item}} for item in items]


def test_a_batch_writes_and_deletes(aws: Aws) -> None:
    put(aws)
    answer = aws.dynamodb.batch_write_item(
        RequestItems={"letters": [*puts(keys(24)), {"DeleteRequest": {"Key": KEY}}]}
    )
    assert answer["UnprocessedItems"] == {}
    assert query(aws, "pk = :p", {":p": s("p")})["Count"] == 24


@pytest.mark.parametrize(
    "requests",
    [
        row("26 items", puts(keys(26)), but="dynamodb-batch"),
        row("an item twice", puts([KEY, KEY])),
        row(
            "an item put and deleted",
            [*puts([KEY]), {"DeleteRequest": {"Key": KEY}}],
            but="dynamodb-batch",
        ),
        row("half a key", puts([{"pk": s("p")}])),
        row("a large item", puts([{**KEY, "a": s("x" * 400 * KB)}])),
    ],
)
def test_batches_of_writes_that_are_refused_as_a_whole(
    aws: Aws, requests: list[dict[str, Any]]
) -> None:
    batch = {"letters": [*requests, *puts([{"pk": s("p"), "sk": s("good")}])]}
    assert refusal(aws.dynamodb.batch_write_item, RequestItems=batch) == VALIDATION
    assert query(aws, "pk = :p", {":p": s("p")})["Count"] == 0


def test_a_batch_reads_what_is_there(aws: Aws) -> None:
    aws.dynamodb.batch_write_item(RequestItems={"letters": puts(keys(3))})
    answer = aws.dynamodb.batch_get_item(
        RequestItems={"letters": {"Keys": keys(4), "ProjectionExpression": "sk"}}
    )
    found = [item["sk"]["S"] for item in answer["Responses"]["letters"]]
    assert sorted(found) == ["0", "1", "2"]
    assert answer["UnprocessedKeys"] == {}


@pytest.mark.parametrize(
    "wanted",
    [
        row("101 keys", keys(101)),
        row("a key twice", [KEY, KEY]),
        row("half a key", [{"pk": s("p")}]),
    ],
)
def test_batches_of_reads_that_are_refused(aws: Aws, wanted: list[dict[str, Any]]) -> None:
    code = refusal(aws.dynamodb.batch_get_item, RequestItems={"letters": {"Keys": wanted}})
    assert code == VALIDATION


@differs("dynamodb-batch-read-size")
def test_a_batch_reads_16_megabytes_and_names_the_rest(aws: Aws) -> None:
    for key in keys(43):
        aws.dynamodb.put_item(TableName="letters", Item={**key, "a": s("x" * (390 * KB - 100))})
    answer = aws.dynamodb.batch_get_item(RequestItems={"letters": {"Keys": keys(43)}})
    assert len(answer["Responses"]["letters"]) == 42
    assert len(answer["UnprocessedKeys"]["letters"]["Keys"]) == 1


# Transactions.


def in_letters(kind: str, **members: Any) -> dict[str, Any]:
    return {kind: {"TableName": "letters", **members}}


def transact(aws: Aws, *items: dict[str, Any], **arguments: Any) -> None:
    aws.dynamodb.transact_write_items(TransactItems=list(items), **arguments)


def test_a_transaction_does_everything(aws: Aws) -> None:
    first, second, third, fourth = keys(4)
    for key in (second, third, fourth):
        aws.dynamodb.put_item(TableName="letters", Item={**key, "num": n(1)})
    transact(
        aws,
        in_letters("Put", Item=first),
        in_letters(
            "Update",
            Key=second,
            UpdateExpression="SET num = num + :v",
            ConditionExpression="num = :v",
            ExpressionAttributeValues={":v": n(1)},
        ),
        in_letters("Delete", Key=third),
        in_letters("ConditionCheck", Key=fourth, ConditionExpression="attribute_exists(pk)"),
    )
    found = query(aws, "pk = :p", {":p": s("p")})["Items"]
    assert [(item["sk"]["S"], item.get("num")) for item in found] == [
        ("0", None),
        ("1", n(2)),
        ("3", n(1)),
    ]


def test_a_transaction_does_everything_or_nothing(aws: Aws) -> None:
    put(aws, owner=s("other"))
    other = {"pk": s("p"), "sk": s("new")}
    with pytest.raises(aws.dynamodb.exceptions.TransactionCanceledException) as caught:
        transact(
            aws,
            in_letters("Put", Item=other),
            in_letters(
                "Delete",
                Key=KEY,
                ConditionExpression="attribute_not_exists(pk)",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            ),
        )
    reasons = caught.value.response["CancellationReasons"]
    assert [reason["Code"] for reason in reasons] == ["None", "ConditionalCheckFailed"]
    assert reasons[1]["Item"] == {**KEY, "owner": s("other")}
    assert "Item" not in reasons[0]
    assert query(aws, "pk = :p", {":p": s("p")})["Count"] == 1


def test_a_canceled_transaction_shows_no_item_unless_asked(aws: Aws) -> None:
    put(aws)
    check = {"Key": KEY, "ConditionExpression": "attribute_not_exists(pk)"}
    with pytest.raises(ClientError) as caught:
        transact(aws, in_letters("ConditionCheck", **check))
    response: Any = caught.value.response
    (reason,) = response["CancellationReasons"]
    assert reason["Code"] == "ConditionalCheckFailed"
    assert "Item" not in reason


@differs("dynamodb-transaction-update")
def test_an_update_that_does_not_fit_its_item_cancels_a_transaction(aws: Aws) -> None:
    put(aws, a=s("text"))
    with pytest.raises(ClientError) as caught:
        transact(
            aws,
            in_letters(
                "Update",
                Key=KEY,
                UpdateExpression="SET a = a + :v",
                ExpressionAttributeValues={":v": n(1)},
            ),
        )
    (reason,) = caught.value.response["CancellationReasons"]
    assert reason["Code"] == "ValidationError"


@pytest.mark.parametrize(
    "items",
    [
        row("101 items", [in_letters("Put", Item=key) for key in keys(101)]),
        row("an item twice", [in_letters("Put", Item=KEY), in_letters("Delete", Key=KEY)]),
        row("an item too large", [in_letters("Put", Item={**KEY, "a": s("x" * 400 * KB)})]),
    ],
)
def test_transactions_that_are_refused(aws: Aws, items: list[dict[str, Any]]) -> None:
    assert refusal(aws.dynamodb.transact_write_items, TransactItems=items) == VALIDATION


def test_a_transaction_may_have_a_hundred_items(aws: Aws) -> None:
    transact(aws, *(in_letters("Put", Item=key) for key in keys(100)))
    assert query(aws, "pk = :p", {":p": s("p")})["Count"] == 100


def adding(value: int) -> dict[str, Any]:
    return in_letters(
        "Update",
        Key=KEY,
        UpdateExpression="ADD num :v",
        ExpressionAttributeValues={":v": n(value)},
    )


@differs("dynamodb-token")
def test_a_transaction_with_a_token_happens_once(aws: Aws) -> None:
    transact(aws, adding(1), ClientRequestToken="t")
    transact(aws, adding(1), ClientRequestToken="t")
    assert get(aws)["num"] == n(1)


@differs("dynamodb-token")
def test_a_token_belongs_to_one_transaction(aws: Aws) -> None:
    transact(aws, adding(1), ClientRequestToken="t")
    with pytest.raises(ClientError) as caught:
        transact(aws, adding(2), ClientRequestToken="t")
    assert caught.value.response["Error"]["Code"] == "IdempotentParameterMismatchException"
