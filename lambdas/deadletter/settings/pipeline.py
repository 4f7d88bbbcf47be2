"""What a pipeline's functions are told by their environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

from deadletter.circuit.state import CircuitPolicy
from deadletter.contract import Body, Mode
from deadletter.settings.backoff import Backoff

RETRY = Backoff(base=10.0, factor=2.0, cap=900.0, floor=1.0)
"""How far apart the receives of one life are: a minute's trouble is over within the life,
and a quarter of an hour is the longest that a message hides for one failure."""


class BadSettings(ValueError):
    """The environment does not describe a pipeline; the message says which part."""


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


@dataclass(frozen=True, slots=True)
class Webhook:
    """How the webhook dispatcher posts.

    `timeout` is seconds for one POST in all; `ports` are those that https is posted to;
    the names of signing secrets start with `secret_prefix`. `allow_loopback` lets it post
    to plain http on loopback, unsigned: for sandboxes only.
    """

    timeout: float = 5.0
    allow_loopback: bool = False
    ports: tuple[int, ...] = (443,)
    secret_prefix: str = ""


@dataclass(frozen=True, slots=True)
class Resources:
    """The names of what a pipeline's functions talk to.

    `parking` maps a parking queue's id to its URL and always holds "default";
    `dedicated` maps a dedicated DLQ's id to its URL. `trusted_senders` are the
    unique ids of the roles whose `Redrive` attribute is believed. `registrations` is
    the folder of parameters with one a pipeline, and `audit_days` how long a change of
    a rule is kept. `circuit_machine` is the ARN of the state machine that runs outages,
    `consumer_function` the consumer's, if it is a Lambda function, `consumer_mapping` the
    id of its mapping, if the app made it, and `consumer_timeout` how many seconds it may
    take. `health_url` is asked where there is no letter to probe a dependency with. A
    field that a function has no business with is empty in its environment.
    """

    main_url: str = ""
    main_arn: str = ""
    dlq_url: str = ""
    parking: Mapping[str, str] = field(default_factory=dict)
    dedicated: Mapping[str, str] = field(default_factory=dict)
    letters_table: str = ""
    letters_bucket: str = ""
    rules_table: str = ""
    circuits_table: str = ""
    endpoints_table: str = ""
    router_function: str = ""
    trusted_senders: tuple[str, ...] = ()
    audit_table: str = ""
    audit_days: int = 0
    registrations: str = ""
    dlq_arn: str = ""
    circuit_machine: str = ""
    consumer_function: str = ""
    consumer_mapping: str = ""
    consumer_timeout: int = 0
    health_url: str = ""


# Fields of the resources that are whole numbers, with their units.
_NUMBERS = {"audit_days": "days", "consumer_timeout": "seconds"}


def pipeline_from_json(text: str) -> Pipeline:
    """The pipeline that `infra` wrote into the environment variable PIPELINE.

    Raises BadSettings with the offending key: a function that misread its own
    settings must not run at all.
    """
    data = _object("PIPELINE", text)
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
    data["dedicated"] = _texts("dedicated", data.get("dedicated", []))
    data["retry"] = _backoff("retry", data.get("retry", {}), RETRY)
    data["circuit"] = _build(CircuitPolicy, "circuit", _nested("circuit", data))
    return _build(Pipeline, "PIPELINE", {**data, "policy": policy, "policies": policies})


def webhook_from_json(text: str) -> Webhook:
    """The dispatcher's settings in the environment variable WEBHOOK; raises BadSettings."""
    data = _object("WEBHOOK", text)
    ports = data.get("ports", [443])
    if not isinstance(ports, list) or not all(type(one) is int for one in ports):
        raise BadSettings("WEBHOOK: ports must be a JSON list of whole numbers")
    return _build(Webhook, "WEBHOOK", {**data, "ports": tuple(ports)})


def resources_from_environment(environment: Mapping[str, str]) -> Resources:
    """The resources as the function's environment gives it: one upper-case variable a field.

    Maps and tuples are JSON; raises BadSettings for what is not. A variable that is
    not there leaves the field empty.
    """
    found: dict[str, Any] = {}
    for one in fields(Resources):
        variable = one.name.upper()
        if variable not in environment:
            continue
        text = environment[variable]
        if one.name in ("parking", "dedicated"):
            found[one.name] = _object(variable, text)
        elif one.name == "trusted_senders":
            found[one.name] = _texts(variable, _json(variable, text))
        elif one.name in _NUMBERS:
            found[one.name] = _whole(variable, text, _NUMBERS[one.name])
        else:
            found[one.name] = text
    return Resources(**found)


def _whole(where: str, text: str, unit: str) -> int:
    if not text.isdecimal():
        raise BadSettings(f"{where} must be a number of {unit}")
    return int(text)


def _json(where: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadSettings(f"{where} is not JSON") from error


def _object(where: str, text: str) -> dict[str, Any]:
    data = _json(where, text)
    if not isinstance(data, dict):
        raise BadSettings(f"{where} must be a JSON object")
    return data


def _texts(where: str, data: Any) -> tuple[str, ...]:
    if not isinstance(data, list) or not all(isinstance(one, str) for one in data):
        raise BadSettings(f"{where} must be a JSON list of texts")
    return tuple(data)


def _policy(where: str, data: Any) -> RetryPolicy:
    if not isinstance(data, dict):
        raise BadSettings(f"{where} must be a JSON object")
    backoff = _backoff(f"{where}.backoff", data.get("backoff", {}), Backoff())
    return _build(RetryPolicy, where, {**data, "backoff": backoff})


def _backoff(where: str, data: Any, default: Backoff) -> Backoff:
    """What `data` says of a backoff, and `default` where it says nothing."""
    if not isinstance(data, dict):
        raise BadSettings(f"{where} must be a JSON object")
    return _build(Backoff, where, {**asdict(default), **data})


def _nested(where: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
    found = data.get(where, {})
    if not isinstance(found, dict):
        raise BadSettings(f"{where} must be a JSON object")
    return found


T = TypeVar("T")


def _build(kind: type[T], where: str, data: Mapping[str, Any]) -> T:
    known = {one.name for one in fields(kind)}  # type: ignore[arg-type]
    for key in data:
        if key not in known:
            raise BadSettings(f"{where}: unknown key {key!r}; known are {', '.join(sorted(known))}")
    try:
        return kind(**data)
    except TypeError as error:
        raise BadSettings(f"{where}: {error}") from error
