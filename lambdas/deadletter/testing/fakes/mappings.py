"""Event source mappings of Lambda in memory, as strict as Lambda about limits and tags."""

# ruff: noqa: N803 - the arguments are spelled as boto3 spells them

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from deadletter.testing.fakes.errors import Declined, operation

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
    limits: dict[str, dict[str, int]] = field(default_factory=dict)
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

    @operation
    def create_event_source_mapping(
        self, *, FunctionName: str, EventSourceArn: str, **limits: Mapping[str, int]
    ) -> dict[str, Any]:
        """Create a mapping; its `limits` are ScalingConfig or ProvisionedPollerConfig."""
        uuid = f"00000000-0000-4000-8000-{len(self._mappings):012}"
        arn = f"arn:aws:lambda:us-east-1:123456789012:event-source-mapping:{uuid}"
        stored = _Stored(arn, FunctionName, EventSourceArn, changed_at=self._clock())
        stored.limits = _checked(limits)
        self._mappings[uuid] = stored
        return self._answer(uuid)

    @operation
    def get_event_source_mapping(self, *, UUID: str) -> dict[str, Any]:
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

    @operation
    def update_event_source_mapping(
        self, *, UUID: str, Enabled: bool | None = None, **limits: Mapping[str, int]
    ) -> dict[str, Any]:
        stored = self._find(UUID)
        if self._clock() < stored.settles_at:
            raise Declined("ResourceInUseException", "in use")
        stored.limits = _checked({**stored.limits, **limits})
        words = {None: "Updating", True: "Enabling", False: "Disabling"}
        stored.transient = words[Enabled]
        stored.enabled = stored.enabled if Enabled is None else Enabled
        stored.settles_at = self._clock() + self._change_seconds
        stored.changed_at = stored.settles_at
        return self._answer(UUID)

    @operation
    def list_tags(self, *, Resource: str) -> dict[str, Any]:
        return {"Tags": dict(self._find(Resource).tags)}

    @operation
    def tag_resource(self, *, Resource: str, Tags: Mapping[str, str]) -> dict[str, Any]:
        stored = self._find(Resource)
        if not all(_TAG_VALUE.fullmatch(value) for value in Tags.values()):
            raise _invalid("a tag's value has a character that is not allowed")
        stored.tags |= Tags
        return {}

    @operation
    def untag_resource(self, *, Resource: str, TagKeys: Sequence[str]) -> dict[str, Any]:
        stored = self._find(Resource)
        for key in TagKeys:
            stored.tags.pop(key, None)
        return {}

    def _find(self, name: str) -> _Stored:
        """The mapping with this UUID, or with this ARN."""
        uuid = name.rpartition(":")[2]
        if uuid not in self._mappings:
            raise Declined("ResourceNotFoundException", uuid, status=404)
        return self._mappings[uuid]

    def _answer(self, uuid: str) -> dict[str, Any]:
        stored = self._find(uuid)
        settled = self._clock() >= stored.settles_at
        state = "Enabled" if stored.enabled else "Disabled"
        return {
            "UUID": uuid,
            "EventSourceMappingArn": stored.arn,
            "FunctionArn": stored.function,
            "EventSourceArn": stored.queue,
            "State": state if settled else stored.transient,
            "LastModified": datetime.fromtimestamp(min(stored.changed_at, self._clock()), UTC),
            **stored.limits,
        }


def _checked(limits: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """The limits that there are, as Lambda takes them; it refuses those beyond a range."""
    kept = {name: dict(limit) for name, limit in limits.items() if limit}
    for name, value in (member for limit in kept.values() for member in limit.items()):
        lowest, highest = _RANGES[name]
        if not lowest <= value <= highest:
            raise _invalid(f"{name} must be {lowest} to {highest}")
    pollers = kept.get("ProvisionedPollerConfig", {})
    if pollers.get("MinimumPollers", 2) > pollers.get("MaximumPollers", 2_000):
        raise _invalid("MinimumPollers must not be above MaximumPollers")
    if len(kept) > 1:
        raise _invalid("MaximumConcurrency is not supported in provisioned mode")
    return kept


def _invalid(message: str) -> Declined:
    return Declined("InvalidParameterValueException", message)
