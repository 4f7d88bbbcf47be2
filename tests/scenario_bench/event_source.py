"""Lambda between the queue and the consumer: an event source mapping with lag.

The mapping polls every 0.2 s while an environment is free, so a message alone in the queue waits
0.1 s on average, and a backlog gives full batches. A change of the mapping takes 10 to 60 s, in
which the old state holds and a second change is refused. An invocation that outlives the
function's timeout is killed: all its messages come back when their visibility ends, and the next
invocation finds a new environment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from random import Random
from types import SimpleNamespace
from typing import Any

from deadletter.message.letter import from_api, to_event
from deadletter.testing.fakes import MemoryLambda, client_error
from tests.scenario_bench.timeline import Timeline

ENVIRONMENTS = 10
BATCH = 10
POLL_SECONDS = 0.2
CHANGE_SECONDS = (10.0, 60.0)
FUNCTION_TIMEOUT = 30
MAPPING = "1a2b3c4d-0000-4000-8000-1a2b3c4d5e6f"
MAPPING_ARN = f"arn:aws:lambda:us-east-1:123456789012:event-source-mapping:{MAPPING}"

# What AWS takes as the value of a tag on a mapping: no JSON.
_TAG_VALUE = re.compile(r"[\w .:/=+@-]{0,256}")


class Killed(BaseException):
    """Lambda ends the invocation: its time is up."""


class Environment:
    """One execution environment: the time its invocation may still take, and what it runs.

    `start` makes the consumer of a new environment.
    """

    def __init__(self, timeline: Timeline, start: Callable[[Environment], Any]) -> None:
        self._timeline = timeline
        self._start = start
        self._consume: Any = None
        self.deadline = 0.0

    def work(self, seconds: float) -> None:
        """The handler waits for something; raises Killed at the deadline."""
        left = self.deadline - self._timeline.now
        self._timeline.advance(min(seconds, max(0.0, left)))
        if seconds >= left:
            raise Killed

    def invoke(self, records: list[dict[str, Any]], permit: str | None = None) -> Any:
        """The function's response; raises Killed if it took too long."""
        self.deadline = self._timeline.now + FUNCTION_TIMEOUT
        if self._consume is None:
            self._consume = self._start(self)
        try:
            return self._consume(records, self.deadline, permit)
        except Killed:
            self._consume = None
            raise


class EventSource:
    """The mapping from the main queue to some environments, and Lambda's API for it."""

    def __init__(
        self,
        timeline: Timeline,
        sqs: Any,
        url: str,
        arn: str,
        start: Callable[[Environment], Any],
        random: Random,
        *,
        poll_seconds: float = POLL_SECONDS,
        bounded: bool = True,
        environments: int = ENVIRONMENTS,
    ) -> None:
        self._poll_seconds = poll_seconds
        self._timeline = timeline
        self._sqs = sqs
        self._url = url
        self._arn = arn
        self._random = random
        self._free = [Environment(timeline, start) for _ in range(environments)]
        self._busy = 0
        self.enabled = True
        self._environments = self.concurrency = environments
        # Without a limit of the mapping's own, only the account bounds its environments.
        self._bounded = bounded
        self._state = "Enabled"
        self._changed_at = timeline.now
        self._tags: dict[str, str] = {}
        self.killed = 0

    def run(self) -> None:
        """Poll for ever."""
        while True:
            while self.enabled and self._free and self._busy < self.concurrency:
                messages = self._sqs.receive_message(
                    QueueUrl=self._url,
                    MaxNumberOfMessages=BATCH,
                    WaitTimeSeconds=0,
                    MessageSystemAttributeNames=["All"],
                    MessageAttributeNames=["All"],
                ).get("Messages")
                if not messages:
                    break
                environment = self._free.pop(0)
                self._busy += 1
                self._timeline.spawn(lambda e=environment, m=messages: self._deliver(e, m))
            self._timeline.advance(self._poll_seconds)

    def _deliver(self, environment: Environment, messages: list[dict[str, Any]]) -> None:
        records = [
            to_event(
                from_api(message), receipt_handle=message["ReceiptHandle"], source_arn=self._arn
            )
            for message in messages
        ]
        try:
            response = environment.invoke(records)
        except Killed:
            self.killed += 1
        else:
            failed = {item["itemIdentifier"] for item in response["batchItemFailures"]}
            done = [m for m in messages if m["MessageId"] not in failed]
            if done:
                entries = [
                    {"Id": str(at), "ReceiptHandle": message["ReceiptHandle"]}
                    for at, message in enumerate(done)
                ]
                self._sqs.delete_message_batch(QueueUrl=self._url, Entries=entries)
        self._busy -= 1
        # The environment used last is warm, but Lambda promises no order: turns show more.
        self._free.append(environment)

    # Lambda's API.

    def get_event_source_mapping(self, **_: str) -> dict[str, Any]:
        return {
            "UUID": MAPPING,
            "State": self._state,
            "ScalingConfig": {"MaximumConcurrency": self.concurrency} if self._bounded else {},
            "EventSourceMappingArn": MAPPING_ARN,
            "LastModified": datetime.fromtimestamp(self._changed_at, UTC),
        }

    def get_paginator(self, name: str) -> Any:
        assert name == "list_event_source_mappings"
        page = {"EventSourceMappings": [self.get_event_source_mapping()]}
        return SimpleNamespace(paginate=lambda **_: [page])

    def list_tags(self, *, Resource: str) -> dict[str, Any]:  # noqa: N803
        assert Resource == MAPPING_ARN
        return {"Tags": dict(self._tags)}

    def tag_resource(self, *, Resource: str, Tags: Mapping[str, str]) -> dict[str, Any]:  # noqa: N803
        assert Resource == MAPPING_ARN
        if not all(_TAG_VALUE.fullmatch(value) for value in Tags.values()):
            raise client_error("TagResource", "ValidationException", "invalid tag value")
        self._tags |= Tags
        return {}

    def untag_resource(self, *, Resource: str, TagKeys: Sequence[str]) -> dict[str, Any]:  # noqa: N803
        assert Resource == MAPPING_ARN
        for key in TagKeys:
            self._tags.pop(key, None)
        return {}

    def update_event_source_mapping(
        self,
        *,
        UUID: str,  # noqa: N803 - as boto3 spells it
        Enabled: bool | None = None,  # noqa: N803
        ScalingConfig: Mapping[str, int] | None = None,  # noqa: N803
    ) -> dict[str, Any]:
        assert UUID == MAPPING
        if self._state not in ("Enabled", "Disabled"):
            raise client_error("UpdateEventSourceMapping", "ResourceInUseException", "in use")
        wanted = self.enabled if Enabled is None else Enabled
        limit = self.concurrency
        if ScalingConfig is not None:
            limit = ScalingConfig.get("MaximumConcurrency", self._environments)
        if Enabled is None:
            self._state = "Updating"
        else:
            self._state = "Enabling" if Enabled else "Disabling"

        def settle() -> None:
            self.enabled, self.concurrency = wanted, limit
            self._state = "Enabled" if wanted else "Disabled"
            self._changed_at = self._timeline.now

        delay = self._random.uniform(*CHANGE_SECONDS)
        self._timeline.spawn(settle, self._timeline.now + delay)
        answer = self.get_event_source_mapping()
        return {**answer, "ScalingConfig": {"MaximumConcurrency": limit}}


class BenchLambda(MemoryLambda):
    """Lambda as the product sees it: functions to invoke, and one mapping."""

    def __init__(self, source: EventSource, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.source = source

    def __getattr__(self, name: str) -> Any:
        """The calls about the mapping are the mapping's own."""
        return getattr(self.source, name)
