"""`dlq cost`: what the pipelines cost at list prices."""

from __future__ import annotations

from collections.abc import Iterator

from ..operations import cost as operation
from ..operations.cost import AppCost
from ..operations.session import Session
from ..operations.words import count
from .command import PipelineArguments, SomePipelines, command, plain_typer, some_pipelines
from .output import Block, Line, Reply, Styled, TextTable, line
from .progress import waiting

typer_app = plain_typer()


@command(
    typer_app,
    "cost",
    example=[
        "dlq cost",
        "dlq cost orders",
        "dlq cost --json --query month",
    ],
)
def cost(
    session: Session,
    pipelines: PipelineArguments = None,
    pipeline: SomePipelines = None,
) -> Reply[AppCost]:
    """What a pipeline costs a month, and a million letters, at list prices.

    An estimate from the deployed settings: requests as tests have counted them, seconds that are
    assumed, and AWS's prices of us-east-1 without free tiers. No bill is read, and storage is left
    out. docs/cost.md says what is in it.

    Reads only.
    """
    names = some_pipelines(pipelines, pipeline)
    with waiting(f"Asking AWS about app {session.app_name}"):
        answer = operation.estimate(session, names)
    return Reply(answer, show)


def show(answer: AppCost) -> Iterator[Block]:
    """The estimate for a person: the month, then what comes on top of it."""
    yield line(
        Styled(answer.app, "strong"),
        f" in account {answer.account}, {answer.region}: ",
        Styled(f"about ${answer.month:,.2f} a month", "strong"),
        f" for {count(len(answer.pipelines), 'pipeline')} with nothing to do",
    )
    yield line(f"List prices of {answer.prices}; no bill was read.")
    yield Line()
    parts = list(dict.fromkeys(part for each in answer.pipelines for part in each.parts))
    yield TextTable(
        ("PIPELINE", *(f">{part.upper()}" for part in parts), ">A MONTH"),
        [
            (
                each.name,
                *(f"{each.parts.get(part, 0):,.2f}" for part in parts),
                f"{each.month:,.2f}",
            )
            for each in answer.pipelines
        ],
    )
    if answer.shared:
        shared = ", ".join(f"{what} {dollars:,.2f}" for what, dollars in answer.shared.items())
        yield Line()
        yield line(f"The app beside them, at most {sum(answer.shared.values()):,.2f}: {shared}")
    yield Line()
    yield TextTable(
        ("A MILLION LETTERS", ">DOLLARS"),
        [(what, f"{dollars:,.2f}") for what, dollars in answer.million_letters.items()],
    )
    yield Line()
    yield line(f"An hour of an outage: {answer.outage_hour:,.3f} on top.")
