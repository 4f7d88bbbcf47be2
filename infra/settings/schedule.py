"""When the redriver runs, and for how long."""

from __future__ import annotations

from pydantic import Field, model_validator

from ..duration import DAY, MINUTE, written
from ..refusal import refuse
from .kinds import Seconds, Settings, ShardsOrAuto


class ScheduleSettings(Settings):
    """The run that drains the DLQ."""

    every: Seconds = Field(
        default=MINUTE, ge=MINUTE, le=DAY, multiple_of=MINUTE, description="how often it starts"
    )
    # A run begins no chunk in its last ten seconds.
    timeout: Seconds = Field(default=55, ge=20, le=840, description="shorter than `every`")
    memory: int = Field(default=512, ge=128, le=10240, description="megabytes, which also buy CPU")
    reserved_concurrency: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="runs at the same time, shards included, that the account keeps for this"
        " pipeline and that it never exceeds; without it, runs share what the account has. AWS"
        " leaves at least 100 to everything that has none",
    )

    @model_validator(mode="after")
    def _ends_before_the_next(self) -> ScheduleSettings:
        if self.timeout >= self.every:
            raise refuse("timeout", self.timeout, f"less than redrive.every, {written(self.every)}")
        return self


class DrainSettings(Settings):
    """How a queue of thousands of letters is drained."""

    shards: ShardsOrAuto = Field(
        default="auto",
        description="runs that drain it at the same time, from 5,000 letters on, each with its"
        " share of `rate`: at most so many. `auto`: one for each 200 letters a second"
        " of `rate`, and one if the queue is FIFO. With `auto` and from 2 on, a run also starts the"
        " next one as long as so many letters are left; 1 is one run at a time, by the schedule",
    )
