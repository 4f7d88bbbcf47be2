"""The settings of a deployed pipeline: a rule is judged here as its router judges it."""

from __future__ import annotations

import json
from typing import NoReturn

from deadletter.contract import EVERY_PIPELINE
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline, pipeline_from_json

from . import app as apps
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


def _refuse(pipeline: apps.DeployedPipeline, error: BadSettings) -> NoReturn:
    raise Problem(
        f"The settings of {pipeline.name} are not what this dlq expects ({error}): "
        "use the dlq of the version that is deployed, or deploy again.",
        Cause.ABSENT,
    ) from error
