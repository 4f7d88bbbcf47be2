"""`python -m sandbox up` at a terminal, with a second shell beside it: what a newcomer types."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox.server import ROOT

# The first command to try is said last but two.
LAST_WORDS = b"dlq retry --auto --dry-run"

MOST_LINES = 15


@contextmanager
def terminal(arguments: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run a program in a terminal of its own; gives it, and the terminal's other end."""
    ours, theirs = pty.openpty()

    def begin() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        # The tests may be run by nohup, and what is started there would not end with its terminal.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

    with subprocess.Popen(
        [sys.executable, "-m", "sandbox", *arguments],
        cwd=ROOT,
        stdin=theirs,
        stdout=theirs,
        start_new_session=True,
        preexec_fn=begin,
    ) as process:
        os.close(theirs)
        try:
            yield process, ours
        finally:
            process.terminate()
            os.close(ours)


def typed(file: Path, command: str) -> str:
    """Type a command in a second shell that has read *file*."""
    ran = subprocess.run(
        ["/bin/sh", "-c", f". {file} && {command}"],
        cwd=file.parent,
        env={"PATH": "/usr/bin:/bin", "HOME": os.environ["HOME"], "AWS_PROFILE": "production"},
        capture_output=True,
        text=True,
    )
    return ran.stdout + ran.stderr


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGHUP])
def test_it_is_up_in_few_lines_works_in_a_second_shell_and_leaves_nothing(
    tmp_path: Path, ending: signal.Signals
) -> None:
    file = tmp_path / "sandbox.env"
    folders = ["--folder", str(tmp_path / "sandbox"), "--env-file", str(file)]
    with terminal(["up", "--with-letters", "40", "--causes", "3", *folders]) as (process, ours):
        said = b""
        while LAST_WORDS not in said:
            said += os.read(ours, 10_000)
        assert said.count(b"\n") <= MOST_LINES
        assert "watch has never run" not in (status := typed(file, "dlq status"))
        assert "orders: mode observe" in status
        assert "40 messages, 3 causes" in typed(file, "dlq groups orders")
        process.send_signal(ending)
        assert process.wait() == 0
    assert not file.exists()
