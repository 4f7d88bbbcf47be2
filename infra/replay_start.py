"""The state machine that runs a pipeline's replays, referred to by its name."""

from __future__ import annotations

from . import here
from .names import Names
from .permissions import Permissions
from .settings import AppDeployment


def replay_machine_arn(app: AppDeployment, pipeline: str) -> str:
    """The ARN of the state machine of the pipeline's replay runs, by its name."""
    name = Names(app.app, pipeline).replay_machine
    return here.arn("states", f"stateMachine:{name}")


def grant_care_for_replays(permissions: Permissions, app: AppDeployment, pipeline: str) -> None:
    """See which executions of replay runs are running, and start one that was lost."""
    actions = ["states:StartExecution", "states:ListExecutions"]
    permissions.allow("Replays", actions, [replay_machine_arn(app, pipeline)])
