"""What the snapshot of a replay run costs: `python -m lab.bench.replay [letters]`.

The production snapshot and freeze with their production clients take the letters of a DLQ, of 2 KB
each, into a run's custody: with one thread and with four, without originals and with them. SQS and
DynamoDB are the stub (`lab.bench.stub`: 10 ms latency with jitter, in a process of its own); S3 and
the router are in memory. Each letter is in the manifest at the end, or the bench fails. What
originals cost is reckoned as if nothing could be compressed:

    puts a letter x price of a put  +  bytes a letter x price of a GB-month
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

from deadletter.aws.clients import clients
from deadletter.aws.wiring.judging import router_for
from deadletter.aws.wiring.replaying import freeze_for, snapshot_for
from deadletter.aws.wiring.stores import Stores
from deadletter.aws.wiring.world import World
from deadletter.replay.manifest import Manifest
from deadletter.replay.objects import lines_in
from deadletter.replay.plan import ReplayPlan
from deadletter.routing.wire import answer_event
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import resources_from_environment
from deadletter.testing.fakes import MemoryLambda, MemoryS3
from infra.prices import MILLION, Price, Usage
from lab.bench.drain import Job, environment_of
from lab.bench.letters import PIPELINE, LetterSeries
from lab.bench.stub import Conditions, Stub, stub

LETTERS = 3_000
BODY_BYTES = 2_048

# For which originals are kept: the setting's default.
DAYS = 30

# The deadline of one step of a run.
STEP_SECONDS = 840.0


def new_id() -> str:
    return uuid.uuid4().hex


def stores_on(at: Stub, *, workers: int, days: int) -> Stores:
    """What a run of the pipeline works with."""
    environment = environment_of(Job(way="ours", endpoint=at.endpoint))
    pipeline = replace(Pipeline(PIPELINE), rate=1e6, workers=workers)
    resources = replace(resources_from_environment(environment), replay_days=days)
    random = Random(1)  # noqa: S311 - repeatable, not secret
    world = World(clock=time.time, wait=time.sleep, new_id=new_id, random=random)
    bucket: Any = MemoryS3(time.time)
    bucket.create_bucket(Bucket=resources.messages_bucket)
    functions: Any = MemoryLambda(time.time, new_id)
    # The clients keep what they find here; others in this process must not find it.
    with patch.dict(os.environ, environment):
        clients.cache_clear()
        made = replace(clients(), s3=bucket, functions=functions)
        clients.cache_clear()
    router = router_for(pipeline, resources, made, world)
    functions.register(resources.router_function, lambda event, _: answer_event(router, event))
    return Stores(pipeline, resources, made, world)


def taken(letters: int, *, workers: int, days: int) -> str:
    """What it costs to take so many letters into a run's custody, as a line."""
    series = LetterSeries(number=letters, body_bytes=BODY_BYTES)
    with stub(Conditions(letters=series)) as at:
        stores = stores_on(at, workers=workers, days=days)
        plan = ReplayPlan(pipeline=PIPELINE)
        began = time.monotonic()
        while not snapshot_for(stores, plan).run(time.time() + STEP_SECONDS).done:
            pass
        moved = time.monotonic()
        report = freeze_for(replace(stores), plan).run(time.time() + STEP_SECONDS)
        frozen = time.monotonic()
        spent = at.spent()
        objects = stores.objects(plan.run_id)
        names = [] if report.index is None else Manifest(objects).names(report.index)
        if (found := len({name.copy for name in names})) != letters:
            raise SystemExit(f"{found} of {letters} letters are in the manifest")
        bucket = stores.originals(plan.run_id)
        kept = [b"".join(lines_in(bucket.get(each.name) or b"")) for each in bucket.listed("")]
        million = MILLION / letters
        stored = sum(map(len, kept)) * million / 1e9
        usage = Usage({Price.PUT_REQUEST: len(kept) * million, Price.STORED_GB: stored})
    return (
        f"{workers:>7} {days:>9} {moved - began:>7.1f} {frozen - moved:>8.1f}"
        f" {sum(spent.sqs.values()) / letters:>6.3f} {spent.write_units / letters:>6.3f}"
        f" {len(kept):>5} {sum(map(len, kept)) / letters:>7.0f} {usage.dollars:>10.4f}"
    )


def main() -> None:
    letters = int(sys.argv[1]) if sys.argv[1:] else LETTERS
    print("threads days kept  move s freeze s    SQS  units  puts   bytes  $/million")
    for workers, days in ((1, 0), (4, 0), (1, DAYS)):
        print(taken(letters, workers=workers, days=days), flush=True)


if __name__ == "__main__":
    main()
