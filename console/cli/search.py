"""`dlq search`: letters by content or id, wherever we hold them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from ..operations.problem import Cause, Problem
from ..operations.search import MOST_LETTERS, Bounds, SearchResult, Wanted
from ..operations.search import search as find
from ..operations.session import Session
from ..operations.words import clock, count, size
from . import replay_options
from .command import SomePipelines, command, plain_typer
from .exit import Exit
from .letters import ShowBody
from .output import Block, Line, Reply, Styled, line

# Characters of a body that a terminal is given.
_MAX_BODY = 2_000

typer_app = plain_typer()

Text = Annotated[
    str | None,
    typer.Argument(metavar="TEXT", help="Text in the body or an attribute, in either case."),
]
Ids = Annotated[
    list[str] | None,
    typer.Option("--id", metavar="ID", help="Id of a copy or of a first life; several times."),
]
Tenant = Annotated[
    str | None,
    typer.Option("--tenant", metavar="NAME", help="Of this tenant; upper and lower case differ."),
]
Fields = Annotated[
    list[str] | None,
    typer.Option(
        "--field", metavar="PATH=VALUE", help="A field, as body.orderId=7; several times."
    ),
]
Dlq = Annotated[
    bool, typer.Option("--dlq", help="The DLQ and the dedicated DLQs too; SQS counts the looks.")
]
NoQueues = Annotated[
    bool, typer.Option("--no-queues", help="No queue at all, so that SQS counts no look.")
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="End at so many matches.")]
Most = Annotated[
    int, typer.Option("--most", metavar="N", min=1, max=100_000, help="Look at so many letters.")
]
Wait = Annotated[
    int, typer.Option("--wait", metavar="SECONDS", min=1, max=600, help="Search so long in all.")
]


@command(
    typer_app,
    "search",
    example=[
        "dlq search 4711 --pipeline orders",
        "dlq search --field body.orderId=4711 --tenant acme",
        "dlq search --id 8f14e45f-ceea-467f-9575-2a8c1d6e2b11 --no-queues",
        "dlq search timeout --dlq --jsonl > found.jsonl",
    ],
)
def search(
    session: Session,
    text: Text = None,
    pipeline: SomePipelines = None,
    id_: Ids = None,
    tenant: Tenant = None,
    field: Fields = None,
    dlq: Dlq = False,
    no_queues: NoQueues = False,
    limit: Limit = 100,
    most: Most = MOST_LETTERS,
    wait: Wait = 60,
    show_body: ShowBody = False,
) -> Reply[SearchResult]:
    """Find letters by text, field, tenant or id, wherever we hold them.

    It searches the waiting room, the snapshots of replay runs (by id and tenant), and the
    parking queues. What is given has to hold all together. A path of --field is JMESPath over
    what rules see: body, attributes, context, system, redrive.

    Messages of queues are received and given back at once; SQS counts each look. Main queues
    are never searched, and the answer names each place that was not. The exit status is 1 if a
    search ended early, or if nothing was found and a place was left out, such as the DLQ without
    --dlq.
    """
    if dlq and no_queues:
        raise Problem("--dlq and --no-queues exclude each other.", Cause.INPUT)
    queues = () if no_queues else ("parking", "dlq") if dlq else ("parking",)
    wanted = Wanted(text, frozenset(id_ or ()), tenant, dict(map(_field, field or ())))
    try:
        answer = find(
            session,
            pipeline or (),
            wanted,
            bounds=Bounds(limit, most, wait),
            queues=queues,
            body=show_body,
            progress=replay_options.progress,
        )
    finally:
        replay_options.end_progress()
    is_sure = answer.complete and bool(answer.matches or not answer.not_searched)
    return Reply(answer, show, Exit.DONE if is_sure else Exit.ATTENTION)


def _field(text: str) -> tuple[str, str]:
    path, separator, value = text.partition("=")
    if not separator or not path:
        raise Problem(f"--field takes PATH=VALUE, not {text!r}.", Cause.INPUT)
    return path, value


def show(answer: SearchResult) -> Iterator[Block]:
    """The matches for a person."""
    where = f"{', '.join(answer.pipelines)} in account {answer.account}, {answer.region}"
    yield line(Styled(f"{count(len(answer.matches), 'letter')} found", "strong"), f" in {where}")
    yield line(f"{answer.looked_at:,} looked at, {answer.received:,} of them received.")
    for note in answer.notes:
        yield line(Styled(note, "alarm"))
    for place in answer.not_searched:
        yield line(Styled("Not searched: ", "strong" if answer.matches else "alarm"), place)
    for place in answer.never_searched:
        yield line(Styled("Never searched: ", "strong"), place)
    for match in answer.matches:
        yield Line()
        sent = f", first sent {clock(match.first_sent, answer.at)}" if match.first_sent else ""
        outcome = f", {match.outcome.lower()}" if match.outcome else ""
        tenant = f", tenant {match.tenant}" if match.tenant else ""
        yield line(
            Styled(match.message_id, "strong"),
            f"  {match.place} of {match.pipeline}{outcome}{tenant}{sent}, {size(match.size)}",
        )
        if match.body is not None:
            yield line(match.body[:_MAX_BODY], indent=4)
    if answer.matches:
        yield Line()
        yield line(f"One letter's life: dlq explain {answer.matches[0].message_id}")
