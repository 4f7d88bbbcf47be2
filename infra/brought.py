"""Queues and functions that an app of the CDK brings to a pipeline, as settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IConstruct

from deadletter.contract import Mode

from . import context
from .arn import is_token, last_part
from .names import kebab_case
from .queues import QueueReference
from .refusal import Refused, refused
from .settings import AppDeployment, PipelineDeployment
from .typed import Consumer, PipelineSettings

# What Lambda takes if the CDK says nothing.
DEFAULT_TIMEOUT = 3


def settings(
    pipeline: Construct,
    given: PipelineSettings | PipelineDeployment | None,
    *,
    consumer_library: bool | None,
    main_queue: sqs.IQueue | None,
    dlq: sqs.IQueue | None,
    consumer: lambda_.IFunction | Consumer | str | None,
    consumer_mapping: lambda_.IEventSourceMapping | None,
) -> PipelineDeployment:
    """The settings of a pipeline with what was brought to it. Raises Refused.

    Without settings, its name is that of its construct.
    """
    if isinstance(given, PipelineDeployment):
        return given
    name = kebab_case(pipeline.node.id)
    if not isinstance(given, dict | None):
        raise _refused(name, "settings", f"of type {_type(given)}", "PipelineSettings(...)")
    typed: dict[str, Any] = dict(given or {})
    name = typed.setdefault("name", name)
    _check_types(name, main_queue, dlq, consumer, consumer_mapping)
    known = known_dlq(main_queue)
    if known is None and isinstance(main_queue, sqs.Queue) and not _has_redrive_policy(main_queue):
        allowed = "a queue with a dead_letter_queue, or no message of it reaches a DLQ"
        raise _refused(name, "main_queue", main_queue.node.path, allowed)
    if dlq is not None and known is not None and dlq.queue_arn != known.queue_arn:
        raise _refused(name, "dlq", dlq.node.path, f"{known.node.path}, the DLQ of main_queue")
    dlq = dlq or known
    if main_queue is not None:
        _once(name, typed, "main_queue")
        typed["main_queue"] = _queue(name, main_queue)
        typed.setdefault("fifo", main_queue.fifo)
    if dlq is not None:
        _once(name, typed, "dlq")
        typed["dlq"] = _queue(name, dlq)
        typed.setdefault("fifo", dlq.fifo)
    for key, queue in (("main_queue", main_queue), ("dlq", dlq)):
        if queue is not None:
            place = (queue.env.account, queue.env.region)
            _check_place(name, key, queue, place, cdk.Stack.of(pipeline))
        if isinstance(queue, sqs.Queue) and queue.fifo != typed["fifo"]:
            kind = "a FIFO queue" if typed["fifo"] else "a standard queue"
            fifo = str(typed["fifo"]).lower()
            raise _refused(name, key, queue.node.path, f"{kind}, because fifo is {fifo}")
    if consumer is not None:
        _once(name, typed, "consumer")
        typed["consumer"] = _consumer(consumer, consumer_mapping)
    elif consumer_mapping is not None:
        allowed = "nothing, unless consumer is the function of the mapping"
        raise _refused(name, "consumer_mapping", consumer_mapping.node.path, allowed)
    elif main_queue is not None:
        # No person asked for a dispatcher that takes the messages out of this queue.
        typed.setdefault("consumer", "none")
    if consumer_library is not None:
        _once(name, typed, "consumer_library")
        typed["consumer_library"] = consumer_library
    return context.pipeline(1, typed)


def announce(
    pipeline: Construct,
    settings: PipelineDeployment,
    main_queue: sqs.IQueue | None,
    dlq: sqs.IQueue | None,
) -> None:
    """Say at synth, a line for each queue of yours, that its messages will be moved."""
    if settings.mode != Mode.ENFORCE:
        return
    for key, arn, construct, what in (
        ("dlq", settings.dlq.arn, dlq, "messages leave your queue"),
        ("main-queue", settings.main_queue.arn, main_queue, "messages go back to your queue"),
    ):
        if arn is None:
            continue
        named = last_part(arn)
        if is_token(named) and construct is not None:
            named = construct.node.path
        cdk.Annotations.of(pipeline).add_info_v2(
            f"deadletter:enforce-{key}",
            f"Pipeline {settings.name} is in mode enforce: {what} {named} from the first run on;"
            " observe would only say which.",
        )


def warn_of_a_shared_dlq(
    pipeline: Construct, app: AppDeployment, settings: PipelineDeployment
) -> None:
    """Say at synth that letters of another pipeline come to this one, and stay in the DLQ."""
    arn = settings.dlq.arn
    for other in app.pipelines:
        if arn is not None and other.dlq.arn == arn and other.name != settings.name:
            cdk.Annotations.of(pipeline).add_warning_v2(
                f"deadletter:shared-dlq-{other.name}",
                f"Pipeline {settings.name} has the DLQ of pipeline {other.name}: each receives the"
                " other's messages too, leaves them there, and so is slower. Give each its own.",
            )


def is_named_in(stack: cdk.Stack, arn: str | None, construct: IConstruct | None) -> bool:
    """Whether `stack` can name a thing with this ARN without a reference to another stack."""
    if arn is None or not is_token(last_part(arn)):
        return True
    return construct is not None and cdk.Stack.of(construct) is stack


def is_made_in_another_stack(construct: IConstruct, stack: cdk.Stack) -> bool:
    """Whether the construct is deployed by another stack: what is imported is not."""
    imported = cdk.Resource.is_resource(construct) and not cdk.Resource.is_owned_resource(construct)
    return not imported and outermost(cdk.Stack.of(construct)) is not outermost(stack)


def outermost(stack: cdk.Stack) -> cdk.Stack:
    """The stack that is deployed, of which `stack` may be a nested part."""
    while stack.nested_stack_parent:
        stack = stack.nested_stack_parent
    return stack


def check_shared(name: str, shared: Construct, pipeline: Construct) -> None:
    """Refuse an app in another account or region: its tables and its topic are not there."""
    home = cdk.Stack.of(shared)
    _check_place(name, "shared", shared, (home.account, home.region), cdk.Stack.of(pipeline))


def key_arn(owner: str, setting: str, key: kms.IKey) -> str:
    """The ARN of a key. Refuses an alias: permissions name keys, and an alias grants nothing."""
    if hasattr(key, "alias_name"):
        raise refused(owner, setting, f"the alias {key.node.path}", "the key behind it")
    return key.key_arn


def _check_types(name: str, *given: object) -> None:
    """Refuse arguments of other types, which the CDK would only fail on somewhere inside."""
    for (argument, attribute, allowed), value in zip(_ARGUMENTS, given, strict=True):
        if value is None or (argument == "consumer" and isinstance(value, Mapping | str)):
            continue
        if isinstance(value, type) or not hasattr(value, attribute):
            raise _refused(name, argument, f"of type {_type(value)}", allowed)


_ARGUMENTS = (
    ("main_queue", "queue_arn", "a queue, made or imported by aws_sqs.Queue"),
    ("dlq", "queue_arn", "a queue, made or imported by aws_sqs.Queue"),
    ("consumer", "function_arn", 'a function of aws_lambda, Consumer(...) or "none"'),
    ("consumer_mapping", "event_source_mapping_id", "an EventSourceMapping of aws_lambda"),
)
"""Each argument, what a value of it has, and what it may be."""


def _type(value: object) -> str:
    return value.__name__ if isinstance(value, type) else type(value).__name__


def _has_redrive_policy(queue: sqs.Queue) -> bool:
    """Whether somebody set it on the resource itself."""
    made = queue.node.default_child
    return isinstance(made, sqs.CfnQueue) and made.redrive_policy is not None


def _check_place(
    name: str, key: str, thing: IConstruct, place: tuple[str, str], stack: cdk.Stack
) -> None:
    """Refuse what is elsewhere, if the CDK knows where it and the pipeline are."""
    for what, its, ours in zip(
        ("account", "region"), place, (stack.account, stack.region), strict=True
    ):
        if its != ours and not is_token(its) and not is_token(ours):
            raise _refused(name, key, thing.node.path, f"one in {what} {ours}, not {its}")


def _consumer(
    consumer: lambda_.IFunction | Consumer | str, mapping: lambda_.IEventSourceMapping | None
) -> Any:
    if isinstance(consumer, Mapping | str):
        return consumer
    typed: dict[str, Any] = {"kind": "function", "function_arn": consumer.function_arn}
    if mapping:
        typed["mapping_id"] = mapping.event_source_mapping_id
    if isinstance(consumer, lambda_.Function):
        typed["timeout"] = int(
            consumer.timeout.to_seconds() if consumer.timeout else DEFAULT_TIMEOUT
        )
    return typed


def _queue(name: str, queue: sqs.IQueue) -> dict[str, str | None]:
    return {"arn": QueueReference.of_queue(queue).arn, "kms_key_arn": _key(name, queue)}


def _key(name: str, queue: sqs.IQueue) -> str | None:
    """The customer managed key of a queue; of one that is imported, if the import names it."""
    key = queue.encryption_master_key
    return key_arn(f"Pipeline {name}", f"the key of {queue.node.path}", key) if key else None


def known_dlq(queue: sqs.IQueue | None) -> sqs.IQueue | None:
    """The DLQ of a queue if the CDK knows it."""
    settings = queue.dead_letter_queue if isinstance(queue, sqs.Queue) else None
    return settings.queue if settings else None


def _once(name: str, typed: dict[str, Any], key: str) -> None:
    """Refuse what stands in the settings and was brought too."""
    if key in typed:
        raise _refused(name, key, "in settings", "either settings or the argument")


def _refused(name: str, key: str, value: str, allowed: str) -> Refused:
    return refused(f"Pipeline {name}", key, value, allowed)
