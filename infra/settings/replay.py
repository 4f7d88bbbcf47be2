"""What a replay run does unless its plan says otherwise."""

from __future__ import annotations

from pydantic import Field

from deadletter.contract import REPLAY

from ..duration import DAY, MINUTE, written
from .kinds import KeyPolicyText, Seconds, Settings


class ReplaySettings(Settings):
    """What a replay run does unless its plan says otherwise."""

    rate: float = Field(
        default=REPLAY.rate,
        gt=0,
        le=10_000,
        description="letters a second, where the main queue's normal rate is unknown; else a run"
        " starts at 15 % of that",
    )
    error_rate: float = Field(
        default=REPLAY.error_rate,
        gt=0,
        le=1,
        description="part of the known outcomes that are failures at which a run is held",
    )
    minimum: int = Field(
        default=REPLAY.minimum,
        ge=1,
        le=100_000,
        description="outcomes below which no error rate holds a run",
    )
    attempts: int = Field(
        default=REPLAY.attempts,
        ge=1,
        le=100,
        description="how often a run sends a letter before it parks it",
    )
    approve_above: int | None = Field(
        default=None,
        ge=0,
        description="a run of more letters waits until a person approves it; else the number of"
        " letters calls for no approval",
    )
    approve_causes: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="fingerprints of failures: a run with a letter that failed so waits until a"
        " person approves it",
    )
    outcome_timeout: Seconds | None = Field(
        default=None,
        ge=MINUTE,
        le=7 * DAY,
        description="how long after a send the outcome counts as unknown; the default is"
        " main_queue.visibility times main_queue.max_receive_count, but at least"
        f" {written(REPLAY.outcome_timeout)}",
    )
    schema_file: str | None = Field(
        default=None,
        alias="schema",
        description="a file with the JSON Schema of bodies, by its path from the folder of"
        " cdk.json: a run takes no letter whose body does not conform. Regular expressions are not"
        " supported",
    )
    on_failure: KeyPolicyText = Field(
        default=REPLAY.on_failure,
        description="whether an ordering key goes on behind a letter that failed for good: go, or"
        " stop (its other letters stay in the run)",
    )
    on_unknown: KeyPolicyText = Field(
        default=REPLAY.on_unknown,
        description="the same behind a letter whose outcome is unknown",
    )
