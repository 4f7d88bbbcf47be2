"""How long `dlq` takes to say something: `python -m lab.bench.command_line`.

Fresh processes, in turns, at a pseudo-terminal: `--help`, the first character of `status`, the
end of `status` on two dead networks, one that takes connections and never answers, and one that
refuses them, and a look into queues of an account where nothing is deployed. Medians of the time
on the clock, and of the CPU time of the process.

In a shell that a sandbox has been told to (`make sandbox LETTERS=20000`, and the file that it
names), the commands and the screens of the page in that app alone.
"""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple
from urllib.request import HTTPCookieProcessor, build_opener

from sandbox.server import Sandbox

TURNS = 9
ROOT = Path(__file__).parents[2]

# Nothing listens on the port that is reserved for tcpmux.
REFUSES = "http://127.0.0.1:1"

HELPS: tuple[Sequence[str], ...] = (
    ("--help",),
    ("--version",),
    ("status", "--help"),
    ("groups", "--help"),
    ("list", "--help"),
    ("rules", "list", "--help"),
)


# Queues of an account without an app, and the messages in each.
QUEUES = {"full-dlq": 100, "short-dlq": 5, "empty-dlq": 0}

LOOKS: tuple[Sequence[str], ...] = (
    *(("list", "--look", "--in", f"queue:{name}") for name in QUEUES),
    ("groups", "--look", "--in", "queue:full-dlq"),
    ("doctor", "queue:full-dlq"),
)


# What a person types and opens first in an app of many messages.
IN_APP: tuple[Sequence[str], ...] = (
    ("status",),
    ("status", "--flow"),
    ("groups", "orders"),
    ("list", "orders"),
    ("rules", "list"),
    ("circuit", "list"),
    ("retry", "orders", "--dry-run"),
)
SCREENS = ("", "causes", "find", "find?q=tenant%3Dacme", "runs")
APP_TURNS = 3


class Timing(NamedTuple):
    """Seconds from the start of a process to its first character and to its end, and of CPU."""

    first: float
    end: float
    cpu: float


def timed(arguments: Sequence[str], environment: Mapping[str, str]) -> Timing:
    """One run of `dlq` at a terminal."""
    began, first = time.monotonic(), None
    process, screen = pty.fork()
    if process == 0:
        os.chdir(ROOT)
        command = [sys.executable, "-m", "console", *arguments]
        os.execve(sys.executable, command, dict(environment))  # noqa: S606 - a list, and no shell
    while True:
        try:
            text = os.read(screen, 65_536)
        except OSError:
            # Linux says so when the process has ended.
            break
        if not text:
            break
        first = time.monotonic() - began if first is None else first
    _, _, usage = os.wait4(process, 0)
    os.close(screen)
    end = time.monotonic() - began
    return Timing(first or end, end, usage.ru_utime + usage.ru_stime)


@contextmanager
def silent_server() -> Iterator[str]:
    """The address of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def bare_account() -> Iterator[Mapping[str, str]]:
    """The environment of an account that has the queues, and nothing of ours."""
    with tempfile.TemporaryDirectory() as folder, Sandbox(Path(folder), secure=False) as sandbox:
        sqs = sandbox.client("sqs")
        for name, letters in QUEUES.items():
            url = sqs.create_queue(QueueName=name)["QueueUrl"]
            for number in range(letters):
                sqs.send_message(QueueUrl=url, MessageBody=f'{{"orderId": {number}}}')
        yield sandbox.environment


@contextmanager
def served(environment: Mapping[str, str]) -> Iterator[Callable[[str], float]]:
    """Takes a path below a page of `dlq ui` to the seconds until all of the answer is there."""
    with subprocess.Popen(
        [sys.executable, "-m", "console", "ui"],
        cwd=ROOT, env={**environment, "BROWSER": "true"}, stderr=subprocess.PIPE, text=True,
    ) as page:  # fmt: skip
        assert page.stderr is not None
        said = (line.strip() for line in page.stderr)
        address = next(line for line in said if line.startswith("http://"))
        browser = build_opener(HTTPCookieProcessor())

        def seconds(path: str) -> float:
            began = time.monotonic()
            with browser.open(address.partition("enter?")[0] + path) as answer:
                answer.read()
            return time.monotonic() - began

        browser.open(address).close()
        yield seconds
        page.send_signal(signal.SIGINT)


def measure_app(environment: Mapping[str, str]) -> None:
    """Prints the figures of the app that the environment names."""
    for arguments in IN_APP:
        timings = [timed(arguments, environment) for _ in range(APP_TURNS)]
        _report(f"dlq {' '.join(arguments)}", timings)
    turns: dict[str, list[float]] = {path: [] for path in SCREENS}
    for _ in range(APP_TURNS):
        with served(environment) as seconds:
            for path in SCREENS:
                turns[path].append(seconds(path))
    for path, taken in turns.items():
        print(
            f"{median(taken) * 1000:7.0f} ms, at most {max(taken) * 1000:7.0f}: the page, /{path}"
        )


def _report(what: str, timings: Sequence[Timing]) -> None:
    first, end, cpu = (median(values) * 1000 for values in zip(*timings, strict=True))
    print(
        f"{first:7.0f} ms to the first character, {end:7.0f} ms in all, {cpu:5.0f} ms CPU: {what}"
    )


def main() -> None:
    ours = {name: os.environ[name] for name in os.environ if name.startswith(("AWS_", "DLQ_"))}
    environment = {
        **os.environ,
        "AWS_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'lambdas'}",
        "TERM": "xterm",
    }
    # Installed packages are compiled.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as compiled:
        variables = {**environment, "PYTHONPYCACHEPREFIX": compiled}
        if "AWS_ENDPOINT_URL" in os.environ:
            measure_app({**variables, **ours})
        else:
            measure(variables)


def measure(environment: Mapping[str, str]) -> None:
    """Prints all figures."""
    for arguments in HELPS:
        timed(arguments, environment)
        _report(f"dlq {' '.join(arguments)}", [timed(arguments, environment) for _ in range(TURNS)])
    with silent_server() as address:
        for what, url in (("never answers", address), ("refuses connections", REFUSES)):
            variables = {**environment, "AWS_ENDPOINT_URL": url}
            _report(f"dlq status, AWS {what}", [timed(["status"], variables) for _ in range(2)])
    with bare_account() as account:
        for arguments in LOOKS:
            timings = [timed(arguments, {**environment, **account}) for _ in range(TURNS)]
            held = QUEUES[arguments[-1].removeprefix("queue:")]
            _report(f"dlq {' '.join(arguments)}, {held} messages", timings)


if __name__ == "__main__":
    main()
