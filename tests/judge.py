"""IAM in memory: what requests ask it for, and what the statements of a policy allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from botocore import xform_name
from botocore.session import get_session

from deadletter.aws.dynamodb import worded
from deadletter.testing.fakes import client_error
from sandbox.leading_keys import leading_keys, named_attributes
from tests.infra.templates import filled

ACCOUNT = "eu-west-1:111122223333"
HOME = f"arn:aws:dynamodb:{ACCOUNT}:table/deadletter"

# (table without the app's name, index) -> the attribute that is its partition key.
PARTITION_KEYS = {
    ("messages", None): "pk",
    ("messages", "lanes"): "lane",
    ("messages", "causes"): "causes",
    ("circuits", None): "pipeline",
    ("circuits", "troubled"): "troubled",
    ("rules", None): "pipeline",
    ("audit", None): "pk",
    ("endpoints", None): "tenant",
}

PREFIXES = {"stepfunctions": "states"}
"""What actions begin with, where it is not the name of the client."""

KNOWN_AS = {"Invoke": "InvokeFunction", "ListObjectsV2": "ListBucket", "HeadObject": "GetObject"}
"""Operations that IAM knows by another name."""

MATCHES = {
    "ForAllValues:StringLike": fnmatchcase,
    "ForAllValues:StringEquals": str.__eq__,
    "StringLike": fnmatchcase,
    "StringEquals": str.__eq__,
}


@cache
def operations(service: str) -> Mapping[str, str]:
    """The operations of a service by the methods of its client."""
    names = get_session().get_service_model(service).operation_names
    return {xform_name(operation): operation for operation in names}


@dataclass(frozen=True)
class Asked:
    """One question to IAM: an action on a table or an index, with what the request names there."""

    action: str
    resource: str
    context: Mapping[str, Sequence[str]]


def questions(service: str, method: str, request: Mapping[str, Any]) -> Iterator[Asked]:
    """What IAM is asked about a request that a client makes."""
    action = action_of(service, method)
    if service == "dynamodb":
        yield from _of_tables(action, worded(request))
        return
    names = {"s3:prefix": "Prefix", "cloudwatch:namespace": "Namespace"}
    context = {key: [request[name]] for key, name in names.items() if name in request}
    for resource in _resources(service, request):
        yield Asked(action, resource, context)


def action_of(service: str, method: str) -> str:
    """The action, as IAM names it, of a method of a service's client."""
    operation = operations(service)[method]
    known = KNOWN_AS.get(operation, operation)
    if service == "sqs":
        # It knows the batches by the single call.
        known = known.removesuffix("Batch")
    return f"{PREFIXES.get(service, service)}:{known}"


def _resources(service: str, request: Mapping[str, Any]) -> list[str]:
    """The ARNs that a request is about; "*" where IAM knows no resources."""
    match service, request:
        case "sqs", {"QueueUrl": url}:
            return [f"arn:aws:sqs:{ACCOUNT}:{url.rpartition('/')[2]}"]
        case "s3", {"Bucket": bucket}:
            return ["/".join(["arn:aws:s3:::" + bucket, *filter(None, [request.get("Key")])])]
        case "lambda", {"UUID": mapping}:
            return [f"arn:aws:lambda:{ACCOUNT}:event-source-mapping:{mapping}"]
        case "lambda", {"FunctionName": name, "Payload": _}:
            return [f"arn:aws:lambda:{ACCOUNT}:function:{name.rpartition(':')[2]}"]
        case "lambda", {"Resource": arn}:
            return [arn]
        case "stepfunctions", {"stateMachineArn": arn}:
            return [arn]
        case "stepfunctions", {"taskToken": arn}:
            # In memory the token of a task is the ARN of its machine.
            return [arn]
        case "events", {"Entries": entries}:
            buses = {entry.get("EventBusName", "default") for entry in entries}
            return [f"arn:aws:events:{ACCOUNT}:event-bus/{bus}" for bus in buses]
        case "secretsmanager", {"SecretId": name}:
            return [f"arn:aws:secretsmanager:{ACCOUNT}:secret:{name}"]
        case "ssm", {"Path": path}:
            return [f"arn:aws:ssm:{ACCOUNT}:parameter{path}"]
        case "ssm", {"Names": names}:
            return [f"arn:aws:ssm:{ACCOUNT}:parameter{name}" for name in names]
    return ["*"]


def _of_tables(action: str, request: Mapping[str, Any]) -> Iterator[Asked]:
    index = request.get("IndexName")
    keys = leading_keys(action, request, _partition_key)
    named = named_attributes(action, request)
    for each, table in dict.fromkeys([*keys, *named]):
        names = named.get((each, table), [])
        reads = each in ("dynamodb:GetItem", "dynamodb:BatchGetItem")
        context = {
            "dynamodb:LeadingKeys": keys.get((each, table), []),
            "dynamodb:Attributes": names,
            "dynamodb:Select": ["SPECIFIC_ATTRIBUTES"] if names and reads else [],
        }
        yield Asked(each, f"{HOME}-{_bare(table)}{f'/index/{index}' if index else ''}", context)


def _partition_key(table: str, index: str | None) -> str:
    return PARTITION_KEYS[_bare(table), index]


def _bare(table: str) -> str:
    """The name of a table without that of its app."""
    return table.removeprefix("deadletter-")


def holds(condition: Mapping[str, Mapping[str, Any]], context: Mapping[str, Any]) -> bool:
    """Whether a statement's condition is met: ForAllValues is, where a request names none."""
    for operator, compared in condition.items():
        for key, allowed in compared.items():
            values, patterns = context.get(key, []), listed(allowed)
            if not values and not operator.startswith("ForAllValues"):
                return False
            matches = MATCHES[operator]
            if not all(any(matches(value, each) for each in patterns) for value in values):
                return False
    return True


def allows(statements: Sequence[Mapping[str, Any]], asked: Asked) -> bool:
    """Whether one of the statements allows it; none of ours denies."""
    return any(
        asked.action in listed(statement["Action"])
        and any(fnmatchcase(asked.resource, filled(each)) for each in listed(statement["Resource"]))
        and holds(statement.get("Condition", {}), asked.context)
        for statement in statements
    )


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


class Judged:
    """A client of DynamoDB in a role with these statements: what they do not allow is refused."""

    def __init__(self, client: Any, statements: Sequence[Mapping[str, Any]]) -> None:
        self._client = client
        self._statements = statements

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if name not in operations("dynamodb"):
            return method

        def call(**request: Any) -> Any:
            for asked in questions("dynamodb", name, request):
                if not allows(self._statements, asked):
                    said = f"no policy allows {asked.action} on {asked.resource}: {asked.context}"
                    operation = operations("dynamodb")[name]
                    raise client_error(operation, "AccessDeniedException", said)
            return method(**request)

        return call
