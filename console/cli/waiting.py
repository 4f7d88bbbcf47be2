"""`dlq waiting`: the letters that wait outside SQS, and calling them back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from ..operations.problem import Cause, Problem
from ..operations.session import Session
from ..operations.waiting import (
    MOST_LISTED,
    Recall,
    Recalled,
    RecallRequest,
    WaitingList,
    WaitingPipeline,
    describe,
    list_waiting,
)
from ..operations.words import clock, count, duration
from . import asking, replay_options
from .asking import Reason, Yes
from .command import (
    OnePipeline,
    PipelineArgument,
    PipelineArguments,
    SomePipelines,
    command,
    group,
    one_pipeline,
    some_pipelines,
)
from .output import Block, Line, Reply, Styled, TextTable, line
from .replay_options import Ids, Pattern, Since, Tenants, Until, Where

typer_app = group("Letters that wait outside SQS: what waits where, and for what.")

LaneName = Annotated[
    str | None, typer.Option("--lane", metavar="LANE", help="Only letters of this lane.")
]
RuleId = Annotated[
    str | None,
    typer.Option("--rule", metavar="ID", help="Only letters that this rule holds or delays."),
]
Limit = Annotated[
    int, typer.Option("--limit", metavar="N", min=1, max=1000, help="How many letters to list.")
]


@command(
    typer_app,
    "list",
    example=["dlq waiting list", "dlq waiting list orders --rule stop-acme"],
)
def list_(
    session: Session,
    pipelines: PipelineArguments = None,
    pipeline: SomePipelines = None,
    lane: LaneName = None,
    rule: RuleId = None,
    limit: Limit = MOST_LISTED,
) -> Reply[WaitingList]:
    """What waits outside SQS: each lane, its letters, for what and until when.

    With --lane or --rule, the letters that are due first are listed too. Nothing is
    received or moved.
    """
    chosen = some_pipelines(pipelines, pipeline)
    return Reply(list_waiting(session, chosen, lane=lane, rule=rule, limit=limit), _show)


@command(
    typer_app,
    "recall",
    example=[
        'dlq waiting recall orders --rule slow-imports --reason "20h was a slip for 2h"',
        "dlq waiting recall orders --lane due --tenant acme",
    ],
)
def recall(
    session: Session,
    argument: PipelineArgument = None,
    pipeline: OnePipeline = None,
    lane: LaneName = None,
    rule: RuleId = None,
    id_: Ids = None,
    tenant: Tenants = None,
    since: Since = None,
    until: Until = None,
    pattern: Pattern = None,
    jmespath: Where = None,
    reason: Reason = None,
    yes: Yes = False,
) -> Reply[Recalled]:
    """Call waiting letters back: they are due now, and the next run judges them anew.

    Say which by --lane, --rule, --id or another filter; a letter has to meet all of them.
    Nothing is sent by this: a letter whose rule or circuit still holds it waits on. The
    delay of a letter that goes counts as served. It may be broken off: letters that are
    due stay due, and a second call goes on.
    """
    chosen = replay_options.selection(
        session, ids=id_, tenants=tenant, since=since, until=until, pattern=pattern, where=jmespath
    )
    from deadletter.routing.selection import Selection

    is_all = chosen == Selection()
    if is_all and lane is None and rule is None:
        raise Problem("Say which letters: --lane, --rule, --id or another filter.", Cause.INPUT)
    request = RecallRequest(
        one_pipeline(argument, pipeline), lane, rule, None if is_all else chosen
    )
    letters = Recall(session, request, replay_options.progress)
    replay_options.end_progress()
    why = asking.reason(reason, "A recall")
    if not yes:
        asking.confirm(session, *describe(letters))
    done = letters.do(why, replay_options.progress)
    replay_options.end_progress()
    return Reply(done, _show_recalled)


def _show(answer: WaitingList) -> Iterator[Block]:
    yield line(
        Styled(f"Waiting letters of {answer.app}", "strong"),
        f" in account {answer.account}, {answer.region}",
    )
    for pipeline in answer.pipelines:
        yield Line()
        yield from _pipeline(pipeline, answer)


def _pipeline(pipeline: WaitingPipeline, answer: WaitingList) -> Iterator[Block]:
    total = sum(lane.letters for lane in pipeline.lanes)
    yield line(Styled(pipeline.name, "strong"), f": {count(total, 'letter')} waiting")
    if pipeline.lanes:
        yield TextTable(
            ("LANE", ">LETTERS", "FIRST DUE", "WAITS FOR"),
            [
                (
                    lane.lane,
                    f"{lane.letters:,}",
                    "" if lane.first_due is None else clock(lane.first_due, answer.at),
                    lane.waits_for,
                )
                for lane in pipeline.lanes
            ],
        )
    for letter in pipeline.letters:
        since = (
            ""
            if letter.since is None
            else f", for {duration((answer.at - letter.since).total_seconds())}"
        )
        due = "" if letter.due is None else f", due {clock(letter.due, answer.at)}"
        yield line(
            Styled(letter.message_id, "strong"),
            f"  {letter.lane}{since}{due}: {letter.because}",
            indent=2,
        )


def _show_recalled(answer: Recalled) -> Iterator[Block]:
    yield line(
        Styled(f"{count(answer.letters, 'letter')} of {answer.pipeline} due now", "strong"),
        f" in account {answer.account}, {answer.region}",
    )
    if answer.gone:
        yield line(f"{count(answer.gone, 'letter')} had left meanwhile.")
    yield line(f"The next run judges them; to start one now: dlq redrive now {answer.pipeline}")
