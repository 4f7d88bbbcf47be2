"""What a function gets from outside: clock, waiting, ids and randomness."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from queue import Empty, SimpleQueue
from random import Random
from threading import Lock, Thread
from typing import Any, Generic, TypeVar

from deadletter.contract import BOTO3_VARIABLE

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class World:
    """The inputs that differ on each call.

    `clock` returns epoch seconds, `wait` waits for seconds, and `new_id` returns a unique text.
    """

    clock: Callable[[], float]
    wait: Callable[[float], None]
    new_id: Callable[[], str]
    random: Random


_WRAPPER = "AWS_LAMBDA_EXEC_WRAPPER"
"""Names a program that starts the function's process, as layers that trace calls do.

https://docs.aws.amazon.com/lambda/latest/dg/runtimes-modify.html
"""


def why_boto3(environment: Mapping[str, str]) -> str:
    """Why boto3 has to make all calls of a function; empty if it need not."""
    if environment.get(BOTO3_VARIABLE, "0") not in ("", "0"):
        return f"{BOTO3_VARIABLE} is set"
    if environment.get(_WRAPPER):
        return f"{_WRAPPER} is set, and layers that trace calls patch botocore"
    return ""


class CallingThreads:
    """Threads that run calls at the same time; they are started when needed, and kept.

    The thread that asks runs calls too, and all of them if no other is free: calls may have
    calls of their own run, however few threads there are. At most `most` threads help.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._offered: SimpleQueue[_Calls[Any]] = SimpleQueue()
        self._started = 0
        self._free = 0

    def __call__(self, calls: Sequence[Callable[[], T]], /) -> list[T]:
        """Run calls in parallel; returns their results in order.

        An exception of a call is raised after all calls have ended.
        """
        if len(calls) <= 1:
            return [call() for call in calls]
        work = _Calls(calls)
        for _ in range(len(calls) - 1):
            self._offer(work)
        while work.run_one():
            pass
        return work.results()

    def _offer(self, work: _Calls[Any]) -> None:
        # First, so that a thread that is started for it does not count itself as free.
        self._offered.put(work)
        with self._lock:
            if self._free:
                self._free -= 1
            elif self._started < self._most:
                self._started += 1
                Thread(target=self._help, name=f"in-parallel-{self._started}", daemon=True).start()

    def _help(self) -> None:
        while True:
            try:
                work = self._offered.get_nowait()
            except Empty:
                with self._lock:
                    self._free += 1
                work = self._offered.get()
            work.run_one()
            # What a call returned is not kept until the next one.
            del work


class _Calls(Generic[T]):
    """Calls that several threads run, each thread as many as it gets.

    The executor of the standard library makes a future with a lock of its own for each call,
    and takes a tenth of the time in which a letter is moved.
    """

    def __init__(self, calls: Sequence[Callable[[], T]]) -> None:
        self._calls = calls
        # The next number of a count is taken by one thread alone.
        self._unclaimed = iter(range(len(calls)))
        self._ended = count(1)
        self._results: dict[int, T] = {}
        self._errors: dict[int, BaseException] = {}
        self._all_ended = Lock()
        self._all_ended.acquire()

    def run_one(self) -> bool:
        """Run a call that no thread has claimed yet. Returns False if there is none."""
        number = next(self._unclaimed, None)
        if number is None:
            return False
        try:
            self._results[number] = self._calls[number]()
        except BaseException as error:
            # Raised where the result is asked for.
            self._errors[number] = error
        finally:
            if next(self._ended) == len(self._calls):
                self._all_ended.release()
        return True

    def results(self) -> list[T]:
        """The results in the order of the calls, once all have ended."""
        self._all_ended.acquire()
        for number in sorted(self._errors):
            raise self._errors[number]
        return [self._results[number] for number in range(len(self._calls))]


MOST_HELPERS = 63
"""With the thread that asks, as many as a client has connections for."""

in_threads = CallingThreads(MOST_HELPERS)
