"""The last lines of the demo: two commands that work as they are typed."""

from __future__ import annotations

import os
import shutil
import subprocess

from sandbox.demo.run import NEXT, TRIES
from sandbox.server import ROOT
from sandbox.stay import ENV_FILE
from tests.console.command_lines import parse

COMMANDS = [line.partition("#")[0].strip() for line in NEXT]


def run_by(make: str) -> list[str]:
    """What a command of `make` runs."""
    tool, *words = make.split()
    found = shutil.which(tool)
    assert found
    # Not what the `make` that runs this test hands on.
    environment = {key: text for key, text in os.environ.items() if not key.startswith("MAKE")}
    dry = subprocess.run(
        [found, "-n", "-o", "build/.ready-demo", *words],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return dry.split()


def test_the_first_is_a_target_of_make_that_takes_what_is_given() -> None:
    assert run_by(COMMANDS[0])[1:] == ["-m", "sandbox", "up", "--with-messages", "60"]


def test_the_second_points_a_shell_at_it_and_asks() -> None:
    source, _, command = COMMANDS[1].partition(" && ")
    assert source == f". {ENV_FILE.relative_to(ROOT)}"
    parse(command)


def test_what_it_names_while_the_sandbox_stays_are_commands_too() -> None:
    for line in TRIES:
        parse(line.partition("#")[0].strip())
