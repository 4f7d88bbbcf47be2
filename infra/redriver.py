"""The redriver: it moves letters once a minute, as the router decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from deadletter.contract import MAIN_DLQ, Variable

from .duration import MINUTE
from .encryption import grant_key
from .function import FunctionRole, PythonFunction, function_arn, grant_invoke
from .machines import grant_start_outages, outage_machine_arn
from .names import Names
from .permissions import Permissions
from .queues import Parts
from .schedule import add_schedule


class RedriverFunction(Construct):
    """The function that moves letters, and its schedules.

    `mover` is its role, which replay runs share: they move the same letters between the same
    queues. `sender` is the unique id of that role, which SQS shows in what it sends.
    """

    function: lambda_.Function
    mover: FunctionRole
    sender: str
    trust: Callable[[Sequence[str]], None]

    def __init__(self, scope: Construct, construct_id: str, parts: Parts) -> None:
        super().__init__(scope, construct_id)
        settings, app, storage, queues = parts
        names = Names(app.app, settings.name)
        permissions = Permissions()
        queues.grant_send(permissions)
        queues.grant_drain(permissions)
        queues.grant_park(permissions, drains=True)
        storage.grant_move_letters(permissions, settings.name)
        # Where no consumer reports its failures, letters that come back are counted as such, and
        # can open the circuit.
        reports = not settings.consumer_library and settings.circuit_key is None
        storage.grant_circuits(permissions, settings.name, writes=reports)
        storage.grant_bodies(permissions, settings.name, writes=True)
        storage.grant_find_bodies(permissions, settings.name)
        storage.grant_edit_letters(permissions, settings.name)
        grant_invoke(permissions, "Router", function_arn(app, settings.name, "route"))
        # The other shards of a drain are runs of this function, and so is the next one.
        grant_invoke(permissions, "Drain", function_arn(app, settings.name, "redrive"))
        if reports:
            grant_start_outages(permissions, app, settings.name)
        grant_key(permissions, app, services=("sqs", "dynamodb", "s3"), writes=True)
        self.mover = FunctionRole(
            self,
            "Mover",
            description=f"Moves messages of {settings.name}: automatic retry, and runs",
            permissions=permissions,
        )
        function = PythonFunction(
            self,
            "Redrive",
            name=names.function("redrive"),
            handler="handlers.redrive.handler",
            description=f"Moves the messages of {settings.name} as the router decides",
            timeout=settings.redrive.timeout,
            memory=settings.redrive.memory,
            settings=settings,
            app=app,
            permissions=permissions,
            begins_traces=False,
            role=self.mover,
            variables={
                **queues.variables(),
                Variable.MESSAGES_TABLE: storage.messages.table_name,
                Variable.MESSAGES_BUCKET: storage.bucket_name,
                Variable.CIRCUITS_TABLE: storage.circuits.table_name,
                Variable.ROUTER_FUNCTION: names.function("route"),
                Variable.REDRIVE_FUNCTION: names.function("redrive"),
                Variable.CIRCUIT_MACHINE: outage_machine_arn(app, settings.name),
            },
        )
        # A run that comes late would meet the next one.
        function.retry_in_the_next_minute(
            because="a run that failed lost nothing, and the next one starts within a minute"
        )
        storage.acknowledge_bodies(self.mover.construct, settings.name)
        storage.acknowledge_edits(self.mover.construct, settings.name)
        self.function, self.sender = function.function, function.sender
        self.trust = function.trust
        add = partial(
            add_schedule, Construct(self, "Schedules"), function=function.function, app=app
        )
        add(
            "Dlq",
            name=names.schedule(),
            description=f"Drains {MAIN_DLQ}",
            event={"source": MAIN_DLQ},
            every=int(settings.redrive.every),
        )
        for id_, drained in settings.dedicated.items():
            add(
                f"Dlq_{id_}",
                name=names.schedule(id_),
                description=f"Drains {id_}",
                event={"source": id_},
                every=MINUTE,
                enabled=drained,
            )
