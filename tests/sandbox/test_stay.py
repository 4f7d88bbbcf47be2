"""The sandbox stays for people, not for machines, and a shell that reads its file talks to it."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import shlex
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sandbox.__main__ import LINE_EVERY, passing, pipelines_of, tries
from sandbox.progress import until
from sandbox.server import ROOT
from sandbox.stay import page_beside, script, sourced, stay, wanted
from tests.console.command_lines import parse
from tests.each_row import each_row
from tests.sandbox.test_demo_next import run_by

VARIABLES = {"AWS_ENDPOINT_URL": "https://127.0.0.1:1", "AWS_CA_BUNDLE": "it's here/ca.pem"}
SANDBOX: Any = SimpleNamespace(environment=VARIABLES)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@each_row(
    ("stdin", "stdout", "environment", "stays"),
    [
        (Terminal(), Terminal(), {}, True),
        (Terminal(), Terminal(), {"KEEP": "1"}, True),
        (Terminal(), Terminal(), {"KEEP": "0"}, False),
        (Terminal(), Terminal(), {"CI": "true"}, False),
        (io.StringIO(), Terminal(), {}, False),
        (Terminal(), io.StringIO(), {}, False),
    ],
)
def test_it_stays_if_somebody_is_there(
    stdin: Any, stdout: Any, environment: Mapping[str, str], stays: bool
) -> None:
    assert wanted(stdin, stdout, environment) is stays


def test_a_shell_that_reads_the_file_sees_the_sandbox_and_no_settings_of_its_own(
    tmp_path: Path,
) -> None:
    file = tmp_path / "sandbox.env"
    file.write_text(script(VARIABLES))
    own = {
        "PATH": "/usr/bin:/bin",
        "AWS_PROFILE": "production",
        "AWS_SESSION_TOKEN": "secret",
        "AWS_ENDPOINT_URL_SQS": "https://sqs.example",
        "KEPT": "AWS_PROFILE=x",
    }
    seen = subprocess.run(
        ["/bin/sh", "-eu", "-c", f". '{file}'; env"],
        env=own,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    values = dict(line.split("=", 1) for line in seen)
    assert {name: values[name] for name in VARIABLES} == VARIABLES
    assert values["AWS_CONFIG_FILE"] == "/dev/null"
    assert values["KEPT"] == "AWS_PROFILE=x"
    assert not {"AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_SQS"} & values.keys()
    assert values["PATH"].endswith(":/usr/bin:/bin")


def test_the_file_is_its_owners_alone_and_goes_with_the_sandbox(tmp_path: Path) -> None:
    file = tmp_path / "build" / "sandbox.env"
    with sourced(SANDBOX, file):
        assert file.stat().st_mode & 0o777 == 0o600
    assert not file.exists()


def test_a_file_that_a_killed_sandbox_left_is_written_anew(tmp_path: Path) -> None:
    file = tmp_path / "sandbox.env"
    file.write_text("old")
    file.chmod(0o644)
    with sourced(SANDBOX, file):
        assert "old" not in file.read_text()
        assert file.stat().st_mode & 0o777 == 0o600


def test_the_file_of_a_sandbox_that_came_up_later_stays(tmp_path: Path) -> None:
    file = tmp_path / "sandbox.env"
    later: Any = SimpleNamespace(environment={"AWS_ENDPOINT_URL": "https://127.0.0.1:2"})
    with sourced(later, file):
        text = file.read_text()
        file.unlink()
        with sourced(SANDBOX, file):
            file.write_text(text)
        assert file.read_text() == text
    assert not file.exists()


IN_A_TERMINAL = """
import os, sys
from pathlib import Path
from types import SimpleNamespace
from sandbox.server import ROOT
from sandbox.stay import stay, wanted
assert wanted(sys.stdin, sys.stdout, {})
sandbox = SimpleNamespace(environment={"AWS_ENDPOINT_URL": "https://127.0.0.1:1"})
stay(sandbox, ["dlq status"], file=Path(sys.argv[1]), show=lambda text: print(text, flush=True))
"""


def test_at_a_terminal_it_stays_until_ctrl_c_and_a_second_shell_gets_in(tmp_path: Path) -> None:
    file = tmp_path / "sandbox.env"
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", IN_A_TERMINAL, str(file)],
        cwd=ROOT,
        stdin=theirs,
        stdout=theirs,
        # The terminal that it is started from, so that Ctrl-C reaches it.
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as process:
        os.close(theirs)
        said = b""
        while b"dlq status" not in said:
            said += os.read(ours, 1_000)
        second = subprocess.run(
            ["/bin/sh", "-c", f". {file} && command -v python && echo $AWS_ENDPOINT_URL"],
            env={"PATH": "/usr/bin:/bin", "AWS_PROFILE": "production"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert second.stdout.splitlines() == [
            str(Path(sys.executable).parent / "python"),
            "https://127.0.0.1:1",
        ]
        assert process.poll() is None
        os.write(ours, b"\x03")
        assert process.wait() == 0
    os.close(ours)
    assert not file.exists()


def test_it_says_what_to_type_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    file, said = tmp_path / "sandbox.env", list[str]()

    def interrupted() -> None:
        assert file.exists()
        raise KeyboardInterrupt

    stay(SANDBOX, ["dlq status"], file=file, show=said.append, wait=interrupted)
    assert f". {file}" in said[0]
    assert "dlq status" in said[1]
    assert not file.exists()


# Says what it was given, and stays until it is interrupted.
PAGE = """#!{python}
import json, os, pathlib, signal, sys
said = pathlib.Path({said!r})
try:
    said.with_suffix(".new").write_text(json.dumps([sys.argv[1:], dict(os.environ)]))
    said.with_suffix(".new").rename(said)
    signal.pause()
except KeyboardInterrupt:
    said.with_suffix(".ended").touch()
"""


def test_the_page_opens_beside_the_sandbox_and_ends_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, page = tmp_path / "said", tmp_path / "page"
    page.write_text(PAGE.format(python=sys.executable, said=str(said)))
    page.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(page))
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("BROWSER", "theirs")
    with page_beside(SANDBOX):
        until(said.exists, "the page is up")
        assert not said.with_suffix(".ended").exists()
    assert said.with_suffix(".ended").exists()
    words, environment = json.loads(said.read_text())
    assert words == ["-m", "console", "ui", "--act"]
    parse(shlex.join(["dlq", *words[2:]]))
    assert environment["BROWSER"] == "theirs"
    assert environment.items() >= VARIABLES.items()
    assert environment["AWS_CONFIG_FILE"] == "/dev/null"
    assert "AWS_PROFILE" not in environment


@pytest.mark.parametrize("letters", [0, 4_000])
def test_the_commands_to_try_exist(letters: int) -> None:
    typed = [line.partition("#")[0].strip() for line in tries("orders", letters=letters)]
    assert len(typed) == 3
    for command in typed:
        if command.startswith("make "):
            assert run_by(command)[1:] == ["-m", "sandbox", "up", "--app", "my/app.py"]
        else:
            parse(command)


def test_what_goes_on_is_one_line_of_a_terminal() -> None:
    terminal = Terminal()
    with passing(terminal) as tell:
        tell("one\n")
        tell("two\n")
    assert "two" in terminal.getvalue()
    assert "\n" not in terminal.getvalue()


def test_what_goes_on_is_a_line_every_few_seconds_of_a_pipe() -> None:
    pipe, now = io.StringIO(), 100.0
    with passing(pipe, lambda: now) as tell:
        tell("at once")
        for text in ("first\n", "soon after", ""):
            now += LINE_EVERY / 2 if text == "soon after" else LINE_EVERY
            tell(text)
        now += LINE_EVERY
        tell("last")
    assert pipe.getvalue() == "first\nlast\n"


def test_pipelines_are_those_that_will_be_deployed() -> None:
    assert [each["name"] for each in pipelines_of({})] == ["orders"]
    assert pipelines_of({"pipelines": '[{"name": "a"}]'}) == [{"name": "a"}]
