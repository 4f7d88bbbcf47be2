"""The settings as types, for editors and type checkers; `make docs` writes this file.

What a person types is a plain dict: `infra.checked` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict


class Backoff(TypedDict, total=False):
    """Exponential backoff with full jitter: min(cap, base * factor^(attempt - 1)), and a floor."""

    base: int | str
    cap: int | str


class RetryPolicy(TypedDict, total=False):
    """The number of attempts of a letter, and the delays between them."""

    backoff: Backoff
    max_attempts: int


class Circuit(TypedDict, total=False):
    """When a circuit opens, how long it stays open, and how it comes back."""

    failure_rate: float
    minimum: int
    consecutive: int
    cooldown: int | str
    health_url: str | None


class Replay(TypedDict, total=False):
    """What a replay run does unless its plan says otherwise."""

    approve_above: int | None
    schema: str | None


class MainQueue(TypedDict, total=False):
    """The queue your consumer reads."""

    arn: str | None
    kms_key_arn: str | None
    retention: int | str
    max_receive_count: int


class DeadLetterQueue(TypedDict, total=False):
    """The queue that receives failed messages."""

    arn: str | None
    kms_key_arn: str | None


class Consumer(TypedDict, total=False):
    """What consumes the main queue."""

    kind: Literal["webhook", "function", "none"]
    function_arn: str | None
    timeout: int | str
    mapping_id: str | None
    request_timeout: float
    max_concurrency: int


class Schedule(TypedDict, total=False):
    """The run that drains the DLQ."""

    every: int | str
    memory: int


class Alarms(TypedDict, total=False):
    """When a person is called; what is no setting is the same for all."""

    age: int | str
    depth: int


class PipelineSettings(TypedDict, total=False):
    """One main queue, its DLQ, its parking lot, and how letters between them are judged."""

    name: str
    mode: Literal["enforce", "observe"]
    fifo: bool
    body: Literal["json", "opaque"]
    context: Mapping[str, str]
    policy: RetryPolicy
    policies: Mapping[str, RetryPolicy]
    message_ttl: int | str
    expires: str | None
    poison_lives: int
    consumer_library: bool
    circuit_key: str | None
    circuit: Circuit
    idempotency_key: str | None
    idempotency_payload: str
    ledger: Literal["plain", "hashed", "none"]
    rate: float
    parking: Mapping[str, str]
    ordering_key: str | None
    sequence: str | None
    replay: Replay
    dedicated: Mapping[str, bool]
    main_queue: MainQueue
    dlq: DeadLetterQueue
    consumer: Consumer | str
    redrive: Schedule
    trusted_senders: Sequence[str]
    owner: str | None
    alarms: Alarms
    tuning: Mapping[str, Any]


class Vpc(TypedDict, total=False):
    """Your subnets, in which all functions of the app then run."""

    subnet_ids: Sequence[str]
    security_group_ids: Sequence[str]


class AppSettings(TypedDict, total=False):
    """One deployment: what its pipelines share."""

    app: str
    ephemeral: bool
    alarm_topic_arn: str | None
    kms_key_arn: str | None
    log_retention_days: Literal[1, 7, 14, 30, 90, 180, 365, 731, 1827, 3653]
    replay_days: int
    runbook: str
    owner: str
    dashboard: bool
    architecture: Literal["arm64", "x86_64"]
    environment: Mapping[str, str]
    reserve_watch: bool
    vpc: Vpc | None
