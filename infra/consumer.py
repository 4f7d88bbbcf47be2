"""The webhook dispatcher: the consumer that comes with the app."""

from __future__ import annotations

import json
from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.encryption import use_of_key
from infra.findings import acknowledge
from infra.function import Function
from infra.names import Names
from infra.queues import Queues
from infra.settings import AppSettings, PipelineSettings, Webhook
from infra.storage import Storage

# A batch of ten 1 MiB messages, decoded.
MEMORY = 512


class Dispatcher(Construct):
    """The function that posts messages to their endpoints, and its place at the main queue."""

    function: lambda_.Function
    role: iam.IRole
    mapping: lambda_.EventSourceMapping

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: PipelineSettings,
        webhook: Webhook,
        app: AppSettings,
        storage: Storage,
        queues: Queues,
        trusted_senders: Sequence[str],
    ) -> None:
        super().__init__(scope, construct_id)
        one = Function(
            self,
            "Dispatch",
            name=Names(app.app, settings.name).function("consumer"),
            handler="handlers.dispatch.handler",
            description=f"Posts the messages of {settings.name} to their endpoints",
            timeout=webhook.timeout,
            memory=MEMORY,
            settings=settings,
            app=app,
            statements=[
                iam.PolicyStatement(
                    sid="Main",
                    actions=[
                        "sqs:ReceiveMessage",
                        "sqs:DeleteMessage",
                        "sqs:GetQueueAttributes",
                        "sqs:ChangeMessageVisibility",
                    ],
                    resources=[queues.main.arn],
                ),
                iam.PolicyStatement(
                    sid="Endpoints",
                    actions=["dynamodb:GetItem"],
                    resources=[storage.endpoints.table_arn],
                ),
                *use_of_key(app, services=("sqs", "dynamodb"), writes=False),
            ],
        )
        one.tell(
            {
                "ENDPOINTS_TABLE": storage.endpoints.table_name,
                "LETTERS_TABLE": storage.letters.table_name,
                "TRUSTED_SENDERS": cdk.Stack.of(self).to_json_string(list(trusted_senders)),
                "WEBHOOK": json.dumps(
                    {
                        "timeout": webhook.request_timeout,
                        "allow_loopback": webhook.allow_loopback,
                    }
                ),
            }
        )
        self.mapping = lambda_.EventSourceMapping(
            self,
            "Mapping",
            target=one.function,
            event_source_arn=queues.main.arn,
            batch_size=webhook.batch_size,
            max_concurrency=webhook.max_concurrency,
            # Without it, Lambda deletes the failed with the delivered.
            report_batch_item_failures=True,
        )
        acknowledge(
            self.mapping,
            "Serverless::Serverless-LambdaEventSourceMappingDestination",
            because="a mapping of SQS knows no destination: what fails goes to the DLQ",
        )
        # Lambda looks at the queue when the mapping is made.
        self.mapping.node.add_dependency(queues)
        self.function, self.role = one.function, one.role
