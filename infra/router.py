"""The router: it decides about letters, reads what it needs for that, and can move nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from deadletter.contract import ANY, EVERY_PIPELINE, Partition, Variable

from .encryption import use_of_key
from .function import PythonFunction
from .names import Names
from .settings import AppSettings, PipelineSettings
from .storage import Storage, only

# The redriver waits for it and has a run to finish.
TIMEOUT = 20

# A chunk is up to 4.5 MB of JSON, held as text and as objects.
MEMORY = 512


class RouterFunction(Construct):
    """The function that turns letters into decisions."""

    function: lambda_.Function
    role: iam.IRole
    believe: Callable[[Sequence[str]], None]

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: PipelineSettings,
        app: AppSettings,
        storage: Storage,
    ) -> None:
        super().__init__(scope, construct_id)
        one = PythonFunction(
            self,
            "Route",
            name=Names(app.app, settings.name).function("route"),
            handler="handlers.route.handler",
            description=f"Decides what to do with the letters of {settings.name}",
            timeout=TIMEOUT,
            memory=MEMORY,
            settings=settings,
            app=app,
            statements=[
                iam.PolicyStatement(
                    sid="Letters",
                    actions=["dynamodb:BatchGetItem"],
                    resources=[storage.letters.table_arn],
                    conditions=only(
                        Partition.LEDGER.of(settings.name, ANY), Partition.MATCHES.of(settings.name)
                    ),
                ),
                iam.PolicyStatement(
                    sid="Rules",
                    actions=["dynamodb:Query"],
                    resources=[storage.rules.table_arn],
                    # The rules of all pipelines have the partition "*", which in a
                    # pattern would stand for any: here it is a word.
                    conditions=only(settings.name, EVERY_PIPELINE, exactly=True),
                ),
                iam.PolicyStatement(
                    sid="Circuits",
                    actions=["dynamodb:BatchGetItem"],
                    resources=[storage.circuits.table_arn],
                    conditions=only(settings.name),
                ),
                *use_of_key(app, services=("dynamodb",), writes=False),
            ],
        )
        one.tell(
            {
                Variable.LETTERS_TABLE: storage.letters.table_name,
                Variable.RULES_TABLE: storage.rules.table_name,
                Variable.CIRCUITS_TABLE: storage.circuits.table_name,
            }
        )
        self.function, self.role = one.function, one.role
        self.believe = one.believe
