"""IAM in memory: what the statements of a policy allow of the requests to DynamoDB."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from botocore import xform_name
from botocore.session import get_session

from deadletter.aws.dynamodb import worded
from deadletter.testing.fakes import client_error
from sandbox.leading_keys import leading_keys, named_attributes
from tests.infra.templates import filled

HOME = "arn:aws:dynamodb:eu-west-1:111122223333:table/deadletter"

# (table of `tests.tables`, index) -> the attribute that is its partition key.
PARTITION_KEYS = {
    ("letters", None): "pk",
    ("letters", "lanes"): "lane",
    ("letters", "causes"): "causes",
    ("circuits", None): "pipeline",
    ("circuits", "troubled"): "troubled",
    ("rules", None): "pipeline",
}

OPERATIONS = {
    xform_name(operation): operation
    for operation in get_session().get_service_model("dynamodb").operation_names
}

MATCHES = {
    "ForAllValues:StringLike": fnmatchcase,
    "ForAllValues:StringEquals": str.__eq__,
    "StringEquals": str.__eq__,
}


@dataclass(frozen=True)
class Asked:
    """One question to IAM: an action on a table or an index, with what the request names there."""

    action: str
    resource: str
    context: Mapping[str, Sequence[str]]


def questions(operation: str, request: Mapping[str, Any]) -> Iterator[Asked]:
    """What IAM is asked about a request to the tables of `tests.tables`."""
    action, index = f"dynamodb:{operation}", request.get("IndexName")
    keys = leading_keys(action, request, lambda table, index: PARTITION_KEYS[table, index])
    named = named_attributes(action, request)
    for each, table in dict.fromkeys([*keys, *named]):
        names = named.get((each, table), [])
        reads = each in ("dynamodb:GetItem", "dynamodb:BatchGetItem")
        context = {
            "dynamodb:LeadingKeys": keys.get((each, table), []),
            "dynamodb:Attributes": names,
            "dynamodb:Select": ["SPECIFIC_ATTRIBUTES"] if names and reads else [],
        }
        yield Asked(each, f"{HOME}-{table}{f'/index/{index}' if index else ''}", context)


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
        if name not in OPERATIONS:
            return method

        def call(**request: Any) -> Any:
            for asked in questions(OPERATIONS[name], worded(request)):
                if not allows(self._statements, asked):
                    said = f"no policy allows {asked.action} on {asked.resource}: {asked.context}"
                    raise client_error(OPERATIONS[name], "AccessDeniedException", said)
            return method(**request)

        return call
