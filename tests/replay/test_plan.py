"""The plan of a replay run: its text, its id, and what its words mean."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from deadletter.contract import KeyPolicy
from deadletter.replay.plan import ReplayPlan, belongs_to, plan_from_text
from deadletter.routing.selection import Selection
from deadletter.settings.json_fields import BadSettings
from tests.each_row import each_row

PLAN = ReplayPlan(pipeline="orders")


@each_row(
    "plan",
    [
        PLAN,
        replace(
            PLAN,
            selection=Selection(ids=("a", "b")),
            canary=(),
            ramp=(0.5, 1.0),
            on_failure=KeyPolicy.STOP,
            on_unknown=KeyPolicy.STOP,
            accept="again",
            counted=7,
            expires=1e9,
            who="ada",
            why="fixed",
        ),
        replace(PLAN, destination="discard", forget=True),
    ],
)
def test_a_plan_is_read_as_it_was_written_and_keeps_its_id(plan: ReplayPlan) -> None:
    again = plan_from_text(plan.to_text())
    assert (again, again.run_id) == (plan, plan.run_id)
    assert type(again.on_failure) is type(again.on_unknown) is KeyPolicy
    assert len(plan.run_id) == 16
    assert int(plan.run_id, 16) >= 0


def test_another_plan_has_another_id() -> None:
    plans = [PLAN, replace(PLAN, why="b"), replace(PLAN, forget=True), replace(PLAN, rate=6.0)]
    assert len({plan.run_id for plan in plans}) == 4


def test_the_text_of_a_plan_has_its_words_in_order_and_no_space() -> None:
    text = PLAN.to_text()
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    assert "forget" not in text


@each_row(
    "text",
    [
        "",
        "[]",
        "7",
        '{"pipeline":"orders","colour":"red"}',
        '{"pipeline":"orders","on_failure":"perhaps"}',
        '{"pipeline":"orders","selection":7}',
    ],
)
def test_a_text_that_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(BadSettings):
        plan_from_text(text)


def test_a_plan_without_other_words_goes_slowly_in_no_order_and_keeps_what_it_discards() -> None:
    plan = asdict(PLAN)
    assert {name: value for name, value in plan.items() if value} == {
        "rate": 5.0,
        "error_rate": 0.4,
        "minimum": 10,
        "attempts": 3,
        "on_failure": "go",
        "on_unknown": "go",
        "outcome_timeout": 1_800,
        "selection": asdict(Selection()),
        "pipeline": "orders",
        "source": "dlq",
        "destination": "main",
        "burst": 10,
        "canary": (1, 2, 5, 20),
        "ramp": (0.25, 0.5, 1.0),
        "ramp_seconds": 60.0,
        "retry_after": 30.0,
        "workers": 1,
        "keep_export": True,
    }


# The properties that are not those of a plan that takes letters of the DLQ to the main queue.
@each_row(
    ("fields", "means"),
    [
        ({}, {}),
        ({"forget": True}, {}),
        ({"destination": "deliver"}, {}),
        (
            {"destination": "discard"},
            {"discards": True, "is_for_discarders": True, "keeps_originals": False},
        ),
        (
            {"destination": "discard", "forget": True},
            {
                "discards": True,
                "is_for_discarders": True,
                "keeps_originals": False,
                "forgets": True,
            },
        ),
        (
            {"source": "discarded", "destination": "restore"},
            {"restores": True, "is_for_discarders": True, "keeps_originals": False},
        ),
        (
            {"source": "discarded:r7", "destination": "restore"},
            {
                "restores": True,
                "is_for_discarders": True,
                "keeps_originals": False,
                "restored_run": "r7",
            },
        ),
        (
            {"source": "originals:r7"},
            {"keeps_originals": False, "repeated_run": "r7", "restored_run": "r7"},
        ),
        ({"source": "slow"}, {}),
        (
            {"source": "parking:default"},
            {"lane_beside": "parked", "is_release": True, "restored_run": "default"},
        ),
        (
            {"source": "lane:parked"},
            {"lane": "parked", "is_release": True, "restored_run": "parked"},
        ),
        ({"source": "lane:due"}, {"lane": "due", "restored_run": "due"}),
    ],
)
def test_a_plan_means_what_its_source_and_destination_say(
    fields: dict[str, Any], means: dict[str, Any]
) -> None:
    usual = {
        "discards": False,
        "restores": False,
        "restored_run": None,
        "is_for_discarders": False,
        "keeps_originals": True,
        "repeated_run": None,
        "forgets": False,
        "lane": None,
        "lane_beside": None,
        "is_release": False,
    }
    plan = replace(PLAN, **fields)
    assert {name: getattr(plan, name) for name in usual} == {**usual, **means}


@each_row(
    ("source", "home", "belongs"),
    [
        ("parking:slow", "parking:slow", True),
        ("parking:slow", "parking:default", False),
        ("parking:slow", "dlq", False),
        ("parking:default", "parking:default", True),
        ("parking:default", "parking:slow", False),
        ("parking:default", "parking:gone", True),
        ("parking:default", "dlq", True),
    ],
)
def test_a_parked_letter_belongs_to_its_queue_or_to_the_default_one(
    source: str, home: str, belongs: bool
) -> None:
    assert belongs_to(source, home, ["default", "slow"]) is belongs
    assert belongs_to(source, home, ["slow"]) is belongs
