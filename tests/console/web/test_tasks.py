"""What the runbook asks of a person, by clicks: three for each task at most."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.chromium import Tab
from tests.console.web.hand import Hand

MOST = 3


MESSAGES = r"[1-9]\d* messages?"
DOWN, BUG = "tr:has-text('503')", "tr:has-text('KeyError')"

Step = tuple[str, ...]

# What a hand does, the button that it agrees to, and the command that is recorded. The first is
# what is searched or where it goes; a button of a table is that of a row.
TASKS: list[tuple[list[Step], str, str]] = [
    ([("search", "thrown-away"), ("button", "Restore")], "Restore 1 message", "restore"),
    ([("link", "Causes"), ("button", "Retry", DOWN)], f"Retry {MESSAGES}", "retry"),
    ([("link", "Causes"), ("button", "Discard", BUG)], f"Discard {MESSAGES}", "discard"),
    ([("link", "Causes"), ("button", "Stop", BUG)], "Add rule", "rules add"),
    ([("link", "Runs"), ("button", "Disable")], "Disable rule", "rules disable"),
    ([("link", "Runs"), ("button", "Open for 2h")], "Open circuit", "circuit open"),
    ([("link", "Runs"), ("button", "Close for 10m")], "Close circuit", "circuit close"),
    ([("link", "Runs"), ("button", "Hold")], "Hold run", "run hold"),
    ([("link", "Runs"), ("button", "Abort")], "Abort run", "run abort"),
    (
        [("search", "status=503"), ("tick", "All on this page"), ("button", "Retry the chosen")],
        f"Retry {MESSAGES}", "retry",
    ),
    ([("search", "{down}"), ("button", "Retry")], f"Retry {MESSAGES}", "retry"),
    ([("search", "{bug}"), ("button", "Discard")], f"Discard {MESSAGES}", "discard"),
]  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize(("steps", "agrees", "command"), TASKS)
def test_a_task_of_the_runbook_is_three_clicks_and_a_row_of_the_audit(
    app: dict[str, str], tab: Tab, dlq: Any, steps: list[Step], agrees: str, command: str
) -> None:
    hand = Hand(tab)
    tab.page.set_default_timeout(10_000)
    for does, name, *within in steps:
        getattr(hand, does)(name.format(**app), *within)
    hand.agree(agrees)
    said = tab.text
    assert "\\n" not in said
    assert hand.clicks <= MOST, f"{command}: {hand.clicks} clicks"
    assert tab.errors == [], said
    [change] = json.loads(dlq("audit --json").stdout)["changes"]
    assert (change["command"], change["via"], change["why"]) == (command, "dlq ui", hand.why), said
