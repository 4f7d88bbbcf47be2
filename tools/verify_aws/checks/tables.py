"""DynamoDB: limits, conditional writes, transactions, and who may touch which partition."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from tools.verify_aws.account import (
    AskedAccount,
    Differs,
    Unclear,
    allow,
    code_of,
    expect,
    refused,
    taken,
)
from tools.verify_aws.check import check

VALIDATION = "ValidationException"
FAILED = "ConditionalCheckFailedException"
DENIED = "AccessDeniedException"
CANCELLED = "TransactionCanceledException"

OURS = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["ours#*"]}}
"""A condition that only some partitions are touched."""


def key(sort: str, partition: str = "p") -> dict[str, Any]:
    """The key of an item in a check's table."""
    return {"pk": {"S": partition}, "sk": {"S": sort}}


@check("dynamodb-item-size", creates="a table and an item of 400 KB", dollars=0.001, seconds=60)
def item_size(account: AskedAccount) -> str:
    """Is an item of 400 KB taken, names counted, and one byte more refused?"""
    dynamodb, table = account.client("dynamodb"), account.table()
    # Names and values: pk + p, sk + i, b + text.
    fits = "x" * (400 * 1024 - 3 - 3 - 1)
    taken(dynamodb.put_item, TableName=table, Item={**key("i"), "b": {"S": fits}})
    code = refused(
        dynamodb.put_item, VALIDATION, TableName=table, Item={**key("i"), "b": {"S": fits + "x"}}
    )
    return f"409,600 bytes taken, one more refused with {code}"


@check("dynamodb-conflicting-item", creates="a table", seconds=60)
def conflicting_item(account: AskedAccount) -> str:
    """Does a failed condition show the item that it did not meet?"""
    dynamodb, table = account.client("dynamodb"), account.table()
    mine = {**key("i"), "owner": {"S": "me"}}
    dynamodb.put_item(TableName=table, Item=mine)
    try:
        dynamodb.put_item(
            TableName=table,
            Item={**key("i"), "owner": {"S": "you"}},
            ConditionExpression="attribute_not_exists(pk)",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    except ClientError as error:
        expect(code_of(error) == FAILED, f"refused with {code_of(error)}")
        seen = error.response.get("Item")
        expect(seen == mine, f"the item shown is {seen}")
        return "shown with the refusal"
    raise Differs("a put over an existing item was taken")


@check("dynamodb-transaction", creates="a table", seconds=60)
def transaction(account: AskedAccount) -> str:
    """Is a transaction cancelled as a whole, with a reason for each of its writes?"""
    dynamodb, table = account.client("dynamodb"), account.table()
    dynamodb.put_item(TableName=table, Item=key("there"))
    writes = [
        {"Put": {"TableName": table, "Item": key("new")}},
        {
            "Put": {
                "TableName": table,
                "Item": key("there"),
                "ConditionExpression": "attribute_not_exists(pk)",
            }
        },
    ]
    try:
        dynamodb.transact_write_items(TransactItems=writes)
    except ClientError as error:
        expect(code_of(error) == CANCELLED, f"refused with {code_of(error)}")
        reasons = [each.get("Code") for each in error.response.get("CancellationReasons", [])]
    else:
        raise Differs("the transaction was taken")
    expect(reasons == ["None", "ConditionalCheckFailed"], f"the reasons are {reasons}")
    found = dynamodb.get_item(TableName=table, Key=key("new"), ConsistentRead=True).get("Item")
    expect(found is None, "the first write was done")
    return "nothing was written; the reasons stand in the order of the writes"


@check("dynamodb-transaction-limits", creates="a table", seconds=60)
def transaction_limits(account: AskedAccount) -> str:
    """Is a transaction refused with 101 writes, or with one item twice?"""
    dynamodb, table = account.client("dynamodb"), account.table()
    writes = [{"Put": {"TableName": table, "Item": key(str(number))}} for number in range(101)]
    many = refused(dynamodb.transact_write_items, TransactItems=writes)
    twice = refused(dynamodb.transact_write_items, TransactItems=[writes[0], writes[0]])
    return f"101 refused with {many}, one item twice with {twice}"


@check("dynamodb-token", creates="a table", seconds=60)
def token(account: AskedAccount) -> str:
    """Is a transaction with the same token done once, and refused with other writes?"""
    dynamodb, table = account.client("dynamodb"), account.table()
    dynamodb.put_item(TableName=table, Item=key("i"))

    def add(amount: str) -> dict[str, Any]:
        update = {
            "TableName": table,
            "Key": key("i"),
            "UpdateExpression": "ADD n :n",
            "ExpressionAttributeValues": {":n": {"N": amount}},
        }
        return {"TransactItems": [{"Update": update}], "ClientRequestToken": account.name("t")[:36]}

    first = add("1")
    for _ in range(2):
        dynamodb.transact_write_items(**first)
    found = dynamodb.get_item(TableName=table, Key=key("i"), ConsistentRead=True)["Item"]
    expect(found["n"] == {"N": "1"}, f"done {found['n']['N']} times")
    other = {**add("2"), "ClientRequestToken": first["ClientRequestToken"]}
    code = refused(dynamodb.transact_write_items, "IdempotentParameterMismatchException", **other)
    return f"done once; other writes refused with {code}"


@check("dynamodb-batch", creates="a table", seconds=60)
def batch_of_writes(account: AskedAccount) -> str:
    """Is a batch of 26 writes refused, and one that names an item twice?"""
    dynamodb, table = account.client("dynamodb"), account.table()
    puts = [{"PutRequest": {"Item": key(str(number))}} for number in range(26)]
    many = refused(dynamodb.batch_write_item, VALIDATION, RequestItems={table: puts})
    twice = refused(dynamodb.batch_write_item, VALIDATION, RequestItems={table: [puts[0], puts[0]]})
    return f"refused with {many} and {twice}"


@check("dynamodb-index-reads", creates="a table with an index", seconds=120)
def index_reads(account: AskedAccount) -> str:
    """Is a consistent read of an index refused?"""
    dynamodb, table = account.client("dynamodb"), account.table(index=True)
    code = refused(
        dynamodb.query,
        VALIDATION,
        TableName=table,
        IndexName="other",
        KeyConditionExpression="other = :o",
        ExpressionAttributeValues={":o": {"S": "x"}},
        ConsistentRead=True,
    )
    return f"refused with {code}"


@check("dynamodb-units", creates="a table", seconds=60)
def units(account: AskedAccount) -> str:
    """Is a write charged by the started KB, and twice in a transaction?"""
    dynamodb, table = account.client("dynamodb"), account.table()

    def consumed(answer: Any) -> float:
        seen = answer.get("ConsumedCapacity")
        tables = seen if isinstance(seen, list) else [seen or {}]
        return sum(float(each.get("CapacityUnits", 0)) for each in tables)

    item = {**key("i"), "b": {"S": "x" * 1500}}
    plain = consumed(dynamodb.put_item(TableName=table, Item=item, ReturnConsumedCapacity="TOTAL"))
    double = consumed(
        dynamodb.transact_write_items(
            TransactItems=[{"Put": {"TableName": table, "Item": item}}],
            ReturnConsumedCapacity="TOTAL",
        )
    )
    seen = f"1.5 KB: {plain:g} units, in a transaction {double:g}"
    expect((plain, double) == (2, 4), seen)
    return seen


@check("dynamodb-number", creates="a table", seconds=60)
def number(account: AskedAccount) -> str:
    """Is a number of 39 digits refused, and an exponent written out?"""
    dynamodb, table = account.client("dynamodb"), account.table()
    code = refused(
        dynamodb.put_item, VALIDATION, TableName=table, Item={**key("i"), "n": {"N": "9" * 39}}
    )
    dynamodb.put_item(TableName=table, Item={**key("i"), "n": {"N": "1.50e3"}})
    seen = dynamodb.get_item(TableName=table, Key=key("i"), ConsistentRead=True)["Item"]["n"]["N"]
    expect(seen == "1500", f"1.50e3 came back as {seen}")
    return f"39 digits refused with {code}; 1.50e3 came back as {seen}"


@check("iam-leading-keys", creates="a table and a role", seconds=150)
def leading_keys(account: AskedAccount) -> str:
    """May a role with a condition on partitions touch its own, and no other?"""
    dynamodb, table = account.client("dynamodb"), account.table()
    arn = dynamodb.describe_table(TableName=table)["Table"]["TableArn"]
    actions = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Scan"]
    allowed = allow(actions, arn, OURS)
    theirs = account.acting_as(account.role(None, [allowed]))("dynamodb")
    until_it_may(account, theirs.put_item, TableName=table, Item=key("i", "ours#1"))
    code = refused(
        theirs.put_item, "AccessDeniedException", TableName=table, Item=key("i", "theirs#1")
    )
    # A scan names no partition: a ForAllValues condition holds where the key is absent.
    try:
        theirs.scan(TableName=table, Limit=1)
        scan = "taken: no role of ours may have it"
    except ClientError as error:
        scan = f"refused with {code_of(error)}"
    return f"another partition refused with {code}; a scan is {scan}"


@check("iam-leading-keys-elsewhere", creates="a table with an index, and a role", seconds=150)
def leading_keys_elsewhere(account: AskedAccount) -> str:
    """Does that condition also see each key of a batch, and the partition of an index?"""
    dynamodb, table = account.client("dynamodb"), account.table(index=True)
    arn = dynamodb.describe_table(TableName=table)["Table"]["TableArn"]
    actions = ["dynamodb:BatchGetItem", "dynamodb:Query"]
    allowed = allow(actions, [arn, f"{arn}/index/other"], OURS)
    theirs = account.acting_as(account.role(None, [allowed]))("dynamodb")

    def keys(*partitions: str) -> dict[str, Any]:
        return {table: {"Keys": [key("i", partition) for partition in partitions]}}

    def of_index(partition: str) -> dict[str, Any]:
        return {
            "TableName": table,
            "IndexName": "other",
            "KeyConditionExpression": "other = :o",
            "ExpressionAttributeValues": {":o": {"S": partition}},
        }

    until_it_may(account, theirs.batch_get_item, RequestItems=keys("ours#1", "ours#2"))
    batch = refused(
        theirs.batch_get_item, DENIED, RequestItems=keys("ours#1", "theirs#1", "ours#2")
    )
    taken(theirs.query, **of_index("ours#1"))
    index = refused(theirs.query, DENIED, **of_index("theirs#1"))
    return f"one foreign key of three refused with {batch}, a foreign index partition with {index}"


@check("iam-attributes", creates="a table and a role", seconds=150)
def attributes(account: AskedAccount) -> str:
    """May a role read the attributes that its policy names, and neither others nor all?"""
    dynamodb, table = account.client("dynamodb"), account.table()
    arn = dynamodb.describe_table(TableName=table)["Table"]["TableArn"]
    some = {
        "ForAllValues:StringEquals": {"dynamodb:Attributes": ["pk", "sk", "shown"]},
        "StringEquals": {"dynamodb:Select": "SPECIFIC_ATTRIBUTES"},
    }
    allowed = allow(["dynamodb:BatchGetItem", "dynamodb:Query"], arn, some)
    theirs = account.acting_as(account.role(None, [allowed]))("dynamodb")

    def reads(*names: str) -> dict[str, Any]:
        wanted = {"ProjectionExpression": ", ".join(names)} if names else {}
        return {"RequestItems": {table: {"Keys": [key("i")], **wanted}}}

    until_it_may(account, theirs.batch_get_item, **reads("pk", "shown"))
    other = refused(theirs.batch_get_item, DENIED, **reads("shown", "kept"))
    whole = refused(theirs.batch_get_item, DENIED, **reads())
    return f"another attribute refused with {other}, a whole item with {whole}"


def until_it_may(account: AskedAccount, call: Any, **arguments: Any) -> None:
    """Wait until a new role's right has arrived."""

    def may() -> bool:
        try:
            call(**arguments)
        except ClientError as error:
            if code_of(error) == DENIED:
                return False
            raise
        return True

    try:
        account.until(may, 60, "the role may do what its policy allows", every=3)
    except Unclear as late:
        raise Differs("what the policy allows was refused for a minute") from late
