"""The real clock, ids, randomness and environment of the functions."""

import os
import time
import uuid
from functools import cache
from random import SystemRandom

from deadletter.aws.wiring.world import World
from deadletter.contract import Variable
from deadletter.settings.pipeline import Pipeline, pipeline_from_json
from deadletter.settings.resources import Resources, resources_from_environment


@cache
def world() -> World:
    """The real world: system clock, random ids, real waiting."""
    return World(
        clock=time.time, wait=time.sleep, new_id=lambda: uuid.uuid4().hex, random=SystemRandom()
    )


@cache
def resources() -> Resources:
    """The queues, tables and functions that this function uses, from its environment.

    Read at the first event.
    """
    return resources_from_environment(os.environ)


@cache
def settings() -> tuple[Pipeline, Resources]:
    """The pipeline of this function, and its resources. Read at the first event."""
    return pipeline_from_json(os.environ[Variable.PIPELINE]), resources()
