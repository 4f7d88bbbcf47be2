"""What a pipeline's functions are told by their environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from deadletter import contract
from deadletter.circuit.state import CircuitPolicy
from deadletter.contract import Body, Mode, Variable
from deadletter.settings.backoff import Backoff
from deadletter.settings.json_fields import BadSettings, build, json_object, texts

RETRY = Backoff(
    base=contract.RETRY.base,
    factor=contract.RETRY.factor,
    cap=contract.RETRY.cap,
    floor=contract.RETRY.floor,
)
"""How far apart the receives of one life are."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often, and how far apart, a letter may be tried again.

    `max_attempts` counts re-drives since a person last released the letter; the
    first life in the main queue is not one of them.
    """

    backoff: Backoff = field(default_factory=Backoff)
    max_attempts: int = contract.MAX_ATTEMPTS


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One main queue, its DLQ, its parking lot, and how letters between them are judged.

    All durations are seconds. `context` names JMESPath expressions over the
    document; `message_ttl` counts from the first send of the letter's first life;
    `circuit_key` is a path too (None: one circuit for the whole pipeline), and so is
    `idempotency_key` (None: the origin id); `idempotency_keep` is how long a message that
    was processed is remembered. `park_permanent` sends a permanent failure straight to the
    parking lot, `retry` spaces the receives of one life (an attempt is a receive), and
    `refuse_when_open` gives letters back unprocessed while their circuit is open.
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
    park_permanent: bool = contract.PIPELINE.park_permanent
    retry: Backoff = RETRY
    refuse_when_open: bool = contract.PIPELINE.refuse_when_open
    circuit: CircuitPolicy = field(default_factory=CircuitPolicy)
    rate: float = contract.PIPELINE.rate
    burst: int = contract.PIPELINE.burst
    backlog_limit: int = contract.PIPELINE.backlog_limit
    workers: int = contract.PIPELINE.workers
    dedicated: tuple[str, ...] = ()
    parking_for: Mapping[str, str] = field(default_factory=dict)


def pipeline_from_json(text: str) -> Pipeline:
    """The pipeline that `infra` wrote into the environment variable PIPELINE.

    Raises BadSettings with the offending key: a function that misread its own
    settings must not run at all.
    """
    data = json_object(Variable.PIPELINE, text)
    policy = _policy("policy", data.pop("policy", {}))
    named = data.pop("policies", {})
    if not isinstance(named, dict):
        raise BadSettings("policies must be a JSON object")
    policies = {name: _policy(f"policies.{name}", value) for name, value in named.items()}
    try:
        data["mode"] = Mode(data.get("mode", Mode.ENFORCE))
        data["body"] = Body(data.get("body", Body.JSON))
    except ValueError as error:
        raise BadSettings(f"{Variable.PIPELINE}: {error}") from error
    data["dedicated"] = texts("dedicated", data.get("dedicated", []))
    data["retry"] = _backoff("retry", data.get("retry", {}), RETRY)
    data["circuit"] = build(CircuitPolicy, "circuit", _nested("circuit", data))
    return build(Pipeline, Variable.PIPELINE, {**data, "policy": policy, "policies": policies})


def _policy(where: str, data: Any) -> RetryPolicy:
    if not isinstance(data, dict):
        raise BadSettings(f"{where} must be a JSON object")
    backoff = _backoff(f"{where}.backoff", data.get("backoff", {}), Backoff())
    return build(RetryPolicy, where, {**data, "backoff": backoff})


def _backoff(where: str, data: Any, default: Backoff) -> Backoff:
    """What `data` says of a backoff, and `default` where it says nothing."""
    if not isinstance(data, dict):
        raise BadSettings(f"{where} must be a JSON object")
    return build(Backoff, where, {**asdict(default), **data})


def _nested(where: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
    found = data.get(where, {})
    if not isinstance(found, dict):
        raise BadSettings(f"{where} must be a JSON object")
    return found
