"""Messages of one batch that are handled at the same time, in threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from deadletter.failure.fate import Fate
from deadletter.failure.signals import DependencyOpen, Permanent
from deadletter.message.letter import Letter
from deadletter.processing.batch import Consumer
from deadletter.processing.crew import MOST_AT_ONCE, Threads
from deadletter.processing.delivery import Delivery
from deadletter.processing.named_dependencies import dependency
from deadletter.processing.unguarded import process_unguarded
from deadletter.settings.pipeline import Pipeline
from tests.each_row import each_row
from tests.processing.doubles import DEADLINE, Site, record
from tests.samples import NOW, letter

HANGS = 5.0
"""Seconds after which a barrier or an event of these tests gives up."""


def concurrent(site: Site, handle: Callable[[Delivery], object]) -> Consumer:
    return replace(site.consumer(handle), crew=Threads(site.clock))


def messages(number: int, **system: str) -> list[dict[str, Any]]:
    return [record(letter(message_id=f"m{position}", **system)) for position in range(number)]


def fates(result: Any) -> list[str]:
    return [message.fate.name for message in result.results]


def name_of(delivery: Delivery) -> str:
    return delivery.letter.message_id


def test_as_many_messages_as_asked_are_handled_at_the_same_time() -> None:
    site, barrier = Site(), threading.Barrier(4, timeout=HANGS)
    result = concurrent(site, lambda _: barrier.wait()).process(
        messages(8), deadline=DEADLINE, concurrency=4
    )
    assert fates(result) == ["PROCESSED"] * 8
    assert set(site.claims.states().values()) == {"done"}


def test_no_more_than_that_are_handled_at_the_same_time() -> None:
    site, lock = Site(), threading.Lock()
    running, most = 0, 0

    def handle(_: Delivery) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.002)
        with lock:
            running -= 1

    concurrent(site, handle).process(messages(30), deadline=DEADLINE, concurrency=3)
    assert most <= 3


def test_the_results_are_in_the_records_order() -> None:
    site = Site()
    turns = [threading.Event() for _ in range(4)]

    def handle(delivery: Delivery) -> None:
        position = int(name_of(delivery)[1:])
        if position < 3:
            assert turns[position + 1].wait(HANGS)
        turns[position].set()
        if position % 2:
            raise TimeoutError(str(position))

    result = concurrent(site, handle).process(messages(4), deadline=DEADLINE, concurrency=4)
    assert [message.message_id for message in result.results] == ["m0", "m1", "m2", "m3"]
    assert fates(result) == ["PROCESSED", "FAILED", "PROCESSED", "FAILED"]
    assert result.failed == ("m1", "m3")


def test_without_concurrency_messages_are_handled_in_order_in_the_callers_thread() -> None:
    site, seen = Site(), list[tuple[str, int]]()
    concurrent(site, lambda d: seen.append((name_of(d), threading.get_ident()))).process(
        messages(5), deadline=DEADLINE
    )
    assert seen == [(f"m{position}", threading.get_ident()) for position in range(5)]


def test_messages_of_one_lane_run_in_order_and_lanes_beside_each_other() -> None:
    site, barrier = Site(), threading.Barrier(2, timeout=HANGS)
    seen: dict[str, list[str]] = {"0": [], "1": []}

    def handle(delivery: Delivery) -> None:
        lane = str(int(name_of(delivery)[1:]) % 2)
        barrier.wait()
        seen[lane].append(name_of(delivery))

    result = concurrent(site, handle).process(
        messages(6),
        deadline=DEADLINE,
        concurrency=8,
        lane=lambda delivery: int(name_of(delivery)[1:]) % 2,
    )
    assert seen == {"0": ["m0", "m2", "m4"], "1": ["m1", "m3", "m5"]}
    assert fates(result) == ["PROCESSED"] * 6


def of_group(name: str, group: str) -> dict[str, Any]:
    return record(letter(message_id=name, MessageGroupId=group))


@pytest.mark.parametrize("lane", [None, lambda delivery: name_of(delivery)])
def test_on_fifo_a_group_stays_in_order_whatever_lane_is_asked_for(lane: Any) -> None:
    site = Site(Pipeline("orders", fifo=True), raises={"a2": TimeoutError()})
    batch = [of_group(name, name[0]) for name in ("a1", "b1", "a2", "b2", "a3", "b3")]
    result = concurrent(site, site.handle).process(
        batch, deadline=DEADLINE, concurrency=8, lane=lane
    )
    assert [name for name in site.handled if name.startswith("a")] == ["a1", "a2"]
    assert [name for name in site.handled if name.startswith("b")] == ["b1", "b2", "b3"]
    names = ["PROCESSED", "PROCESSED", "FAILED", "PROCESSED", "HELD_BACK", "PROCESSED"]
    assert fates(result) == names


def test_on_fifo_a_slow_message_is_not_overtaken_by_its_group() -> None:
    site, others_done = Site(Pipeline("orders", fifo=True)), threading.Event()

    def handle(delivery: Delivery) -> None:
        if name_of(delivery) == "a1":
            assert others_done.wait(HANGS)
        site.handle(delivery)
        if name_of(delivery) == "b2":
            others_done.set()

    batch = [of_group(name, name[0]) for name in ("a1", "a2", "b1", "b2")]
    result = concurrent(site, handle).process(batch, deadline=DEADLINE, concurrency=8)
    assert site.handled == ["b1", "b2", "a1", "a2"]
    assert fates(result) == ["PROCESSED"] * 4


def test_each_message_sees_its_own_dependency_blocks() -> None:
    site, barrier = Site(), threading.Barrier(2, timeout=HANGS)

    def handle(delivery: Delivery) -> None:
        with dependency("bank" if name_of(delivery) == "m0" else "shop"):
            barrier.wait()
            if name_of(delivery) == "m1":
                raise TimeoutError("shop")

    result = concurrent(site, handle).process(messages(2), deadline=DEADLINE, concurrency=2)
    bank, shop = (
        {outcome.key for outcome in message.outcomes if outcome.key.startswith("dependency/")}
        for message in result.results
    )
    assert bank >= {"dependency/bank"}
    assert shop == {"dependency/shop"}
    assert result.results[1].circuit == "dependency/shop"
    assert not isinstance(result.results[0].error, DependencyOpen)


@each_row("concurrency", [0, -1, MOST_AT_ONCE + 1, 1.5, "4", True, None])
def test_another_concurrency_is_refused(concurrency: Any) -> None:
    with pytest.raises(ValueError, match="allowed: a whole number from 1 to 64"):
        Site().consumer().process([], deadline=DEADLINE, concurrency=concurrency)
    with pytest.raises(ValueError, match="allowed: a whole number from 1 to 64"):
        process_unguarded([], len, NOW, concurrency=concurrency)


def test_an_interrupt_in_a_handler_ends_the_batch() -> None:
    def handle(_: Delivery) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        concurrent(Site(), handle).process(messages(3), deadline=DEADLINE, concurrency=2)


# The deadline.


class Real:
    """The real clock, in epoch seconds."""

    def __call__(self) -> float:
        return time.time()


def on_real_time(site: Site, handle: Callable[[Delivery], object]) -> Consumer:
    clock = Real()
    return replace(site.consumer(handle), clock=clock, crew=Threads(clock))


def test_a_handler_that_still_runs_at_the_deadline_is_given_back_with_its_claim() -> None:
    """The next receive finds the claim: BUSY until it ends, so that no effect is doubled."""
    site, release = Site(), threading.Event()

    def handle(delivery: Delivery) -> None:
        if name_of(delivery) == "m1":
            release.wait(HANGS)

    deadline = time.time() + 2
    try:
        result = on_real_time(site, handle).process(messages(3), deadline=deadline, concurrency=2)
        assert time.time() < deadline
        assert fates(result) == ["PROCESSED", "UNFINISHED", "PROCESSED"]
        assert result.failed == ("m1",)
        assert site.claims.states()["origin:m1"] == "claimed"
        assert not any("m1" in handle for call in site.queue.calls for handle, _ in call)
        assert result.counts["HandlerUnfinished"] == 1
    finally:
        release.set()


def test_messages_behind_a_handler_that_hangs_are_given_back_untouched() -> None:
    site, release = Site(), threading.Event()
    deadline = time.time() + 0.5
    try:
        result = on_real_time(site, lambda _: release.wait(HANGS)).process(
            messages(5), deadline=deadline, concurrency=2
        )
        assert fates(result) == ["UNFINISHED"] * 2 + ["LATE"] * 3
        assert len(site.claims.states()) == 2
    finally:
        release.set()


@pytest.mark.parametrize("error", [None, TimeoutError("late"), Permanent("late")])
def test_a_handler_that_ends_after_its_batch_ends_its_claim_and_parks_nothing(
    error: Exception | None,
) -> None:
    site, release = Site(), threading.Event()
    threads: list[threading.Thread] = []

    def handle(_: Delivery) -> None:
        threads.append(threading.current_thread())
        release.wait(HANGS)
        if error is not None:
            raise error

    result = on_real_time(site, handle).process(
        messages(2), deadline=time.time() + 0.3, concurrency=2
    )
    assert fates(result) == ["UNFINISHED"] * 2
    release.set()
    for thread in threads:
        thread.join(HANGS)
    assert set(site.claims.states().values()) == {"withdraw" if error else "done"}
    assert site.lot.sent == []
    assert site.log.failures == []


def test_a_claim_that_takes_too_long_leaves_its_message_unhandled() -> None:
    site = Site()
    claim = site.claims.claim

    def slow(*arguments: Any) -> Any:
        site.clock.now = DEADLINE - 1
        return claim(*arguments)

    site.claims.claim = slow  # type: ignore[method-assign]  # the table answers late
    result = site.process(record(letter()))
    assert fates(result) == ["LATE"]
    assert site.handled == []
    assert site.claims.states() == {"origin:m1": "withdraw"}


def test_one_slow_lane_does_not_delay_the_others() -> None:
    site, others = Site(), threading.Barrier(1)
    done, lock = list[str](), threading.Lock()
    release = threading.Event()

    def handle(delivery: Delivery) -> None:
        if name_of(delivery) == "m0":
            assert release.wait(HANGS)
        others.wait()
        with lock:
            done.append(name_of(delivery))
            if len(done) == 9:
                release.set()

    result = concurrent(site, handle).process(messages(10), deadline=DEADLINE, concurrency=10)
    assert done[-1] == "m0"
    assert fates(result) == ["PROCESSED"] * 10


# Switched off.


def plain(name: str, arn: str = "arn:aws:sqs:::q", group: str = "") -> dict[str, Any]:
    sent: Letter = letter(message_id=name, **({"MessageGroupId": group} if group else {}))
    return record(sent, arn=arn)


def test_switched_off_messages_are_handled_at_the_same_time_as_well() -> None:
    barrier = threading.Barrier(3, timeout=HANGS)
    batch = [plain(f"m{position}") for position in range(3)]
    result = process_unguarded(
        batch, lambda _: barrier.wait(), NOW, crew=Threads(lambda: NOW), concurrency=3
    )
    assert [message.fate for message in result.results] == [Fate.PROCESSED] * 3


def test_switched_off_a_fifo_group_stays_in_order() -> None:
    seen: list[str] = []

    def each(item: Any) -> None:
        seen.append(item["messageId"])
        if item["messageId"] == "a1":
            raise TimeoutError

    batch = [plain(name, "arn:aws:sqs:::q.fifo", name[0]) for name in ("a1", "a2", "b1", "b2")]
    result = process_unguarded(batch, each, NOW, crew=Threads(lambda: NOW), concurrency=4)
    assert fates(result) == ["FAILED", "HELD_BACK", "PROCESSED", "PROCESSED"]
    assert sorted(seen) == ["a1", "b1", "b2"]
