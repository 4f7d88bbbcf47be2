"""What a function gets from outside: clock, waiting, ids and randomness."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from deadletter.aws.wire.whereabouts import Whereabouts as Whereabouts

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


def whereabouts(environment: Mapping[str, str], clock: Callable[[], float]) -> Whereabouts | None:
    """Where the function of this environment runs; None unless all is as Lambda sets it."""
    # Most functions do without.
    from deadletter.aws.wire.whereabouts import whereabouts_from

    return whereabouts_from(environment, clock)


class CallingThreads:
    """Threads that run calls at the same time; they are started when needed, and kept.

    The thread that asks runs calls too, and all of them if no other is free: calls may have
    calls of their own run, however few threads there are. At most `most` threads help.
    """

    def __init__(self, most: int) -> None:
        self._helpers = ThreadPoolExecutor(max_workers=most, thread_name_prefix="in-parallel")

    def __call__(self, calls: Sequence[Callable[[], T]], /) -> list[T]:
        """Run calls in parallel; returns their results in order.

        An exception of a call is raised after all calls have ended.
        """
        wanted = [(call, Future[T]()) for call in calls]
        unclaimed = deque(wanted)
        for _ in range(len(wanted) - 1):
            self._helpers.submit(_run_one, unclaimed)
        while unclaimed:
            _run_one(unclaimed)
        futures = [future for _, future in wanted]
        wait(futures)
        return [future.result() for future in futures]


def _run_one(unclaimed: deque[tuple[Callable[[], T], Future[T]]]) -> None:
    """Run a call that no thread has claimed yet, if there is one."""
    try:
        call, future = unclaimed.popleft()
    except IndexError:
        return
    try:
        future.set_result(call())
    except BaseException as error:
        # Raised where the result is asked for.
        future.set_exception(error)


MOST_HELPERS = 31
"""With the thread that asks, as many as a client has connections for."""

in_threads = CallingThreads(MOST_HELPERS)
