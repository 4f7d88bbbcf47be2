"""The secrets that sign deliveries to endpoints: created by people, found by their prefix."""

from __future__ import annotations

from constructs import IConstruct

from . import here
from .findings import acknowledge
from .permissions import Permissions
from .settings import AppDeployment


def secret_prefix(app: AppDeployment) -> str:
    """The prefix of their names."""
    return f"{app.app}/webhooks/"


def secrets_of_endpoints(app: AppDeployment) -> str:
    """The pattern of all their ARNs."""
    home = f"arn:{here.PARTITION}:secretsmanager:{here.REGION}:{here.ACCOUNT_ID}"
    return f"{home}:secret:{secret_prefix(app)}*"


def grant_read_secrets(permissions: Permissions, app: AppDeployment) -> None:
    """Read the secrets of all endpoints."""
    permissions.allow("Secrets", ["secretsmanager:GetSecretValue"], [secrets_of_endpoints(app)])


def acknowledge_secrets(construct: IConstruct, app: AppDeployment) -> None:
    """Acknowledge that a role of `construct` names no single secret."""
    home = "arn:<AWS::Partition>:secretsmanager:<AWS::Region>:<AWS::AccountId>"
    acknowledge(
        construct,
        f"AwsSolutions::AwsSolutions-IAM5[Resource::{home}:secret:{secret_prefix(app)}*]",
        because="endpoints are registered after the deployment, each with secrets of its own,"
        " and Secrets Manager ends their ARNs with random letters",
    )
