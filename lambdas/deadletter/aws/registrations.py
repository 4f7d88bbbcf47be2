"""The terms of each pipeline in the app, from its registration: what a rule may use there."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from deadletter.aws.errors import member, ours
from deadletter.rules.checker import CheckUnavailable, pipeline_from_terms
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline

if TYPE_CHECKING:
    from mypy_boto3_ssm import SSMClient

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

    @ours(CheckUnavailable, "ssm", "the registrations")
    def _read(self) -> Mapping[str, Pipeline]:
        pages = self._client.get_paginator("get_parameters_by_path").paginate(Path=self._folder)
        try:
            registrations = {
                str(parameter["Name"]).rpartition("/")[2]: json.loads(parameter["Value"])
                for page in pages
                for parameter in member(page, "Parameters")
            }
            return {
                name: pipeline_from_terms(name, registration.get("terms"))
                for name, registration in registrations.items()
            }
        except (ValueError, AttributeError, BadSettings) as error:
            raise CheckUnavailable(f"the registrations: {error}") from error
