"""Managed policies for the roles of people on call."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from deadletter.contract import ANY, app_folder

from . import here, tagged
from .encryption import TO_RECEIVE, VIA, calling, grant_key
from .endpoint_secrets import acknowledge_secrets, grant_read_secrets
from .environment import longest
from .findings import acknowledge_patterns
from .function import function_arn, grant_invoke
from .machines import replay_machine_arn
from .pager import Pager
from .permissions import Grant, Permissions
from .queues import letter_queues_of, queues_of
from .registration import acknowledge_folder, grant_list_parameters
from .settings import AppDeployment
from .storage import Storage

# IAM's limit for a managed policy, in characters.
LARGEST_POLICY = 6144

# Who attaches each policy to what: for the stack's outputs, the summary of a synthesis and
# docs/security.md.
ATTACH: Mapping[str, str] = {
    "DlqReader": "Attach it to the role of people on call: it sees all but messages themselves.",
    "BodyReader": "Attach it beside DlqReader, for people who may read messages.",
    "RuleEditor": "Attach it beside DlqReader, for people who edit rules.",
    "CircuitOperator": "Attach it beside DlqReader, for people who act in an outage: circuits,"
    " runs of the automatic retry, waiting messages, mutes.",
    "EndpointEditor": "Attach it beside DlqReader, for people who keep webhook endpoints.",
    "RunOperator": "Attach it beside DlqReader and BodyReader, for people who send messages"
    " again and edit them.",
    "RunApprover": "Attach it beside DlqReader, for people who approve the runs of others.",
    "DiscardOperator": "Attach it beside DlqReader and BodyReader, for people who throw parked"
    " messages away.",
}

# Characters around all statements, around one statement, and around each text in it.
AROUND_ALL, AROUND_STATEMENT, AROUND_TEXT = 50, 80, 3

# What a function's ARN says, and that of the log group with its name.
FUNCTION, GROUP = ":function:", ":log-group:/aws/lambda/"


class OnCall(Construct):
    """Eight managed policies, which you attach to roles of yours; `arns` is keyed by role.

    `DlqReader` reads all that holds no bodies; the others are attached beside it. `BodyReader`
    reads letters themselves, `RuleEditor` writes rules, `CircuitOperator` holds circuits, starts
    runs of the redriver, calls waiting letters back, mutes alarms and tests the pager,
    `EndpointEditor` keeps webhook endpoints, `RunOperator` plans, starts and steers replay runs
    and has letters edited that a run holds, `RunApprover` approves or refuses runs, and
    `DiscardOperator` throws parked letters away and brings them back. Who may run replays may
    neither approve them nor throw letters away.
    Who may change something may record it, and `dlq` changes nothing that it can't record.
    No policy allows to send or delete a message, to purge a queue, or to write an item that holds
    a letter: people ask our functions, and only these move and change letters.

    No policy grows with the pipelines: what the app makes is a pattern of names, and of what you
    bring ten of a kind are named, and all by a tag. A policy that is too large for IAM continues
    in a second one, `<name>2`. Each is called `<app>-<name>-<region>` in every account: permission
    sets of IAM Identity Center attach policies by name, and IAM's names are those of all regions.
    """

    arns: Mapping[str, str]

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        app: AppDeployment,
        storage: Storage,
        pager: Pager,
    ) -> None:
        super().__init__(scope, construct_id)
        self._app = app
        arns: dict[str, str] = {}
        for role, permissions in (
            ("DlqReader", _reads(app, storage, pager)),
            ("BodyReader", _reads_bodies(app, storage)),
            ("RuleEditor", _edits(app, storage)),
            ("CircuitOperator", _operates(app, storage, pager)),
            ("EndpointEditor", _keeps_endpoints(app, storage)),
            ("RunOperator", _replays(app, storage)),
            ("RunApprover", _approves(app, storage)),
            ("DiscardOperator", _discards(app, storage)),
        ):
            for number, part in enumerate(self._parts(permissions.grants), start=1):
                name = role if number == 1 else f"{role}{number}"
                policy = iam.ManagedPolicy(
                    self,
                    name,
                    # One that is described can't be described anew while it has a name.
                    managed_policy_name=f"{app.app}-{name}-{here.REGION}",
                    statements=part,
                )
                arns[name] = policy.managed_policy_arn
        acknowledge_patterns(
            self,
            "*",
            because="CloudWatch's metrics know no resources, and a list of alarms, or of event"
            " source mappings, no single one",
        )
        acknowledge_patterns(
            self,
            *(_mutes(app), _alarms(app)),
            because="the alarms and one mute rule of each pipeline, all with the app's name",
        )
        acknowledge_patterns(
            self,
            queues_of(app),
            *letter_queues_of(app),
            _machines(app),
            *(_functions(app, role) for role in (ANY, "route", "redrive", "consumer")),
            because="what the app makes for its pipelines, by the names that it gives: a policy"
            " that names each grows with the pipelines, and a role takes ten",
        )
        tagged.acknowledge_tagged(self)
        tagged.warn_of_unnamed(self, app)
        acknowledge_folder(
            self, app_folder(app.app), because="one parameter a pipeline, read as a folder"
        )
        acknowledge_secrets(self, app)
        acknowledge_patterns(
            self,
            *(_group(arn) for arn in (_functions(app, "consumer"), *tagged.consumers(app))),
            because="a log group's ARN ends with :*, for its streams, whose names Lambda makes up",
        )
        storage.acknowledge_on_call(self)
        self.arns = arns

    def _parts(self, grants: Sequence[Grant]) -> Iterator[list[iam.PolicyStatement]]:
        """The grants as statements, as many to a policy as IAM takes."""
        part: list[iam.PolicyStatement] = []
        left = LARGEST_POLICY - AROUND_ALL
        for grant in grants:
            resources: list[str] = []
            left -= _size(grant)
            for resource in grant.resources:
                size = longest(cdk.Stack.of(self).resolve(resource)) + AROUND_TEXT
                if size > left:
                    yield [*part, *_statements(grant, resources)]
                    part, resources = [], []
                    left = LARGEST_POLICY - AROUND_ALL - _size(grant)
                resources.append(resource)
                left -= size
            part += _statements(grant, resources)
        yield part


def attach(policy: str) -> str:
    """Who attaches a policy of `OnCall.arns` to what, in a sentence."""
    first = policy.rstrip("0123456789")
    return ATTACH[first] if policy == first else f"Attach it wherever {first} is: it goes on here."


def _size(grant: Grant) -> int:
    """Characters that a grant takes in a policy, at most, beside its resources."""
    texts = sum(len(text) + AROUND_TEXT for text in (grant.sid, *grant.actions))
    conditions = len(json.dumps(grant.conditions, default=str)) if grant.conditions else 0
    return AROUND_STATEMENT + texts + conditions


def _statements(grant: Grant, resources: Sequence[str]) -> list[iam.PolicyStatement]:
    """The grant on some of its resources."""
    return [replace(grant, resources=resources).statement()] if resources else []


def _reads(app: AppDeployment, storage: Storage, pager: Pager) -> Permissions:
    permissions = Permissions()
    grant_list_parameters(permissions, app_folder(app.app))
    storage.grant_read_figures(permissions)
    storage.grant_read_rules(permissions)
    storage.grant_read_circuits(permissions)
    storage.grant_read_endpoints(permissions)
    storage.grant_read_audit(permissions)
    figures = ["GetMetricData", "GetMetricStatistics", "DescribeAlarms", "GetAlarmMuteRule"]
    # CloudWatch shows composite alarms only to those whose permission names no single alarm.
    # `dlq doctor` compares queue, mapping and function. By a tag it knows a mapping that a circuit
    # has paused.
    mappings = ["lambda:ListEventSourceMappings", "lambda:ListTags"]
    actions = [*(f"cloudwatch:{action}" for action in figures), *mappings]
    permissions.allow("Account", actions, ["*"])
    grant_key(permissions, app, services=("dynamodb", "s3"), writes=False)
    # The router says what it would decide, and can move nothing.
    permissions.allow("Routers", ["lambda:InvokeFunction"], [_functions(app, "route")])
    # A plan says when the consumer was last changed. `dlq doctor` says of which of our functions
    # boto3 makes all calls.
    tagged.allow_brought(
        permissions,
        "Consumers",
        ["lambda:GetFunctionConfiguration"],
        tagged.consumers(app),
        kind=tagged.FUNCTIONS,
        app=app,
        ours=[_functions(app, ANY)],
    )
    # And who may use the topic's key.
    pager.grant_examine(permissions)
    if app.kms_key_arn is not None:
        describes = ["kms:DescribeKey", "kms:GetKeyPolicy"]
        permissions.allow("KeyPolicy", describes, [app.kms_key_arn])
        yours = tagged.keys(app)
        tagged.allow_brought(
            permissions, "KeyPoliciesOfYours", describes, yours, kind=tagged.KEYS, app=app
        )
    _allow_logs(permissions, app)
    # A run whose execution was lost is shown as such.
    permissions.allow("Replays", ["states:ListExecutions"], [_machines(app)])
    _allow_weighing(permissions, app)
    return permissions


def _reads_bodies(app: AppDeployment, storage: Storage) -> Permissions:
    permissions = Permissions()
    storage.grant_read_bodies(permissions)
    grant_key(permissions, app, services=("sqs", "dynamodb", "s3"), writes=False)
    # To look at letters without taking them: SQS shows them whole.
    looks = ["sqs:ReceiveMessage", "sqs:ChangeMessageVisibility"]
    permissions.allow("Looks", looks, letter_queues_of(app))
    tagged.allow_brought(
        permissions,
        "LooksIntoYours",
        looks,
        tagged.dead_letter_queues(app),
        kind=tagged.QUEUES,
        app=app,
        tags={tagged.HOLDS: tagged.MESSAGES},
    )
    if app.kms_key_arn is not None:
        # An app without a key has no queue with one.
        tagged.allow_brought(
            permissions,
            "LetterKeys",
            TO_RECEIVE,
            tagged.keys(app),
            kind=tagged.KEYS,
            app=app,
            via={VIA: calling("sqs")},
        )
    return permissions


def _allow_weighing(permissions: Permissions, app: AppDeployment) -> None:
    """See how many messages each queue holds, and which queues a DLQ serves."""
    weighs = ["sqs:GetQueueAttributes", "sqs:ListDeadLetterSourceQueues"]
    permissions.allow("Depths", weighs, [queues_of(app)])
    yours = list(dict.fromkeys((*tagged.main_queues(app), *tagged.dead_letter_queues(app))))
    tagged.allow_brought(permissions, "DepthsOfYours", weighs, yours, kind=tagged.QUEUES, app=app)


def _allow_logs(permissions: Permissions, app: AppDeployment) -> None:
    """Search what the consumers logged; queries know no resources once they run.

    A function of yours logs under its own name, unless you have chosen another log group: that
    one takes the tag.
    """
    permissions.allow("DispatcherLogs", ["logs:StartQuery"], [_group(_functions(app, "consumer"))])
    tagged.allow_brought(
        permissions,
        "ConsumerLogs",
        ["logs:StartQuery"],
        [_group(arn) for arn in tagged.consumers(app)],
        kind=tagged.LOG_GROUPS,
        app=app,
    )
    permissions.allow("Queries", ["logs:GetQueryResults", "logs:StopQuery"], ["*"])


def _group(function: str) -> str:
    """The log group with a function's name, and its streams."""
    return f"{function.replace(':lambda:', ':logs:').replace(FUNCTION, GROUP)}:*"


def _operates(app: AppDeployment, storage: Storage, pager: Pager) -> Permissions:
    permissions = Permissions()
    storage.grant_write_audit(permissions)
    # For runs, and to call letters back.
    grant_invoke(permissions, "Runs", _functions(app, "redrive"))
    storage.grant_hold_circuits(permissions)
    _allow_mutes(permissions, app)
    pager.grant_test(permissions)
    grant_key(permissions, app, services=("dynamodb", "sns"), writes=True)
    return permissions


def _keeps_endpoints(app: AppDeployment, storage: Storage) -> Permissions:
    permissions = Permissions()
    storage.grant_write_audit(permissions)
    storage.grant_edit_endpoints(permissions)
    # To post a signed check to an endpoint.
    grant_read_secrets(permissions, app)
    grant_key(permissions, app, services=("dynamodb", "secretsmanager"), writes=True)
    return permissions


def _allow_mutes(permissions: Permissions, app: AppDeployment) -> None:
    """Mute the pipelines' alarms: CloudWatch asks for the rule, and for each alarm in it."""
    permissions.allow(
        "Mutes",
        ["cloudwatch:PutAlarmMuteRule", "cloudwatch:DeleteAlarmMuteRule"],
        [_mutes(app)],
    )
    permissions.allow("MutedAlarms", ["cloudwatch:PutAlarmMuteRule"], [_alarms(app)])


def _mutes(app: AppDeployment) -> str:
    """The mute rules of all pipelines, as one pattern."""
    return here.arn("cloudwatch", f"alarm-mute-rule:{app.app}-*-mute")


def _alarms(app: AppDeployment) -> str:
    """The alarms of all pipelines, as one pattern."""
    return here.arn("cloudwatch", f"alarm:{app.app}-*")


def _edits(app: AppDeployment, storage: Storage) -> Permissions:
    permissions = Permissions()
    storage.grant_write_audit(permissions)
    storage.grant_edit_rules(permissions)
    grant_key(permissions, app, services=("dynamodb",), writes=True)
    return permissions


def _replays(app: AppDeployment, storage: Storage) -> Permissions:
    permissions = Permissions()
    storage.grant_write_audit(permissions)
    storage.grant_run_replays(permissions)
    permissions.allow("Replays", ["states:StartExecution"], [_machines(app)])
    # Of its run a letter is edited by the redriver's function, as the run's object asks.
    grant_invoke(permissions, "EditedMessages", _functions(app, "redrive"))
    grant_key(permissions, app, services=("dynamodb", "s3"), writes=True)
    return permissions


def _approves(app: AppDeployment, storage: Storage) -> Permissions:
    permissions = Permissions()
    storage.grant_write_audit(permissions)
    storage.grant_approve(permissions)
    # To answer an approval is a matter of the machine whose execution waits for it.
    permissions.allow("Replays", ["states:SendTaskSuccess"], [_machines(app)])
    grant_key(permissions, app, services=("dynamodb",), writes=True)
    return permissions


def _discards(app: AppDeployment, storage: Storage) -> Permissions:
    permissions = Permissions()
    storage.grant_write_audit(permissions)
    storage.grant_discard(permissions)
    permissions.allow("Replays", ["states:StartExecution"], [_machines(app)])
    grant_key(permissions, app, services=("dynamodb",), writes=True)
    return permissions


def _machines(app: AppDeployment) -> str:
    """The state machines of all pipelines' replay runs, as one pattern."""
    return replay_machine_arn(app, ANY)


def _functions(app: AppDeployment, role: str) -> str:
    """The functions of all pipelines that play `role`, as one pattern."""
    return function_arn(app, ANY, role)
