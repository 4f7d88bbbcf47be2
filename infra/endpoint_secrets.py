"""The secrets that sign deliveries to endpoints: created by people, found by their prefix."""

from __future__ import annotations

from constructs import IConstruct

from . import here
from .findings import acknowledge_patterns
from .permissions import Permissions
from .settings import AppDeployment


def secret_prefix(app: AppDeployment) -> str:
    """The prefix of their names."""
    return f"{app.app}/webhooks/"


def secrets_of_endpoints(app: AppDeployment) -> str:
    """The pattern of all their ARNs."""
    return here.arn("secretsmanager", f"secret:{secret_prefix(app)}*")


def grant_read_secrets(permissions: Permissions, app: AppDeployment) -> None:
    """Read the secrets of all endpoints."""
    permissions.allow("Secrets", ["secretsmanager:GetSecretValue"], [secrets_of_endpoints(app)])


def acknowledge_secrets(construct: IConstruct, app: AppDeployment) -> None:
    """Acknowledge that a role of `construct` names no single secret."""
    acknowledge_patterns(
        construct,
        secrets_of_endpoints(app),
        because="endpoints are registered after the deployment, each with secrets of its own,"
        " and Secrets Manager ends their ARNs with random letters",
    )
