"""The endpoint registry in DynamoDB: tenant and endpoint id give a URL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deadletter.aws.answers import AWS_ERRORS, code
from deadletter.aws.table import plain
from deadletter.webhook import Endpoint, Undeliverable

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class DynamoDBEndpoints:
    """The registry's table, keyed by `tenant` and `endpoint`."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def find(self, tenant: str, endpoint: str) -> Endpoint | None:
        key: Any = {"tenant": {"S": tenant}, "endpoint": {"S": endpoint}}
        try:
            answer = self._client.get_item(TableName=self._table, Key=key)
        except AWS_ERRORS as error:
            raise Undeliverable(f"the endpoint registry gave no answer: {code(error)}") from error
        item: Any = answer.get("Item")
        if item is None:
            return None
        found = plain(item)
        url = found.get("url")
        if not isinstance(url, str):
            raise Undeliverable("the endpoint's row has no url")
        return Endpoint(tenant, endpoint, url, found.get("enabled", True) is True)
