"""The four decisions as JSON, and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from deadletter.contract import Reason
from deadletter.routing.decision import Decision, NotADecision, Park, Redrive, decode, encode
from tests.each_row import each_row
from tests.samples import decisions, json_values


@given(decisions)
def test_a_decision_comes_back_as_it_was(decision: Decision) -> None:
    assert decode(json.loads(json.dumps(encode(decision)))) == decision


REDRIVE = {"action": "REDRIVE", "delay": 0, "because": "x"}
HOLD = {"action": "HOLD", "lane": "due", "due": 1.5, "because": "x"}
PARK = {"action": "PARK", "reason": "POISON", "because": "x"}
DIVERT = {"action": "DIVERT", "queue": "slow", "because": "x"}


@each_row(
    "data",
    [
        None,
        [],
        "REDRIVE",
        {},
        {**REDRIVE, "action": "redrive"},
        {**REDRIVE, "action": "DELETE"},
        {**REDRIVE, "delay": -1},
        {**REDRIVE, "delay": 901},
        {**REDRIVE, "delay": 1.5},
        {**REDRIVE, "delay": True},
        {**REDRIVE, "delay": "1"},
        {**REDRIVE, "because": None},
        {**REDRIVE, "rule": 7},
        {"action": "REDRIVE", "because": "x"},
        {**HOLD, "lane": None},
        {**HOLD, "lane": ""},
        {**HOLD, "due": None},
        {**HOLD, "due": "tomorrow"},
        {**HOLD, "due": True},
        {**HOLD, "due": -1},
        {**HOLD, "due": float("nan")},
        {**HOLD, "due": float("inf")},
        {**HOLD, "due": 10**400},
        {**HOLD, "shard": -1},
        {**HOLD, "shard": True},
        {**HOLD, "shard": "3"},
        {**DIVERT, "queue": 5},
        {**PARK, "reason": "poison"},
        {**PARK, "reason": "BORED"},
        {**PARK, "reason": None},
        {**PARK, "category": 7},
    ],
)
def test_data_that_is_no_decision_is_refused(data: Any) -> None:
    with pytest.raises(NotADecision):
        decode(data)


def test_a_decision_without_a_category_is_written_as_before() -> None:
    assert encode(Park(Reason.POISON, "x")) == PARK


@given(json_values)
def test_reading_a_decision_raises_nothing_but_not_a_decision(data: Any) -> None:
    whole = {**REDRIVE, **HOLD, **PARK, **DIVERT}
    for action in ("REDRIVE", "HOLD", "PARK", "DIVERT", data):
        for key in whole:
            try:
                decode({**whole, key: data, "action": action})
            except NotADecision:
                continue


@pytest.mark.parametrize("delay", [0, 1, 900])
def test_every_delay_that_sqs_allows_is_a_decision(delay: int) -> None:
    assert decode({**REDRIVE, "delay": delay}) == Redrive(delay, "x")


def test_a_letter_may_be_due_in_any_year_that_comes_and_in_none_that_never_does() -> None:
    far = {**HOLD, "due": 1e12 - 0.5}
    assert encode(decode(far)) == far
    for never in (1e12, 1e13, float("inf"), float("nan")):
        with pytest.raises(NotADecision):
            decode({**HOLD, "due": never})
