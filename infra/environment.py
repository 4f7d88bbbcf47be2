"""What a function is told about itself: its environment, which Lambda limits to 4 KB."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from infra.refusal import Refused
from infra.settings import PipelineSettings

# Lambda counts all names and values of one function together.
LIMIT = 4096

# The keys that the runtime library knows by the same names.
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
    "rate",
    "burst",
    "backlog_limit",
    "workers",
    "parking_for",
}

# How long at most a part can be that only the deployment knows. Generated names
# are cut to 64 characters or fewer by everything we use, ARNs hold one such name.
_LONGEST_PSEUDO = {
    "AWS::AccountId": len("111122223333"),
    "AWS::Region": len("ap-northeast-1"),
    "AWS::Partition": len("aws-us-gov"),
    "AWS::URLSuffix": len("amazonaws.com.cn"),
}
_LONGEST_REFERENCE = 128


def pipeline(settings: PipelineSettings) -> str:
    """The variable PIPELINE: JSON with what differs from the runtime's own defaults."""
    said = settings.model_dump(include=RUNTIME_KEYS, exclude_defaults=True)
    if settings.dedicated:
        said["dedicated"] = list(settings.dedicated)
    return json.dumps(said, separators=(",", ":"), ensure_ascii=False)


def check(function: str, settings: PipelineSettings, resolved: Mapping[str, Any]) -> None:
    """Raise Refused if the environment of `function`, its tokens resolved, is too large."""
    size = sum(len(name) + _length(value) for name, value in resolved.items())
    if size > LIMIT:
        raise Refused(
            f"Pipeline {settings.name}: the environment of {function} is {size} bytes;"
            f" allowed: at most {LIMIT}, so say less under context, policies, dedicated,"
            " parking or trusted_senders."
        )


def _length(value: Any) -> int:
    """Bytes of a string, at most, once CloudFormation has filled it in."""
    match value:
        case str():
            return len(value.encode())
        case {"Fn::Join": [str(separator), [*parts]]}:
            return sum(_length(part) for part in parts) + len(separator) * (len(parts) - 1)
        case {"Ref": str(name)}:
            return _LONGEST_PSEUDO.get(name, _LONGEST_REFERENCE)
    return _LONGEST_REFERENCE
