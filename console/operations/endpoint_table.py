"""The table of webhook endpoints, as people read and change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deadletter.contract import ENDPOINTS
from deadletter.webhook.endpoint import DEFAULT_ENDPOINT, BadEndpoint, Endpoint, read_row

from . import item
from .aws import Aws, error_code
from .problem import Cause, Problem

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


@dataclass(frozen=True, slots=True)
class UrlPolicy:
    """Which URLs are allowed, as the dispatcher's settings say."""

    allow_loopback: bool
    ports: tuple[int, ...]


def url_policy(allow_loopback: bool, ports: Sequence[int] | None) -> UrlPolicy:
    """The policy of these options: HTTPS on port 443, and on these ports."""
    return UrlPolicy(allow_loopback, (443, *(ports or ())))


def place(endpoint_id: str) -> tuple[str, str]:
    """Tenant and endpoint of "TENANT" or "TENANT/ENDPOINT"."""
    tenant, _, endpoint = endpoint_id.partition("/")
    if not tenant:
        raise Problem("Name the endpoint as TENANT or TENANT/ENDPOINT.", Cause.INPUT)
    return tenant, endpoint or DEFAULT_ENDPOINT


def target(endpoint_id: str) -> str:
    """An endpoint as the audit table names it."""
    return f"endpoint {'/'.join(place(endpoint_id))}"


@dataclass(frozen=True, slots=True)
class EndpointRow:
    """A row: its columns as JSON-ready data, and the endpoint or why the row is invalid."""

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
        """All endpoints, by tenant and name."""
        pages = self._dynamodb.get_paginator("scan").paginate(TableName=self._name)
        rows = (_row(raw) for page in pages for raw in page["Items"])
        return sorted(rows, key=lambda row: (row.tenant, row.name))

    def find(self, endpoint_id: str) -> EndpointRow:
        """An endpoint; Problem if it is missing."""
        answer = self._dynamodb.get_item(
            TableName=self._name, Key=_key(endpoint_id), ConsistentRead=True
        )
        if "Item" not in answer:
            raise _absent(endpoint_id)
        return _row(answer["Item"])

    def add(self, endpoint_id: str, columns: Mapping[str, Any]) -> None:
        """Write a new endpoint; Problem if it exists."""
        row = {**_key(endpoint_id), **item.stored(columns)}
        taken = Problem(
            f"There is an endpoint {endpoint_id} already: see dlq endpoint list.", Cause.INPUT
        )
        self._write(
            self._dynamodb.put_item,
            taken,
            Item=row,
            ConditionExpression="attribute_not_exists(tenant)",
        )

    def update(self, endpoint_id: str, expression: str, values: Mapping[str, Any]) -> None:
        """Change an endpoint; Problem if it is missing."""
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
    """The endpoint table of that name."""
    return EndpointTable(aws.dynamodb, name)


def _row(raw: Mapping[str, Any]) -> EndpointRow:
    columns = item.plain(raw)
    try:
        return EndpointRow(columns, read_row(columns))
    except BadEndpoint as error:
        return EndpointRow(columns, None, str(error))


def _key(endpoint_id: str) -> dict[str, Any]:
    tenant, endpoint = place(endpoint_id)
    return {ENDPOINTS.partition: {"S": tenant}, ENDPOINTS.sort: {"S": endpoint}}


def _absent(endpoint_id: str) -> Problem:
    tenant, endpoint = place(endpoint_id)
    return Problem(
        f"Tenant {tenant!r} has no endpoint {endpoint!r}: see dlq endpoint list.", Cause.ABSENT
    )
