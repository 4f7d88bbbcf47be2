"""The deployed app as its SSM parameters describe it: where `dlq` finds everything.

`/<app>/app` is JSON with the tables, the bucket and the topic that all pipelines
share; `/<app>/pipelines/<name>` is JSON with one pipeline's queues and functions. The
stacks write them; keys that this version does not know are left alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar

from deadletter.contract import app_parameter, pipelines_folder

from .aws import Aws
from .problem import Exit, Problem

_NAME = re.compile(r"[A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class DeployedPipeline:
    """One main queue with its DLQ, its parking lot and the functions that move letters.

    `parking` and `dedicated` map queue ids, as the settings name them, to queue URLs;
    `terms` is what the pipeline allows in a rule, `pipeline` all its settings.
    """

    name: str
    main_url: str
    dlq_url: str
    parking: Mapping[str, str]
    redrive_function: str
    mode: str
    dedicated: Mapping[str, str]
    router_function: str = ""
    fifo: bool = False
    terms: Mapping[str, Any] = field(default_factory=dict)
    pipeline: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class App:
    """What all pipelines of one deployment share."""

    name: str
    letters_table: str
    circuits_table: str
    rules_table: str = ""
    endpoints_table: str = ""
    letters_bucket: str = ""
    alarm_topic: str = ""
    pipelines: tuple[DeployedPipeline, ...] = ()

    def some(self, names: Sequence[str]) -> tuple[DeployedPipeline, ...]:
        """The pipelines with these names, each once; all of them if none is named."""
        known = {one.name: one for one in self.pipelines}
        for name in names:
            if name not in known:
                raise Problem(
                    f"App {self.name} has no pipeline {name!r}: {self._choices()}.", Exit.ABSENT
                )
        return tuple(known[name] for name in dict.fromkeys(names)) or self.pipelines

    def one(self, name: str | None) -> DeployedPipeline:
        """The pipeline with this name; without a name, the only one there is."""
        found = self.some([name] if name is not None else [])
        if not found:
            raise Problem(f"App {self.name} has no pipeline yet: deploy one.", Exit.ABSENT)
        if len(found) > 1:
            raise Problem(
                f"App {self.name} has several pipelines: add --pipeline and one of "
                f"{', '.join(one.name for one in found)}.",
                Exit.USAGE,
            )
        return found[0]

    def _choices(self) -> str:
        names = ", ".join(one.name for one in self.pipelines)
        return f"it has {names}" if names else "it has none yet"


def find(aws: Aws, name: str) -> App:
    """The app of that name in this account and region.

    Raises Problem (ABSENT) if its parameters are not there, or not understood.
    """
    if not _NAME.fullmatch(name):
        raise Problem(
            f"{name!r} can't be the name of an app: letters, digits and . _ - only.", Exit.USAGE
        )
    root = f"/{name}"
    pages = aws.ssm.get_paginator("get_parameters_by_path").paginate(Path=root, Recursive=True)
    found = {one["Name"]: one["Value"] for page in pages for one in page["Parameters"]}
    shared = found.get(app_parameter(name))
    if shared is None:
        raise Problem(
            f"No app {name!r} in account {aws.account}, {aws.region} (no SSM parameter "
            f"{app_parameter(name)}): check --app, --region and --profile.",
            Exit.ABSENT,
        )
    folder = f"{pipelines_folder(name)}/"
    pipelines = tuple(
        _described(DeployedPipeline, path, value, name=path.removeprefix(folder))
        for path, value in sorted(found.items())
        if path.startswith(folder)
    )
    return _described(App, app_parameter(name), shared, name=name, pipelines=pipelines)


T = TypeVar("T")


def _described(kind: type[T], path: str, value: str, **known: Any) -> T:
    try:
        data = json.loads(value)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise _not_understood(path, "it is not a JSON object")
    for one in fields(kind):  # type: ignore[arg-type]  # T is one of our dataclasses
        if one.name in known:
            continue
        if one.name in data:
            known[one.name] = data[one.name]
            if not _fits(one.type, data[one.name]):
                raise _not_understood(path, f"{one.name} should be {one.type}")
        elif one.default is MISSING and one.default_factory is MISSING:
            raise _not_understood(path, f"{one.name} is missing")
    return kind(**known)


def _fits(kind: Any, value: object) -> bool:
    match kind:
        case "str":
            return isinstance(value, str)
        case "bool":
            return isinstance(value, bool)
        case "Mapping[str, Any]":
            return isinstance(value, dict)
        case _:
            return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())


def _not_understood(path: str, why: str) -> Problem:
    return Problem(
        f"The SSM parameter {path} is not what this dlq expects ({why}): "
        "use the dlq of the version that is deployed, or deploy again.",
        Exit.ABSENT,
    )
