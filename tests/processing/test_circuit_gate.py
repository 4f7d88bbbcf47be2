"""What a batch learns of its circuits while it is processed, and what it tells them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deadletter.circuit.outcomes import hash_of_tenant
from deadletter.circuit.state import Circuit, CircuitPolicy, State
from deadletter.failure.signals import Transient
from deadletter.processing.delivery import Delivery
from deadletter.processing.named_dependencies import dependency
from deadletter.processing.result import BatchResult
from deadletter.settings.pipeline import Pipeline
from tests.processing.doubles import UNAVAILABLE, Site, record, redriven
from tests.samples import NOW, letter


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


def test_a_pipeline_that_never_refuses_goes_on() -> None:
    site = failing(5)
    site.pipeline = replace(site.pipeline, refuse_when_open=False)
    site.outcomes.opens_at = 3
    assert fates(site.process(*messages(5))) == ["FAILED"] * 5


def test_a_batch_learns_within_a_second_that_the_circuit_has_opened() -> None:
    site = Site()

    def handle(delivery: Delivery) -> None:
        site.clock.now += 0.4
        site.handle(delivery)
        if len(site.handled) == 2:
            site.circuits.open()

    result = site.process(*messages(6), handle=handle)
    # Read at 0 s and at 1.2 s, before the fourth message.
    assert fates(result) == ["PROCESSED"] * 3 + ["REFUSED"] * 3
    assert len(site.circuits.reads) == 2


@pytest.mark.parametrize(("seconds", "reads"), [(0.1, 1), (0.5, 3), (1.0, 6), (3.0, 6)])
def test_a_batch_reads_its_circuits_at_most_once_a_second(seconds: float, reads: int) -> None:
    site = Site()
    site.process(*messages(6), handle=slowly(site, seconds))
    assert len(site.circuits.reads) == reads


def test_a_batch_learns_that_the_circuit_has_closed() -> None:
    site = Site()
    site.circuits.open()

    def read(keys: Any) -> Any:
        site.clock.now += 1
        site.circuits.reads.append(keys)
        state = State.OPEN if len(site.circuits.reads) < 3 else State.CLOSED
        return {"orders": Circuit("orders", state)}

    site.circuits.read = read  # type: ignore[method-assign] # a store that takes a second
    assert fates(site.process(*messages(4))) == ["REFUSED"] * 2 + ["PROCESSED"] * 2


def test_circuits_that_stop_answering_leave_what_is_known_and_are_not_asked_again() -> None:
    site = Site()
    site.circuits.open("orders", until=NOW + 30)

    def read(keys: Any) -> Any:
        site.circuits.reads.append(keys)
        site.clock.now += 1
        if len(site.circuits.reads) >= 2:
            raise UNAVAILABLE["circuits"]()
        return {"orders": Circuit("orders", State.OPEN, open_until=NOW + 30)}

    site.circuits.read = read  # type: ignore[method-assign] # a store that fails later
    result = site.process(*messages(5))
    assert fates(result) == ["REFUSED"] * 5
    assert len(site.circuits.reads) == 2
    assert result.counts["CircuitsUnavailable"] == 1


def test_a_canary_neither_asks_nor_tells_its_circuits() -> None:
    site = failing(1)
    site.circuits.open()
    site.outcomes.opens_at = 1
    result = site.process(*messages(3), permit="p")
    assert fates(result) == ["FAILED", "PROCESSED", "PROCESSED"]
    assert site.outcomes.reported == []


# A circuit that has just closed.


def coming_back(places: int, pipeline: Pipeline | None = None, key: str = "orders") -> Site:
    """A site whose circuit closed ten seconds ago, and has so many places left."""
    site = Site(pipeline or Pipeline("orders"))
    site.circuits.circuits[key] = Circuit(key, rate=5.0, closed_at=NOW - 10)
    site.places.left = places
    return site


def test_a_circuit_that_comes_back_admits_what_it_has_places_for() -> None:
    site = coming_back(places=4)
    result = site.process(*messages(10))
    assert fates(result) == ["PROCESSED"] * 4 + ["REFUSED"] * 6
    assert site.places.asked == [("orders", 10)]
    assert result.counts["RefusedWhileOpen"] == 6
    assert {failure.error_type for _, failure in site.log.failures} == {"RefusedWhileOpen"}


def test_what_is_not_admitted_waits_for_the_end_of_the_ramp() -> None:
    """Ten seconds of the minute are over."""
    site = coming_back(places=0)
    site.process(*messages(20))
    waits = [seconds for hidden in site.queue.calls for _, seconds in hidden]
    assert len(waits) == 20
    assert all(50 <= seconds <= 80 for seconds in waits)
    assert len(set(waits)) > 10


def test_places_are_asked_for_at_most_once_a_second() -> None:
    site = coming_back(places=2)
    site.process(*messages(6), handle=slowly(site, 0.7))
    # Two are admitted, and 1.4 s are over.
    assert site.places.asked == [("orders", 6), ("orders", 4)]


def test_new_places_are_found_after_a_second() -> None:
    site = coming_back(places=2)

    def handle(delivery: Delivery) -> None:
        site.clock.now += 0.7
        site.handle(delivery)
        if len(site.handled) == 2:
            site.places.left = 3

    result = site.process(*messages(6), handle=handle)
    assert fates(result) == ["PROCESSED"] * 5 + ["REFUSED"]


def test_no_place_is_asked_for_when_the_ramp_is_over_or_no_rate_is_known() -> None:
    for circuit in (
        Circuit("orders", rate=5.0, closed_at=NOW - 60),
        Circuit("orders", rate=0.0, closed_at=NOW - 1),
        Circuit("orders", rate=5.0),
    ):
        site = Site()
        site.circuits.circuits["orders"] = circuit
        assert fates(site.process(*messages(3))) == ["PROCESSED"] * 3
        assert site.places.asked == []


def test_places_of_before_another_outage_are_lost() -> None:
    site = coming_back(places=10)

    def handle(delivery: Delivery) -> None:
        site.handle(delivery)
        site.clock.now += 0.6
        if len(site.handled) == 2:
            again = Circuit("orders", rate=5.0, closed_at=site.clock.now, generation=9)
            site.circuits.circuits["orders"], site.places.left = again, 1

    result = site.process(*messages(6), handle=handle)
    assert fates(result) == ["PROCESSED"] * 3 + ["REFUSED"] * 3


def test_a_circuit_for_configuration_admits_all_at_once() -> None:
    site = coming_back(places=0, key="orders#config")
    assert fates(site.process(*messages(3))) == ["PROCESSED"] * 3


def test_a_counter_that_gives_no_answer_admits_all() -> None:
    site = coming_back(places=0)
    site.places.raises = UNAVAILABLE["circuits"]()
    result = site.process(*messages(3))
    assert fates(result) == ["PROCESSED"] * 3
    assert result.counts["CircuitsUnavailable"] == 1
    assert len(site.places.asked) == 1


def test_a_circuit_that_opens_again_meanwhile_refuses_until_its_next_probe() -> None:
    site = coming_back(places=9)
    site.places.opened = True
    result = site.process(*messages(2))
    assert fates(result) == ["REFUSED"] * 2
    [hidden] = site.queue.calls
    assert all(40 <= seconds <= 50 for _, seconds in hidden)


def test_each_key_that_comes_back_has_places_of_its_own() -> None:
    site = coming_back(places=1, pipeline=Pipeline("orders", circuit_key="body.to"), key="a")
    batch = [record(letter(f'{{"to": "{to}"}}', f"m{at}")) for at, to in enumerate("aaba")]
    assert fates(site.process(*batch)) == ["PROCESSED", "REFUSED", "PROCESSED", "REFUSED"]
    assert site.places.asked == [("a", 3)]


def test_a_canary_takes_no_place() -> None:
    site = coming_back(places=0)
    assert fates(site.process(*messages(2), permit="p")) == ["PROCESSED"] * 2
    assert site.places.asked == []


def test_a_pipeline_that_never_refuses_admits_all() -> None:
    site = coming_back(places=0, pipeline=Pipeline("orders", refuse_when_open=False))
    assert fates(site.process(*messages(2))) == ["PROCESSED"] * 2


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


def test_without_a_threshold_no_call_is_slow() -> None:
    site = Site(Pipeline("orders", circuit=CircuitPolicy(slow_call=0)))
    site.process(*messages(1), handle=slowly(site, 100))
    assert site.outcomes.counts[0].slow == 0


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
