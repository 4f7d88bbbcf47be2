"""`python -m sandbox up` at a terminal, with a second shell beside it: what a newcomer types.

And what stands in sandbox/README.md of an app of one's own, and of causes that stay.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import termios
import urllib.error
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox.letters import TENANTS
from sandbox.progress import until
from sandbox.server import ROOT
from tests.e2e.receiver import Receiver
from tests.e2e.test_page import fetched
from tests.e2e.test_tutorial import running

# The first command to try is said last but two.
LAST_WORDS = b"dlq retry --auto --dry-run"

MOST_LINES = 15


# What a person's browser is told to open.
BROWSER = """#!/bin/sh
cp "${{1#file://}}" {opened}.new && mv {opened}.new {opened}
"""


@contextmanager
def terminal(
    arguments: list[str], environment: Mapping[str, str]
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run a program in a terminal of its own; gives it, and the terminal's other end."""
    ours, theirs = pty.openpty()

    def begin() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        # The tests may be run by nohup, and what is started there would not end with its terminal.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

    with subprocess.Popen(
        [sys.executable, "-m", "sandbox", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
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
def test_it_is_up_in_few_lines_opens_its_page_and_leaves_nothing(
    tmp_path: Path, ending: signal.Signals
) -> None:
    file, opened, browser = (tmp_path / name for name in ("sandbox.env", "opened", "browser"))
    browser.write_text(BROWSER.format(opened=opened))
    browser.chmod(0o755)
    folders = ["--folder", str(tmp_path / "sandbox"), "--env-file", str(file)]
    person = {"BROWSER": str(browser), "CI": "", "KEEP": "1"}
    words = ["up", "--with-messages", "40", "--causes", "3", *folders]
    with terminal(words, person) as (process, ours):
        said = b""
        while LAST_WORDS not in said or b"/enter?token=" not in said:
            said += os.read(ours, 10_000)
        assert said.count(b"\n") <= MOST_LINES
        until(opened.exists, "the browser opens the page")
        [address] = re.findall(r"http://[^\"]+", opened.read_text())
        status, _, cookie = fetched(address)
        assert status == 200
        home, name = address.partition("enter?")[0], cookie.partition(";")[0]
        status, shown, _ = fetched(home, Cookie=name)
        assert (status, "orders" in shown) == (200, True)
        said_of_it = typed(file, "dlq status")
        assert "watch has never run" not in said_of_it
        assert "orders: mode observe" in said_of_it
        assert "40 messages, 3 causes" in typed(file, "dlq groups orders")
        assert "moved none" in typed(file, "dlq retry --auto --reason 'try now' --yes")
        assert "40 messages, 3 causes" in typed(file, "dlq groups orders")
        process.send_signal(ending)
        assert process.wait() == 0
    assert not file.exists()
    with pytest.raises(urllib.error.URLError):
        fetched(home)


def test_a_cause_stays_until_it_is_repaired(tmp_path: Path) -> None:
    with running("make sandbox MESSAGES=8 MODE=enforce", tmp_path) as file:
        typed(file, "dlq retry --auto --reason 'try now' --yes")
        until(lambda: "no such endpoint" in typed(file, "dlq groups orders"), "they fail again")
        with Receiver() as receiver:
            for tenant in TENANTS:
                url = shlex.quote(receiver.url(tenant))
                add = f"dlq endpoint add {tenant} --url {url} --reason up --yes"
                assert "enabled" in typed(file, add)
            until(
                lambda: "No message is failing" in typed(file, "dlq groups orders"),
                "they are delivered",
                marks=lambda: sum(map(len, receiver.posts.values())),
            )
        assert sum(map(len, receiver.posts.values())) >= 8


def test_the_documented_line_deploys_an_app_of_ones_own(tmp_path: Path) -> None:
    page = (ROOT / "sandbox" / "README.md").read_text()
    [line] = re.findall(r"^make sandbox APP=.*$", page, re.MULTILINE)
    with running(line, tmp_path) as file:
        assert "orders: mode observe" in typed(file, "dlq status")
        assert "Shop-DeadOrders" in typed(file, "dlq show orders")
