"""The redriver: it moves letters, once a minute, and judges nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import aws_cdk as cdk
from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from deadletter.contract import (
    ANY,
    LANES,
    MAIN_DLQ,
    TROUBLED,
    Variable,
    every_partition,
    lane_partition,
)

from .consumer_function import ConsumerFunction
from .duration import MINUTE
from .encryption import use_of_key
from .findings import acknowledge
from .function import PythonFunction
from .names import Names
from .outage import outage_statement, state_machine_arn
from .queues import Queues
from .schedule import Schedules
from .settings import AppSettings, PipelineSettings
from .storage import Storage, only


class RedriverFunction(Construct):
    """The function that moves letters, and its schedules.

    It also sees to outages that nobody runs any more; a mapping of `consumer`, where one is
    known, it puts back. `sender` is the unique id of its role, which SQS shows in what it sends.
    """

    function: lambda_.Function
    role: iam.IRole
    schedules: Schedules
    sender: str
    believe: Callable[[Sequence[str]], None]

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: PipelineSettings,
        app: AppSettings,
        storage: Storage,
        queues: Queues,
        consumer: ConsumerFunction | None,
    ) -> None:
        super().__init__(scope, construct_id)
        names = Names(app.app, settings.name)
        # By its name: the router believes our role, and would otherwise have to
        # exist both before and after it.
        router = names.function("route")
        one = PythonFunction(
            self,
            "Redrive",
            name=names.function("redrive"),
            handler="handlers.redrive.handler",
            description=f"Moves the letters of {settings.name} as the router decides",
            timeout=settings.redrive.timeout,
            memory=settings.redrive.memory,
            settings=settings,
            app=app,
            statements=[
                *_queue_statements(queues),
                *_storage_statements(storage, settings.name),
                iam.PolicyStatement(
                    sid="Router",
                    actions=["lambda:InvokeFunction"],
                    resources=[
                        f"arn:{Aws.PARTITION}:lambda:{Aws.REGION}:{Aws.ACCOUNT_ID}:function:{router}"
                    ],
                ),
                outage_statement(app, settings.name, lists=True),
                *(consumer.mapping_statements() if consumer else []),
                *use_of_key(app, services=("sqs", "dynamodb", "s3"), writes=True),
            ],
        )
        if consumer:
            consumer.acknowledge(one)
        to_json = cdk.Stack.of(self).to_json_string
        one.tell(
            {
                Variable.MAIN_URL: queues.main.url,
                Variable.MAIN_ARN: queues.main.arn,
                Variable.DLQ_URL: queues.dlq.url,
                Variable.PARKING: to_json(
                    {one: queue.url for one, queue in queues.parking.items()}
                ),
                Variable.DEDICATED: to_json(
                    {one: queue.url for one, queue in queues.dedicated.items()}
                ),
                Variable.LETTERS_TABLE: storage.letters.table_name,
                Variable.LETTERS_BUCKET: storage.bucket_name,
                Variable.CIRCUITS_TABLE: storage.circuits.table_name,
                Variable.ROUTER_FUNCTION: router,
                Variable.CIRCUIT_MACHINE: state_machine_arn(app, settings.name),
                **(
                    {Variable.CONSUMER_MAPPING: consumer.mapping_id}
                    if consumer and consumer.mapping_id
                    else {}
                ),
            }
        )
        # The next minute is the retry: a run that comes late would meet the next one.
        one.function.configure_async_invoke(
            retry_attempts=0, max_event_age=cdk.Duration.seconds(MINUTE)
        )
        acknowledge(
            one,
            "Serverless::Serverless-LambdaAsyncFailureDestination",
            because="a run that failed lost nothing, and the next one starts within a minute",
        )
        folder = f"arn:<AWS::Partition>:s3:::{app.app}-letters-<AWS::AccountId>-<AWS::Region>"
        acknowledge(
            one,
            f"AwsSolutions::AwsSolutions-IAM5[Resource::{folder}/waiting/{settings.name}/*]",
            because="one object a letter: only the folder of the pipeline can be named",
        )
        self.function, self.role, self.sender = one.function, one.role, one.sender
        self.believe = one.believe
        self.schedules = Schedules(self, "Schedules", function=one.function)
        self.schedules.add(
            "Dlq",
            name=names.schedule(),
            source=MAIN_DLQ,
            every=settings.redrive.every,
            enabled=True,
        )
        for id_, dedicated in settings.dedicated.items():
            self.schedules.add(
                f"Dlq_{id_}",
                name=names.schedule(id_),
                source=id_,
                every=dedicated.every,
                enabled=dedicated.enabled,
            )


def _queue_statements(queues: Queues) -> list[iam.PolicyStatement]:
    take = [
        "sqs:ReceiveMessage",
        "sqs:DeleteMessage",
        "sqs:ChangeMessageVisibility",
        "sqs:GetQueueAttributes",
    ]
    give = ["sqs:SendMessage", "sqs:GetQueueAttributes"]
    dedicated = [queue.arn for queue in queues.dedicated.values()]
    return [
        iam.PolicyStatement(sid="Main", actions=give, resources=[queues.main.arn]),
        iam.PolicyStatement(sid="Dlq", actions=take, resources=[queues.dlq.arn]),
        *(
            [
                iam.PolicyStatement(
                    sid="Dedicated", actions=[*take, "sqs:SendMessage"], resources=dedicated
                )
            ]
            if dedicated
            else []
        ),
        iam.PolicyStatement(
            sid="Parking",
            actions=give,
            resources=[queue.arn for queue in queues.parking.values()],
        ),
    ]


def _storage_statements(storage: Storage, pipeline: str) -> list[iam.PolicyStatement]:
    return [
        iam.PolicyStatement(
            sid="Letters",
            actions=[
                "dynamodb:BatchGetItem",
                "dynamodb:Query",
                "dynamodb:PutItem",
                "dynamodb:UpdateItem",
                "dynamodb:DeleteItem",
                "dynamodb:BatchWriteItem",
            ],
            resources=[storage.letters.table_arn],
            conditions=only(every_partition(pipeline)),
        ),
        iam.PolicyStatement(
            sid="Lanes",
            actions=["dynamodb:Query"],
            resources=[f"{storage.letters.table_arn}/index/{LANES.name}"],
            conditions=only(lane_partition(pipeline, ANY)),
        ),
        iam.PolicyStatement(
            sid="Circuits",
            actions=["dynamodb:BatchGetItem", "dynamodb:UpdateItem"],
            resources=[storage.circuits.table_arn],
            conditions=only(pipeline),
        ),
        iam.PolicyStatement(
            sid="Troubled",
            actions=["dynamodb:Query"],
            resources=[f"{storage.circuits.table_arn}/index/{TROUBLED.name}"],
            conditions=only(pipeline),
        ),
        iam.PolicyStatement(
            sid="Bodies",
            actions=["s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
            # One object a letter: only the folder can be named.
            resources=[storage.bodies(pipeline)],
        ),
    ]
