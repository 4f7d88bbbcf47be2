"""What the runbook asks of a person, by clicks: three for each task at most."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.chromium import Tab
from tests.console.web.hand import Hand

MOST = 3


Task = Callable[[Hand, dict[str, str]], None]


def restore_a_message(hand: Hand, _: dict[str, str]) -> None:
    hand.search("thrown-away")
    hand.button("Restore")
    hand.agree("Restore 1 message")


def retry_a_cause(hand: Hand, _: dict[str, str]) -> None:
    hand.link("Causes")
    hand.button("Retry", within="tr:has-text('503')")
    hand.agree(r"Retry [1-9]\d* messages?")


def discard_a_cause(hand: Hand, _: dict[str, str]) -> None:
    hand.link("Causes")
    hand.button("Discard", within="tr:has-text('KeyError')")
    hand.agree(r"Discard [1-9]\d* messages?")


def stop_a_cause(hand: Hand, _: dict[str, str]) -> None:
    hand.link("Causes")
    hand.button("Stop", within="tr:has-text('KeyError')")
    hand.agree("Add rule")


def disable_a_rule(hand: Hand, _: dict[str, str]) -> None:
    hand.link("Runs")
    hand.button("Disable")
    hand.agree("Disable rule")


def open_a_circuit(hand: Hand, _: dict[str, str]) -> None:
    hand.link("Runs")
    hand.button("Open for 2h")
    hand.agree("Open circuit")


def close_a_circuit(hand: Hand, _: dict[str, str]) -> None:
    hand.link("Runs")
    hand.button("Close for 10m")
    hand.agree("Close circuit")


def hold_a_run(hand: Hand, _: dict[str, str]) -> None:
    hand.link("Runs")
    hand.button("Hold")
    hand.agree("Hold run")


def abort_a_run(hand: Hand, _: dict[str, str]) -> None:
    hand.link("Runs")
    hand.button("Abort")
    hand.agree("Abort run")


def retry_the_chosen(hand: Hand, _: dict[str, str]) -> None:
    hand.search("status=503")
    hand.tick("All on this page")
    hand.button("Retry the chosen")
    hand.agree(r"Retry [1-9]\d* messages?")


def retry_a_message(hand: Hand, ids: dict[str, str]) -> None:
    hand.search(ids["down"])
    hand.button("Retry")
    hand.agree(r"Retry [1-9]\d* messages?")


def discard_a_message(hand: Hand, ids: dict[str, str]) -> None:
    hand.search(ids["bug"])
    hand.button("Discard")
    hand.agree(r"Discard [1-9]\d* messages?")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("task", "command"),
    [
        (restore_a_message, "restore"),
        (retry_a_cause, "retry"),
        (discard_a_cause, "discard"),
        (stop_a_cause, "rules add"),
        (disable_a_rule, "rules disable"),
        (open_a_circuit, "circuit open"),
        (close_a_circuit, "circuit close"),
        (hold_a_run, "run hold"),
        (abort_a_run, "run abort"),
        (retry_the_chosen, "retry"),
        (retry_a_message, "retry"),
        (discard_a_message, "discard"),
    ],
)
def test_a_task_of_the_runbook_is_three_clicks_and_a_row_of_the_audit(
    app: dict[str, str], tab: Tab, dlq: Any, task: Task, command: str
) -> None:
    hand = Hand(tab)
    tab.page.set_default_timeout(10_000)
    task(hand, app)
    said = tab.text
    assert "\\n" not in said
    assert hand.clicks <= MOST, f"{command}: {hand.clicks} clicks"
    assert tab.errors == [], said
    [change] = json.loads(dlq("audit --json").stdout)["changes"]
    assert (change["command"], change["via"], change["why"]) == (command, "dlq ui", hand.why), said
