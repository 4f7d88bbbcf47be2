"""The systems under comparison, each with the same queue, mapping, handler and dependencies.

none         SQS, the mapping and partial failures: what fails five receives stays in the DLQ
native       the same, and a person starts a move task from the DLQ to the main queue each 5 min
powertools   the same, with the calls wrapped in Powertools' circuit breaker at its defaults, one
             circuit for each dependency, its state in DynamoDB
deadletter   the consumer library, breaker, prober, state machine, redriver, router and watch
"""

from __future__ import annotations

import importlib.util
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from random import Random
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

from aws_lambda_powertools.utilities.circuit_breaker import CircuitBreakerConfig
from aws_lambda_powertools.utilities.circuit_breaker.persistence import (
    CircuitBreakerDynamoDBPersistence,
    base,
    dynamodb,
)

from deadletter.aws.clients import Clients, ConsumerClients, OutageClients
from deadletter.aws.executions import StepFunctionsExecutions
from deadletter.aws.wiring import consuming
from deadletter.aws.wiring.consuming import consumer_for
from deadletter.aws.wiring.judging import consumer_steps_for, router_for, watch_for
from deadletter.aws.wiring.moving import prober_for, redriver_for
from deadletter.aws.wiring.stores import Stores
from deadletter.aws.wiring.world import World
from deadletter.circuit.state import NO_END, CircuitPolicy, Override, State
from deadletter.circuit.transitions import OverrideBegun
from deadletter.contract import CAUSES_ROW
from deadletter.outage.steps import Execution
from deadletter.processing.lambda_event import permit_of, records_of
from deadletter.processing.named_dependencies import dependency
from deadletter.processing.unguarded import process_unguarded
from deadletter.settings.pipeline import Pipeline, RetryPolicy
from deadletter.settings.resources import Resources
from deadletter.testing.fakes import MemoryDynamoDB, MemorySqs
from tests.no_metrics import NoMetrics
from tests.scenario_bench.dependency import Dependencies
from tests.scenario_bench.event_source import (
    FUNCTION_TIMEOUT,
    MAPPING,
    BenchLambda,
    Environment,
    EventSource,
    Killed,
)
from tests.scenario_bench.executions import MemoryStepFunctions, as_json
from tests.scenario_bench.scenario import PAYMENTS, Event, Scenario, Trouble
from tests.scenario_bench.timeline import Timeline
from tests.scenario_bench.traffic import Book, Call, handle
from tests.simulation.probed_stage import SilentBus
from tests.simulation.stage import PRODUCER, Stage, in_turn
from tests.tables import CIRCUITS, LETTERS

VISIBILITY = 6 * FUNCTION_TIMEOUT
MAX_RECEIVES = 5
SCHEDULE = 60.0
RUN_SECONDS = 55.0

MOVE_TASK_EVERY = 300.0
MOVE_TASK_RATE = 500.0
"""Messages a second that a move task of SQS moves at most."""

BREAKERS = "breakers"
"""The table of Powertools' circuits."""

Respond = Callable[[Sequence[Mapping[str, Any]], float, str | None], dict[str, Any]]


class NotingSqs(MemorySqs):
    """SQS that notes each message which it moves to a DLQ, and each that no producer sent.

    `returns` says when a message that was dead is first visible again, by its number.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.deaths: list[str] = []
        self.bodies: list[str] = []
        self.sends: Counter[str] = Counter()
        self.returns: dict[int, float] = {}

    def _accept(self, queue: Any, message: Any, size: int, delay: Any) -> dict[str, Any]:
        answer = super()._accept(queue, message, size, delay)
        if self._sender != PRODUCER:
            self.sends[queue.name] += 1
            if queue.dead_letter_arn:
                number = json.loads(message.body)["id"]
                self.returns.setdefault(number, message.visible_at)
        return answer

    def _bury(self, queue: Any, message: Any, now: float) -> bool:
        buried = super()._bury(queue, message, now)
        if buried:
            self.deaths.append(message.id)
            self.bodies.append(message.body)
        return buried

    def purge(self, url: str) -> None:
        """Delete every message of a queue, visible or not."""
        queue = self._queue(url)
        for message in list(queue.messages.values()):
            queue.drop(message)


class NotingDynamoDB(MemoryDynamoDB):
    """DynamoDB that counts letters put into the waiting room, and when circuits were written."""

    def __init__(self, clock: Callable[[], float], **options: Any) -> None:
        super().__init__(clock, **options)
        self.now = clock
        self.put_in_room = 0
        self.circuit_writes: list[float] = []

    def batch_write_item(self, *, RequestItems: Mapping[str, Any]) -> dict[str, Any]:  # noqa: N803 - as boto3 spells it
        for request in RequestItems.get(LETTERS, ()):
            self._note_put(request.get("PutRequest"))
        return super().batch_write_item(RequestItems=RequestItems)

    def transact_write_items(self, *, TransactItems: Any, **options: Any) -> dict[str, Any]:  # noqa: N803
        for request in TransactItems:
            self._note_put(request.get("Put"))
        return super().transact_write_items(TransactItems=TransactItems, **options)

    def update_item(self, *, TableName: str, Key: Any, **options: Any) -> dict[str, Any]:  # noqa: N803
        if TableName == CIRCUITS and Key["circuit_key"]["S"] != CAUSES_ROW:
            self.circuit_writes.append(self.now())
        return super().update_item(TableName=TableName, Key=Key, **options)

    def _note_put(self, put: Mapping[str, Any] | None) -> None:
        if put is None or not {"copy", "home"} <= put["Item"].keys():
            return
        key = {name: put["Item"][name] for name in ("pk", "sk")}
        self.put_in_room += "Item" not in self.get_item(TableName=LETTERS, Key=key)


class ProbingSqs:
    """SQS as the probe sees it: notes what it receives from the main queue."""

    def __init__(self, sqs: MemorySqs, main: str) -> None:
        self._sqs = sqs
        self._main = main
        self.received: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sqs, name)

    def receive_message(self, **options: Any) -> dict[str, Any]:
        answer = self._sqs.receive_message(**options)
        if options["QueueUrl"] == self._main:
            self.received.update(message["MessageId"] for message in answer.get("Messages", ()))
        return answer


class System(ABC):
    """One system in one scenario. `prepare` before the first message."""

    name = ""

    def __init__(self, scenario: Scenario, seed: int, book: Book) -> None:
        self.scenario = scenario
        self.seed = seed
        self.book = book
        self.timeline = Timeline()
        self.began = self.timeline.now
        self.dependencies = Dependencies(scenario, Random(seed + 1))
        self.stage = Stage(
            self.pipeline(),
            clock=self.timeline,
            seed=seed,
            sqs_type=NotingSqs,
            dynamodb_type=NotingDynamoDB,
        )
        policy = {"deadLetterTargetArn": self.stage.arn(self.stage.dlq)}
        self.stage.sqs.set_queue_attributes(
            QueueUrl=self.stage.main,
            Attributes={
                "RedrivePolicy": json.dumps({**policy, "maxReceiveCount": MAX_RECEIVES}),
                "VisibilityTimeout": str(VISIBILITY),
            },
        )
        self.source = EventSource(
            self.timeline,
            self.stage.consumer_sqs,
            self.stage.main,
            self.stage.arn(self.stage.main),
            self.start,
            Random(seed + 2),
            poll_seconds=0.2 if scenario.rate >= 0.5 else 2.0,
            bounded=scenario.ours,
            environments=scenario.environments,
        )

    def pipeline(self) -> Pipeline:
        """The pipeline as this scenario sets it: its defaults, and what the row changes."""
        scenario = self.scenario
        return Pipeline(
            "orders",
            fifo=scenario.fifo,
            policy=RetryPolicy(),
            consumer_library=True,
            context={"tenantId": "body.tenant"},
            circuit=CircuitPolicy(**{"pause_consumer": scenario.ours, **scenario.circuit}),
            **scenario.settings,
        )

    @property
    def elapsed(self) -> float:
        """Seconds since the first message."""
        return self.timeline.now - self.began

    @property
    def deaths(self) -> list[str]:
        sqs: Any = self.stage.sqs
        return list(sqs.deaths)

    @property
    def moves(self) -> int:
        """How often a message went from one queue to another, or into the waiting room."""
        sqs, store = self._noting
        return len(sqs.deaths) + sqs.sends.total() + store.put_in_room

    @property
    def ways_back(self) -> list[float]:
        """Seconds from the first failure of each message that died until it was visible again."""
        returns, failed = self._noting[0].returns, self.book.failed_at
        return [
            at - self.began - failed[number] for number, at in returns.items() if number in failed
        ]

    @property
    def circuit_writes(self) -> list[float]:
        """When circuits were written; seconds since the first message."""
        return [at - self.began for at in self._noting[1].circuit_writes]

    @property
    def _noting(self) -> tuple[NotingSqs, NotingDynamoDB]:
        sqs, store = self.stage.sqs, self.stage.dynamodb
        assert isinstance(sqs, NotingSqs)
        assert isinstance(store, NotingDynamoDB)
        return sqs, store

    @property
    def dead(self) -> set[int]:
        """The numbers of the messages that have been in the DLQ."""
        sqs: Any = self.stage.sqs
        return {json.loads(body)["id"] for body in sqs.bodies}

    @property
    def victims(self) -> int:
        """The live messages that probing sent to the DLQ."""
        return 0

    def call(self, environment: Environment, name: str, message: Mapping[str, Any]) -> Any:
        """One call of a dependency by a handler; returns its parsed reply."""
        answer = self.dependencies.request(name, message, self.elapsed)
        environment.work(answer.seconds)
        if answer.error is not None:
            raise answer.error
        return answer.parsed()

    def work(self, body: str, call: Call) -> None:
        """The business code."""
        try:
            handle(body, call, self.book, lambda: self.elapsed, is_refused=self._is_refused)
        except Exception:
            self.book.failed(json.loads(body)["id"], self.elapsed)
            raise

    def _is_refused(self, message: Mapping[str, Any]) -> bool:
        return any(
            spell.trouble is Trouble.BUG and spell.affects(message, self.elapsed)
            for spell in self.scenario.spells
        )

    def unguarded(self, call: Call) -> Respond:
        """A consumer without the library, which calls its dependencies so."""

        def respond(records: Any, _deadline: float, _permit: str | None) -> dict[str, Any]:
            result = process_unguarded(
                records, lambda record: self.work(record["body"], call), self.timeline.now
            )
            return result.to_response()

        return respond

    @contextmanager
    def patched(self) -> Iterator[None]:
        """What has to be replaced while this system runs."""
        yield

    def prepare(self) -> None:
        """Begin the processes of the system."""
        self.timeline.spawn(self.source.run)

    @abstractmethod
    def start(self, environment: Environment) -> Respond:
        """The consumer of a new environment."""

    @abstractmethod
    def states(self) -> list[str]:
        """The states of all circuits now."""

    def befall(self, event: Event) -> None:
        """An event of the scenario, if it concerns this system."""
        if event is Event.PURGE:
            sqs: Any = self.stage.sqs
            for url in (self.stage.main, self.stage.dlq):
                bodies = [json.loads(body) for body in self.stage.bodies(url)]
                self.book.purged.update(body["id"] for body in bodies)
                sqs.purge(url)


class NoBreaker(System):
    """Plain SQS and Lambda."""

    name = "none"

    def start(self, environment: Environment) -> Respond:
        return self.unguarded(partial(self.call, environment))

    def states(self) -> list[str]:
        return []


class NativeRedrive(NoBreaker):
    """Plain SQS whose DLQ a person moves back every five minutes."""

    name = "native"

    def prepare(self) -> None:
        super().prepare()
        self.timeline.spawn(self._move_tasks, self.began + MOVE_TASK_EVERY)

    def _move_tasks(self) -> None:
        while True:
            self.timeline.spawn(self._move_task)
            self.timeline.advance(MOVE_TASK_EVERY)

    def _move_task(self) -> None:
        """Moves what is in the DLQ, at the rate of SQS."""
        sqs = self.stage.redriver_sqs
        while messages := sqs.receive_message(
            QueueUrl=self.stage.dlq,
            MaxNumberOfMessages=10,
            MessageSystemAttributeNames=["All"],
        ).get("Messages"):
            for message in messages:
                order: dict[str, str] = {}
                if self.scenario.fifo:
                    group = message["Attributes"]["MessageGroupId"]
                    order = {"MessageGroupId": group, "MessageDeduplicationId": self._token()}
                sqs.send_message(QueueUrl=self.stage.main, MessageBody=message["Body"], **order)
                sqs.delete_message(QueueUrl=self.stage.dlq, ReceiptHandle=message["ReceiptHandle"])
            self.timeline.advance(len(messages) / MOVE_TASK_RATE)

    def _token(self) -> str:
        return f"moved{next(self.stage.names)}"


class Powertools(System):
    """Powertools' circuit breaker around each call, at its defaults."""

    name = "powertools"
    config = CircuitBreakerConfig()

    @contextmanager
    def patched(self) -> Iterator[None]:
        clock = self._clock()
        with patch.object(base, "dt", clock), patch.object(dynamodb, "dt", clock):
            yield

    def _clock(self) -> Any:
        """The module datetime, as far as Powertools asks it for the time."""
        now = SimpleNamespace(timestamp=lambda: self.timeline.now)
        return SimpleNamespace(datetime=SimpleNamespace(now=lambda: now))

    def prepare(self) -> None:
        super().prepare()
        self.stage.dynamodb.create_table(
            TableName=BREAKERS,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )

    def start(self, environment: Environment) -> Respond:
        # Failures are counted in the module: an environment has its own copy of it.
        package = "aws_lambda_powertools.utilities.circuit_breaker"
        core, face = _copy_of(f"{package}.base"), _copy_of(f"{package}.circuit_breaker")
        core.dt = self._clock()  # type: ignore[attr-defined]
        face.CircuitBreakerHandler = core.CircuitBreakerHandler  # type: ignore[attr-defined]
        client: Any = self.stage.dynamodb
        store = CircuitBreakerDynamoDBPersistence(BREAKERS, boto3_client=client)
        guarded: dict[str, Call] = {}

        def call(name: str, message: Mapping[str, Any]) -> Any:
            if name not in guarded:
                guard = face.circuit_breaker(name, store, config=self.config)
                guarded[name] = guard(partial(self.call, environment))
            return guarded[name](name, message)

        return self.unguarded(call)

    def states(self) -> list[str]:
        return [item["state"]["S"] for item in self.stage.dynamodb.items(BREAKERS)]

    def befall(self, event: Event) -> None:
        super().befall(event)
        if event is Event.DELETE_ROW:
            for item in self.stage.dynamodb.items(BREAKERS):
                self.stage.dynamodb.delete_item(TableName=BREAKERS, Key={"id": item["id"]})


class Deadletter(System):
    """The product, with its defaults."""

    name = "deadletter"

    def __init__(self, scenario: Scenario, seed: int, book: Book) -> None:
        super().__init__(scenario, seed, book)
        stage, timeline = self.stage, self.timeline
        self.functions = BenchLambda(self.source, timeline, lambda: f"request{next(stage.names)}")
        self.machine = MemoryStepFunctions(timeline, self._step, Random(seed + 3))
        self.resources: Resources = replace(
            stage.resources,
            dlq_arn=stage.arn(stage.dlq),
            circuit_machine="arn:aws:states:::stateMachine:circuit",
            consumer_function=self.functions.register("consumer", self._canary),
            redrive_function=self.functions.register("redrive", self._rescue),
            consumer_mapping=MAPPING if scenario.ours else "",
            health_url="https://payments.example/health" if scenario.has_health_url else "",
            consumer_timeout=FUNCTION_TIMEOUT,
            redrive_every=int(SCHEDULE),
        )
        self.world: World = replace(stage.world, random=Random(seed + 4))
        machine: Any = self.machine
        self.outages = StepFunctionsExecutions(
            lambda: machine, self.resources.circuit_machine, stage.pipeline.name
        )
        self.probing = ProbingSqs(stage.redriver_sqs, stage.main)
        functions: Any = self.functions
        self.clients: Clients = replace(stage.clients, functions=functions)
        self._canary_environment = Environment(timeline, self.start)
        self._router = router_for(stage.pipeline, self.resources, self.clients, self.world)
        self._prober: Any = None
        self._steps: Any = None

    @contextmanager
    def patched(self) -> Iterator[None]:
        health = SimpleNamespace(
            trouble=lambda: "" if self.dependencies.is_well(PAYMENTS, self.elapsed) else "down"
        )
        with (
            patch.object(consuming, "brief_stepfunctions", lambda: self.machine),
            patch.object(
                Stores, "health", property(lambda its: health if its.resources.health_url else None)
            ),
        ):
            yield

    def prepare(self) -> None:
        super().prepare()
        phase = Random(self.seed + 5)
        self._outage_functions()
        for run in (self._redrive, self._watch_function()):
            first = self.timeline.now + phase.random() * SCHEDULE
            self.timeline.spawn(partial(self._on_schedule, run), first)

    @property
    def victims(self) -> int:
        return len(self.probing.received & set(self.deaths))

    def start(self, environment: Environment) -> Respond:
        stage = self.stage
        sqs: Any = stage.consumer_sqs
        store: Any = stage.dynamodb
        clients = ConsumerClients(sqs=sqs, sending=sqs, dynamodb=store)
        call = self._named if self.scenario.named else self.call
        consumer = consumer_for(
            stage.pipeline,
            self.resources,
            clients,
            self.world,
            handle=lambda delivery: self.work(delivery.letter.body, partial(call, environment)),
            count_metric=lambda *_: None,
        )

        def respond(records: Any, deadline: float, permit: str | None) -> dict[str, Any]:
            return consumer.process(records, deadline=deadline, permit=permit).to_response()

        return respond

    def _named(self, environment: Environment, name: str, message: Mapping[str, Any]) -> Any:
        with dependency(name):
            return self.call(environment, name, message)

    def states(self) -> list[str]:
        items = self.stage.dynamodb.items(CIRCUITS)
        return [item["state"]["S"] for item in items if "state" in item]

    def befall(self, event: Event) -> None:
        super().befall(event)
        stage = self.stage
        name = stage.pipeline.name
        match event:
            case Event.KILL_EXECUTION:
                self.machine.kill_all()
            case Event.DELETE_ROW:
                key = {"pipeline": {"S": name}, "circuit_key": {"S": name}}
                stage.dynamodb.delete_item(TableName=CIRCUITS, Key=key)
            case Event.FORCE_OPEN:
                override = Override(State.OPEN, "ann", "an incident", NO_END, self.timeline.now)
                breaker = Stores(stage.pipeline, self.resources, self.clients, self.world).breaker
                breaker.apply(name, OverrideBegun(override))

    # The functions of the product.

    def _outage_functions(self) -> None:
        stage = self.stage
        bus: Any = SilentBus()
        functions: Any = self.functions
        sqs: Any = self.probing
        outage = OutageClients(dynamodb=self.clients.dynamodb, events=bus, functions=functions)
        count = lambda *_: None  # noqa: E731 - metrics go nowhere
        self._steps = consumer_steps_for(stage.pipeline, self.resources, outage, self.world, count)
        self._prober = prober_for(
            stage.pipeline,
            self.resources,
            replace(self.clients, sqs=sqs, sending=sqs),
            outage,
            self.world,
            count,
            router=self._router,
            consumer=functions,
        )

    def _step(self, step: str, execution: Execution) -> Mapping[str, Any]:
        if step == "probe":
            return as_json(self._prober.probe(execution))
        return as_json(self._steps.take(step, execution))

    def _canary(self, event: Any, context: Any) -> Any:
        try:
            return self._canary_environment.invoke(list(records_of(event)), permit_of(context))
        except Killed:
            raise TimeoutError("Task timed out") from None

    def _on_schedule(self, run: Callable[[], object]) -> None:
        while True:
            self.timeline.spawn(run)
            self.timeline.advance(SCHEDULE)

    def _redriver(self, source: str = "dlq") -> Any:
        return redriver_for(
            self.stage.pipeline,
            self.resources,
            self.clients,
            self.world,
            home=source,
            router=self._router,
            in_parallel=in_turn,
            outages=self.outages,
        )

    def _redrive(self) -> None:
        self._redriver().run(self.timeline.now + RUN_SECONDS)

    def _rescue(self, event: Any, _context: Any) -> None:
        redriver = self._redriver(event["source"])
        self.timeline.spawn(lambda: redriver.rescue(self.timeline.now + RUN_SECONDS))

    def _watch_function(self) -> Callable[[], object]:
        cloudwatch: Any = NoMetrics
        watch = watch_for(
            self.stage.pipeline,
            self.resources,
            self.clients,
            self.world,
            router=self._router,
            in_parallel=in_turn,
            outages=self.outages,
            cloudwatch=cloudwatch,
        )
        return watch.run

    def letters_in_room(self) -> list[str]:
        """The bodies of the letters in the waiting room."""
        bodies = []
        for item in self.stage.dynamodb.items(LETTERS):
            if "copy" in item and "message" in item:
                [data] = item["message"].values()
                bodies.append(str(json.loads(data)["body"]))
        return bodies


def _copy_of(name: str) -> ModuleType:
    """A copy of a module, with state of its own."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SYSTEMS: Mapping[str, type[System]] = {
    system.name: system for system in (NoBreaker, NativeRedrive, Powertools, Deadletter)
}
