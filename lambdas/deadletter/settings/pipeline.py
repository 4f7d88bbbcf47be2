"""What a pipeline's functions are told by their environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from deadletter.circuit.state import CircuitPolicy
from deadletter.contract import Body, Mode
from deadletter.settings.backoff import Backoff
from deadletter.settings.json_fields import BadSettings, build, json_object, texts

RETRY = Backoff(base=10.0, factor=2.0, cap=900.0, floor=1.0)
"""How far apart the receives of one life are: a minute's trouble is over within the life,
and a quarter of an hour is the longest that a message hides for one failure."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often, and how far apart, a letter may be tried again.

    `max_attempts` counts re-drives since a person last released the letter; the
    first life in the main queue is not one of them.
    """

    backoff: Backoff = field(default_factory=Backoff)
    max_attempts: int = 6


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
    mode: Mode = Mode.ENFORCE
    fifo: bool = False
    body: Body = Body.JSON
    context: Mapping[str, str] = field(default_factory=dict)
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    policies: Mapping[str, RetryPolicy] = field(default_factory=dict)
    message_ttl: float = 12 * 86400.0
    max_delay: float = 7 * 86400.0
    poison_lives: int = 3
    consumer_library: bool = False
    circuit_key: str | None = None
    idempotency_key: str | None = None
    idempotency_keep: float = 45 * 86400.0
    park_permanent: bool = True
    retry: Backoff = RETRY
    refuse_when_open: bool = False
    circuit: CircuitPolicy = field(default_factory=CircuitPolicy)
    rate: float = 50.0
    burst: int = 500
    backlog_limit: int = 10_000
    workers: int = 4
    dedicated: tuple[str, ...] = ()
    parking_for: Mapping[str, str] = field(default_factory=dict)


def pipeline_from_json(text: str) -> Pipeline:
    """The pipeline that `infra` wrote into the environment variable PIPELINE.

    Raises BadSettings with the offending key: a function that misread its own
    settings must not run at all.
    """
    data = json_object("PIPELINE", text)
    policy = _policy("policy", data.pop("policy", {}))
    named = data.pop("policies", {})
    if not isinstance(named, dict):
        raise BadSettings("policies must be a JSON object")
    policies = {name: _policy(f"policies.{name}", value) for name, value in named.items()}
    try:
        data["mode"] = Mode(data.get("mode", Mode.ENFORCE))
        data["body"] = Body(data.get("body", Body.JSON))
    except ValueError as error:
        raise BadSettings(f"PIPELINE: {error}") from error
    data["dedicated"] = texts("dedicated", data.get("dedicated", []))
    data["retry"] = _backoff("retry", data.get("retry", {}), RETRY)
    data["circuit"] = build(CircuitPolicy, "circuit", _nested("circuit", data))
    return build(Pipeline, "PIPELINE", {**data, "policy": policy, "policies": policies})


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
