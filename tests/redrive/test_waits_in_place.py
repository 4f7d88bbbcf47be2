"""The letters of a FIFO group wait for a short backoff where they are."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from deadletter.aws.ledger import DynamoDBLedger
from deadletter.redrive import queue_source
from deadletter.settings.backoff import Backoff
from deadletter.settings.pipeline import Pipeline, RetryPolicy
from deadletter.signals.figures import Count
from tests.infra.test_costs_page import count
from tests.samples import failed
from tests.simulation.stage import Stage
from tests.tables import LETTERS

MINUTE = 60.0


class Groups:
    """A FIFO pipeline with the library, whose messages die and are brought back each minute."""

    def __init__(self, base: float = MINUTE, least: float = 5.0) -> None:
        policy = RetryPolicy(Backoff(base=base, floor=least), max_attempts=3)
        self.stage = Stage(
            Pipeline("orders", fifo=True, consumer_library=True, policy=policy, workers=1)
        )
        self.calls = Counter[str]()
        for name in ("receive_message", "send_message_batch", "delete_message_batch"):
            count(self.stage.redriver_sqs, name, self.calls)
        count(self.stage.redriver_sqs, "change_message_visibility_batch", self.calls)
        store: Any = self.stage.dynamodb
        self.ledger = DynamoDBLedger(store, LETTERS, "orders", self.stage.clock, 1e6)
        self.dead = 0

    def dies(self, group: str, *, on_record: bool = True, at: float | None = None) -> None:
        self.dead += 1
        origin = self.stage.put(
            f'{{"number": {self.dead}}}',
            url=self.stage.dlq,
            MessageGroupId=group,
            MessageDeduplicationId=str(self.dead),
        )
        if on_record:
            self.ledger.failed(origin, failed(at=self.stage.clock() if at is None else at))
        self.stage.clock.advance(0.1)

    def run(self) -> None:
        began = self.stage.clock()
        self.stage.run()
        self.stage.clock.advance(max(0.0, MINUTE - (self.stage.clock() - began)))

    @property
    def back(self) -> list[str]:
        """The bodies in the main queue, in its order."""
        messages = [each for each in self.stage.sqs.snapshot() if each.queue == "orders.fifo"]
        return [each.body for each in messages]


def test_a_group_leaves_in_its_order_and_never_enters_the_room() -> None:
    groups = Groups()
    for _ in range(12):
        groups.dies("a")
    for _ in range(3):
        groups.run()
        assert groups.stage.waiting() == []
    assert groups.back == [f'{{"number": {number}}}' for number in range(1, 13)]


def test_a_message_that_died_later_waits_behind_the_first_of_its_group() -> None:
    groups = Groups(base=1e9)
    groups.dies("a")
    groups.run()
    assert len(groups.stage.waiting()) == 1
    groups.dies("a")
    groups.run()
    # The first waits long, in the room; the other one behind it there.
    assert len(groups.stage.waiting()) == 2


def test_the_first_of_a_group_goes_when_it_may_and_the_next_one_stays() -> None:
    groups = Groups(base=300, least=300)
    groups.dies("a", at=groups.stage.clock() - 3_600)
    groups.dies("a")
    report = groups.stage.run()
    assert groups.back == ['{"number": 1}']
    assert report.counts[Count.LEFT_IN_PLACE] == 1
    assert groups.stage.waiting() == []


def test_a_death_that_is_not_on_record_waits_in_the_room() -> None:
    groups = Groups()
    groups.dies("a", on_record=False)
    groups.stage.run()
    assert len(groups.stage.waiting()) == 1
    for _ in range(3):
        groups.run()
    assert groups.back == ['{"number": 1}']


def test_what_waits_does_not_use_up_the_letters_that_a_fruitless_run_may_try() -> None:
    groups = Groups(base=300, least=300)
    for number in range(30):
        groups.dies(f"waits{number}")
    groups.run()
    [memory] = [item for item in groups.stage.dynamodb.items(LETTERS) if "first_step" in item]
    assert "fruitless" not in memory
    groups.dies("died-long-ago", at=groups.stage.clock() - 3_600)
    groups.run()
    assert groups.back == ['{"number": 31}']


def test_what_waits_is_visible_to_the_next_run() -> None:
    groups = Groups(base=1)
    groups.dies("a")
    groups.stage.run(seconds=600)
    assert groups.back == []
    groups.stage.clock.advance(10)
    groups.stage.run()
    assert groups.back == ['{"number": 1}']


def spent() -> tuple[float, float, float]:
    """SQS requests, read and write units of a letter, where 20 die each minute in 50 groups."""
    groups, numbers, reads, writes = Groups(), Random(5), 0.0, 0.0
    for minute in range(30):
        for _ in range(20 if minute < 20 else 0):
            groups.dies(f"group{numbers.randrange(50)}")
        before = groups.stage.dynamodb.consumed
        groups.run()
        used = groups.stage.dynamodb.consumed - before
        reads, writes = reads + used.read_units, writes + used.write_units
    assert len(groups.back) == groups.dead
    return groups.calls.total() / groups.dead, reads / groups.dead, writes / groups.dead


def test_what_it_saves(monkeypatch: pytest.MonkeyPatch) -> None:
    requests, _, writes = spent()
    monkeypatch.setattr(queue_source, "WAITS_IN_PLACE", -1.0)
    requests_before, _, writes_before = spent()
    assert requests < requests_before
    assert writes < writes_before / 10
