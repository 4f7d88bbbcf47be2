"""A container that is killed at any of its calls: no message is lost, none is deleted undone."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from deadletter.consumer import Transient
from deadletter.consumer.polling import _Ending, _Pollers
from deadletter.consumer.runtime import Runtime
from deadletter.failure.blame import SILENT
from deadletter.processing.crew import InTurn
from deadletter.processing.poller import HELD_SECONDS
from deadletter.settings.backoff import Backoff
from deadletter.settings.pipeline import Pipeline
from deadletter.testing import Letterbox

BODIES = ("good", "busy", "good too", "bad")


class Killed(BaseException):
    """The process is gone: nothing of it runs on."""


class Mortal:
    """A client whose process is killed at its call number `at`, before or after the call."""

    def __init__(self, inner: Any, schedule: Schedule) -> None:
        self._inner = inner
        self._schedule = schedule

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if not callable(value) or name.startswith("_") or name in ("items", "snapshot"):
            return value

        def call(**options: Any) -> Any:
            self._schedule.before()
            answer = value(**options)
            self._schedule.after()
            return answer

        return call


class Schedule:
    """When the process dies: at call number `at`, before it is made or after it was."""

    def __init__(self, at: int, *, after: bool) -> None:
        self.calls = 0
        self._at, self._after = at, after

    def before(self) -> None:
        if self.calls == self._at and not self._after:
            raise Killed
        self.calls += 1

    def after(self) -> None:
        if self.calls == self._at + 1 and self._after:
            raise Killed


class Consequences:
    """What the handler has done, and what is left of each message."""

    def __init__(self, box: Letterbox) -> None:
        self.box = box
        self.effects: Counter[str] = Counter()
        self.busy = True

    def each(self, record: Any) -> None:
        body = record["body"]
        if body == "busy" and self.busy:
            raise Transient("busy")
        if body == "bad":
            raise ValueError("bad")
        self.effects[body] += 1


def turns(box: Letterbox, each: Any, schedule: Schedule | None, number: int) -> None:
    """So many receives of one process, which `schedule` may kill."""
    from threading import Event

    box._runtime = None
    sqs, dynamodb = box.sqs, box.dynamodb
    if schedule is not None:
        mortal: Any = Mortal(box.dynamodb, schedule)
        box.dynamodb = mortal
    current: Runtime = box.runtime
    source = current.source(box.main)
    if schedule is not None:
        client: Any = Mortal(source.client, schedule)  # type: ignore[attr-defined]
        source.client = source.receiving = client  # type: ignore[attr-defined]
    # One thread, so that a schedule is the same in each run.
    assert current.consumer is not None
    current = replace(current, consumer=replace(current.consumer, crew=InTurn(box.clock)))
    ending = _Ending(Event(), box.clock, 25.0)
    pollers = _Pollers(
        each, current, source, SILENT, ending, concurrency=1, longest=300.0, crew=InTurn(box.clock)
    )
    poller = pollers.poller(1)
    try:
        for _ in range(number):
            poller.turn()
    finally:
        box.sqs, box.dynamodb = sqs, dynamodb
        box._runtime = None


def settings() -> Pipeline:
    return Pipeline("test", retry=Backoff(base=0, floor=0))


def calls_of_a_run() -> int:
    box = Letterbox(settings())
    for body in BODIES:
        box.send(body)
    schedule = Schedule(-1, after=False)
    turns(box, Consequences(box).each, schedule, 4)
    return schedule.calls


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(at, marks=pytest.mark.nightly) for at in (1, 2))]
)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_process_killed_at_any_call_loses_no_message_and_deletes_none_undone(
    after: bool, first: int
) -> None:
    number = calls_of_a_run()
    assert number > 15
    for at in range(first, number, 3):
        box = Letterbox(settings(), max_receive_count=50)
        for body in BODIES:
            box.send(body)
        seen = Consequences(box)
        with pytest.raises(Killed):
            turns(box, seen.each, Schedule(at, after=after), 20)
        gone = Counter(BODIES) - Counter(box.waiting)
        assert gone <= seen.effects, (at, gone)
        # The next process: the claims of the first have ended.
        box.clock.advance(HELD_SECONDS + 400)
        seen.busy = False
        turns(box, seen.each, None, 40)
        assert box.waiting == ["bad"], at
        done = {body: seen.effects[body] for body in BODIES if body != "bad"}
        assert set(done) == {"good", "busy", "good too"}
        assert all(1 <= times <= 2 for times in done.values()), (at, done)
        # An effect is doubled only if the process died between it and its record.
        assert sum(done.values()) <= 4, (at, done)
