"""What the runbook asks of a person, by clicks: three for each task at most."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.chromium import Tab

MOST = 3


@dataclass
class Hand:
    """A person's hand at the page: it counts its clicks. Typing is none."""

    tab: Tab
    clicks: int = 0
    why: str = ""
    """The reason that it was asked for."""

    def link(self, name: str) -> None:
        self.clicks += 1
        self.tab.page.get_by_role("link", name=name, exact=True).first.click()

    def button(self, name: str, *, within: str = "main") -> None:
        self.clicks += 1
        place = self.tab.page.locator(within)
        place.get_by_role("button", name=name, exact=True).first.click()

    def tick(self, name: str) -> None:
        self.clicks += 1
        self.tab.page.get_by_label(name).first.check()

    def search(self, text: str) -> None:
        self.tab.page.get_by_role("search").get_by_role("textbox").fill(text)
        self.tab.page.keyboard.press("Enter")

    def agree(self, button: str) -> None:
        """The reason if it is asked for, and the button that says how much."""
        self.tab.page.locator(".fields").wait_for()
        if (reason := self.tab.page.get_by_label("Reason")).count():
            self.why = "INC-7"
            reason.fill(self.why)
        said = self.tab.page.locator(".fields button").inner_text()
        assert re.fullmatch(button, said), f"{said!r} of:\n{self.tab.text}"
        self.button(said)
        self.tab.page.wait_for_load_state()


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
    [change] = json.loads(dlq("audit", "--json").stdout)["changes"]
    assert (change["command"], change["via"], change["why"]) == (command, "dlq ui", hand.why), said
