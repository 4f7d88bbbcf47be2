"""What the consumer library costs a batch that succeeds: `python -m lab.bench.consumer`.

Two figures. The DynamoDB round trips of a batch of ten, beside those of Powertools' own
idempotency, both counted on one client in one run. And the CPU time that the library
itself adds to a message, with ports that do nothing, so that neither AWS nor its fake is
in it: median over the batches, all ways in turns, by the clock of this process.
"""

from __future__ import annotations

import gc
import json
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from statistics import median
from time import process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "lambdas"))

from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
)
from aws_lambda_powertools.utilities.idempotency.idempotency import idempotent_function

from deadletter.circuit.state import Circuit, OutcomeCounts
from deadletter.consumer import consumer, runtime
from deadletter.consumer.powertools import DeadletterProcessor
from deadletter.consumer.runtime import Runtime
from deadletter.failure.failure import Failure
from deadletter.message.letter import Letter, to_event
from deadletter.message.stamp import Stamp
from deadletter.processing.batch import Consumer
from deadletter.processing.idempotency import BusinessKey, Claim, Standing
from deadletter.settings.pipeline import Pipeline
from deadletter.testing.letterbox import Letterbox

BATCH = 10
TURNS = 300

MORE_ROUND_TRIPS = 4
"""Round trips that a batch may need beyond those of Powertools' idempotency: a process's first one
reads the circuits, and writes its outcomes, its causes of failure and its collisions."""

LIMIT_MS = 1.0
"""Milliseconds of CPU a message."""

NOW = 1_800_000_000.0
ARN = "arn:aws:sqs:eu-west-1:111122223333:orders"
PIPELINE = Pipeline("orders", context={"tenantId": "body.tenantId"}, idempotency_key="body.orderId")

Handler = Callable[[Any, Any], Any]


class Counting:
    """A DynamoDB client that counts its calls."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        act = getattr(self._real, name)

        def call(**options: Any) -> Any:
            self.calls[name] += 1
            return act(**options)

        return call if callable(act) else act


class Nothing:
    """Every port of a consumer; no method does any work."""

    def claim(self, key: BusinessKey, owner: str, until: float) -> Claim:
        return Claim(key.digest, owner, until, Standing.MINE, collision=False, taken_over=False)

    def done(self, _: Claim) -> bool:
        return True

    def withdraw(self, _: Claim, *, tried: bool = True) -> bool:
        return True

    def read(self, keys: Sequence[str], *, lagging: bool = False) -> Mapping[str, Circuit]:
        return {key: Circuit(key) for key in keys}

    def report(self, key: str, outcomes: OutcomeCounts, known: Circuit | None = None) -> None:
        return None

    def hide(self, waits: Sequence[tuple[str, int]]) -> int:
        return 0

    def failed(self, origin: str, failure: Failure) -> None:
        return None

    def recovered(self, origin: str, attempt: int, at: float, *, unasked: bool = False) -> bool:
        return True

    def stored_stamp(self, message_id: str) -> Stamp | None:
        return None


class BenchContext:
    """The part of Lambda's context that the library reads."""

    client_context = None

    def get_remaining_time_in_millis(self) -> int:
        return 30_000


def effect(record: Any) -> None:
    """The least that a handler does: parse its message."""
    body = record["body"] if isinstance(record, dict) else record.body
    json.loads(body)


def ours() -> Handler:
    return consumer(effect)


def with_processor(processor: BatchProcessor, record_handler: Callable[..., Any]) -> Handler:
    def handler(event: Any, context: Any) -> Any:
        return process_partial_response(event, record_handler, processor, context)

    return handler


def powertools_idempotency(client: Any) -> Handler:
    """Idempotency of a batch as Powertools' documentation describes it."""
    client.create_table(
        TableName="idempotency",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    client.calls.clear()
    config = IdempotencyConfig(event_key_jmespath="messageId", use_local_cache=False)
    store = DynamoDBPersistenceLayer("idempotency", boto3_client=client)

    once = idempotent_function(
        data_keyword_argument="record", config=config, persistence_store=store
    )
    record_handler: Callable[..., None] = once(effect)

    inner = with_processor(BatchProcessor(EventType.SQS), record_handler)

    def handler(event: Any, context: Any) -> Any:
        config.register_lambda_context(context)
        return inner(event, context)

    return handler


def records(numbers: Random) -> list[dict[str, Any]]:
    return [
        to_event(
            Letter(
                str(uuid.UUID(int=numbers.getrandbits(128), version=4)),
                json.dumps(
                    {
                        "tenantId": "acme",
                        "orderId": numbers.getrandbits(40),
                        "lines": [{"sku": f"sku-{n}", "count": n} for n in range(10)],
                    }
                ),
                {},
                {
                    "SentTimestamp": "1789999000000",
                    "SenderId": "AIDAPRODUCER",
                    "ApproximateReceiveCount": "1",
                },
            ),
            receipt_handle="handle",
            source_arn=ARN,
        )
        for _ in range(BATCH)
    ]


def round_trips() -> dict[str, Counter[str]]:
    """The calls of one successful batch, by the way of processing it."""
    calls: dict[str, Counter[str]] = {}
    for name, make in (
        ("Powertools' idempotency", powertools_idempotency),
        ("deadletter.consumer", lambda _: ours()),
        (
            "DeadletterProcessor",
            lambda _: with_processor(DeadletterProcessor(), effect),
        ),
    ):
        box = Letterbox(PIPELINE)
        client: Any = Counting(box.dynamodb)
        box.dynamodb = client
        runtime.current_runtime = lambda box=box: box.runtime  # type: ignore[assignment]
        handler = make(client)
        for record in records(Random(1)):  # noqa: S311 - repeatable, not secret
            box.send(record["body"])
        ran = box.run(handler, batch_size=BATCH)
        assert len(ran.acknowledged) == BATCH, ran
        calls[name] = client.calls
    return calls


def cpu() -> dict[str, float]:
    """Milliseconds of CPU a message, by the way of processing it."""
    numbers = Random(1)  # noqa: S311 - repeatable, not secret
    port: Any = Nothing()
    consuming = Consumer(
        pipeline=PIPELINE,
        handle=lambda _: None,
        log=port,
        claims=port,
        circuits=port,
        outcomes=port,
        queue=port,
        parking={},
        trusted_senders=frozenset({"AROAUS"}),
        clock=lambda: NOW,
        random=numbers,
        new_id=lambda: uuid.uuid4().hex,
        pause=port,
    )
    current = Runtime(consuming, lambda: NOW, lambda _: None, app="bench")
    runtime.current_runtime = lambda: current  # type: ignore[assignment]
    ways: dict[str, Handler] = {
        "the handler alone": lambda event, _: list(map(effect, event["Records"])),
        "deadletter.consumer": ours(),
        "Powertools' BatchProcessor": with_processor(BatchProcessor(EventType.SQS), effect),
        "DeadletterProcessor": with_processor(DeadletterProcessor(), effect),
    }
    spent: dict[str, list[float]] = {name: [] for name in ways}
    context = BenchContext()
    for _ in range(TURNS):
        event = {"Records": records(numbers)}
        for name, handler in ways.items():
            gc.collect(0)
            start = process_time()
            handler(event, context)
            spent[name].append((process_time() - start) * 1e3 / BATCH)
    return {name: median(times) for name, times in spent.items()}


def main() -> int:
    """Print both tables; 1 if a figure is over its limit."""
    trips = round_trips()
    print(f"{f'a batch of {BATCH} that succeeds':<30} {'DynamoDB calls':>14}")
    for name, calls in trips.items():
        print(f"{name:<30} {calls.total():>14}  {dict(calls)}")
    times = cpu()
    bare = times["the handler alone"]
    print(f"\n{'CPU a message':<30} {'median ms':>14} {'added':>8}")
    for name, spent in times.items():
        print(f"{name:<30} {spent:>14.3f} {spent - bare:>8.3f}")
    allowed = trips["Powertools' idempotency"].total() + MORE_ROUND_TRIPS
    failed = 0
    for name in ("deadletter.consumer", "DeadletterProcessor"):
        if trips[name].total() > allowed:
            print(f"{name}: over the limit of {allowed} calls", file=sys.stderr)
            failed = 1
        if times[name] - bare > LIMIT_MS:
            print(f"{name}: over the limit of {LIMIT_MS:.0f} ms a message", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
