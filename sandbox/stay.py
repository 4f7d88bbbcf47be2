"""A sandbox that stays up until Ctrl-C, the file that points a shell at it, and its page."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from sandbox.server import ROOT, Sandbox

ENV_FILE = ROOT / "build" / "sandbox.env"

# Longer than the page takes for what it is just answering.
ENDS_SECONDS = 5.0

# No settings of the user's: a profile, a session or an endpoint of one service would win over ours.
_NOTHING = "/dev/null"


def wanted(stdin: TextIO, stdout: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether somebody is there to touch it: at a terminal, not in CI, and not told KEEP=0."""
    return (
        stdin.isatty()
        and stdout.isatty()
        and not environment.get("CI")
        and environment.get("KEEP") != "0"
    )


def said(variables: Mapping[str, str]) -> dict[str, str]:
    """All variables of AWS that a client of the sandbox has."""
    return {
        **variables,
        "AWS_CONFIG_FILE": _NOTHING,
        "AWS_SHARED_CREDENTIALS_FILE": _NOTHING,
        "AWS_PAGER": "",
    }


def script(variables: Mapping[str, str]) -> str:
    """What a POSIX shell has to read so that `dlq`, boto3 and the AWS CLI talk to the sandbox."""
    lines = [
        "# Points a shell at the sandbox while it is up:  . build/sandbox.env",
        "# Close the shell to be rid of it.",
        "for name in $(env | sed -n 's/^\\(AWS_[A-Za-z0-9_]*\\)=.*/\\1/p'); do",
        '  unset "$name"',
        "done",
        *(f"export {name}={shlex.quote(value)}" for name, value in said(variables).items()),
        f'export PATH={shlex.quote(str(Path(sys.executable).parent))}:"$PATH"',
    ]
    return "\n".join(lines) + "\n"


@contextmanager
def sourced(sandbox: Sandbox, file: Path = ENV_FILE) -> Iterator[Path]:
    """Keep the file that points a shell at *sandbox*, for its owner alone, until it is left."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    own = script(sandbox.environment)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as written:
        written.write(own)
    try:
        yield file
    finally:
        # A sandbox that came up later has one of its own here.
        if file.exists() and file.read_text() == own:
            file.unlink()


@contextmanager
def page_beside(sandbox: Sandbox) -> Iterator[None]:
    """Open the app's page in the person's browser, as `dlq ui --act` does, until it is left.

    A session of its own: Ctrl-C reaches the sandbox alone, which then ends the page.
    """
    own = {name: text for name, text in os.environ.items() if not name.startswith("AWS_")}
    with subprocess.Popen(
        [sys.executable, "-m", "console", "ui", "--act"],
        cwd=ROOT,
        env={**own, **said(sandbox.environment)},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    ) as page:
        try:
            yield
        finally:
            page.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                page.wait(ENDS_SECONDS)
            page.kill()


def stay(
    sandbox: Sandbox,
    tries: Sequence[str],
    *,
    file: Path = ENV_FILE,
    show: Callable[[str], None],
    wait: Callable[[], object] = signal.pause,
) -> None:
    """Say how to touch the sandbox, name commands to try, and return when Ctrl-C is typed.

    *tries* are commands, each with half a line of why; *wait* returns, or raises KeyboardInterrupt,
    when it is over.
    """
    with sourced(sandbox, file):
        try:
            shown = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
            show(f"The sandbox is up until Ctrl-C. In a second terminal: . {shown}")
            for command in tries:
                show(f"  {command}")
            wait()
        except KeyboardInterrupt:
            show("\nThe sandbox ends, and all that was in it.")
