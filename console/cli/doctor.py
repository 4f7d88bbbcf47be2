"""`dlq doctor`: what is wrong around a queue, each finding with its repair."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from ..operations import doctor as operation
from ..operations.doctor import Examination
from ..operations.faults import ERROR, NOTE
from ..operations.problem import Cause, Problem
from ..operations.session import Session
from ..operations.words import count
from .command import OnePipeline, PipelineArgument, command, one_pipeline, plain_typer
from .exit import Exit
from .output import Block, Line, Reply, Styled, line
from .progress import waiting

typer_app = plain_typer()

Queue = Annotated[
    str | None,
    typer.Option(
        "--queue", metavar="URL", help="A main queue or DLQ by URL, name or ARN; no app is needed."
    ),
]
Account = Annotated[
    bool,
    typer.Option(
        "--account", help="Also ask the account's functions, topics and rules for their DLQ."
    ),
]
Check = Annotated[
    bool, typer.Option("--check", help="Exit with 1 if there is an ERROR or a WARNING.")
]


@command(
    typer_app,
    "doctor",
    example=[
        "dlq doctor orders",
        "dlq doctor --queue https://sqs.eu-west-1.amazonaws.com/111122223333/orders-dlq",
        "dlq doctor --queue orders-dlq --check --query \"findings[?level=='ERROR']\"",
    ],
)
def doctor(
    session: Session,
    name: PipelineArgument = None,
    pipeline: OnePipeline = None,
    queue: Queue = None,
    account: Account = False,
    check: Check = False,
) -> Reply[Examination]:
    """Check what synth can't see around a queue and its DLQ.

    Retention order, maxReceiveCount, partial batch responses, visibility against the function's
    time-out, provisioned mode, tenant isolation, encryption and key policies, TLS, alarms on a
    metric that never rings, and shared DLQs. Each finding comes with the command that repairs
    it; read it before you paste it.

    With --queue, and with --account, also whether Lambda functions, SNS subscriptions or
    EventBridge targets use the same DLQ. That reads all of the account: no policy of the app
    allows it, so use a profile of yours.

    Reads settings only: no message is received, nothing is changed. Nothing of deadletter has to
    be deployed. The exit status is 1 if something could not be read; with --check also for an
    ERROR or WARNING.
    """
    chosen = one_pipeline(name, pipeline)
    if queue is not None and chosen is not None:
        raise Problem("A pipeline and --queue exclude each other: give one.", Cause.INPUT)
    with waiting("Examining"):
        diagnosis = (
            operation.examine_pipeline(session, chosen, account=account)
            if queue is None
            else operation.examine_queue(session, queue)
        )
    ill = any(finding.level != NOTE for finding in diagnosis.findings)
    attention = diagnosis.unchecked or (check and ill)
    return Reply(diagnosis, show, Exit.ATTENTION if attention else Exit.DONE)


def show(diagnosis: Examination) -> Iterator[Block]:
    """The findings for a person, the worst first."""
    errors = sum(finding.level == ERROR for finding in diagnosis.findings)
    others = len(diagnosis.findings) - errors
    if diagnosis.findings:
        says = f"{count(errors, 'error')}, {count(others, 'other finding')}"
        yield line(Styled(says, "alarm" if errors else "strong"))
    else:
        yield line(Styled("Nothing is wrong that dlq doctor checks.", "good"))
    mains = ", ".join(diagnosis.mains) or "no source"
    yield line(
        f"{mains} → {diagnosis.dlq or 'no DLQ'} in account {diagnosis.account}, {diagnosis.region}"
    )
    for finding in diagnosis.findings:
        yield Line()
        style = "alarm" if finding.level == ERROR else "strong"
        yield line(Styled(finding.level, style), f" {finding.check}: {finding.subject}")
        yield line(f"{finding.says}.", indent=2)
        if finding.before is not None:
            yield line(Styled("Before you type it:", "alarm"), f" {finding.before}.", indent=2)
        if finding.fix is not None:
            yield line(Styled(finding.fix, "faint"), indent=2)
    if not diagnosis.asked_account:
        yield Line()
        yield line(
            "Not asked: whether functions, SNS subscriptions or EventBridge rules use this DLQ "
            "too; --account does."
        )
    for text in diagnosis.unchecked:
        yield Line()
        yield line(Styled("NOT CHECKED", "alarm"), f" {text}")
