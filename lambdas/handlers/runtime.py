"""Where the real clock, ids, randomness and environment come in."""

import os
import time
import uuid
from functools import cache
from random import SystemRandom

from aws_lambda_powertools.metrics import MetricUnit, single_metric

from deadletter.aws.wiring.world import World
from deadletter.settings import pipeline as described


@cache
def world() -> World:
    """The real world: system clock, random ids, real waiting."""
    return World(
        clock=time.time, wait=time.sleep, new_id=lambda: uuid.uuid4().hex, random=SystemRandom()
    )


@cache
def resources() -> described.Resources:
    """The names of what this function talks to, read from its environment at its first event."""
    return described.resources_from_environment(os.environ)


@cache
def settings() -> tuple[described.Pipeline, described.Resources]:
    """The pipeline of this function and its resources, read at its first event."""
    return described.pipeline_from_json(os.environ["PIPELINE"]), resources()


def count_metric(name: str, number: int) -> None:
    """Count something of this function's pipeline, or set a gauge."""
    with single_metric(name, MetricUnit.Count, number, namespace="Deadletter") as metric:
        metric.add_dimension("pipeline", settings()[0].name)
