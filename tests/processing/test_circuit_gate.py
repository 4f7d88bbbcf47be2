"""What a batch learns of its circuits while it is processed, and what it tells them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from threading import Thread
from typing import Any

import pytest

from deadletter.circuit.outcomes import hash_of_tenant
from deadletter.circuit.state import Circuit, CircuitPolicy, OutcomeBucket, State
from deadletter.failure.signals import Transient
from deadletter.pace.pace import (
    IDLE_SECONDS,
    LONGEST_PLACE,
    SHORTEST_LONG_PLACE,
    TOKEN_SECONDS,
    CallCount,
    Wish,
)
from deadletter.processing.batch import _Batch
from deadletter.processing.delivery import Delivery
from deadletter.processing.named_dependencies import dependency
from deadletter.processing.pacer import LONGEST_PAUSE
from deadletter.processing.result import BatchResult
from deadletter.settings.pipeline import Pipeline
from tests.processing.doubles import DEADLINE, PACE, UNAVAILABLE, Site, record, redriven
from tests.samples import NOW, letter

CONFIG = "orders#config"


def fates(result: BatchResult) -> list[str]:
    return [message.fate.name for message in result.results]


def messages(number: int) -> list[dict[str, Any]]:
    return [record(letter(message_id=f"m{at}")) for at in range(1, number + 1)]


def failing(number: int, **fields: Any) -> Site:
    """A site whose first messages find the dependency down."""
    return Site(raises={f"m{at}": TimeoutError() for at in range(1, number + 1)}, **fields)


def slowly(site: Site, seconds: float) -> Any:
    """The site's handler, which takes so long for each message."""

    def handle(delivery: Delivery) -> None:
        site.clock.now += seconds
        site.handle(delivery)

    return handle


def test_each_failure_is_told_in_the_midst_of_a_batch_and_the_successes_at_its_end() -> None:
    site = failing(2)
    told: list[int] = []

    def handle(delivery: Delivery) -> None:
        told.append(len(site.outcomes.reported))
        site.handle(delivery)

    site.process(*messages(5), handle=handle)
    assert told == [0, 1, 2, 2, 2]
    assert site.outcomes.reported == [("orders", 0, 1), ("orders", 0, 1), ("orders", 3, 0)]


def test_a_failure_is_told_with_the_successes_before_it() -> None:
    site = Site(raises={"m3": TimeoutError()})
    site.process(*messages(3))
    assert site.outcomes.reported == [("orders", 2, 1)]


def test_the_rest_of_a_batch_is_refused_as_soon_as_its_failures_open_the_circuit() -> None:
    site = failing(10)
    site.outcomes.opens_at = 3
    result = site.process(*messages(10))
    assert fates(result) == ["FAILED"] * 3 + ["REFUSED"] * 7
    assert site.handled == ["m1", "m2", "m3"]


def test_the_failure_that_opens_a_circuit_is_not_recorded_as_one_while_it_was_open() -> None:
    site = failing(1)
    site.outcomes.opens_at = 1
    site.process(*messages(1))
    [(_, failure)] = site.log.failures
    assert not failure.dependency_down


def test_what_a_circuit_refuses_is_told_as_no_call() -> None:
    site = failing(10)
    site.outcomes.opens_at = 3
    site.process(*messages(10))
    told = [counts for counts in site.outcomes.counts if counts.refused]
    assert [(counts.refused, counts.total, counts.streak) for counts in told] == [(7, 0, 0)]


def test_a_batch_learns_within_a_second_that_the_circuit_has_opened() -> None:
    site = Site()

    def handle(delivery: Delivery) -> None:
        site.clock.now += 0.4
        site.handle(delivery)
        if len(site.handled) == 2:
            site.circuits.open()

    result = site.process(*messages(6), handle=handle)
    # Read at 0 s and at 1.2 s, before the fourth message: then twice, to be sure.
    assert fates(result) == ["PROCESSED"] * 3 + ["REFUSED"] * 3
    assert site.circuits.lagging == [False, True, False]


@pytest.mark.parametrize(("seconds", "reads"), [(0.1, 1), (0.5, 3), (1.0, 6), (3.0, 6)])
def test_a_batch_reads_its_circuits_at_most_once_a_second(seconds: float, reads: int) -> None:
    site = Site()
    site.process(*messages(6), handle=slowly(site, seconds))
    assert len(site.circuits.reads) == reads


def test_a_batch_learns_that_the_circuit_has_closed() -> None:
    site = Site()
    site.circuits.open()

    def read(keys: Any, **_: Any) -> Any:
        site.clock.now += 1
        site.circuits.reads.append(keys)
        state = State.OPEN if len(site.circuits.reads) < 3 else State.CLOSED
        return {key: Circuit(key, state) for key in keys}

    site.circuits.read = read  # type: ignore[method-assign] # a store that takes a second
    assert fates(site.process(*messages(4))) == ["REFUSED"] * 2 + ["PROCESSED"] * 2


def test_circuits_that_stop_answering_leave_what_is_known_and_are_not_asked_again() -> None:
    site = Site()
    site.circuits.open("orders", until=NOW + 30)

    def read(keys: Any, **_: Any) -> Any:
        site.circuits.reads.append(keys)
        site.clock.now += 1
        if len(site.circuits.reads) >= 2:
            raise UNAVAILABLE["circuits"]()
        return {key: Circuit(key, State.OPEN, open_until=NOW + 30) for key in keys}

    site.circuits.read = read  # type: ignore[method-assign] # a store that fails later
    result = site.process(*messages(5))
    assert fates(result) == ["REFUSED"] * 5
    assert len(site.circuits.reads) == 2
    assert result.counts["CircuitsUnavailable"] == 1


# A circuit that is calm is read at half the price, and the one for configuration once a minute.


def test_calm_circuits_are_read_cheaply_and_the_one_for_configuration_once_a_minute() -> None:
    site = Site()
    consumer = site.consumer()
    for _ in range(7):
        consumer.process(messages(1), deadline=site.clock.now + 30)
        site.clock.now += 10
    assert site.circuits.reads == [["orders", CONFIG], *[["orders"]] * 5, ["orders", CONFIG]]
    assert site.circuits.lagging == [False] + [True] * 6


@pytest.mark.parametrize(
    "trouble",
    [
        {"state": State.OPEN},
        {"streak": 1},
        {"closed_at": NOW},
        {"pace": PACE},
        {"calls": (CallCount(1, failed=1),)},
        {"buckets": (OutcomeBucket(CircuitPolicy().bucket_of(NOW), bad=1),)},
        {"buckets": (OutcomeBucket(CircuitPolicy().bucket_of(NOW), good=1, slow=1),)},
        {"unreadable": True, "state": State.OPEN},
    ],
)
def test_a_circuit_that_something_speaks_against_is_read_consistently(trouble: Any) -> None:
    site = Site()
    consumer = site.consumer()
    consumer.process(messages(1), deadline=DEADLINE)
    site.circuits.circuits["orders"] = Circuit("orders", **trouble)
    for _ in range(2):
        site.clock.now += 1
        consumer.process(messages(1), deadline=DEADLINE)
    # Once more when it is found, and from then on at once.
    assert site.circuits.lagging == [False, True, False, False]


def test_a_process_whose_message_fails_for_its_configuration_reads_that_circuit_again() -> None:
    site = Site(raises={"m2": Transient(status=403)})
    consumer = site.consumer()
    for message in messages(3):
        consumer.process([message], deadline=DEADLINE)
        site.clock.now += 1
    assert site.circuits.reads == [["orders", CONFIG], ["orders"], ["orders", CONFIG]]


def test_a_canary_neither_asks_nor_tells_its_circuits() -> None:
    site = failing(1)
    site.circuits.open()
    site.outcomes.opens_at = 1
    result = site.process(*messages(3), permit="p")
    assert fates(result) == ["FAILED", "PROCESSED", "PROCESSED"]
    assert site.outcomes.reported == []


# A circuit that is paced.


def paced(
    calls: int,
    pipeline: Pipeline | None = None,
    key: str = "orders",
    *,
    bounded: bool = False,
    **more: Any,
) -> Site:
    """A site whose circuit is paced, with so many calls left; its functions may be bounded."""
    site = Site(pipeline or Pipeline("orders"), **more)
    site.circuits.circuits["orders"] = Circuit("orders", bounded=bounded)
    own = Circuit(key, rate=5.0, closed_at=NOW - 10, pace=PACE, bounded=bounded)
    site.circuits.circuits[key] = own
    site.outcomes.left = calls
    return site


def hidden(site: Site) -> list[int]:
    """The seconds that messages were hidden for."""
    return [seconds for batch in site.queue.calls for _, seconds in batch]


def test_a_pace_lets_through_what_it_has_calls_for_and_the_rest_gets_places() -> None:
    site = paced(calls=4)
    result = site.process(*messages(10))
    assert fates(result) == ["PROCESSED"] * 4 + ["REFUSED"] * 6
    assert site.outcomes.wishes == [("orders", Wish(calls=10)), ("orders", Wish(places=6))]
    assert hidden(site) == [10, 20, 30, 40, 50, 60]
    assert result.counts["RefusedWhileOpen"] == 6
    assert {failure.error_type for _, failure in site.log.failures} == {"RefusedWhileOpen"}


@pytest.mark.parametrize(("receive", "is_whole"), [(1, False), (2, True)])
def test_a_fifo_group_that_returns_asks_for_all_its_calls(receive: int, is_whole: bool) -> None:
    site = paced(calls=9, pipeline=Pipeline("orders", fifo=True))
    site.process(*(record(letter(message_id=f"m{at}"), receive) for at in range(3)))
    [(_, wish)] = site.outcomes.wishes
    assert wish == Wish(calls=3, returning=is_whole, whole=is_whole)


def test_what_finds_no_call_waits_in_place_where_a_concurrency_bounds_the_functions() -> None:
    site = paced(calls=4, bounded=True)

    def handle(delivery: Delivery) -> None:
        site.handle(delivery)
        if len(site.handled) == 4:
            site.outcomes.left = 6

    result = site.process(*messages(10), handle=handle)
    assert fates(result) == ["PROCESSED"] * 10
    assert site.queue.calls == []
    assert site.pauses
    assert all(0 < seconds <= LONGEST_PAUSE for seconds in site.pauses)


def test_nobody_waits_in_place_beyond_the_time_to_begin_work() -> None:
    """A batch of 30 seconds begins nothing in its last three, and waits until a second before."""
    site = paced(calls=0, bounded=True)
    result = site.process(*messages(3))
    assert fates(result) == ["REFUSED"] * 3
    assert site.clock.now == pytest.approx(NOW + 26)
    assert hidden(site) == [10, 20, 30]


def test_a_thousand_functions_whose_number_nothing_bounds_wait_for_nothing() -> None:
    """Asleep they would fill an account. Each gives its batch back: all are busy for no second."""
    site = paced(calls=0)
    for _ in range(1_000):
        assert fates(site.process(*messages(1))) == ["REFUSED"]
    assert (site.clock.now, site.pauses) == (NOW, [])
    assert len(hidden(site)) == 1_000


BANK = "dependency/bank"


def ask_the_bank(site: Site) -> Any:
    """The site's handler, which calls the bank."""

    def handle(delivery: Delivery) -> None:
        with dependency("bank"):
            site.handle(delivery)

    return handle


def test_a_call_of_a_named_dependency_waits_in_place_for_two_seconds() -> None:
    """Its handler has begun, and holds the claim of its message."""
    site = paced(calls=0, key=BANK, bounded=True)
    assert fates(site.process(*messages(2), handle=ask_the_bank(site))) == ["REFUSED"] * 2
    assert site.clock.now == pytest.approx(NOW + 4)
    assert site.handled == []
    assert hidden(site) == [10, 10]


def test_a_call_of_a_named_dependency_is_let_through_once_there_is_one() -> None:
    site = paced(calls=0, key=BANK, bounded=True)

    def pause(seconds: float) -> None:
        site.clock.now += seconds
        site.outcomes.left = 1

    consumer = site.consumer(ask_the_bank(site))
    batch = _Batch(consumer, DEADLINE, False, lambda: DEADLINE, "", "")
    batch.gate.pause = pause
    assert fates(batch.run(messages(1))) == ["PROCESSED"]
    assert NOW < site.clock.now < NOW + 2


def test_a_coroutine_waits_for_no_call_because_it_shares_its_thread() -> None:
    site = paced(calls=0, key=BANK, bounded=True)
    handle = ask_the_bank(site)

    def in_a_coroutine(delivery: Delivery) -> None:
        async def work() -> None:
            handle(delivery)

        asyncio.run(work())

    assert fates(site.process(*messages(1), handle=in_a_coroutine)) == ["REFUSED"]
    assert (site.clock.now, site.pauses) == (NOW, [])


def test_as_many_calls_of_a_named_dependency_are_asked_for_as_the_last_batch_began() -> None:
    site = paced(calls=100, key=BANK)
    consumer = site.consumer(ask_the_bank(site))
    for batch in (messages(8)[:4], messages(8)[4:]):
        consumer.process(batch, deadline=DEADLINE)
    assert site.outcomes.wishes == [(BANK, Wish(calls=1))] * 4 + [(BANK, Wish(calls=4))]


def test_other_threads_go_on_while_a_message_waits_in_place() -> None:
    """The gate's lock is free meanwhile: a handler in another thread ends."""
    site = paced(calls=0, bounded=True)
    free: list[bool] = []
    consumer = site.consumer()
    batch = _Batch(consumer, DEADLINE, False, lambda: DEADLINE, "", "")

    def pause(seconds: float) -> None:
        site.clock.now += seconds

        def look() -> None:
            free.append(batch.gate._lock.acquire(timeout=1))
            if free[-1]:
                batch.gate._lock.release()

        thread = Thread(target=look)
        thread.start()
        thread.join()
        site.outcomes.left = 1

    batch.gate.pause = pause
    batch.run(messages(1))
    assert free
    assert all(free)


def test_a_call_is_asked_for_at_most_once_a_second() -> None:
    site = paced(calls=2)
    site.process(*messages(6), handle=slowly(site, 0.7))
    # Two are let through, and 1.4 s are over.
    assert [wish for _, wish in site.outcomes.wishes if wish.calls] == [
        Wish(calls=6),
        Wish(calls=4),
    ]


def test_a_call_that_was_granted_is_not_begun_late() -> None:
    """Of two calls that are granted, one would begin after more than three seconds."""
    site = paced(calls=2)
    site.outcomes.until = NOW + TOKEN_SECONDS
    result = site.process(*messages(2), handle=slowly(site, TOKEN_SECONDS + 0.1))
    assert fates(result) == ["PROCESSED", "REFUSED"]


def test_calls_of_before_another_outage_are_lost() -> None:
    site = paced(calls=10)

    def handle(delivery: Delivery) -> None:
        site.handle(delivery)
        site.clock.now += 0.6
        if len(site.handled) == 2:
            again = replace(site.circuits.circuits["orders"], generation=9)
            site.circuits.circuits["orders"], site.outcomes.left = again, 1

    result = site.process(*messages(6), handle=handle)
    assert fates(result) == ["PROCESSED"] * 3 + ["REFUSED"] * 3


@pytest.mark.parametrize(("receive", "asks"), [(1, True), (2, False)])
def test_a_message_that_waits_again_in_a_long_row_has_its_place(receive: int, asks: bool) -> None:
    """With a further one each time, the row would say that ten times as many wait."""
    site = paced(calls=0)
    long = replace(PACE, utat=NOW, ptat=NOW + 600)
    site.circuits.circuits["orders"] = Circuit("orders", pace=long)
    assert fates(site.process(record(letter(message_id="m"), receive))) == ["REFUSED"]
    assert any(wish.places for _, wish in site.outcomes.wishes) is asks
    [seconds] = hidden(site)
    assert seconds == 10 if asks else SHORTEST_LONG_PLACE <= seconds <= LONGEST_PLACE + 1


def test_a_pace_that_is_over_lets_all_through() -> None:
    site = paced(calls=0)
    over = replace(PACE, since=NOW - 900, waited=NOW - IDLE_SECONDS)
    site.circuits.circuits["orders"] = Circuit("orders", pace=over)
    assert fates(site.process(*messages(3))) == ["PROCESSED"] * 3
    assert site.outcomes.wishes == []


def test_the_pace_of_a_circuit_that_is_open_lets_nothing_through() -> None:
    site = paced(calls=10)
    site.circuits.circuits["orders"] = Circuit("orders", State.OPEN, pace=PACE)
    assert fates(site.process(*messages(3))) == ["REFUSED"] * 3
    assert site.outcomes.wishes == []


def test_a_pace_that_gives_no_answer_lets_all_through() -> None:
    site = paced(calls=0)
    site.outcomes.has_answer = False
    assert fates(site.process(*messages(3))) == ["PROCESSED"] * 3
    assert len(site.outcomes.wishes) == 1


def test_a_pace_that_raises_lets_all_through_and_is_noticed() -> None:
    site = paced(calls=0)
    site.outcomes.raises = UNAVAILABLE["circuits"]()
    result = site.process(*messages(3))
    assert fates(result) == ["PROCESSED"] * 3
    assert result.counts["CircuitsUnavailable"]


def test_a_circuit_that_opens_meanwhile_refuses_until_its_next_probe() -> None:
    site = paced(calls=9)
    site.outcomes.opened = True
    result = site.process(*messages(2))
    assert fates(result) == ["REFUSED"] * 2
    assert all(40 <= seconds <= 50 for seconds in hidden(site))


def test_each_key_has_a_pace_of_its_own() -> None:
    site = paced(calls=1, pipeline=Pipeline("orders", circuit_key="body.to"), key="a")
    batch = [record(letter(f'{{"to": "{to}"}}', f"m{at}")) for at, to in enumerate("aaba")]
    assert fates(site.process(*batch)) == ["PROCESSED", "REFUSED", "PROCESSED", "REFUSED"]
    assert site.outcomes.wishes[0] == ("a", Wish(calls=3))


def test_a_message_that_returns_says_so_to_the_pace() -> None:
    site = paced(calls=1)
    site.process(record(letter(), receive=2))
    assert site.outcomes.wishes == [("orders", Wish(calls=1, returning=True))]


def test_a_canary_takes_no_call() -> None:
    site = paced(calls=0)
    assert fates(site.process(*messages(2), permit="p")) == ["PROCESSED"] * 2
    assert site.outcomes.wishes == []


# Tenants, and slow calls.


def test_outcomes_carry_the_tenant_of_the_message() -> None:
    pipeline = Pipeline("orders", context={"tenantId": "body.tenant"})
    site = Site(pipeline, raises={"m2": TimeoutError()})
    bodies = ('{"tenant": "a"}', '{"tenant": "b"}', "{}")
    site.process(*(record(letter(body, f"m{at}")) for at, body in enumerate(bodies, 1)))
    first, second = site.outcomes.counts
    assert first.good_tenants == {hash_of_tenant("a")}
    assert first.bad_tenants == {hash_of_tenant("b")}
    # The third message names no tenant.
    assert (second.good, second.good_tenants) == (1, frozenset())


def test_without_such_a_context_no_tenant_is_known() -> None:
    site = Site(Pipeline("orders", context={"customer": "body.tenant"}))
    site.process(record(letter('{"tenant": "a"}')))
    assert site.outcomes.counts[0].good_tenants == frozenset()


@pytest.mark.parametrize(("seconds", "slow"), [(2.0, 0), (2.1, 3)])
def test_a_call_that_takes_longer_than_the_threshold_is_slow(seconds: float, slow: int) -> None:
    site = failing(1, pipeline=Pipeline("orders", circuit=CircuitPolicy(slow_call=2)))
    site.process(*messages(3), handle=slowly(site, seconds))
    assert sum(counts.slow for counts in site.outcomes.counts) == slow


def test_a_slow_canary_shows_a_dependency_that_is_not_well() -> None:
    for seconds, verdict in ((1.0, "success"), (61.0, "failure")):
        site = Site()
        result = site.process(*messages(1), permit="p", handle=slowly(site, seconds))
        answer = result.to_response()["deadletter"]["circuits"]
        assert answer == {"orders": verdict, "orders#config": "success"}


# What votes.


def test_the_first_receive_of_a_message_votes_and_its_retries_do_not() -> None:
    site = failing(4)
    batch = [record(letter(message_id=f"m{at}"), receive=at) for at in range(1, 5)]
    site.process(*batch)
    assert site.outcomes.totals == {"orders": (0, 1)}
    # Load is load: the pace is set by retries too.
    assert sum(counts.retried_bad for counts in site.outcomes.counts) == 3


def test_a_message_that_has_been_dead_does_not_vote() -> None:
    site = failing(1)
    site.process(record(redriven(letter(message_id="m1"))))
    assert site.outcomes.totals == {"orders": (0, 0)}


def test_a_retry_that_succeeds_ends_a_streak_without_a_vote() -> None:
    site = Site(raises={"m1": TimeoutError()})
    site.process(record(letter(message_id="m1")), record(letter(message_id="m2"), receive=2))
    last = site.outcomes.counts[-1]
    assert (last.good, last.any_good, last.streak, last.good_at) == (0, True, 0, NOW)


def test_a_message_that_is_throttled_does_not_vote_and_opens_nothing() -> None:
    site = Site(raises={f"m{at}": Transient("busy", status=429) for at in range(1, 11)})
    site.outcomes.opens_at = 1
    result = site.process(*messages(10))
    assert fates(result) == ["FAILED"] * 10
    assert site.outcomes.totals.get("orders", (0, 0)) == (0, 0)


def test_a_named_dependency_that_throttles_does_not_vote() -> None:
    site = Site()

    def handle(delivery: Delivery) -> None:
        with dependency("bank"):
            raise Transient("busy", status=429)

    site.process(*messages(10), handle=handle)
    assert site.outcomes.totals.get("dependency/bank", (0, 0)) == (0, 0)


def test_a_canary_that_is_throttled_shows_a_dependency_that_works() -> None:
    site = Site(raises={"m1": Transient("busy", status=429)})
    result = site.process(*messages(1), permit="p")
    assert result.to_response()["deadletter"]["circuits"] == {"orders": "success"}
