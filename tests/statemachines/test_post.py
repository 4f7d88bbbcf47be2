"""The executed state machine where canaries go by post: no function waits for a canary."""

from __future__ import annotations

import json
from typing import Any

import pytest
from moto.stepfunctions.parser.asl.component.state.wait.wait_function.wait_function import (
    WaitFunction,
)

from deadletter.aws.ledger import DynamoDBLedger
from deadletter.circuit.state import State
from deadletter.contract import Category
from deadletter.failure.failure import Failure
from deadletter.message import stamp as stamps
from tests.statemachines.conftest import Account, client
from tests.tables import LETTERS


class Container:
    """A consumer that polls the main queue while the execution waits, and fails so many."""

    def __init__(self, account: Account, fails: int) -> None:
        self._account, self._fails = account, fails
        self.tried: list[str] = []
        self.ledger = DynamoDBLedger(client("dynamodb"), LETTERS, "orders", account.clock, 1e6)

    def poll(self) -> None:
        sqs, main = client("sqs"), self._account.main
        answer = sqs.receive_message(
            QueueUrl=main, VisibilityTimeout=600, MessageAttributeNames=["All"]
        )
        for message in answer.get("Messages", []):
            mark = stamps.parse(message["MessageAttributes"]["Redrive"]["StringValue"])
            assert mark is not None
            self.tried.append(mark.origin)
            now = self._account.clock()
            if len(self.tried) <= self._fails:
                self.ledger.failed(mark.origin, Failure(now, mark.attempt, Category.TRANSIENT))
            else:
                self.ledger.recovered(mark.origin, mark.attempt, now)
                sqs.delete_message(QueueUrl=main, ReceiptHandle=message["ReceiptHandle"])


@pytest.mark.parametrize("settings", [{"pause_consumer": False}])
def test_an_outage_of_five_canaries_by_post_takes_at_most_forty_transitions(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    container = Container(account, fails=3)

    def wait(_self: Any, env: Any, wait_seconds: int) -> None:
        container.poll()
        account.clock.advance(wait_seconds)

    monkeypatch.setattr(WaitFunction, "_wait_interval", wait)
    environment = account.environment(pause_consumer=False)
    pipeline = {**json.loads(environment["PIPELINE"]), "consumer_library": True}
    monkeypatch.setenv("PIPELINE", json.dumps(pipeline))
    for name in ("CONSUMER_FUNCTION", "CONSUMER_MAPPING"):
        monkeypatch.delenv(name)
    letters = [account.put(account.dlq, json.dumps({"secret": f"body {n}"})) for n in range(6)]
    execution = account.run(account.trip())
    assert execution.status == "SUCCEEDED"
    assert execution.visited[-1] == "Closed"
    assert account.circuit().state is State.CLOSED
    assert len(container.tried) == len(set(container.tried)) == 5
    assert set(container.tried) <= set(letters)
    # Each is sent by one probe and asked after by another.
    assert execution.visited.count("Probe") == 10
    assert execution.transitions <= 40
    assert (account.depth(account.dlq), account.depth(account.main)) == (1, 3)
    assert "body" not in execution.history
    assert account.metrics["Redriven"] == 5
