"""What grouping of causes takes: `python -m lab.bench.causes [letters ...]`.

What `dlq groups` does, where an index of causes has so many letters of three causes, on the strict
fakes in memory: its CPU without theirs, and what it reads. It reads 20,000 rows at most, so beyond
that the figures are the same. The answer is checked: it names all three causes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from itertools import count
from threading import RLock
from types import SimpleNamespace
from typing import Any

from console.operations.app import App, DeployedPipeline
from console.operations.deadline import Deadline
from console.operations.groups import GroupsRequest, read
from console.operations.session import Session
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.contract import ROWS_KEPT
from deadletter.failure.ledger import AboutLetter
from deadletter.testing.fakes import MemoryDynamoDB, MemorySqs
from deadletter.testing.letterbox import OneAtATime
from lab.bench.letters import PIPELINE
from lab.bench.timing import Metered
from tests.samples import failed
from tests.tables import CIRCUITS, LETTERS, RULES, create_tables

SIZES = (4_000, 20_000)

# Fingerprints: of eight letters five, two and one have each cause.
CAUSE_OF = (*("payment down",) * 5, *("no such order",) * 2, "timeout")


class SessionInMemory(Session):
    """A session of an app whose index of causes has so many letters."""

    def __init__(self, letters: int) -> None:
        tables = MemoryDynamoDB(time.time)
        create_tables(tables)
        client: Any = tables
        ledger = DynamoDBLedger(client, LETTERS, PIPELINE, time.time, ROWS_KEPT)
        for number in range(letters):
            tenant = f"tenant-{number % 200}"
            failure = failed(at=time.time() - number % 3_600, fingerprint=CAUSE_OF[number % 8])
            about = AboutLetter({"tenantId": tenant}, f"{tenant}/default", 1_800)
            ledger.failed(f"{number * 2_654_435_761 % 2**32:08x}", failure, about)
        ids = count()
        sqs = MemorySqs(time.time, lambda: str(next(ids)))
        self._urls = {
            name: sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("main", "dlq", "lot")
        }
        self.meters = [Metered(tables), Metered(sqs)]
        lock = RLock()
        dynamodb, queues = (OneAtATime(meter, lock) for meter in self.meters)
        made: Any = SimpleNamespace(
            dynamodb=dynamodb, sqs=queues, account="111122223333", region="eu-west-1"
        )
        super().__init__(lambda: made, "deadletter")

    def app(self, deadline: Deadline | None = None) -> App:
        nothing: dict[str, Any] = {}
        pipeline = DeployedPipeline(
            name=PIPELINE, main_url=self._urls["main"], dlq_url=self._urls["dlq"],
            parking={"default": self._urls["lot"]}, redrive_function="redrive", mode="enforce",
            dedicated=nothing, router_function="route", fifo=False, terms=nothing,
            pipeline=nothing, replay_machine="", stacks=nothing, keys=(), trusted_senders=(),
        )  # fmt: skip
        return App(
            name="deadletter", messages_table=LETTERS, circuits_table=CIRCUITS, rules_table=RULES,
            audit_table="", audit_days=1, endpoints_table="", messages_bucket="", alarm_topic="",
            pipelines=(pipeline,),
        )  # fmt: skip


def main(sizes: Sequence[int]) -> None:
    for letters in sizes:
        session = SessionInMemory(letters)
        start = time.process_time()
        answer = read(session, GroupsRequest())
        cpu = time.process_time() - start - sum(meter.cpu for meter in session.meters)
        assert len(answer.groups) == len({*CAUSE_OF}), answer
        tables, queues = (dict(meter.calls) for meter in session.meters)
        print(f"{letters:7,} messages: {cpu * 1_000:5.0f} ms CPU, {tables}, {queues}", flush=True)


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or SIZES)
