"""The CDK context of an app, read into settings or refused in one sentence."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from .arn import Arn
from .names import pascal_case
from .refusal import Refused, said, sentence
from .settings import AppSettings, PipelineSettings

PIPELINES = "a list of pipelines, each an object with at least a name"


def read(
    context: Mapping[str, Any], *, account: str | None = None, region: str | None = None
) -> AppSettings:
    """The settings of an app and its pipelines.

    `--context key=value` carries text only, so text that is JSON stands for what it says.
    `account` and `region` are where the app goes, None where that is not known
    yet. Raises Refused.
    """
    # The keys of the CDK itself contain "@", ":" or "-".
    raw = {key: _unpacked(value) for key, value in context.items() if key.isidentifier()}
    app = f"App {raw.get('app', AppSettings().app)}"
    listed = raw.pop("pipelines", None)
    if not isinstance(listed, list) or not listed:
        raise Refused(f"{app}: {said('pipelines', listed, PIPELINES)}.")
    pipelines = tuple(_pipeline(number, one) for number, one in enumerate(listed, start=1))
    try:
        settings = AppSettings.model_validate({**raw, "pipelines": pipelines})
    except ValidationError as error:
        said_so = sentence(error, AppSettings.model_json_schema(), raw)
        raise Refused(f"{app}: {said_so}.") from error
    _check_stacks(pipelines)
    _check_queues(pipelines)
    _check_home(pipelines, account, region)
    _check_region(settings, region)
    return settings


def _unpacked(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _pipeline(number: int, raw: Any) -> PipelineSettings:
    name = raw.get("name", f"number {number}") if isinstance(raw, dict) else f"number {number}"
    try:
        return PipelineSettings.model_validate(raw)
    except ValidationError as error:
        said_so = sentence(error, PipelineSettings.model_json_schema(), raw)
        raise Refused(f"Pipeline {name}: {said_so}.") from error


def _refusal(pipeline: PipelineSettings, key: str, value: str, allowed: str) -> Refused:
    return Refused(f"Pipeline {pipeline.name}: {said(key, value, allowed)}.")


def _check_stacks(pipelines: Iterable[PipelineSettings]) -> None:
    """Two names may be written alike in the id of a stack, as a-1b and a1b are."""
    taken: dict[str, str] = {}
    for one in pipelines:
        stack = pascal_case(one.name)
        if stack in taken:
            allowed = f"a name that differs from that of pipeline {taken[stack]}"
            raise _refusal(one, "name", one.name, allowed)
        taken[stack] = one.name


def _check_queues(pipelines: Iterable[PipelineSettings]) -> None:
    """A queue has one redrive policy, and letters of two pipelines in one DLQ confuse both."""
    mains: dict[str, PipelineSettings] = {}
    dlqs: dict[str, PipelineSettings] = {}
    for one in pipelines:
        if one.main_queue.arn:
            other = mains.setdefault(one.main_queue.arn, one)
            if other is not one:
                allowed = f"a queue that pipeline {other.name} does not name"
                raise _refusal(one, "main_queue.arn", one.main_queue.arn, allowed)
        if one.dlq.arn:
            other = dlqs.setdefault(one.dlq.arn, one)
            if other is not one and not (one.shared_dlq and other.shared_dlq):
                allowed = (
                    f"a queue that pipeline {other.name} does not name,"
                    " unless both say shared_dlq: true"
                )
                raise _refusal(one, "dlq.arn", one.dlq.arn, allowed)


def _check_region(app: AppSettings, region: str | None) -> None:
    """Neither CloudWatch's alarms nor any encryption reach into another region."""
    lie = [Arn.parse(text).region for one in app.pipelines for _, text in one.arns]
    wanted = region or next(iter(lie), None)
    for key, text in app.arns:
        wanted = wanted or Arn.parse(text).region
        if Arn.parse(text).region != wanted:
            raise Refused(f"App {app.app}: {said(key, text, f'an ARN in region {wanted}')}.")


def _check_home(
    pipelines: Iterable[PipelineSettings], account: str | None, region: str | None
) -> None:
    """Everything a pipeline names lies in one place: where it goes, else where the first lies."""
    for one in pipelines:
        for key, text in one.arns:
            arn = Arn.parse(text)
            account, region = account or arn.account, region or arn.region
            if (arn.account, arn.region) != (account, region):
                allowed = f"an ARN in account {account}, region {region}"
                raise _refusal(one, key, text, allowed)
