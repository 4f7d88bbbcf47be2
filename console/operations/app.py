"""The deployed app as its SSM parameters describe it.

`/<app>/app` is JSON with the tables, the bucket and the topic that all pipelines
share; `/<app>/pipelines/<name>` is JSON with one pipeline's queues and functions. The
stacks write them; unknown keys are ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from deadletter.contract import (
    EVERY_PIPELINE,
    MAIN,
    MAIN_DLQ,
    app_parameter,
    parking_source,
    pipeline_prefix,
    pipelines_folder,
)

from .aws import Aws, rows
from .errors import Cause, Problem, read_json

if TYPE_CHECKING:
    from deadletter.settings.pipeline import Pipeline

_NAME = re.compile(r"[A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class DeployedPipeline:
    """One main queue with its DLQ, its parking lot and the functions that move letters.

    `parking` and `dedicated` map queue ids, as the settings name them, to queue URLs; `terms` is
    what the pipeline allows in a rule, `pipeline` all its settings. `replay_machine` and
    `consumer_function` are ARNs, the second empty without one. `stacks` are the names of the stacks
    that hold the `pipeline` and its `queues`. `keys` are the customer keys that its functions may
    use. `trusted_senders` are the ids of the roles that send messages again.
    `webhook` says which URLs its dispatcher posts to; it is empty for another consumer.
    """

    name: str
    main_url: str
    dlq_url: str
    parking: Mapping[str, str]
    redrive_function: str
    mode: str
    dedicated: Mapping[str, str]
    router_function: str
    fifo: bool
    terms: Mapping[str, Any]
    pipeline: Mapping[str, Any]
    replay_machine: str
    stacks: Mapping[str, str]
    keys: Sequence[str]
    trusted_senders: Sequence[str]
    consumer_function: str = ""
    webhook: Mapping[str, Any] = field(default_factory=dict)

    @property
    def urls(self) -> Mapping[str, str]:
        """The URLs of its queues: `main`, `dlq`, ids of dedicated DLQs, and `parking:<id>`."""
        parking = {parking_source(id_): url for id_, url in self.parking.items()}
        return {MAIN: self.main_url, MAIN_DLQ: self.dlq_url, **self.dedicated, **parking}

    def settings(self) -> Pipeline:
        """Its settings as its own functions read them: a rule is judged as its router does."""
        from deadletter.settings.pipeline import pipeline_from_json

        with self._expected():
            return pipeline_from_json(json.dumps({"name": self.name, **self.pipeline}))

    def rule_terms(self) -> Pipeline:
        """What it allows in a rule; the rule checker uses the same."""
        from deadletter.rules.checker import pipeline_from_terms

        with self._expected():
            return pipeline_from_terms(self.name, self.terms)

    @contextmanager
    def _expected(self) -> Iterator[None]:
        from deadletter.settings.json_fields import BadSettings

        try:
            yield
        except BadSettings as error:
            raise _unexpected(f"The settings of {self.name} are", error) from error


@dataclass(frozen=True, slots=True)
class App:
    """What all pipelines of one deployment share; `audit_days` is how long changes are kept."""

    name: str
    messages_table: str
    circuits_table: str
    rules_table: str
    audit_table: str
    audit_days: int
    endpoints_table: str
    messages_bucket: str
    alarm_topic: str
    pipelines: tuple[DeployedPipeline, ...] = ()

    def select(self, names: Sequence[str]) -> tuple[DeployedPipeline, ...]:
        """The pipelines with these names, each once; without names, all pipelines."""
        known = {pipeline.name: pipeline for pipeline in self.pipelines}
        for name in names:
            if name not in known:
                raise Problem(
                    f"App {self.name} has no pipeline {name!r}: {self._choices()}.", Cause.ABSENT
                )
        return tuple(known[name] for name in dict.fromkeys(names)) or self.pipelines

    def pipeline(self, name: str | None) -> DeployedPipeline:
        """The pipeline with this name; without a name, the app's only pipeline."""
        pipelines = self.select([name] if name is not None else [])
        if not pipelines:
            raise Problem(f"App {self.name} has no pipeline yet: deploy one.", Cause.ABSENT)
        if len(pipelines) > 1:
            raise Problem(
                f"App {self.name} has several pipelines: add --pipeline and one of "
                f"{', '.join(pipeline.name for pipeline in pipelines)}.",
                Cause.INPUT,
            )
        return pipelines[0]

    def scope(self, name: str | None) -> tuple[str, tuple[DeployedPipeline, ...]]:
        """The key that a rule is stored under, and the pipelines in which it is judged."""
        if name == EVERY_PIPELINE:
            return EVERY_PIPELINE, self.pipelines
        pipeline = self.pipeline(name)
        return pipeline.name, (pipeline,)

    def owner_of(self, alarm: str) -> str | None:
        """The pipeline of an alarm: the longest name that the alarm's name begins with."""
        names = (pipeline.name for pipeline in self.pipelines)
        owners = (name for name in names if alarm.startswith(pipeline_prefix(self.name, name)))
        return max(owners, key=len, default=None)

    def _choices(self) -> str:
        names = ", ".join(pipeline.name for pipeline in self.pipelines)
        return f"it has {names}" if names else "it has none yet"


def find(aws: Aws, name: str) -> App:
    """The app of that name in this account and region.

    Raises Problem (ABSENT) if its parameters are missing or malformed.
    """
    if not _NAME.fullmatch(name):
        raise Problem(
            f"{name!r} can't be the name of an app: letters, digits and . _ - only.", Cause.INPUT
        )
    found = rows(aws.ssm, "get_parameters_by_path", "Parameters", Path=f"/{name}", Recursive=True)
    values = {row["Name"]: row["Value"] for row in found}
    shared = values.get(app_parameter(name))
    if shared is None:
        raise Problem(
            f"No app {name!r} in account {aws.account}, {aws.region} (no SSM parameter "
            f"{app_parameter(name)}): check --app, --region and --profile. Where no app is "
            "deployed, these look into any queue:\ndlq list --in queue:NAME --look\n"
            "dlq groups --in queue:NAME --look\ndlq doctor queue:NAME",
            Cause.ABSENT,
        )
    folder = f"{pipelines_folder(name)}/"
    pipelines = tuple(
        _described(DeployedPipeline, path, value, name=path.removeprefix(folder))
        for path, value in sorted(values.items())
        if path.startswith(folder)
    )
    return _described(App, app_parameter(name), shared, name=name, pipelines=pipelines)


T = TypeVar("T")


def _described(kind: type[T], path: str, value: str, **known: Any) -> T:
    data = read_json(value)
    if not isinstance(data, dict):
        raise _malformed(path, "it is not a JSON object")
    for column in fields(kind):  # type: ignore[arg-type]  # T is a dataclass of ours
        if column.name in known:
            continue
        if column.name in data:
            known[column.name] = data[column.name]
            if not _fits(column.type, data[column.name]):
                raise _malformed(path, f"{column.name} should be {column.type}")
        elif column.default is MISSING and column.default_factory is MISSING:
            raise _malformed(path, f"{column.name} is missing")
    return kind(**known)


def _fits(kind: Any, value: object) -> bool:
    if kind in ("str", "bool", "int"):
        return bool(type(value).__name__ == kind)
    if kind == "Sequence[str]":
        return isinstance(value, list) and all(isinstance(text, str) for text in value)
    texts = value.values() if isinstance(value, dict) and kind != "Mapping[str, Any]" else ()
    return isinstance(value, dict) and all(isinstance(text, str) for text in texts)


def _malformed(path: str, why: str) -> Problem:
    return _unexpected(f"The SSM parameter {path} is", why)


def _unexpected(what: str, why: object) -> Problem:
    return Problem(
        f"{what} not what this dlq expects ({why}): "
        "use the dlq of the version that is deployed, or deploy again.",
        Cause.ABSENT,
    )
