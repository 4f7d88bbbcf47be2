"""What people on call may do: managed policies for the roles that they sign in with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import aws_cdk as cdk
from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from constructs import Construct

from deadletter.contract import LANES, TROUBLED

from .encryption import use_of_key
from .endpoint_secrets import acknowledge_secrets, secrets_of_endpoints
from .environment import longest
from .findings import acknowledge
from .names import Names
from .queues import Addresses, QueueReference
from .settings import AppSettings
from .storage import Storage

# IAM's limit for a managed policy, in characters.
LARGEST_POLICY = 6144

# Of them, what is around the statements, around what a statement says, around each text
# in it, and what the condition on a key takes.
AROUND_ALL, AROUND_STATEMENT, AROUND_TEXT, CONDITION = 50, 80, 3, 250


@dataclass(frozen=True, slots=True)
class _Grant:
    """Actions on resources; a long list of resources can be told in several statements."""

    sid: str
    actions: Sequence[str]
    resources: Sequence[str]
    conditions: Mapping[str, object] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Characters that it takes in a policy, at most, beside its resources."""
        said = sum(len(one) + AROUND_TEXT for one in (self.sid, *self.actions))
        return AROUND_STATEMENT + said + (CONDITION if self.conditions else 0)


class OnCall(Construct):
    """Three managed policies, which you attach to roles of yours; `arns` is keyed by role.

    `DlqReader` sees everything that `dlq` shows. The other two add to it and are worth
    little without: `DlqOperator` starts runs, holds circuits and keeps the registry of
    endpoints, `RuleEditor` writes rules. None can send or delete a message, or purge a
    queue: only our functions move letters.

    A policy that would be too large for IAM goes on in one with a number, from 2.
    """

    arns: Mapping[str, str]

    def __init__(
        self, scope: Construct, construct_id: str, *, app: AppSettings, storage: Storage
    ) -> None:
        super().__init__(scope, construct_id)
        self._app = app
        made: dict[str, str] = {}
        for role, does, grants in (
            ("DlqReader", "reads", _reads(app, storage)),
            (
                "DlqOperator",
                "beside DlqReader: starts runs, holds circuits, keeps endpoints",
                _operates(app, storage),
            ),
            ("RuleEditor", "beside DlqReader: edits rules", _edits(app, storage)),
        ):
            for number, part in enumerate(self._parts(list(grants)), start=1):
                name = role if number == 1 else f"{role}{number}"
                policy = iam.ManagedPolicy(
                    self,
                    name,
                    managed_policy_name=f"{app.app}-{name}-{Aws.REGION}",
                    description=f"{app.app}: {does}",
                    statements=part,
                )
                made[name] = policy.managed_policy_arn
        acknowledge(
            self,
            "AwsSolutions::AwsSolutions-IAM5[Resource::*]",
            because="CloudWatch's metrics know no resources, and a list of alarms no single one",
        )
        acknowledge(
            self,
            f"AwsSolutions::AwsSolutions-IAM5[Resource::{_parameters(app, shown=True)}/*]",
            because="one parameter a pipeline, read as a folder",
        )
        acknowledge_secrets(self, app)
        self.arns = made

    def _parts(self, grants: Sequence[_Grant]) -> Iterator[list[iam.PolicyStatement]]:
        """The grants as statements, as many to a policy as IAM takes."""
        part: list[iam.PolicyStatement] = []
        left = LARGEST_POLICY - AROUND_ALL
        for grant in grants:
            told: list[str] = []
            left -= grant.size
            for resource in grant.resources:
                size = longest(cdk.Stack.of(self).resolve(resource)) + AROUND_TEXT
                if size > left:
                    yield [*part, *_statement(grant, told)]
                    part, told = [], []
                    left = LARGEST_POLICY - AROUND_ALL - grant.size
                told.append(resource)
                left -= size
            part += _statement(grant, told)
        yield part


def _statement(grant: _Grant, resources: Sequence[str]) -> list[iam.PolicyStatement]:
    if not resources:
        return []
    return [
        iam.PolicyStatement(
            sid=grant.sid,
            actions=list(grant.actions),
            resources=list(resources),
            conditions=dict(grant.conditions),
        )
    ]


def _reads(app: AppSettings, storage: Storage) -> Iterator[_Grant]:
    queues = [Addresses.of(app, one) for one in app.pipelines]
    letters = storage.letters.table_arn
    folder = _parameters(app)
    yield _Grant("Registrations", ["ssm:GetParametersByPath"], [folder, f"{folder}/*"])
    yield _Grant(
        "Letters", ["dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query"], [letters]
    )
    yield _Grant("Lanes", ["dynamodb:Query"], [f"{letters}/index/{LANES.name}"])
    yield _Grant("Rules", ["dynamodb:Scan"], [storage.rules.table_arn])
    circuits = storage.circuits.table_arn
    yield _Grant("Circuits", ["dynamodb:GetItem", "dynamodb:BatchGetItem"], [circuits])
    yield _Grant("Troubled", ["dynamodb:Query"], [f"{circuits}/index/{TROUBLED.name}"])
    yield _Grant("Endpoints", ["dynamodb:GetItem", "dynamodb:Scan"], [storage.endpoints.table_arn])
    yield _Grant("Figures", ["cloudwatch:GetMetricData", "cloudwatch:DescribeAlarms"], ["*"])
    yield from _with_key(app, ("sqs", "dynamodb"), writes=False)
    # The router says how it judges, and can move nothing.
    yield _Grant(
        "Routers",
        ["lambda:GetFunctionConfiguration", "lambda:InvokeFunction"],
        _functions(app, "route"),
    )
    yield _Grant("Depths", ["sqs:GetQueueAttributes"], _once(one.main for one in queues))
    yield _Grant(
        "Looks",
        ["sqs:GetQueueAttributes", "sqs:ReceiveMessage", "sqs:ChangeMessageVisibility"],
        _once(
            queue
            for one in queues
            for queue in (one.dlq, *one.dedicated.values(), *one.parking.values())
        ),
    )


def _operates(app: AppSettings, storage: Storage) -> Iterator[_Grant]:
    yield _Grant("Runs", ["lambda:InvokeFunction"], _functions(app, "redrive"))
    # A record that nobody understands is put anew.
    yield _Grant(
        "Circuits", ["dynamodb:UpdateItem", "dynamodb:PutItem"], [storage.circuits.table_arn]
    )
    yield _Grant(
        "Endpoints", ["dynamodb:PutItem", "dynamodb:UpdateItem"], [storage.endpoints.table_arn]
    )
    # To post a check that the endpoint takes for one of ours.
    yield _Grant("Secrets", ["secretsmanager:GetSecretValue"], [secrets_of_endpoints(app)])
    yield from _with_key(app, ("dynamodb", "secretsmanager"), writes=True)


def _edits(app: AppSettings, storage: Storage) -> Iterator[_Grant]:
    yield _Grant(
        "Rules",
        ["dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"],
        [storage.rules.table_arn],
    )
    yield from _with_key(app, ("dynamodb",), writes=True)


def _with_key(app: AppSettings, services: tuple[str, ...], *, writes: bool) -> Iterator[_Grant]:
    for one in use_of_key(app, services=services, writes=writes):
        yield _Grant(str(one.sid), one.actions, one.resources, one.conditions)


def _functions(app: AppSettings, role: str) -> list[str]:
    home = f"arn:{Aws.PARTITION}:lambda:{Aws.REGION}:{Aws.ACCOUNT_ID}:function"
    return [f"{home}:{Names(app.app, one.name).function(role)}" for one in app.pipelines]


def _once(queues: Iterable[QueueReference]) -> list[str]:
    """Each queue's ARN; pipelines may share a DLQ."""
    return list(dict.fromkeys(queue.arn for queue in queues))


def _parameters(app: AppSettings, *, shown: bool = False) -> str:
    """The ARN of the folder of the app's parameters; `shown` as the scanner writes it."""
    home = (
        "arn:<AWS::Partition>:ssm:<AWS::Region>:<AWS::AccountId>"
        if shown
        else f"arn:{Aws.PARTITION}:ssm:{Aws.REGION}:{Aws.ACCOUNT_ID}"
    )
    return f"{home}:parameter/{app.app}"
