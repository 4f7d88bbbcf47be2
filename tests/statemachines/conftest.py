"""An account in moto with one pipeline, its functions being the real handlers."""

from __future__ import annotations

import base64
import io
import itertools
import json
import uuid
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, TypeVar

import boto3
import moto.awslambda.models as moto_lambda
import moto.sqs.models as moto_sqs
import pytest
from moto import mock_aws
from moto.awslambda.models import EventSourceMapping
from moto.awslambda_simple.models import LambdaSimpleBackend
from moto.stepfunctions.parser.asl.antlr.runtime.ASLParser import ASLParser
from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl
from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils
from moto.stepfunctions.parser.asl.component.state.wait.wait_function.wait_function import (
    WaitFunction,
)
from moto.stepfunctions.parser.asl.parse import asl_parser
from moto.stepfunctions.parser.models import stepfunctions_parser_backends
from moto.stepfunctions.parser.utils import TMP_THREADS

import handlers.circuit
import handlers.probe
import handlers.route
import handlers.runtime
from deadletter.aws import clients as aws_clients
from deadletter.aws.clients import Clients
from deadletter.aws.executions import StepFunctionsExecutions
from deadletter.aws.wiring.judging import watch_for
from deadletter.aws.wiring.world import World
from deadletter.circuit.state import Circuit, CircuitPolicy, Override, State
from deadletter.circuit.transitions import OverrideBegun
from deadletter.outage.executions import execution_name
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources
from deadletter.testing.clock import Clock
from tests.outages import OutageHarness
from tests.tables import BUCKET, CIRCUITS, LETTERS, RULES, create_tables

REGION = "eu-central-1"
DEFINITION = Path(__file__).parents[2] / "statemachines" / "circuit_breaker.asl.json"
ROLE = "arn:aws:iam::123456789012:role/any"
CONSUMER_SECONDS = 20

POLICY = CircuitPolicy(cooldown=30, cooldown_cap=600, lease=60, ramp=300, pause_consumer=True)

T = TypeVar("T")

Handler = Callable[[Any, Any], Any]


@cache
def client(service: Any) -> Any:
    # Making a client takes longer than a test; moto hooks into all that exist.
    return boto3.client(service, region_name=REGION)


@dataclass(frozen=True)
class Execution:
    """One execution at its end: `visited` are the states in their order."""

    status: str
    visited: list[str]
    retries: int
    history: str

    @property
    def transitions(self) -> int:
        """What Step Functions charges for: each state entered and each retry."""
        return len(self.visited) + self.retries


@dataclass
class Account(OutageHarness):
    """One pipeline. `answers` is what the consumer makes of a canary; `broken` says how often a
    step raises before it works, `changing` how often Lambda is still disabling the mapping."""

    clock: Clock
    random: Random = field(default_factory=lambda: Random(7))
    metrics: Counter[str] = field(default_factory=Counter)
    announced: list[dict[str, Any]] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)
    given: list[dict[str, Any]] = field(default_factory=list)
    permits: list[str] = field(default_factory=list)
    functions: dict[str, Handler] = field(default_factory=dict)
    broken: Counter[str] = field(default_factory=Counter)
    changing: int = 0
    answers: Callable[[dict[str, Any]], Any] = lambda _event: {"batchItemFailures": []}

    def __post_init__(self) -> None:
        names = itertools.count(1)
        self.requests = itertools.count(1)
        self.world = World(
            clock=self.clock,
            wait=self.clock.advance,
            new_id=lambda: f"id{next(names)}",
            random=self.random,
        )

    def build(self) -> None:
        sqs, dynamodb = client("sqs"), client("dynamodb")
        self.main = sqs.create_queue(QueueName="orders")["QueueUrl"]
        self.dlq = sqs.create_queue(QueueName="orders-dlq")["QueueUrl"]
        self.parking = sqs.create_queue(QueueName="orders-parking")["QueueUrl"]
        trust = {
            "Statement": [
                {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}},
            ]
        }
        client("iam").create_role(RoleName="any", AssumeRolePolicyDocument=json.dumps(trust))
        create_tables(dynamodb)
        self.functions |= {
            "circuit": handlers.circuit.handler,
            "probe": handlers.probe.handler,
            "route": handlers.route.handler,
            "consumer": self._consume,
            "redrive": lambda _event, _context: None,
        }
        arns = {name: self._create_function(name) for name in self.functions}
        self.mapping = client("lambda").create_event_source_mapping(
            FunctionName=arns["consumer"],
            EventSourceArn=self.arn(self.main),
            ScalingConfig={"MaximumConcurrency": 50},
        )["UUID"]
        text = DEFINITION.read_text()
        for name in ("circuit", "probe"):
            text = text.replace(f"${{{name.title()}FunctionArn}}", arns[name])
        self.machine = client("stepfunctions").create_state_machine(
            name="circuit-breaker", definition=text, roleArn=ROLE
        )["stateMachineArn"]
        states = client("stepfunctions")
        self.outages = StepFunctionsExecutions(lambda: states, self.machine, "orders")

    def environment(self, **circuit: Any) -> dict[str, str]:
        policy = {
            "cooldown": POLICY.cooldown,
            "cooldown_cap": POLICY.cooldown_cap,
            "lease": POLICY.lease,
            "ramp": POLICY.ramp,
            "pause_consumer": POLICY.pause_consumer,
            **circuit,
        }
        return {
            "PIPELINE": json.dumps({"name": "orders", "circuit": policy, "workers": 1}),
            "MAIN_URL": self.main,
            "MAIN_ARN": self.arn(self.main),
            "DLQ_URL": self.dlq,
            "DLQ_ARN": self.arn(self.dlq),
            "PARKING": json.dumps({"default": self.parking}),
            "MESSAGES_TABLE": LETTERS,
            "MESSAGES_BUCKET": BUCKET,
            "RULES_TABLE": RULES,
            "CIRCUITS_TABLE": CIRCUITS,
            "ROUTER_FUNCTION": "route",
            "CONSUMER_FUNCTION": "consumer",
            "REDRIVE_FUNCTION": "redrive",
            "CONSUMER_MAPPING": self.mapping,
            "CONSUMER_TIMEOUT": str(CONSUMER_SECONDS),
        }

    def arn(self, url: str) -> str:
        answer = client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        return str(answer["Attributes"]["QueueArn"])

    def _create_function(self, name: str) -> str:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("nothing.py", "")
        answer = client("lambda").create_function(
            FunctionName=name,
            Runtime="python3.13",
            Role=ROLE,
            Handler="nothing.handler",
            Code={"ZipFile": packed.getvalue()},
        )
        return str(answer["FunctionArn"])

    def _consume(self, event: dict[str, Any], context: Any) -> Any:
        self.given.append(event)
        self.permits.append(context.client_context["custom"]["deadletter_permit"])
        return self.answers(event)

    def invoke(self, name: str, body: Any, headers: Any, answer: dict[str, str]) -> bytes:
        """What moto's Lambda does instead of nothing: call the handler."""
        name = name.rpartition(":")[2]
        event = json.loads(body or "{}")
        given = headers.get("X-Amz-Client-Context")
        context = SimpleNamespace(
            function_name=name,
            memory_limit_in_mb=512,
            invoked_function_arn=f"arn:aws:lambda:{REGION}:123456789012:function:{name}",
            aws_request_id=str(uuid.UUID(int=next(self.requests))),
            client_context=json.loads(base64.b64decode(given)) if given else None,
            get_remaining_time_in_millis=lambda: 60_000,
        )
        try:
            if self.broken[str(event.get("step", name))] > 0:
                self.broken[str(event.get("step", name))] -= 1
                raise RuntimeError("as planted")
            return json.dumps(self.functions[name](event, context)).encode()
        # Whatever a function raises, Lambda makes an answer of it.
        except Exception as error:
            answer["x-amz-function-error"] = "Unhandled"
            said = {"errorMessage": str(error), "errorType": type(error).__name__}
            return json.dumps(said).encode()

    # What tests do and look at.

    def wiring(self) -> tuple[Pipeline, Resources, Clients, World]:
        return *handlers.runtime.settings(), aws_clients.clients(), self.world

    def force(self, state: State, seconds: float) -> Circuit:
        word = Override(state, "ada", "looks odd", self.clock() + seconds)
        return self.apply(OverrideBegun(word)).circuit

    def run(self, circuit: Circuit) -> Execution:
        """Have the outage of a circuit executed to its end."""
        before = len(TMP_THREADS)
        self.outages.start(circuit.key, circuit.outage, circuit.restart)
        for thread in TMP_THREADS[before : before + 1]:
            thread.join(60)
        return self.ended(circuit)

    def sweep(self) -> None:
        """A run of the watch, and to their ends the executions that its sweep starts."""
        before = len(TMP_THREADS)
        self.watch()
        for thread in TMP_THREADS[before : before + 1]:
            thread.join(60)

    def rerun(self) -> Execution:
        """The execution that the sweep of the watch starts, at its end."""
        self.sweep()
        return self.ended(self.circuit())

    def ended(self, circuit: Circuit) -> Execution:
        name = execution_name("orders", circuit.key, circuit.outage, circuit.restart)
        arn = self.machine.replace(":stateMachine:", ":execution:") + f":{name}"
        events = history(arn)
        entered = [event for event in events if event["type"].endswith("StateEntered")]
        scheduled = sum(event["type"] == "TaskScheduled" for event in events)
        tasks = sum(event["type"] == "TaskStateEntered" for event in events)
        return Execution(
            status=client("stepfunctions").describe_execution(executionArn=arn)["status"],
            visited=[entry["stateEnteredEventDetails"]["name"] for entry in entered],
            retries=scheduled - tasks,
            history=json.dumps(events, default=str),
        )

    def watch(self) -> dict[str, float]:
        """One run of the watch, as each minute begins one; returns the pipeline's figures."""
        watch = watch_for(*self.wiring(), in_parallel=one_by_one, outages=self.outages)
        points = watch.run().points
        return {point.metric: point.value for point in points if point.source is None}

    def disable(self) -> None:
        """An operator disables the consumer's mapping by hand."""
        client("lambda").update_event_source_mapping(UUID=self.mapping, Enabled=False)

    def put(self, url: str, body: str = "{}") -> str:
        return str(client("sqs").send_message(QueueUrl=url, MessageBody=body)["MessageId"])

    def depth(self, url: str) -> int:
        """Messages in a queue, whether visible or not."""
        names = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
        found = client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)
        return sum(int(found["Attributes"][name]) for name in names)

    def consumer_mapping(self) -> tuple[str, int | None]:
        """The mapping's state and limit."""
        found = client("lambda").get_event_source_mapping(UUID=self.mapping)
        return found["State"], (found.get("ScalingConfig") or {}).get("MaximumConcurrency")


def one_by_one(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Takes the steps of the watch one after the other: moto is no place for races."""
    return [call() for call in calls]


class RecordedEvents:
    """An event bus that keeps what was put on it."""

    def __init__(self, account: Account) -> None:
        self._account = account

    def put_events(self, *, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        self._account.announced += [json.loads(entry["Detail"]) for entry in Entries]
        return {"FailedEntryCount": 0, "Entries": [{}]}


_TREES: dict[str, Any] = {}


def history(arn: str) -> list[Any]:
    """The events of an execution, as moto keeps them: its answer to a client takes long."""
    account = arn.split(":")[4]
    backend = stepfunctions_parser_backends[account][REGION]
    return list(backend.get_execution_history(arn)["events"])


class OnceParsed(ASLParser):
    """Parsing a definition takes longer than most tests: each one is parsed once."""

    def state_machine(self) -> Any:
        text = self.getInputStream().tokenSource.inputStream.strdata
        if text not in _TREES:
            tree = super().state_machine()
            if self.getNumberOfSyntaxErrors():
                return tree
            _TREES[text] = tree
        return _TREES[text]


@pytest.fixture(scope="module", autouse=True)
def _definitions_are_parsed_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asl_parser, "ASLParser", OnceParsed)
        yield


@pytest.fixture(scope="module")
def mocked() -> Iterator[Any]:
    """Starting moto takes longer than a test; emptying it doesn't."""
    config: Any = {
        "stepfunctions": {"execute_state_machine": True},
        "lambda": {"use_docker": False},
    }
    with mock_aws(config=config) as mock:
        yield mock


@pytest.fixture
def settings() -> dict[str, Any]:
    """What a test's circuit policy has of its own: override it by parametrizing."""
    return {}


@pytest.fixture
def account(mocked: Any, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]) -> Account:
    clock = Clock()
    built = Account(clock)
    _let_time_pass(monkeypatch, built)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.setenv("POWERTOOLS_LOG_LEVEL", "CRITICAL")
    mocked.reset()
    monkeypatch.setattr(
        LambdaSimpleBackend,
        "invoke",
        lambda _self, name, _qualifier, body, headers, answer: built.invoke(
            name, body, headers, answer
        ),
    )
    described = EventSourceMapping.get_configuration

    def slowly(mapping: EventSourceMapping) -> dict[str, Any]:
        found = described(mapping)
        if built.changing > 0 and found["State"] == "Disabled":
            built.changing -= 1
            found["State"] = "Disabling"
        return found

    monkeypatch.setattr(EventSourceMapping, "get_configuration", slowly)
    monkeypatch.setattr(lambda_eval_utils, "boto_client_for", lambda service, **_: client(service))
    # moto would hand each message of the main queue to the consumer, and drop it.
    monkeypatch.setattr(LambdaSimpleBackend, "send_sqs_batch", lambda *_: False)
    built.build()
    for name, value in built.environment(**settings).items():
        monkeypatch.setenv(name, value)
    _wire(monkeypatch, built)
    return built


def _let_time_pass(monkeypatch: pytest.MonkeyPatch, account: Account) -> None:
    clock = account.clock

    def ticking() -> float:
        # moto shows a message again only after its time, not at it.
        clock.advance(0.001)
        return clock.now

    def wait(_self: Any, env: Any, wait_seconds: int) -> None:
        account.waits.append(wait_seconds)
        clock.advance(wait_seconds)

    monkeypatch.setattr(moto_sqs, "unix_time", ticking)
    monkeypatch.setattr(moto_sqs, "unix_time_millis", lambda: ticking() * 1000)
    monkeypatch.setattr(
        moto_sqs.Queue, "wait_for_messages", lambda _self, seconds: clock.advance(seconds)
    )
    # The time of a mapping's last change.
    monkeypatch.setattr(
        moto_lambda,
        "utcnow",
        lambda: datetime.fromtimestamp(clock.now),  # noqa: DTZ006 - as moto's
    )
    monkeypatch.setattr(WaitFunction, "_wait_interval", wait)
    monkeypatch.setattr(retrier_decl, "time", SimpleNamespace(sleep=clock.advance))


def _wire(monkeypatch: pytest.MonkeyPatch, account: Account) -> None:
    """The handlers in this account: its clients, its world, and an ear for what they count."""
    everything = Clients(
        sqs=client("sqs"),
        sending=client("sqs"),
        dynamodb=client("dynamodb"),
        journal=client("dynamodb"),
        s3=client("s3"),
        functions=client("lambda"),
    )
    lone: Any = RecordedEvents(account)
    outage = aws_clients.OutageClients(
        dynamodb=client("dynamodb"), events=lone, functions=client("lambda")
    )

    def count_metric(name: str, number: int) -> None:
        account.metrics[name] += number

    handlers.runtime.settings.cache_clear()
    handlers.runtime.resources.cache_clear()
    for module in (handlers.circuit, handlers.probe, handlers.route):
        monkeypatch.setattr(module, "world", lambda: account.world)
        monkeypatch.setattr(module, "count_metric", count_metric, raising=False)
        monkeypatch.setattr(module, "clients", lambda *_: everything, raising=False)
        monkeypatch.setattr(module, "router_clients", lambda *_: everything, raising=False)
        monkeypatch.setattr(module, "outage_clients", lambda: outage, raising=False)
    monkeypatch.setattr(aws_clients, "clients", lambda *_: everything)
    monkeypatch.setattr("deadletter.aws.wiring.moving.consumer_call", lambda _: client("lambda"))
    handlers.circuit.steps.cache_clear()
    handlers.probe.prober.cache_clear()
    handlers.route.router.cache_clear()
