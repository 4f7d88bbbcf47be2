"""The consumer's event source mapping in Lambda."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, code, member, ours, refusal
from deadletter.circuit.state import Pollers
from deadletter.outage.mapping import (
    PAUSE_TAG,
    ConsumerMapping,
    Limits,
    MappingBusy,
    Mappings,
    MappingUnavailable,
    PauseTag,
)

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

_GONE = "ResourceNotFoundException"
# Either code means that an earlier change of the mapping is still under way.
_BUSY = frozenset({"ResourceInUseException", "ResourceConflictException"})
_ON = frozenset({"Enabled", "Enabling", "Creating", "Updating"})
_SETTLED = frozenset({"Enabled", "Disabled"})

_DEFAULT_POLLERS = Pollers(2, 200)
"""Lambda's defaults in provisioned mode for SQS."""


class LambdaMappings(Mappings):
    """The mapping from one queue to one function.

    Without `mapping_id` it is found by queue and function: a team may have created the
    mapping of its function itself.
    """

    def __init__(
        self, client: LambdaClient, *, function: str, queue_arn: str, mapping_id: str = ""
    ) -> None:
        self._client: Any = client
        self._function = function
        self._queue_arn = queue_arn
        self._mapping_id = mapping_id

    def find(self) -> ConsumerMapping | None:
        try:
            if self._mapping_id:
                return _read(self._client.get_event_source_mapping(UUID=self._mapping_id))
            pages = self._client.get_paginator("list_event_source_mappings").paginate(
                FunctionName=self._function, EventSourceArn=self._queue_arn
            )
            mappings = [
                _read(item) for page in pages for item in member(page, "EventSourceMappings")
            ]
        except AWS_ERRORS as error:
            if code(error) == _GONE:
                return None
            raise MappingUnavailable(self._refusal(error)) from error
        return next((mapping for mapping in mappings if mapping is not None), None)

    def change(
        self, mapping: ConsumerMapping, *, enabled: bool | None, limits: Limits
    ) -> ConsumerMapping:
        changes: dict[str, Any] = {} if enabled is None else {"Enabled": enabled}
        if limits != mapping.limits:
            changes |= _limits_to_api(limits)
        update = self._client.update_event_source_mapping
        changed: ConsumerMapping | None = self._changed(
            lambda: _read(update(UUID=mapping.id, **changes))
        )
        if changed is None:
            raise MappingUnavailable("the mapping is being deleted")
        return changed

    def pause_tag(self, mapping: ConsumerMapping) -> PauseTag | None:
        with ours(MappingUnavailable, "lambda", self._function):
            tags = member(self._client.list_tags(Resource=mapping.arn), "Tags")
        return PauseTag.from_value(tags[PAUSE_TAG]) if PAUSE_TAG in tags else None

    def tag(self, mapping: ConsumerMapping, tag: PauseTag) -> None:
        tags = {PAUSE_TAG: tag.to_value()}
        self._changed(lambda: self._client.tag_resource(Resource=mapping.arn, Tags=tags))

    def untag(self, mapping: ConsumerMapping) -> None:
        keys = [PAUSE_TAG]
        self._changed(lambda: self._client.untag_resource(Resource=mapping.arn, TagKeys=keys))

    def _changed(self, call: Callable[[], Any]) -> Any:
        """The answer to a call that changes the mapping."""
        try:
            return call()
        except AWS_ERRORS as error:
            if code(error) in _BUSY:
                raise MappingBusy(code(error)) from error
            raise MappingUnavailable(self._refusal(error)) from error

    def _refusal(self, error: Exception) -> str:
        return refusal(error, "lambda", self._mapping_id or self._function)


def _read(answer: Mapping[str, Any]) -> ConsumerMapping | None:
    """The mapping in Lambda's answer. None if it is being deleted."""
    state = member(answer, "State")
    if state == "Deleting":
        return None
    limit = (answer.get("ScalingConfig") or {}).get("MaximumConcurrency")
    changed = answer.get("LastModified")
    return ConsumerMapping(
        answer["UUID"],
        state in _ON,
        state not in _SETTLED,
        limit,
        _pollers(answer.get("ProvisionedPollerConfig")),
        answer.get("EventSourceMappingArn", ""),
        0.0 if changed is None else changed.timestamp(),
    )


def _pollers(config: Mapping[str, int] | None) -> Pollers | None:
    """The limits in provisioned mode; a limit that is not set is Lambda's default."""
    if not config:
        return None
    return Pollers(
        config.get("MinimumPollers", _DEFAULT_POLLERS.minimum),
        config.get("MaximumPollers", _DEFAULT_POLLERS.maximum),
    )


def _limits_to_api(limits: Limits) -> dict[str, Any]:
    """The limits as Lambda takes them: it refuses MaximumConcurrency in provisioned mode."""
    if limits.pollers is not None:
        lowest, highest = limits.pollers
        config = {"MinimumPollers": lowest, "MaximumPollers": highest}
        return {"ProvisionedPollerConfig": config}
    # An empty ScalingConfig removes the limit.
    concurrency = limits.concurrency
    return {"ScalingConfig": {} if concurrency is None else {"MaximumConcurrency": concurrency}}
