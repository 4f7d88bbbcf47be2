"""The registrations of pipelines in SSM, for functions outside their deployments."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from deadletter.aws.errors import AWS_ERRORS, code, member, ours
from deadletter.contract import (
    app_parameter,
    consumer_policy_parameter,
    pipeline_parameter,
)
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline

if TYPE_CHECKING:
    from mypy_boto3_ssm import SSMClient

    from deadletter.settings.resources import Resources


class NotRegistered(Exception):
    """The registration is missing or unreadable; the message says why, and what to do."""


def look_up(client: SSMClient, app: str, pipeline: str) -> tuple[Pipeline, Resources]:
    """The pipeline and the resources of its consumer; raises NotRegistered and BadSettings."""
    from deadletter.settings import registration

    names = [app_parameter(app), pipeline_parameter(app, pipeline)]
    try:
        answer = client.get_parameters(Names=names)
    except AWS_ERRORS as error:
        raise NotRegistered(
            f"{' and '.join(names)} could not be read ({code(error)}); the function's role "
            f"needs the managed policy that {consumer_policy_parameter(app, pipeline)} names"
        ) from error
    values = {parameter["Name"]: parameter["Value"] for parameter in answer.get("Parameters", [])}
    for name in names:
        if name not in values:
            raise NotRegistered(f"there is no parameter {name} in this account and region")
    return registration.read(pipeline, *(values[name] for name in names))


REMEMBERED = 180.0
"""Seconds that the terms are used before they are read again: only a deployment changes them."""

FRESH = 5.0
"""Seconds that the terms count as fresh: a flood of bad rules must not exhaust SSM."""


class SsmPipelines:
    """The `terms` in the parameters under `folder`, one parameter per pipeline.

    `clock` returns epoch seconds.
    """

    def __init__(self, client: SSMClient, folder: str, clock: Callable[[], float]) -> None:
        self._client = client
        self._folder = folder
        self._clock = clock
        self._read_at = float("-inf")
        self._pipelines: Mapping[str, Pipeline] = {}

    def pipelines(self, *, fresh: bool = False) -> Mapping[str, Pipeline]:
        now = self._clock()
        if not 0 <= now - self._read_at < (FRESH if fresh else REMEMBERED):
            self._pipelines = self._read()
            self._read_at = now
        return self._pipelines

    def _read(self) -> Mapping[str, Pipeline]:
        # Only the rule checker has it: consumers look up their own pipeline.
        from deadletter.rules.checker import CheckUnavailable, pipeline_from_terms

        pages = self._client.get_paginator("get_parameters_by_path").paginate(Path=self._folder)
        try:
            with ours(CheckUnavailable, "ssm", "the registrations"):
                parameters = [each for page in pages for each in member(page, "Parameters")]
            registrations = {
                str(parameter["Name"]).rpartition("/")[2]: json.loads(parameter["Value"])
                for parameter in parameters
            }
            return {
                name: pipeline_from_terms(name, registration.get("terms"))
                for name, registration in registrations.items()
            }
        except (ValueError, AttributeError, BadSettings) as error:
            raise CheckUnavailable(f"the registrations: {error}") from error
