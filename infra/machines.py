"""The state machines of a pipeline by name, for those that are made before them."""

from __future__ import annotations

from . import here
from .names import Names
from .permissions import Permissions
from .settings import AppDeployment


def outage_machine_arn(app: AppDeployment, pipeline: str) -> str:
    """The ARN of the pipeline's circuit breaker, which runs its outages."""
    return here.arn("states", f"stateMachine:{Names(app.app, pipeline).circuit_breaker}")


def replay_machine_arn(app: AppDeployment, pipeline: str) -> str:
    """The ARN of the state machine of the pipeline's replay runs."""
    return here.arn("states", f"stateMachine:{Names(app.app, pipeline).replay_machine}")


def grant_start_outages(permissions: Permissions, app: AppDeployment, pipeline: str) -> None:
    """Start outages of the pipeline."""
    machine = outage_machine_arn(app, pipeline)
    permissions.allow("Outages", ["states:StartExecution"], [machine])
