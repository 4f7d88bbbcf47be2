"""The watch: it looks at everything once a minute, whatever the redriver's schedule says."""

from __future__ import annotations

from constructs import Construct

from deadletter.contract import Variable, rule_checker

from .consumer import ConsumerFunction
from .duration import MINUTE
from .encryption import grant_key
from .environment import watch_thresholds
from .function import FunctionRole, PythonFunction, function_arn, grant_invoke
from .machines import outage_machine_arn, replay_machine_arn
from .names import Names
from .permissions import Permissions, grant_put_events
from .queues import Parts, QueueReference
from .schedule import add_schedule

# Half of its minute: a watch that takes longer has not seen everything, and pages.
TIMEOUT = 30

MEMORY = 256


class WatchFunction(Construct):
    """The function that watches one pipeline, and its schedule, which is always enabled.

    It repairs outages whose execution is lost, and enables the consumer's mapping again if
    `consumer` has one. It receives no letter: to rescue letters it starts the redriver.
    `keeper` is its role, which the circuit function shares: it pauses the same mapping and writes
    the same rows.
    """

    keeper: FunctionRole

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        parts: Parts,
        *,
        consumer: ConsumerFunction | None,
    ) -> None:
        super().__init__(scope, construct_id)
        settings, app, storage, queues = parts
        names = Names(app.app, settings.name)
        outages = outage_machine_arn(app, settings.name)
        replays = replay_machine_arn(app, settings.name)
        permissions = Permissions()
        queues.grant_depths(permissions)
        storage.grant_watch(permissions, settings.name)
        storage.grant_circuits(permissions, settings.name, writes=True)
        storage.grant_troubled_circuits(permissions, settings.name)
        functions = [function_arn(app, settings.name, role) for role in ("route", "redrive")]
        grant_invoke(permissions, "Functions", *functions)
        # See which executions are running, and start one that was lost.
        for sid, machine in (("Outages", outages), ("Replays", replays)):
            permissions.allow(sid, ["states:StartExecution", "states:ListExecutions"], [machine])
        grant_put_events(permissions)
        # SQS tells only CloudWatch how old a message is, and consumers how many letters they have
        # recovered; the action knows no resources.
        permissions.allow("Ages", ["cloudwatch:GetMetricData"], ["*"])
        checker_failures = QueueReference.called(f"{rule_checker(app.app)}-failures").arn
        permissions.allow("Unchecked", ["sqs:GetQueueAttributes"], [checker_failures])
        # Whether the rule checker is fed; the action knows no resources.
        permissions.allow("RuleChecker", ["lambda:ListEventSourceMappings"], ["*"])
        if consumer:
            consumer.grant_mapping(permissions)
        grant_key(permissions, app, services=("dynamodb",), writes=True)
        self.keeper = FunctionRole(
            self,
            "Keeper",
            description=f"Watches {settings.name}, and tells of its outages",
            permissions=permissions,
        )
        function = PythonFunction(
            self,
            "Watch",
            name=names.function("watch"),
            handler="handlers.watch.handler",
            description=f"Watches the queues, runs and circuits of {settings.name}",
            timeout=TIMEOUT,
            memory=MEMORY,
            settings=settings,
            app=app,
            permissions=permissions,
            begins_traces=False,
            # It ends within half of its minute, so that one at a time is enough.
            reserved=1 if app.reserve_watch else None,
            role=self.keeper,
            variables={
                **queues.variables(),
                Variable.MESSAGES_TABLE: storage.messages.table_name,
                Variable.CIRCUITS_TABLE: storage.circuits.table_name,
                Variable.ROUTER_FUNCTION: names.function("route"),
                Variable.REDRIVE_FUNCTION: names.function("redrive"),
                Variable.REDRIVE_EVERY: str(int(settings.redrive.every)),
                Variable.WATCH: watch_thresholds(settings),
                Variable.CIRCUIT_MACHINE: outages,
                Variable.REPLAY_MACHINE: replays,
                **(
                    {Variable.CONSUMER_MAPPING: consumer.mapping_id}
                    if consumer and consumer.mapping_id
                    else {}
                ),
            },
        )
        # A look that comes late would be about another minute.
        function.retry_in_the_next_minute(
            because="a look that failed is followed by the next one within a minute, and if"
            " none succeeds, the alarm RedriveStalled rings: it has no data"
        )
        add_schedule(
            Construct(self, "Schedule"),
            "EachMinute",
            function=function.function,
            app=app,
            name=names.function("watch"),
            description="Watches every minute",
            every=MINUTE,
        )
