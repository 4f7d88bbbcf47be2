"""The sandbox stays for people, not for machines, and a shell that reads its file talks to it."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sandbox.__main__ import pipelines_of, tries
from sandbox.stay import script, sourced, stay, wanted
from tests.console.command_lines import parse

VARIABLES = {"AWS_ENDPOINT_URL": "https://127.0.0.1:1", "AWS_CA_BUNDLE": "it's here/ca.pem"}
SANDBOX: Any = SimpleNamespace(environment=VARIABLES)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
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


def test_it_says_what_to_type_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    file, said = tmp_path / "sandbox.env", list[str]()

    def interrupted() -> None:
        assert file.exists()
        raise KeyboardInterrupt

    stay(SANDBOX, ["dlq status"], file=file, show=said.append, wait=interrupted)
    assert f". {file}" in said[0]
    assert "dlq status" in said[1]
    assert not file.exists()


@pytest.mark.parametrize("letters", [0, 4_000])
def test_the_commands_to_try_exist(letters: int) -> None:
    typed = tries("orders", letters=letters)
    assert len(typed) == 3
    for line in typed:
        if line.startswith("dlq "):
            parse(line.partition("#")[0].strip())


def test_pipelines_are_those_that_will_be_deployed() -> None:
    assert [each["name"] for each in pipelines_of({})] == ["orders"]
    assert pipelines_of({"pipelines": '[{"name": "a"}]'}) == [{"name": "a"}]
