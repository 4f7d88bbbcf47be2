"""A body in every place that can hold one, and every call that could show it to a person.

Each attempt is one call of AWS's API on what was planted, with one choice of its return options:
which there are is read from the API's own model. An answer and an error are searched alike: a
condition that fails may carry the item.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, product
from typing import Any

from botocore.exceptions import ClientError, ParamValidationError
from botocore.session import get_session

from deadletter.contract import CAUSES, LANES, Partition, body_object, run_object

PLANT = "4111-1111-planted"
"""In the body of each planted letter, and nowhere else."""

COPY, RUN, GROUP = "11111111-2222-4333-8444-555555555555", "0123456789abcdef", "0" * 32

LETTER = json.dumps({"message_id": COPY, "body": json.dumps({"card": PLANT})}).encode()

# Kinds of partitions whose items hold a letter, and those whose items never do.
HOLD_LETTERS = frozenset({Partition.LETTER, Partition.GROUP})
HOLD_NONE = frozenset(Partition) - HOLD_LETTERS

Clients = Callable[[str], Any]
"""Makes the client of a service, signed in as the person who tries."""


@dataclass(frozen=True)
class Planted:
    """Where the bodies are."""

    table: str
    bucket: str
    pipeline: str
    queues: Sequence[str]
    """URLs of the queues with a letter."""

    @property
    def items(self) -> list[dict[str, Any]]:
        """The items with a letter, as DynamoDB stores them: alone, and in a FIFO group."""
        keys = (
            (Partition.LETTER.of(self.pipeline, COPY), "message"),
            (Partition.GROUP.of(self.pipeline, "dlq", GROUP), f"{'1'.zfill(32)}#{COPY}"),
        )
        return [
            {
                "pk": {"S": partition},
                "sk": {"S": sort},
                "copy": {"S": COPY},
                "home": {"S": "dlq"},
                "lane": {"S": f"{self.pipeline}|run:{RUN}|0"},
                "due": {"N": "4000000000"},
                "stamp": {"S": "{}"},
                "because": {"S": "a test"},
                "message": {"B": LETTER},
                "edit": {"B": LETTER},
                "edited": {"M": {"by": {"S": "ann"}}},
            }
            for partition, sort in keys
        ]

    @property
    def objects(self) -> list[str]:
        """The names of the objects with a letter."""
        return [
            body_object(self.pipeline, COPY),
            body_object(self.pipeline, f"{COPY}.1.edit"),
            run_object(self.pipeline, RUN, f"edits/{COPY}-1.json"),
            run_object(self.pipeline, RUN, f"discarded/{COPY}.json"),
        ]

    def plant(self, dynamodb: Any = None, s3: Any = None) -> None:
        """Put items and objects where they are looked for, by the clients that are given."""
        for item in self.items if dynamodb else ():
            dynamodb.put_item(TableName=self.table, Item=item)
        for name in self.objects if s3 else ():
            s3.put_object(Bucket=self.bucket, Key=name, Body=LETTER)


@dataclass(frozen=True)
class Attempt:
    """One call that could show a body. `actions` are those that IAM is asked about."""

    actions: frozenset[str]
    says: str
    service: str
    operation: str
    request: Mapping[str, Any]

    @property
    def reads(self) -> bool:
        """Whether it leaves what was planted as it is, if it is allowed."""
        return self.operation in (
            "batch_get_item",
            "get_item",
            "transact_get_items",
            "query",
            "scan",
        )

    def shows(self, clients: Clients) -> bool:
        """Whether the caller sees the body: in the answer, or in the error."""
        try:
            answer = getattr(clients(self.service), self.operation)(**self.request)
        except ParamValidationError as error:
            raise AssertionError(f"{self.says} is no call at all: {error}") from error
        except ClientError as error:
            return holds(error.response)
        return holds(answer)


def holds(answer: Any) -> bool:
    """Whether the planted text is anywhere in an answer, streams read to their end."""
    match answer:
        case str():
            return PLANT in answer
        case bytes() | bytearray():
            return PLANT.encode() in answer
        case dict():
            return any(map(holds, chain(answer, answer.values())))
        case list() | tuple() | set():
            return any(map(holds, answer))
    return holds(answer.read()) if hasattr(answer, "read") else False


def attempts(planted: Planted) -> Iterator[Attempt]:
    """Every attempt on what was planted."""
    for item in planted.items:
        key = {name: item[name] for name in ("pk", "sk")}
        yield from _reads(planted.table, key, item)
        yield from _writes(planted.table, key, item)
        yield from _statements(planted.table, key)
    yield from _searches(planted)
    for name in planted.objects:
        yield from _objects(planted.bucket, name)
    for url in planted.queues:
        for names in ([], ["All"]):
            request = {"QueueUrl": url, "MessageSystemAttributeNames": names, "WaitTimeSeconds": 0}
            yield _attempt("sqs", "receive_message", {**request, "VisibilityTimeout": 0})


def _attempt(service: str, operation: str, request: Mapping[str, Any], *actions: str) -> Attempt:
    name = "".join(part.capitalize() for part in operation.split("_"))
    options = " ".join(
        f"{name}={value}" for name, value in request.items() if name not in ("Item", "Key")
    )
    asked = frozenset(actions or (f"{service}:{name}",))
    return Attempt(asked, f"{name} {options}"[:400], service, operation, request)


@cache
def _choices(operation: str) -> Sequence[Mapping[str, str]]:
    """Each choice of the return options that DynamoDB's model knows for an operation.

    Those that return items are combined with each other; each of the others is tried alone.
    """
    shape = get_session().get_service_model("dynamodb").operation_model(operation).input_shape
    assert shape is not None
    options: dict[str, list[str]] = {
        name: list(member.enum)  # type: ignore[attr-defined]
        for name, member in shape.members.items()
        if name.startswith("Return") or name == "Select"
    }
    combined = {name: values for name, values in options.items() if name.startswith("ReturnValues")}
    alone = options.keys() - combined.keys()
    return [
        *(dict(zip(combined, chosen, strict=True)) for chosen in product(*combined.values())),
        *({name: value} for name in alone for value in options[name]),
    ]


def _projections(item: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What a read may name: nothing, each attribute, and one with a letter beside harmless ones,
    with a placeholder, by its own name or as older requests do.
    """
    yield {}
    for name in item:
        yield _named(name)
    yield _named("pk", "sk", "stamp", "message")
    harmless = {"ExpressionAttributeNames": {"#a": "stamp"}}
    yield {"ProjectionExpression": "message"}
    yield {"ProjectionExpression": "#a, letter", **harmless}
    yield {"ProjectionExpression": "edit, #a", **harmless}
    yield {"AttributesToGet": ["message"]}


def _named(*names: str) -> dict[str, Any]:
    return {
        "ProjectionExpression": ", ".join(f"#{name}" for name in names),
        "ExpressionAttributeNames": {f"#{name}": name for name in names},
    }


def _reads(table: str, key: Mapping[str, Any], item: Mapping[str, Any]) -> Iterator[Attempt]:
    for named in _projections(item):
        for consistent in (False, True):
            asked = {"Keys": [key], "ConsistentRead": consistent, **named}
            yield _attempt("dynamodb", "batch_get_item", {"RequestItems": {table: asked}})
            request = {"TableName": table, "Key": key, "ConsistentRead": consistent, **named}
            yield _attempt("dynamodb", "get_item", request)
        if "AttributesToGet" not in named:
            get = {"Get": {"TableName": table, "Key": key, **named}}
            yield _attempt(
                "dynamodb", "transact_get_items", {"TransactItems": [get]}, "dynamodb:GetItem"
            )
        for select in ({}, {"Select": "ALL_ATTRIBUTES"}, {"Select": "SPECIFIC_ATTRIBUTES"}):
            if (select.get("Select") == "SPECIFIC_ATTRIBUTES") != bool(named) and select:
                continue
            if "AttributesToGet" in named:
                condition: dict[str, Any] = {
                    "KeyConditions": {
                        "pk": {"AttributeValueList": [key["pk"]], "ComparisonOperator": "EQ"}
                    }
                }
            else:
                condition = {
                    "KeyConditionExpression": "pk = :pk",
                    "ExpressionAttributeValues": {":pk": key["pk"]},
                }
            request = {"TableName": table, **condition, **named, **select}
            yield _attempt("dynamodb", "query", request)


# Conditions of a write: none, one that fails, and one that holds.
_FAILS = {"ConditionExpression": "attribute_not_exists(pk)"}
_CONDITIONS: Sequence[Mapping[str, Any]] = (
    {},
    _FAILS,
    {"ConditionExpression": "attribute_exists(pk)"},
)


def _writes(table: str, key: Mapping[str, Any], item: Mapping[str, Any]) -> Iterator[Attempt]:
    target = {"TableName": table}
    for operation, whole, name in (
        ("PutItem", {"Item": item}, "put_item"),
        ("DeleteItem", {"Key": key}, "delete_item"),
    ):
        for options, condition in product(_choices(operation), _CONDITIONS):
            yield _attempt("dynamodb", name, {**target, **whole, **options, **condition})
    changes = list(_changes(item))
    for options, condition in product(_choices("UpdateItem"), _CONDITIONS):
        # Each attribute where answer and error show what was not named; else one is enough.
        for change in changes if "NONE" not in options.values() else changes[:1]:
            request = {**target, "Key": key, **options, **condition, **change}
            yield _attempt("dynamodb", "update_item", request)
    yield from _transactions(table, key, item, changes)
    for entry in ({"PutRequest": {"Item": item}}, {"DeleteRequest": {"Key": key}}):
        for options in _choices("BatchWriteItem"):
            request = {"RequestItems": {table: [entry]}, **options}
            yield _attempt("dynamodb", "batch_write_item", request)


def _changes(item: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Updates of one attribute each, that leave it as it is."""
    for name in ("due", *(set(item) - {"pk", "sk", "due"})):
        yield {
            "UpdateExpression": f"SET #{name} = #{name}",
            "ExpressionAttributeNames": {f"#{name}": name},
        }
    yield {"UpdateExpression": "SET because = because"}


def _transactions(
    table: str,
    key: Mapping[str, Any],
    item: Mapping[str, Any],
    changes: Sequence[Mapping[str, Any]],
) -> Iterator[Attempt]:
    """Members of a transaction whose condition fails, and that ask for the item then."""
    asks = {"TableName": table, "ReturnValuesOnConditionCheckFailure": "ALL_OLD", **_FAILS}
    members: list[tuple[str, str, Mapping[str, Any]]] = [
        ("ConditionCheck", "ConditionCheckItem", {"Key": key}),
        ("Delete", "DeleteItem", {"Key": key}),
        ("Put", "PutItem", {"Item": item}),
        *(("Update", "UpdateItem", {"Key": key, **change}) for change in changes),
    ]
    for member, action, arguments in members:
        request = {"TransactItems": [{member: {**asks, **arguments}}]}
        yield _attempt("dynamodb", "transact_write_items", request, f"dynamodb:{action}")


def _statements(table: str, key: Mapping[str, Any]) -> Iterator[Attempt]:
    """The same in PartiQL."""
    which = f"\"{table}\" WHERE pk = '{key['pk']['S']}' AND sk = '{key['sk']['S']}'"
    changed = which.replace(" WHERE", " SET because='x' WHERE")
    for verb, statement in (
        ("Select", ("SELECT * FROM", which)),
        ("Select", ("SELECT letter FROM", which)),
        ("Update", ("UPDATE", changed, "RETURNING ALL OLD *")),
        ("Delete", ("DELETE FROM", which, "RETURNING ALL OLD *")),
    ):
        action = f"dynamodb:PartiQL{verb}"
        asked = {"Statement": " ".join(statement)}
        yield _attempt("dynamodb", "execute_statement", asked, action)
        several = {"Statements": [asked]}
        yield _attempt("dynamodb", "batch_execute_statement", several, action)


def _searches(planted: Planted) -> Iterator[Attempt]:
    """Reads that find items without their keys."""
    lane = planted.items[0]["lane"]
    for options in _choices("Scan"):
        if options.get("Select") == "SPECIFIC_ATTRIBUTES":
            options = {**options, "ProjectionExpression": "message"}
        yield _attempt("dynamodb", "scan", {"TableName": planted.table, **options})
    for index in (LANES, CAUSES):
        named = {"TableName": planted.table, "IndexName": index.name}
        yield _attempt("dynamodb", "scan", named)
        for options in _choices("Query"):
            if options.get("Select") == "SPECIFIC_ATTRIBUTES":
                options = {**options, "ProjectionExpression": "message"}
            condition = {
                "KeyConditionExpression": "#p = :p",
                "ExpressionAttributeNames": {"#p": index.partition},
                "ExpressionAttributeValues": {":p": lane},
            }
            yield _attempt("dynamodb", "query", {**named, **condition, **options})


def _objects(bucket: str, name: str) -> Iterator[Attempt]:
    whole = {"Bucket": bucket, "Key": name}
    yield _attempt("s3", "get_object", whole)
    yield _attempt("s3", "get_object", {**whole, "Range": "bytes=0-4000"})
    # Written anew, S3 answers with a name and no more.
    copied = {"Bucket": bucket, "Key": f"{name}.copy", "CopySource": f"{bucket}/{name}"}
    yield _attempt("s3", "copy_object", copied, "s3:GetObject", "s3:PutObject")


# Granted to people, and no way to a body. Each with the reason.
SHOW_NONE: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("cloudwatch:GetMetricData", "cloudwatch:GetMetricStatistics"),
            *("cloudwatch:DescribeAlarms", "cloudwatch:GetAlarmMuteRule"),
            *("cloudwatch:PutAlarmMuteRule", "cloudwatch:DeleteAlarmMuteRule"),
        ),
        "numbers, and names of alarms",
    ),
    **dict.fromkeys(
        ("lambda:GetFunctionConfiguration", "lambda:ListEventSourceMappings", "lambda:ListTags"),
        "how a function is configured",
    ),
    "lambda:InvokeFunction": "what our functions answer holds no body: tests/handlers",
    **dict.fromkeys(
        ("logs:StartQuery", "logs:GetQueryResults", "logs:StopQuery"),
        "our functions log no body (tests/e2e/canaries.py); what a consumer of yours logs is yours",
    ),
    **dict.fromkeys(
        ("sqs:GetQueueAttributes", "sqs:ListDeadLetterSourceQueues"), "depths and names of queues"
    ),
    "sqs:ChangeMessageVisibility": "it takes a receipt handle, which only a receive gives",
    "ssm:GetParametersByPath": "what the stacks register",
    "dynamodb:DescribeContinuousBackups": "times of backups",
    **dict.fromkeys(("s3:ListBucket", "s3:GetBucketVersioning"), "names of objects, which are ids"),
    "s3:PutObject": "it answers with a checksum of what the caller sent",
    **dict.fromkeys(
        ("states:ListExecutions", "states:StartExecution", "states:SendTaskSuccess"),
        "only words and numbers pass through a state machine",
    ),
    "secretsmanager:GetSecretValue": "a secret, and no message",
    **dict.fromkeys(
        ("sns:Publish", "sns:ListSubscriptionsByTopic", "sns:GetTopicAttributes"),
        "pages of the caller's",
    ),
    **dict.fromkeys(
        (
            *("kms:Decrypt", "kms:GenerateDataKey", "kms:DescribeKey", "kms:GetKeyPolicy"),
            *("kms:Encrypt", "kms:GenerateDataKeyWithoutPlaintext"),
            *("kms:ReEncryptFrom", "kms:ReEncryptTo"),
        ),
        "through the service that holds the data, which is asked for its own permission",
    ),
}
