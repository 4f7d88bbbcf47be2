"""The endpoint registry keeps its promises on every backend, and secrets are kept for a while."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError

from deadletter.aws.dynamodb import plain, stored
from deadletter.aws.endpoints import (
    REMEMBERED,
    RETRIED,
    SECRET_REMEMBERED,
    DynamoDBEndpoints,
    SecretsManagerSecrets,
)
from deadletter.testing.clock import Clock
from deadletter.webhook.endpoint import (
    BadEndpoint,
    Endpoint,
    RegistryUnavailable,
    SecretsUnavailable,
    SecretUnusable,
)
from deadletter.webhook.signing import read_secret
from tests.aws.backends import Aws
from tests.each_row import each_row
from tests.tables import create_keyed_table

TABLE = "endpoints"
URL = "https://hooks.example.com"


class Registry:
    """The table, two workers that read it, and a clock of their own."""

    def __init__(self, aws: Aws) -> None:
        self.dynamodb = aws.dynamodb
        self.clock = Clock()
        create_keyed_table(self.dynamodb, TABLE, ("tenant", "endpoint"))
        self.first, self.second = (
            DynamoDBEndpoints(self.dynamodb, TABLE, self.clock) for _ in range(2)
        )

    def put(self, **columns: Any) -> Endpoint:
        row = {"tenant": "acme", "endpoint": "default", "url": URL, **columns}
        self.dynamodb.put_item(TableName=TABLE, Item=stored(row))
        found = DynamoDBEndpoints(self.dynamodb, TABLE, self.clock).find("acme", "default")
        assert found is not None
        return found

    def row(self) -> dict[str, Any]:
        key = {"tenant": {"S": "acme"}, "endpoint": {"S": "default"}}
        return plain(self.dynamodb.get_item(TableName=TABLE, Key=key)["Item"])


@pytest.fixture
def registry(aws: Aws) -> Registry:
    return Registry(aws)


class TestRegistry:
    def test_an_endpoint_is_found_as_it_was_registered(self, registry: Registry) -> None:
        registry.put(secrets=["app/webhooks/acme"])
        expected = Endpoint("acme", "default", URL, secrets=("app/webhooks/acme",))
        assert registry.first.find("acme", "default") == expected
        assert registry.first.find("acme", "other") is None
        assert registry.first.find("other", "default") is None

    @each_row(
        ("tenant", "endpoint"),
        [("", "default"), ("acme", ""), ("a" * 2049, "default"), ("acme", "ž" * 600)],
    )
    def test_what_dynamodb_takes_for_no_key_is_no_endpoint(
        self, registry: Registry, tenant: str, endpoint: str
    ) -> None:
        assert registry.first.find(tenant, endpoint) is None

    def test_an_edit_counts_within_seconds(self, registry: Registry) -> None:
        registry.put()
        assert registry.first.find("acme", "default")
        registry.put(url="https://other.example.com")
        seen = []
        for _ in range(2):
            found = registry.first.find("acme", "default")
            assert found is not None
            seen.append(found.url)
            registry.clock.advance(REMEMBERED)
        assert seen == [URL, "https://other.example.com"]

    def test_an_endpoint_that_is_gone_is_disabled_once_with_reason_and_time(
        self, registry: Registry
    ) -> None:
        endpoint = registry.put()
        assert registry.first.disable(endpoint, "it answered 410", 1_800_000_000.9)
        assert not registry.second.disable(endpoint, "it answered 410", 1_800_000_001)
        row = registry.row()
        assert row["enabled"] is False
        assert row["disabled_because"] == "it answered 410"
        assert row["disabled_at"] == 1_800_000_000
        for reader in (registry.first, registry.second):
            found = reader.find("acme", "default")
            assert found is not None
            assert not found.enabled

    def test_an_endpoint_with_a_new_url_is_not_disabled_for_the_old_one(
        self, registry: Registry
    ) -> None:
        old = registry.put()
        registry.put(url="https://new.example.com", enabled=True)
        assert not registry.first.disable(old, "it answered 410", 1.0)
        assert not registry.first.throttle(old, 100.0, 429, 1.0)
        found = registry.first.find("acme", "default")
        assert found == replace(old, url="https://new.example.com")

    def test_an_endpoint_that_was_taken_out_is_not_put_back(self, registry: Registry) -> None:
        gone = Endpoint("acme", "default", URL)
        assert not registry.first.disable(gone, "it answered 410", 1.0)
        assert not registry.first.throttle(gone, 100.0, 429, 1.0)
        assert registry.first.find("acme", "default") is None

    def test_of_many_workers_that_meet_one_throttle_one_writes(self, registry: Registry) -> None:
        endpoint = registry.put()
        assert registry.second.find("acme", "default") == endpoint
        assert registry.first.throttle(endpoint, 160.0, 429, 100.0)
        assert not registry.second.throttle(endpoint, 170.0, 503, 110.0)
        found = registry.second.find("acme", "default")
        assert found == replace(endpoint, throttled_until=160.0, throttled_by=429)
        assert registry.second.throttle(endpoint, 190.0, 503, 160.0)
        # One in milliseconds is no worker's.
        assert registry.first.throttle(endpoint, 190_000.0, 503, 190.0)
        assert registry.first.throttle(endpoint, 220.0, 503, 190.0)

    def test_who_wrote_the_pause_knows_it_without_reading(self, registry: Registry) -> None:
        endpoint = registry.put()
        assert registry.first.find("acme", "default") == endpoint
        registry.first.throttle(endpoint, 160.0, 429, 100.0)
        found = registry.first.find("acme", "default")
        assert found is not None
        assert found.throttled_until == 160.0

    def test_a_row_without_a_url_is_not_understood(self, registry: Registry) -> None:
        row = {"tenant": "acme", "endpoint": "default"}
        registry.dynamodb.put_item(TableName=TABLE, Item=stored(row))
        with pytest.raises(BadEndpoint, match="url"):
            registry.first.find("acme", "default")

    def test_a_table_that_is_not_there_is_no_answer(self, aws: Aws) -> None:
        registry = DynamoDBEndpoints(aws.dynamodb, "nowhere", Clock())
        endpoint = Endpoint("acme", "default", URL)
        with pytest.raises(RegistryUnavailable, match="ResourceNotFoundException"):
            registry.find("acme", "default")
        with pytest.raises(RegistryUnavailable):
            registry.disable(endpoint, "", 0)
        with pytest.raises(RegistryUnavailable):
            registry.throttle(endpoint, 1, 429, 0)

    def test_no_number_of_endpoints_is_remembered_for_ever(self, registry: Registry) -> None:
        for number in range(1001):
            registry.first._remember(Endpoint("acme", str(number), URL), 0)
        assert len(registry.first._rows) <= 1000


NAME = "app/webhooks/acme"
OLD, NEW = ("whsec_" + base64.b64encode(text * 24).decode() for text in (b"o", b"n"))


class Flaky:
    """Secrets Manager, which may answer with an error; counts how often it is asked."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.asked = 0
        self.raises: Exception | None = None

    def get_secret_value(self, **request: Any) -> Any:
        self.asked += 1
        if self.raises is not None:
            raise self.raises
        return self._real.get_secret_value(**request)


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": OLD}}, "GetSecretValue")


DOWN = [
    refused("InternalServiceError"),
    refused("ThrottlingException"),
    ConnectTimeoutError(endpoint_url="https://secretsmanager"),
]


@pytest.fixture
def manager(mocked: Any) -> Any:
    """A Secrets Manager that holds one secret."""
    mocked.reset()
    client = boto3.client("secretsmanager", region_name="eu-central-1")
    client.create_secret(Name=NAME, SecretString=OLD)
    return client


class TestSecrets:
    def store(self, manager: Any) -> tuple[SecretsManagerSecrets, Flaky, Clock]:
        flaky, clock = Flaky(manager), Clock()
        client: Any = lambda: flaky  # noqa: E731
        return SecretsManagerSecrets(client, "app/webhooks/", clock), flaky, clock

    def test_a_secret_is_read_once_in_five_minutes(self, manager: Any) -> None:
        store, flaky, clock = self.store(manager)
        assert store.read(NAME) == read_secret(OLD)
        manager.put_secret_value(SecretId=NAME, SecretString=NEW)
        clock.advance(SECRET_REMEMBERED - 1)
        assert store.read(NAME) == read_secret(OLD)
        assert flaky.asked == 1
        clock.advance(1)
        assert store.read(NAME) == read_secret(NEW)
        assert flaky.asked == 2

    @pytest.mark.parametrize("down", DOWN)
    def test_a_secret_that_is_known_outlives_an_outage(self, manager: Any, down: Exception) -> None:
        store, flaky, clock = self.store(manager)
        store.read(NAME)
        flaky.raises = down
        clock.advance(86_400)
        for _ in range(10):
            assert store.read(NAME) == read_secret(OLD)
        assert flaky.asked == 2
        clock.advance(RETRIED)
        flaky.raises = None
        manager.put_secret_value(SecretId=NAME, SecretString=NEW)
        assert store.read(NAME) == read_secret(NEW)

    @pytest.mark.parametrize("down", DOWN)
    def test_an_unreachable_secret_is_waited_for(self, manager: Any, down: Exception) -> None:
        store, flaky, _ = self.store(manager)
        flaky.raises = down
        with pytest.raises(SecretsUnavailable) as found:
            store.read(NAME)
        assert OLD not in str(found.value)
        flaky.raises = None
        assert store.read(NAME) == read_secret(OLD)

    @pytest.mark.parametrize("code", ["AccessDeniedException", "ResourceNotFoundException"])
    def test_a_secret_that_was_taken_away_is_used_no_longer(self, manager: Any, code: str) -> None:
        store, flaky, clock = self.store(manager)
        store.read(NAME)
        flaky.raises = refused(code)
        clock.advance(SECRET_REMEMBERED)
        for _ in range(10):
            with pytest.raises(SecretUnusable, match=code) as found:
                store.read(NAME)
            assert OLD not in str(found.value)
        assert flaky.asked == 2
        # What was taken away does not come back in an outage.
        flaky.raises = DOWN[0]
        clock.advance(RETRIED)
        with pytest.raises(SecretsUnavailable):
            store.read(NAME)

    @pytest.mark.parametrize("text", ["hunter2", "", "whsec_hunter2"])
    def test_a_text_that_is_no_secret_is_not_usable(self, manager: Any, text: str) -> None:
        manager.create_secret(Name="app/webhooks/bad", SecretString=text or "{}")
        store, _, _ = self.store(manager)
        with pytest.raises(SecretUnusable) as found:
            store.read("app/webhooks/bad")
        assert "hunter2" not in str(found.value)

    def test_a_binary_secret_is_not_usable(self, manager: Any) -> None:
        manager.create_secret(Name="app/webhooks/bad", SecretBinary=b"x")
        store, _, _ = self.store(manager)
        with pytest.raises(SecretUnusable):
            store.read("app/webhooks/bad")

    def test_a_secret_outside_the_folder_is_not_read(self, manager: Any) -> None:
        manager.create_secret(Name="app/database", SecretString=OLD)
        store, flaky, _ = self.store(manager)
        with pytest.raises(SecretUnusable):
            store.read("app/database")
        assert flaky.asked == 0
