"""`dlq flow`: this deployment as a drawing, in nodes and edges."""

from __future__ import annotations

from collections.abc import Iterator

from ..operations import flow as operation
from ..operations.flow import Flow, FlowNode
from ..operations.session import Session
from ..operations.words import duration
from .command import PipelineArguments, SomePipelines, command, plain_typer, some_pipelines
from .exit import Exit
from .output import Block, Line, Part, Reply, Styled, TextTable, line
from .progress import waiting

typer_app = plain_typer()


@command(typer_app, "flow", example=["dlq flow", "dlq flow orders --json --query edges"])
def flow(
    session: Session, pipelines: PipelineArguments = None, pipeline: SomePipelines = None
) -> Reply[Flow]:
    """This deployment as nodes and edges: queues, what waits, rules in force, circuits.

    Reads only, with live counts. An edge that messages do not take now says why. --json is made to
    be drawn.

    The exit status is 1 if something could not be read.
    """
    names = some_pipelines(pipelines, pipeline)
    with waiting(f"Asking AWS about app {session.app_name}"):
        answer = operation.flow(session, names)
    return Reply(answer, _show, Exit.ATTENTION if answer.unread else Exit.DONE)


def _show(answer: Flow) -> Iterator[Block]:
    yield line(
        Styled(answer.app, "strong"),
        f" in account {answer.account}, {answer.region}, at {answer.at:%H:%M:%S} UTC",
    )
    for text in answer.unread:
        yield line(Styled(text, "alarm"))
    yield Line()
    yield TextTable(
        ("NODE", "KIND", ">MESSAGES", ">OLDEST", "STATE", ""),
        [_node(node) for node in answer.nodes],
    )
    yield Line()
    yield TextTable(
        ("FROM", "DOES", "TO", "NOT NOW, BECAUSE"),
        [(edge.start, edge.does, edge.end, edge.because or "") for edge in answer.edges],
    )


def _node(node: FlowNode) -> tuple[Part, ...]:
    holds = node.kind in ("queue", "waiting")
    letters = f"{node.messages:,}" if node.messages is not None else "?" if holds else ""
    age = "" if node.oldest_seconds is None else duration(node.oldest_seconds)
    return (node.id, node.kind, letters, age, node.state, node.says)
