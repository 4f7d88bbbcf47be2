"""A pipeline with a row of every kind, and letters that wait for everything that letters wait for.

All rows are written by the functions of production, on the AWS in memory.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, cast

from botocore.exceptions import ClientError, ParamValidationError

from deadletter.aws.clients import Clients, ConsumerClients, WatchClients
from deadletter.aws.collisions import DynamoDBCollisions
from deadletter.aws.dynamodb import stored
from deadletter.aws.edits import DynamoDBBookVersions, DynamoDBCheckedRules, DynamoDBHistory, edits
from deadletter.aws.endpoints import DynamoDBEndpoints
from deadletter.aws.objects import S3RunObjects
from deadletter.aws.replay_runs import DynamoDBReplayPlans, DynamoDBReplayRuns
from deadletter.aws.wiring.consuming import consumer_for
from deadletter.aws.wiring.judging import watch_for
from deadletter.aws.wiring.moving import answer_request, redriver_for
from deadletter.aws.wiring.replaying import replay_steps_for
from deadletter.aws.wiring.stores import Stores
from deadletter.aws.wiring.world import World
from deadletter.circuit.state import CircuitPolicy, Override, Pollers, State
from deadletter.circuit.transitions import (
    CanarySent,
    MappingPaused,
    MappingPutBack,
    MappingSeen,
    OverrideBegun,
    OverrideEnded,
    PermitTaken,
    Tripped,
)
from deadletter.contract import Mode, run_lane
from deadletter.failure.ledger import Recovery
from deadletter.failure.signals import Permanent
from deadletter.message.letter import Letter, from_api, to_event
from deadletter.processing.delivery import Delivery
from deadletter.redrive.report import Report
from deadletter.redrive.shards import DrainShard
from deadletter.redrive.source_memory import Drain
from deadletter.redrive.waiting_room import FOREVER, SHARDS
from deadletter.replay.edit_request import EditRequest
from deadletter.replay.machine import replay_event
from deadletter.replay.plan import DISCARD, DISCARDED_LETTERS, RESTORE, ReplayPlan
from deadletter.replay.run import ReplayRun
from deadletter.routing.router import Router
from deadletter.routing.selection import Selection
from deadletter.rules.checker import RuleChecker
from deadletter.settings.backoff import Backoff
from deadletter.settings.pipeline import Pipeline, RetryPolicy
from tests.no_metrics import NoMetrics
from tests.rows.recorded import AUDIT, ENDPOINTS
from tests.simulation.stage import Stage, attribute, in_turn
from tests.tables import BUCKET, CIRCUITS, LETTERS, RULES, create_keyed_table

TIMEOUT = 20.0
"""Seconds that the consumer's function may run."""


class NoExecutions:
    """Step Functions, as if every execution that is asked for ran."""

    def start(self, *_: Any) -> None:
        return

    def running(self) -> Container[str]:
        return _Everything()

    def answer(self, token: str) -> None:
        return


class _Everything:
    def __contains__(self, _: object) -> bool:
        return True


class Rescues:
    """The functions that a watch starts."""

    def __init__(self) -> None:
        self.sources: list[str] = []

    def invoke(self, **request: Any) -> dict[str, Any]:
        self.sources.append(json.loads(request["Payload"])["source"])
        return {"StatusCode": 202}


class Terms:
    """The registrations of the app's pipelines."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def pipelines(self, *, fresh: bool = False) -> Mapping[str, Pipeline]:
        return {self._pipeline.name: self._pipeline}


class Quiet:
    """An announcer of refused rules whom nobody hears."""

    def announce(self, *_: Any) -> None:
        return


class Broken(Exception):
    """What the handler of this pipeline raises."""


HELD_CIRCUIT, CLOSED_CIRCUIT = "crm", "erp"
"""The circuit that a person holds open, and one that was open and is not."""


@dataclass(eq=False)
class WholePipeline:
    """One pipeline, its letters by their uid, and every function that reads or writes rows.

    `mended` says that the team's handler works: every letter that it is given is `processed`.
    """

    fifo: bool = False
    mended: bool = False
    processed: list[str] = field(default_factory=list)
    counted: dict[str, int] = field(default_factory=dict)
    reports: list[Report] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stage = Stage(
            Pipeline(
                "orders",
                fifo=self.fifo,
                policy=RetryPolicy(Backoff(base=0, factor=1, cap=0, floor=0), max_attempts=20),
                retry=Backoff(base=1, factor=1, cap=1, floor=1),
                context={"tenantId": "body.tenantId"},
                workers=1,
                dedicated=("slow",),
                consumer_library=True,
                idempotency_key="body.key",
                ordering_key="body.account",
                sequence="body.version",
                circuit_key="body.endpoint",
                circuit=CircuitPolicy(minimum=10_000, consecutive=10_000),
                poison_lives=100,
            )
        )
        self.stage.resources = replace(
            self.stage.resources,
            dlq_arn=self.stage.arn(self.stage.dlq),
            redrive_function="redrive",
            redrive_every=60,
            consumer_timeout=int(TIMEOUT),
            circuit_machine="arn:aws:states:eu-west-1:111122223333:stateMachine:outage",
        )
        self.steps: dict[str, str] = {}
        self.runs: dict[str, str] = {}
        self.origins: dict[str, str] = {}
        self._edits = 0
        dynamodb: Any = self.stage.dynamodb
        create_keyed_table(dynamodb, ENDPOINTS, ("tenant", "endpoint"))
        create_keyed_table(dynamodb, AUDIT, ("pk", "sk"))

    @property
    def now(self) -> float:
        return self.stage.clock()

    def copied(self) -> WholePipeline:
        """The same world once more: what happens there does not happen here."""
        return copy.deepcopy(self)

    # Producers and consumers

    def put(self, uid: str, tenant: str = "free", endpoint: str = "", **more: Any) -> None:
        body: dict[str, Any] = {"tenantId": tenant, "key": more.pop("key", uid), "uid": uid}
        if endpoint:
            body["endpoint"] = endpoint
        if more.pop("large", False):
            body["x"] = "x" * 5_000
        options: dict[str, Any] = {}
        if self.fifo:
            group = more.pop("group", tenant if tenant == "held" else uid)
            options = {"MessageGroupId": group, "MessageDeduplicationId": uid}
        if more.pop("ten", False):
            attributes = {f"a{number}": attribute(bytes([number])) for number in range(10)}
            options["MessageAttributes"] = attributes
        self.origins[self.stage.put(json.dumps(body | more), **options)] = uid

    def consume(self, *, most: int = 100) -> None:
        """Batches of the consumer until nothing is visible, as Lambda hands them over."""
        for _ in range(most):
            answer = self.stage.consumer_sqs.receive_message(
                QueueUrl=self.stage.main,
                MaxNumberOfMessages=10,
                VisibilityTimeout=int(TIMEOUT) + 10,
                MessageSystemAttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
            messages = answer.get("Messages", ())
            if not messages:
                return
            self._batch({message["ReceiptHandle"]: from_api(message) for message in messages})

    def _batch(self, letters: Mapping[str, Letter]) -> None:
        stage = self.stage
        records = [
            to_event(letter, receipt_handle=handle, source_arn=stage.resources.main_arn)
            for handle, letter in letters.items()
        ]
        sqs: Any = stage.consumer_sqs
        dynamodb: Any = stage.dynamodb
        consumer = consumer_for(
            stage.pipeline,
            stage.resources,
            ConsumerClients(sqs=sqs, sending=sqs, dynamodb=dynamodb),
            self._world(),
            handle=self._handle,
            count_metric=self._count,
        )
        done = consumer.process(records, deadline=self.now + TIMEOUT)
        for handle, letter in letters.items():
            if letter.message_id not in done.failed:
                stage.sqs.delete_message(QueueUrl=stage.main, ReceiptHandle=handle)

    def _handle(self, delivery: Delivery) -> None:
        body = json.loads(delivery.letter.body)
        if not self.mended:
            if body["tenantId"] == "bad":
                raise Permanent("no such customer")
            if body["tenantId"] == "down":
                raise TimeoutError("the dependency gives no answer")
            if body["tenantId"] != "well":
                raise Broken(f"order {body['uid']} failed")
        self.processed.append(body["uid"])

    def fail(self) -> None:
        """All that is in the main queue fails and dies."""
        self.consume()
        self.pass_seconds(31)
        self.stage.take(self.stage.main)

    # The functions

    def redrive(self, home: str = "dlq", *, asked: bool = False) -> Report:
        return self._kept(self._redriver(home).run(self.now + 55, asked=asked))

    def rescue(self, source: str) -> Report:
        return self._kept(self._redriver(source).rescue(self.now + 55))

    def _redriver(self, home: str, clients: Clients | None = None) -> Any:
        stage = self.stage
        return redriver_for(
            stage.pipeline,
            stage.resources,
            clients or stage.clients,
            self._world(),
            home=home,
            router=self.router,
            in_parallel=in_turn,
        )

    def _kept(self, report: Report) -> Report:
        for metric, number in report.counts.items():
            self._count(str(metric), number)
        self.reports.append(report)
        return report

    @property
    def router(self) -> Router:
        return self.stage.router

    def watch(self) -> Any:
        """One minute of the watch, as a new process."""
        stage = self.stage
        sqs: Any = stage.redriver_sqs
        dynamodb: Any = stage.dynamodb
        functions: Any = Rescues()
        nothing_runs: Any = NoExecutions()
        cloudwatch: Any = NoMetrics
        minute = watch_for(
            stage.pipeline,
            stage.resources,
            WatchClients(sqs=sqs, dynamodb=dynamodb, functions=functions),
            self._world(),
            router=self.router,
            in_parallel=in_turn,
            outages=nothing_runs,
            executions=nothing_runs,
            cloudwatch=cloudwatch,
        ).run()
        for source in functions.sources:
            self.rescue(source)
        return minute

    def step(self, run: str, **more: Any) -> str:
        """One step of a replay run's execution; returns the next one."""
        stage = self.stage
        nothing_runs: Any = NoExecutions()
        steps = replay_steps_for(
            stage.pipeline,
            stage.resources,
            stage.clients,
            self._world(),
            self._count,
            executions=nothing_runs,
            router=self.router,
            in_parallel=in_turn,
        )
        step = self.steps.get(run, "preflight")
        event = {"run": run, "execution": f"{run}-0", "loops": 0, "step": step, **more}
        answer = steps.take(replay_event(event), self.now + 60)
        following = "judge" if step == "work" or answer["next"] == "wait" else answer["next"]
        self.steps[run] = following
        return str(following)

    def type_rule(self, rule_id: str, **columns: Any) -> None:
        """A person types a rule, and the rule checker sees the edit in the table's stream."""
        stage = self.stage
        dynamodb: Any = stage.dynamodb
        stage.add_rule(rule_id, **columns)
        key = {"pipeline": {"S": "orders"}, "rule_id": {"S": rule_id}}
        image = dynamodb.get_item(TableName=RULES, Key=key)["Item"]
        self._edits += 1
        change = {
            "Keys": key,
            "NewImage": image,
            "SequenceNumber": str(self._edits),
            "ApproximateCreationDateTime": self.now,
        }
        checked = RuleChecker(
            terms=Terms(stage.pipeline),
            verdicts=DynamoDBCheckedRules(dynamodb, RULES),
            history=DynamoDBHistory(dynamodb, AUDIT, stage.clock, 86_400.0),
            announcer=Quiet(),
            versions=DynamoDBBookVersions(dynamodb, LETTERS),
            counts=DynamoDBBookVersions(dynamodb, LETTERS),
            namesakes=DynamoDBCheckedRules(dynamodb, RULES),
            clock=stage.clock,
        ).check(edits([{"dynamodb": change, "eventID": f"edit{self._edits}"}]))
        assert not checked.failed, checked

    def start_run(self, tenant: str, **options: Any) -> str:
        """A person starts a replay run of the letters of one tenant; returns its id."""
        dynamodb: Any = self.stage.dynamodb
        origins = options.pop("origins", None)
        selection = Selection(groups=(tenant,)) if self.fifo else Selection(tenants=(tenant,))
        plan = ReplayPlan(
            pipeline="orders",
            selection=selection,
            counted=None if origins is None else len(origins),
            canary=(1,),
            ramp=(1.0,),
            ramp_seconds=10.0,
            retry_after=1.0,
            error_rate=1.0,
            created=self.now,
            expires=self.now + 86_400,
            who="ana",
            why=f"{tenant} is mended",
            **options,
        )
        DynamoDBReplayPlans(dynamodb, LETTERS, "orders", self.stage.clock).store(plan, origins)
        DynamoDBReplayRuns(dynamodb, LETTERS, "orders", self.stage.clock).create(
            ReplayRun(
                id=plan.run_id,
                pipeline="orders",
                created=plan.created,
                started=plan.created,
                expires=plan.expires,
            )
        )
        return plan.run_id

    def take_steps(self, run: str, until: str, most: int = 12) -> None:
        """Steps of a run's execution until the next one would be `until`."""
        for _ in range(most):
            if self.step(run) == until:
                return
            self.pass_seconds(2)

    def breaker(self) -> Any:
        return Stores(
            self.stage.pipeline, self.stage.resources, self.stage.clients, self._world()
        ).breaker

    def pass_seconds(self, seconds: float) -> None:
        self.stage.clock.advance(seconds)

    def minute(self) -> None:
        """One minute of everything that a schedule starts."""
        self.pass_seconds(61)
        self.watch()
        self.redrive()
        self.redrive("slow")
        self.consume()

    def _world(self) -> World:
        return replace(self.stage.world, random=Random(5))

    def _count(self, metric: str, number: int) -> None:
        self.counted[metric] = self.counted.get(metric, 0) + number

    # What is where

    def places(self) -> dict[str, str]:
        """Where each letter is, by its uid; one that was processed is nowhere else."""
        stage = self.stage
        places: dict[str, str] = {}
        for name, url in (("main", stage.main), ("dlq", stage.dlq), ("slow", stage.dedicated),
                          ("parking", stage.parking)):  # fmt: skip
            places.update((_uid(body), name) for body in stage.bodies(url))
        for item in stage.waiting():
            uid = self.uid_in(item)
            if uid:
                places[uid] = f"room {item.get('lane', {}).get('S', '?')}"
        for uid in self.processed:
            places.setdefault(uid, "processed")
        return places

    def uid_of(self, message_id: str) -> str:
        """The uid of the letter with a message id, of its first life or of a copy in a queue."""
        bodies = {message.message_id: message.body for message in self.stage.sqs.snapshot()}
        return self.origins.get(message_id) or _uid(bodies.get(message_id, ""))

    def uid_in(self, item: Mapping[str, Any]) -> str:
        """The uid of the letter in a row of the waiting room; empty if it can't be read."""
        if "B" in item.get("message", {}):
            return _uid_of_letter(item["message"]["B"])
        return self._uid_in_s3(item["object"]["S"]) if "S" in item.get("object", {}) else ""

    def _uid_in_s3(self, name: str) -> str:
        try:
            answer = self.stage.s3.get_object(Bucket=BUCKET, Key=name)
        except (ClientError, ParamValidationError):
            return ""
        return _uid_of_letter(answer["Body"].read())


def _uid(body: str) -> str:
    try:
        return str(json.loads(body)["uid"])
    except (ValueError, KeyError, TypeError):
        return ""


def _uid_of_letter(data: bytes) -> str:
    try:
        return _uid(json.loads(data)["body"])
    except (ValueError, KeyError, TypeError):
        return ""


# The story


def told(*, fifo: bool = False) -> WholePipeline:
    """A pipeline whose letters have been through everything; see `FATES` for what becomes of them.

    A bug has failed all letters; now the handler is mended.
    """
    world = WholePipeline(fifo=fifo)
    _type_rules(world)
    _produce(world)
    world.fail()
    _break_circuits(world)
    world.watch()
    _replay(world)
    world.redrive()
    world.pass_seconds(61)
    _mend(world)
    _observe(world)
    _drain_in_shards(world)
    _refuse_endpoints(world)
    _write_what_is_rare(world)
    world.watch()
    _cut_off(world)
    world.mended = True
    return world


def _type_rules(world: WholePipeline) -> None:
    world.type_rule("stop", action="HOLD", tenantId="held", priority=10)
    world.type_rule("free", action="HOLD", tenantId="freed", priority=11)
    world.type_rule("later", action="DELAYED_REDRIVE", tenantId="delayed", delay_seconds=1_000)
    world.type_rule("trickle", action="THROTTLE", tenantId="trickle", rate=5)
    world.type_rule("aside", action="DEDICATED_DLQ", tenantId="aside", queue="slow", max_matches=50)
    world.type_rule("look", action="QUARANTINE", tenantId="free", mode="shadow")


def _break_circuits(world: WholePipeline) -> None:
    breaker = world.breaker()
    held = Override(State.OPEN, "ana", "the CRM moves", world.now + 86_400 * 30)
    breaker.apply(HELD_CIRCUIT, OverrideBegun(held))
    breaker.apply(CLOSED_CIRCUIT, Tripped())


def _produce(world: WholePipeline) -> None:
    for uid in ("free1", "free2", "free3"):
        world.put(uid)
    for tenant in ("held", "freed", "delayed", "trickle", "aside", "bad", "well"):
        for number in (1, 2):
            world.put(f"{tenant}{number}", tenant)
    for number in (1, 2, 3):
        world.put(f"replay{number}", "replay", group="replay")
    world.put("large1", "held", large=True)
    world.put("ten1", ten=True)
    world.put(f"{HELD_CIRCUIT}1", endpoint=HELD_CIRCUIT)
    for uid in (f"{CLOSED_CIRCUIT}1", f"{CLOSED_CIRCUIT}2"):
        world.put(uid, "down", endpoint=CLOSED_CIRCUIT)
    world.consume(most=10)
    # The key of a message that is processed, with other content.
    world.put("twin1", "well", key="well1", total=7)
    for number in (1, 2, 3):
        world.put(f"ordered{number}", "ordered", account="a", version=number, group="ordered")


def _replay(world: WholePipeline) -> None:
    """One run that sends, one that waits for an approval with an edited letter, one that throws a
    letter away, and one that brings it back.
    """
    sending = world.start_run("replay", origins=_origins(world, "replay"))
    world.take_steps(sending, "work")
    # Its canary fails once more, and comes back to the run.
    world.step(sending)
    world.fail()
    world.redrive()
    for number in (1, 2, 3):
        world.put(f"asked{number}", "asked", group="asked")
    world.fail()
    asking = world.start_run("asked", approve=True)
    world.take_steps(asking, "approval")
    world.step(asking, token="a token")
    _edit(world, asking)
    world.put("trash1", "trash", group="trash")
    world.fail()
    trash = world.start_run("trash", destination=DISCARD)
    world.take_steps(trash, "done", most=20)
    source = f"{DISCARDED_LETTERS}:{trash}"
    restored = world.start_run("trash", source=source, destination=RESTORE)
    world.take_steps(restored, "done", most=20)
    world.pass_seconds(61)
    world.take_steps(sending, "work")
    world.runs = {"replay": sending, "asked": asking, "trash": trash, "trash1": restored}


def _origins(world: WholePipeline, tenant: str) -> list[str]:
    bodies = world.stage.sqs.snapshot()
    return [message.message_id for message in bodies if _uid(message.body).startswith(tenant)]


def _edit(world: WholePipeline, run: str) -> None:
    """A person edits two letters of a run that waits, one of them so that it is large."""
    stage = world.stage
    clients: Any = stage.clients
    objects = S3RunObjects(clients.s3, BUCKET, "orders", run)
    replay_run = DynamoDBReplayRuns(clients.dynamodb, LETTERS, "orders", stage.clock).read(run)
    assert replay_run is not None
    room = Stores(stage.pipeline, stage.resources, clients, world._world()).room
    entries = [
        entry for shard in range(SHARDS) for entry in room.due(run_lane(run), shard, FOREVER, 10)
    ]
    records = []
    for entry, words in zip(entries, ("short", "long" * 2_000), strict=False):
        [received] = room.read([entry], 0.0).letters
        assert received.stamp is not None
        body = json.dumps({**json.loads(received.letter.body), "words": words})
        partition, sort = json.loads(received.handle)[:2]
        asked = EditRequest(
            run=run, generation=replay_run.generation, place=(partition, sort), shard=entry.shard,
            origin=received.stamp.origin, before=received.letter,
            after=replace(received.letter, body=body), accept=False,
            by="ana", because="its words were wrong", at=stage.clock(),
        )  # fmt: skip
        objects.put(asked.record, asked.to_bytes())
        records.append(asked.record)
    event = {"edit": {"run": run, "records": records}}
    answer = answer_request(stage.pipeline, stage.resources, clients, world._world(), event)
    assert answer == {"edited": records, "refused": {}}


def _mend(world: WholePipeline) -> None:
    """One rule is switched off, and one dependency is well again."""
    if not world.fifo:
        world.type_rule("free", action="HOLD", tenantId="freed", priority=11, enabled="false")
    breaker = world.breaker()
    world.pass_seconds(120)
    permitted = breaker.apply(CLOSED_CIRCUIT, PermitTaken("me")).circuit
    sent = CanarySent(permitted.generation, "me", "origin", 3)
    breaker.apply(CLOSED_CIRCUIT, sent)
    breaker.apply(CLOSED_CIRCUIT, MappingPaused("a mapping", 50, Pollers(1, 2)))
    breaker.apply(CLOSED_CIRCUIT, MappingPutBack("a mapping"))
    breaker.apply(CLOSED_CIRCUIT, MappingSeen(bounded=True))
    breaker.apply(CLOSED_CIRCUIT, OverrideBegun(
        Override(State.CLOSED, "ana", "it is well", world.now + 60)
    ))  # fmt: skip
    world.pass_seconds(61)
    breaker.apply(CLOSED_CIRCUIT, OverrideEnded())


def _observe(world: WholePipeline) -> None:
    """The pipeline observes for a minute."""
    moves = world.stage.pipeline
    world.stage.pipeline = replace(moves, mode=Mode.OBSERVE)
    world.put("free4")
    world.fail()
    world.redrive()
    world.stage.pipeline = moves


def _drain_in_shards(world: WholePipeline) -> None:
    """A run drains a part of the queue that another one owns."""
    owner = world._redriver("dlq")
    owner._setup.lease.record_drain(Drain("owner", 2, world.now + 30, 5.0, 10.0))
    owner.take_part(world.now + 20, DrainShard("owner", 2))
    world.pass_seconds(61)
    world.fail()


def _refuse_endpoints(world: WholePipeline) -> None:
    """One endpoint is gone, and another one asks for a pause."""
    dynamodb: Any = world.stage.dynamodb
    for name in ("gone", "busy", "fine"):
        row = {"tenant": "acme", "endpoint": name, "url": f"https://{name}.example.com",
               "secrets": ["acme/secret"], "enabled": True}  # fmt: skip
        dynamodb.put_item(TableName=ENDPOINTS, Item=stored(row))
    registry = DynamoDBEndpoints(dynamodb, ENDPOINTS, world.stage.clock)
    gone, busy = (registry.find("acme", name) for name in ("gone", "busy"))
    assert gone is not None
    assert busy is not None
    registry.disable(gone, "it answered 410", world.now)
    registry.throttle(busy, world.now + 30, 429, world.now)


def _write_what_is_rare(world: WholePipeline) -> None:
    """What takes an hour of traffic to come about, by the adapters that write it then."""
    dynamodb, now = cast(Any, world.stage.dynamodb), world.now
    well, other = (origin for origin, uid in world.origins.items() if uid in ("bad1", "free1"))
    ledger = Stores(
        world.stage.pipeline, world.stage.resources, world.stage.clients, world._world()
    ).ledger
    ledger.parked(well, 1, now, "PERMANENT")
    ledger.recovered(other, 0, now - 1, Recovery.SKIPPED)
    ledger.erase(["a message that nobody knows"])
    DynamoDBCollisions(dynamodb, CIRCUITS, "orders").stop(now + 60, now)
    DynamoDBCollisions(dynamodb, CIRCUITS, "orders").note_bad_claim("a claim", now)


class Killed(BaseException):
    """The function has ended: nothing of it runs any more."""


class Mortal:
    """A client whose function is killed when it sends: no later call is made."""

    def __init__(self, client: Any, killed: list[bool]) -> None:
        self._client = client
        self._killed = killed

    def __getattr__(self, name: str) -> Any:
        def call(**request: Any) -> Any:
            if name == "send_message_batch":
                self._killed.append(True)
            if self._killed:
                raise Killed
            return getattr(self._client, name)(**request)

        return call


def _cut_off(world: WholePipeline) -> None:
    """A run is killed between an intent and its sends: the intents of its letters stand."""
    killed: list[bool] = []
    clients = world.stage.clients
    sqs, dynamodb, s3 = (
        cast(Any, Mortal(client, killed)) for client in (clients.sqs, clients.dynamodb, clients.s3)
    )
    mortal = replace(clients, sqs=sqs, sending=sqs, dynamodb=dynamodb, journal=dynamodb, s3=s3)
    with suppress(Killed):
        world._redriver("dlq", mortal).run(world.now + 55, asked=True)
    assert killed
    world.pass_seconds(400)
