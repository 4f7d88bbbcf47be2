"""The webhook dispatcher, and the function that consumes, as the probe and the pause see it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from deadletter.contract import Variable

from . import here
from .consumer_policy import grant_library
from .encryption import grant_key
from .endpoint_secrets import acknowledge_secrets, grant_read_secrets, secret_prefix
from .findings import acknowledge
from .function import PythonFunction, function_arn
from .machines import outage_machine_arn
from .names import Names
from .permissions import Permissions
from .queues import Parts
from .settings import AppDeployment, PipelineDeployment

# A batch of ten 1 MiB messages, decoded.
MEMORY = 512


class DispatcherFunction(Construct):
    """The function that posts messages to their endpoints, and its mapping from the main queue.

    `sender` is the unique id of its role, which SQS shows in the messages that it parks.
    """

    mapping: lambda_.EventSourceMapping
    sender: str
    trust: Callable[[Sequence[str]], None]

    def __init__(self, scope: Construct, construct_id: str, parts: Parts) -> None:
        super().__init__(scope, construct_id)
        settings, app, storage, queues = parts
        webhook, permissions = settings.consumer, Permissions()
        queues.grant_consume(permissions)
        grant_library(permissions, parts)
        storage.grant_deliver(permissions)
        grant_read_secrets(permissions, app)
        services = ("sqs", "dynamodb", "secretsmanager")
        grant_key(permissions, app, services=services, writes=True)
        function = PythonFunction(
            self,
            "Dispatch",
            name=Names(app.app, settings.name).function("consumer"),
            handler="handlers.dispatch.handler",
            description=f"Posts the messages of {settings.name} to their endpoints",
            timeout=int(webhook.timeout),
            memory=MEMORY,
            settings=settings,
            app=app,
            permissions=permissions,
            variables={
                Variable.MAIN_URL: queues.main.url,
                Variable.PARKING: json.dumps(
                    {name: queue.url for name, queue in queues.parking.items()}
                ),
                Variable.ENDPOINTS_TABLE: storage.endpoints.table_name,
                Variable.MESSAGES_TABLE: storage.messages.table_name,
                Variable.CIRCUITS_TABLE: storage.circuits.table_name,
                Variable.CIRCUIT_MACHINE: outage_machine_arn(app, settings.name),
                Variable.WEBHOOK: json.dumps(
                    {
                        "timeout": webhook.request_timeout,
                        "allow_loopback": webhook.allow_loopback,
                        "ports": list(webhook.ports),
                        "secret_prefix": secret_prefix(app),
                    }
                ),
            },
        )
        acknowledge_secrets(function, app)
        self.mapping = lambda_.EventSourceMapping(
            self,
            "Mapping",
            target=function.function,
            event_source_arn=queues.main.arn,
            batch_size=webhook.batch_size,
            max_concurrency=webhook.max_concurrency,
            # Without it, Lambda deletes failed messages with delivered ones.
            report_batch_item_failures=True,
        )
        acknowledge(
            self.mapping,
            "Serverless::Serverless-LambdaEventSourceMappingDestination",
            because="a mapping of SQS knows no destination: what fails goes to the DLQ",
        )
        # The queue has to exist when Lambda creates the mapping.
        self.mapping.node.add_dependency(queues)
        self.sender, self.trust = function.sender, function.trust


# The tag remembers what was paused where the circuit's row is lost.
PAUSE_AND_RESUME = [
    "lambda:GetEventSourceMapping",
    "lambda:UpdateEventSourceMapping",
    "lambda:ListTags",
    "lambda:TagResource",
    "lambda:UntagResource",
]


@dataclass(frozen=True, slots=True)
class ConsumerFunction:
    """`arn` is invoked; `mapping_id` is empty if the settings name no mapping to pause."""

    arn: str
    timeout: int
    mapping_id: str

    @classmethod
    def of(
        cls, app: AppDeployment, settings: PipelineDeployment, dispatcher: DispatcherFunction | None
    ) -> ConsumerFunction | None:
        """The dispatcher, or the function that the settings name; None if no function consumes."""
        if dispatcher is not None:
            # By its name: the functions that may change its mapping trust its role.
            arn = function_arn(app, settings.name, "consumer")
            mapping = dispatcher.mapping.event_source_mapping_id
            return cls(arn, int(settings.consumer.timeout), mapping)
        consumer = settings.consumer
        if consumer.function_arn:
            yours, timeout = consumer.function_arn, int(consumer.timeout)
            return cls(yours, timeout, consumer.mapping_id or "")
        return None

    def grant_mapping(self, permissions: Permissions) -> None:
        """See and change its mapping, whether or not the pipeline pauses it now.

        A mapping that was paused before a deployment without pauses has to be put back.
        """
        if not self.mapping_id:
            return
        mapping = here.arn("lambda", f"event-source-mapping:{self.mapping_id}")
        # By its id: calls about tags know no function to make a condition of.
        permissions.allow("Mapping", PAUSE_AND_RESUME, [mapping])
