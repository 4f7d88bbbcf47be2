"""Reads that run beside each other and end at a common deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from .errors import Cause, Problem, aws_errors, explain

if TYPE_CHECKING:
    from concurrent.futures import Future

# Seconds that a person waits for all answers together. Start and end of the program, and the
# display, take the rest of ten seconds.
PATIENCE = 8.0

# One screen of status for thirty pipelines is some 200 calls; more threads than
# this only queue up in front of Python's own lock.
THREADS = 16

V = TypeVar("V")


class DeadlineMissed(Problem):
    """There was no answer in time."""


class Deadline:
    """The moment after which no answer is waited for. `clock` counts seconds and never jumps."""

    def __init__(
        self, seconds: float = PATIENCE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.seconds = seconds
        self._clock = clock
        self._ends = clock() + seconds

    def left(self) -> float:
        """Seconds until the deadline; 0 when it is over."""
        return max(0.0, self._ends - self._clock())

    def missed(self) -> DeadlineMissed:
        """The problem of a read that did not end in time."""
        return DeadlineMissed(
            f"no answer within {self.seconds:g} s; check the network, VPN or proxy, --region, and "
            "AWS_ENDPOINT_URL if it is set.",
            Cause.UNREACHABLE,
        )


class Read(Generic[V]):
    """A read that runs beside others, and is waited for until the deadline, if it has one."""

    def __init__(self, future: Future[V], deadline: Deadline | None = None) -> None:
        self._future = future
        self._deadline = deadline

    def result(self, lost: Callable[[Problem], object]) -> V | None:
        """What was read; None if AWS refused it, and `lost` is called with the reason."""
        try:
            return self._wait()
        except Exception as error:
            problem = explain(error)
            if problem is None:
                raise
            lost(problem)
            return None

    def answer(self, what: str) -> V:
        """What was read; raises its error, or Problem that names `what` after the deadline."""
        try:
            return self._wait()
        except DeadlineMissed as missed:
            raise Problem(f"{what}: {missed.says}", missed.cause) from None

    @aws_errors()
    def _wait(self) -> V:
        left = None if self._deadline is None else self._deadline.left()
        try:
            return self._future.result(left)
        except TimeoutError:
            if self._deadline is None or self._future.done():
                # The read's own error.
                raise
            raise self._deadline.missed() from None


class Start(Protocol):
    def __call__(self, read: Callable[[], V], /) -> Read[V]: ...


@contextmanager
def side_by_side(deadline: Deadline | None = None) -> Iterator[Start]:
    """Runs reads in threads that are left behind at the deadline, and after Ctrl-C.

    A failed read spares the others, and one that has not begun at the end is dropped. A read must
    not start a read. Only for calls that change nothing: a call that is left behind may still be
    made. A name server that does not answer holds a thread longer than any time-out of the SDK.
    """
    from concurrent.futures import Future
    from queue import Empty, SimpleQueue
    from threading import Thread

    work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
    threads = 0

    def run() -> None:
        while (task := work.get()) is not None:
            future, read = task
            try:
                future.set_result(read())
            except BaseException as error:
                future.set_exception(error)

    def start(read: Callable[[], V], /) -> Read[V]:
        nonlocal threads
        future: Future[V] = Future()
        work.put((future, read))
        if threads < THREADS:
            threads += 1
            # The end of the program does not wait for it.
            Thread(target=run, daemon=True).start()
        return Read(future, deadline)

    try:
        yield start
    finally:
        with suppress(Empty):
            while True:
                work.get_nowait()
        for _ in range(threads):
            work.put(None)


class Asking:
    """Asks side by side; `lost` is what AWS refused or did not answer, in the order of waiting."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self.lost: list[tuple[str, Problem]] = []

    def __call__(self, what: str, read: Callable[..., V], *given: Any) -> Callable[[], V | None]:
        """Begin a read. What is returned waits for it; None if `what` is lost."""
        pending = self._start(partial(read, *given))
        return lambda: self.wait(what, pending)

    def wait(self, what: str, pending: Read[V]) -> V | None:
        """The answer to a read that was begun elsewhere."""
        return pending.result(lambda why: self.lost.append((what, why)))


def within(deadline: Deadline, what: str, read: Callable[[], V]) -> V:
    """What `read` returns; Problem that names `what` if there is no answer in time."""
    with side_by_side(deadline) as start:
        return start(read).answer(what)
