"""What a month, a million letters and an outage cost, from what was counted: docs/cost.md.

What a pipeline uses with nothing to do is `infra.idle`'s. The other counts are those of tests that
count them on the clients in memory, and of `make bench`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deadletter.circuit.state import CircuitPolicy
from deadletter.contract import HOUR, MAIN_DLQ, MINUTE
from deadletter.signals.pages import PIPELINE_ALARMS
from infra.idle import (
    IDLE_METRICS,
    LARGE,
    MONTH,
    RUN_SECONDS,
    SMALL,
    key_requests,
    polls,
    redriver_run,
    watch_look,
)
from infra.prices import MILLION, NOTHING, Price, Usage, function_run

DOCS = Path(__file__).parents[2] / "docs"

APP_ALARMS = 2


@dataclass(frozen=True, slots=True)
class PipelineShape:
    """What decides the price of a pipeline with nothing to do.

    `every` are the seconds between two runs of each DLQ with a schedule, by its id; `queues` are
    main queue, DLQs and parking queues together; `memory` are the redriver's MB. `webhook`: the
    consumer is ours; `key`: the app has a customer's key.
    """

    fifo: bool = False
    queues: int = 3
    every: Mapping[str, int] = field(default_factory=lambda: {MAIN_DLQ: MINUTE})
    memory: int = LARGE
    webhook: bool = False
    key: bool = False


PLAIN = PipelineShape()


def idle_month(shape: PipelineShape = PLAIN) -> Mapping[str, Usage]:
    """What a pipeline with nothing to do uses in a month of 30 days, by what uses it."""
    run = redriver_run(memory=shape.memory, fifo=shape.fifo)
    look = watch_look(queues=shape.queues, fifo=shape.fifo)
    return {
        "redrive": sum((run * (MONTH / every) for every in shape.every.values()), NOTHING),
        "watch": look * (MONTH / MINUTE),
        "heartbeat metric": Usage({Price.METRIC: IDLE_METRICS}),
        "alarms": Usage({Price.ALARM: len(PIPELINE_ALARMS)}),
        **({"pollers": polls(fifo=shape.fifo)} if shape.webhook else {}),
        **({"key": _asked(shape)} if shape.key else {}),
    }


def _asked(shape: PipelineShape) -> Usage:
    """What watch, router and redrivers ask of KMS."""
    return sum((key_requests(1, every) for every in shape.every.values()), key_requests(2))


def together(parts: Mapping[str, Usage]) -> Usage:
    """The sum of the parts."""
    return sum(parts.values(), NOTHING)


def app_month(*, key: bool = True, dashboard: bool = True) -> Mapping[str, Usage]:
    """What an app uses in a month beside its pipelines; `key` if the pager's key is its own."""
    return {
        "alarms": Usage({Price.ALARM: APP_ALARMS}),
        **({"KMS key": Usage({Price.KEY: 1})} if key else {}),
        **({"dashboard": Usage({Price.DASHBOARD: 1})} if dashboard else {}),
    }


def moved(how: str) -> Usage:
    """What a letter uses that is brought back, as `make bench` counted it: docs/performance.md."""
    page = (DOCS / "performance.md").read_text()
    table = page.partition("<!-- bench: used -->")[2].partition("<!-- end -->")[0]
    [row] = re.findall(rf"^\| {re.escape(how)} \|(.*)\|$", table, re.MULTILINE)
    requests, reads, writes, invocations, gb_seconds = map(float, row.split("|"))
    request = Price.SQS_FIFO_REQUEST if how.startswith("FIFO") else Price.SQS_REQUEST
    return Usage(
        {
            request: requests,
            Price.READ_UNIT: reads,
            Price.WRITE_UNIT: writes,
            Price.INVOCATION: invocations,
            Price.GB_SECOND: gb_seconds,
        }
    )


LEDGER_READS = 0.5
"""Read units of a letter's ledger row, of those above; without the library there is none."""

RECEIVES = 5
"""Receives of a message before it dies, by default."""
CLAIMED_WRITES = 2.0
"""Write units for a message that succeeds at once: it is claimed, and done."""
LIBRARY = {
    "in batches of ten": (2.05, 0.05),
    "in batches of ten, in order": (3.14, 2.27),
    "one a second": (2.25, 0.51),
    "one in ten seconds": (2.37, 0.59),
}
"""Write and read units of a message of which one in a hundred fails once, by how they come to one
process: beside its claim what the process tells of its circuit, its causes and its collisions."""
CLAIM_WRITES = 2.0
"""Write units of the claims of one failure: it is claimed, and given back."""
LIFE_WRITES, LIFE_READS = 3.0, 2.0
"""Units of the ledger for a life of five receives that fail alike: the first failure with its entry
of the index, in half of the lives one more with its entry; and a look at the row at each receive
from the second on."""
RECOVERY_WRITES = 2.0
"""Write units of a letter that was processed: its row says so and leaves the index."""
FIFO = (0.79, 3.19, 0.37)
"""SQS requests, read and write units of a letter of a FIFO queue whose backoff ends within minutes:
it waits for that where it is."""
KEPT_BYTES, KEPT_TOGETHER = 3_000, 500
"""Bytes of a letter of 2 KB as a replay run keeps it, before they are compressed, and letters of
one object: `python -m lab.bench.replay`."""
REPLAYED_WRITES, REPLAYED_REQUESTS = 7.5, 0.45
"""Write units and SQS requests of a letter in a replay run, at most: docs/replay.md."""


def million_letters() -> Mapping[str, Usage]:
    """What a million letters use, by what happens to them."""
    dead = Usage(
        {Price.WRITE_UNIT: LIFE_WRITES + RECEIVES * CLAIM_WRITES, Price.READ_UNIT: LIFE_READS}
    )
    back = RECOVERY_WRITES + CLAIMED_WRITES
    requests, reads, writes = FIFO
    fifo = Usage(
        {Price.SQS_FIFO_REQUEST: requests, Price.READ_UNIT: reads, Price.WRITE_UNIT: writes}
    )
    without_ledger = Usage({Price.READ_UNIT: -LEDGER_READS})
    each = {
        "brought back, consumer without the library": moved("full pace") + without_ledger,
        "brought back, consumer with the library": moved("full pace"),
        "… at 50 a second": moved("default pace"),
        "… at 23 a minute": moved("23 a minute"),
        "… from a FIFO queue": fifo,
        "… from a FIFO queue, after hours of backoff": moved("FIFO"),
        "… of 200 KB": moved("200 KB"),
        **{
            f"the library: successes, {how}": Usage(
                {Price.WRITE_UNIT: writes, Price.READ_UNIT: reads}
            )
            for how, (writes, reads) in LIBRARY.items()
        },
        "the library: messages that die after five receives": dead,
        "the library: messages that succeed once brought back": Usage({Price.WRITE_UNIT: back}),
        "sent by a run": Usage(
            {Price.WRITE_UNIT: REPLAYED_WRITES, Price.SQS_REQUEST: REPLAYED_REQUESTS}
        ),
        "… kept for 30 days as the run took them, 2 KB": Usage(
            {Price.PUT_REQUEST: 1 / KEPT_TOGETHER, Price.STORED_GB: KEPT_BYTES / 1e9}
        ),
    }
    return {what: usage * MILLION for what, usage in each.items()}


OUTAGE_TRANSITIONS, PROBE_TRANSITIONS = 18, 3
"""State transitions of an outage beside its probes, and of a probe: the wait, the probe, and
what is made of it."""
PROBE_READS, PROBE_WRITES = 12.0, 4.0
"""Read and write units of a probe whose canary fails."""
WATCH_METRICS, RUN_METRICS = 7, 6
"""Metrics beside the heartbeat in an hour with letters and an open circuit: those of the watch, and
of the redriver's runs."""


def outage(hours: float) -> Mapping[str, Usage]:
    """What an outage of a dependency uses beside the idle pipeline."""
    probes = hours * HOUR / CircuitPolicy().cooldown_cap
    steps = OUTAGE_TRANSITIONS + PROBE_TRANSITIONS * probes
    metrics = WATCH_METRICS + RUN_METRICS
    return {
        "state transitions": Usage({Price.TRANSITION: steps}),
        "probes": (
            function_run(seconds=RUN_SECONDS, memory=SMALL)
            + Usage({Price.READ_UNIT: PROBE_READS, Price.WRITE_UNIT: PROBE_WRITES})
        )
        * probes,
        "metrics": Usage({Price.METRIC: metrics * hours * HOUR / MONTH}),
    }
