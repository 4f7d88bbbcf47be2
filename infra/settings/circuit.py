"""When a circuit opens, and how it closes again."""

from __future__ import annotations

from pydantic import Field, model_validator

from deadletter.contract import CIRCUIT

from ..duration import DAY, HOUR, MINUTE, written
from ..refusal import refuse
from .kinds import HealthUrl, Seconds, Settings

# Seconds of a canary's lease for finding a letter and receiving the consumer's answer: a prober
# that has less left sends nothing, and the circuit would never close.
CANARY_MARGIN = 30


class CircuitSettings(Settings):
    """When a circuit opens, how long it stays open, and how it comes back."""

    failure_rate: float = Field(
        default=CIRCUIT.failure_rate,
        gt=0,
        le=1,
        description="part of the outcomes in the window, failed or slow, that opens it",
    )
    window: Seconds = Field(
        default=CIRCUIT.window, ge=10, le=HOUR, description="how far back outcomes count"
    )
    minimum: int = Field(
        default=CIRCUIT.minimum,
        ge=1,
        le=100_000,
        description="outcomes in the window below which no rate opens",
    )
    consecutive: int = Field(
        default=CIRCUIT.consecutive,
        ge=0,
        le=100_000,
        description="failures in a row that open it too; 0: no number does",
    )
    cooldown: Seconds = Field(
        default=CIRCUIT.cooldown, ge=1, le=DAY, description="how long it stays open the first time"
    )
    cooldown_factor: float = Field(
        default=CIRCUIT.cooldown_factor,
        ge=1,
        le=100,
        description="growth of the cooldown with each failed canary",
    )
    cooldown_cap: Seconds = Field(
        default=CIRCUIT.cooldown_cap, ge=1, le=DAY, description="the longest cooldown"
    )
    settle: Seconds = Field(
        default=CIRCUIT.settle,
        ge=0,
        le=DAY,
        description="a circuit that opens again within this time after it closed continues with its"
        " last cooldown",
    )
    lease: Seconds | None = Field(
        default=None,
        ge=10,
        le=DAY,
        description="how long a canary may take before another is sent:"
        f" {written(CANARY_MARGIN)} longer than consumer.timeout; the default is twice that"
        f" timeout, but at least {written(CIRCUIT.lease)}",
    )
    successes: int = Field(
        default=CIRCUIT.successes,
        ge=1,
        le=100,
        description="canaries in a row that close it; 1 lets a flapping dependency close it",
    )
    ramp: Seconds = Field(
        default=CIRCUIT.ramp,
        ge=0,
        le=DAY,
        description="how long until the re-drive is back at its full rate",
    )
    slow_call: Seconds = Field(
        default=CIRCUIT.slow_call,
        ge=0,
        le=15 * MINUTE,
        description="a call that takes longer is slow; 0: none is",
    )
    pause_consumer: bool | None = Field(
        default=None,
        description="whether the consumer's event source mapping is disabled while it is open;"
        " a function of yours needs consumer.mapping_id; the default is true for the webhook"
        " dispatcher, whose mapping is ours",
    )
    health_url: HealthUrl | None = Field(
        default=None,
        description="requested with GET, over the public internet, before a message is tried;"
        " 2xx: it works. Any other answer, or none within five seconds: it is down, no message is"
        " tried, and a replay run holds itself",
    )

    @model_validator(mode="after")
    def _in_order(self) -> CircuitSettings:
        if self.cooldown_cap < self.cooldown:
            raise refuse(
                "cooldown_cap",
                self.cooldown_cap,
                f"at least the cooldown, {written(self.cooldown)}",
            )
        return self
