"""When a person is called."""

from __future__ import annotations

from pydantic import Field, model_validator

from ..duration import DAY, HOUR, MINUTE, written
from ..refusal import refuse
from .kinds import LONGEST_RETENTION, Period, Seconds, Settings


class AlarmSettings(Settings):
    """A metric looked at `periods` times in a row, each time over one `period`."""

    period: Period = Field(default=MINUTE, description="10s, 30s or whole minutes")
    periods: int = Field(default=1, ge=1, le=1440, description="breaching periods in a row")

    @model_validator(mode="after")
    def _evaluates(self) -> AlarmSettings:
        _check_period(self.period)
        if self.period * self.periods > DAY:
            raise refuse("periods", self.periods, f"at most {DAY // self.period}, a day in all")
        return self


def _check_period(period: int) -> None:
    if period % MINUTE and period not in (10, 30):
        raise refuse("period", period, "10s, 30s or whole minutes")


class DlqAgeAlarm(AlarmSettings):
    """Letters get old: they are not re-driven, or not fast enough."""

    threshold: Seconds = Field(
        default=HOUR, ge=1, le=LONGEST_RETENTION, description="age of the oldest"
    )
    periods: int = Field(default=5, ge=1, le=1440, description="breaching periods in a row")


class DlqDepthAlarm(AlarmSettings):
    """Many letters at once: something fails for all messages."""

    threshold: int = Field(default=100, ge=1, description="letters in the DLQ")
    periods: int = Field(default=5, ge=1, le=1440, description="breaching periods in a row")


class DominantFailureAlarm(AlarmSettings):
    """Most dead letters failed with the same error: a defect, not an accident."""

    threshold: int = Field(
        default=1,
        ge=1,
        description="letters of a run that failed alike; counted if they are more than 10 and"
        " more than half of it",
    )


class LedgerUnavailableAlarm(AlarmSettings):
    """Failures that the consumer library could not record."""

    threshold: int = Field(default=1, ge=1, description="failures not recorded, a period")
    # A table that throttles for a moment loses a few reasons; in five minutes it loses many.
    periods: int = Field(default=5, ge=1, le=1440, description="breaching periods in a row")


class ParkingLotAlarm(AlarmSettings):
    """Letters that automation has given up."""

    threshold: int = Field(default=1, ge=1, description="letters in a parking queue")


# How long a circuit may be open before the alarm, by default.
CIRCUIT_OPEN = 30 * MINUTE


class CircuitOpenAlarm(Settings):
    """The pipeline's circuit does not close: the consumer's dependency stays down."""

    after: Seconds | None = Field(
        default=None,
        ge=MINUTE,
        le=DAY,
        multiple_of=MINUTE,
        description="how long it has not been closed: at least redrive.every, which is the default"
        f" if it is longer than {written(CIRCUIT_OPEN)}",
    )


class CircuitFlappingAlarm(AlarmSettings):
    """The pipeline's circuit opens again and again: it closes too early, or opens without cause."""

    threshold: int = Field(default=3, ge=1, description="outages a period")
    period: Period = Field(default=HOUR, description="10s, 30s or whole minutes")


class OpenCircuitsAlarm(AlarmSettings):
    """Dependencies of many keys are down at once; needs circuit_key."""

    threshold: int = Field(default=10, ge=1, description="circuits of single keys that are open")
    periods: int = Field(default=5, ge=1, le=1440, description="breaching periods in a row")


class CircuitBreakerFailedAlarm(AlarmSettings):
    """Executions of the circuit breaker's state machine that failed."""

    # A failed execution is replaced within two minutes, and so is a replacement that fails.
    threshold: int = Field(default=2, ge=1, description="failed executions a period")
    period: Period = Field(default=15 * MINUTE, description="10s, 30s or whole minutes")


class ErrorsAlarm(AlarmSettings):
    """Invocations of one of our functions that failed."""

    threshold: int = Field(default=1, ge=1, description="failed invocations a period")
    # After one failed run the next is a minute later; three in a row are a fault.
    periods: int = Field(default=3, ge=1, le=1440, description="breaching periods in a row")


class HeartbeatAlarm(Settings):
    """The schedule has stopped: no run within a period."""

    period: Period | None = Field(
        default=None,
        description="longer than redrive.every; the default is five times redrive.every",
    )

    @model_validator(mode="after")
    def _evaluates(self) -> HeartbeatAlarm:
        _check_period(self.period or MINUTE)
        return self


class AlarmsSettings(Settings):
    """When a person is called."""

    dlq_age: DlqAgeAlarm = Field(default=DlqAgeAlarm(), description="alarm DlqAge")
    dlq_depth: DlqDepthAlarm = Field(default=DlqDepthAlarm(), description="alarm DlqDepth")
    parking_lot: ParkingLotAlarm = Field(
        default=ParkingLotAlarm(), description="alarm ParkingLotNotEmpty, one a parking queue"
    )
    dominant_failure: DominantFailureAlarm = Field(
        default=DominantFailureAlarm(), description="alarm DominantFailure"
    )
    ledger_unavailable: LedgerUnavailableAlarm = Field(
        default=LedgerUnavailableAlarm(), description="alarm LedgerUnavailable"
    )
    circuit_open: CircuitOpenAlarm = Field(
        default=CircuitOpenAlarm(), description="alarm CircuitOpen"
    )
    circuit_flapping: CircuitFlappingAlarm = Field(
        default=CircuitFlappingAlarm(), description="alarm CircuitFlapping"
    )
    open_circuits: OpenCircuitsAlarm = Field(
        default=OpenCircuitsAlarm(), description="alarm OpenCircuits"
    )
    circuit_breaker_failed: CircuitBreakerFailedAlarm = Field(
        default=CircuitBreakerFailedAlarm(), description="alarm CircuitBreakerFailed"
    )
    redrive_errors: ErrorsAlarm = Field(default=ErrorsAlarm(), description="alarm RedriveErrors")
    router_errors: ErrorsAlarm = Field(default=ErrorsAlarm(), description="alarm RouterErrors")
    heartbeat: HeartbeatAlarm = Field(
        default=HeartbeatAlarm(), description="alarm RedriveHeartbeat"
    )
