"""A container that polls its queue: `deadletter.consumer.poll`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deadletter.consumer import Permanent, Transient, poll, runtime
from deadletter.settings.pipeline import Pipeline
from deadletter.testing import Letterbox
from deadletter.testing.letterbox import VISIBILITY

ROOT = Path(__file__).parents[2]
HANGS = 60.0


def test_messages_are_processed_and_deleted(letterbox: Letterbox) -> None:
    seen: list[str] = []
    for number in range(25):
        letterbox.send(str(number))
    letterbox.poll(lambda record: seen.append(record["body"]))
    assert sorted(seen, key=int) == [str(number) for number in range(25)]
    assert letterbox.waiting == []
    assert letterbox.metrics == {"Processed": 25}


def test_a_failed_message_stays_and_a_permanent_one_is_parked(letterbox: Letterbox) -> None:
    def each(record: dict[str, Any]) -> None:
        if record["body"] == "busy":
            raise Transient("busy", retry_after=60)
        if record["body"] == "bad":
            raise Permanent("no such product")

    busy, bad, _ = (letterbox.send(body) for body in ("busy", "bad", "good"))
    letterbox.poll(each)
    # A new cause of failure parks no first receive.
    letterbox.clock.advance(VISIBILITY)
    letterbox.poll(each)
    assert letterbox.waiting == ["busy"]
    assert [parked.stamp.origin for parked in letterbox.parked] == [bad]
    assert letterbox.ledger(busy).last.category == "transient"


def test_a_message_stays_hidden_as_long_as_its_failure_says(letterbox: Letterbox) -> None:
    """The receive hides it for a minute; the library says for how long from then on."""
    seen: list[float] = []

    def each(_: Any) -> None:
        seen.append(letterbox.clock())
        raise Transient("busy", retry_after=600)

    letterbox.send("x")
    letterbox.poll(each)
    letterbox.clock.advance(590)
    letterbox.poll(each)
    assert len(seen) == 1
    letterbox.clock.advance(20)
    letterbox.poll(each)
    assert len(seen) == 2


def test_a_record_is_as_lambda_passes_it(letterbox: Letterbox) -> None:
    records: list[dict[str, Any]] = []
    letterbox.send({"orderId": 7}, attributes={"tenant": "acme"})
    letterbox.poll(records.append)
    letterbox.send({"orderId": 7}, attributes={"tenant": "acme"})
    letterbox.run(lambda event, _: records.extend(event["Records"]))
    polled, passed = records
    assert polled.keys() == passed.keys()
    same = ("body", "md5OfBody", "messageAttributes", "eventSource", "eventSourceARN", "awsRegion")
    assert [polled[name] for name in same] == [passed[name] for name in same]


@pytest.mark.parametrize("concurrency", [1, 4, 10, 25, 64])
def test_so_many_messages_are_handled_at_the_same_time(
    letterbox: Letterbox, concurrency: int
) -> None:
    barrier = threading.Barrier(min(concurrency, 10), timeout=HANGS)
    for number in range(100):
        letterbox.send(str(number))
    seen: Counter[str] = Counter()
    lock = threading.Lock()

    def each(record: dict[str, Any]) -> None:
        if concurrency == 10:
            barrier.wait()
        with lock:
            seen[record["body"]] += 1

    letterbox.poll(each, concurrency=concurrency)
    assert len(seen) == 100
    assert set(seen.values()) == {1}
    assert letterbox.waiting == []


def test_async_handlers_are_polled_for_as_well(letterbox: Letterbox) -> None:
    loops: set[int] = set()

    async def each(_: Any) -> None:
        loops.add(id(asyncio.get_running_loop()))

    for number in range(12):
        letterbox.send(str(number))
    letterbox.poll(each, concurrency=3)
    assert len(loops) == 1
    assert letterbox.waiting == []


def test_a_fifo_group_stays_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Letterbox(Pipeline("test", fifo=True))
    monkeypatch.setattr(runtime, "current_runtime", lambda: box.runtime)
    for number in range(30):
        box.send(str(number), group=str(number % 3))
    seen: list[str] = []
    box.poll(lambda record: seen.append(record["body"]), concurrency=8)
    assert sorted(map(int, seen)) == list(range(30))
    for group in range(3):
        own = [int(body) for body in seen if int(body) % 3 == group]
        assert own == sorted(own)


def test_without_metrics_only_failures_are_written(letterbox: Letterbox) -> None:
    def each(record: dict[str, Any]) -> None:
        if record["body"] == "bad":
            raise ValueError("no")

    for body in ("good", "bad"):
        letterbox.send(body)
    letterbox.poll(each, metrics=None)
    [line] = map(json.loads, letterbox.lines)
    assert line["fate"] == "ProcessingFailure"


@pytest.fixture
def off(letterbox: Letterbox, monkeypatch: pytest.MonkeyPatch) -> Letterbox:
    """The letterbox's queue, polled with DEADLETTER=off."""
    switched_off = replace(
        letterbox.runtime, consumer=None, queue_url="", write_line=letterbox.lines.append
    )
    letterbox._runtime = switched_off
    return letterbox


def test_switched_off_messages_are_processed_and_deleted(off: Letterbox) -> None:
    def each(record: dict[str, Any]) -> None:
        if record["body"] == "bad":
            raise ValueError("no")

    for body in ("good", "bad"):
        off.send(body)
    off.poll(each, queue_url=off.main)
    assert off.waiting == ["bad"]
    assert off.dynamodb.items("messages") == []


def test_switched_off_the_queue_has_to_be_named(off: Letterbox) -> None:
    with pytest.raises(ValueError, match=r"DEADLETTER=off.*poll\(…, queue_url="):
        poll(len)


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({"concurrency": 0}, "1 to 64"),
        ({"longest": 0}, "1 to 43000 seconds"),
        ({"longest": float("nan")}, "1 to 43000 seconds"),
        ({"stop_within": -1}, "1 to 43000 seconds"),
        ({"metrics": "statsd"}, '"emf" or None'),
    ],
)
def test_invalid_options_are_refused_before_anything_is_received(
    letterbox: Letterbox, options: dict[str, Any], allowed: str
) -> None:
    letterbox.send("x")
    with pytest.raises(ValueError, match=allowed):
        poll(len, **options)
    assert len(letterbox.waiting) == 1


# The end.


def test_what_is_in_hand_is_finished_when_the_end_is_asked_for(letterbox: Letterbox) -> None:
    stop = threading.Event()
    for number in range(3):
        letterbox.send(str(number))

    def each(record: dict[str, Any]) -> None:
        stop.set()

    poll(each, concurrency=3, stop=stop)
    assert letterbox.waiting == []


def test_a_handler_that_hangs_at_the_end_is_left_and_its_message_given_back(
    letterbox: Letterbox,
) -> None:
    stop, release = threading.Event(), threading.Event()
    for body in ("hangs", "good"):
        letterbox.send(body)

    def each(record: dict[str, Any]) -> None:
        if record["body"] == "hangs":
            stop.set()
            release.wait(HANGS)

    began = time.monotonic()
    try:
        poll(each, concurrency=2, stop=stop, stop_within=1.0)
        assert time.monotonic() - began < HANGS / 2
        assert letterbox.waiting == ["hangs"]
        # Visible at once: nothing waits for the receive's minute.
        assert letterbox.run(lambda *_: {"batchItemFailures": [{"itemIdentifier": ""}]}).received
    finally:
        release.set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_polling_and_the_handlers_before_are_back(
    letterbox: Letterbox, number: signal.Signals
) -> None:
    before = signal.getsignal(number)
    letterbox.send("x")

    def each(_: Any) -> None:
        os.kill(os.getpid(), number)

    poll(each)
    assert letterbox.waiting == []
    assert signal.getsignal(number) is before


CONTAINER = """
import sys
from deadletter.consumer import poll, runtime
from deadletter.settings.pipeline import Pipeline
from deadletter.testing import Letterbox

box = Letterbox(Pipeline("test"))
runtime.current_runtime = lambda: box.runtime
for number in range(5):
    box.send(str(number))


def each(record):
    print("handles", record["body"], flush=True)


poll(each)
print("left", box.waiting, flush=True)
"""


def test_a_container_ends_by_sigterm() -> None:
    """It long-polls an empty queue when the signal comes."""
    with subprocess.Popen(
        [sys.executable, "-c", CONTAINER],
        env={**os.environ, "PYTHONPATH": str(ROOT / "lambdas")},
        stdout=subprocess.PIPE,
        text=True,
    ) as container:
        assert container.stdout is not None
        lines = [container.stdout.readline() for _ in range(5)]
        assert all(line.startswith(("handles", "{")) for line in lines)
        container.send_signal(signal.SIGTERM)
        rest = container.stdout.read()
        assert container.wait(HANGS) == 0
    assert "left []" in rest


def test_an_error_that_ends_the_process_ends_polling(letterbox: Letterbox) -> None:
    def each(_: Any) -> None:
        raise KeyboardInterrupt

    letterbox.send("x")
    with pytest.raises(KeyboardInterrupt):
        poll(each)
    assert letterbox.waiting == ["x"]
