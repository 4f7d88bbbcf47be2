"""The help pages, what docs/ says of commands, and the promise of a fast `--help`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from console.cli import main
from console.cli.commands import COMMANDS as TABLE
from console.cli.commands import GROUPS, module_of
from console.cli.exit import Exit
from tests.console.command_lines import parse
from tests.each_row import each_row
from tests.rules import cookbook
from tools import commands_page

ROOT = Path(__file__).parents[3]

COMMANDS = commands_page.commands()


def test_a_help_page_does_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [*commands_page.help_pages()]
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert [*commands_page.help_pages()] == before


def test_a_command_says_what_it_does_and_shows_an_example() -> None:
    assert [path for path, command in COMMANDS.items() if not command.help] == []
    assert [path for path, command in COMMANDS.items() if f"  {path}" not in command.epilog] == []


def test_every_option_says_what_it_is_for() -> None:
    options = [(path, option) for path, command in COMMANDS.items() for option in command.params]
    assert [(path, option.name) for path, option in options if not option.help] == []


@each_row("path", ["dlq list", "dlq show"])
def test_bodies_are_shown_by_the_same_option_everywhere(path: str) -> None:
    options = {name: option for option in COMMANDS[path].params for name in option.opts}
    assert options["--body"].is_flag


def _examples() -> list[str]:
    root = typer.main.get_command(main.app)
    pages = [root.epilog or "", *(command.epilog for command in COMMANDS.values())]
    lines = [line.strip() for page in pages for line in page.splitlines()]
    return [line for line in lines if line.startswith("dlq ")]


def test_an_example_is_a_command_line_that_dlq_takes() -> None:
    for example in [*_examples(), *cookbook.commands()]:
        parse(example)


def test_the_help_describes_each_command_as_the_command_itself_does() -> None:
    root: Any = typer.main.get_command(main.app)
    for words, command in TABLE.items():
        entry = root
        for word in words.split():
            entry = entry.get_command(None, word)
        assert entry.help.splitlines()[0] == command.says


def test_the_help_lists_every_exit_status(dlq: Any) -> None:
    page = dlq("--help").stdout
    for status in Exit:
        assert f"\n    {int(status):>3}  " in page


# Its query is malformed, which is said before anything is read.
TYPED = "list A-1 A-2 -p orders -f tenant=acme --query ["

# The commands of one module load the same.
OF_A_MODULE = {module_of(words): f"dlq {words}" for words in TABLE}

PAGES = ("dlq", *(f"dlq {name}" for name in GROUPS), *OF_A_MODULE.values())

EACH_IN_ITS_CHILD = """
import os, shlex, sys
from console.cli.main import app

for line in sys.argv[1:]:
    if os.fork() == 0:
        app(shlex.split(line), standalone_mode=False)
        print(line, *sys.modules, sep="\\t", flush=True)
        os._exit(0)
    assert os.wait()[1] == 0, line
"""


@pytest.fixture(scope="module")
def loaded() -> dict[str, set[str]]:
    """The modules that a fresh `dlq` has loaded after the help of each command."""
    helps = [f"{path} --help".removeprefix("dlq ") for path in PAGES]
    lines = [*helps, TYPED]
    done = subprocess.run(
        [sys.executable, "-c", EACH_IN_ITS_CHILD, *lines],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "lambdas")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("Usage: ") == len(helps)
    rows = [row.split("\t") for row in done.stdout.splitlines() if "\t" in row]
    return {f"dlq {line}".removesuffix(" --help"): set(modules) for line, *modules in rows}


@each_row("path", PAGES)
def test_help_loads_no_slow_module(path: str, loaded: dict[str, set[str]]) -> None:
    """What makes `--help` fast, measured without a stopwatch."""
    assert "typer" in loaded[path]
    assert not loaded[path] & {"boto3", "botocore", "rich", "pydantic", "jmespath", "asyncio"}


def test_what_is_typed_as_a_text_loads_no_pydantic(loaded: dict[str, set[str]]) -> None:
    assert loaded[f"dlq {TYPED}"] & {"console.cli.list", "pydantic"} == {"console.cli.list"}


VIEWS = {f"console.cli{module}" for module in OF_A_MODULE}


@each_row(
    ("line", "others"),
    [
        ("dlq", VIEWS),
        ("dlq rules", VIEWS),
        ("dlq run", VIEWS),
        ("dlq retry", {"console.cli.status", "console.cli.rules"}),
        # What lists messages and groups them is loaded when a rule is counted.
        ("dlq rules apply", {"console.cli.rule_trial", "console.operations.groups"}),
    ],
)
def test_only_the_command_that_is_asked_for_is_loaded(
    loaded: dict[str, set[str]], line: str, others: set[str]
) -> None:
    assert not loaded[line] & others


SCHEMA = commands_page.answers()

KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int,
         "number": int | float, "null": type(None), None: object}  # fmt: skip


def unlike(value: Any, schema: dict[str, Any], path: str = "") -> list[str]:
    """The keys of a value that are not as the schema says, that it lacks, or that are in it."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        return min((unlike(value, kind, path) for kind in schema["anyOf"]), key=len)
    if not isinstance(value, KINDS[schema.get("type")]):
        return [path]
    if isinstance(value, list):
        return [fault for each in value for fault in unlike(each, schema["items"], f"{path}[]")]
    if not isinstance(value, dict) or "type" not in schema:
        return []
    shapes, other = schema.get("properties", {}), schema.get("additionalProperties")
    faults = [f"{path}.{key}" for key in shapes.keys() ^ value.keys()] if other is None else []
    for key, member in value.items():
        faults += unlike(member, shapes.get(key, other) or {}, f"{path}.{key}")
    return faults


def test_a_real_answer_is_as_its_schema_says(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders", dedicated=["tenant-a"])
    cloud.park("orders", "POISON")
    cloud.waiting("orders", "due", 1)
    cloud.rule("r", action="HOLD", tenantId="a")
    for words in ("status", "list", "rules list", "circuit list", "audit"):
        answer = json.loads(dlq(*words.split(), "--json").stdout)
        assert answer.pop("schema") == 1
        assert unlike(answer, SCHEMA["properties"][words]) == []
        assert unlike({**answer, "app": 1}, SCHEMA["properties"][words]) == [".app"]
        assert unlike({**answer, "new": 1}, SCHEMA["properties"][words]) == [".new"]
