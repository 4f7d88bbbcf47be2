"""Puts the function `redrive` together: one run of the redriver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from zlib import crc32

from deadletter.aws.clients import Clients, renew_connections, start_client, stepfunctions
from deadletter.aws.clients import clients as clients_of_process
from deadletter.aws.lease import DynamoDBLease
from deadletter.aws.run_start import LambdaRunStarter
from deadletter.aws.wiring.stores import Stores
from deadletter.aws.wiring.world import World, in_threads
from deadletter.contract import DAY, MAIN_DLQ, MINUTE, Mode
from deadletter.redrive.in_parallel import InParallel
from deadletter.redrive.redriver import Redriver
from deadletter.redrive.redriver_setup import RedriverSetup
from deadletter.redrive.report import Report, Tally, nothing
from deadletter.redrive.shards import RunStarter
from deadletter.routing.router import Router
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources
from deadletter.signals.emf import lines_of_batch

if TYPE_CHECKING:
    from deadletter.aws.observed import DynamoDBObserved
    from deadletter.outage.executions import OutageExecutions

__all__ = ["clients", "redriver_for", "report_lines", "sweep_orphans"]

ORPHANS_MARGIN = 10.0
"""Seconds before the end of a run in which no orphan is looked for."""


def clients(by_boto3: str = "") -> Clients:
    """The clients of one run, whose calls with one try begin on new connections."""
    made = clients_of_process(by_boto3)
    renew_connections(made)
    return made


def redriver_for(
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients,
    world: World,
    *,
    home: str = MAIN_DLQ,
    router: Router | None = None,
    in_parallel: InParallel = in_threads,
    outages: OutageExecutions | None = None,
    starter: RunStarter | None = None,
    count_metric: Callable[[str, int], None] = nothing,
) -> Redriver:
    """One run of a pipeline's redriver on the queue `home`.

    `home` is the DLQ, the id of a dedicated DLQ, or "parking:<id>", which can only be
    rescued. `starter` starts runs beside this one.
    `count_metric` publishes a metric at once, which must not be lost with the run.
    Raises BadSettings if the pipeline has no such queue.
    """
    tally = Tally(count_metric)
    stores = Stores(pipeline, resources, clients, world, in_parallel=in_parallel, asks=router)
    stores = stores.telling(tally)
    setup = redriver_setup_for(stores, home, tally)
    if starter is None and resources.redrive_function:
        starter = LambdaRunStarter(start_client, resources.redrive_function)
    setup = replace(setup, starter=starter)
    if home != MAIN_DLQ or not (outages or resources.circuit_machine):
        return Redriver(setup)
    outcomes = stores.outcomes(outages or stores.outages(stepfunctions))
    return Redriver(replace(setup, outcomes=outcomes))


def redriver_setup_for(stores: Stores, home: str, tally: Tally) -> RedriverSetup:
    """Everything that a redriver of the queue `home` is given, but for outcomes.

    Raises BadSettings if the pipeline has no such queue.
    """
    pipeline, resources, world = stores.pipeline, stores.resources, stores.world
    sources = {MAIN_DLQ: resources.dlq_url, **resources.dedicated, **stores.parking}
    if home not in sources:
        known = ", ".join(sorted(sources))
        raise BadSettings(f"pipeline {pipeline.name} has no source {home!r}; it has {known}")
    return RedriverSetup(
        pipeline=pipeline,
        home=home,
        dlq=stores.queue(sources[home], home),
        main=stores.queue(resources.main_url),
        main_arn=resources.main_arn,
        mover=stores.mover(tally, stores.room, stores.targets),
        router=stores.router,
        journal=stores.journal,
        room=stores.room,
        circuits=stores.circuits,
        lease=DynamoDBLease(*stores.letters_table, home, pipeline.first_rate, stores.note_bad_row),
        tally=tally,
        owner=world.new_id(),
        clock=world.clock,
        wait=world.wait,
        in_parallel=stores.in_parallel,
        trusted_senders=frozenset(resources.trusted_senders),
        observed=_observed(stores),
    )


def _observed(stores: Stores) -> DynamoDBObserved | None:
    if stores.pipeline.mode is not Mode.OBSERVE:
        return None
    from deadletter.aws.observed import DynamoDBObserved

    return DynamoDBObserved(*stores.letters_table, stores.world.clock, stores.note_bad_row)


def sweep_orphans(
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients,
    world: World,
    event: Mapping[str, Any],
    deadline: float,
) -> int | None:
    """Delete bodies in the bucket that no letter has any more, once a day after a run of the DLQ.

    Returns how many; None if it is not the time. What can't be read or deleted today is there
    tomorrow. In a FIFO pipeline the key of an item is not in the name of its body: they stay.
    """
    of_schedule = event.get("source", MAIN_DLQ) == MAIN_DLQ and not event.get("dry_run")
    moves = pipeline.mode is not Mode.OBSERVE
    if not of_schedule or not moves or pipeline.fifo or not resources.letters_bucket:
        return None
    # One minute of the day, which follows from the name: not the same for all pipelines.
    if (world.clock() - crc32(pipeline.name.encode()) % DAY) % DAY >= MINUTE:
        return None
    from deadletter.aws.stored_bodies import S3StoredBodies
    from deadletter.redrive.orphans import OrphansUnavailable, delete_orphans

    bodies = S3StoredBodies(
        clients.dynamodb,
        resources.letters_table,
        clients.s3,
        resources.letters_bucket,
        pipeline.name,
    )
    try:
        return delete_orphans(bodies, world.clock, deadline - ORPHANS_MARGIN)
    except OrphansUnavailable:
        return 0


def report_lines(report: Report, app: str, now: float) -> Iterator[str]:
    """The lines of embedded metrics for a run: its numbers, and the values of each letter.

    Powertools formats all values of a line for its log with each value that it adds: a tenth of
    what a letter takes.
    """
    counts, samples = report.metrics(), report.samples()
    return lines_of_batch(counts, samples, {}, app=app, pipeline=report.pipeline, at=now)
