"""The circuit breaker: a state machine that runs each outage, and the two functions it calls."""

from __future__ import annotations

import json
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from deadletter.contract import ANY, LANES, Partition, Variable, circuit_lane, lane_partition

from .consumer_function import ConsumerFunction
from .duration import MINUTE
from .encryption import customer_key, use_of_key
from .findings import acknowledge
from .function import RETENTION, PythonFunction
from .names import Names
from .queues import Queues
from .settings import AppSettings, PipelineSettings
from .storage import Storage, only

DEFINITION = Path(__file__).parents[1] / "statemachines" / "circuit_breaker.asl.json"

# The state machine gives a step up after 60 seconds, and must hear of one that failed before.
STEP_TIMEOUT = 50

# Seconds that the probe has beside the consumer's: to find a letter that it may send, each
# of a few looks asking the router, and to put it away.
LOOKING = 2 * MINUTE

# Lambda's limit.
LONGEST_TIMEOUT = 15 * MINUTE

MEMORY = 256

# CloudWatch Logs keeps the policies of log groups that begin so out of a limit of 5,120
# characters, which state machines of one region share.
LOG_FOLDER = "/aws/vendedlogs/states"


class CircuitBreaker(Construct):
    """The state machine of one pipeline's outages, the circuit function and the probe.

    Where no Lambda function consumes (`consumer` is None), none is paused, and none is
    given a canary: with the consumer library it goes through the main queue, and `sender` is
    the unique id of the role that sends it, else None.
    """

    state_machine: sfn.StateMachine
    circuit: lambda_.Function
    probe: lambda_.Function
    sender: str | None

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
        self._settings, self._app = settings, app
        self._names = Names(app.app, settings.name)
        self._storage, self._queues, self._consumer = storage, queues, consumer
        self._posts = consumer is None and settings.writes_ledger and settings.mode == "enforce"
        self.sender = None
        self.circuit = self._circuit_function()
        self.probe = self._probe_function()
        self.state_machine = self._state_machine()

    def _circuit_function(self) -> lambda_.Function:
        consumer, storage = self._consumer, self._storage
        mapping = consumer.mapping_statements() if consumer else []
        one = PythonFunction(
            self,
            "Circuit",
            name=self._names.function("circuit"),
            handler="handlers.circuit.handler",
            description=f"Announces the outages of {self._settings.name}, and pauses its consumer",
            timeout=STEP_TIMEOUT,
            memory=MEMORY,
            settings=self._settings,
            app=self._app,
            statements=[
                iam.PolicyStatement(
                    sid="Circuits",
                    # It writes down what it pauses, and nothing else.
                    actions=[
                        "dynamodb:BatchGetItem",
                        *(["dynamodb:UpdateItem"] if mapping else []),
                    ],
                    resources=[storage.circuits.table_arn],
                    conditions=only(self._settings.name),
                ),
                *mapping,
                _events(),
                *use_of_key(self._app, services=("dynamodb",), writes=bool(mapping)),
            ],
        )
        if consumer:
            consumer.acknowledge(one)
        one.tell(
            {
                Variable.CIRCUITS_TABLE: storage.circuits.table_name,
                **(
                    {Variable.CONSUMER_MAPPING: consumer.mapping_id} if consumer and mapping else {}
                ),
            }
        )
        return one.function

    def _probe_function(self) -> lambda_.Function:
        settings, app, consumer = self._settings, self._app, self._consumer
        storage = self._storage
        health = settings.circuit.health_url
        takes = consumer is not None or self._posts
        # A canary by post is asked after later.
        waits = consumer.timeout if consumer else 0
        one = PythonFunction(
            self,
            "Probe",
            name=self._names.function("probe"),
            handler="handlers.probe.handler",
            description=f"Sends the canaries of {settings.name} to its consumer",
            timeout=min(LONGEST_TIMEOUT, waits + LOOKING),
            memory=MEMORY,
            settings=settings,
            app=app,
            statements=[
                iam.PolicyStatement(
                    sid="Circuits",
                    actions=["dynamodb:BatchGetItem", "dynamodb:UpdateItem"],
                    resources=[storage.circuits.table_arn],
                    conditions=only(settings.name),
                ),
                *(self._queue_statements() if takes else []),
                *(self._letter_statements(consumer) if takes else []),
                _events(),
                *use_of_key(
                    app,
                    services=("sqs", "dynamodb", "s3") if takes else ("dynamodb",),
                    writes=True,
                ),
            ],
        )
        one.tell(
            {
                Variable.CIRCUITS_TABLE: storage.circuits.table_name,
                **({Variable.HEALTH_URL: health} if health else {}),
                **(self._sources(consumer) if takes else {}),
            }
        )
        if self._posts:
            self.sender = one.sender
        if takes:
            folder = f"arn:<AWS::Partition>:s3:::{app.app}-letters-<AWS::AccountId>-<AWS::Region>"
            acknowledge(
                one,
                f"AwsSolutions::AwsSolutions-IAM5[Resource::{folder}/waiting/{settings.name}/*]",
                because="one object a letter: only the folder of the pipeline can be named",
            )
        return one.function

    def _sources(self, consumer: ConsumerFunction | None) -> dict[str, str]:
        """Where canaries come from, and who is given them."""
        queues = self._queues
        return {
            Variable.MAIN_URL: queues.main.url,
            Variable.MAIN_ARN: queues.main.arn,
            Variable.DLQ_URL: queues.dlq.url,
            Variable.DLQ_ARN: queues.dlq.arn,
            Variable.LETTERS_TABLE: self._storage.letters.table_name,
            Variable.LETTERS_BUCKET: self._storage.bucket_name,
            Variable.ROUTER_FUNCTION: self._names.function("route"),
            **({Variable.CONSUMER_FUNCTION: consumer.arn} if consumer else {}),
            Variable.CONSUMER_TIMEOUT: str(self._settings.consumer.timeout),
        }

    def _queue_statements(self) -> list[iam.PolicyStatement]:
        """Leave to take one letter and delete it; where canaries go by post, to send it too."""
        take = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"]
        dlq, main = self._queues.dlq.arn, self._queues.main.arn
        if not self._posts:
            return [iam.PolicyStatement(sid="Queues", actions=take, resources=[dlq, main])]
        return [
            iam.PolicyStatement(sid="Dlq", actions=take, resources=[dlq]),
            iam.PolicyStatement(
                sid="Main", actions=["sqs:SendMessage", "sqs:GetQueueAttributes"], resources=[main]
            ),
            iam.PolicyStatement(
                sid="Ledger",
                # It hears there what became of its canary.
                actions=["dynamodb:BatchGetItem"],
                resources=[self._storage.letters.table_arn],
                conditions=only(Partition.LEDGER.of(self._settings.name, ANY)),
            ),
        ]

    def _letter_statements(self, consumer: ConsumerFunction | None) -> list[iam.PolicyStatement]:
        """Leave to take one letter out of the waiting room, and to have the router, and the
        consumer where it is a function, look at it.
        """
        storage, pipeline = self._storage, self._settings.name
        functions = f"arn:{Aws.PARTITION}:lambda:{Aws.REGION}:{Aws.ACCOUNT_ID}:function"
        return [
            iam.PolicyStatement(
                sid="Letters",
                actions=[
                    "dynamodb:BatchGetItem",
                    "dynamodb:Query",
                    "dynamodb:PutItem",
                    # What was sent is marked in the journal.
                    *(["dynamodb:UpdateItem"] if self._posts else []),
                    "dynamodb:DeleteItem",
                    "dynamodb:BatchWriteItem",
                ],
                resources=[storage.letters.table_arn],
                # Nothing of the ledger: the consumer writes that of a canary itself.
                conditions=only(
                    Partition.JOURNAL.of(pipeline),
                    Partition.LANES.of(pipeline),
                    Partition.LETTER.of(pipeline, ANY),
                    Partition.GROUP.of(pipeline, ANY),
                ),
            ),
            iam.PolicyStatement(
                sid="Lanes",
                actions=["dynamodb:Query"],
                resources=[f"{storage.letters.table_arn}/index/{LANES.name}"],
                conditions=only(lane_partition(pipeline, circuit_lane(ANY))),
            ),
            iam.PolicyStatement(
                sid="Bodies",
                actions=["s3:GetObject", "s3:DeleteObject"],
                # One object a letter: only the folder can be named.
                resources=[storage.bodies(pipeline)],
            ),
            iam.PolicyStatement(
                sid="Functions",
                actions=["lambda:InvokeFunction"],
                resources=[
                    f"{functions}:{self._names.function('route')}",
                    *([consumer.arn] if consumer else []),
                ],
            ),
        ]

    def _state_machine(self) -> sfn.StateMachine:
        app, name = self._app, self._names.circuit_breaker
        log_group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"{LOG_FOLDER}/{name}",
            retention=RETENTION[app.log_retention_days],
            encryption_key=customer_key(self, app),
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal(
                "states.amazonaws.com",
                # Nobody else's state machine may borrow this role.
                conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
            ),
            description=f"What {name} may do",
            inline_policies={
                "Permissions": iam.PolicyDocument(
                    statements=[
                        iam.PolicyStatement(
                            sid="Steps",
                            actions=["lambda:InvokeFunction"],
                            resources=[self.circuit.function_arn, self.probe.function_arn],
                        ),
                        *_reporting(),
                    ]
                )
            },
        )
        acknowledge(
            role,
            "AwsSolutions::AwsSolutions-IAM5[Resource::*]",
            because="neither X-Ray's actions nor the delivery of logs know resources",
        )
        made = sfn.StateMachine(
            self,
            "StateMachine",
            state_machine_name=name,
            comment=f"The outages of {self._settings.name}",
            state_machine_type=sfn.StateMachineType.STANDARD,
            definition_body=sfn.DefinitionBody.from_string(definition()),
            definition_substitutions={
                "Partition": Aws.PARTITION,
                "CircuitFunctionArn": self.circuit.function_arn,
                "ProbeFunctionArn": self.probe.function_arn,
            },
            role=role.without_policy_updates(),
            logs=sfn.LogOptions(
                destination=log_group, level=sfn.LogLevel.ERROR, include_execution_data=False
            ),
            tracing_enabled=True,
        )
        acknowledge(
            made,
            "AwsSolutions::AwsSolutions-SF1",
            because="what goes well is in the history, which is kept for 90 days, and in the"
            " functions' logs; the names of dependencies may say something of customers",
        )
        return made


def definition() -> str:
    """The state machine's definition, compact, for whatever partition it is deployed to."""
    text = json.dumps(json.loads(DEFINITION.read_text()), separators=(",", ":"))
    return text.replace('"arn:aws:states:::', '"arn:${Partition}:states:::')


def _events() -> iam.PolicyStatement:
    return iam.PolicyStatement(
        sid="Events",
        actions=["events:PutEvents"],
        resources=[f"arn:{Aws.PARTITION}:events:{Aws.REGION}:{Aws.ACCOUNT_ID}:event-bus/default"],
    )


def _reporting() -> list[iam.PolicyStatement]:
    return [
        iam.PolicyStatement(
            sid="Logs",
            actions=[
                "logs:CreateLogDelivery",
                "logs:GetLogDelivery",
                "logs:UpdateLogDelivery",
                "logs:DeleteLogDelivery",
                "logs:ListLogDeliveries",
                "logs:PutResourcePolicy",
                "logs:DescribeResourcePolicies",
                "logs:DescribeLogGroups",
            ],
            # None of them knows resources.
            resources=["*"],
        ),
        iam.PolicyStatement(
            sid="Traces",
            actions=[
                "xray:PutTraceSegments",
                "xray:PutTelemetryRecords",
                "xray:GetSamplingRules",
                "xray:GetSamplingTargets",
            ],
            # Neither do these.
            resources=["*"],
        ),
    ]
