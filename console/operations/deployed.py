"""The settings of a deployed pipeline: a rule is judged here as its router judges it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NoReturn

from deadletter.contract import EVERY_PIPELINE
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline, pipeline_from_json
from deadletter.settings.resources import resources_from_environment

from . import app as apps
from .aws import Aws, error_code
from .problem import Cause, Problem


def scope(app: apps.App, name: str | None) -> tuple[str, tuple[apps.DeployedPipeline, ...]]:
    """The key that a rule is stored under, and the pipelines in which it is judged."""
    if name == EVERY_PIPELINE:
        return EVERY_PIPELINE, app.pipelines
    pipeline = app.pipeline(name)
    return pipeline.name, (pipeline,)


def terms(pipeline: apps.DeployedPipeline) -> Pipeline:
    """What the pipeline allows in a rule; the rule checker uses the same."""
    from deadletter.rules.checker import pipeline_from_terms

    try:
        return pipeline_from_terms(pipeline.name, pipeline.terms)
    except BadSettings as error:
        _refuse(pipeline, error)


def settings(pipeline: apps.DeployedPipeline) -> Pipeline:
    """The pipeline's settings as its own functions read them."""
    try:
        return pipeline_from_json(json.dumps({"name": pipeline.name, **pipeline.pipeline}))
    except BadSettings as error:
        _refuse(pipeline, error)


@dataclass(frozen=True, slots=True)
class Judge:
    """How a pipeline's router judges: its settings, and whose `Redrive` attribute it believes."""

    settings: Pipeline
    trusted_senders: frozenset[str]


def judge(aws: Aws, pipeline: apps.DeployedPipeline) -> Judge:
    """What the environment of the router's function says; Problem if it can't be read."""
    from botocore.exceptions import ClientError

    function = pipeline.router_function
    try:
        configuration = aws.lambda_.get_function_configuration(FunctionName=function)
    except ClientError as error:
        if error_code(error) != "AccessDeniedException":
            raise
        raise _hidden(pipeline, "lambda:GetFunctionConfiguration") from error
    environment = configuration.get("Environment", {}).get("Variables", {})
    if "PIPELINE" not in environment:
        raise _hidden(pipeline, "kms:Decrypt, for the function's key")
    try:
        settings = pipeline_from_json(environment["PIPELINE"])
        trusted = resources_from_environment(environment).trusted_senders
    except BadSettings as error:
        _refuse(pipeline, error)
    return Judge(settings, frozenset(trusted))


def _hidden(pipeline: apps.DeployedPipeline, permission: str) -> Problem:
    return Problem(
        f"AWS does not show the environment of {pipeline.router_function}, which says how "
        f"{pipeline.name} reads a message: pass a --profile that has {permission}.",
        Cause.UNREACHABLE,
    )


def _refuse(pipeline: apps.DeployedPipeline, error: BadSettings) -> NoReturn:
    raise Problem(
        f"The settings of {pipeline.name} are not what this dlq expects ({error}): "
        "use the dlq of the version that is deployed, or deploy again.",
        Cause.ABSENT,
    ) from error
