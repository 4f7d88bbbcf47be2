"""A line that shows that `dlq` waits, and is gone when the answer is there."""

from __future__ import annotations

import io
from threading import Event

import pytest

from console.cli.progress import waiting
from tests.console.terminal import Terminal


def test_a_person_at_a_terminal_sees_what_is_waited_for_and_then_nothing_of_it() -> None:
    screen = Terminal()
    with waiting("Asking AWS", file=screen):
        pass
    written = screen.getvalue()
    assert written.startswith("\rAsking AWS …")
    assert written.endswith("\r")
    assert not written.rpartition("\r")[0].rpartition("\r")[2].strip()


def test_it_says_how_long_it_takes() -> None:
    screen, seconds = Terminal(), iter([0.0, 75.0])
    with waiting("Asking AWS", file=screen, clock=lambda: next(seconds)):
        pass
    assert "Asking AWS … 1 min" in screen.getvalue()


def test_a_log_gets_no_line() -> None:
    log = io.StringIO()
    with waiting("Asking AWS", file=log):
        pass
    assert log.getvalue() == ""


def test_the_line_is_gone_after_ctrl_c_too() -> None:
    screen = Terminal()
    with pytest.raises(KeyboardInterrupt), waiting("Asking AWS", file=screen):
        raise KeyboardInterrupt
    assert screen.getvalue().endswith("\r")


def test_what_is_waited_for_can_not_control_the_terminal() -> None:
    screen = Terminal()
    with waiting("an app named \x1b[2J", file=screen):
        pass
    assert "\x1b" not in screen.getvalue()


def test_it_says_what_else_is_waited_for() -> None:
    screen, said, times = Terminal(), Event(), iter([0.0, 5.0])

    def clock() -> float:
        now = next(times)
        if now:
            said.wait()
        return now

    with waiting("Asking AWS", file=screen, clock=clock) as say:
        say("Waiting for another run\x1b[2J")
        said.set()
    assert "Waiting for another run" in screen.getvalue()
    assert "\x1b" not in screen.getvalue()
