"""What the consumer library may do, in our webhook dispatcher and in a function of yours."""

from __future__ import annotations

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from constructs import Construct

from deadletter.contract import ANY, Partition, app_parameter, pipeline_parameter

from .encryption import use_of_key
from .names import Names
from .outage import outage_statement
from .queues import Queues
from .settings import AppSettings, PipelineSettings
from .storage import Storage, only


class ConsumerPolicy(Construct):
    """A managed policy for the role of your own consumer, which uses the consumer library.

    It holds what the library needs beyond what reading the main queue takes.
    """

    arn: str

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: PipelineSettings,
        app: AppSettings,
        storage: Storage,
        queues: Queues,
    ) -> None:
        super().__init__(scope, construct_id)
        home = f"arn:{Aws.PARTITION}:ssm:{Aws.REGION}:{Aws.ACCOUNT_ID}:parameter"
        policy = iam.ManagedPolicy(
            self,
            "Policy",
            managed_policy_name=Names(app.app, settings.name).policy("consumer", Aws.REGION),
            description=f"What the consumer library needs in {settings.name}",
            statements=[
                iam.PolicyStatement(
                    sid="Registration",
                    actions=["ssm:GetParameters"],
                    resources=[
                        f"{home}{app_parameter(app.app)}",
                        f"{home}{pipeline_parameter(app.app, settings.name)}",
                    ],
                ),
                iam.PolicyStatement(
                    sid="Main",
                    actions=["sqs:ChangeMessageVisibility"],
                    resources=[queues.main.arn],
                ),
                *library_statements(app, settings.name, storage=storage, queues=queues),
                *use_of_key(app, services=("sqs", "dynamodb"), writes=True),
            ],
        )
        self.arn = policy.managed_policy_arn


def library_statements(
    app: AppSettings, pipeline: str, *, storage: Storage, queues: Queues
) -> list[iam.PolicyStatement]:
    """What the consumer library does with the rows and queues of one pipeline."""
    return [
        iam.PolicyStatement(
            sid="Failures",
            actions=["dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"],
            resources=[storage.letters.table_arn],
            # Nothing of what else is in the table: journal, waiting room, lease.
            conditions=only(Partition.LEDGER.of(pipeline, ANY), Partition.CLAIM.of(pipeline, ANY)),
        ),
        iam.PolicyStatement(
            sid="Circuits",
            actions=["dynamodb:BatchGetItem", "dynamodb:UpdateItem"],
            resources=[storage.circuits.table_arn],
            conditions=only(pipeline),
        ),
        iam.PolicyStatement(
            sid="Parking",
            actions=["sqs:SendMessage", "sqs:GetQueueAttributes"],
            resources=[queue.arn for queue in queues.parking.values()],
        ),
        outage_statement(app, pipeline),
    ]
