"""The webhook dispatcher: the consumer that comes with the app."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from deadletter.contract import Variable

from .consumer_policy import grant_library
from .encryption import grant_key
from .endpoint_secrets import acknowledge_secrets, grant_read_secrets, secret_prefix
from .findings import acknowledge
from .function import PythonFunction
from .machines import outage_machine_arn
from .names import Names
from .permissions import Permissions
from .queues import Parts

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
