"""The variable PIPELINE, and the size of a function's environment: Lambda allows 4 KB.

The other variables (`deadletter.contract.Variable`) are set by the construct of each function.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from deadletter.contract import WATCH
from deadletter.settings.pipeline import Pipeline

from .refusal import Refused
from .settings import PipelineDeployment

# Lambda counts all names and values of one function together.
LIMIT = 4096

# What an advanced parameter of Systems Manager holds.
PARAMETER_LIMIT = 8192

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


def runtime_settings(settings: PipelineDeployment) -> dict[str, Any]:
    """The settings that the runtime library reads, where they differ from its defaults."""
    changed: dict[str, Any] = _changed(settings, Pipeline(""))
    if settings.dedicated:
        changed["dedicated"] = list(settings.dedicated)
    return changed


def _changed(value: Any, default: Any) -> Any:
    """The fields of `default` in which `value` differs, as JSON."""
    if isinstance(value, Mapping):
        return {name: _changed(item, type(item)()) for name, item in value.items()}
    if not is_dataclass(default):
        return value
    pairs = {
        item.name: (getattr(value, item.name), getattr(default, item.name))
        for item in fields(default)
    }
    changed = {name: _changed(*pair) for name, pair in pairs.items() if pair[0] != pair[1]}
    # A declaration of the deployment is another class than that of the functions.
    return {name: item for name, item in changed.items() if item != {} or pairs[name][1] == {}}


def watch_thresholds(settings: PipelineDeployment) -> str:
    """The variable WATCH: when levels of the watch call a person, where not by default."""
    scheduled = [id_ for id_, drained in settings.dedicated.items() if drained]
    said = {name: getattr(settings.alarms, name, scheduled) for name in WATCH._fields}
    default = {**WATCH._asdict(), "scheduled": []}
    changed = {name: value for name, value in said.items() if value != default[name]}
    return json.dumps(changed, separators=(",", ":"))


def pipeline(settings: PipelineDeployment) -> str:
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


def check(function: str, settings: PipelineDeployment, resolved: Mapping[str, Any]) -> None:
    """Raise Refused if the environment of `function`, its tokens resolved, is too large."""
    size = sum(len(name) + longest(value) for name, value in resolved.items())
    _check(settings, f"the environment of {function}", size, LIMIT)


def check_parameter(settings: PipelineDeployment, resolved: Any) -> None:
    """Raise Refused if the text of the pipeline's parameter, its tokens resolved, is too large."""
    _check(settings, "its parameter", longest(resolved), PARAMETER_LIMIT)


def _check(settings: PipelineDeployment, what: str, size: int, most: int) -> None:
    if size > most:
        raise Refused(
            f"Pipeline {settings.name}: {what} is {size} bytes; allowed: at most {most}, so shorten"
            " context, policies, dedicated, parking or trusted_senders."
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
