"""Puts the function `replay` together: the steps of replay runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from deadletter.aws.causes import DynamoDBCauses
from deadletter.aws.circuits import DynamoDBCircuits
from deadletter.aws.clients import (
    Clients,
    brief_events,
    consumer_call,
    renew_connections,
    stepfunctions,
)
from deadletter.aws.clients import clients as replay_clients
from deadletter.aws.collisions import DynamoDBCollisions
from deadletter.aws.errors import NoteRow, ignore
from deadletter.aws.events import EventBus
from deadletter.aws.journal import DynamoDBJournal
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.aws.placed_letters import DynamoDBPlacedLetters
from deadletter.aws.replay_counted import read_counted
from deadletter.aws.replay_delivery import LambdaDelivery
from deadletter.aws.replay_evidence import Surroundings
from deadletter.aws.replay_executions import StepFunctionsReplays
from deadletter.aws.replay_objects import S3RunObjects, runs_with_objects
from deadletter.aws.replay_plans import DynamoDBReplayPlans
from deadletter.aws.replay_runs import DynamoDBReplayRuns
from deadletter.aws.replay_status import DynamoDBStatuses
from deadletter.aws.replay_tickets import DynamoDBTickets
from deadletter.aws.router import LambdaRouter
from deadletter.aws.waiting_room import DynamoDBWaitingRoom
from deadletter.aws.watch_store import DynamoDBWatchStore
from deadletter.aws.wiring.custody import (
    freeze_for,
    originals_for,
    run_objects_for,
    snapshot_for,
)
from deadletter.aws.wiring.parts.ledger import ledger_for
from deadletter.aws.wiring.parts.redriver_setup import mover_for, queue_for
from deadletter.aws.wiring.parts.run_announcer import run_announcer_for
from deadletter.aws.wiring.parts.waiting_room import waiting_room_for
from deadletter.aws.wiring.world import World, in_threads
from deadletter.contract import ROWS_KEPT, Mode, originals_object, run_object
from deadletter.redrive.in_parallel import InParallel
from deadletter.redrive.known_intents import KnownIntents
from deadletter.redrive.mover import Mover
from deadletter.redrive.redriver import LEASE_HELD
from deadletter.redrive.report import Tally
from deadletter.redrive.waiting_room import WaitingRoom
from deadletter.replay.carried import DirectCarrier
from deadletter.replay.delivering import Delivering
from deadletter.replay.discarding import Discarding
from deadletter.replay.forgetting import ForgetSetup, forget
from deadletter.replay.judge import RunEvidence
from deadletter.replay.leaving import LeavingSetup, RunLeaving
from deadletter.replay.machine import (
    Frozen,
    Reconciled,
    ReplayExecutions,
    ReplaySetup,
    ReplaySteps,
    ReplayUnavailable,
    Taken,
)
from deadletter.replay.manifest import Manifest, ManifestIndex
from deadletter.replay.plan import DELIVER, DISCARD, ReplayPlan
from deadletter.replay.reconcile import ReconcileSetup, reconcile
from deadletter.replay.repeating import Repeating
from deadletter.replay.restoring import Restoring
from deadletter.replay.run import ReplayRun, RunState
from deadletter.replay.shard_claim import ShardClaim
from deadletter.replay.worker import ReplayWorker
from deadletter.replay.worker_setup import ReplayWorkerSetup
from deadletter.routing.router import Router
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources
from deadletter.signals.figures import Count

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

    from deadletter.outage.prober import Health

__all__ = ["renew_connections", "replay_clients", "replay_steps_for"]

ANSWER_MARGIN = 5
"""Seconds to wait for the consumer's answer beyond its own timeout."""

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
    count_metric: Callable[[str, int], None],
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
    if executions is None:
        executions = StepFunctionsReplays(stepfunctions(), resources.replay_machine)
    parts = _Parts(
        pipeline=pipeline,
        resources=resources,
        clients=clients,
        world=world,
        count_metric=count_metric,
        router=router or LambdaRouter(clients.functions, resources.router_function),
        in_parallel=in_parallel,
        consumer=consumer,
        trouble=_trouble_for(resources, world, health),
        note_bad_row=note_bad_row,
    )
    return ReplaySteps(
        ReplaySetup(
            moves=pipeline.mode is not Mode.OBSERVE,
            runs=parts.runs,
            plans=parts.plans,
            executions=executions,
            evidence=parts.evidence,
            snapshot=parts.snapshot,
            freeze=parts.freeze,
            work=parts.work,
            leave=parts.leave,
            reconcile=parts.reconcile,
            forget=parts.forget,
            clock=world.clock,
            approve_above=pipeline.replay.approve_above,
            announcer=run_announcer_for(pipeline, parts.runs, bus, count_metric),
        )
    )


def _trouble_for(resources: Resources, world: World, health: Health | None) -> Callable[[], str]:
    """Says why the dependency is down by its health URL; empty if it is not, or has none."""
    if health is None and not resources.health_url:
        return lambda: ""
    # A function of a pipeline without a health URL starts without all this.
    from deadletter.aws.wiring.parts.health import health_for
    from deadletter.outage.health import believed

    return believed(health or health_for(resources, world), world.clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What the steps do, each put together for its run when it is taken."""

    pipeline: Pipeline
    resources: Resources
    clients: Clients
    world: World
    count_metric: Callable[[str, int], None]
    router: Router
    in_parallel: InParallel
    consumer: LambdaClient | None
    trouble: Callable[[], str]
    note_bad_row: NoteRow

    @property
    def runs(self) -> DynamoDBReplayRuns:
        return DynamoDBReplayRuns(*self._letters(), self.world.clock)

    @property
    def plans(self) -> DynamoDBReplayPlans:
        return DynamoDBReplayPlans(*self._letters(), self.world.clock)

    def _letters(self) -> tuple[Any, str, str]:
        """The client of the letters table, its name, and the pipeline."""
        return self.clients.dynamodb, self.resources.letters_table, self.pipeline.name

    def _objects(self, run: ReplayRun) -> S3RunObjects:
        return self._objects_of(run.id)

    def _objects_of(self, run: str) -> S3RunObjects:
        return run_objects_for(self.pipeline, self.resources, self.clients, run)

    def _statuses(self, run: ReplayRun) -> DynamoDBStatuses:
        client, table, pipeline = self._letters()
        return DynamoDBStatuses(
            client, table, pipeline=pipeline, run=run.id, clock=self.world.clock
        )

    def _tickets(self, run: ReplayRun) -> DynamoDBTickets:
        return self._tickets_of(run.id)

    def _tickets_of(self, run: str) -> DynamoDBTickets:
        client, table, pipeline = self._letters()
        return DynamoDBTickets(
            client,
            table,
            pipeline=pipeline,
            run=run,
            clock=self.world.clock,
            in_parallel=self.in_parallel,
        )

    def _circuits(self) -> DynamoDBCircuits:
        table = self.resources.circuits_table
        return DynamoDBCircuits(self.clients.dynamodb, table, self.pipeline.name)

    def _journal(self) -> DynamoDBJournal:
        _, table, pipeline = self._letters()
        return DynamoDBJournal(self.clients.journal, table, pipeline, ROWS_KEPT)

    def _ledger(self) -> DynamoDBLedger:
        return ledger_for(self.pipeline, self.resources, self.clients, self.world)

    def _room(self, tally: Tally) -> DynamoDBWaitingRoom:
        return waiting_room_for(
            self.pipeline,
            self.resources,
            self.clients,
            self.world,
            note_refusal=tally.note_trouble,
            note_bad_row=tally.note_bad_row,
            count_metric=tally.count,
        )

    def _index(self, manifest: Manifest) -> ManifestIndex:
        index = manifest.index()
        if index is None:
            raise ReplayUnavailable("the run has no manifest")
        return index

    def evidence(self, run: ReplayRun, plan: ReplayPlan) -> RunEvidence:
        """What is known when the run is judged."""
        manifest, circuits = Manifest(self._objects(run)), self.resources.circuits_table
        surroundings = Surroundings(
            pipeline=self.pipeline,
            circuits=self._circuits(),
            main=queue_for(self.resources.main_url, self.clients, self.world, Tally()),
            causes=DynamoDBCauses(
                self.clients.dynamodb, circuits, self.pipeline.name, self.world.new_id
            ),
            collisions=DynamoDBCollisions(self.clients.dynamodb, circuits, self.pipeline.name),
            watch=DynamoDBWatchStore(*self._letters()),
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
            statuses=self._statuses(run),
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
        counted = None
        if plan.counted is not None:
            counted = read_counted(*self._letters(), plan)
        restoring = Restoring(
            run=run,
            plan=plan,
            counted=counted,
            folders=self._folders,
            objects=self._objects_of,
            tickets=self._tickets_of,
            letters=self._placed_letters,
            runs=self.runs,
            router=self.router,
            fifo=self.pipeline.fifo,
            in_parallel=self.in_parallel,
            clock=self.world.clock,
            note_bad_row=self._note_bad_row,
        )
        return Taken(restoring.run(deadline - IDLE_SECONDS))

    def _repeat(self, run: ReplayRun, plan: ReplayPlan, of: str, deadline: float) -> Taken:
        """Make letters of the originals of another run, as soon as no earlier run does so."""
        # Two could have copies of one letter under way, and the ledger could not tell whose outcome
        # is whose.
        if self._comes_behind(run, lambda other: other.repeated_run is not None):
            return Taken(done=False, busy=True)
        counted = None
        if plan.counted is not None:
            counted = read_counted(*self._letters(), plan)
        repeating = Repeating(
            run=run,
            plan=plan,
            counted=counted,
            originals=self._originals_of(of),
            objects=self._objects(run),
            letters=self._placed_letters(run.id),
            ledger=self._ledger(),
            runs=self.runs,
            clock=self.world.clock,
            note_damage=lambda name: self._note_bad_row(
                originals_object(self.pipeline.name, of, name)
            ),
            max_bytes=queue_for(
                self.resources.main_url, self.clients, self.world, Tally()
            ).traits.max_bytes,
            note_no_room=partial(self.count_metric, Count.UNSENDABLE),
        )
        return Taken(repeating.run(deadline - IDLE_SECONDS))

    def _comes_behind(self, run: ReplayRun, kind: Callable[[ReplayPlan], bool]) -> bool:
        """Whether an earlier live run has a plan of this kind: they go one after the other."""
        earlier = (
            other
            for other in self.runs.all()
            if other.is_live and (other.created, other.id) < (run.created, run.id)
        )
        plans = (self.plans.plan(other.id) for other in earlier)
        return any(plan is not None and kind(plan) for plan in plans)

    def _placed_letters(self, run: str) -> DynamoDBPlacedLetters:
        client, table, pipeline = self._letters()
        room, clock = self._room(Tally()), self.world.clock
        return DynamoDBPlacedLetters(room, client, table, pipeline=pipeline, run=run, clock=clock)

    def _close(self, run: ReplayRun, plan: ReplayPlan) -> None:
        """No letter is made for the run from now on."""
        if plan.repeated_run is not None:
            self._placed_letters(run.id).close()

    def _note_bad_row(self, row: str) -> None:
        self.count_metric(Count.BAD_ROW, 1)
        self.note_bad_row(row)

    def _folders(self, folder_of: Callable[..., str] = run_object) -> Iterator[str]:
        bucket = self.resources.letters_bucket
        return runs_with_objects(self.clients.s3, bucket, self.pipeline.name, folder_of)

    def _originals_of(self, run: str) -> S3RunObjects:
        return originals_for(self.pipeline, self.resources, self.clients, run)

    def _pass(self, plan: ReplayPlan, deadline: float, lane: str | None = None) -> Taken:
        snapshot = snapshot_for(
            plan,
            self.pipeline,
            self.resources,
            self.clients,
            self.world,
            router=self.router,
            in_parallel=self.in_parallel,
            count_metric=self.count_metric,
            lane=lane,
        )
        report = snapshot.run(deadline, seconds=PASS_SECONDS)
        waits = report.again_at > self.world.clock() or report.stopped == LEASE_HELD
        return Taken(report.done, busy=waits and not report.done)

    def freeze(self, run: ReplayRun, plan: ReplayPlan, deadline: float) -> Frozen | None:
        """The manifest of what is in custody."""
        self._close(run, plan)
        freeze = freeze_for(
            plan,
            self.pipeline,
            self.resources,
            self.clients,
            self.world,
            note_bad_row=self._note_bad_row,
        )
        report = freeze.run(deadline - IDLE_SECONDS)
        if report.index is None:
            if self.world.clock() < deadline - IDLE_SECONDS:
                raise ReplayUnavailable(report.stopped)
            return None
        if plan.restores:
            # What it put back is parked already: its custody is empty.
            restored = sum(1 for _ in self._tickets(run).all())
            return Frozen(restored, report.index.hash)
        return Frozen(report.index.letters, report.index.hash)

    def work(
        self, run: ReplayRun, plan: ReplayPlan, worker: int, of: int, deadline: float
    ) -> Mapping[str, Any]:
        """One worker's step: the shards whose numbers are its own."""
        began = self.world.clock()
        manifest = Manifest(self._objects(run))
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
        tally = Tally(self.count_metric)
        return ReplayWorker(
            ReplayWorkerSetup(
                pipeline=self.pipeline,
                plan=plan,
                run=run,
                shards=shards,
                manifest=manifest,
                runs=self.runs,
                bids=self.runs,
                tickets=self._tickets(run),
                statuses=self._statuses(run),
                ledger=self._ledger(),
                room=self._room(tally),
                mover_for=self._mover_for(tally),
                router=self.router,
                journal=self._journal(),
                circuits=self._circuits(),
                main=queue_for(self.resources.main_url, self.clients, self.world, tally),
                tally=tally,
                owner=self.world.new_id(),
                clock=self.world.clock,
                wait=self.world.wait,
                new_token=self.world.new_id,
                in_parallel=self.in_parallel,
                carrier=self._carrier(run, plan, tally),
                trouble=self.trouble,
            )
        )

    def _mover_for(self, tally: Tally) -> Callable[[WaitingRoom], Mover]:
        """What moves letters out of a room, and tells the tally what came of it."""
        return partial(
            mover_for,
            self.pipeline,
            self.resources,
            self.clients,
            self.world,
            self.in_parallel,
            tally,
        )

    def _carrier(self, run: ReplayRun, plan: ReplayPlan, tally: Tally) -> DirectCarrier | None:
        """What takes the letters where the destination is no queue."""
        clock = self.world.clock
        if plan.destination == DISCARD:
            return Discarding(
                objects=self._objects(run),
                plan=plan,
                records=self._ledger(),
                clock=clock,
                tally=tally,
            )
        if plan.destination != DELIVER:
            return None
        resources = self.resources
        if not resources.consumer_function or not resources.trusted_senders:
            raise ReplayUnavailable("the pipeline has no consumer function to deliver to")
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
        room = self._room(tally)
        return Delivering(consumer=delivery, room=room, run=run.id, clock=clock, tally=tally)

    def leave(self, run: ReplayRun, plan: ReplayPlan, deadline: float) -> bool:
        """Whether nothing is left in the run's lane."""
        self._close(run, plan)
        tally = Tally(self.count_metric)
        manifest = Manifest(self._objects(run))
        journal = self._journal()
        known, owner = KnownIntents(journal, self.world.clock), self.world.new_id()

        def claim_for(shard: int) -> ShardClaim:
            return ShardClaim(
                journal=journal,
                known=known,
                run=run.id,
                shard=shard,
                owner=owner,
                clock=self.world.clock,
            )

        leaving = RunLeaving(
            LeavingSetup(
                pipeline=self.pipeline,
                plan=plan,
                run=run,
                index=manifest.index(),
                manifest=manifest,
                statuses=self._statuses(run),
                tickets=self._tickets(run),
                ledger=self._ledger(),
                room=self._room(tally),
                objects=self._objects(run),
                claim_for=claim_for,
                router=self.router,
                mover_for=self._mover_for(tally),
                tally=tally,
                clock=self.world.clock,
                random=self.world.random,
            )
        )
        return leaving.run(deadline - IDLE_SECONDS)

    def reconcile(self, run: ReplayRun, plan: ReplayPlan, deadline: float) -> Reconciled:
        """The sum of the outcomes, in the run's report."""
        objects = self._objects(run)
        manifest, tickets = Manifest(objects), self._tickets(run)
        sums = reconcile(
            ReconcileSetup(
                plan=plan,
                run=run,
                index=self._index(manifest),
                manifest=manifest,
                statuses=self._statuses(run),
                tickets=tickets,
                all_tickets=tickets.all,
                ledger=self._ledger(),
                room=self._room(Tally()),
                objects=objects,
                clock=self.world.clock,
            ),
            deadline - IDLE_SECONDS,
        )
        return Reconciled(sums.counts, sums.unaccounted)

    def forget(self, run: ReplayRun, plan: ReplayPlan, deadline: float) -> bool:
        """Whether nothing is left of the letters that the run has thrown away."""
        # Each writes objects anew: the later write would bring back what the earlier took out.
        if self._comes_behind(run, lambda other: other.forgets):
            return False
        manifest = Manifest(self._objects(run))
        setup = ForgetSetup(
            names=lambda: manifest.names(self._index(manifest)),
            folders=self._folders,
            objects=self._objects_of,
            tickets=lambda of: self._tickets_of(of).all(),
            with_originals=partial(self._folders, originals_object),
            originals=self._originals_of,
            own=self._objects(run),
            erase=self._ledger().erase,
            clock=self.world.clock,
            find=self._find(run, plan) if plan.selection.pattern else None,
        )
        return forget(setup, plan, deadline - IDLE_SECONDS)

    def _find(self, run: ReplayRun, plan: ReplayPlan) -> Callable[[float], set[str] | None]:
        """Finds letters by their key in what runs have kept."""
        # Few runs forget by a key: a cold start of the others does without.
        from deadletter.replay.key_search import KeySearch

        return KeySearch(
            pipeline=self.pipeline,
            selection=plan.selection,
            with_originals=partial(self._folders, originals_object),
            originals=self._originals_of,
            folders=self._folders,
            objects=self._objects_of,
            own=self._objects(run),
            clock=self.world.clock,
            note_damage=self._note_bad_row,
        ).run
