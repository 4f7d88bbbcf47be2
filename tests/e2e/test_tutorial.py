"""The tutorial, typed line by line into a shell beside the sandbox that it starts.

Its sandboxes are its own, for they are what it teaches: half a minute each day, as much at night.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandbox.progress import until
from sandbox.server import ROOT
from tests.sandbox.test_demo_next import run_by

PAGE = (ROOT / "docs" / "tutorial.md").read_text()

BLOCK = re.compile(r"^```sh ?(?P<kind>\w*)\n(?P<lines>.*?)^```$", re.M | re.S)

ENV_FILE = "build/sandbox.env"

# The page's port may be taken on this machine.
PORT = "8901"

# A rule may take a minute; each time takes a second or two.
TIMES = " ".join(map(str, range(60)))

# Between the output of one command and that of the next.
END = "-- the end of a command --"


@dataclass(frozen=True, slots=True)
class TutorialStep:
    """A command, and what has to stand in its output.

    kind    `fails` if it has to be refused; `until` if it is typed again until the first of what
            is expected stands there
    """

    command: str
    expected: Sequence[str] = ()
    kind: str = ""

    @property
    def script(self) -> str:
        if self.kind != "until":
            return self.command
        found = f"case $said in *'{self.expected[0]}'*) break;; esac"
        return f'for _ in {TIMES}; do said=$({self.command}); {found}; done; echo "$said"'


@dataclass(frozen=True, slots=True)
class Chapter:
    """What starts a sandbox, and what is typed beside it."""

    start: str
    steps: Sequence[TutorialStep]


def chapters(page: str) -> list[Chapter]:
    """Cut the page where a sandbox is started."""
    found: list[tuple[str, list[TutorialStep]]] = []
    for block in BLOCK.finditer(page):
        if block["kind"] == "sandbox":
            found.append((block["lines"].strip(), []))
            continue
        for line in block["lines"].splitlines():
            steps = found[-1][1]
            if line.startswith("> "):
                last = steps.pop()
                steps.append(TutorialStep(last.command, [*last.expected, line[2:]], last.kind))
            else:
                steps.append(TutorialStep(line, kind=block["kind"]))
    return [Chapter(start, steps) for start, steps in found]


def stands_in(expected: str, output: str) -> bool:
    """Whether a line of the page stands in an output; `…` is anything, and spaces are alike."""
    parts = (re.escape(" ".join(part.split())) for part in expected.split("…"))
    return re.search(".*".join(parts), " ".join(output.split())) is not None


@contextmanager
def running(start: str, folder: Path) -> Iterator[Path]:
    """Start what the page says, elsewhere than a person's own sandbox; gives its file to source."""
    python, *words = run_by(start)
    assert (python, words[:3]) == (".venv/bin/python", ["-m", "sandbox", "up"])
    file, log = folder / "sandbox.env", folder / "sandbox.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [
                *(sys.executable, *words),
                *("--folder", str(folder / "sandbox"), "--env-file", str(file)),
            ],
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:

        def is_up() -> bool:
            assert process.poll() is None, log.read_text()
            return "until Ctrl-C" in log.read_text()

        until(is_up, "the sandbox is up", marks=lambda: progress(folder))
        yield file
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
    assert process.returncode == 0
    assert not file.exists()


def progress(folder: Path) -> object:
    """What moves while a sandbox comes up."""
    logs = (folder / "sandbox").glob("*.log")
    return sorted((path.name, path.stat().st_size) for path in logs)


def typed(steps: Sequence[TutorialStep], file: Path) -> list[tuple[str, int]]:
    """Type them all into one shell, whose variables stay; gives each output and exit status."""
    port = free_port()
    lines = [step.script.replace(ENV_FILE, str(file)).replace(PORT, port) for step in steps]
    script = "".join(f'{line}\necho "{END}$?"\n' for line in lines)
    environment = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(
        ["/bin/sh", "-u"],
        input=script,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    outputs = re.findall(rf"(.*?){END}(\d+)\n", done.stdout, re.S)
    assert len(outputs) == len(steps), done.stdout
    return [(output, int(status)) for output, status in outputs]


def free_port() -> str:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.mark.parametrize(
    "chapter", [pytest.param(chapter, id=chapter.start) for chapter in chapters(PAGE)]
)
def test_each_command_of_the_tutorial_says_what_the_page_says(
    chapter: Chapter, tmp_path: Path
) -> None:
    with running(chapter.start, tmp_path) as file:
        answers = typed(chapter.steps, file)
    wrong = []
    for step, (output, status) in zip(chapter.steps, answers, strict=True):
        said = f"$ {step.command}\n{output}(exit status {status})"
        missing = [expected for expected in step.expected if not stands_in(expected, output)]
        if (status != 0) != (step.kind == "fails") or missing:
            wrong.append(f"{said}\nnot there: {missing}")
    assert not wrong, "\n\n".join(wrong)


def test_the_page_has_chapters_steps_and_expectations() -> None:
    found = chapters(PAGE)
    assert len(found) == 2
    assert sum(len(chapter.steps) for chapter in found) >= 18
    commands = [step for chapter in found for step in chapter.steps if step.command[:4] == "dlq "]
    assert [step.command for step in commands if not step.expected] == []


def test_a_mistake_in_the_page_is_found() -> None:
    assert stands_in("a … c", "x a b  c y")
    assert not stands_in("60 messages, 4 causes", "60 messages, 3 causes in pipeline orders")
