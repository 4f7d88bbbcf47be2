"""What a message tells a person to type is a command of `dlq`, with options that it has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from console.cli import main
from console.operations.replay_report import MEANING
from tests.console.command_lines import parse
from tests.each_row import each_row
from tools.commands_page import commands

ROOT = Path(__file__).parents[3]

STEP = re.compile(r"(?<!-)\bdlq ([a-z]+)(?: ([a-z]+))?((?: (?:--[a-z-]+|[A-Z0-9_…<>]+))*)")
"""A command in a sentence, up to its next lower-case word; values are filled in as "VALUE"."""


def texts(path: Path) -> Iterator[str]:
    """The texts of a module; what is filled into them is VALUE."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "VALUE"
                for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


OF_DLQ = {
    *("asks", "changes", "does", "expects", "itself", "looks", "needs", "of", "refuses"),
    "shows",
}
"""Words after "dlq" in a sentence about it."""


def steps() -> list[tuple[str, str, str]]:
    found = {
        match.groups(default="")
        for folder in ("console", "infra")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for text in texts(path)
        for match in STEP.finditer(text)
        if match[1] not in OF_DLQ
    }
    return sorted((str(group), str(name), str(rest)) for group, name, rest in found)


@cache
def entry(group: str) -> Any:
    root: Any = typer.main.get_command(main.app)
    return root.get_command(root.make_context("dlq", ["status"]), group)


STEPS = steps()


TYPED_HERE = {"WHY", "copy", "here", "key", "queues", "typed", "word", "self._region"}
"""Variables of commands that hold what is quoted already, or a word of ours."""


def unquoted(path: Path) -> Iterator[str]:
    """The values that stand in a command of a module as they are."""
    for node in ast.walk(ast.parse(path.read_text())):
        text = ""
        for part in node.values if isinstance(node, ast.JoinedStr) else ():
            if isinstance(part, ast.Constant):
                text += str(part.value)
                continue
            value = ast.unparse(part.value) if isinstance(part, ast.FormattedValue) else ""
            if re.search(r"(^|\n)dlq [a-z][^\n(]*$", text) and not value.startswith("quote("):
                yield value
            text += "VALUE"


def test_each_value_in_a_command_is_quoted() -> None:
    found = {
        (path.name, value)
        for folder in ("console", "lambdas/deadletter/signals")
        for path in (ROOT / folder).rglob("*.py")
        for value in unquoted(path)
    }
    assert {each for each in found if each[1] not in TYPED_HERE} == set()


def unknown(group: str, name: str, rest: str) -> list[str]:
    """The words of a command line that `dlq` does not know."""
    command = entry(group)
    if command is None:
        return [group]
    if hasattr(command, "get_command") and name:
        command = command.get_command(command.make_context(group, [name]), name)
        if command is None:
            return [name]
    known = {option for parameter in command.params for option in parameter.opts}
    return [word for word in rest.split() if word.startswith("--") and word not in known]


def test_a_command_in_a_message_exists_with_its_options() -> None:
    assert {step: words for step in STEPS if (words := unknown(*step))} == {}


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (("sing", "", ""), ["sing"]),
        (("run", "sing", ""), ["sing"]),
        (("run", "hold", "RUN --loud"), ["--loud"]),
    ],
)
def test_a_command_that_does_not_exist_is_found(
    step: tuple[str, str, str], words: list[str]
) -> None:
    assert unknown(*step) == words


def test_the_messages_name_most_commands_of_runs() -> None:
    assert len({name for group, name, _ in STEPS if group == "run"}) > 4


REPLAY = (Path(__file__).parents[3] / "docs" / "replay.md").read_text()

BLOCKS = "\n".join(re.findall(r"^```(?:text)?\n(.*?)^```", REPLAY, re.M | re.S))

TYPED = [line.removeprefix("$ ") for line in BLOCKS.splitlines() if re.match(r"(\$ )?dlq ", line)]


@each_row("command", TYPED)
def test_a_command_of_the_runbook_is_one_that_dlq_takes(command: str) -> None:
    parse(command)


def test_the_runbook_names_each_command_of_runs() -> None:
    named = [path for path in commands() if path.startswith("dlq run ")]
    named += ["dlq retry", "dlq discard", "dlq restore"]
    assert [path for path in named if path not in REPLAY] == []


def test_the_runbook_explains_each_outcome_at_the_end_of_a_run() -> None:
    rows = "\n".join(line for line in REPLAY.splitlines() if line.startswith("| "))
    unknown = {"SENT", "OPEN", "RETURNED", "UNACCOUNTED", "MISSING", "DISCARDED", "RESTORED"}
    assert [name for name in MEANING if name not in unknown and name not in rows] == []
