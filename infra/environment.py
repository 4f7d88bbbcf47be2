"""The variable PIPELINE, and the size of a function's environment: Lambda allows 4 KB.

The other variables (`deadletter.contract.Variable`) are set by the construct of each function.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from deadletter.contract import CIRCUIT, REPLAY, WATCH, WatchDefaults

from .duration import MINUTE
from .refusal import Refused
from .settings import PipelineSettings

# Lambda counts all names and values of one function together.
LIMIT = 4096

# What an advanced parameter of Systems Manager holds.
PARAMETER_LIMIT = 8192

# The settings that the runtime library has under the same names.
RUNTIME_KEYS = {
    "name",
    "mode",
    "fifo",
    "body",
    "context",
    "policy",
    "policies",
    "message_ttl",
    "max_delay",
    "poison_lives",
    "consumer_library",
    "circuit_key",
    "circuit",
    "idempotency_key",
    "idempotency_keep",
    "idempotency_payload",
    "collision",
    "ledger_message",
    "ledger_context",
    "park_permanent",
    "retry",
    "refuse_when_open",
    "rate",
    "max_rate",
    "backlog_limit",
    "workers",
    "drain",
    "transport",
    "parking_for",
    "ordering_key",
    "sequence",
    "expires",
    "replay",
}

# The greatest lengths of parts that only the deployment knows. Every service that we use cuts
# generated names to 64 characters or fewer, and an ARN holds one such name.
_LONGEST_PSEUDO = {
    "AWS::AccountId": len("111122223333"),
    "AWS::Region": len("ap-northeast-1"),
    "AWS::Partition": len("aws-us-gov"),
    "AWS::URLSuffix": len("amazonaws.com.cn"),
}
_LONGEST_REFERENCE = 128

# How the CDK writes a token, and one that stands for a pseudo parameter.
_TOKEN, _PSEUDO = "${Token[", "${Token[AWS."


def runtime_settings(settings: PipelineSettings) -> dict[str, Any]:
    """The settings that the runtime library reads, where they differ from its defaults."""
    changed = settings.model_dump(include=RUNTIME_KEYS, exclude_defaults=True)
    if settings.writes_ledger:
        changed["consumer_library"] = True
    if settings.key_of_circuits is not None:
        changed["circuit_key"] = settings.key_of_circuits
    circuit = changed.pop("circuit", {})
    # Only the probe and replay runs use it, from a variable of its own.
    circuit.pop("health_url", None)
    circuit.pop("pause_consumer", None)
    if settings.lease != CIRCUIT.lease:
        circuit["lease"] = settings.lease
    if settings.pauses_consumer != CIRCUIT.pause_consumer:
        circuit["pause_consumer"] = settings.pauses_consumer
    if circuit:
        changed["circuit"] = circuit
    replay = changed.pop("replay", {})
    # Only the router uses it, from a variable of its own.
    replay.pop("schema_file", None)
    if settings.outcome_timeout != REPLAY.outcome_timeout:
        replay["outcome_timeout"] = settings.outcome_timeout
    if replay:
        changed["replay"] = replay
    if settings.dedicated:
        changed["dedicated"] = list(settings.dedicated)
    return changed


def watch_thresholds(settings: PipelineSettings) -> str:
    """The variable WATCH: when levels of the watch call a person, where not by default."""
    alarms = settings.alarms
    thresholds = WatchDefaults(
        depth=alarms.dlq_depth.threshold,
        depth_looks=alarms.dlq_depth.periods,
        room_late=settings.room_late,
        circuit_open_after=alarms.circuit_open.after,
        flapping_times=alarms.circuit_flapping.threshold,
        flapping_within=alarms.circuit_flapping.period,
        open_circuits=alarms.open_circuits.threshold,
        open_circuits_for=alarms.open_circuits.periods * MINUTE,
        parked_after=alarms.parked.after,
        letter_expiry=settings.expiry_warning,
        scheduled=tuple(id_ for id_, queue in settings.dedicated.items() if queue.enabled),
    )._asdict()
    default = WATCH._asdict()
    changed = {name: value for name, value in thresholds.items() if value != default[name]}
    return json.dumps(changed, separators=(",", ":"))


def pipeline(settings: PipelineSettings) -> str:
    """The variable PIPELINE: the settings as JSON."""
    return json.dumps(runtime_settings(settings), separators=(",", ":"), ensure_ascii=False)


def surely_fits(variables: Mapping[str, str]) -> bool:
    """Whether variables fit, however long what their tokens stand for is.

    A token of CloudFormation's own, such as the region, is written longer than it gets; another one
    counts as the longest reference. It saves the CDK the work of resolving them.
    """
    texts = [text for pair in variables.items() for text in pair]
    references = sum(text.count(_TOKEN) - text.count(_PSEUDO) for text in texts)
    return sum(len(text.encode()) for text in texts) + references * _LONGEST_REFERENCE <= LIMIT


def check(function: str, settings: PipelineSettings, resolved: Mapping[str, Any]) -> None:
    """Raise Refused if the environment of `function`, its tokens resolved, is too large."""
    size = sum(len(name) + longest(value) for name, value in resolved.items())
    if size > LIMIT:
        raise Refused(
            f"Pipeline {settings.name}: the environment of {function} is {size} bytes;"
            f" allowed: at most {LIMIT}, so shorten context, policies, dedicated,"
            " parking or trusted_senders."
        )


def check_parameter(settings: PipelineSettings, resolved: Any) -> None:
    """Raise Refused if the text of the pipeline's parameter, its tokens resolved, is too large."""
    size = longest(resolved)
    if size > PARAMETER_LIMIT:
        raise Refused(
            f"Pipeline {settings.name}: its parameter is {size} bytes; allowed: at most"
            f" {PARAMETER_LIMIT}, so shorten context, policies, dedicated, parking or"
            " trusted_senders."
        )


def longest(value: Any) -> int:
    """The most bytes that a resolved string can have after CloudFormation has filled it in."""
    match value:
        case str():
            return len(value.encode())
        case {"Fn::Join": [str(separator), [*parts]]}:
            return sum(longest(part) for part in parts) + len(separator) * (len(parts) - 1)
        case {"Ref": str(name)}:
            return _LONGEST_PSEUDO.get(name, _LONGEST_REFERENCE)
    return _LONGEST_REFERENCE
