"""Event source mappings of Lambda in memory, as strict as Lambda about limits and tags."""

# ruff: noqa: N803 - the arguments are spelled as boto3 spells them

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from deadletter.testing.fakes.errors import client_error

_TAG_VALUE = re.compile(r"[\w\s.:/=+@-]{0,256}")

_RANGES = {
    "MaximumConcurrency": (2, 1_000),
    "MinimumPollers": (2, 200),
    "MaximumPollers": (2, 2_000),
}


@dataclass
class _Stored:
    """One mapping; a change of it is under way until `settles_at`."""

    arn: str
    function: str
    queue: str
    enabled: bool = True
    scaling: dict[str, int] = field(default_factory=dict)
    provisioned: dict[str, int] = field(default_factory=dict)
    changed_at: float = 0.0
    settles_at: float = 0.0
    transient: str = ""
    tags: dict[str, str] = field(default_factory=dict)


class MemoryMappings:
    """The calls of a `boto3.client("lambda")` about event source mappings.

    `clock` returns epoch seconds. A change takes `change_seconds`, in which the mapping is
    in use and takes no other.
    """

    def __init__(self, clock: Callable[[], float], *, change_seconds: float = 0.0) -> None:
        self._clock = clock
        self._change_seconds = change_seconds
        self._mappings: dict[str, _Stored] = {}

    def create_event_source_mapping(
        self,
        *,
        FunctionName: str,
        EventSourceArn: str,
        ScalingConfig: Mapping[str, int] | None = None,
        ProvisionedPollerConfig: Mapping[str, int] | None = None,
    ) -> dict[str, Any]:
        uuid = f"00000000-0000-4000-8000-{len(self._mappings):012}"
        arn = f"arn:aws:lambda:us-east-1:123456789012:event-source-mapping:{uuid}"
        stored = _Stored(arn, FunctionName, EventSourceArn, changed_at=self._clock())
        _limit("CreateEventSourceMapping", stored, ScalingConfig, ProvisionedPollerConfig)
        self._mappings[uuid] = stored
        return self._answer(uuid)

    def get_event_source_mapping(self, *, UUID: str) -> dict[str, Any]:
        self._find("GetEventSourceMapping", UUID)
        return self._answer(UUID)

    def get_paginator(self, name: str) -> MemoryMappings:
        assert name == "list_event_source_mappings"
        return self

    def paginate(self, *, FunctionName: str, EventSourceArn: str) -> Iterator[dict[str, Any]]:
        wanted = (FunctionName, EventSourceArn)
        yield {
            "EventSourceMappings": [
                self._answer(uuid)
                for uuid, stored in self._mappings.items()
                if (stored.function, stored.queue) == wanted
            ]
        }

    def update_event_source_mapping(
        self,
        *,
        UUID: str,
        Enabled: bool | None = None,
        ScalingConfig: Mapping[str, int] | None = None,
        ProvisionedPollerConfig: Mapping[str, int] | None = None,
    ) -> dict[str, Any]:
        stored = self._find("UpdateEventSourceMapping", UUID)
        self._check_idle("UpdateEventSourceMapping", stored)
        _limit("UpdateEventSourceMapping", stored, ScalingConfig, ProvisionedPollerConfig)
        words = {None: "Updating", True: "Enabling", False: "Disabling"}
        stored.transient = words[Enabled]
        stored.enabled = stored.enabled if Enabled is None else Enabled
        stored.settles_at = self._clock() + self._change_seconds
        stored.changed_at = stored.settles_at
        return self._answer(UUID)

    def list_tags(self, *, Resource: str) -> dict[str, Any]:
        return {"Tags": dict(self._tagged("ListTags", Resource).tags)}

    def tag_resource(self, *, Resource: str, Tags: Mapping[str, str]) -> dict[str, Any]:
        stored = self._tagged("TagResource", Resource)
        if not all(_TAG_VALUE.fullmatch(value) for value in Tags.values()):
            raise _invalid("TagResource", "a tag's value has a character that is not allowed")
        stored.tags |= Tags
        return {}

    def untag_resource(self, *, Resource: str, TagKeys: Sequence[str]) -> dict[str, Any]:
        stored = self._tagged("UntagResource", Resource)
        for key in TagKeys:
            stored.tags.pop(key, None)
        return {}

    def _find(self, operation: str, uuid: str) -> _Stored:
        if uuid not in self._mappings:
            raise client_error(operation, "ResourceNotFoundException", uuid, status=404)
        return self._mappings[uuid]

    def _tagged(self, operation: str, arn: str) -> _Stored:
        return self._find(operation, arn.rpartition(":")[2])

    def _check_idle(self, operation: str, stored: _Stored) -> None:
        if self._clock() < stored.settles_at:
            raise client_error(operation, "ResourceInUseException", "in use", status=400)

    def _answer(self, uuid: str) -> dict[str, Any]:
        stored = self._mappings[uuid]
        settled = self._clock() >= stored.settles_at
        state = "Enabled" if stored.enabled else "Disabled"
        return {
            "UUID": uuid,
            "EventSourceMappingArn": stored.arn,
            "FunctionArn": stored.function,
            "EventSourceArn": stored.queue,
            "State": state if settled else stored.transient,
            "LastModified": datetime.fromtimestamp(min(stored.changed_at, self._clock()), UTC),
            **({"ScalingConfig": dict(stored.scaling)} if stored.scaling else {}),
            **({"ProvisionedPollerConfig": dict(stored.provisioned)} if stored.provisioned else {}),
        }


def _limit(
    operation: str,
    stored: _Stored,
    scaling: Mapping[str, int] | None,
    provisioned: Mapping[str, int] | None,
) -> None:
    """Change the limits, and refuse what Lambda refuses."""
    wanted = dict(stored.scaling if scaling is None else scaling)
    pollers = dict(stored.provisioned if provisioned is None else provisioned)
    for name, value in [*wanted.items(), *pollers.items()]:
        lowest, highest = _RANGES[name]
        if not lowest <= value <= highest:
            raise _invalid(operation, f"{name} must be {lowest} to {highest}")
    if pollers.get("MinimumPollers", 2) > pollers.get("MaximumPollers", 2_000):
        raise _invalid(operation, "MinimumPollers must not be above MaximumPollers")
    if wanted and pollers:
        raise _invalid(operation, "MaximumConcurrency is not supported in provisioned mode")
    stored.scaling, stored.provisioned = wanted, pollers


def _invalid(operation: str, message: str) -> Exception:
    return client_error(operation, "InvalidParameterValueException", message)
