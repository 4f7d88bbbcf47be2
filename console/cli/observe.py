"""`dlq observe`: what a pipeline that only observes would have done."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from ..operations.observe_report import ObservedCause, ObserveReport
from ..operations.observe_report import report as read
from ..operations.session import Session
from ..operations.words import clock, count, duration
from .command import OnePipeline, PipelineArgument, command, group, one_pipeline
from .output import Block, Line, Reply, Styled, line

typer_app = group("Mode observe: what would have been done, without doing it.")


@command(
    typer_app,
    "report",
    example=[
        "dlq observe report orders",
        "dlq observe report orders --json --query 'causes[?action==`PARK`]'",
    ],
)
def report(
    session: Session, argument: PipelineArgument = None, pipeline: OnePipeline = None
) -> Reply[ObserveReport]:
    """What would have gone where, and why, since observing began.

    Each letter of the DLQ that the schedule has judged is counted once, by the first
    decision on it, and grouped by where it would have gone, the rule that decided, and the
    cause of its last failure. Nothing was moved, and nothing is received to answer this.

    The first 2,000 letters of each queue are kept, for 45 days after the last of them.
    """
    return Reply(read(session, one_pipeline(argument, pipeline)), show)


def show(answer: ObserveReport) -> Iterator[Block]:
    """The report for a person: the largest group first."""
    name = f"{answer.pipeline} in account {answer.account}, {answer.region}"
    least = "at least " if answer.at_least else ""
    if answer.since is None:
        yield line(Styled(name, "strong"), f": nothing was observed yet (mode {answer.mode}).")
        yield line("The schedule judges letters of the DLQ; dlq retry --auto does so at once.")
        return
    age = duration((answer.at - answer.since).total_seconds())
    yield line(
        Styled(name, "strong"),
        f": {least}{count(answer.letters, 'letter')} in {count(len(answer.causes), 'group')}, "
        f"observed for {age}, since {clock(answer.since, answer.at)}.",
    )
    for note in answer.notes:
        yield line(Styled(note, "alarm"))
    for each in answer.causes:
        yield Line()
        yield from _cause(each, answer.at)
    if answer.causes:
        yield Line()
        yield line(f"One message: dlq show {answer.causes[0].sample}")


def _cause(each: ObservedCause, now: datetime) -> Iterator[Block]:
    by_rule = f" by rule {each.rule}" if each.rule else ""
    since = (
        f", {clock(each.first, now)} to {clock(each.last, now)}" if each.first and each.last else ""
    )
    yield line(
        Styled(count(each.letters, "letter"), "strong"),
        f"  would {each.action}: {each.target}{by_rule}{since}",
    )
    error = ": ".join(text for text in (each.error_type, each.words) if text)
    category = f" [{each.category}]" if each.category else ""
    yield line(f"failed with {error}{category}" if error else "no failure on record", indent=4)
    yield line(f"because: {each.because}; for example {each.sample}", indent=4)
    if each.processed:
        yield line(f"{count(each.processed, 'letter')} of them processed since", indent=4)
