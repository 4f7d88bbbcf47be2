"""A pipeline's settings as they are deployed: what its router was told, and nothing else counts.

They stand in the environment of the router's function, so that a rule can be judged here
exactly as it will be judged there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

from console import app as apps
from console.aws import Aws, error_code, side_by_side
from console.problem import Exit, Problem
from deadletter.rules import EVERY_PIPELINE
from deadletter.settings import (
    BadSettings,
    Pipeline,
    pipeline_from_json,
    wiring_from_environment,
)


@dataclass(frozen=True, slots=True)
class Deployed:
    """One pipeline: where it is, how it judges, and whose `Redrive` attribute it believes."""

    place: apps.Pipeline
    settings: Pipeline
    trusted_senders: frozenset[str]

    @property
    def name(self) -> str:
        return self.place.name


def read(aws: Aws, pipelines: Sequence[apps.Pipeline]) -> tuple[Deployed, ...]:
    """The settings of these pipelines; raises Problem if those of one can't be read."""
    _ = aws.lambda_  # made before there are threads
    with side_by_side() as start:
        begun = [start(partial(_read, aws, one)) for one in pipelines]
        return tuple(one for read in begun if (one := read.result(_raise)) is not None)


def scope(app: apps.App, name: str | None) -> tuple[str, tuple[apps.Pipeline, ...]]:
    """The key that a rule is stored under, and the pipelines in which it is judged."""
    if name == EVERY_PIPELINE:
        return EVERY_PIPELINE, app.pipelines
    one = app.one(name)
    return one.name, (one,)


def _raise(problem: Problem) -> NoReturn:
    raise problem


def _read(aws: Aws, pipeline: apps.Pipeline) -> Deployed:
    from botocore.exceptions import ClientError

    function = pipeline.router_function
    if not function:
        raise _not_understood(pipeline, "its parameter names no router function")
    try:
        found = aws.lambda_.get_function_configuration(FunctionName=function).get("Environment", {})
    except ClientError as error:
        if error_code(error) == "AccessDeniedException":
            raise Problem(
                f"The settings of {pipeline.name} stand in the environment of {function}, and AWS "
                "refuses to show it: pass a --profile that has lambda:GetFunctionConfiguration.",
                Exit.UNREACHABLE,
            ) from error
        raise
    environment = found.get("Variables", {})
    if "Error" in found or "PIPELINE" not in environment:
        raise Problem(
            f"The settings of {pipeline.name} stand in the environment of {function}, which "
            "can't be read: pass a --profile that may use its key (kms:Decrypt).",
            Exit.UNREACHABLE,
        )
    try:
        settings = pipeline_from_json(environment["PIPELINE"])
        trusted = wiring_from_environment(environment).trusted_senders
    except BadSettings as error:
        raise _not_understood(pipeline, str(error)) from error
    return Deployed(pipeline, settings, frozenset(trusted))


def _not_understood(pipeline: apps.Pipeline, why: str) -> Problem:
    return Problem(
        f"The settings of {pipeline.name} are not what this dlq expects ({why}): "
        "use the dlq of the version that is deployed, or deploy again.",
        Exit.ABSENT,
    )
