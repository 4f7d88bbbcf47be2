"""A message of a sick kind waits, unless it is the try of its kind; it has no vote."""

from __future__ import annotations

from typing import Any

import pytest

from deadletter.circuit.state import Circuit, OutcomeCounts, State
from deadletter.pace.kinds import (
    ALL,
    HIDDEN,
    NONE_SICK,
    TRY_SECONDS,
    KindCount,
    SickKind,
    SickKinds,
    kind_of,
    number_of,
)
from deadletter.processing.named_dependencies import dependency
from deadletter.processing.result import BatchResult
from deadletter.settings.pipeline import Pipeline
from tests.processing.doubles import PACE, UNAVAILABLE, Site, record
from tests.samples import NOW, letter

ILL = kind_of("c_tenantId", "a")
PIPELINE = Pipeline("orders", context={"tenantId": "body.tenant"})


def of_tenants(tenants: str, receive: int = 1) -> list[dict[str, Any]]:
    """One message of each tenant, such as "ab"; their ids are a1, b2."""
    return [
        record(letter(f'{{"tenant": "{tenant}"}}', f"{tenant}{at}"), receive)
        for at, tenant in enumerate(tenants, 1)
    ]


def sick(next_try: float = NOW, good: int = 0) -> SickKinds:
    return SickKinds(1, (SickKind(ILL, next_try, good),))


def site(kinds: SickKinds | None = None, key: str = "orders", **fields: Any) -> Site:
    """A consumer that knows tenant a to be sick."""
    made = Site(**{"pipeline": PIPELINE, **fields})
    made.circuits.circuits[key] = Circuit(key, sick=sick() if kinds is None else kinds)
    return made


def fates(result: BatchResult) -> list[str]:
    return [message.fate.name for message in result.results]


NOT_DUE = sick(NOW + 5)


def test_messages_of_a_sick_kind_are_hidden_and_all_others_are_processed() -> None:
    consumer = site(NOT_DUE)
    result = consumer.process(*of_tenants("abac"))
    assert fates(result) == ["REFUSED", "PROCESSED", "REFUSED", "PROCESSED"]
    waits = [seconds for call in consumer.queue.calls for _, seconds in call]
    assert len(waits) == 2
    assert all(HIDDEN[0] <= wait <= HIDDEN[1] + 1 for wait in waits)


def test_one_message_is_tried_when_that_is_due() -> None:
    consumer = site(raises={"a1": TimeoutError()})
    assert fates(consumer.process(*of_tenants("aaa"))) == ["FAILED", "REFUSED", "REFUSED"]
    [tried] = consumer.outcomes.slowed
    assert tried.kinds[0].next_try == NOW + TRY_SECONDS


def test_a_try_that_another_process_has_taken_is_not_made() -> None:
    consumer = site()
    consumer.outcomes.taken = NOT_DUE
    assert fates(consumer.process(*of_tenants("ab"))) == ["REFUSED", "PROCESSED"]


def test_a_kind_that_is_well_by_now_is_processed() -> None:
    consumer = site()
    consumer.outcomes.taken = NONE_SICK
    assert fates(consumer.process(*of_tenants("aa"))) == ["PROCESSED"] * 2


def test_two_tries_that_succeed_heal() -> None:
    consumer = site()
    consumer.process(*of_tenants("a"))
    assert [kinds.kinds[0].good for kinds in consumer.outcomes.slowed] == [0, 1]
    consumer.circuits.circuits["orders"] = Circuit("orders", sick=sick(good=1))
    consumer.process(*of_tenants("ba")[1:])
    assert consumer.outcomes.slowed[-1].kinds == ()


def test_a_try_that_fails_begins_anew() -> None:
    consumer = site(sick(good=1), raises={"a1": TimeoutError()})
    consumer.process(*of_tenants("a"))
    assert consumer.outcomes.slowed[-1].kinds[0].good == 0


def test_a_try_that_fails_by_its_own_fault_shows_nothing() -> None:
    consumer = site(sick(good=1), raises={"a1": KeyError("x")})
    consumer.process(*of_tenants("a"))
    assert [kinds.kinds[0].good for kinds in consumer.outcomes.slowed] == [1]


def test_a_try_has_no_vote_and_is_counted_as_a_call() -> None:
    consumer = site(raises={"a1": TimeoutError()})
    consumer.process(*of_tenants("a"))
    assert consumer.outcomes.counts == [OutcomeCounts(retried_bad=1, last_bad=0)]


def test_a_try_that_fails_is_no_fault_of_its_message() -> None:
    consumer = site(raises={"a1": TimeoutError(), "b2": TimeoutError()})
    consumer.process(*of_tenants("ab"))
    assert [failure.dependency_down for _, failure in consumer.log.failures] == [True, False]


@pytest.mark.parametrize("receive", [1, 3])
def test_every_receive_of_a_sick_kind_is_refused(receive: int) -> None:
    assert fates(site(NOT_DUE).process(*of_tenants("a", receive))) == ["REFUSED"]


def test_a_canary_is_processed_whatever_its_kind() -> None:
    assert fates(site(NOT_DUE).process(*of_tenants("a"), permit="p")) == ["PROCESSED"]
    assert fates(site(NOT_DUE).process(*of_tenants("a"), run="r")) == ["PROCESSED"]


def test_an_open_circuit_refuses_all_kinds_until_its_next_probe() -> None:
    consumer = site()
    consumer.circuits.circuits["orders"] = Circuit("orders", State.OPEN, sick=sick())
    assert fates(consumer.process(*of_tenants("ab"))) == ["REFUSED"] * 2
    assert consumer.outcomes.slowed == []


def test_a_try_also_takes_a_call_of_the_pace() -> None:
    consumer = site()
    consumer.circuits.circuits["orders"] = Circuit("orders", sick=sick(), pace=PACE)
    assert fates(consumer.process(*of_tenants("a"))) == ["REFUSED"]
    consumer.outcomes.left = 1
    assert fates(consumer.process(*of_tenants("a"))) == ["PROCESSED"]


def test_a_message_that_waits_in_place_takes_one_try() -> None:
    consumer = site()
    own = Circuit("orders", sick=sick(), pace=PACE, bounded=True)
    consumer.circuits.circuits["orders"] = own
    consumer.process(*of_tenants("a"))
    assert len(consumer.pauses) > 1
    assert len(consumer.outcomes.slowed) == 1


def test_a_named_dependency_has_sick_kinds_of_its_own() -> None:
    consumer = site(NOT_DUE, key="dependency/bank")

    def handle(delivery: Any) -> None:
        with dependency("bank"):
            consumer.handle(delivery)

    assert fates(consumer.process(*of_tenants("ab"), handle=handle)) == ["REFUSED", "PROCESSED"]


def test_a_store_without_an_answer_lets_all_through() -> None:
    consumer = site()
    consumer.outcomes.has_answer = False
    assert fates(consumer.process(*of_tenants("aa"))) == ["PROCESSED"] * 2


@pytest.mark.parametrize("trouble", ["circuits", "a bug"])
def test_a_store_that_raises_lets_all_through_and_is_noticed(trouble: str) -> None:
    consumer = site()
    consumer.outcomes.raises = UNAVAILABLE[trouble]()
    result = consumer.process(*of_tenants("aa"))
    assert fates(result) == ["PROCESSED"] * 2
    assert result.troubles


# What is counted.


def kinds_of_counts(consumer: Site) -> list[dict[str, tuple[int, int]]]:
    return [dict(counts.kinds) for counts in consumer.outcomes.counts]


def test_in_good_times_no_kind_is_counted() -> None:
    consumer = Site(PIPELINE)
    consumer.process(*of_tenants("ab"))
    assert kinds_of_counts(consumer) == [{}]


def test_from_the_first_failure_on_votes_are_counted_by_kind() -> None:
    consumer = Site(PIPELINE, raises={"b2": TimeoutError()})
    consumer.process(*of_tenants("abc"))
    first, second = kinds_of_counts(consumer)
    assert (first[ALL], first[kind_of("c_tenantId", "b")]) == ((1, 0), (1, 0))
    assert ILL not in first
    assert (second[ALL], second[kind_of("c_tenantId", "c")]) == ((0, 1), (0, 1))


@pytest.mark.parametrize(("minutes", "seen"), [(0, {(0, 1)}), (9, set())])
def test_a_recent_failure_of_another_process_begins_the_counts_as_well(
    minutes: int, seen: set[tuple[int, int]]
) -> None:
    consumer = Site(PIPELINE)
    counts = (KindCount(ILL, number_of(NOW) - minutes, 1, 0),)
    consumer.circuits.circuits["orders"] = Circuit("orders", kinds=counts)
    consumer.process(*of_tenants("b"))
    assert set(kinds_of_counts(consumer)[0].values()) == seen


@pytest.mark.parametrize("receive", [2, 5])
def test_retries_are_not_counted(receive: int) -> None:
    consumer = Site(PIPELINE, raises={"a1": TimeoutError()})
    consumer.process(*of_tenants("ab", receive))
    assert kinds_of_counts(consumer) == [{}, {}]


def test_a_failure_of_the_configuration_has_no_kinds() -> None:
    class Unauthorized(Exception):
        status_code = 401

    consumer = Site(PIPELINE, raises={"a1": Unauthorized()})
    consumer.process(*of_tenants("a"))
    assert consumer.outcomes.reported[0][0] == "orders#config"
    assert kinds_of_counts(consumer) == [{}]
