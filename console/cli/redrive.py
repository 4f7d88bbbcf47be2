"""`dlq redrive`: start a run now. Only the Lambda function moves letters; this starts it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from deadletter.contract import MAIN_DLQ

from ..operations.app import DeployedPipeline
from ..operations.aws import Aws, error_code, failure
from ..operations.problem import Exit, Problem
from ..operations.queue import depth
from .command import OnePipeline, Session, command, group
from .output import Block, CommandResult, Line, Reply, Styled, TextTable, count, line


@dataclass(frozen=True, slots=True)
class RedriveRun(CommandResult):
    """What `dlq redrive now` answers."""

    pipeline: Annotated[str, "name of the pipeline"]
    source: Annotated[str, "`dlq`, or the id of a dedicated DLQ"]
    dry_run: Annotated[bool, "whether nothing was moved"]
    report: Annotated[
        Mapping[str, Any],
        "what the run reported: `stopped` (why it ended), `received`, `decisions` (number of "
        "letters by decision and reason), `moved`, `failed`, `left`, `possible_duplicates`, "
        "and whatever else it counted",
    ]


typer_app = group("Start a re-drive run now, without waiting for the schedule.")

DryRun = Annotated[bool, typer.Option("--dry-run", help="Decide and report; move nothing.")]
Source = Annotated[
    str,
    typer.Option("--source", metavar="ID", help="Which queue: dlq, or the id of a dedicated DLQ."),
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Don't ask; needed where nobody can be asked.")
]


@command(
    typer_app,
    "now",
    example=[
        "dlq redrive now --pipeline orders --dry-run",
        "dlq redrive now --pipeline orders",
        "dlq redrive now --pipeline orders --source tenant-a --yes --json",
    ],
)
def now(
    session: Session,
    pipeline: OnePipeline = None,
    dry_run: DryRun = False,
    source: Source = MAIN_DLQ,
    yes: Yes = False,
) -> Reply[RedriveRun]:
    """Start a re-drive run now and wait for its report.

    The run is the one that the schedule starts: every letter is judged by the same
    rules, backoff and circuit, so it does not force anything. It asks before it starts,
    naming account and region. A dry run judges a sample of letters, moves nothing and
    does not ask.

    Ctrl-C stops the waiting, not the run. The exit status is 1 if the run failed, or
    failed to move a letter.
    """
    chosen = session.app().one(pipeline)
    _check_source(chosen, source)
    if not (yes or dry_run):
        session.agreed(_question(session.aws, chosen, source))
    report = invoke(session.aws, chosen, source=source, dry_run=dry_run)
    run = RedriveRun(
        session.aws.account, session.aws.region, session.app_name,
        chosen.name, source, dry_run, report,
    )  # fmt: skip
    return Reply(run, show, Exit.ATTENTION if report.get("failed") else Exit.DONE)


def _check_source(pipeline: DeployedPipeline, source: str) -> None:
    allowed = [MAIN_DLQ, *pipeline.dedicated]
    if source not in allowed:
        raise Problem(
            f"Pipeline {pipeline.name} has no source {source!r}: it has {', '.join(allowed)}.",
            Exit.ABSENT,
        )


def _question(aws: Aws, pipeline: DeployedPipeline, source: str) -> str:
    url = pipeline.dlq_url if source == MAIN_DLQ else pipeline.dedicated[source]
    queue = "the DLQ" if source == MAIN_DLQ else f"dedicated DLQ {source}"
    letters = count(depth(aws.sqs, url).visible, "letter")
    if pipeline.mode == "observe":
        return f"Start a run of {pipeline.name} over {letters} in {queue} (observe: moves nothing)."
    return f"Start a run of {pipeline.name} that may move {letters} out of {queue}."


def invoke(
    aws: Aws, pipeline: DeployedPipeline, *, source: str, dry_run: bool
) -> Mapping[str, Any]:
    """Runs the pipeline's redrive function and returns its report.

    Raises Problem if the function fails, is busy, does not answer or answers nonsense.
    """
    from botocore.exceptions import ClientError, ReadTimeoutError

    try:
        answer = aws.lambda_.invoke(
            FunctionName=pipeline.redrive_function,
            InvocationType="RequestResponse",
            Payload=json.dumps({"source": source, "dry_run": dry_run}),
        )
        payload = answer["Payload"].read()
    except KeyboardInterrupt:
        sys.stderr.write(
            "\nStopped waiting; a run that has started goes on to its end: see dlq status.\n"
        )
        raise
    except ReadTimeoutError as error:
        raise Problem(
            "No answer from the redrive function: the run may still be going on; see dlq status.",
            Exit.UNREACHABLE,
        ) from error
    except ClientError as error:
        if error_code(error) == "TooManyRequestsException":
            raise Problem(
                f"Lambda has no room to start {pipeline.redrive_function}: "
                "another run is going on, or the account is at its limit; try again in a minute.",
                Exit.UNREACHABLE,
            ) from error
        raise
    said = _json(payload)
    if "FunctionError" in answer:
        raise Problem(
            f"The redrive function {pipeline.redrive_function} failed ({failure(said)}): what it "
            "had not moved is still in its queue, and its log in CloudWatch says more.",
            Exit.ATTENTION,
        )
    if not isinstance(said, dict):
        raise Problem(
            f"The redrive function {pipeline.redrive_function} answered no report: "
            "use the dlq of the version that is deployed.",
            Exit.ATTENTION,
        )
    return said


def _json(payload: bytes) -> Any:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return None


_SAID_ABOVE = {"pipeline", "source", "dry_run", "stopped"}
_FIRST = ("decisions", "received", "moved", "failed", "left", "possible_duplicates")


def show(run: RedriveRun) -> Iterator[Block]:
    """The report as a person reads it."""
    report = run.report
    what = "Dry run" if run.dry_run else "Run"
    yield line(
        Styled(f"{what} of {run.pipeline}", "strong"),
        f" over {run.source} in account {run.account}, {run.region}",
    )
    yield line(f"Ended because: {report.get('stopped') or 'it did not say'}")
    yield Line()
    # A later version may count more than this one knows.
    known = [name for name in _FIRST if name in report]
    names = [*known, *(name for name in report if name not in {*known, *_SAID_ABOVE})]
    figures = [name for name in names if not isinstance(report[name], dict)]
    yield TextTable((), [(_title(name), _value(name, report[name])) for name in figures])
    for name in names:
        if isinstance(report[name], dict) and report[name]:
            yield Line()
            rows = [(str(key), _said(one)) for key, one in report[name].items()]
            yield TextTable((_title(name).upper(), ">"), rows)
    if run.dry_run:
        yield Line()
        yield line("Nothing was moved.")


def _title(name: str) -> str:
    return name.replace("_", " ")


def _value(name: str, value: Any) -> str | Styled:
    said = _said(value)
    return Styled(said, "alarm") if name == "failed" and value else said


def _said(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case dict():
            return ", ".join(f"{key} {_said(one)}" for key, one in value.items()) or "none"
        case list():
            return ", ".join(map(_said, value)) or "none"
        case None:
            return "none"
        case _:
            return str(value)
