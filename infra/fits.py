"""What a pipeline's settings say about each other: what follows from them, and what does not fit.

What does not fit is a setting and what is allowed beside the others; the first one stops the
synthesis.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from deadletter.contract import (
    DAY,
    ENDPOINT_KEY,
    EVERYTHING,
    HOUR,
    MAIN_DLQ,
    MINUTE,
    Mode,
)
from deadletter.settings.pipeline import RetryPolicy

from .arn import is_token, last_part
from .checked import as_typed, checked
from .duration import written
from .refusal import refused
from .settings import LONGEST_RETENTION, ConsumerKind, PipelineDeployment

# Lambda's rule for an event source mapping: a batch that is retried inside the
# mapping must not become visible to another poller meanwhile.
VISIBILITY_PER_TIMEOUT = 6

# SQS hides a message at most this long.
LONGEST_VISIBILITY = 12 * HOUR

# A function of Lambda runs at most this long.
LONGEST_FUNCTION = 15 * MINUTE

# What Lambda, or another consumer, is given without a timeout.
TIMEOUT = 30

# What SQS sets anew when a letter is re-driven: with such a key it would be processed twice.
_OF_ONE_COPY = re.compile(
    r"\bsystem\W+(MessageDeduplicationId|SequenceNumber|SentTimestamp|Approximate\w+)"
)

T = TypeVar("T")
Typed = Mapping[str, Any]


def pipeline(typed: Any, owner: str) -> PipelineDeployment:
    """The pipeline that was typed, with what follows from it. Raises Refused."""
    typed = _with_kind(typed)
    settings = resolved(checked(PipelineDeployment, typed, owner), typed)
    for path, tuned in settings.tuning.items():
        settings = _tuned(settings, path, path.split("."), tuned, owner)
    for key, allowed in misfits(settings, typed):
        steps = key.split(".")
        value: Any = settings
        for step in steps:
            value = value[step] if isinstance(value, Mapping) else getattr(value, step)
        raise refused(owner, key, as_typed(typed, steps, value), allowed)
    return settings


def resolved(settings: PipelineDeployment, typed: Typed) -> PipelineDeployment:
    """The settings with those that follow from others, where no person typed them."""

    def is_typed(*steps: str) -> bool:
        return as_typed(typed, steps, None) is not None

    consumer, circuit, queue = settings.consumer, settings.circuit, settings.main_queue
    if not consumer.is_webhook and not is_typed("consumer", "timeout"):
        consumer = replace(consumer, timeout=TIMEOUT)
    brought = queue.arn or settings.dlq.arn
    mode = Mode.OBSERVE if brought and not is_typed("mode") else settings.mode
    visibility = min(VISIBILITY_PER_TIMEOUT * int(consumer.timeout), LONGEST_VISIBILITY)
    return replace(
        settings,
        mode=mode,
        consumer=consumer,
        main_queue=replace(queue, visibility=visibility),
        consumer_library=settings.consumer_library
        or (consumer.is_webhook and not is_typed("consumer_library")),
        circuit_key=settings.circuit_key or (ENDPOINT_KEY if consumer.is_webhook else None),
        circuit=replace(
            circuit,
            pause_consumer=consumer.is_webhook or consumer.mapping_id is not None,
            lease=max(circuit.lease, 2 * consumer.timeout),
        ),
        replay=replace(
            settings.replay,
            outcome_timeout=max(
                settings.replay.outcome_timeout, visibility * queue.max_receive_count
            ),
        ),
        policy=_spread(settings.policy),
        policies={name: _spread(policy) for name, policy in settings.policies.items()},
        alarms=replace(
            settings.alarms,
            room_late=max(settings.alarms.room_late, 3 * int(settings.redrive.every)),
            # A letter that is not rescued in time gets there; observe moves none to safety.
            letter_expiry=2 * DAY if mode == Mode.OBSERVE else settings.alarms.letter_expiry,
        ),
    )


def _spread(policy: RetryPolicy) -> RetryPolicy:
    """The policy with the shortest delay that its first ceiling is worth."""
    backoff = policy.backoff
    return replace(policy, backoff=replace(backoff, floor=backoff.base / 12))


def misfits(settings: PipelineDeployment, typed: Typed) -> Iterator[tuple[str, str]]:
    """What does not fit together, the first one first."""
    yield from _names(settings)
    yield from _queues(settings, typed)
    yield from _times(settings)
    yield from _consumer(settings, typed)
    yield from _paths(settings)


def _names(settings: PipelineDeployment) -> Iterator[tuple[str, str]]:
    if settings.name == "shared":
        yield ("name", "any other name; the stack of that name is taken")
    if MAIN_DLQ in settings.dedicated:
        yield ("dedicated", "ids other than dlq, which is the DLQ itself")


def _queues(settings: PipelineDeployment, typed: Typed) -> Iterator[tuple[str, str]]:
    for key, queue in (("main_queue", settings.main_queue), ("dlq", settings.dlq)):
        name = last_part(queue.arn or "")
        if name and not is_token(name) and name.endswith(".fifo") != settings.fifo:
            kind = "a FIFO queue" if settings.fifo else "a standard queue"
            yield (f"{key}.arn", f"{kind}, because fifo is {str(settings.fifo).lower()}")
        if queue.kms_key_arn and not queue.arn:
            yield (
                f"{key}.kms_key_arn",
                "nothing without arn: a queue that is made has the app's kms_key_arn",
            )
        others = sorted({*typed.get(key, {})} - {"arn", "kms_key_arn"})
        if queue.arn and others:
            yield (f"{key}.{others[0]}", "nothing beside arn: your queue is not changed")
    if settings.main_queue.arn and settings.main_queue.arn == settings.dlq.arn:
        yield ("dlq.arn", "another queue than main_queue.arn")
    if settings.main_queue.retention >= LONGEST_RETENTION and not settings.dlq.arn:
        yield ("main_queue.retention", f"less than that of the DLQ, {written(LONGEST_RETENTION)}")


def _times(settings: PipelineDeployment) -> Iterator[tuple[str, str]]:
    policies = {"policy": settings.policy} | {
        f"policies.{name}": policy for name, policy in settings.policies.items()
    }
    for key, policy in policies.items():
        backoff = policy.backoff
        if backoff.cap < backoff.base:
            yield (f"{key}.backoff.cap", f"at least the base, {written(backoff.base)}")
        if settings.message_ttl < backoff.cap:
            longest = f"{key}.backoff.cap = {written(backoff.cap)}"
            yield ("message_ttl", f"at least the longest delay, {longest}")
    if settings.circuit.cooldown > settings.circuit.cooldown_cap:
        yield ("circuit.cooldown", f"at most {written(settings.circuit.cooldown_cap)}")


def _consumer(settings: PipelineDeployment, typed: Typed) -> Iterator[tuple[str, str]]:
    consumer = settings.consumer
    of_kind = {
        "function_arn": ConsumerKind.FUNCTION,
        "mapping_id": ConsumerKind.FUNCTION,
        "request_timeout": ConsumerKind.WEBHOOK,
        "max_concurrency": ConsumerKind.WEBHOOK,
    }
    for key, kind in of_kind.items():
        if key in typed.get("consumer", {}) and consumer.kind != kind:
            yield (f"consumer.{key}", f"nothing while consumer.kind is {consumer.kind}")
    if consumer.is_function and consumer.function_arn is None:
        yield ("consumer.function_arn", "the ARN of your function")
    if consumer.kind != ConsumerKind.NONE and consumer.timeout > LONGEST_FUNCTION:
        yield ("consumer.timeout", f"at most {written(LONGEST_FUNCTION)}, as Lambda allows")
    longest = consumer.timeout / consumer.batch_size
    # A function that is ended within a batch leaves the whole batch to be sent again.
    if consumer.is_webhook and consumer.request_timeout >= longest:
        yield (
            "consumer.request_timeout",
            f"less than the timeout shared by a batch, {consumer.timeout:g} /"
            f" {consumer.batch_size} = {longest:g} seconds",
        )
    if consumer.is_webhook and not settings.consumer_library:
        yield ("consumer_library", "true, because the webhook writes failure records")
    if settings.ordering_key is not None and not settings.consumer_library:
        yield ("consumer_library", "true, because without it no order of ordering_key is kept")


def _paths(settings: PipelineDeployment) -> Iterator[tuple[str, str]]:
    for key in ("idempotency_key", "idempotency_payload", "ordering_key", "expires", "sequence"):
        if of_one_copy := _OF_ONE_COPY.search(getattr(settings, key) or ""):
            yield (
                key,
                f"a value that the producer wrote; {of_one_copy[1]} is another one in each copy",
            )
    if settings.idempotency_payload != EVERYTHING and settings.idempotency_key is None:
        yield (
            "idempotency_payload",
            f"{EVERYTHING}, because without idempotency_key no two messages share a key",
        )


def _with_kind(typed: Any) -> Any:
    """The typed settings with the kind of the consumer, which its other keys may say."""
    consumer = typed.get("consumer") if isinstance(typed, Mapping) else None
    if isinstance(consumer, str) and consumer in tuple(ConsumerKind):
        return {**typed, "consumer": {"kind": consumer}}
    if isinstance(consumer, Mapping) and "function_arn" in consumer:
        return {**typed, "consumer": {"kind": "function", **consumer}}
    return typed


def _tuned(settings: T, path: str, steps: Sequence[str], value: object, owner: str) -> T:
    """The settings with another value at this path, whatever its limits are."""
    name, *rest = steps
    if not is_dataclass(settings) or name not in {item.name for item in fields(settings)}:
        raise refused(owner, f"tuning.{path}", value, "a path of what a declaration has")
    if rest:
        value = _tuned(getattr(settings, name), path, rest, value, owner)
    return replace(settings, **{name: tuple(value) if isinstance(value, list) else value})  # type: ignore[type-var]
