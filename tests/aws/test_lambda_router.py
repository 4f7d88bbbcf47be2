"""A router behind its function answers as the router itself does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deadletter.aws.functions import LambdaRouter
from deadletter.contract import Category, Reason
from deadletter.failure.ledger import LedgerRow
from deadletter.routing.decision import Hold, Redrive
from deadletter.routing.direct_router import DirectRouter
from deadletter.routing.router import Question, Router, RouterUnavailable
from deadletter.routing.selection import Selection
from deadletter.routing.wire import answer_event
from deadletter.testing.clock import Clock
from deadletter.testing.fakes import MemoryLambda
from tests.routing.test_replayed_letters import TAKEN, Runs, returned, router
from tests.routing.test_router import Books
from tests.samples import failed, letter

BOOKS = Books(rows_={"m2": LedgerRow((failed(category=Category.SCHEMA),), recovered_at=5.0)})
QUESTIONS = [
    Question(letter('{"tenantId": "Žofie"}')),
    Question(letter(message_id="m2")),
    Question(returned()),
    Question(letter(message_id="c1"), replay=True, stamp=TAKEN),
]
SELECTION = Selection(where="tenantId == 'a'", include=(Reason.POISON,), since=1.0)


def behind_its_function(direct: DirectRouter) -> Router:
    functions: Any = MemoryLambda(Clock(), lambda: "request")
    functions.register("route", lambda event, _: answer_event(direct, event))
    return LambdaRouter(functions, "route")


@pytest.mark.parametrize("release", [False, True])
def test_picks_are_the_same_through_the_function(release: bool) -> None:
    direct = router(BOOKS, Runs(frozenset({"c2"})))
    picks = direct.select(QUESTIONS, SELECTION, release=release)
    through = behind_its_function(direct).select(QUESTIONS, SELECTION, release=release)
    assert tuple(through) == picks
    assert [pick.message_id for pick in picks] == ["m1", "m2", "c2", "c1"]


def test_verdicts_on_letters_of_runs_are_the_same_through_the_function() -> None:
    direct = router(BOOKS, Runs(frozenset({"c2"})))
    verdicts = direct.decide(QUESTIONS).verdicts
    assert behind_its_function(direct).decide(QUESTIONS).verdicts == verdicts
    assert isinstance(verdicts[2].decision, Hold)
    assert isinstance(verdicts[3].decision, Redrive)


@pytest.mark.parametrize(
    "selection", [Selection(where="tenantId ="), Selection(pattern={"body": {"a": 5}})]
)
def test_a_selection_that_the_function_refuses_is_no_answer(selection: Selection) -> None:
    through = behind_its_function(router(Books()))
    with pytest.raises(RouterUnavailable, match="BadSettings"):
        through.select(QUESTIONS[:1], selection)


def test_runs_that_give_no_answer_are_no_answer_for_a_selection_either() -> None:
    through = behind_its_function(router(Books(), replace(Runs(), down=True)))
    with pytest.raises(RouterUnavailable, match="the runs gave no answer"):
        through.select([Question(returned())], Selection())
