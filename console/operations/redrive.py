"""Calls the functions of a pipeline: a run by hand, and the letters that they are asked about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from deadletter.message.letter import compact_json
from deadletter.signals.figures import Count

from .app import App, DeployedPipeline
from .audit import IntendedChange, recorded
from .aws import Aws
from .errors import Cause, Problem, error_code, failure, read_json
from .session import Session

# Metrics of letters that stay where they are until a person does something.
_NEED_PERSON = {Count.UNDECIDED, Count.UNSENDABLE, Count.BAD_ROW}

# What of a report is kept as what has come of it.
_RECORDED = ("stopped", "received", "moved", "failed", "left")

# Seconds before a further try, and tries: Lambda ends the run at work within 15 minutes.
_AGAIN_AFTER = 10.0
_MOST_TRIES = 91


def ended_badly(report: Mapping[str, Any]) -> bool:
    """Whether a run left a message that it could not move or judge, or did not do its work."""
    counts = report.get("counts")
    undone = _NEED_PERSON & counts.keys() if isinstance(counts, dict) else set()
    failed = bool(report.get("failed") or undone)
    return failed or _met_another(report) or report.get("ended_well") is not True


@dataclass(frozen=True, slots=True)
class RedriveTarget:
    """A queue that a run can drain, by its id: the DLQ of a pipeline, or a dedicated DLQ."""

    app: App
    pipeline: DeployedPipeline
    source: str

    @property
    def observes(self) -> bool:
        """Whether a run decides and reports without moving anything."""
        return self.pipeline.mode == "observe"


def figures(report: Mapping[str, Any]) -> Iterator[str]:
    """What a run has counted, a line each; what it says in words and of single messages is not."""
    words = ("stopped", "ended_well", "trouble", "messages", "pipeline", "source", "dry_run")
    for name, value in report.items():
        if name not in words and value:
            counted = value if isinstance(value, Mapping) else {name.replace("_", " "): value}
            yield from (f"{each}: {number}" for each, number in counted.items())


def start(
    session: Session, queue: RedriveTarget, *, dry_run: bool, why: str = ""
) -> Mapping[str, Any]:
    """Starts a run that a person asks for, and waits for its report.

    Such a run does not wait although earlier runs could move nothing, and in mode observe it
    looks at letters that were looked at before. Where another run is at work, or Lambda has no
    room, it is started again until it can work, with a pause of some seconds before each further
    try. Raises Problem if the function fails, is busy all the time, does not answer or answers no
    report.
    """
    if dry_run:
        return _invoke(session, queue, dry_run=True)
    change = IntendedChange("retry", queue.pipeline.name, f"source {queue.source}", why)
    with recorded(session, queue.app, change) as record:
        report = _invoke(session, queue, dry_run=False)
        record.done({name: report[name] for name in _RECORDED if report.get(name) is not None})
    return report


def _invoke(session: Session, queue: RedriveTarget, *, dry_run: bool) -> Mapping[str, Any]:
    def once() -> Mapping[str, Any]:
        return ask(
            session.aws,
            queue.pipeline.redrive_function,
            {"source": queue.source, "dry_run": dry_run, "asked": True},
            lost="the run may still be going on",
            failed="what it had not moved is still in its queue",
        )

    for _ in range(_MOST_TRIES - 1):
        with suppress(NoRoom):
            report = once()
            if not _met_another(report):
                return report
        session.say(f"Waiting until another run of {queue.pipeline.name} has ended")
        session.pause(_AGAIN_AFTER)
    return once()


def _met_another(report: Mapping[str, Any]) -> bool:
    from deadletter.redrive.redriver import LEASE_HELD

    return report.get("stopped") == LEASE_HELD


class NoRoom(Problem):
    """Lambda does not start the function now: it is at work, or the account is at its limit."""


def ask(
    aws: Aws, function: str, event: Mapping[str, Any], *, lost: str, failed: str
) -> Mapping[str, Any]:
    """What a function of a pipeline answers to an event, waited for.

    `lost` says what is known without an answer, and `failed` after an error. Raises NoRoom if
    the function is busy, Problem if it fails, does not answer or answers no object.
    """
    from botocore.exceptions import ClientError, ReadTimeoutError

    try:
        answer = aws.lambda_.invoke(
            FunctionName=function, InvocationType="RequestResponse", Payload=compact_json(event)
        )
        payload = read_json(answer["Payload"].read())
    except ReadTimeoutError as error:
        raise Problem(f"No answer from function {function}: {lost}.", Cause.UNREACHABLE) from error
    except ClientError as error:
        if error_code(error) == "TooManyRequestsException":
            raise NoRoom(
                f"Lambda has no room to start {function}: "
                "another run is going on, or the account is at its limit; try again in a minute.",
                Cause.UNREACHABLE,
            ) from error
        raise
    if "FunctionError" in answer:
        raise Problem(
            f"Function {function} failed ({failure(payload)}): {failed}, and its log "
            "in CloudWatch says more.",
            Cause.FAILED,
        )
    if not isinstance(payload, dict):
        raise of_another_version(function, "does not answer as this dlq expects")
    return payload


def of_another_version(function: str, does: str) -> Problem:
    """That a function and this command line do not understand each other."""
    says = f"Function {function} {does}: use the dlq of the version that is deployed."
    return Problem(says, Cause.FAILED)


def request(
    aws: Aws, pipeline: DeployedPipeline, name: str, asked: Any, *, expects: str, lost: str
) -> Mapping[str, Any]:
    """What the function answers to a request that is no run; `expects` is a field of the answer.

    Raises Problem also if the function refuses it.
    """
    function = pipeline.redrive_function
    answer = ask(aws, function, {name: asked}, lost=lost, failed=lost)
    if isinstance(refused := answer.get("refused"), str):
        raise Problem(f"Function {function} refuses: {refused}.", Cause.FAILED)
    if expects not in answer:
        raise of_another_version(function, f"knows no {name}")
    return answer
