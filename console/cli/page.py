"""`dlq page`: a test page, before an alarm needs to reach a person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from ..operations import page as operation
from ..operations.page import PagerTest
from ..operations.problem import Cause, Problem
from ..operations.session import Session
from ..operations.words import count
from .asking import OptionalWhy
from .command import command, plain_typer
from .exit import Exit
from .output import Block, Reply, Styled, line

typer_app = plain_typer()

Test = Annotated[
    bool, typer.Option("--test", help="Publish a page that says it is a test; nothing else does.")
]


@command(
    typer_app,
    "page",
    example=[
        "dlq page --test",
        'dlq page --test --why "the rota has changed"',
        "dlq page --test --json --query subscriptions",
    ],
)
def page(session: Session, test: Test = False, why: OptionalWhy = None) -> Reply[PagerTest]:
    """Publish a test page: do alarms reach a person?

    It goes to the topic of the app's alarms, and says in its first words that it is a test.
    From there on it goes the way of every alarm; what comes before, dlq doctor checks. SNS
    does not say whether it arrived: look where pages arrive.

    This page comes from you, and alarms come from CloudWatch: under a key of yours whose policy
    does not name CloudWatch they reach no one, so the policy of the topic's key is read, too.

    Where nobody has subscribed, nothing is published. Then, and if alarms reach no one, the exit
    status is 1.
    """
    if not test:
        raise Problem("Only test pages are published: add --test.", Cause.INPUT)
    answer = operation.publish(session, why)
    fails = answer.reaches_nobody or answer.alarms_arrive is False
    return Reply(answer, _show, Exit.ATTENTION if fails else Exit.DONE)


def _show(answer: PagerTest) -> Iterator[Block]:
    where = f" in account {answer.account}, {answer.region}"
    name = Styled(answer.app, "strong")
    if answer.reaches_nobody:
        yield line(name, where, ": ", Styled("no test page was published.", "alarm"))
    else:
        to = (
            "an unknown number of subscriptions"
            if answer.subscriptions is None
            else count(answer.subscriptions, "subscription")
        )
        yield line(name, where, f": a test page is on its way to {to}.")
        yield line("Look where pages arrive: SNS does not say whether it did.", indent=2)
    if answer.alarms_arrive is False:
        yield line(Styled("No alarm gets as far as the topic.", "alarm"), indent=2)
    yield line(f"Topic: {answer.topic}", indent=2)
    for note in answer.notes:
        yield line(note, indent=2)
