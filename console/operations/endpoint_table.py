"""The endpoint registry, read and changed by a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deadletter.webhook.endpoint import DEFAULT_ENDPOINT, BadEndpoint, Endpoint, read_row
from deadletter.webhook.url_guard import UrlRefused, read_url

from . import item
from .aws import Aws, error_code
from .problem import Exit, Problem

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Id = Annotated[
    str,
    typer.Argument(
        metavar="TENANT[/ENDPOINT]",
        help=f"The tenant, and its endpoint if that is not {DEFAULT_ENDPOINT!r}.",
    ),
]
Loopback = Annotated[
    bool,
    typer.Option("--allow-loopback", help="Also http to this machine, for sandboxes."),
]
Ports = Annotated[
    list[int] | None,
    typer.Option(
        "--allow-port", metavar="PORT", help="Also this port, as the settings do; repeatable."
    ),
]


@dataclass(frozen=True, slots=True)
class Guard:
    """What of a URL is allowed here, as the settings of the dispatcher say it there."""

    allow_loopback: bool
    ports: tuple[int, ...]


def guard(allow_loopback: bool, ports: Sequence[int] | None) -> Guard:
    return Guard(allow_loopback, (443, *(ports or ())))


def place(endpoint_id: str) -> tuple[str, str]:
    """Tenant and endpoint; what stands before the first slash is the tenant."""
    tenant, _, endpoint = endpoint_id.partition("/")
    if not tenant:
        raise Problem("Name the endpoint as TENANT or TENANT/ENDPOINT.", Exit.USAGE)
    return tenant, endpoint or DEFAULT_ENDPOINT


def shown(url: str) -> str:
    """As much of a URL as may be shown: path and query can be a secret."""
    try:
        to = read_url(url, allow_loopback=True, ports=range(65_536))
    except UrlRefused:
        return "?"
    return f"http://{to.authority}" if to.loopback else f"https://{to.authority}"


@dataclass(frozen=True, slots=True)
class EndpointRow:
    """One row: its columns as JSON-ready data, and the endpoint or why there is none in it."""

    columns: Mapping[str, Any]
    endpoint: Endpoint | None
    why: str = ""

    @property
    def tenant(self) -> str:
        return str(self.columns["tenant"])

    @property
    def name(self) -> str:
        return str(self.columns["endpoint"])


class EndpointTable:
    """The endpoints of an app."""

    def __init__(self, dynamodb: DynamoDBClient, name: str) -> None:
        self._dynamodb: Any = dynamodb
        self._name = name

    def read(self) -> Sequence[EndpointRow]:
        """All endpoints there are, by tenant and name."""
        pages = self._dynamodb.get_paginator("scan").paginate(TableName=self._name)
        found = (_row(raw) for page in pages for raw in page["Items"])
        return sorted(found, key=lambda one: (one.tenant, one.name))

    def find(self, endpoint_id: str) -> EndpointRow:
        """One endpoint; Problem if there is none."""
        answer = self._dynamodb.get_item(
            TableName=self._name, Key=_key(endpoint_id), ConsistentRead=True
        )
        if "Item" not in answer:
            raise _absent(endpoint_id)
        return _row(answer["Item"])

    def add(self, endpoint_id: str, columns: Mapping[str, Any]) -> None:
        """Write a new endpoint; Problem if there is one."""
        row = {**_key(endpoint_id), **item.stored(columns)}
        taken = Problem(
            f"There is an endpoint {endpoint_id} already: see dlq endpoint list.", Exit.USAGE
        )
        self._write(
            self._dynamodb.put_item,
            taken,
            Item=row,
            ConditionExpression="attribute_not_exists(tenant)",
        )

    def update(self, endpoint_id: str, expression: str, values: Mapping[str, Any]) -> None:
        """Change an endpoint; Problem if there is none."""
        self._write(
            self._dynamodb.update_item,
            _absent(endpoint_id),
            Key=_key(endpoint_id),
            UpdateExpression=expression,
            ConditionExpression="attribute_exists(tenant)",
            ExpressionAttributeValues=item.stored(values),
        )

    def _write(self, call: Any, otherwise: Problem, **request: Any) -> None:
        from botocore.exceptions import ClientError

        try:
            call(TableName=self._name, **request)
        except ClientError as error:
            if error_code(error) != "ConditionalCheckFailedException":
                raise
            raise otherwise from error


def table(aws: Aws, name: str) -> EndpointTable:
    """The registry of that name; Problem if the app has none."""
    if not name:
        raise Problem("This app has no endpoint registry: deploy it again.", Exit.ABSENT)
    return EndpointTable(aws.dynamodb, name)


def _row(raw: Mapping[str, Any]) -> EndpointRow:
    columns = item.plain(raw)
    try:
        return EndpointRow(columns, read_row(columns))
    except BadEndpoint as error:
        return EndpointRow(columns, None, str(error))


def _key(endpoint_id: str) -> dict[str, Any]:
    tenant, endpoint = place(endpoint_id)
    return {"tenant": {"S": tenant}, "endpoint": {"S": endpoint}}


def _absent(endpoint_id: str) -> Problem:
    tenant, endpoint = place(endpoint_id)
    return Problem(
        f"Tenant {tenant!r} has no endpoint {endpoint!r}: see dlq endpoint list.", Exit.ABSENT
    )
