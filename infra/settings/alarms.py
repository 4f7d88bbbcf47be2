"""When a person is called."""

from __future__ import annotations

from pydantic import Field, model_validator

from ..duration import DAY, HOUR, MINUTE, written
from ..refusal import refuse
from .kinds import LONGEST_RETENTION, Period, Seconds, Settings


class AlarmSettings(Settings):
    """A metric looked at `periods` times in a row, each time over one `period`."""

    period: Period = Field(default=MINUTE, description="one look")
    periods: int = Field(default=1, ge=1, le=1440, description="breaching periods in a row")

    @model_validator(mode="after")
    def _evaluates(self) -> AlarmSettings:
        if self.period * self.periods > DAY:
            raise refuse("periods", self.periods, f"at most {DAY // self.period}, a day in all")
        return self


class DlqAgeAlarm(AlarmSettings):
    """Letters get old: they are not re-driven, or not fast enough."""

    threshold: Seconds = Field(
        default=HOUR,
        ge=1,
        le=LONGEST_RETENTION,
        description="age of the oldest, by SQS's metric and by what the letters say",
    )
    periods: int = Field(
        default=3, ge=1, le=1440, description="breaching periods of SQS's metric in a row"
    )


class LetterExpiryAlarm(Settings):
    """SQS is about to drop a letter: its queue's retention ends soon."""

    before: Seconds | None = Field(
        default=None,
        ge=HOUR,
        le=7 * DAY,
        description="how long before the end; the default is 12h, and 2d in mode observe, where"
        " no letter is moved to safety",
    )


class DlqDepthAlarm(AlarmSettings):
    """Many letters at once: something fails for all messages."""

    threshold: int = Field(default=100, ge=1, description="letters in the DLQ")
    periods: int = Field(default=5, ge=1, le=1440, description="breaching periods in a row")


class MainQueueAgeAlarm(AlarmSettings):
    """Messages of the main queue get old: SQS drops them when their retention ends."""

    threshold: Seconds | None = Field(
        default=None,
        ge=1,
        le=LONGEST_RETENTION,
        description="age of the oldest message; the default is three quarters of the main queue's"
        " retention, and 3d if the queue is yours",
    )
    periods: int = Field(default=3, ge=1, le=1440, description="breaching periods in a row")


class ParkingLotAlarm(Settings):
    """Letters that automation has given up."""

    threshold: int = Field(
        default=1, ge=1, description="letters of a parking queue, in it or rescued from it"
    )


# How late a letter of the waiting room may be before the alarm, by default.
LATE = 15 * MINUTE


class WaitingRoomAlarm(Settings):
    """Letters stay in the waiting room although they are due, or too many wait there."""

    late: Seconds | None = Field(
        default=None,
        ge=MINUTE,
        le=LONGEST_RETENTION,
        description="how late the earliest letter is; the default is three times redrive.every,"
        f" but at least {written(LATE)}",
    )
    threshold: int = Field(default=10_000, ge=1, description="letters in the waiting room")


class LedgerUnavailableAlarm(AlarmSettings):
    """Failures that the consumer library could not record."""

    threshold: int = Field(default=1, ge=1, description="failures not recorded, a period")
    # A table that throttles for a moment loses a few reasons; in five minutes it loses many.
    periods: int = Field(default=5, ge=1, le=1440, description="breaching periods in a row")


class CircuitOpenAlarm(Settings):
    """The pipeline's circuit does not close: the consumer's dependency stays down."""

    after: Seconds = Field(
        default=30 * MINUTE,
        ge=MINUTE,
        le=DAY,
        multiple_of=MINUTE,
        description="how long it has not been closed",
    )


class CircuitFlappingAlarm(AlarmSettings):
    """The pipeline's circuit opens again and again: it closes too early, or opens without cause."""

    threshold: int = Field(default=3, ge=1, description="outages a period")
    period: Period = Field(default=HOUR, description="one look")


class OpenCircuitsAlarm(AlarmSettings):
    """Dependencies of many keys are down at once; only where circuits have keys."""

    threshold: int = Field(default=10, ge=1, description="circuits of single keys that are open")
    periods: int = Field(default=5, ge=1, le=1440, description="breaching periods in a row")


class CircuitBreakerFailedAlarm(AlarmSettings):
    """Executions of the circuit breaker's state machine that failed."""

    # A failed execution is replaced within two minutes, and so is a replacement that fails.
    threshold: int = Field(default=2, ge=1, description="failed executions a period")
    period: Period = Field(default=15 * MINUTE, description="one look")


class AlarmsSettings(Settings):
    """When a person is called. Alarms without a key here have nothing to set."""

    dlq_age: DlqAgeAlarm = Field(default=DlqAgeAlarm(), description="alarms DlqAge and LetterAge")
    letter_expiry: LetterExpiryAlarm = Field(
        default=LetterExpiryAlarm(), description="alarm LetterExpiry"
    )
    dlq_depth: DlqDepthAlarm = Field(default=DlqDepthAlarm(), description="alarm DlqDepth")
    main_queue_age: MainQueueAgeAlarm = Field(
        default=MainQueueAgeAlarm(), description="alarm MainQueueAge"
    )
    parking_lot: ParkingLotAlarm = Field(
        default=ParkingLotAlarm(), description="alarm ParkingLotNotEmpty, one a parking queue"
    )
    waiting_room: WaitingRoomAlarm = Field(
        default=WaitingRoomAlarm(), description="alarms WaitingRoomLate and WaitingRoomDepth"
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
