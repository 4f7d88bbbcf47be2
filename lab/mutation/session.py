"""Runs mutants in forks of one test session that has imported and collected everything.

First one fork runs every test and notes which lines each runs. Then each mutant gets a fork that
runs only the tests of its lines, the quickest first, and stops at the first that fails.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import _lru_cache_wrapper
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.mutation.mutants import Mutant

# A test of a mutant may take this many times its usual CPU seconds, and these seconds more.
PATIENCE = 8
SPARE_SECONDS = 1.0
# However busy the machine is, a mutant that waits for something never waits longer.
WALL_SECONDS = 180
# A mutant whose loop collects things without end must not take the machine's memory.
MEMORY = 3 * 1024**3

TIMED_OUT = {signal.SIGPROF, signal.SIGALRM, signal.SIGKILL}

FORKS = multiprocessing.get_context("fork")

Lines = set[tuple[str, int]]


class Ending(StrEnum):
    """How the tests took a mutant. A time-out is noticed too: the loop never ended."""

    KILLED = "killed"
    TIMEOUT = "timeout"
    SURVIVED = "survived"


class TestsFail(Exception):
    """The tests fail, or none were found, without any mutant."""


@dataclass(frozen=True, slots=True)
class TestRun:
    """What a test takes and runs without any mutant."""

    place: int
    seconds: float
    lines: Lines


def in_fork(work: Callable[[], Any]) -> Any:
    """The result of `work`, done in a fork: nothing else stays in this process.

    Raises TestsFail if the fork dies.
    """
    ours, theirs = FORKS.Pipe()
    process = FORKS.Process(target=lambda: theirs.send(work()))
    process.start()
    theirs.close()
    try:
        return ours.recv()
    except EOFError:
        raise TestsFail("the process that runs the tests died") from None
    finally:
        process.join()


def run_mutants(
    library: Path,
    mutants: Sequence[Mutant],
    tests: Sequence[str],
    marks: str,
) -> list[Ending | None]:
    """How each mutant ends; None if only a process that imports everything anew would show it.

    Raises TestsFail.
    """
    session = MutationSession(library, mutants)

    def collect_and_run() -> tuple[list[Ending | None], str]:
        _to_nowhere(1)
        session.note_imports()
        code = pytest.main([*OPTIONS, "-m", marks, *tests], plugins=[session])
        error = f"pytest ends with {code} without any mutant" if code else ""
        return session.endings, session.error or error

    endings, error = in_fork(collect_and_run)
    if error:
        raise TestsFail(error)
    return list(endings)


# Without plugins that look back at all sessions, or collect garbage several times at their end.
OPTIONS = ["-q", "-x", "--assert=plain", "--no-header"]
for plugin in ("cacheprovider", "xdist", "unraisableexception", "threadexception"):
    OPTIONS += ["-p", f"no:{plugin}"]


class MutationSession:
    """A pytest plugin that replaces the running of tests by the running of mutants."""

    def __init__(self, library: Path, mutants: Sequence[Mutant]) -> None:
        self._mutants = mutants
        self._modules = {str(library / mutant.module): mutant.module for mutant in mutants}
        self._library = str(library)
        self._failed: list[str] = []
        # Lines that ran while everything was imported: what they made is the original's.
        self._early: Lines = set()
        self.endings: list[Ending | None] = []
        self.error = ""

    def note_imports(self) -> None:
        """Note from now on which lines run while everything is imported and collected."""
        sys.settrace(_tracer(self._modules, self._early))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.append(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        sys.settrace(None)
        if session.testsfailed or not session.items:
            self.error = "the tests can't be collected without any mutant"
            return True
        self._items = session.items
        # The tests freeze what they have imported, and no list of objects has what is frozen.
        gc.unfreeze()
        self._functions = ImportedFunctions(self._library, self._modules)
        self._runs, failed = in_fork(self._traced)
        if failed:
            self.error = f"without any mutant these fail: {', '.join(failed[:5])}"
            return True
        _warm_hypothesis()
        # All of it stays, and a collection would copy its pages into each fork.
        gc.collect()
        gc.freeze()
        self.endings = [self._ending(mutant) for mutant in self._mutants]
        return True

    def _traced(self) -> tuple[list[TestRun], list[str]]:
        """Each test's run, and the tests that fail."""
        self._functions.forget_caches()
        runs = []
        for place, item in enumerate(self._items):
            lines: Lines = set()
            began = time.process_time()
            trace = _tracer(self._modules, lines)
            threading.settrace(trace)
            sys.settrace(trace)
            try:
                _run(item, self._items[place + 1 : place + 2])
            finally:
                sys.settrace(None)
                threading.settrace(None)
            runs.append(TestRun(place, time.process_time() - began, lines))
        return runs, self._failed

    def _ending(self, mutant: Mutant) -> Ending | None:
        reached = self._functions.of(mutant)
        if not reached:
            return None
        own = f"tests/{mutant.module.partition('/')[0]}/"
        tests = sorted(
            (run for run in self._runs if run.lines & mutant.lines),
            key=lambda run: (own not in str(self._items[run.place].path), run.seconds),
        )

        def run() -> None:
            _to_nowhere(1, 2)
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            signal.alarm(WALL_SECONDS)
            self._functions.forget_caches()
            for function in reached:
                function.__code__ = mutant.code
            sys.exit(self._is_noticed(tests))

        process = FORKS.Process(target=run)
        process.start()
        process.join()
        ending = _ending_of(process.exitcode or 0)
        is_hidden = ending is Ending.SURVIVED and mutant.lines & self._early
        return None if is_hidden else ending

    def _is_noticed(self, tests: Sequence[TestRun]) -> bool:
        chosen = [self._items[test.place] for test in tests]
        for place, test in enumerate(tests):
            signal.setitimer(signal.ITIMER_PROF, test.seconds * PATIENCE + SPARE_SECONDS)
            _run(chosen[place], chosen[place + 1 : place + 2])
            if self._failed:
                return True
        return False


class ImportedFunctions:
    """The functions of some files that this process has imported, found by where they stand."""

    def __init__(self, library: str, modules: dict[str, str]) -> None:
        self._by_place: dict[tuple[str, str, int], list[FunctionType]] = {}
        self._have_closures: set[tuple[str, str]] = set()
        self._caches: list[_lru_cache_wrapper[object]] = []
        for thing in gc.get_objects():
            if isinstance(thing, FunctionType) and thing.__code__.co_filename in modules:
                code = thing.__code__
                module = modules[code.co_filename]
                place = (module, code.co_qualname, code.co_firstlineno)
                self._by_place.setdefault(place, []).append(thing)
                outer, closure, _ = code.co_qualname.partition(".<locals>")
                if closure:
                    self._have_closures.add((module, outer))
            elif isinstance(thing, _lru_cache_wrapper):
                wrapped = getattr(thing.__wrapped__, "__code__", None)
                if wrapped is not None and wrapped.co_filename.startswith(library):
                    self._caches.append(thing)

    def of(self, mutant: Mutant) -> Sequence[FunctionType]:
        """The functions that get the mutant's code; none if closures of the original live."""
        if (mutant.module, mutant.name) in self._have_closures:
            return ()
        return self._by_place.get((mutant.module, mutant.name, mutant.first), ())

    def forget_caches(self) -> None:
        """What is remembered of functions of the library may come from the original."""
        for cache in self._caches:
            cache.cache_clear()


def _ending_of(code: int) -> Ending:
    """How a mutant's process ended: by a signal if the code is negative."""
    if -code in TIMED_OUT:
        return Ending.TIMEOUT
    return Ending.KILLED if code else Ending.SURVIVED


def _to_nowhere(*descriptors: int) -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    for descriptor in descriptors:
        os.dup2(nothing, descriptor)


def _run(item: pytest.Item, following: Sequence[pytest.Item]) -> None:
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=next(iter(following), None))


@given(st.integers())
def _warm_hypothesis(number: int) -> None:
    """Hypothesis reads the constants of all modules at the first example: once for all forks."""


def _tracer(modules: dict[str, str], lines: Lines) -> Callable[..., Any]:
    def each_call(frame: FrameType, event: str, arg: object) -> Callable[..., Any] | None:
        module = modules.get(frame.f_code.co_filename)
        if module is None:
            return None

        def each_line(frame: FrameType, event: str, arg: object) -> Callable[..., Any]:
            lines.add((module, frame.f_lineno))
            return each_line

        return each_line(frame, event, arg)

    return each_call
