"""What several benches measure with: CPU in turns, and fresh processes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

from lab.bench.server import ROOT


def medians(tasks: Mapping[Any, Callable[[], object]], turns: int) -> dict[Any, float]:
    """Seconds of CPU that each task takes; they take turns, so that load falls on all of them."""
    spent: dict[Any, list[float]] = {name: [] for name in tasks}
    for _ in range(turns):
        for name, task in tasks.items():
            start = time.process_time()
            task()
            spent[name].append(time.process_time() - start)
    return {name: median(times) for name, times in spent.items()}


class Metered:
    """A client of a fake that counts its calls, and the CPU seconds inside them."""

    def __init__(self, fake: Any) -> None:
        self._fake = fake
        self.calls: Counter[str] = Counter()
        self.cpu = 0.0

    def __getattr__(self, name: str) -> Any:
        act = getattr(self._fake, name)

        def call(**request: Any) -> Any:
            self.calls[name] += 1
            start = time.thread_time()
            try:
                return act(**request)
            finally:
                self.cpu += time.thread_time() - start

        return call if callable(act) and not isinstance(act, type) else act


@contextmanager
def compiled() -> Iterator[dict[str, str]]:
    """The environment of processes of ours, whose files are compiled as those of packages are."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            **dict.fromkeys(("AWS_REGION", "AWS_DEFAULT_REGION"), "eu-west-1"),
            **dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "bench"),
            "AWS_EC2_METADATA_DISABLED": "true",
            "PYTHONPATH": f"{ROOT}:{ROOT / 'lambdas'}",
            "PYTHONPYCACHEPREFIX": folder,
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        yield environment


def process_cost(
    arguments: Sequence[str], environment: Mapping[str, str], turns: int
) -> tuple[float, float]:
    """Milliseconds of fresh Python processes from start to end, and of their CPU.

    Medians; a first process that compiles files does not count.
    """
    costs = [_one(arguments, environment) for _ in range(turns + 1)][1:]
    seconds, cpu = (median(each) for each in zip(*costs, strict=True))
    return seconds * 1_000, cpu * 1_000


def _one(arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime
