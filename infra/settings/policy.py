"""How often, and how far apart, a letter or a message is tried again."""

from __future__ import annotations

from pydantic import Field, model_validator

from deadletter.contract import BACKOFF, MAX_ATTEMPTS, RETRY

from ..duration import DAY, written
from ..refusal import refuse
from .kinds import LONGEST_VISIBILITY, Seconds, Settings


class BackoffSettings(Settings):
    """How long a letter waits: min(cap, base * factor^(attempt - 1)), full jitter, a floor."""

    base: Seconds = Field(
        default=BACKOFF.base, ge=1, le=DAY, description="ceiling of the first delay"
    )
    factor: float = Field(
        default=BACKOFF.factor, ge=1, le=100, description="growth of the ceiling per attempt"
    )
    cap: Seconds = Field(
        default=BACKOFF.cap, ge=1, le=14 * DAY, description="ceiling of every delay"
    )
    floor: Seconds = Field(default=BACKOFF.floor, ge=0, le=DAY, description="the shortest delay")

    @model_validator(mode="after")
    def _in_order(self) -> BackoffSettings:
        if self.cap < self.base:
            raise refuse("cap", self.cap, f"at least the base, {written(self.base)}")
        if self.floor > self.cap:
            raise refuse("floor", self.floor, f"at most the cap, {written(self.cap)}")
        return self


class RetrySettings(BackoffSettings):
    """How long a message is hidden after a failure in the main queue, by its receives."""

    base: Seconds = Field(
        default=RETRY.base, ge=1, le=DAY, description="ceiling of the first delay"
    )
    cap: Seconds = Field(
        default=RETRY.cap,
        ge=1,
        le=LONGEST_VISIBILITY,
        description="ceiling of every delay, a Retry-After included; SQS hides no message"
        " longer than 12h",
    )
    floor: Seconds = Field(default=RETRY.floor, ge=0, le=DAY, description="the shortest delay")


class PolicySettings(Settings):
    """How often, and how far apart, a letter may be tried again."""

    max_attempts: int = Field(
        default=MAX_ATTEMPTS,
        ge=1,
        le=1000,
        description="re-drives before a letter is parked as EXHAUSTED",
    )
    backoff: BackoffSettings = Field(
        default=BackoffSettings(), description="the delays between attempts"
    )
