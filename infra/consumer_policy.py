"""The permissions of the consumer library, in our dispatcher and in your own consumer."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from deadletter.contract import consumer_policy_parameter

from .encryption import grant_key
from .machines import grant_start_outages
from .permissions import Permissions
from .queues import Parts
from .registration import grant_find_pipeline


class ConsumerPolicy(Construct):
    """A managed policy for the role of your own consumer, which uses the consumer library.

    It allows what the library needs, and what its event source mapping or its poller needs
    of the main queue. Beside it the role needs logs only. A parameter names it to those whose
    template is not of this app. Its own name is generated, so that it can be replaced. `attach`
    says to which role it goes.
    """

    arn: str
    attach: str

    def __init__(self, scope: Construct, construct_id: str, parts: Parts) -> None:
        super().__init__(scope, construct_id)
        settings, app, _, _ = parts
        permissions = consumer_permissions(parts)
        self.attach = (
            f"Attach it to the role of your consumer of {settings.name}, beside its logs, if it"
            " uses the consumer library."
        )
        policy = iam.ManagedPolicy(
            self,
            "Policy",
            description=self.attach,
            statements=permissions.statements(),
        )
        self.arn = policy.managed_policy_arn
        ssm.StringParameter(
            self,
            "Arn",
            parameter_name=consumer_policy_parameter(app.app, settings.name),
            description=f"The policy for the role of a consumer of {settings.name}",
            string_value=self.arn,
        )


def consumer_permissions(parts: Parts) -> Permissions:
    """What a consumer of yours needs besides its logs: the library, and its main queue."""
    settings, app, _, queues = parts
    permissions = Permissions()
    grant_find_pipeline(permissions, app, settings.name)
    queues.grant_consume(permissions)
    grant_library(permissions, parts)
    grant_key(permissions, app, services=("sqs", "dynamodb"), writes=True)
    return permissions


def grant_library(permissions: Permissions, parts: Parts) -> None:
    """Use the rows and queues of one pipeline as the consumer library does."""
    settings, app, storage, queues = parts
    ordered = settings.ordering_key is not None
    storage.grant_record_failures(permissions, settings.name, ordered=ordered)
    storage.grant_circuits(permissions, settings.name, writes=True)
    queues.grant_park(permissions)
    grant_start_outages(permissions, app, settings.name)
