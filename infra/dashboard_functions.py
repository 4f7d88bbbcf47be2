"""The Lambda functions of a pipeline, as its graphs and its estimate of costs know them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from . import circuit, consumer, replay, router, watch
from .consumer_function import function_name
from .names import Names
from .settings import AppDeployment, PipelineDeployment


@dataclass(frozen=True, slots=True)
class DrawnFunction:
    """A function by its role and name; `timeout` in seconds, `memory` in MB.

    The memory of a team's own function is not known here, and None.
    """

    role: str
    name: str
    timeout: int
    memory: int | None = None


def functions(app: AppDeployment, settings: PipelineDeployment) -> Iterator[DrawnFunction]:
    """The functions that a pipeline runs, its consumer first if that is a function."""
    names = Names(app.app, settings.name)
    # The probe waits for no consumer that is not a function.
    waits = 0
    if settings.consumer.is_webhook:
        waits = int(settings.consumer.timeout)
        yield DrawnFunction("consumer", names.function("consumer"), waits, consumer.MEMORY)
    if settings.consumer.function_arn:
        waits = int(settings.consumer.timeout)
        # function:<name>, and perhaps a version or an alias behind it.
        yield DrawnFunction("consumer", function_name(settings.consumer.function_arn), waits)
    redrive = settings.redrive
    for role, timeout, memory in (
        ("redrive", redrive.timeout, redrive.memory),
        ("watch", watch.TIMEOUT, watch.MEMORY),
        ("route", router.TIMEOUT, router.MEMORY),
        ("circuit", circuit.STEP_TIMEOUT, circuit.MEMORY),
        ("probe", circuit.probe_timeout(waits), circuit.MEMORY),
        ("replay", replay.TIMEOUT, replay.MEMORY),
    ):
        yield DrawnFunction(role, names.function(role), timeout, memory)
