"""The circuit breaker: a state machine that runs each outage, and the two functions it calls."""

from __future__ import annotations

from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from deadletter.contract import Mode, Variable

from .consumer import ConsumerFunction
from .duration import MINUTE
from .encryption import grant_key
from .function import FunctionRole, PythonFunction, function_arn, grant_invoke
from .names import Names
from .permissions import Permissions, grant_put_events
from .queues import Parts
from .state_machine import add_state_machine

DEFINITION = "circuit_breaker.asl.json"

# The state machine waits 60 seconds for a step: the function has to end before.
STEP_TIMEOUT = 50

# Seconds of the probe beside the consumer's timeout: to find a letter, asking the router for
# each candidate, and to put the letter back.
LOOKING = 2 * MINUTE

# Lambda's limit.
LONGEST_TIMEOUT = 15 * MINUTE

MEMORY = 256


def probe_timeout(consumer_timeout: int) -> int:
    """Seconds that the probe may take, with a consumer function that may take so many (or 0)."""
    return min(LONGEST_TIMEOUT, consumer_timeout + LOOKING)


class CircuitBreaker(Construct):
    """The state machine of one pipeline's outages, the circuit function and the probe.

    Without a Lambda function that consumes (`consumer` is None), no consumer is paused. A
    canary then goes through the main queue, if the consumer uses the consumer library:
    `sender` is the unique id of the role that sends it, else None. The circuit function has the
    watch's role, `keeper`.
    """

    state_machine: sfn.StateMachine
    circuit: lambda_.Function
    probe: lambda_.Function
    sender: str | None

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        parts: Parts,
        *,
        consumer: ConsumerFunction | None,
        keeper: FunctionRole,
    ) -> None:
        super().__init__(scope, construct_id)
        settings, app, self._storage, self._queues = parts
        self._settings, self._app, self._consumer = settings, app, consumer
        self._names = Names(app.app, settings.name)
        self._sends_canaries = (
            consumer is None and settings.consumer_library and settings.mode == Mode.ENFORCE
        )
        self.sender = None
        self.circuit = self._circuit_function(keeper)
        self.probe = self._probe_function()
        self.state_machine = self._state_machine()

    def _circuit_function(self, keeper: FunctionRole) -> lambda_.Function:
        consumer, storage = self._consumer, self._storage
        pauses = consumer is not None and bool(consumer.mapping_id)
        function = PythonFunction(
            self,
            "Circuit",
            name=self._names.function("circuit"),
            handler="handlers.circuit.handler",
            description=f"Announces the outages of {self._settings.name}, and pauses its consumer",
            timeout=STEP_TIMEOUT,
            memory=MEMORY,
            settings=self._settings,
            app=self._app,
            permissions=Permissions(),
            role=keeper,
            variables={
                Variable.CIRCUITS_TABLE: storage.circuits.table_name,
                **({Variable.CONSUMER_MAPPING: consumer.mapping_id} if consumer and pauses else {}),
            },
        )
        return function.function

    def _probe_function(self) -> lambda_.Function:
        settings, app, consumer = self._settings, self._app, self._consumer
        storage = self._storage
        health = settings.circuit.health_url
        takes = consumer is not None or self._sends_canaries
        # The result of a canary that goes through the main queue is looked up later.
        timeout = probe_timeout(consumer.timeout if consumer else 0)
        permissions = Permissions()
        storage.grant_circuits(permissions, settings.name, writes=True)
        if takes:
            self._grant_canaries(permissions)
        grant_put_events(permissions)
        services = ("sqs", "dynamodb", "s3") if takes else ("dynamodb",)
        grant_key(permissions, app, services=services, writes=True)
        function = PythonFunction(
            self,
            "Probe",
            name=self._names.function("probe"),
            handler="handlers.probe.handler",
            description=f"Sends the canaries of {settings.name} to its consumer",
            timeout=timeout,
            memory=MEMORY,
            settings=settings,
            app=app,
            permissions=permissions,
            variables={
                Variable.CIRCUITS_TABLE: storage.circuits.table_name,
                **({Variable.HEALTH_URL: health} if health else {}),
                **(self._sources(consumer) if takes else {}),
            },
        )
        if self._sends_canaries:
            self.sender = function.sender
        if takes:
            storage.acknowledge_bodies(function, settings.name)
        return function.function

    def _sources(self, consumer: ConsumerFunction | None) -> dict[str, str]:
        """The sources of canaries, and the consumer that tries them."""
        queues = self._queues
        return {
            Variable.MAIN_URL: queues.main.url,
            Variable.MAIN_ARN: queues.main.arn,
            Variable.DLQ_URL: queues.dlq.url,
            Variable.DLQ_ARN: queues.dlq.arn,
            Variable.MESSAGES_TABLE: self._storage.messages.table_name,
            Variable.MESSAGES_BUCKET: self._storage.bucket_name,
            Variable.ROUTER_FUNCTION: self._names.function("route"),
            **({Variable.CONSUMER_FUNCTION: consumer.arn} if consumer else {}),
            Variable.CONSUMER_TIMEOUT: str(self._settings.consumer.timeout),
        }

    def _grant_canaries(self, permissions: Permissions) -> None:
        """Take one letter out of a queue or the waiting room, and have the router judge it. A
        consumer function is invoked with it; else it is sent to the main queue, and its outcome
        is read from the ledger.
        """
        storage, pipeline, consumer = self._storage, self._settings.name, self._consumer
        self._queues.grant_take_canary(permissions, sends=self._sends_canaries)
        if self._settings.consumer_library:
            # Whether a letter failed by its own fault.
            storage.grant_read_ledger(permissions, pipeline)
        storage.grant_take_canary(permissions, pipeline)
        # A letter that moves into the circuit's lane may be large.
        storage.grant_bodies(permissions, pipeline, writes=True)
        router = function_arn(self._app, pipeline, "route")
        functions = [router, consumer.arn] if consumer else [router]
        grant_invoke(permissions, "Functions", *functions)

    def _state_machine(self) -> sfn.StateMachine:
        return add_state_machine(
            self,
            name=self._names.circuit_breaker,
            comment=f"The outages of {self._settings.name}",
            definition=DEFINITION,
            substitutions={
                "CircuitFunctionArn": self.circuit.function_arn,
                "ProbeFunctionArn": self.probe.function_arn,
            },
            app=self._app,
            because="what goes well is in the history, which is kept for 90 days, and in the"
            " functions' logs; the names of dependencies may say something of customers",
        )
