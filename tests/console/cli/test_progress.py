"""A line that shows that `dlq` waits, and is gone when the answer is there."""

from __future__ import annotations

import io
import sys

import pytest

from console.cli import progress
from tests.console.terminal import Terminal


@pytest.mark.parametrize(
    ("screen", "written"),
    [(Terminal(), "\r\x1b[KAsking about \\x1b[2J\r\x1b[K"), (io.StringIO(), "")],
    ids=["terminal", "log"],
)
def test_a_person_at_a_terminal_sees_what_is_waited_for_and_then_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch, screen: io.StringIO, written: str
) -> None:
    """A log gets no line, and no text controls the terminal."""
    monkeypatch.setattr(sys, "stderr", screen)
    progress.say("Asking about \x1b[2J")
    progress.end()
    progress.end()
    assert screen.getvalue() == written
