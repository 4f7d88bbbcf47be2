"""`dlq doctor`: what is wrong around a queue, each finding with its repair."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from ..operations.doctor import TESTED_BOTOCORE, VERB, Examination
from ..operations.doctor_checks import ERROR
from ..operations.pager import PagerTest
from ..operations.removal import Removal
from ..operations.words import count
from .output import Block, Line, Styled, line, said, typed
from .verb import VerbView


def _attention(answer: Examination) -> bool:
    page, removal = answer.page, answer.removal
    silent = page is not None and (page.reaches_nobody or page.alarms_arrive is False)
    left = removal is not None and not removal.ready
    ill = any(finding.level == ERROR for finding in answer.findings or ())
    return silent or left or ill or bool(answer.unchecked)


def show(answer: Examination) -> Iterator[Block]:
    """The findings for a person, the worst first; or the test page, or what is left."""
    where = f" in account {answer.account}, {answer.region}"
    if answer.page is not None:
        yield from _page(answer.page, where)
    elif answer.removal is not None:
        yield from _removal(answer.removal, where)
    else:
        yield from _findings(answer, where)


def _findings(answer: Examination, where: str) -> Iterator[Block]:
    findings = answer.findings or ()
    errors = sum(finding.level == ERROR for finding in findings)
    if findings:
        says = f"{count(errors, 'error')}, {count(len(findings) - errors, 'other finding')}"
        yield line(Styled(says, "alarm" if errors else "strong"))
    else:
        yield line(Styled("Nothing that is checked is wrong.", "good"))
    looked_at = f"{', '.join(answer.mains) or 'no source'} → {answer.dlq or 'no DLQ'}"
    if answer.pipelines is not None:
        looked_at = f"Before a deployment of {count(answer.pipelines, 'pipeline')}"
    yield line(f"{looked_at}{where}")
    if answer.botocore:
        yield line(f"Its functions run botocore {answer.botocore}; {TESTED_BOTOCORE} was tested.")
    for finding in findings:
        yield Line()
        style = "alarm" if finding.level == ERROR else "strong"
        yield line(Styled(finding.level, style), f" {finding.check}: {finding.subject}")
        yield line(f"{finding.says}.", indent=2)
        if finding.before is not None:
            yield line(Styled("Before you type it:", "alarm"), f" {finding.before}.", indent=2)
        if finding.fix is not None:
            yield from typed(finding.fix)
    if not answer.asked_account and answer.pipelines is None:
        yield Line()
        yield line("Not asked: whether functions, SNS subscriptions or EventBridge rules use this")
        yield line("DLQ too. With a profile of yours, that may read the account:")
        yield from typed(f"dlq doctor queue:{quote(answer.dlq or 'NAME')}")
    for text in answer.unchecked:
        yield Line()
        yield line(Styled("NOT CHECKED", "alarm"), f" {text}")


def _page(page: PagerTest, where: str) -> Iterator[Block]:
    number = page.subscriptions
    to = "an unknown number of subscriptions" if number is None else count(number, "subscription")
    if page.reaches_nobody:
        yield line("Alarms", where, ": ", Styled("no test page was published.", "alarm"))
    else:
        yield line("Alarms", where, f": a test page is on its way to {to}.")
        yield line("Look where pages arrive: SNS does not say whether it did.", indent=2)
    if page.alarms_arrive is False:
        yield line(Styled("No alarm gets as far as the topic.", "alarm"), indent=2)
    yield line(f"Topic: {page.topic}", indent=2)
    for note in page.notes:
        yield from said(note, indent=2)


def _removal(removal: Removal, where: str) -> Iterator[Block]:
    says = Styled(f"not yet, {count(len(removal.left), 'thing')} left.", "alarm")
    if removal.ready:
        says = Styled("nothing is left, it can be removed.", "good")
    yield line(Styled(removal.pipeline, "strong"), where, ": ", says)
    for left in removal.left:
        yield from _with_command(f"{left.says}.", left.command)
    if removal.steps:
        yield Line()
        yield line("To remove it:")
    for number, step in enumerate(removal.steps, start=1):
        yield from _with_command(f"{number}. {step.says}.", step.command)
    yield Line()
    yield line("What stays:" if removal.ready else "What will stay:")
    for kept in removal.stays:
        command = kept.command if removal.ready else None
        yield from _with_command(f"{kept.name}: {kept.says}.", command)


def _with_command(says: str, command: str | None) -> Iterator[Block]:
    yield line(says, indent=2)
    if command:
        yield from typed(command, 6)


VIEWS = (VerbView(VERB, show, attention=_attention),)
