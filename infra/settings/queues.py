"""The queues of a pipeline: yours, or made for you."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from ..duration import DAY, MINUTE
from ..refusal import refuse
from .kinds import LONGEST_RETENTION, KeyArn, QueueArn, Seconds, Settings, Visibility

# Lambda's rule for an event source mapping: a batch that is retried inside the
# mapping must not become visible to another poller meanwhile.
VISIBILITY_PER_TIMEOUT = 6


class QueueSettings(Settings):
    """A queue that you name by its ARN, or that is made for you."""

    arn: QueueArn | None = Field(default=None, description="your queue, which is not changed")
    kms_key_arn: KeyArn | None = Field(
        default=None,
        description="the customer managed key of your queue, if it has one: our roles may then use"
        " it, through SQS only; the app needs a kms_key_arn of its own too",
    )

    @model_validator(mode="after")
    def _yours_or_ours(self) -> Self:
        if self.kms_key_arn and not self.arn:
            raise refuse(
                "kms_key_arn",
                self.kms_key_arn,
                "nothing without arn: a queue that is made has the app's kms_key_arn",
            )
        others = sorted(self.model_fields_set - {"arn", "kms_key_arn"})
        if self.arn and others:
            key = others[0]
            raise refuse(key, getattr(self, key), "nothing beside arn: your queue is not changed")
        return self


class MainQueue(QueueSettings):
    """The queue your consumer reads."""

    retention: Seconds = Field(
        default=4 * DAY, ge=MINUTE, le=LONGEST_RETENTION, description="how long SQS keeps a message"
    )
    visibility: Visibility | None = Field(
        default=None,
        description=f"at least {VISIBILITY_PER_TIMEOUT} times the consumer's timeout,"
        " which is also the default",
    )
    max_receive_count: int = Field(
        default=5,
        ge=1,
        le=1000,
        description="receives before a message becomes a letter; below 5, deliveries"
        " that Lambda throttled can use them up",
    )


class DeadLetterQueue(QueueSettings):
    """The queue that receives failed messages."""

    retention: Seconds = Field(
        default=LONGEST_RETENTION,
        ge=MINUTE,
        le=LONGEST_RETENTION,
        description="longer than the main queue's: a standard queue counts from the first send",
    )


class DedicatedQueue(Settings):
    """A DLQ of its own for a tenant that a rule has isolated; by default it is not drained."""

    enabled: bool = Field(default=False, description="whether its own schedule runs")
    every: Seconds = Field(
        default=MINUTE,
        ge=MINUTE,
        le=DAY,
        multiple_of=MINUTE,
        description="how often it is then drained",
    )
