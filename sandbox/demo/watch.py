"""Watches until nothing is on its way any more."""

from collections.abc import Callable, Iterator, Sequence

from sandbox.demo.look import Look
from sandbox.demo.script import ScriptStep
from sandbox.progress import STANDSTILL_SECONDS, Progress

# The schedule starts a run a minute; an impatient engineer starts the next one soon
# after the last has ended, or should have (its timeout is 55 seconds).
RUN_EVERY_SECONDS = 3.0
RUN_LASTS_SECONDS = 60.0

# Two looks in a row: what moves between two places during a look may not be seen in it.
EMPTY_LOOKS = 2


def watch(
    look: Callable[[], Look],
    script: Sequence[ScriptStep],
    *,
    start_run: Callable[[], None],
    tell: Callable[[str], None],
    standstill: float = STANDSTILL_SECONDS,
) -> Iterator[Look]:
    """Yield look after look; do each step when its moment comes, start a run now and then.

    The steps are done in their order, whatever is seen sooner. It ends when nothing is on its way.
    It also ends when nothing has moved for *standstill* seconds; what is on its way then is
    reported as waiting. It never pauses: the caller does, between looks.
    """
    progress = Progress()
    waiting = list(script)
    started_at: float | None = None
    reports_when_ended = 0
    empty = 0
    while empty < EMPTY_LOOKS:
        seen = look()
        if started_at is None:
            started_at = seen.at
        yield seen
        progress.read(seen.marks, seen.at)
        if progress.is_over(standstill):
            return
        while waiting and waiting[0].when(seen):
            step = waiting.pop(0)
            step.act()
            tell(step.says)
        run_has_ended = len(seen.reports) >= reports_when_ended
        nothing_left = run_has_ended and not seen.on_its_way
        empty = empty + 1 if nothing_left else 0
        soonest = started_at + (RUN_EVERY_SECONDS if run_has_ended else RUN_LASTS_SECONDS)
        if seen.at >= soonest and not nothing_left:
            start_run()
            started_at = seen.at
            reports_when_ended = len(seen.reports) + 1
