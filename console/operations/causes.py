"""The causes of failure that suddenly dominate, and the end of a hold by a person's word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from deadletter.failure.causes import Causes

from .audit import IntendedChange, recorded
from .errors import aws_errors
from .session import Here
from .words import moment

HELD, MENDED = "HELD", "MENDED"


@dataclass(frozen=True, slots=True)
class CauseRow:
    """A cause that dominates, or did within the last day."""

    pipeline: Annotated[str, "name of the pipeline"]
    cause: Annotated[str, "its 16 digits, as logs and `failure.fingerprint` say"]
    state: Annotated[
        str, "HELD (no message is parked for it) or MENDED (a person has it counted anew)"
    ]
    error_type: Annotated[str, "the error; empty if it is not on record"]
    since: Annotated[datetime | None, "when its hold began; null if it is not on record"]
    until: Annotated[datetime | None, "when the hold ends, or ended; a failure renews it"]
    by: Annotated[str | None, "who ended the hold; null for one that lasts"]
    reason: Annotated[str | None, "why"]


def mend(here: Here, fingerprint: str, reason: str) -> None:
    """Counts a held cause anew: its hold ends, and what fails from now on decides."""
    now, name = here.session.clock(), here.pipeline.name
    before, after = {"state": HELD}, {"state": MENDED}
    change = IntendedChange("retry", name, target(fingerprint), reason, before, after)
    caller = here.session.aws.caller
    with recorded(here.session, here.app, change), aws_errors():
        here.causes.change(lambda causes: causes.mending(fingerprint, caller, reason, now), now)


def target(fingerprint: str) -> str:
    """A cause as the audit table names it."""
    return f"cause {fingerprint}"


def rows_of(pipeline: str, causes: Causes, now: datetime) -> Iterator[CauseRow]:
    """The causes as answers show them, those that are held first."""
    held = causes.held(now.timestamp())
    for cause, hold in held.items():
        since, until = moment(hold.since), moment(hold.until)
        yield CauseRow(pipeline, cause, HELD, hold.error_type, since, until, None, None)
    for cause, hold in causes.holds.items():
        if hold.mended_by and cause not in held:
            since, until = moment(hold.since), moment(hold.until)
            by, why = hold.mended_by, hold.reason
            yield CauseRow(pipeline, cause, MENDED, hold.error_type, since, until, by, why)


def read_causes(here: Here) -> Sequence[CauseRow]:
    """The causes of a pipeline that dominate, or did within the last day: the held ones first."""
    with aws_errors():
        causes = here.causes.read()
    return [*rows_of(here.pipeline.name, causes, here.session.now)]


def held(here: Here) -> Sequence[str]:
    """The fingerprints of a pipeline's causes that are held now."""
    return [row.cause for row in read_causes(here) if row.state == HELD]
