"""The consumer's event source mapping in Lambda."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, code, refusal
from deadletter.outage.event_source import (
    ConsumerMapping,
    MappingBusy,
    Mappings,
    MappingUnavailable,
)

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

_GONE = "ResourceNotFoundException"
# Either code means that an earlier change of the mapping is still under way.
_BUSY = frozenset({"ResourceInUseException", "ResourceConflictException"})
_ON = frozenset({"Enabled", "Enabling", "Creating", "Updating"})
_SETTLED = frozenset({"Enabled", "Disabled"})


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
            mappings = [_read(item) for page in pages for item in page["EventSourceMappings"]]
        except AWS_ERRORS as error:
            if code(error) == _GONE:
                return None
            raise MappingUnavailable(self._refusal(error)) from error
        return next((mapping for mapping in mappings if mapping is not None), None)

    def change(
        self, mapping: ConsumerMapping, *, enabled: bool | None, concurrency: int | None
    ) -> ConsumerMapping:
        changes: dict[str, Any] = {} if enabled is None else {"Enabled": enabled}
        if concurrency != mapping.concurrency:
            # An empty ScalingConfig removes the limit.
            limit = {} if concurrency is None else {"MaximumConcurrency": concurrency}
            changes["ScalingConfig"] = limit
        try:
            answer = self._client.update_event_source_mapping(UUID=mapping.id, **changes)
        except AWS_ERRORS as error:
            if code(error) in _BUSY:
                raise MappingBusy(code(error)) from error
            raise MappingUnavailable(self._refusal(error)) from error
        changed = _read(answer)
        if changed is None:
            raise MappingUnavailable("the mapping is being deleted")
        return changed

    def _refusal(self, error: Exception) -> str:
        return refusal(error, "lambda", self._mapping_id or self._function)


def _read(answer: Mapping[str, Any]) -> ConsumerMapping | None:
    """The mapping in Lambda's answer. None if it is being deleted."""
    state = answer["State"]
    if state == "Deleting":
        return None
    limit = (answer.get("ScalingConfig") or {}).get("MaximumConcurrency")
    return ConsumerMapping(answer["UUID"], state in _ON, state not in _SETTLED, limit)
