"""`dlq rules lint`: rules in version control, checked before they are imported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from ..operations import rule_lint as operation
from ..operations.rule_lint import LintReport
from ..operations.session import Session
from ..operations.words import count
from .exit import Exit
from .output import Block, Reply, Styled, line
from .text_file import read_text

Files = Annotated[list[str], typer.Argument(metavar="FILE...", help="Files of rules; - is stdin.")]
SettingsFile = Annotated[
    str | None,
    typer.Option("--settings", metavar="FILE", help="The cdk.json that names the pipelines."),
]


def lint(session: Session, files: Files, settings: SettingsFile = None) -> Reply[LintReport]:
    """Check files of rules, without AWS.

    With --settings, contexts, dedicated DLQs, policies and the longest delay are checked
    as the deployed router checks them. Without, each unknown column counts as the name of
    a context, and is listed as unchecked.

    The exit status is 1 if there is a mistake.
    """
    report = operation.lint(
        [(file, read_text(file)) for file in files],
        None if settings is None else (settings, read_text(settings)),
    )
    return Reply(report, show, Exit.ATTENTION if report.mistakes else Exit.DONE)


def show(report: LintReport) -> Iterator[Block]:
    """The mistakes for a person, each on a line."""
    for mistake in report.mistakes:
        rule = f": {mistake.rule_id}" if mistake.rule_id is not None else ""
        yield line(Styled(f"{mistake.file}{rule}", "strong"), f": {mistake.why}")
    summary = f"{count(report.rules, 'rule')}, {count(len(report.mistakes), 'mistake')}."
    yield line(Styled(summary, "alarm" if report.mistakes else "good"))
    if report.unchecked:
        yield line(f"Not checked without --settings: {'; '.join(report.unchecked)}.")
