"""Replay runs: a state machine that orders their steps, and the function that takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from deadletter.contract import Variable

from .consumer import ConsumerFunction
from .duration import MINUTE
from .function import FunctionRole, PythonFunction, function_arn, grant_invoke
from .machines import outage_machine_arn, replay_machine_arn
from .names import Names
from .permissions import Permissions, grant_put_events
from .queues import Parts
from .state_machine import add_state_machine

DEFINITION = "replay.asl.json"

# Lambda's limit: a snapshot and a step of work end themselves before.
TIMEOUT = 15 * MINUTE

# A worker has the parts of the manifest that it works on, and a chunk of letters.
MEMORY = 1024


class ReplayMachine(Construct):
    """The state machine of one pipeline's replay runs, and its function.

    The function has the redriver's role, `mover`, to which this adds what runs take beside it.
    """

    state_machine: sfn.StateMachine
    trust: Callable[[Sequence[str]], None]

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        parts: Parts,
        *,
        consumer: ConsumerFunction | None,
        mover: FunctionRole,
    ) -> None:
        super().__init__(scope, construct_id)
        settings, app, storage, queues = parts
        names = Names(app.app, settings.name)
        machine = replay_machine_arn(app, settings.name)
        health = settings.circuit.health_url
        permissions = Permissions()
        storage.grant_replays(permissions, settings.name)
        storage.grant_originals(permissions, settings.name)
        router = function_arn(app, settings.name, "route")
        functions = [router, consumer.arn] if consumer else [router]
        grant_invoke(permissions, "Functions", *functions)
        # To go on in a new execution, and to answer an approval that came before its question.
        permissions.allow("Replays", ["states:StartExecution", "states:SendTaskSuccess"], [machine])
        grant_put_events(permissions)
        function = PythonFunction(
            self,
            "Replay",
            name=names.function("replay"),
            handler="handlers.replay.handler",
            description=f"Takes the steps of the runs of {settings.name}",
            timeout=TIMEOUT,
            memory=MEMORY,
            settings=settings,
            app=app,
            permissions=permissions,
            role=mover,
            variables={
                **queues.variables(),
                Variable.MESSAGES_TABLE: storage.messages.table_name,
                Variable.MESSAGES_BUCKET: storage.bucket_name,
                Variable.CIRCUITS_TABLE: storage.circuits.table_name,
                Variable.ROUTER_FUNCTION: names.function("route"),
                Variable.CIRCUIT_MACHINE: outage_machine_arn(app, settings.name),
                Variable.REPLAY_MACHINE: machine,
                **({Variable.CONSUMER_FUNCTION: consumer.arn} if consumer else {}),
                Variable.CONSUMER_TIMEOUT: str(settings.consumer.timeout),
                **({Variable.HEALTH_URL: health} if health else {}),
                Variable.REPLAY_DAYS: str(app.replay_days),
            },
        )
        storage.acknowledge_replays(mover.construct, settings.name)
        self.trust = function.trust
        self.state_machine = add_state_machine(
            self,
            name=names.replay_machine,
            comment=f"The runs of {settings.name}",
            definition=DEFINITION,
            substitutions={"ReplayFunctionArn": function.function.function_arn},
            app=app,
            because="what goes well is in the history, which is kept for 90 days, in the"
            " function's logs and in the run's report",
        )
