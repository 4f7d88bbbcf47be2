"""What Powertools' idempotency does and does not do: the reasons in docs/adr/0007, kept true.

A test that fails here says that a reason is gone, not that anything of ours is broken.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyItemAlreadyExistsError,
    IdempotencyValidationError,
)
from aws_lambda_powertools.utilities.idempotency.idempotency import idempotent_function
from botocore.exceptions import ClientError

from deadletter.testing.fakes import MemoryDynamoDB

TABLE = "idempotency"
MESSAGE = {"orderId": "7", "amount": 1}
OTHER = {"orderId": "7", "amount": 2}


class Calls:
    """A DynamoDB client that notes its calls and may make each one twice, as the SDK does when
    an answer is lost."""

    def __init__(self) -> None:
        self.real: Any = MemoryDynamoDB(lambda: 1_800_000_000.0)
        self.real.create_table(
            TableName=TABLE,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        self.made: list[tuple[str, dict[str, Any]]] = []
        self.twice = False

    def __getattr__(self, name: str) -> Any:
        act = getattr(self.real, name)

        def call(**options: Any) -> Any:
            self.made.append((name, options))
            if self.twice:
                with contextlib.suppress(ClientError):
                    act(**options)
            return act(**options)

        return call

    @property
    def rows(self) -> list[dict[str, Any]]:
        return list(self.real.items(TABLE))


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def store(calls: Calls) -> DynamoDBPersistenceLayer:
    client: Any = calls
    layer = DynamoDBPersistenceLayer(TABLE, boto3_client=client)
    layer.configure(config(), "consume")
    return layer


def config() -> IdempotencyConfig:
    found = IdempotencyConfig(event_key_jmespath="orderId", payload_validation_jmespath="amount")
    context: Any = type("Context", (), {"get_remaining_time_in_millis": lambda self: 30_000})()
    found.register_lambda_context(context)
    return found


def consumer(store: DynamoDBPersistenceLayer, effect: Callable[[], Any]) -> Callable[..., Any]:
    def consume(message: Any) -> Any:
        return effect()

    guarded: Callable[..., Any] = idempotent_function(
        consume, data_keyword_argument="message", config=config(), persistence_store=store
    )
    return guarded


def test_a_message_that_succeeds_costs_two_round_trips(
    calls: Calls, store: DynamoDBPersistenceLayer
) -> None:
    for number in range(10):
        consumer(store, lambda: None)(message={"orderId": str(number), "amount": 1})
    assert [name for name, _ in calls.made] == ["put_item", "update_item"] * 10


def test_neither_completing_nor_deleting_asks_who_has_the_row(
    calls: Calls, store: DynamoDBPersistenceLayer
) -> None:
    """So a process that was held up past its lease changes the row of the one after it."""
    store.save_inprogress(MESSAGE, 30_000)
    store.save_success(MESSAGE, {})
    store.delete_record(MESSAGE, ValueError())
    ends = [options for name, options in calls.made if name != "put_item"]
    assert len(ends) == 2
    assert not any("ConditionExpression" in end for end in ends)
    assert calls.rows == []


def test_a_claim_whose_answer_was_lost_counts_as_another_owners(
    calls: Calls, store: DynamoDBPersistenceLayer
) -> None:
    """The message is not processed, and may not be until the lease has ended."""
    effects: list[int] = []
    calls.twice = True
    with pytest.raises(IdempotencyAlreadyInProgressError):
        consumer(store, lambda: effects.append(1))(message=MESSAGE)
    assert effects == []


def test_a_failure_deletes_the_row_and_lets_another_payload_take_the_key(
    calls: Calls, store: DynamoDBPersistenceLayer
) -> None:
    def fail() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        consumer(store, fail)(message=MESSAGE)
    consumer(store, lambda: None)(message=OTHER)
    with pytest.raises(IdempotencyValidationError):
        consumer(store, lambda: None)(message=MESSAGE)


def test_another_payload_under_a_key_is_an_error_and_never_processed(
    calls: Calls, store: DynamoDBPersistenceLayer
) -> None:
    effects: list[int] = []
    for message in (MESSAGE, OTHER, OTHER):
        with contextlib.suppress(IdempotencyValidationError):
            consumer(store, lambda: effects.append(1))(message=message)
    assert len(effects) == 1


def test_a_message_without_a_key_is_processed_without_any_guard(
    calls: Calls, store: DynamoDBPersistenceLayer
) -> None:
    with pytest.warns(UserWarning, match="No idempotency key"):
        consumer(store, lambda: None)(message={"amount": 1})
    assert calls.made == []


def test_the_default_expiry_is_an_hour() -> None:
    assert IdempotencyConfig().expires_after_seconds == 3_600


def test_a_lease_is_there_only_where_the_lambda_context_is_handed_over(
    calls: Calls, store: DynamoDBPersistenceLayer
) -> None:
    """Else a crashed owner's row stands in the way until the whole record expires."""
    with pytest.warns(UserWarning, match="remaining time"):
        store.save_inprogress(MESSAGE, None)
    [row] = calls.rows
    assert "in_progress_expiration" not in row
    with pytest.raises(IdempotencyItemAlreadyExistsError):
        store.save_inprogress(MESSAGE, 30_000)
