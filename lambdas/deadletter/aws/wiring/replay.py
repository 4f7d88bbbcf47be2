"""Puts the function `replay` together: the steps of replay runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from deadletter.aws.clients import Clients, stepfunctions
from deadletter.aws.clients import clients as replay_clients
from deadletter.aws.replay_executions import StepFunctionsReplays
from deadletter.aws.replay_plans import DynamoDBReplayPlans
from deadletter.aws.wiring.world import World
from deadletter.contract import Mode
from deadletter.replay.machine import (
    ReplayExecutions,
    ReplaySetup,
    ReplaySteps,
    ReplayUnavailable,
)
from deadletter.replay.run import ReplayRuns
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources

__all__ = ["replay_clients", "replay_steps_for"]


def replay_steps_for(
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients,
    world: World,
    count_metric: Callable[[str, int], None],
    *,
    executions: ReplayExecutions | None = None,
) -> ReplaySteps:
    """The steps of a pipeline's replay runs."""
    letters = resources.letters_table
    if executions is None:
        executions = StepFunctionsReplays(stepfunctions(), resources.replay_machine)
    return ReplaySteps(
        ReplaySetup(
            moves=pipeline.mode is not Mode.OBSERVE,
            runs=cast(ReplayRuns, None),
            plans=DynamoDBReplayPlans(clients.dynamodb, letters, pipeline.name, world.clock),
            executions=executions,
            evidence=_missing,
            snapshot=_missing,
            freeze=_missing,
            work=_missing,
            leave=_missing,
            reconcile=_missing,
            clock=world.clock,
        )
    )


def _missing(*_arguments: Any) -> Any:
    raise ReplayUnavailable("this step is not wired yet")
