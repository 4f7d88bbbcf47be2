"""An AWS account in memory that holds what a synthesis describes, minute by minute.

Queues, tables, functions, schedules and alarms are those of the templates; the functions are
the real handlers, each with module state of its own, as in a process of its own. Time passes
only here. CloudWatch gets its datapoints without delay; in AWS, SQS's own are up to two
minutes late.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import json
import logging
import re
import sys
import traceback
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from types import ModuleType, SimpleNamespace
from typing import Any

from deadletter.aws.metrics import CloudWatchHeartbeats
from deadletter.aws.wiring.judging import FirstHeartbeats
from deadletter.aws.wiring.world import World
from deadletter.testing.clock import START, Clock
from deadletter.testing.fakes import MemoryDynamoDB, MemoryLambda, MemoryS3, MemorySqs, client_error
from deadletter.testing.fakes.lambda_ import Context
from tests.infra.templates import PSEUDO, Synthesis, filled
from tests.scenarios.cloudwatch import CloudWatch

MINUTE = 60.0
HOUR = 60 * MINUTE
DAY = 24 * HOUR

# Ten years on, so that a timestamp of the machine's own clock is told apart from a simulated one;
# on a full minute, as the periods of alarms are.
BEGIN = (START + 3_650 * DAY) // MINUTE * MINUTE
# CloudWatch takes embedded metrics of two hours to come.
FURTHEST_STAMP = 2 * HOUR

PLACE = f"{PSEUDO['AWS::Region']}:{PSEUDO['AWS::AccountId']}"
RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")
MINUTES = {"minute": 1, "hour": 60, "day": 1_440}
MACHINE = Path(__file__).parents[2] / "statemachines" / "circuit_breaker.asl.json"
ALARM = "AWS::CloudWatch::Alarm"
FIRST_HEARTBEAT = "Custom::FirstHeartbeat"


@dataclass(eq=False)
class Function:
    """One function of a template; `sender` is what SQS notes of the messages it sends."""

    name: str
    handler: str
    timeout: float
    environment: Mapping[str, str]
    sender: str
    module: ModuleType | None = None

    def loaded(self, clock: Clock) -> Any:
        """The handler, in a module of this function's own."""
        name, _, attribute = self.handler.rpartition(".")
        if self.module is None:
            self.module = _load(name, self.environment, clock)
        return getattr(self.module, attribute)


@dataclass(frozen=True)
class Schedule:
    """A schedule of a template: `every` in minutes."""

    name: str
    every: int
    function: str
    event: Mapping[str, Any]
    enabled: bool


@dataclass(frozen=True)
class Fault:
    """Calls that AWS refuses with `code`, of the function whose name ends so, or of all."""

    service: str
    operations: frozenset[str]
    code: str
    function: str = ""
    about: Callable[[Mapping[str, Any]], bool] = lambda _arguments: True


@dataclass
class Execution:
    """One execution of the circuit breaker's machine, and when it goes on."""

    prefix: str
    data: dict[str, Any]
    state: str
    wakes_at: float


class Account:
    """An account to `deploy` synthesized apps into; `minutes` and `tick` let time pass.

    Of each app only the named pipelines are deployed. `phase` is the minute in which the
    schedules begin.
    """

    def __init__(self, *, pipelines: Sequence[str], phase: int = 0) -> None:
        self.pipelines = frozenset(pipelines)
        self.clock = Clock(BEGIN)
        self.began = BEGIN
        self.phase = phase
        self.cloudwatch = CloudWatch()
        numbers = Random(3)
        self.new_id = lambda: str(uuid.UUID(int=numbers.getrandbits(128), version=4))
        place = {"region": PSEUDO["AWS::Region"], "account_id": PSEUDO["AWS::AccountId"]}
        self.sqs = MemorySqs(self.clock, self.new_id, on_wait=self.clock.advance, **place)
        self.dynamodb = MemoryDynamoDB(self.clock, lagging_indexes=False)
        self.s3 = MemoryS3(self.clock)
        self.functions: dict[str, Function] = {}
        self.schedules: list[Schedule] = []
        self.faults: list[Fault] = []
        self.throttled: set[str] = set()
        self.errors: list[str] = []
        self.invocations: Counter[str] = Counter()
        self.reports: list[Any] = []
        self.executions: dict[str, Execution] = {}
        self.taken: set[str] = set()
        self.probing = True
        self.mapping_enabled = True
        self.rule_checker = {"State": "Enabled", "LastProcessingResult": "OK"}
        self.mapping_changed_at = BEGIN - DAY
        self.mapping_tags: dict[str, str] = {}
        self.each_minute: list[Callable[[], object]] = []
        self.canary: Callable[[Any], Any] = lambda event: {"batchItemFailures": []}
        self._pending: list[tuple[str, Any]] = []
        self._senders: dict[str, MemorySqs] = {}
        self._judged_until = BEGIN

    # Deployment.

    def deploy(self, synthesis: Synthesis) -> None:
        """Create what the templates describe; the queues that they bring must exist."""
        app = next(_tag(queue, "app") for _, queue in synthesis.of("AWS::SQS::Queue"))
        for _, table in synthesis.of("AWS::DynamoDB::Table"):
            self._create_table(table["Properties"])
        wanted = {None, *self.pipelines}
        for stack in synthesis.stacks.values():
            tagged = [*stack.of("AWS::SQS::Queue").values(), *stack.of(ALARM).values()]
            if not all(_tag(resource, "pipeline") in wanted for resource in tagged):
                continue
            queues = [queue["Properties"] for queue in stack.of("AWS::SQS::Queue").values()]
            arns = {
                f"<{key}.Arn>": self.queue_arn(queue["Properties"]["QueueName"])
                for key, queue in stack.of("AWS::SQS::Queue").items()
            }
            for properties in sorted(queues, key=lambda queue: "RedrivePolicy" in queue):
                self._create_queue(filled(properties), arns)
            names = {
                f"<{key}.Arn>": filled(function["Properties"]["FunctionName"])
                for key, function in stack.of("AWS::Lambda::Function").items()
            }
            for function in stack.of("AWS::Lambda::Function").values():
                self._create_function(function["Properties"])
            for schedule in stack.of("AWS::Scheduler::Schedule").values():
                self._create_schedule(filled(schedule["Properties"]), names)
            for alarm in stack.of(ALARM).values():
                self.cloudwatch.add_alarm(filled(alarm["Properties"]))
        for stack in synthesis.stacks.values():
            for resource in stack.of(FIRST_HEARTBEAT).values():
                if resource["Properties"]["Pipeline"] in self.pipelines:
                    self._write_first_heartbeat(app, resource["Properties"])
        bucket = f"{app}-messages-{PSEUDO['AWS::AccountId']}-{PSEUDO['AWS::Region']}"
        self.s3.create_bucket(Bucket=bucket)

    def _create_table(self, properties: Mapping[str, Any]) -> None:
        wanted = (
            "TableName",
            "AttributeDefinitions",
            "KeySchema",
            "BillingMode",
            "GlobalSecondaryIndexes",
        )
        self.dynamodb.create_table(
            **{name: properties[name] for name in wanted if name in properties},
        )

    def _create_queue(self, properties: dict[str, Any], arns: Mapping[str, str]) -> None:
        name = properties.pop("QueueName")
        properties.pop("Tags", None)
        attributes = {}
        for key, value in properties.items():
            if key == "RedrivePolicy":
                value = {**value, "deadLetterTargetArn": arns[value["deadLetterTargetArn"]]}
            text = value if isinstance(value, str) else json.dumps(value)
            attributes[key] = text
        self.sqs.create_queue(QueueName=name, Attributes=attributes)

    def _create_function(self, properties: Mapping[str, Any]) -> None:
        variables = properties.get("Environment", {}).get("Variables", {})
        environment = {key: filled(value) for key, value in variables.items()}
        name = filled(properties["FunctionName"])
        role = filled(properties["Role"]).replace(".Arn>", ".RoleId>")
        self.functions[name] = Function(
            name=name,
            handler=properties["Handler"],
            timeout=properties["Timeout"],
            environment=environment,
            sender=f"{role}:{name}",
        )

    def _create_schedule(self, properties: Mapping[str, Any], names: Mapping[str, str]) -> None:
        rate = RATE.fullmatch(properties["ScheduleExpression"])
        assert rate is not None, properties["ScheduleExpression"]
        self.schedules.append(
            Schedule(
                name=properties["Name"],
                every=int(rate[1]) * MINUTES[rate[2]],
                function=names[properties["Target"]["Arn"]],
                event=json.loads(properties["Target"].get("Input", "{}")),
                enabled=properties.get("State", "ENABLED") == "ENABLED",
            )
        )
        # A run of the redriver may wait; the watch begins on time.
        self.schedules.sort(key=lambda schedule: not schedule.function.endswith("-watch"))

    def _write_first_heartbeat(self, app: str, properties: Mapping[str, Any]) -> None:
        """Do as CloudFormation does, which goes on when it has the answer."""
        name = filled(properties["ServiceToken"]).rpartition(":")[2]
        assert name in self.functions, name
        answers: list[Any] = []
        world = World(self.clock, self.clock.advance, self.new_id, Random(5))
        metrics: Any = _Metrics(self)
        resource = FirstHeartbeats(
            CloudWatchHeartbeats(metrics, app),
            lambda _address, answer: answers.append(json.loads(answer)),
            world,
        )
        request = {"RequestType": "Create", "StackId": "s", "RequestId": "r"}
        request |= {"LogicalResourceId": "l", "ResponseURL": "https://answer.example"}
        resource.handle({**request, "ResourceProperties": properties}, self.clock() + 240)
        [answer] = answers
        assert (answer["Status"], answer["Reason"]) == ("SUCCESS", "first heartbeat: shown")

    def bring_queue(self, name: str, **attributes: str) -> str:
        """Create a queue that the customer brings. Returns its URL."""
        self.sqs.create_queue(QueueName=name, Attributes=attributes)
        return self.queue_url(name)

    @staticmethod
    def queue_arn(name: str) -> str:
        return f"arn:aws:sqs:{PSEUDO['AWS::Region']}:{PSEUDO['AWS::AccountId']}:{name}"

    @staticmethod
    def queue_url(name: str) -> str:
        region, account = PSEUDO["AWS::Region"], PSEUDO["AWS::AccountId"]
        return f"https://sqs.{region}.amazonaws.com/{account}/{name}"

    # Time.

    @property
    def elapsed(self) -> float:
        """Seconds since the deployment."""
        return self.clock() - self.began

    def minutes(self, number: float) -> None:
        """Let minutes pass, one at a time."""
        for _ in range(int(number)):
            self.tick()

    def tick(self, step: int = 1) -> None:
        """Let `step` minutes pass: what is due runs once, in the last of them.

        With more than one minute, alarms see only that minute: for times in which nothing
        is to be heard. An alarm for which silence is trouble is not judged then.
        """
        begin = self._judged_until + (step - 1) * MINUTE
        end = begin + MINUTE
        first = round((self._judged_until - self.began) / MINUTE)
        self.clock.now = max(self.clock.now, begin + 1)
        for schedule in self.schedules:
            since = first - self.phase
            if schedule.enabled and -(-since // schedule.every) * schedule.every < since + step:
                self.start(schedule.function, schedule.event)
        for script in self.each_minute:
            script()
        self._play(end)
        self.clock.now = max(self.clock.now, end - 1)
        self._publish_queues(end - 1)
        self.cloudwatch.judge(end, after_a_leap=step > 1)
        self._judged_until = end

    def _publish_queues(self, at: float) -> None:
        for name, measure in self.sqs.measures().items():
            for metric, value in (
                ("ApproximateNumberOfMessagesVisible", measure.visible),
                ("ApproximateNumberOfMessagesNotVisible", measure.not_visible),
                ("ApproximateAgeOfOldestMessage", measure.age),
            ):
                self.cloudwatch.put("AWS/SQS", metric, {"QueueName": name}, value, at)

    # Functions.

    def start(self, name: str, event: Mapping[str, Any]) -> Any:
        """Invoke a function as a schedule does; returns its answer, None if it failed."""
        answer = None
        with contextlib.suppress(Exception):
            answer = self.invoke(name, event)
        while self._pending:
            function, waiting = self._pending.pop(0)
            with contextlib.suppress(Exception):
                self.invoke(function, waiting)
        return answer

    def invoke(self, name: str, event: Mapping[str, Any], client_context: Any = None) -> Any:
        """Run a function to its end, and publish what Lambda and the function itself count."""
        function = self.functions[name]
        self.invocations[name] += 1
        if name in self.throttled:
            self._count(name, "Throttles", 1)
            raise client_error("Invoke", "TooManyRequestsException", "no concurrency", status=429)
        began = self.clock()
        context = Context(
            self.clock,
            began + function.timeout,
            client_context,
            function_name=name,
            aws_request_id=self.new_id(),
            invoked_function_arn=f"arn:aws:lambda:::function:{name}",
        )
        output = io.StringIO()
        RUNNING.append((self, function))
        self._count(name, "Invocations", 1)
        failed = 1
        try:
            with contextlib.redirect_stdout(output):
                answer = function.loaded(self.clock)(dict(event), context)
            failed = 0
        except Exception:
            self.errors.append(traceback.format_exc())
            raise
        finally:
            RUNNING.pop()
            self._count(name, "Errors", failed)
            self._count(name, "Duration", (self.clock() - began) * 1_000)
            self._publish_embedded(output.getvalue())
        if name.endswith("-redrive"):
            self.reports.append(answer)
        return answer

    def _count(self, name: str, metric: str, value: float) -> None:
        self.cloudwatch.put("AWS/Lambda", metric, {"FunctionName": name}, value, self.clock())

    def _publish_embedded(self, output: str) -> None:
        now = self.clock()
        for line in output.splitlines():
            if '"CloudWatchMetrics"' not in line:
                continue
            document = json.loads(line)
            stamp = document["_aws"]["Timestamp"] / 1_000
            at = stamp if abs(stamp - now) <= FURTHEST_STAMP else now
            for directive in document["_aws"]["CloudWatchMetrics"]:
                for dimensions in directive["Dimensions"]:
                    named = {name: document[name] for name in dimensions}
                    for metric in directive["Metrics"]:
                        values = document[metric["Name"]]
                        for value in values if isinstance(values, list) else [values]:
                            self.cloudwatch.put(
                                directive["Namespace"], metric["Name"], named, float(value), at
                            )

    def later(self, name: str, event: Any) -> None:
        """Invoke a function asynchronously: when the one that asks has ended."""
        self._pending.append((name, event))

    # Faults.

    @contextlib.contextmanager
    def fault(self, *faults: Fault) -> Iterator[None]:
        """AWS refuses these calls meanwhile."""
        self.faults += faults
        try:
            yield
        finally:
            for fault in faults:
                self.faults.remove(fault)

    def refuse(
        self, function: str, service: str, operation: str, arguments: Mapping[str, Any]
    ) -> None:
        """Raise the error of a fault that is about this call."""
        for fault in self.faults:
            if (
                fault.service == service
                and operation in fault.operations
                and function.endswith(fault.function)
                and fault.about(arguments)
            ):
                camel = "".join(part.title() for part in operation.split("_"))
                raise client_error(camel, fault.code, "refused by the scenario")

    def client(self, service: str, function: Function) -> Any:
        """What a function's client of a service talks to."""
        if service == "sqs":
            twin = self._senders.get(function.name)
            if twin is None:
                twin = self._senders[function.name] = self.sqs.as_sender(function.sender)
            return twin
        made: dict[str, Any] = {
            "dynamodb": self.dynamodb,
            "s3": self.s3,
            "lambda": _Lambda(self),
            "stepfunctions": _StepFunctions(self, function),
            "events": _Events(),
            "cloudwatch": _Metrics(self),
        }
        return made[service]

    # Outages.

    def _play(self, end: float) -> None:
        """Let executions go on until the minute's end, unless they are to wait."""
        if not self.probing:
            return
        states = json.loads(MACHINE.read_text())["States"] if self.executions else {}
        for name, execution in list(self.executions.items()):
            while name in self.executions and execution.wakes_at < end:
                self.clock.now = max(self.clock.now, execution.wakes_at)
                self._step(name, execution, states[execution.state])

    def _step(self, name: str, execution: Execution, state: Mapping[str, Any]) -> None:
        following = state.get("Next", "")
        match state["Type"]:
            case "Task":
                role = "probe" if "Probe" in state["Parameters"]["FunctionName"] else "circuit"
                payload = state["Parameters"]["Payload"]
                event = {"step": payload["step"], "outage": execution.data}
                answer = self.start(f"{execution.prefix}-{role}", event)
                if answer is None:
                    following = state["Catch"][0]["Next"]
                else:
                    execution.data = {**execution.data, "circuit": answer}
            case "Choice":
                word = execution.data["circuit"]["next"]
                choices = {c["StringEquals"]: c["Next"] for c in state["Choices"]}
                following = choices.get(word, state["Default"])
            case "Wait":
                wait = execution.data["circuit"]["wait_seconds"]
                execution.wakes_at = self.clock() + wait
            case _:
                del self.executions[name]
        execution.state = following


class _Lambda:
    """Lambda as the functions see it: invocations, and the consumer's mapping."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self.exceptions = MemoryLambda.exceptions

    def invoke(self, **arguments: Any) -> dict[str, Any]:
        name = arguments["FunctionName"].rpartition(":")[2]
        event = json.loads(arguments.get("Payload") or b"{}")
        if arguments.get("InvocationType") == "Event":
            self._account.later(name, event)
            return {"StatusCode": 202}
        if name in self._account.throttled:
            self._account.invoke(name, event)
        lambda_ = MemoryLambda(self._account.clock, self._account.new_id)
        lambda_.register(
            name,
            (lambda event, _context: self._account.canary(event))
            if name not in self._account.functions
            else lambda event, context: self._account.invoke(name, event, context.client_context),
        )
        return lambda_.invoke(**{**arguments, "FunctionName": name})

    def list_event_source_mappings(self, **arguments: str) -> dict[str, Any]:
        assert arguments["FunctionName"].endswith("-check-rules")
        app = arguments["FunctionName"].removesuffix("-check-rules")
        stream = f"arn:aws:dynamodb:::table/{app}-rules/stream/1"
        checker = {"UUID": "checker", "EventSourceArn": stream, **self._account.rule_checker}
        return {"EventSourceMappings": [checker]}

    def get_event_source_mapping(self, **arguments: str) -> dict[str, Any]:
        enabled, uuid = self._account.mapping_enabled, arguments["UUID"]
        return {
            "UUID": uuid,
            "State": "Enabled" if enabled else "Disabled",
            "EventSourceMappingArn": f"arn:aws:lambda:{PLACE}:event-source-mapping:{uuid}",
            "LastModified": datetime.fromtimestamp(self._account.mapping_changed_at, UTC),
        }

    def list_tags(self, **arguments: str) -> dict[str, Any]:
        return {"Tags": dict(self._account.mapping_tags)}

    def tag_resource(self, **arguments: Any) -> dict[str, Any]:
        self._account.mapping_tags |= arguments["Tags"]
        return {}

    def untag_resource(self, **arguments: Any) -> dict[str, Any]:
        for key in arguments["TagKeys"]:
            self._account.mapping_tags.pop(key, None)
        return {}

    def update_event_source_mapping(self, **arguments: Any) -> dict[str, Any]:
        self._account.mapping_enabled = arguments.get("Enabled", self._account.mapping_enabled)
        self._account.mapping_changed_at = self._account.clock()
        return self.get_event_source_mapping(UUID=arguments["UUID"])


class _StepFunctions:
    """Step Functions as the functions see it."""

    def __init__(self, account: Account, function: Function) -> None:
        self._account = account
        self._function = function

    def start_execution(self, **arguments: str) -> dict[str, Any]:
        name = arguments["name"]
        if name in self._account.taken:
            raise client_error("StartExecution", "ExecutionAlreadyExists", "taken")
        self._account.taken.add(name)
        prefix = self._function.name.rpartition("-")[0]
        self._account.executions[name] = Execution(
            prefix, json.loads(arguments["input"]), "Announce", self._account.clock()
        )
        return {"executionArn": name}

    def list_executions(self, **arguments: Any) -> dict[str, Any]:
        return {"executions": [{"name": name} for name in self._account.executions]}


class _Events:
    def put_events(self, **arguments: Any) -> dict[str, Any]:
        return {"FailedEntryCount": 0, "Entries": [{} for _ in arguments["Entries"]]}


class _Metrics:
    """CloudWatch as the functions see it."""

    def __init__(self, account: Account) -> None:
        self._account = account

    def put_metric_data(self, **arguments: Any) -> dict[str, Any]:
        for datum in arguments["MetricData"]:
            self._account.cloudwatch.put(
                arguments["Namespace"],
                datum["MetricName"],
                _named(datum["Dimensions"]),
                datum["Value"],
                datum["Timestamp"].timestamp(),
            )
        return {}

    def get_metric_data(self, **arguments: Any) -> dict[str, Any]:
        begin, end = (arguments[key].timestamp() for key in ("StartTime", "EndTime"))
        results = []
        for query in arguments["MetricDataQueries"]:
            metric = query["MetricStat"]["Metric"]
            points = self._account.cloudwatch.points(
                metric["Namespace"],
                metric["MetricName"],
                _named(metric["Dimensions"]),
                begin,
                end,
            )
            newest = [*reversed(points)]
            results.append(
                {
                    "Id": query["Id"],
                    "Timestamps": [
                        datetime.fromtimestamp(point["Timestamp"], UTC) for point in newest
                    ],
                    "Values": [point["Value"] for point in newest],
                }
            )
        return {"MetricDataResults": results}


def _named(dimensions: Sequence[Mapping[str, str]]) -> dict[str, str]:
    return {dimension["Name"]: dimension["Value"] for dimension in dimensions}


RUNNING: list[tuple[Account, Function]] = []
"""The invocations under way, the innermost last."""


class Client:
    """A boto3 client that belongs to the function that is running."""

    def __init__(self, service: str) -> None:
        self._service = service

    def close(self) -> None:
        """Close its connections: it has none."""

    def __getattr__(self, operation: str) -> Any:
        account, function = RUNNING[-1]
        attribute = getattr(account.client(self._service, function), operation)
        if not callable(attribute):
            return attribute

        def call(*names: str, **arguments: Any) -> Any:
            account.refuse(function.name, self._service, operation, arguments)
            return attribute(*names, **arguments)

        return call


def _tag(resource: Mapping[str, Any], key: str) -> str | None:
    tags = {tag["Key"]: tag["Value"] for tag in resource["Properties"]["Tags"]}
    return tags.get(key)


def _load(name: str, environment: Mapping[str, str], clock: Clock) -> ModuleType:
    """A copy of a handler's module, beside copies of what it shares with the other handlers.

    They find an environment, a clock, ids and randomness of their own.
    """
    numbers = itertools.count(1)
    own: Mapping[str, Any] = {
        "os": SimpleNamespace(environ=environment),
        "time": SimpleNamespace(time=clock, sleep=clock.advance),
        "uuid": SimpleNamespace(uuid4=lambda: SimpleNamespace(hex=f"run{next(numbers)}")),
        "SystemRandom": lambda: Random(7),
    }
    before = _take_handlers()
    try:
        module = importlib.import_module(name)
    finally:
        copies = _take_handlers()
        sys.modules.update(before)
    for copy in copies.values():
        for attribute in own.keys() & vars(copy).keys():
            setattr(copy, attribute, own[attribute])
    if hasattr(module, "logger"):
        # The one of its name is that of other tests too.
        module.logger = logging.getLogger(__name__)
        module.logger.setLevel(logging.CRITICAL)
    return module


def _take_handlers() -> dict[str, ModuleType]:
    """The handlers' modules that are imported; from now on they are not."""
    names = [name for name in sys.modules if name.partition(".")[0] == "handlers"]
    return {name: sys.modules.pop(name) for name in names}
