"""Puts together what takes letters into the custody of a replay run."""

from __future__ import annotations

from functools import partial

from deadletter.aws.replay_counted import read_counted
from deadletter.aws.wiring.redrive import redriver_setup_for
from deadletter.aws.wiring.stores import Stores
from deadletter.contract import MAIN_DLQ
from deadletter.redrive.report import Tally
from deadletter.replay.counted import CountedOrigins
from deadletter.replay.freeze import Freeze
from deadletter.replay.plan import ReplayPlan, belongs_to
from deadletter.replay.snapshot import Snapshot


def snapshot_for(stores: Stores, plan: ReplayPlan, lane: str | None = None) -> Snapshot:
    """One pass of the snapshot of a plan's run, over its source or over the `lane` beside it.

    Raises BadSettings if the pipeline has no such source, and RunsUnavailable if the list of
    counted letters cannot be read.
    """
    counted = counted_for(stores, plan)
    parking = stores.resources.parking
    home = MAIN_DLQ if lane or plan.lane is not None else plan.source
    tally = Tally(stores.count_metric)
    return Snapshot(
        redriver_setup_for(stores.telling(tally), home, tally),
        plan,
        objects=stores.objects(plan.run_id),
        counted=counted,
        token=stores.world.new_id(),
        lane=lane,
        of_source=partial(belongs_to, plan.source, parking=parking) if lane else lambda home: True,
    )


def counted_for(stores: Stores, plan: ReplayPlan) -> CountedOrigins | None:
    """The letters that the person of a plan has seen counted; None if none were."""
    return None if plan.counted is None else read_counted(*stores.letters_table, plan)


def freeze_for(stores: Stores, plan: ReplayPlan) -> Freeze:
    """The freeze of the snapshot of a plan's run."""
    keeps = plan.keeps_originals and stores.resources.replay_days > 0
    return Freeze(
        plan.run_id,
        objects=stores.objects(plan.run_id),
        originals=stores.originals(plan.run_id) if keeps else None,
        custody=stores.room,
        token=stores.world.new_id(),
        clock=stores.world.clock,
    )
