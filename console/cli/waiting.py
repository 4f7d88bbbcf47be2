"""`dlq waiting`: the letters that wait outside SQS, and calling them back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from ..operations.problem import Cause, Problem
from ..operations.session import Session
from ..operations.waiting import (
    Recall,
    Recalled,
    RecallRequest,
    describe,
)
from ..operations.words import count
from . import asking, replay_options
from .asking import Reason, Yes
from .command import (
    OnePipeline,
    PipelineArgument,
    command,
    group,
    one_pipeline,
)
from .output import Block, Reply, Styled, line
from .replay_options import Ids, Pattern, Since, Tenants, Until, Where

typer_app = group("Letters that wait outside SQS: what waits where, and for what.")

LaneName = Annotated[
    str | None, typer.Option("--lane", metavar="LANE", help="Only letters of this lane.")
]
RuleId = Annotated[
    str | None,
    typer.Option("--rule", metavar="ID", help="Only letters that this rule holds or delays."),
]


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


def _show_recalled(answer: Recalled) -> Iterator[Block]:
    yield line(
        Styled(f"{count(answer.letters, 'letter')} of {answer.pipeline} due now", "strong"),
        f" in account {answer.account}, {answer.region}",
    )
    if answer.gone:
        yield line(f"{count(answer.gone, 'letter')} had left meanwhile.")
    yield line(f"The next run judges them; to start one now: dlq redrive now {answer.pipeline}")
