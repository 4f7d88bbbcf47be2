"""The CDK context of an app, read into settings or refused in one sentence."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from deadletter.contract import DEFAULT_APP
from deadletter.settings.setting import ValueKind

from . import fits
from .arn import Arn, is_token
from .checked import checked, values_of
from .keys import check_keys
from .names import Names, pascal_case
from .refusal import Refused, refused
from .settings import AppDeployment, PipelineDeployment

# What must lie where the pipeline is deployed.
_PLACES = (ValueKind.QUEUE_ARN, ValueKind.FUNCTION_ARN)

PIPELINES = "a list of pipelines, each an object with at least a name"


def read(
    context: Mapping[str, Any], *, account: str | None = None, region: str | None = None
) -> AppDeployment:
    """The settings of an app and its pipelines.

    `--context key=value` carries text only, so text that is JSON is read as JSON.
    `account` and `region` are where the app is deployed to, None if not known yet.
    Raises Refused.
    """
    # The keys of the CDK itself contain "@", ":" or "-".
    typed = {key: _unpacked(value) for key, value in context.items() if key.isidentifier()}
    named = typed.get("app", DEFAULT_APP)
    listed = typed.pop("pipelines", None)
    if not isinstance(listed, list) or not listed:
        raise refused(f"App {named}", "pipelines", listed, PIPELINES)
    pipelines = tuple(pipeline(number, raw) for number, raw in enumerate(listed, start=1))
    settings = replace(app(typed), pipelines=pipelines)
    check(settings, account=account, region=region)
    return settings


def app(typed: Mapping[str, Any]) -> AppDeployment:
    """The settings of an app, without its pipelines. Raises Refused."""
    return checked(
        AppDeployment, {**typed, "pipelines": ()}, f"App {typed.get('app', DEFAULT_APP)}"
    )


def check(app: AppDeployment, *, account: str | None = None, region: str | None = None) -> None:
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
        if pipeline.tuning and not app.ephemeral:
            allowed = "nothing unless the app is ephemeral"
            raise _refusal(pipeline, "tuning", pipeline.tuning, allowed)


def pipeline(number: int, typed: Any) -> PipelineDeployment:
    """The settings of the `number`th pipeline. Raises Refused."""
    named = typed.get("name") if isinstance(typed, Mapping) else None
    return fits.pipeline(typed, f"Pipeline {named or f'number {number}'}")


def _unpacked(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _refusal(pipeline: PipelineDeployment, key: str, value: object, allowed: str) -> Refused:
    return refused(f"Pipeline {pipeline.name}", key, value, allowed)


def _check_names(app: AppDeployment) -> None:
    """Refuse names that are too long together, although each of their parts is not."""
    for pipeline in app.pipelines:
        names = Names(app.app, pipeline.name, pipeline.fifo)
        for problem in names.too_long(pipeline.dedicated, pipeline.parking_ids):
            raise Refused(
                f"Pipeline {pipeline.name}: {problem}, so shorten the app's name, the pipeline's"
                " name or the id."
            )


def _check_stacks(pipelines: Iterable[PipelineDeployment]) -> None:
    """Refuse two names that are the same in the id of a stack, as a-1b and a1b are."""
    taken: dict[str, str] = {}
    for pipeline in pipelines:
        stack = pascal_case(pipeline.name)
        if stack in taken:
            allowed = f"a name that differs from that of pipeline {taken[stack]}"
            raise _refusal(pipeline, "name", pipeline.name, allowed)
        taken[stack] = pipeline.name


def _check_queues(pipelines: Iterable[PipelineDeployment]) -> None:
    """Refuse a main queue in two pipelines: it has one redrive policy."""
    mains: dict[str, PipelineDeployment] = {}
    for pipeline in pipelines:
        if pipeline.main_queue.arn:
            other = mains.setdefault(pipeline.main_queue.arn, pipeline)
            if other is not pipeline:
                allowed = f"a queue that pipeline {other.name} does not name"
                raise _refusal(pipeline, "main_queue.arn", pipeline.main_queue.arn, allowed)


def _check_region(app: AppDeployment, region: str | None) -> None:
    """Refuse a topic or a key in another region: neither alarms nor encryption reach there."""
    regions = [
        Arn.parse(text).region
        for pipeline in app.pipelines
        for _, text in _known(pipeline, *_PLACES)
    ]
    region = region or next(iter(regions), None)
    for pipeline in app.pipelines:
        for key, text in _known(pipeline, ValueKind.KEY_ARN):
            region = region or Arn.parse(text).region
            if Arn.parse(text).region != region:
                raise _refusal(pipeline, key, text, f"an ARN in region {region}")
    for key, text in _known(app, ValueKind.TOPIC_ARN, ValueKind.KEY_ARN):
        region = region or Arn.parse(text).region
        if Arn.parse(text).region != region:
            raise refused(f"App {app.app}", key, text, f"an ARN in region {region}")


def _check_home(
    pipelines: Iterable[PipelineDeployment], account: str | None, region: str | None
) -> None:
    """Refuse an ARN outside the app's account and region, or if unknown, those of the first ARN."""
    for pipeline in pipelines:
        for key, text in _known(pipeline, *_PLACES):
            arn = Arn.parse(text)
            account, region = account or arn.account, region or arn.region
            if (arn.account, arn.region) != (account, region):
                allowed = f"an ARN in account {account}, region {region}"
                raise _refusal(pipeline, key, text, allowed)


def _known(settings: object, *kinds: ValueKind) -> Iterator[tuple[str, str]]:
    """Path and value of the ARNs of these kinds that are no tokens."""
    return ((key, text) for key, text in values_of(settings, *kinds) if not is_token(text))
