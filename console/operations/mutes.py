"""`dlq mute`, by mute rules of CloudWatch: a pipeline's alarms page nobody for a while.

A muted alarm is still evaluated. CloudWatch sends its actions when the mute ends, if it is in
ALARM then. Alarm actions are never disabled instead: they would stay so until a person remembers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.contract import pipeline_prefix

from .app import App, DeployedPipeline
from .audit import IntendedChange, recorded
from .errors import Cause, Problem, error_code
from .figures import alarms
from .selection import NamedPipeline
from .session import Answer, Session
from .verbs import Asked, Verb
from .words import seconds

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient

SHORTEST, LONGEST = timedelta(minutes=1), timedelta(days=15)
"""What CloudWatch takes as the duration of a mute."""

_MINUTE = timedelta(minutes=1)

# What a mute rule takes.
_MOST_ALARMS = 100
_MOST_TEXT = 1_024

# A service that is older than the call, in its protocols, and emulators.
_UNKNOWN_CALL = {
    "InvalidAction",
    "NotImplemented",
    "UnknownOperation",
    "UnknownOperationException",
    "UnsupportedOperation",
}
_NO_RULE = {"ResourceNotFound", "ResourceNotFoundException"}


@dataclass(frozen=True, slots=True)
class AlarmMute:
    """A mute rule as CloudWatch has it."""

    rule: Annotated[str, "name of the mute rule"]
    status: Annotated[str, "SCHEDULED (begins within the minute), ACTIVE or EXPIRED"]
    begins: Annotated[datetime | None, "when it begins; null if another tool wrote its schedule"]
    until: Annotated[datetime | None, "when it ends; null if CloudWatch knows no end"]
    alarms: Annotated[Sequence[str], "the alarms that it mutes, by name"]
    description: Annotated[str, "why, and by whom"]


@dataclass(frozen=True, slots=True)
class PipelineMute(Answer):
    """What `dlq mute` answers."""

    pipeline: Annotated[str, "name of the pipeline"]
    before: Annotated[AlarmMute | None, "the mute before a change; null without one"]
    mute: Annotated[AlarmMute | None, "the mute now; null if its alarms are not muted"]


class Mutes:
    """The mute of one pipeline's alarms: a single rule, with a name of its own."""

    def __init__(self, session: Session, pipeline: str | None) -> None:
        self._session = session
        self._app = session.app()
        self._pipeline = self._app.pipeline(pipeline)

    @property
    def rule(self) -> str:
        return f"{pipeline_prefix(self._app.name, self._pipeline.name)}mute"

    @property
    def _cloudwatch(self) -> CloudWatchClient:
        client = self._session.aws.cloudwatch
        if not hasattr(client, "put_alarm_mute_rule"):
            raise _unknown("the installed boto3 does not know mute rules; update it")
        return client

    def show(self) -> PipelineMute:
        """The mute as it is."""
        return self._answer(None, self._read())

    def begin(self, length: timedelta, reason: str) -> PipelineMute:
        """Mute the alarms that exist, from the next full minute on, in place of an earlier mute.

        Raises Problem if the reason is too long for CloudWatch, if there is no alarm, or if
        CloudWatch does not know the call.
        """
        description = f"{reason} (dlq mute, by {self._session.aws.caller})"
        if len(description) > _MOST_TEXT:
            over = len(description) - _MOST_TEXT
            raise Problem(
                f"CloudWatch keeps {_MOST_TEXT:,} characters of a reason and a name: make the "
                f"reason {over} characters shorter.",
                Cause.INPUT,
            )
        names = _alarms(self._session, self._app, self._pipeline)
        before = self._read()
        # A schedule knows minutes. One that has begun in the past may never become active.
        begins = self._session.now.replace(second=0, microsecond=0) + _MINUTE
        mute = AlarmMute(self.rule, "SCHEDULED", begins, begins + length, tuple(names), description)
        with self._recorded(reason, before, mute), _known_calls():
            self._cloudwatch.put_alarm_mute_rule(
                Name=mute.rule,
                Description=description,
                Rule={
                    "Schedule": {
                        "Expression": f"at({begins:%Y-%m-%dT%H:%M})",
                        "Duration": iso_duration(length),
                        "Timezone": "UTC",
                    }
                },
                MuteTargets={"AlarmNames": names},
                ExpireDate=begins + length,
            )
        return self._answer(before, mute)

    def end(self, why: str = "") -> PipelineMute:
        """End the mute now: alarms that are in ALARM page at once. Nothing happens without one."""
        before = self._read()
        if before is not None:
            with self._recorded(why, before, None), _known_calls():
                self._cloudwatch.delete_alarm_mute_rule(AlarmMuteRuleName=self.rule)
        return self._answer(before, None)

    def _recorded(
        self, why: str, before: AlarmMute | None, after: AlarmMute | None
    ) -> AbstractContextManager[object]:
        name = self._pipeline.name
        change = IntendedChange(
            "mute", name, f"alarms of {name}", why, _facts(before), _facts(after) or _NOT_MUTED
        )
        return recorded(self._session, self._app, change)

    def _read(self) -> AlarmMute | None:
        try:
            with _known_calls():
                rule = self._cloudwatch.get_alarm_mute_rule(AlarmMuteRuleName=self.rule)
        except Exception as error:
            if error_code(error) in _NO_RULE:
                return None
            raise
        begins = _begin_of(rule.get("Rule", {}).get("Schedule", {}).get("Expression", ""))
        return AlarmMute(
            self.rule,
            str(rule.get("Status", "")),
            begins,
            rule.get("ExpireDate"),
            tuple(rule.get("MuteTargets", {}).get("AlarmNames", ())),
            rule.get("Description", ""),
        )

    def _answer(self, before: AlarmMute | None, mute: AlarmMute | None) -> PipelineMute:
        return PipelineMute(
            **self._session.place,
            pipeline=self._pipeline.name,
            before=before,
            mute=mute,
        )


_NOT_MUTED = {"muted": "no"}


def _facts(mute: AlarmMute | None) -> dict[str, str | int] | None:
    """A mute as the audit table keeps it."""
    if mute is None:
        return None
    until = "no end" if mute.until is None else mute.until.isoformat(timespec="minutes")
    return {"muted": f"until {until}", "alarms": len(mute.alarms)}


def length_of(text: str) -> timedelta:
    """The length of a mute: whole minutes, from one minute to fifteen days; else Problem."""
    length = timedelta(seconds=seconds(text))
    if SHORTEST <= length <= LONGEST and not length % _MINUTE:
        return length
    raise Problem(
        f"A mute lasts whole minutes, at least 1m and at most {LONGEST.days}d, and not {text}: "
        "write --for 30m, 2h or 3d.",
        Cause.INPUT,
    )


def iso_duration(length: timedelta) -> str:
    """A length in whole minutes as ISO 8601 writes it: "PT2H", "P1DT30M"."""
    hours, minutes = divmod(length.seconds // 60, 60)
    days = f"{length.days}D" if length.days else ""
    time = "".join((f"{hours}H" if hours else "", f"{minutes}M" if minutes else ""))
    return f"P{days}{'T' if time else ''}{time}"


def _begin_of(expression: str) -> datetime | None:
    """The time of a one-time schedule, at(2026-11-23T02:10), in UTC; None for any other."""
    try:
        return datetime.strptime(expression, "at(%Y-%m-%dT%H:%M)").replace(tzinfo=UTC)
    except ValueError:
        return None


def _alarms(session: Session, app: App, pipeline: DeployedPipeline) -> list[str]:
    """The names of the pipeline's alarms that exist."""
    prefix = pipeline_prefix(app.name, pipeline.name)
    found = (alarm["AlarmName"] for alarm in alarms(session.aws.cloudwatch, prefix))
    names = [name for name in found if app.owner_of(name) == pipeline.name]
    if not names:
        raise Problem(f"Pipeline {pipeline.name} has no alarm to mute: deploy it.", Cause.ABSENT)
    if len(names) > _MOST_ALARMS:
        raise Problem(
            f"Pipeline {pipeline.name} has {len(names)} alarms, and a mute rule takes "
            f"{_MOST_ALARMS}: mute them in the CloudWatch console.",
            Cause.FAILED,
        )
    return names


@contextmanager
def _known_calls() -> Iterator[None]:
    """Where CloudWatch or the SDK does not know mute rules, a Problem that says so."""
    try:
        yield
    except Exception as error:
        if not _is_unknown(error):
            raise
        operation = getattr(error, "operation_name", "the call")
        why = f"CloudWatch at this endpoint does not know {operation} ({error_code(error)})"
        raise _unknown(why) from error


def _is_unknown(error: Exception) -> bool:
    response: Any = getattr(error, "response", None)
    if not isinstance(response, dict) or error_code(error) in _NO_RULE:
        return False
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return error_code(error) in _UNKNOWN_CALL or status == 501  # HTTP: not implemented


def _unknown(why: str) -> Problem:
    return Problem(
        f"Nothing is muted: {why}. Mute the pages where they arrive (PagerDuty, the chat); dlq "
        "does not disable alarm actions instead, because no one would enable them again.",
        Cause.FAILED,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MuteRequest:
    """Mute a pipeline's alarms for a while; it ends by itself.

    The alarms go on watching and change their states, but page no one. It begins at the next
    full minute; an alarm that is in ALARM when it ends pages. A second mute replaces the first.
    Without options, it says whether the alarms are muted, why and by whom.

    It is a mute rule of CloudWatch. Where CloudWatch does not know them (an old region, an
    emulator), dlq refuses with exit status 1, and changes nothing.
    """

    pipeline: NamedPipeline = None
    length: Annotated[
        str | None, Asked("How long: 30m, 2h, 3d; 1m to 15d.", ("--for",), "LENGTH")
    ] = None
    end: Annotated[bool, Asked("End the mute now; what is in ALARM pages at once.", ("--end",))] = (
        False
    )


@dataclass(frozen=True, slots=True)
class MutePlan:
    """The mute of a pipeline that a person begins, ends, or asks about."""

    mutes: Mutes
    length: timedelta | None
    ends: bool


def _planned(session: Session, request: MuteRequest) -> MutePlan:
    if request.end and request.length is not None:
        raise Problem("--end takes no --for.", Cause.INPUT)
    length = None if request.length is None else length_of(request.length)
    return MutePlan(Mutes(session, request.pipeline), length, request.end)


def _commit(_: Session, plan: MutePlan, reason: str) -> PipelineMute:
    if plan.ends:
        return plan.mutes.end(reason)
    if plan.length is not None:
        return plan.mutes.begin(plan.length, reason)
    if reason:
        raise Problem("Say how long: add --for 2h.", Cause.INPUT)
    return plan.mutes.show()


VERB = Verb(
    name="mute",
    request=MuteRequest,
    examples=(
        'dlq mute orders --for 2h --reason "the bank moves its data centre"',
        "dlq mute orders",
        "dlq mute orders --end",
    ),
    change=lambda request: "A mute" if request.length is not None else "",
    prepare=_planned,
    commit=_commit,
)
