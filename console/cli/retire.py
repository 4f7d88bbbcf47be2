"""`dlq retire`: what is left of a pipeline before it is removed, and how to remove it."""

from __future__ import annotations

from collections.abc import Iterator

from ..operations import retire as operation
from ..operations.retire import Retirement
from ..operations.session import Session
from ..operations.words import count
from .command import OnePipeline, PipelineArgument, command, one_pipeline, plain_typer
from .exit import Exit
from .output import Block, Line, Reply, Styled, line

typer_app = plain_typer()


@command(
    typer_app,
    "retire",
    example=[
        "dlq retire orders",
        "dlq retire orders --json --query 'left[].command'",
    ],
)
def retire(
    session: Session, argument: PipelineArgument = None, pipeline: OnePipeline = None
) -> Reply[Retirement]:
    """What is left of a pipeline before it is removed, and how to remove it.

    Reads only. It lists letters in its queues and in the waiting room, replay runs, circuits
    that are not closed and a consumer that is still paused, each with what empties or ends
    it. Once nothing is left, it prints the commands that remove the pipeline, and the names
    of what stays. Depths are SQS's own estimates: ask again a minute after the last letter.

    The exit status is 1 while something is left, or could not be read.
    """
    answer = operation.read(session, one_pipeline(argument, pipeline))
    return Reply(answer, _show, Exit.DONE if answer.ready else Exit.ATTENTION)


def _show(answer: Retirement) -> Iterator[Block]:
    where = f" in account {answer.account}, {answer.region}"
    name = Styled(answer.pipeline, "strong")
    if answer.ready:
        yield line(name, where, ": ", Styled("nothing is left, it can be removed.", "good"))
    else:
        things = count(len(answer.left), "thing")
        yield line(name, where, ": ", Styled(f"not yet, {things} left.", "alarm"))
    for item in answer.left:
        yield line(f"{item.says}.", indent=2)
        if item.command:
            yield line(item.command, indent=6)
    if answer.steps:
        yield Line()
        yield line("To remove it:")
    for number, step in enumerate(answer.steps, start=1):
        yield line(f"{number}. {step.says}.", indent=2)
        if step.command:
            yield line(step.command, indent=6)
    yield Line()
    yield line("What stays:" if answer.ready else "What will stay:")
    for kept in answer.stays:
        yield line(Styled(kept.name, "strong"), f": {kept.says}.", indent=2)
        if kept.command and answer.ready:
            yield line(kept.command, indent=6)
