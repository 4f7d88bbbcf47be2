"""The router: it decides about letters, and can only read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from deadletter.contract import Variable

from .encryption import grant_key
from .function import PythonFunction
from .names import Names
from .permissions import Permissions
from .replay_schema import packed
from .settings import AppDeployment, PipelineDeployment
from .storage import Storage

# The redriver waits for the answer, and its run has to end in time.
TIMEOUT = 20

# A chunk is up to 4.5 MB of JSON, held as text and as objects.
MEMORY = 512


class RouterFunction(Construct):
    """The function that turns letters into decisions."""

    function: lambda_.Function
    role: iam.IRole
    trust: Callable[[Sequence[str]], None]

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: PipelineDeployment,
        app: AppDeployment,
        storage: Storage,
    ) -> None:
        super().__init__(scope, construct_id)
        permissions = Permissions()
        ordered = settings.ordering_key is not None
        storage.grant_judge_letters(permissions, settings.name, ordered=ordered)
        storage.grant_rules(permissions, settings.name)
        storage.grant_circuits(permissions, settings.name)
        grant_key(permissions, app, services=("dynamodb",), writes=False)
        function = PythonFunction(
            self,
            "Route",
            name=Names(app.app, settings.name).function("route"),
            handler="handlers.route.handler",
            description=f"Decides what to do with the messages of {settings.name}",
            timeout=TIMEOUT,
            memory=MEMORY,
            settings=settings,
            app=app,
            permissions=permissions,
            begins_traces=False,
            variables={
                Variable.LETTERS_TABLE: storage.letters.table_name,
                Variable.RULES_TABLE: storage.rules.table_name,
                Variable.CIRCUITS_TABLE: storage.circuits.table_name,
                **({Variable.REPLAY_SCHEMA: schema} if (schema := packed(settings)) else {}),
            },
        )
        self.function, self.role = function.function, function.role
        self.trust = function.trust
