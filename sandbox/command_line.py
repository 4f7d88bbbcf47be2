"""The `dlq` command line, typed many times without its start-up.

Most of what a short command takes is the import of its modules. So one process
(``python -m sandbox.command_line``) imports them once, and each command is a fork of it: a
process of its own, with its own environment, streams and exit status. It ends when its
standard input closes.

A request is a line of JSON with the words and the environment of a command; the answer is
one with its exit status and what it wrote.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Self

from botocore.session import get_session

from sandbox import fast_clock

ROOT = Path(__file__).parent.parent

# Nothing of the shell of the person who runs the sandbox.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "PYTHONPATH": "lambdas"}

# The services whose clients the commands make: making one imports what all of them need.
SERVICES = ("ssm", "dynamodb", "sqs", "lambda", "s3", "stepfunctions", "cloudwatch")


class CommandLine:
    """The process that commands are forks of, from its first command until `close`.

    It has the clock that *clock*, a part of its environment, names (`sandbox.fast_clock`).
    """

    def __init__(self, clock: Mapping[str, str] | None = None) -> None:
        self._clock = clock or {}
        self._process: subprocess.Popen[str] | None = None
        self._typing = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def type(
        self, words: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run one command in this environment and no other, and wait for its end.

        Threads have their turns.
        """
        with self._typing:
            return self._type(words, environment)

    def _type(
        self, words: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sandbox.command_line"],
                cwd=ROOT,
                env={**ENVIRONMENT, **self._clock},
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        print(json.dumps([list(words), {**ENVIRONMENT, **environment}]), file=requests, flush=True)
        answer = json.loads(answers.readline())
        return subprocess.CompletedProcess(["dlq", *words], **answer)

    def close(self) -> None:
        """End the process, if a command has been typed."""
        if self._process is not None:
            self._process.communicate()
            self._process = None


def serve(requests: IO[str], answers: IO[str]) -> None:
    """Answer each request until there are no more."""
    for line in requests:
        words, environment = json.loads(line)
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            status = _fork(words, environment, output, errors)
            if status == -signal.SIGSEGV:
                # Native code that threads use may not bear a fork: the command by itself does.
                status = _alone(words, environment, output, errors)
            answer: dict[str, Any] = {"returncode": status}
            for name, file in (("stdout", output), ("stderr", errors)):
                file.seek(0)
                answer[name] = file.read().decode()
        print(json.dumps(answer), file=answers, flush=True)


def _fork(
    words: Sequence[str], environment: Mapping[str, str], output: IO[bytes], errors: IO[bytes]
) -> int:
    """Run a command in a fork of this process. Returns its exit status, as `subprocess` does."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, stream in enumerate((nothing, output.fileno(), errors.fileno())):
            os.dup2(stream, descriptor)
        os.environ.clear()
        os.environ.update(environment)
        status = _command(words)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        # Nothing of the parent's is to be cleaned up here.
        os._exit(status)


def _alone(
    words: Sequence[str], environment: Mapping[str, str], output: IO[bytes], errors: IO[bytes]
) -> int:
    """Run a command in a process that imports everything anew. Returns its exit status."""
    program = (
        "import sys; from sandbox import command_line, fast_clock; fast_clock.install();"
        " sys.exit(command_line._command(sys.argv[1:]))"
    )
    for file in (output, errors):
        file.seek(0)
        file.truncate()
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=ROOT,
        # What the clock is told by stands in this process's own.
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
    ).returncode


def _command(words: Sequence[str]) -> int:
    sys.argv = ["dlq", *words]
    try:
        runpy.run_module("console", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _import_all() -> None:
    """Import what commands import, and let botocore import what it needs for clients."""
    main = import_module("console.cli.main")
    for words in main.COMMANDS:
        import_module(main.module_of(words), main.__package__)
    session = get_session()
    session.set_credentials("none", "none")
    for service in SERVICES:
        session.create_client(service, region_name="us-east-1")


if __name__ == "__main__":
    fast_clock.install()
    # Ctrl-C at the sandbox's terminal interrupts this process, too: it ends as at its input's end.
    with suppress(KeyboardInterrupt):
        _import_all()
        serve(sys.stdin, sys.stdout)
