"""`dlq flow`: this deployment as a drawing, in nodes and edges."""

from __future__ import annotations

from collections.abc import Iterator

from ..operations.flow import VERB, Flow, FlowNode
from ..operations.words import duration
from .command import plain_typer
from .exit import Exit
from .output import Block, Line, Part, Styled, TextTable, line
from .verb import add

typer_app = plain_typer()


def _status(answer: Flow) -> Exit:
    return Exit.ATTENTION if answer.unread else Exit.DONE


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


add(typer_app, VERB, _show, status=_status)
