"""What the consumer library costs a batch that succeeds: `python -m lab.bench.consumer`.

By the way of processing it: the calls of DynamoDB that a batch of ten makes, and the milliseconds
of CPU that the way adds to a message, without what the fake in memory takes. All ways take turns;
the first batch of a process, which reads the circuits and writes its outcomes, shows the calls.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from statistics import median
from time import process_time
from typing import Any

from aws_lambda_powertools.utilities.batch import process_partial_response

from deadletter.consumer import consumer, runtime
from deadletter.consumer.powertools import DeadletterProcessor
from deadletter.settings.pipeline import Pipeline
from deadletter.testing.letterbox import Letterbox
from lab.bench.timing import Metered

BATCH = 10
TURNS = 300

# Of a process's first batch: two for each message, and it reads the circuits and writes its
# outcomes, its causes of failure and its collisions.
MOST_CALLS = 24

# Milliseconds of CPU that a message may add.
MOST_MS = 1.0

PIPELINE = Pipeline("orders", context={"tenantId": "body.tenantId"}, idempotency_key="body.orderId")

Handler = Callable[[Any, Any], Any]


def effect(record: Any) -> None:
    """The least that a handler does: parse its message."""
    json.loads(record["body"] if isinstance(record, dict) else record.body)


def by_powertools(event: Any, context: Any) -> Any:
    return process_partial_response(event, effect, DeadletterProcessor(), context)


def alone(event: Any, _: Any) -> None:
    for record in event["Records"]:
        effect(record)


class BatchWay:
    """One way to process a batch, with a queue and tables of its own."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._box = Letterbox(PIPELINE)
        client: Any = Metered(self._box.dynamodb)
        self._box.dynamodb = self._client = client
        self._orders = 0
        self.spent: list[float] = []
        self.turn()
        self.calls = dict(client.calls)

    def turn(self) -> None:
        """Process one batch."""
        lines = [{"sku": f"sku-{number}", "count": number} for number in range(10)]
        for _ in range(BATCH):
            self._orders += 1
            self._box.send({"tenantId": "acme", "orderId": self._orders, "lines": lines})
        runtime.current_runtime = lambda: self._box.runtime  # type: ignore[assignment]
        ran = self._box.run(self._timed, batch_size=BATCH)
        assert len(ran.acknowledged) == BATCH, ran

    def _timed(self, event: Any, context: Any) -> Any:
        gc.collect(0)
        start = process_time() - self._client.cpu
        try:
            return self._handler(event, context)
        finally:
            self.spent.append((process_time() - self._client.cpu - start) * 1e3 / BATCH)


def main() -> int:
    """Print the table; 1 if a figure is over its limit."""
    bare = BatchWay(alone)
    ways = {
        "deadletter.consumer": BatchWay(consumer(effect)),
        "DeadletterProcessor": BatchWay(by_powertools),
    }
    for _ in range(TURNS):
        for way in (bare, *ways.values()):
            way.turn()
    print(f"{'a message of a batch that succeeds':<35} {'CPU added, ms':>13}  calls of the batch")
    is_over = False
    for name, way in ways.items():
        added, calls = median(way.spent) - median(bare.spent), sum(way.calls.values())
        print(f"{name:<35} {added:>13.3f}  {calls}: {way.calls}")
        is_over |= calls > MOST_CALLS or added > MOST_MS
    print(f"at most {MOST_MS:g} ms, {MOST_CALLS} calls: {'not reached' if is_over else 'reached'}")
    return 1 if is_over else 0


if __name__ == "__main__":
    sys.exit(main())
