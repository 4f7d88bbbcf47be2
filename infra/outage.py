"""The state machine that runs a pipeline's outages, referred to by its name."""

from __future__ import annotations

from . import here
from .names import Names
from .permissions import Permissions
from .settings import AppDeployment


def state_machine_arn(app: AppDeployment, pipeline: str) -> str:
    """The ARN of the pipeline's circuit breaker, by name: it is created after its starters."""
    name = Names(app.app, pipeline).circuit_breaker
    return here.arn("states", f"stateMachine:{name}")


def grant_start_outages(
    permissions: Permissions, app: AppDeployment, pipeline: str, *, lists: bool = False
) -> None:
    """Start outages of the pipeline, and if it `lists`, see which executions are running."""
    permissions.allow(
        "Outages",
        ["states:StartExecution", *(["states:ListExecutions"] if lists else [])],
        [state_machine_arn(app, pipeline)],
    )
