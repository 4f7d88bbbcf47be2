"""A command that is a fork of the warm process is the command that a shell starts."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import IO

import pytest

from sandbox import command_line
from sandbox.command_line import ENVIRONMENT, CommandLine
from sandbox.server import ROOT

# Nothing listens there, so a command that asks AWS says so at once.
NOWHERE = {
    "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
    "AWS_ACCESS_KEY_ID": "none",
    "AWS_SECRET_ACCESS_KEY": "none",
    "AWS_REGION": "eu-west-1",
    "AWS_MAX_ATTEMPTS": "1",
}


@pytest.fixture(scope="module")
def line() -> Iterator[CommandLine]:
    with CommandLine() as line:
        yield line


def from_a_shell(
    words: Sequence[str], environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "console", *words],
        cwd=ROOT,
        env={**ENVIRONMENT, **environment},
        text=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (["run", "hold", "--help"], {"COLUMNS": "60"}),
        (["run", "hold"], {}),
        (["--json", "status"], NOWHERE),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_ends_and_writes_as_from_a_shell(
    line: CommandLine, words: list[str], environment: dict[str, str]
) -> None:
    typed, expected = line.type(words, environment), from_a_shell(words, environment)
    assert (typed.returncode, typed.stdout, typed.stderr) == (
        expected.returncode,
        expected.stdout,
        expected.stderr,
    )


def test_a_command_leaves_nothing_to_the_next(line: CommandLine) -> None:
    wide = line.type(["run", "hold", "--help"], {"COLUMNS": "100"})
    narrow = line.type(["run", "hold", "--help"], {"COLUMNS": "60"})
    assert narrow.stdout != wide.stdout
    assert line.type(["run", "hold", "--help"], {"COLUMNS": "100"}).stdout == wide.stdout
    assert line.type(["--json", "status"], NOWHERE).returncode != 0
    assert "region" in line.type(["--json", "status"], {}).stderr


def test_ctrl_c_at_the_sandboxs_terminal_ends_it_without_a_word(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The terminal interrupts it too, for it is of the same group of processes."""
    with CommandLine() as line:
        line.type(["--version"], {})
        assert line._process is not None
        line._process.send_signal(signal.SIGINT)
        line._process.wait()
    assert capfd.readouterr().err == ""


def test_a_fork_that_crashes_is_typed_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(_words: object, _environment: object, output: IO[bytes], _errors: object) -> int:
        output.write(b"half of it")
        return -signal.SIGSEGV

    monkeypatch.setattr(command_line, "_fork", crash)
    asked = json.dumps([["--version"], command_line.ENVIRONMENT])
    answers = io.StringIO()
    command_line.serve(io.StringIO(f"{asked}\n"), answers)
    answer = json.loads(answers.getvalue())
    assert (answer["returncode"], answer["stderr"]) == (0, "")
    assert answer["stdout"].startswith("dlq ")
