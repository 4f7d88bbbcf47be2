"""Puts the function `replay` together: the steps of replay runs, and what takes their letters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from deadletter.aws.clients import Clients, brief_events, consumer_call, stepfunctions
from deadletter.aws.clients import clients as clients
from deadletter.aws.clients import renew_connections as renew_connections
from deadletter.aws.consumer_function import LambdaDelivery
from deadletter.aws.errors import NoteRow, ignore
from deadletter.aws.events import EventBus
from deadletter.aws.replay_evidence import Surroundings
from deadletter.aws.replay_runs import DynamoDBReplayPlans, read_counted
from deadletter.aws.wiring.moving import ANSWER_MARGIN, redriver_setup_for
from deadletter.aws.wiring.stores import CountMetric, Stores
from deadletter.aws.wiring.world import World, in_threads
from deadletter.contract import MAIN_DLQ, Mode, originals_object
from deadletter.redrive.concurrency import InParallel
from deadletter.redrive.redriver import LEASE_HELD
from deadletter.redrive.report import Tally
from deadletter.replay.bringing_back import Repeating, Restoring
from deadletter.replay.carriers import Delivering, DirectCarrier, Discarding
from deadletter.replay.forgetting import ForgetSetup, forget
from deadletter.replay.freeze import Freeze
from deadletter.replay.judge import RunEvidence
from deadletter.replay.leaving import LeavingSetup, RunLeaving
from deadletter.replay.machine import (
    Frozen,
    ReplayExecutions,
    ReplaySetup,
    ReplaySteps,
    Taken,
)
from deadletter.replay.manifest import Manifest, ManifestIndex
from deadletter.replay.names import CountedOrigins
from deadletter.replay.plan import DELIVER, DISCARD, ReplayPlan, belongs_to
from deadletter.replay.reconcile import ReconcileSetup, reconcile
from deadletter.replay.run import ReplayRun, RunState, RunSum, RunsUnavailable
from deadletter.replay.snapshot import Snapshot
from deadletter.replay.standing import ReplayWorkerSetup
from deadletter.replay.worker import ReplayWorker
from deadletter.routing.router import Router
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources
from deadletter.signals.figures import Count

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

    from deadletter.outage.health import Health

PASS_SECONDS = 300.0
"""Seconds of one pass of a snapshot: while it lasts, the schedule moves nothing."""

IDLE_SECONDS = 5.0
"""Seconds that a worker without anything to do waits before its step ends: the machine would
start the next one at once."""


def replay_steps_for(
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients,
    world: World,
    count_metric: CountMetric,
    *,
    executions: ReplayExecutions | None = None,
    router: Router | None = None,
    in_parallel: InParallel = in_threads,
    consumer: LambdaClient | None = None,
    bus: EventBus | None = None,
    health: Health | None = None,
    note_bad_row: NoteRow = ignore,
) -> ReplaySteps:
    """The steps of a pipeline's replay runs.

    `note_bad_row` is told of a row that one of them has passed over.
    """
    if bus is None and resources.app:
        bus = EventBus(brief_events(), resources.app, world.clock)

    def note(row: str) -> None:
        count_metric(Count.BAD_ROW, 1)
        note_bad_row(row)

    stores = Stores(
        pipeline,
        resources,
        clients,
        world,
        note_bad_row=note,
        count_metric=count_metric,
        in_parallel=in_parallel,
        asks=router,
    )
    parts = _Parts(stores, _trouble_for(stores, health), consumer)
    return ReplaySteps(
        ReplaySetup(
            moves=pipeline.mode is not Mode.OBSERVE,
            runs=stores.runs,
            plans=parts.plans,
            executions=executions or stores.replays(stepfunctions),
            evidence=parts.evidence,
            snapshot=parts.snapshot,
            freeze=parts.freeze,
            work=parts.work,
            leave=parts.leave,
            reconcile=parts.reconcile,
            forget=parts.forget,
            clock=world.clock,
            approve_above=pipeline.replay.approve_above,
            announcer=stores.run_announcer(bus),
        )
    )


def _trouble_for(stores: Stores, health: Health | None) -> Callable[[], str]:
    """Says why the dependency is down by its health URL; empty if it is not, or has none."""
    health = health or stores.health
    if health is None:
        return lambda: ""
    # A function of a pipeline without a health URL starts without all this.
    from deadletter.outage.health import believed

    return believed(health, stores.world.clock)


@dataclass(frozen=True, slots=True)
class _Parts:
    """What the steps do, each put together for its run when it is taken."""

    stores: Stores
    trouble: Callable[[], str]
    consumer: LambdaClient | None

    @property
    def pipeline(self) -> Pipeline:
        return self.stores.pipeline

    @property
    def world(self) -> World:
        return self.stores.world

    @property
    def plans(self) -> DynamoDBReplayPlans:
        return DynamoDBReplayPlans(*self.stores.messages_table, self.world.clock)

    def _index(self, manifest: Manifest) -> ManifestIndex:
        index = manifest.index()
        if index is None:
            raise RunsUnavailable("the run has no manifest")
        return index

    def evidence(self, run: ReplayRun, plan: ReplayPlan) -> RunEvidence:
        """What is known when the run is judged."""
        manifest, stores = Manifest(self.stores.objects(run.id)), self.stores.telling(Tally())
        surroundings = Surroundings(
            pipeline=self.pipeline,
            circuits=stores.circuits,
            main=stores.queue(stores.resources.main_url),
            causes=stores.causes,
            collisions=stores.collisions,
            watch=stores.watch,
            trouble=self.trouble,
            clock=self.world.clock,
        )
        if run.state is RunState.PLANNED:
            return surroundings.of_dependency(plan)
        return surroundings.evidence(
            run,
            plan,
            index=self._index(manifest),
            manifest=manifest,
            statuses=stores.statuses(run.id),
        )

    def snapshot(self, run: ReplayRun, plan: ReplayPlan, deadline: float) -> Taken:
        """One pass over the plan's source, and once that is empty over the lane beside it."""
        if plan.restores:
            return self._restore(run, plan, deadline)
        if plan.repeated_run is not None:
            return self._repeat(run, plan, plan.repeated_run, deadline)
        taken = self._pass(plan, deadline)
        if taken.done and plan.lane_beside is not None:
            return self._pass(plan, deadline, plan.lane_beside)
        return taken

    def _restore(self, run: ReplayRun, plan: ReplayPlan, deadline: float) -> Taken:
        """Put discarded letters back into the parking lot."""
        stores = self.stores.telling(Tally())
        restoring = Restoring(
            run=run,
            plan=plan,
            counted=counted_for(stores, plan),
            folders=stores.folders,
            objects=stores.objects,
            tickets=stores.tickets,
            letters=stores.placed_letters,
            runs=stores.runs,
            router=stores.router,
            fifo=self.pipeline.fifo,
            in_parallel=stores.in_parallel,
            clock=self.world.clock,
            note_bad_row=self.stores.note_bad_row,
        )
        return Taken(restoring.restore(deadline - IDLE_SECONDS))

    def _repeat(self, run: ReplayRun, plan: ReplayPlan, of: str, deadline: float) -> Taken:
        """Make letters of the originals of another run, as soon as no earlier run does so."""
        # Two could have copies of one letter under way, and the ledger could not tell whose outcome
        # is whose.
        if self._comes_behind(run, lambda other: other.repeated_run is not None):
            return Taken(done=False, busy=True)
        stores = self.stores.telling(Tally())
        repeating = Repeating(
            run=run,
            plan=plan,
            counted=counted_for(stores, plan),
            originals=stores.originals(of),
            objects=stores.objects(run.id),
            letters=stores.placed_letters(run.id),
            ledger=stores.ledger,
            runs=stores.runs,
            clock=self.world.clock,
            note_damage=self._damaged(of),
            max_bytes=stores.queue(stores.resources.main_url).traits.max_bytes,
            note_no_room=partial(self.stores.count_metric, Count.UNSENDABLE),
        )
        return Taken(repeating.repeat(deadline - IDLE_SECONDS))

    def _damaged(self, run: str) -> Callable[[str], None]:
        """Is told of each object with originals of the run that cannot be read."""
        name = self.pipeline.name
        return lambda damaged: self.stores.note_bad_row(originals_object(name, run, damaged))

    def _comes_behind(self, run: ReplayRun, kind: Callable[[ReplayPlan], bool]) -> bool:
        """Whether an earlier live run has a plan of this kind: they go one after the other."""
        earlier = (
            other
            for other in self.stores.runs.all()
            if other.is_live and (other.created, other.id) < (run.created, run.id)
        )
        plans = (self.plans.plan(other.id) for other in earlier)
        return any(plan is not None and kind(plan) for plan in plans)

    def _close(self, run: ReplayRun, plan: ReplayPlan) -> None:
        """No letter is made for the run from now on."""
        if plan.repeated_run is not None:
            self.stores.telling(Tally()).placed_letters(run.id).close()

    def _pass(self, plan: ReplayPlan, deadline: float, lane: str | None = None) -> Taken:
        report = snapshot_for(self.stores, plan, lane).run(deadline, seconds=PASS_SECONDS)
        waits = report.again_at > self.world.clock() or report.stopped == LEASE_HELD
        return Taken(report.done, busy=waits and not report.done)

    def freeze(self, run: ReplayRun, plan: ReplayPlan, deadline: float) -> Frozen | None:
        """The manifest of what is in custody."""
        self._close(run, plan)
        report = freeze_for(replace(self.stores), plan).run(deadline - IDLE_SECONDS)
        if report.index is None:
            if self.world.clock() < deadline - IDLE_SECONDS:
                raise RunsUnavailable(report.stopped)
            return None
        if plan.restores:
            # What it put back is parked already: its custody is empty.
            restored = sum(1 for _ in self.stores.tickets(run.id).all())
            return Frozen(restored, report.index.hash)
        return Frozen(report.index.messages, report.index.hash)

    def work(
        self, run: ReplayRun, plan: ReplayPlan, worker: int, of: int, deadline: float
    ) -> Mapping[str, Any]:
        """One worker's step: the shards whose numbers are its own."""
        began = self.world.clock()
        manifest = Manifest(self.stores.objects(run.id))
        shards = {
            shard: letters
            for shard, letters in enumerate(self._index(manifest).shards)
            if letters and shard % of == worker
        }
        report = self._worker(run, plan, manifest, shards).run(deadline)
        if not report.sent and not report.done:
            self.world.wait(max(0.0, min(began + IDLE_SECONDS, deadline) - self.world.clock()))
        return report.to_json()

    def _worker(
        self, run: ReplayRun, plan: ReplayPlan, manifest: Manifest, shards: Mapping[int, int]
    ) -> ReplayWorker:
        tally = Tally(self.stores.count_metric)
        stores = self.stores.telling(tally)
        return ReplayWorker(
            ReplayWorkerSetup(
                pipeline=self.pipeline,
                plan=plan,
                run=run,
                shards=shards,
                manifest=manifest,
                runs=stores.runs,
                bids=stores.runs,
                tickets=stores.tickets(run.id),
                statuses=stores.statuses(run.id),
                ledger=stores.ledger,
                room=stores.room,
                mover=stores.mover(tally, stores.room, stores.targets),
                router=stores.router,
                journal=stores.journal,
                circuits=stores.circuits,
                main=stores.queue(stores.resources.main_url),
                tally=tally,
                owner=self.world.new_id(),
                clock=self.world.clock,
                wait=self.world.wait,
                new_token=self.world.new_id,
                in_parallel=stores.in_parallel,
                carrier=self._carrier(run, plan, tally),
                trouble=self.trouble,
            )
        )

    def _carrier(self, run: ReplayRun, plan: ReplayPlan, tally: Tally) -> DirectCarrier | None:
        """What takes the letters where the destination is no queue."""
        stores, clock = self.stores.telling(tally), self.world.clock
        if plan.destination == DISCARD:
            return Discarding(
                objects=self.stores.objects(run.id),
                plan=plan,
                records=stores.ledger,
                clock=clock,
                tally=tally,
                ordered=stores.pipeline.ordering_key is not None,
            )
        if plan.destination != DELIVER:
            return None
        resources = stores.resources
        if not resources.consumer_function or not resources.trusted_senders:
            raise RunsUnavailable("the pipeline has no consumer function to deliver to")
        seconds = resources.consumer_timeout + ANSWER_MARGIN
        call = self.consumer
        if call is None:
            # Of this step alone, as all calls with one try.
            call = consumer_call(seconds)
            call.close()
        delivery = LambdaDelivery(
            call,
            resources.consumer_function,
            source_arn=resources.main_arn,
            # The consumer believes the stamps of our roles.
            sender=resources.trusted_senders[0],
            timeout=seconds,
        )
        room = stores.room
        return Delivering(consumer=delivery, room=room, run=run.id, clock=clock, tally=tally)

    def leave(self, run: ReplayRun, plan: ReplayPlan, deadline: float) -> bool:
        """Whether nothing is left in the run's lane."""
        self._close(run, plan)
        tally = Tally(self.stores.count_metric)
        stores = self.stores.telling(tally)
        manifest = Manifest(self.stores.objects(run.id))
        leaving = RunLeaving(
            LeavingSetup(
                pipeline=self.pipeline,
                plan=plan,
                run=run,
                index=manifest.index(),
                manifest=manifest,
                statuses=stores.statuses(run.id),
                tickets=stores.tickets(run.id),
                ledger=stores.ledger,
                room=stores.room,
                objects=self.stores.objects(run.id),
                journal=stores.journal,
                owner=self.world.new_id(),
                router=stores.router,
                mover=stores.mover(tally, stores.room, stores.targets),
                tally=tally,
                clock=self.world.clock,
                random=self.world.random,
            )
        )
        return leaving.run(deadline - IDLE_SECONDS)

    def reconcile(self, run: ReplayRun, plan: ReplayPlan, deadline: float) -> RunSum:
        """The sum of the outcomes, in the run's report."""
        stores = self.stores.telling(Tally())
        objects, tickets = stores.objects(run.id), stores.tickets(run.id)
        manifest = Manifest(objects)
        return reconcile(
            ReconcileSetup(
                plan=plan,
                run=run,
                index=self._index(manifest),
                manifest=manifest,
                statuses=stores.statuses(run.id),
                tickets=tickets,
                all_tickets=tickets.all,
                ledger=stores.ledger,
                room=stores.room,
                objects=objects,
                clock=self.world.clock,
            ),
            deadline - IDLE_SECONDS,
        )

    def forget(self, run: ReplayRun, plan: ReplayPlan, deadline: float) -> bool:
        """Whether nothing is left of the letters that the run has thrown away."""
        # Each writes objects anew: the later write would bring back what the earlier took out.
        if self._comes_behind(run, lambda other: other.forgets):
            return False
        stores = self.stores
        manifest = Manifest(stores.objects(run.id))
        setup = ForgetSetup(
            pipeline=self.pipeline,
            names=lambda: manifest.names(self._index(manifest)),
            folders=stores.folders,
            objects=stores.objects,
            tickets=lambda of: stores.tickets(of).all(),
            with_originals=partial(stores.folders, originals_object),
            originals=stores.originals,
            own=stores.objects(run.id),
            erase=stores.ledger.erase,
            clock=self.world.clock,
            note_damage=stores.note_bad_row,
        )
        return forget(setup, plan, deadline - IDLE_SECONDS)


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
    return None if plan.counted is None else read_counted(*stores.messages_table, plan)


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
