"""The settings of a pipeline, from the environment of its functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from deadletter import contract
from deadletter.circuit.state import CircuitPolicy
from deadletter.contract import (
    Body,
    Collision,
    KeyPolicy,
    LedgerContext,
    LedgerMessage,
    Mode,
    Transport,
    Variable,
)
from deadletter.settings.backoff import Backoff
from deadletter.settings.json_fields import BadSettings, as_object, build, json_object, texts

RETRY = Backoff(
    base=contract.RETRY.base,
    factor=contract.RETRY.factor,
    cap=contract.RETRY.cap,
    floor=contract.RETRY.floor,
)
"""The delays between the receives of one life."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The number of attempts of a letter, and the delays between them.

    `max_attempts` counts re-drives since a person last released the letter; the
    first life in the main queue does not count.
    """

    backoff: Backoff = field(default_factory=Backoff)
    max_attempts: int = contract.MAX_ATTEMPTS


@dataclass(frozen=True, slots=True)
class ReplayPolicy:
    """What a replay run does unless its plan says otherwise.

    `rate` is letters per second where the normal rate of the main queue is unknown.
    `error_rate` is the share of known outcomes that are failures, from `minimum` outcomes,
    that holds the run. A letter is sent `attempts` times at most. A person has to approve a run
    of more than `approve_above` letters (None: of any number), and one with a letter whose
    cause (a fingerprint) is in `approve_causes`. `outcome_timeout` is the seconds after a send
    until its outcome counts as unknown. `on_failure` and `on_unknown` say whether an ordering
    key goes on behind a letter that failed for good, or whose outcome is unknown.
    """

    rate: float = contract.REPLAY.rate
    error_rate: float = contract.REPLAY.error_rate
    minimum: int = contract.REPLAY.minimum
    attempts: int = contract.REPLAY.attempts
    approve_above: int | None = None
    approve_causes: tuple[str, ...] = ()
    outcome_timeout: float = contract.REPLAY.outcome_timeout
    on_failure: KeyPolicy = contract.REPLAY.on_failure
    on_unknown: KeyPolicy = contract.REPLAY.on_unknown


@dataclass(frozen=True, slots=True)
class DrainPolicy:
    """How a deep queue is drained: in so many shards, as many as help (None), or by one run a
    minute (1)."""

    shards: int | None = None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One main queue, its DLQ and parking lot, and the policies for the letters between them.

    All durations are seconds. `context` maps names to JMESPath expressions over the
    document; `message_ttl` counts from the first send of the letter's first life.
    `circuit_key` is a JMESPath expression too (None: one circuit for the whole pipeline),
    and so is `idempotency_key` (None: the origin id); `idempotency_keep` is how long a
    processed message is remembered, and `idempotency_payload` (EVERYTHING, NOTHING or a JMESPath
    expression) what of another message with its key is compared. `collision` says what becomes
    of one that differs; None is COUNT in the pipeline's first day, and PARK then. With
    `ledger_message` NONE the text of a handler's error is not kept anywhere, not even redacted;
    `ledger_context` says how the ledger keeps the values of `context`.
    `park_permanent` sends a permanent failure straight to the parking lot, `retry` sets the
    delays between the receives of one life (here an attempt is a receive), and
    `refuse_when_open` gives letters back unprocessed while their circuit is open.
    `ordering_key` and `sequence` are JMESPath expressions for what a letter is in order with, and
    for its place in that order (None: its FIFO group, and its first send). So is `expires`, for
    the time after which a message must not be sent any more (None: `message_ttl` alone decides).
    `rate` is letters per second, or `auto`: then it rises and falls with the consumer, up to
    `max_rate`.
    """

    name: str
    mode: Mode = contract.PIPELINE.mode
    fifo: bool = contract.PIPELINE.fifo
    body: Body = contract.PIPELINE.body
    context: Mapping[str, str] = field(default_factory=dict)
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    policies: Mapping[str, RetryPolicy] = field(default_factory=dict)
    message_ttl: float = contract.PIPELINE.message_ttl
    max_delay: float = contract.PIPELINE.max_delay
    poison_lives: int = contract.PIPELINE.poison_lives
    consumer_library: bool = False
    circuit_key: str | None = None
    idempotency_key: str | None = None
    idempotency_keep: float = contract.PIPELINE.idempotency_keep
    idempotency_payload: str = contract.PIPELINE.idempotency_payload
    collision: Collision | None = contract.PIPELINE.collision
    ledger_message: LedgerMessage = contract.PIPELINE.ledger_message
    ledger_context: LedgerContext = contract.PIPELINE.ledger_context
    park_permanent: bool = contract.PIPELINE.park_permanent
    retry: Backoff = RETRY
    refuse_when_open: bool = contract.PIPELINE.refuse_when_open
    circuit: CircuitPolicy = field(default_factory=CircuitPolicy)
    rate: float | Literal["auto"] = contract.PIPELINE.rate
    max_rate: float = contract.PIPELINE.max_rate
    backlog_limit: int = contract.PIPELINE.backlog_limit
    workers: int = contract.PIPELINE.workers
    drain: DrainPolicy = field(default_factory=DrainPolicy)
    transport: Transport = contract.PIPELINE.transport
    dedicated: tuple[str, ...] = ()
    parking_for: Mapping[str, str] = field(default_factory=dict)
    ordering_key: str | None = None
    sequence: str | None = None
    expires: str | None = None
    replay: ReplayPolicy = field(default_factory=ReplayPolicy)

    @property
    def is_auto_rate(self) -> bool:
        return self.rate == contract.AUTO

    @property
    def first_rate(self) -> float:
        """Letters per second of a run that knows nothing of the runs before it."""
        return min(contract.FIRST_RATE, self.max_rate) if self.rate == "auto" else self.rate


def pipeline_from_json(text: str) -> Pipeline:
    """The pipeline in the environment variable PIPELINE, which the deployment wrote.

    Raises BadSettings with the invalid key: a function with invalid settings must not run.
    """
    data = json_object(Variable.PIPELINE, text)
    policy = _policy("policy", data.pop("policy", {}))
    policies = {
        name: _policy(f"policies.{name}", value)
        for name, value in as_object("policies", data.pop("policies", {})).items()
    }
    try:
        data["mode"] = Mode(data.get("mode", Mode.ENFORCE))
        data["body"] = Body(data.get("body", Body.JSON))
        if data.get("collision") is not None:
            data["collision"] = Collision(data["collision"])
        data["ledger_message"] = LedgerMessage(data.get("ledger_message", LedgerMessage.REDACTED))
        data["ledger_context"] = LedgerContext(data.get("ledger_context", LedgerContext.PLAIN))
        data["transport"] = Transport(data.get("transport", contract.PIPELINE.transport))
        replay = as_object("replay", data.get("replay", {}))
        for name in ("on_failure", "on_unknown"):
            if name in replay:
                replay[name] = KeyPolicy(replay[name])
    except ValueError as error:
        raise BadSettings(f"{Variable.PIPELINE}: {error}") from error
    rate = data.get("rate", contract.PIPELINE.rate)
    if rate != contract.AUTO and (isinstance(rate, bool) or not isinstance(rate, int | float)):
        raise BadSettings(f"{Variable.PIPELINE}: rate must be a number or {contract.AUTO}")
    data["dedicated"] = texts("dedicated", data.get("dedicated", []))
    data["retry"] = _backoff("retry", data.get("retry", {}), RETRY)
    data["circuit"] = build(CircuitPolicy, "circuit", as_object("circuit", data.get("circuit", {})))
    if "approve_causes" in replay:
        replay["approve_causes"] = texts("replay.approve_causes", replay["approve_causes"])
    data["replay"] = build(ReplayPolicy, "replay", replay)
    data["drain"] = build(DrainPolicy, "drain", as_object("drain", data.get("drain", {})))
    return build(Pipeline, Variable.PIPELINE, {**data, "policy": policy, "policies": policies})


def _policy(where: str, data: Any) -> RetryPolicy:
    policy = as_object(where, data)
    backoff = _backoff(f"{where}.backoff", policy.get("backoff", {}), Backoff())
    return build(RetryPolicy, where, {**policy, "backoff": backoff})


def _backoff(where: str, data: Any, default: Backoff) -> Backoff:
    """The backoff in `data`; a missing key has the value of `default`."""
    return build(Backoff, where, {**asdict(default), **as_object(where, data)})
