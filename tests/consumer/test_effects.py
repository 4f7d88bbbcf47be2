"""A handler is killed after each of its effects, and what happens twice is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
from botocore.stub import Stubber

from deadletter.consumer import Skip, consumer
from deadletter.testing import Letterbox, at_every_effect
from deadletter.testing.effects import Repeat
from deadletter.testing.fakes import MemoryDynamoDB
from deadletter.testing.letterbox import VISIBILITY

ORDER = {"orderId": "7"}


@dataclass
class Bank:
    """Keeps charges; `get_charge` only looks."""

    charges: dict[str, int] = field(default_factory=dict)

    def get_charge(self, order: str) -> int | None:
        return self.charges.get(order)

    def charge(self, order: str) -> None:
        self.charges[order] = self.charges.get(order, 0) + 1

    def charge_once(self, order: str) -> None:
        if order in self.charges:
            raise LookupError
        self.charge(order)


@dataclass
class Mail:
    """Keeps letters."""

    sent: list[str] = field(default_factory=list)

    def send(self, to: str) -> None:
        self.sent.append(to)


def test_what_is_done_before_a_crash_is_done_again() -> None:
    def handler(order: Mapping[str, str], bank: Bank, mail: Mail) -> None:
        bank.charge(order["orderId"])
        mail.send("anna")

    effects = at_every_effect(handler, ORDER, Bank(), Mail())
    assert effects.in_order == ("Bank.charge", "Mail.send")
    assert effects.twice == ("Bank.charge", "Mail.send")
    assert effects.repeats == (
        Repeat("Bank.charge", killed_after="Bank.charge"),
        Repeat("Bank.charge", killed_after="Mail.send"),
        Repeat("Mail.send", killed_after="Mail.send"),
    )


def test_a_handler_that_looks_first_does_nothing_twice() -> None:
    bank = Bank()

    def handler(order: Mapping[str, str], bank: Bank) -> None:
        if bank.get_charge(order["orderId"]) is not None:
            raise Skip("charged before")
        bank.charge(order["orderId"])

    effects = at_every_effect(handler, ORDER, bank, reset=bank.charges.clear)
    assert effects.in_order == ("Bank.charge",)
    assert effects.twice == ()
    assert bank.charges == {"7": 1}


def test_a_call_that_is_refused_has_no_effect() -> None:
    bank = Bank()

    def handler(order: Mapping[str, str], bank: Bank) -> None:
        try:
            bank.charge_once(order["orderId"])
        except LookupError:
            return

    assert at_every_effect(handler, ORDER, bank, reset=bank.charges.clear).twice == ()


def test_an_effect_that_happens_twice_undisturbed_is_one_of_each() -> None:
    """As one letter to each of two persons."""
    mail = Mail()

    def handler(_: object, mail: Mail) -> None:
        for to in ("anna", "ben"):
            if to not in mail.sent:
                mail.send(to)

    assert at_every_effect(handler, ORDER, mail, reset=mail.sent.clear).twice == ()

    def forgetful(_: object, mail: Mail) -> None:
        for to in ("anna", "ben"):
            mail.send(to)

    assert at_every_effect(forgetful, ORDER, mail).twice == ("Mail.send",)


def test_no_handler_catches_the_crash_and_a_killed_process_does_no_more() -> None:
    bank, mail = Bank(), Mail()

    def handler(order: Mapping[str, str], bank: Bank, mail: Mail) -> None:
        try:
            bank.charge(order["orderId"])
        except Exception:
            bank.charges.clear()
        finally:
            mail.send("in the end")

    effects = at_every_effect(handler, ORDER, bank, mail)
    assert Repeat("Mail.send", killed_after="Bank.charge") not in effects.repeats
    assert Repeat("Bank.charge", killed_after="Bank.charge") in effects.repeats
    # One undisturbed, and two for each of two crashes; the handler has cleared none.
    assert bank.charges == {"7": 5}


def test_places_are_watched_and_given_back() -> None:
    shop = SimpleNamespace(__name__="shop", ship=Mail().send)
    before = shop.ship

    def handler(_: object) -> None:
        shop.ship("anna")

    assert at_every_effect(handler, ORDER, places=[(shop, "ship")]).twice == ("shop.ship",)
    assert shop.ship is before


def test_clients_of_boto3_and_mocks_are_watched() -> None:
    client = boto3.client("sns", region_name="eu-west-1")
    mock = Mock()

    def handler(_: object, sns: Any, table: Any) -> None:
        sns.publish(TopicArn="arn:aws:sns:eu-west-1:111122223333:t", Message="shipped")
        table.put_item(Item={})
        table.get_item(Key={})

    with Stubber(client) as stubber:
        for _ in range(5):
            stubber.add_response("publish", {"MessageId": "m"})
        effects = at_every_effect(handler, ORDER, client, mock)
    assert effects.in_order == ("SNS.publish", "Mock.put_item")
    assert effects.twice == ("SNS.publish", "Mock.put_item")


def test_a_conditional_write_of_dynamodb_is_no_effect_if_it_is_refused(
    letterbox: Letterbox,
) -> None:
    letterbox.dynamodb.create_table(
        TableName="done",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    key = {"id": {"S": "7"}}

    def handler(_: object, dynamodb: MemoryDynamoDB) -> None:
        try:
            dynamodb.put_item(
                TableName="done", Item=key, ConditionExpression="attribute_not_exists(id)"
            )
        except Exception as refused:
            raise Skip("done before") from refused

    effects = at_every_effect(
        handler,
        ORDER,
        letterbox.dynamodb,
        reset=lambda: letterbox.dynamodb.delete_item(TableName="done", Key=key),
    )
    assert (effects.in_order, effects.twice) == (("MemoryDynamoDB.put_item",), ())


def test_the_library_guards_no_effect_from_a_crash_before_its_record(letterbox: Letterbox) -> None:
    """What docs/consumer.md does not promise: the claim of a killed process ends."""
    mail = Mail()

    @consumer
    def handler(_record: Any) -> None:
        mail.send("anna")

    def receive(_: object) -> None:
        letterbox.clock.advance(VISIBILITY)
        letterbox.run(handler)

    effects = at_every_effect(
        receive, None, places=[(mail, "send")], reset=lambda: letterbox.send(ORDER)
    )
    assert effects.twice == ("Mail.send",)
    assert letterbox.waiting == []


def test_a_handler_without_an_effect_proves_nothing() -> None:
    with pytest.raises(ValueError, match="no effect was seen"):
        at_every_effect(lambda _, bank: bank.get_charge("7"), ORDER, Bank())


def test_a_world_that_stays_as_it_was_proves_nothing() -> None:
    def handler(order: Mapping[str, str], bank: Bank) -> None:
        if bank.get_charge(order["orderId"]) is None:
            bank.charge(order["orderId"])

    with pytest.raises(ValueError, match="had 0 effects and 1 at first"):
        at_every_effect(handler, ORDER, Bank())


def test_an_async_handler_is_refused() -> None:
    async def handler(_: object, bank: Bank) -> None:
        bank.charge("7")

    with pytest.raises(TypeError, match="coroutine"):
        at_every_effect(handler, ORDER, Bank())


def test_an_error_of_the_handler_is_the_tests() -> None:
    def handler(_: object) -> None:
        raise KeyError("orderId")

    with pytest.raises(KeyError):
        at_every_effect(handler, ORDER)
