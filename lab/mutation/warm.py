"""Runs mutants of functions in forks of one test session that has imported and collected all.

First one fork runs every test and notes which lines each runs. Then each mutant gets a fork that
runs only the tests of its lines, the quickest first, and stops at the first that fails.
"""

from __future__ import annotations

import gc
import os
import pickle
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.mutation.mutant import Ending, Mutant, Result
from lab.mutation.swap import Functions, Swap

# A test of a mutant may take this many times its usual CPU seconds, and these seconds more.
PATIENCE = 8
SPARE_SECONDS = 1.0
# However busy the machine is, a mutant that waits for something never waits longer.
WALL_SECONDS = 180
# A mutant whose loop collects things without end must not take the machine's memory.
MEMORY = 3 * 1024**3

SURVIVED, KILLED, UNREACHED = 0, 1, 2
TIMED_OUT = {signal.SIGPROF, signal.SIGALRM, signal.SIGKILL}


class TestsFail(Exception):
    """The tests fail, or none were found, without any mutant."""


@dataclass
class Traced:
    """What one run of all tests shows: seconds and lines of each, by its place in the session."""

    seconds: dict[int, float] = field(default_factory=dict)
    lines: dict[int, set[tuple[str, int]]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


@dataclass
class Outcome:
    """What a warm session hands back: results, and the mutants it could not put in place."""

    results: list[Result] = field(default_factory=list)
    unreached: list[Mutant] = field(default_factory=list)
    # Test files that run any line of a module, by module.
    files: dict[str, list[str]] = field(default_factory=dict)
    # Lines that ran while everything was imported and collected: what they made is the original's.
    early: set[tuple[str, int]] = field(default_factory=set)
    error: str = ""

    def is_final(self, result: Result) -> bool:
        """True if a process that imports everything anew would end in the same way."""
        mutant = result.mutant
        lines = {(mutant.module, line) for line in range(mutant.line, mutant.last_line + 1)}
        return result.ending is not Ending.SURVIVED or not lines & self.early


class WarmSession:
    """A pytest plugin that replaces the running of tests by the running of mutants."""

    def __init__(
        self,
        library: Path,
        modules: Sequence[str],
        swaps: Sequence[tuple[Mutant, Swap]],
        first: str,
        progress: Callable[[Result], None],
    ) -> None:
        self._files = {str(library / module): module for module in modules}
        self._library = library
        self._swaps = swaps
        self._first = first
        self._progress = progress
        self.outcome = Outcome()
        self._failed: list[str] = []

    def begin(self) -> None:
        """Note from now on which lines run while everything is imported and collected."""
        sys.settrace(_tracer(self._files, self.outcome.early))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.append(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        sys.settrace(None)
        if session.testsfailed or not session.items:
            self.outcome.error = "the tests can't be collected without any mutant"
            return True
        traced = _in_fork(lambda: self._trace(session.items))
        if traced.failed:
            self.outcome.error = f"without any mutant these fail: {', '.join(traced.failed[:5])}"
            return True
        items = session.items
        self.outcome.files = self._test_files(items, traced)
        # The tests freeze what they have imported, and no list of objects has what is frozen.
        gc.unfreeze()
        functions = Functions(str(self._library), set(self._files))
        _warm_hypothesis()
        # Nothing of it is ever garbage, and a collection would copy its pages into each fork.
        gc.collect()
        gc.freeze()
        for mutant, swap in self._swaps:
            tests = self._tests_of(mutant, items, traced)
            began = time.monotonic()
            status = self._try(mutant, swap, functions, [items[i] for i in tests], traced, tests)
            if status is None:
                self.outcome.unreached.append(mutant)
                continue
            result = Result(mutant, status, time.monotonic() - began)
            self.outcome.results.append(result)
            self._progress(result)
        return True

    def _trace(self, items: Sequence[pytest.Item]) -> Traced:
        traced = Traced()
        for place, item in enumerate(items):
            lines: set[tuple[str, int]] = set()
            began = time.process_time()
            trace = _tracer(self._files, lines)
            threading.settrace(trace)
            sys.settrace(trace)
            try:
                _run(item, items[place + 1] if place + 1 < len(items) else None)
            finally:
                sys.settrace(None)
                threading.settrace(None)
            traced.seconds[place] = time.process_time() - began
            traced.lines[place] = lines
        traced.failed = self._failed
        return traced

    def _test_files(self, items: Sequence[pytest.Item], traced: Traced) -> dict[str, list[str]]:
        files: dict[str, dict[str, int]] = {module: {} for module in self._files.values()}
        for place, lines in traced.lines.items():
            test = str(items[place].path)
            for module in {module for module, _ in lines}:
                files[module][test] = files[module].get(test, 0) + 1
        return {
            module: sorted(count, key=lambda test: (self._first not in test, -count[test]))
            for module, count in files.items()
        }

    def _tests_of(self, mutant: Mutant, items: Sequence[pytest.Item], traced: Traced) -> list[int]:
        """The tests that run a line of the mutant; without any, all that run its module."""
        mutated = {(mutant.module, line) for line in range(mutant.line, mutant.last_line + 1)}
        tests = [place for place, lines in traced.lines.items() if lines & mutated]
        if not tests:
            tests = [
                place
                for place, lines in traced.lines.items()
                if any(module == mutant.module for module, _ in lines)
            ]
        return sorted(
            tests,
            key=lambda place: (self._first not in str(items[place].path), traced.seconds[place]),
        )

    def _try(
        self,
        mutant: Mutant,
        swap: Swap,
        functions: Functions,
        items: Sequence[pytest.Item],
        traced: Traced,
        places: Sequence[int],
    ) -> Ending | None:
        child = os.fork()
        if child:
            return ending_of(os.waitpid(child, 0)[1])
        status = KILLED
        try:
            _be_quiet()
            bound_this_process()
            if not functions.swap(str(self._library / mutant.module), swap):
                status = UNREACHED
            else:
                self._failed.clear()
                status = self._first_failure(items, [traced.seconds[place] for place in places])
        finally:
            os._exit(status)

    def _first_failure(self, items: Sequence[pytest.Item], seconds: Sequence[float]) -> int:
        for place, item in enumerate(items):
            bound_cpu(seconds[place])
            _run(item, items[place + 1] if place + 1 < len(items) else None)
            if self._failed:
                return KILLED
        return SURVIVED


def ending_of(status: int) -> Ending | None:
    """How a mutant's process ended; None if the mutant could not be put in place."""
    if os.WIFSIGNALED(status):
        return Ending.TIMEOUT if os.WTERMSIG(status) in TIMED_OUT else Ending.KILLED
    match os.WEXITSTATUS(status):
        case 0:
            return Ending.SURVIVED
        case 2:
            return None
    return Ending.KILLED


def bound_this_process() -> None:
    """End this process if it takes far more time or memory than any test needs."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    signal.alarm(WALL_SECONDS)


def bound_cpu(usual_seconds: float) -> None:
    """End this process if it takes far more CPU seconds than usual from now on."""
    signal.setitimer(signal.ITIMER_PROF, usual_seconds * PATIENCE + SPARE_SECONDS)


def _be_quiet() -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)


def _run(item: pytest.Item, following: pytest.Item | None) -> None:
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


@given(st.integers())
def _warm_hypothesis(number: int) -> None:
    """Hypothesis reads the constants of all modules at the first example: once for all forks."""


def _tracer(files: dict[str, str], lines: set[tuple[str, int]]) -> Callable[..., Any]:
    def each_call(frame: FrameType, event: str, arg: object) -> Callable[..., Any] | None:
        module = files.get(frame.f_code.co_filename)
        if module is None:
            return None

        def each_line(frame: FrameType, event: str, arg: object) -> Callable[..., Any]:
            lines.add((module, frame.f_lineno))
            return each_line

        lines.add((module, frame.f_lineno))
        return each_line

    return each_call


def _in_fork(work: Callable[[], Traced]) -> Traced:
    """The result of `work`, done in a fork: nothing of it stays in this process."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.close(out)
            _be_quiet()
            with os.fdopen(into, "wb") as file:
                pickle.dump(work(), file)
            status = 0
        finally:
            os._exit(status)
    os.close(into)
    with os.fdopen(out, "rb") as file:
        answer = file.read()
    if os.waitpid(child, 0)[1] or not answer:
        raise TestsFail("the process that runs the tests without any mutant died")
    traced: Traced = pickle.loads(answer)  # noqa: S301 - written by our own fork
    return traced


def options(tests: Iterable[str], marks: str) -> list[str]:
    """pytest's command line for these tests."""
    quiet = ["-q", "-x", "--assert=plain", "--no-header"]
    # Two of them collect garbage several times at the end of each session.
    plugins = ("cacheprovider", "xdist", "unraisableexception", "threadexception")
    without = [text for plugin in plugins for text in ("-p", f"no:{plugin}")]
    return [*quiet, *without, "-m", marks, *tests]
