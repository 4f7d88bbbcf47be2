"""`python -m tools.verify_aws` against an AWS of its own, on the real clock."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sandbox.deploy import bootstrap, environment
from sandbox.queue_metrics import QueueMetrics
from sandbox.server import ROOT, Sandbox
from tools.verify_aws.account import PREFIX


@dataclass(frozen=True)
class Proved:
    """How a run ended, what it printed, and what the account still has that is named like it."""

    status: int
    printed: str
    left: list[str]

    @property
    def verdicts(self) -> dict[str, str]:
        """What was said of each check."""
        return dict(re.findall(r"^\d+/\d+ (\S+): (\w+)$", self.printed, re.MULTILINE))

    def step(self, name: str) -> str:
        """The line of a step; empty if it was not taken."""
        lines = [line for line in self.printed.splitlines() if line.startswith(f"{name} ")]
        return lines[0] if lines else ""


class Prover:
    """One run in a sandbox of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None

    def run(
        self, meddle: Callable[[Sandbox], object] | None, *words: str, then: str = ""
    ) -> Proved:
        """Type *words* behind it, and *then* in a second run, if there is one.

        *meddle* breaks something meanwhile, from another thread.
        """
        with Sandbox(self._folder) as sandbox:
            bootstrap(sandbox)
            with QueueMetrics(sandbox.queues, sandbox.client("cloudwatch"), interval=1.0):
                self._process = self._typed(sandbox, *words)
                if meddle is not None:
                    threading.Thread(target=meddle, args=(sandbox,), daemon=True).start()
                printed, _ = self._process.communicate()
                if then:
                    self._process = self._typed(sandbox, then)
                    printed += self._process.communicate()[0]
            return Proved(self._process.returncode, printed, leavings(sandbox))

    def _typed(self, sandbox: Sandbox, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tools.verify_aws", "--yes", *words],
            cwd=ROOT,
            env=environment(sandbox, self._folder.absolute()),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def signal(self, number: signal.Signals) -> None:
        """Ctrl-C, or another."""
        assert self._process is not None
        self._process.send_signal(number)


def leavings(sandbox: Sandbox) -> list[str]:
    """Stacks, functions, queues, tables, buckets, topics, alarms and parameters of a run."""
    names = [
        *(s["StackName"] for s in sandbox.client("cloudformation").describe_stacks()["Stacks"]),
        *(f["FunctionName"] for f in sandbox.client("lambda").list_functions()["Functions"]),
        *sandbox.queues(),
        *sandbox.client("dynamodb").list_tables()["TableNames"],
        *(b["Name"] for b in sandbox.client("s3").list_buckets()["Buckets"]),
        *(t["TopicArn"] for t in sandbox.client("sns").list_topics()["Topics"]),
        *(a["AlarmName"] for a in sandbox.client("cloudwatch").describe_alarms()["MetricAlarms"]),
        *(p["Name"] for p in sandbox.client("ssm").describe_parameters()["Parameters"]),
        *(r["RoleName"] for r in sandbox.client("iam").list_roles()["Roles"]),
        *(g["logGroupName"] for g in sandbox.client("logs").describe_log_groups()["logGroups"]),
    ]
    return [name for name in names if PREFIX.replace("-", "") in name.lower().replace("-", "")]
