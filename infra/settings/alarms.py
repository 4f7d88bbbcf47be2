"""When a person is called."""

from __future__ import annotations

from pydantic import Field, model_validator

from deadletter.contract import WATCH

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
        default=30 * MINUTE,
        ge=1,
        le=LONGEST_RETENTION,
        description="age of the oldest, by SQS's metric and by what the letters say",
    )
    periods: int = Field(
        default=3, ge=1, le=1440, description="breaching periods of SQS's metric in a row"
    )


class MessageExpiryAlarm(Settings):
    """SQS is about to drop a letter: its queue's retention ends soon."""

    before: Seconds | None = Field(
        default=None,
        ge=HOUR,
        le=7 * DAY,
        description="how long before the end; the default is 12h, and 2d in mode observe, where"
        " no letter is moved to safety",
    )


class DlqDepthAlarm(Settings):
    """Many letters at once, or a DLQ that is not empty within two hours at the measured rate."""

    threshold: int = Field(
        default=WATCH.depth, ge=1, description="more letters in the DLQ than this"
    )
    periods: int = Field(default=WATCH.depth_looks, ge=1, le=1440, description="minutes in a row")


class ParkedAlarm(Settings):
    """Letters that automation has given up, and that nobody looks after."""

    after: Seconds = Field(
        default=WATCH.parked_after,
        ge=HOUR,
        # A parking queue keeps letters for so long; then they go on in lane `parked`.
        le=LONGEST_RETENTION,
        description="how long letters lie there while none of them leaves",
    )


# How late a letter of the waiting room may be before the alarm, by default.
LATE = WATCH.room_late


class WaitingRoomAlarm(Settings):
    """Letters stay in the waiting room although they are due."""

    late: Seconds | None = Field(
        default=None,
        ge=MINUTE,
        le=LONGEST_RETENTION,
        description="how late the earliest letter is; the default is three times redrive.every,"
        f" but at least {written(LATE)}",
    )


class CircuitOpenAlarm(Settings):
    """The pipeline's circuit, or a named dependency's, does not close."""

    after: Seconds = Field(
        default=WATCH.circuit_open_after,
        ge=MINUTE,
        le=DAY,
        multiple_of=MINUTE,
        description="how long it has not been closed, or is held by a person without an end",
    )


class CircuitFlappingAlarm(Settings):
    """The pipeline's circuit opens again and again: it closes too early, or opens without cause."""

    threshold: int = Field(default=WATCH.flapping_times, ge=2, le=20, description="outages")
    period: Period = Field(default=WATCH.flapping_within, description="within this time")


class OpenCircuitsAlarm(Settings):
    """Dependencies of many keys are down at once; only where circuits have keys."""

    threshold: int = Field(
        default=WATCH.open_circuits, ge=1, description="circuits of single keys that are open"
    )
    periods: int = Field(
        default=WATCH.open_circuits_for // MINUTE, ge=1, le=1440, description="minutes in a row"
    )


# Settings of alarms that are gone, by their keys, and what does their work now.
class AlarmsSettings(Settings):
    """When a person is called. Alarms without a key here have nothing to set."""

    dlq_age: DlqAgeAlarm = Field(default=DlqAgeAlarm(), description="alarms DlqAge and MessageAge")
    letter_expiry: MessageExpiryAlarm = Field(
        default=MessageExpiryAlarm(), description="alarm MessageExpiry"
    )
    dlq_depth: DlqDepthAlarm = Field(default=DlqDepthAlarm(), description="alarm DlqDepth")
    waiting_room: WaitingRoomAlarm = Field(
        default=WaitingRoomAlarm(), description="alarm RedriveStalled, of letters that wait"
    )
    circuit_open: CircuitOpenAlarm = Field(
        default=CircuitOpenAlarm(), description="alarm CircuitTrouble, of a circuit for all"
    )
    circuit_flapping: CircuitFlappingAlarm = Field(
        default=CircuitFlappingAlarm(), description="alarm CircuitTrouble, of repeated outages"
    )
    open_circuits: OpenCircuitsAlarm = Field(
        default=OpenCircuitsAlarm(), description="alarm CircuitTrouble, of circuits with keys"
    )
    parked: ParkedAlarm = Field(default=ParkedAlarm(), description="alarm ParkedUnattended")
