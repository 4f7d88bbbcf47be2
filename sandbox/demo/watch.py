"""Watches a sandbox until nothing in it is on its way any more."""

from collections.abc import Callable, Iterator

from sandbox.demo.look import Look
from sandbox.demo.script import Step

# The schedule starts a run a minute; an impatient engineer starts them by hand.
RUN_EVERY_SECONDS = 5.0

# Two looks in a row: what moves between two places during a look may not be seen in it.
EMPTY_LOOKS = 2

# Several times what it takes; what is on its way then is reported as waiting.
PATIENCE_SECONDS = 300.0


def watch(
    look: Callable[[], Look],
    steps: list[Step],
    *,
    start_run: Callable[[], None],
    tell: Callable[[str], None],
) -> Iterator[Look]:
    """Look again and again; do each step in its turn, start a run now and then.

    Ends when nothing is on its way, or with patience. It waits for nothing: whoever
    takes the looks sets the pace.
    """
    waiting = list(steps)
    next_run = RUN_EVERY_SECONDS
    empty = 0
    while empty < EMPTY_LOOKS:
        seen = look()
        yield seen
        if seen.at >= PATIENCE_SECONDS:
            return
        if seen.at >= next_run:
            start_run()
            next_run = seen.at + RUN_EVERY_SECONDS
        for step in [one for one in waiting if one.when(seen)]:
            step.act()
            tell(step.says)
            waiting.remove(step)
        empty = 0 if seen.on_its_way else empty + 1
