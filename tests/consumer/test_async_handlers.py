"""Async handlers: one event loop for a process, several messages at a time, an end in time."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from deadletter.consumer import Permanent, Transient, consume, consumer, dependency, runtime
from deadletter.consumer.async_handlers import Loop
from deadletter.failure.signals import OutOfTime
from deadletter.processing.named_dependencies import DependencyCalls, _calls
from deadletter.testing import Letterbox
from deadletter.testing.letterbox import VISIBILITY

HANGS = 5.0


async def turn() -> None:
    """Let the loop run the other handlers, for some milliseconds."""
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), 0.01)


def test_an_async_handler_does_its_work(letterbox: Letterbox) -> None:
    seen: list[str] = []

    @consumer
    async def handler(record: dict[str, Any]) -> None:
        await turn()
        seen.append(record["body"])

    letterbox.send("x")
    assert letterbox.run(handler).acknowledged
    assert seen == ["x"]
    assert letterbox.metrics == {"Processed": 1}


@pytest.mark.parametrize("off", [False, True])
def test_so_many_run_at_the_same_time_in_one_loop(
    letterbox: Letterbox, monkeypatch: pytest.MonkeyPatch, off: bool
) -> None:
    if off:
        switched_off = runtime.runtime_from("off")
        monkeypatch.setattr(runtime, "current_runtime", lambda: switched_off)
    loops: set[int] = set()
    running, most = 0, 0

    @consumer(concurrency=4)
    async def handler(record: dict[str, Any]) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        loops.add(id(asyncio.get_running_loop()))
        await turn()
        running -= 1

    for number in range(10):
        letterbox.send(str(number))
    assert len(letterbox.run(handler).acknowledged) == 10
    assert most == 4
    assert len(loops) == 1


def test_a_client_made_in_one_batch_works_in_the_next(letterbox: Letterbox) -> None:
    locks: list[asyncio.Lock] = []

    async def each(_: Any) -> None:
        if not locks:
            locks.append(asyncio.Lock())
        async with locks[0]:
            await turn()

    for _ in range(2):
        for number in range(3):
            letterbox.send(str(number))
        run = letterbox.run(lambda event, context: consume(event, context, each, concurrency=3))
        assert len(run.acknowledged) == 3


def test_an_error_of_an_async_handler_is_its_messages_failure(letterbox: Letterbox) -> None:
    @consumer(concurrency=2)
    async def handler(record: dict[str, Any]) -> None:
        await turn()
        if record["body"] == "bad":
            raise Permanent("no such product")
        if record["body"] == "later":
            raise Transient("busy", retry_after=60)

    bad, later, good = (letterbox.send(body) for body in ("bad", "later", "good"))
    run = letterbox.run(handler)
    assert run.acknowledged == (good,)
    assert sorted(run.returned) == sorted([bad, later])
    letterbox.clock.advance(VISIBILITY)
    assert letterbox.run(handler).acknowledged == (bad,)
    assert [parked.stamp.origin for parked in letterbox.parked] == [bad]


@pytest.mark.parametrize("error", [SystemExit(2), asyncio.CancelledError(), StopIteration()])
def test_an_error_that_would_end_the_loop_fails_one_message(
    letterbox: Letterbox, error: BaseException
) -> None:
    @consumer
    async def handler(record: dict[str, Any]) -> None:
        if record["body"] == "bad":
            raise error

    for body in ("bad", "good"):
        letterbox.send(body)
    letterbox.run(handler)
    assert letterbox.waiting == ["bad"]


def test_a_dependency_block_sees_its_own_message(letterbox: Letterbox) -> None:
    # Kept, not only their ids: the id of an object that is gone may be given to another one.
    calls: list[DependencyCalls | None] = []

    @consumer(concurrency=3)
    async def handler(record: dict[str, Any]) -> None:
        with dependency("bank"):
            await turn()
            calls.append(_calls.get())

    for number in range(3):
        letterbox.send(str(number))
    assert len(letterbox.run(handler).acknowledged) == 3
    assert None not in calls
    assert len({id(each) for each in calls}) == 3


def in_seconds(seconds: float) -> Any:
    deadline = time.monotonic() + seconds
    return SimpleNamespace(
        get_remaining_time_in_millis=lambda: (deadline - time.monotonic()) * 1000
    )


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_handler_is_cancelled_before_the_deadline_and_its_claim_withdrawn(
    letterbox: Letterbox, concurrency: int
) -> None:
    """It has ended: the next receive may handle the message at once."""
    cleaned: list[str] = []

    async def each(record: dict[str, Any]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(record["body"])

    letterbox.send("x")
    context = in_seconds(2)
    began = time.monotonic()
    run = letterbox.run(lambda event, _: consume(event, context, each, concurrency=concurrency))
    assert time.monotonic() - began < HANGS
    assert len(run.returned) == 1
    assert cleaned == ["x"]
    assert letterbox.metrics["HandlerUnfinished"] == 1
    [claim] = [item for item in letterbox.dynamodb.items("messages") if "until" in item]
    assert claim["status"]["S"] != "CLAIMED"


def test_a_handler_that_blocks_the_loop_is_left_behind_with_its_claim(
    letterbox: Letterbox,
) -> None:
    release = threading.Event()

    async def each(_: Any) -> None:
        release.wait(HANGS)

    letterbox.send("x")
    context = in_seconds(0.4)
    try:
        run = letterbox.run(lambda event, _: consume(event, context, each, concurrency=2))
        assert len(run.returned) == 1
        [claim] = [item for item in letterbox.dynamodb.items("messages") if "until" in item]
        assert claim["status"]["S"] == "CLAIMED"
    finally:
        release.set()


def test_a_handler_that_outlives_its_cancellation_is_not_ended() -> None:
    async def stubborn() -> None:
        for _ in range(100):
            try:
                await turn()
            except asyncio.CancelledError:
                continue

    with pytest.raises(OutOfTime) as late:
        Loop().run(stubborn(), 0.01)
    assert not late.value.ended


def test_a_handler_that_returns_when_it_is_cancelled_has_processed_its_message() -> None:
    async def prompt() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done"
        return "never"

    assert Loop().run(prompt(), 0.01) == "done"


def test_an_async_generator_does_no_work_and_comes_back(letterbox: Letterbox) -> None:
    @consumer
    async def handler(record: dict[str, Any]) -> Any:
        yield record

    letterbox.send("x")
    letterbox.run(handler)
    assert letterbox.waiting == ["x"]
