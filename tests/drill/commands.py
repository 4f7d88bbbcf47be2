"""What a person types in the drill: the command of a card, as it is printed."""

from __future__ import annotations

import shlex
import subprocess
import sys
import threading
from collections.abc import Sequence

from sandbox.deploy import CDK, environment
from sandbox.server import ROOT, Sandbox

# Two deployments at once would both look at the stack that all pipelines share.
DEPLOYING = threading.Lock()


def type_it(sandbox: Sandbox, line: str) -> tuple[int, str]:
    """Type a line into a shell; its exit status, and what was answered.

    What `dlq` asks is answered with yes. Raises ValueError for a program that no person has.
    """
    # As a shell joins lines.
    program, *rest = shlex.split(line.replace("\\\n", ""))
    match program:
        case "dlq":
            done = sandbox.dlq(rest)
            if "--yes" in done.stderr:
                done = sandbox.dlq([*rest, "--yes"])
        case "aws":
            done = _run([sys.executable, "-m", "tests.operate.aws_cli", *rest], sandbox)
        case "npx" if rest[0] == "cdk":
            with DEPLOYING:
                app = f"--app={sandbox.folder.absolute() / 'cdk.out'}"
                done = _run([str(CDK), *rest[1:], app, *_NO_QUESTIONS], sandbox)
        case _:
            raise ValueError(f"no person has the program {program}")
    return done.returncode, done.stdout + done.stderr


_NO_QUESTIONS = ("--ci", "--no-color", "--no-notices", "--require-approval=never")


def _run(words: Sequence[str], sandbox: Sandbox) -> subprocess.CompletedProcess[str]:
    given = environment(sandbox, sandbox.folder.absolute())
    return subprocess.run(
        words,
        cwd=ROOT,
        env={**given, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
