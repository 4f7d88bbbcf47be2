"""The CDK context of an app, read into settings or refused in one sentence."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from .arn import Arn, is_token
from .keys import check_keys
from .names import Names, pascal_case
from .refusal import Refused, sentence, value_refused
from .settings import AppSettings, PipelineSettings

PIPELINES = "a list of pipelines, each an object with at least a name"


def read(
    context: Mapping[str, Any], *, account: str | None = None, region: str | None = None
) -> AppSettings:
    """The settings of an app and its pipelines.

    `--context key=value` carries text only, so text that is JSON is read as JSON.
    `account` and `region` are where the app is deployed to, None if not known yet.
    Raises Refused.
    """
    # The keys of the CDK itself contain "@", ":" or "-".
    settings_of_app = {
        key: _unpacked(value) for key, value in context.items() if key.isidentifier()
    }
    app = f"App {settings_of_app.get('app', AppSettings().app)}"
    listed = settings_of_app.pop("pipelines", None)
    if not isinstance(listed, list) or not listed:
        raise Refused(f"{app}: {value_refused('pipelines', listed, PIPELINES)}.")
    pipelines = tuple(pipeline(number, raw) for number, raw in enumerate(listed, start=1))
    try:
        settings = AppSettings.model_validate({**settings_of_app, "pipelines": pipelines})
    except ValidationError as error:
        reason = sentence(error, AppSettings.model_json_schema(), settings_of_app)
        raise Refused(f"{app}: {reason}.") from error
    check(settings, account=account, region=region)
    return settings


def check(app: AppSettings, *, account: str | None = None, region: str | None = None) -> None:
    """Refuse what does not fit together between the pipelines of an app.

    What is a token of the CDK is not looked at. Raises Refused.
    """
    _check_names(app)
    _check_stacks(app.pipelines)
    _check_queues(app.pipelines)
    _check_home(app.pipelines, account, region)
    _check_region(app, region)
    for pipeline in app.pipelines:
        check_keys(app, pipeline)


def pipeline(number: int, raw: Any) -> PipelineSettings:
    """The settings of the `number`th pipeline. Raises Refused."""
    name = raw.get("name", f"number {number}") if isinstance(raw, dict) else f"number {number}"
    try:
        return PipelineSettings.model_validate(raw)
    except ValidationError as error:
        reason = sentence(error, PipelineSettings.model_json_schema(), raw)
        raise Refused(f"Pipeline {name}: {reason}.") from error


def _unpacked(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _refusal(pipeline: PipelineSettings, key: str, value: str, allowed: str) -> Refused:
    return Refused(f"Pipeline {pipeline.name}: {value_refused(key, value, allowed)}.")


def _check_names(app: AppSettings) -> None:
    """Refuse names that are too long together, although each of their parts is not."""
    for pipeline in app.pipelines:
        names = Names(app.app, pipeline.name, pipeline.fifo)
        for problem in names.too_long(pipeline.dedicated, pipeline.parking):
            raise Refused(
                f"Pipeline {pipeline.name}: {problem}, so shorten the app's name, the pipeline's"
                " name or the id."
            )


def _check_stacks(pipelines: Iterable[PipelineSettings]) -> None:
    """Refuse two names that are the same in the id of a stack, as a-1b and a1b are."""
    taken: dict[str, str] = {}
    for pipeline in pipelines:
        stack = pascal_case(pipeline.name)
        if stack in taken:
            allowed = f"a name that differs from that of pipeline {taken[stack]}"
            raise _refusal(pipeline, "name", pipeline.name, allowed)
        taken[stack] = pipeline.name


def _check_queues(pipelines: Iterable[PipelineSettings]) -> None:
    """Refuse a queue in two pipelines: a main queue has one redrive policy, and letters of two
    pipelines in one DLQ confuse both.
    """
    mains: dict[str, PipelineSettings] = {}
    dlqs: dict[str, PipelineSettings] = {}
    for pipeline in pipelines:
        if pipeline.main_queue.arn:
            other = mains.setdefault(pipeline.main_queue.arn, pipeline)
            if other is not pipeline:
                allowed = f"a queue that pipeline {other.name} does not name"
                raise _refusal(pipeline, "main_queue.arn", pipeline.main_queue.arn, allowed)
        if pipeline.dlq.arn:
            other = dlqs.setdefault(pipeline.dlq.arn, pipeline)
            if other is not pipeline and not (pipeline.shared_dlq and other.shared_dlq):
                allowed = (
                    f"a queue that pipeline {other.name} does not name,"
                    " unless both say shared_dlq: true"
                )
                raise _refusal(pipeline, "dlq.arn", pipeline.dlq.arn, allowed)


def _check_region(app: AppSettings, region: str | None) -> None:
    """Refuse a topic or a key in another region: neither alarms nor encryption reach there."""
    regions = [
        Arn.parse(text).region for pipeline in app.pipelines for _, text in _known(pipeline.arns)
    ]
    region = region or next(iter(regions), None)
    for pipeline in app.pipelines:
        for key, text in _known(pipeline.key_arns):
            region = region or Arn.parse(text).region
            if Arn.parse(text).region != region:
                raise _refusal(pipeline, key, text, f"an ARN in region {region}")
    for key, text in _known(app.arns):
        region = region or Arn.parse(text).region
        if Arn.parse(text).region != region:
            allowed = f"an ARN in region {region}"
            raise Refused(f"App {app.app}: {value_refused(key, text, allowed)}.")


def _check_home(
    pipelines: Iterable[PipelineSettings], account: str | None, region: str | None
) -> None:
    """Refuse an ARN outside the app's account and region, or if unknown, those of the first ARN."""
    for pipeline in pipelines:
        for key, text in _known(pipeline.arns):
            arn = Arn.parse(text)
            account, region = account or arn.account, region or arn.region
            if (arn.account, arn.region) != (account, region):
                allowed = f"an ARN in account {account}, region {region}"
                raise _refusal(pipeline, key, text, allowed)


def _known(arns: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The ARNs that are no tokens."""
    return ((key, text) for key, text in arns if not is_token(text))
