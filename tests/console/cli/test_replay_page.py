"""docs/replay.md is a runbook of commands: each of them is one that `dlq` takes."""

from __future__ import annotations

import re
from pathlib import Path

from console.operations.replay_report import MEANING
from tests.console.command_lines import parse
from tests.each_row import each_row
from tools.commands_page import commands

PAGE = (Path(__file__).parents[3] / "docs" / "replay.md").read_text()

BLOCKS = "\n".join(re.findall(r"^```(?:text)?\n(.*?)^```", PAGE, re.M | re.S))

COMMANDS = [
    line.removeprefix("$ ") for line in BLOCKS.splitlines() if re.match(r"(\$ )?dlq ", line)
]


@each_row("command", COMMANDS)
def test_a_command_of_the_runbook_is_one_that_dlq_takes(command: str) -> None:
    parse(command)


def test_the_runbook_names_each_command_of_runs() -> None:
    named = [path for path in commands() if path.startswith("dlq run ")]
    named += ["dlq retry", "dlq discard", "dlq restore"]
    assert [path for path in named if path not in PAGE] == []


def test_the_runbook_explains_each_outcome_at_the_end_of_a_run() -> None:
    rows = "\n".join(line for line in PAGE.splitlines() if line.startswith("| "))
    unknown = {"SENT", "OPEN", "RETURNED", "UNACCOUNTED", "MISSING", "DISCARDED", "RESTORED"}
    assert [name for name in MEANING if name not in unknown and name not in rows] == []
