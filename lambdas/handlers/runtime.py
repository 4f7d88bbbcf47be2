"""Where the real clock, ids, randomness and environment come in."""

from __future__ import annotations

import os
import time
import uuid
from functools import cache
from random import SystemRandom

from aws_lambda_powertools.metrics import MetricUnit, single_metric

from deadletter.aws.wiring.world import World
from deadletter.settings.pipeline import (
    Pipeline,
    Resources,
    pipeline_from_json,
    resources_from_environment,
)


@cache
def world() -> World:
    """The world as it is: system clock, random ids, real waiting."""
    return World(
        clock=time.time, wait=time.sleep, new_id=lambda: uuid.uuid4().hex, random=SystemRandom()
    )


@cache
def wiring() -> Resources:
    """What this function's environment says it talks to, read at its first event."""
    return resources_from_environment(os.environ)


@cache
def settings() -> tuple[Pipeline, Resources]:
    """What this function's environment says, read at its first event."""
    return pipeline_from_json(os.environ["PIPELINE"]), wiring()


def tell(name: str, number: int) -> None:
    """Count something of this function's pipeline, or say how it stands."""
    with single_metric(name, MetricUnit.Count, number, namespace="Deadletter") as figure:
        figure.add_dimension("pipeline", settings()[0].name)
