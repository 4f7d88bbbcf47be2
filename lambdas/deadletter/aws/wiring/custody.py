"""Puts together what takes letters into the custody of a replay run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from deadletter.aws.clients import Clients
from deadletter.aws.errors import NoteRow, ignore
from deadletter.aws.replay_counted import read_counted
from deadletter.aws.replay_objects import S3RunObjects
from deadletter.aws.wiring.parts.redriver_setup import redriver_setup_for
from deadletter.aws.wiring.parts.waiting_room import waiting_room_for
from deadletter.aws.wiring.world import World, in_threads
from deadletter.contract import MAIN_DLQ, originals_object
from deadletter.redrive.in_parallel import InParallel
from deadletter.redrive.report import Tally, nothing
from deadletter.replay.freeze import Freeze
from deadletter.replay.plan import ReplayPlan, belongs_to
from deadletter.replay.snapshot import Snapshot
from deadletter.routing.router import Router
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources


def run_objects_for(
    pipeline: Pipeline, resources: Resources, clients: Clients, run: str
) -> S3RunObjects:
    """The objects of one run: pages, manifest and report."""
    return S3RunObjects(clients.s3, resources.letters_bucket, pipeline.name, run)


def snapshot_for(
    plan: ReplayPlan,
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients,
    world: World,
    *,
    router: Router | None = None,
    in_parallel: InParallel = in_threads,
    count_metric: Callable[[str, int], None] = nothing,
    lane: str | None = None,
) -> Snapshot:
    """One pass of the snapshot of a plan's run, over its source or over the `lane` beside it.

    Raises BadSettings if the pipeline has no such source, and RunsUnavailable if the list of
    counted letters cannot be read.
    """
    counted = None
    if plan.counted is not None:
        counted = read_counted(clients.dynamodb, resources.letters_table, pipeline.name, plan)
    return Snapshot(
        redriver_setup_for(
            pipeline,
            resources,
            clients,
            world,
            home=MAIN_DLQ if lane or plan.lane is not None else plan.source,
            router=router,
            in_parallel=in_parallel,
            tally=Tally(count_metric),
        ),
        plan,
        objects=run_objects_for(pipeline, resources, clients, plan.run_id),
        counted=counted,
        token=world.new_id(),
        lane=lane,
        of_source=partial(belongs_to, plan.source, parking=resources.parking)
        if lane
        else lambda home: True,
    )


def originals_for(
    pipeline: Pipeline, resources: Resources, clients: Clients, run: str
) -> S3RunObjects:
    """The objects with the letters of one run, as it took them."""
    bucket = resources.letters_bucket
    return S3RunObjects(clients.s3, bucket, pipeline.name, run, originals_object)


def freeze_for(
    plan: ReplayPlan,
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients,
    world: World,
    *,
    note_bad_row: NoteRow = ignore,
) -> Freeze:
    """The freeze of the snapshot of a plan's run."""
    parts = (pipeline, resources, clients)
    keeps = plan.keeps_originals and resources.replay_days > 0
    return Freeze(
        plan.run_id,
        objects=run_objects_for(*parts, plan.run_id),
        originals=originals_for(*parts, plan.run_id) if keeps else None,
        custody=waiting_room_for(*parts, world, note_bad_row=note_bad_row),
        token=world.new_id(),
        clock=world.clock,
    )
