"""Circuits, outcomes and outages keep their promises on every backend that has them."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import boto3
import pytest
from botocore.exceptions import ReadTimeoutError
from moto import mock_aws

from deadletter.aws.breaker import DynamoDBBreaker
from deadletter.aws.circuits import KEEP_SECONDS, TOTALS, DynamoDBCircuits
from deadletter.aws.executions import StepFunctionsExecutions
from deadletter.aws.outcomes import MOST_CONFLICTS, DynamoDBOutcomes
from deadletter.circuit.outcomes import MOST_STALE
from deadletter.circuit.state import (
    NO_END,
    Circuit,
    CircuitPolicy,
    CircuitsUnavailable,
    OutcomeCounts,
    Override,
    Pause,
    Pollers,
    State,
)
from deadletter.circuit.transitions import (
    CLOCK_SKEW,
    CanaryAnswered,
    CanaryLost,
    CanarySent,
    CanaryVerdict,
    Event,
    ExecutionLost,
    MappingPaused,
    MappingPutBack,
    MappingSeen,
    OverrideBegun,
    OverrideEnded,
    PermitTaken,
    Refusal,
    Reported,
    Tripped,
)
from deadletter.contract import DAY
from deadletter.outage.executions import ExecutionsUnavailable, execution_name
from deadletter.pace.kinds import ALL, KindCount, kind_of, number_of
from deadletter.pace.pace import FLOOR, KEPT_CALLS, CallCount, Wish, calls_number
from deadletter.signals.figures import Count
from deadletter.testing.clock import Clock
from deadletter.testing.fakes import client_error
from tests.aws.backends import REGION, Aws
from tests.each_row import each_row
from tests.tables import CIRCUITS, create_circuits_table

NOW = 1_800_000_000.0
POLICY = CircuitPolicy()
WRITES = ("update_item", "put_item", "delete_item")


class Counted:
    """A client that counts its calls, and can be told to spoil the next ones of a name."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.calls: Counter[str] = Counter()
        self.spoilt: dict[str, list[Callable[[Callable[[], Any]], Any]]] = {}

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)

        def call(**options: Any) -> Any:
            self.calls[name] += 1
            spoilt = self.spoilt.get(name)
            return spoilt.pop(0)(lambda: real(**options)) if spoilt else real(**options)

        return call

    @property
    def writes(self) -> int:
        return sum(self.calls[name] for name in WRITES)


def tried_twice(act: Callable[[], Any]) -> Any:
    """The answer to the first try was lost, and the SDK tries again."""
    act()
    return act()


def lost(act: Callable[[], Any]) -> Any:
    act()
    raise ReadTimeoutError(endpoint_url="https://dynamodb")


def throttled(act: Callable[[], Any]) -> Any:
    raise client_error("UpdateItem", "ThrottlingException", "slow down")


class Table:
    """One pipeline's circuits on a backend."""

    def __init__(self, aws: Aws) -> None:
        self.client = Counted(aws.dynamodb)
        self.clock = Clock(NOW)
        # More than one window elsewhere too, where the calls of a second take 20 ms and more.
        self.seconds = 600 if aws.backend == "memory" else 150
        self.ids = itertools.count(1)
        self.metrics: Counter[str] = Counter()
        self.started: list[tuple[str, int, int]] = []
        create_circuits_table(aws.dynamodb)
        self.breaker = self.new_breaker()

    def new_breaker(self, pipeline: str = "orders") -> DynamoDBBreaker:
        client: Any = self.client
        return DynamoDBBreaker(
            client=client,
            table=CIRCUITS,
            pipeline=pipeline,
            policy=POLICY,
            clock=self.clock,
            random=Random(1),
            new_id=lambda: f"token{next(self.ids)}",
        )

    def new_outcomes(self, outages: Any = "self") -> DynamoDBOutcomes:
        client: Any = self.client
        return DynamoDBOutcomes(
            client=client,
            table=CIRCUITS,
            pipeline="orders",
            policy=POLICY,
            breaker=self.breaker,
            outages=self if outages == "self" else outages,
            clock=self.clock,
            count_metric=lambda name, number: self.metrics.update({name: number}),
        )

    def start(self, key: str, generation: int, restart: int) -> None:
        self.started.append((key, generation, restart))

    def running(self) -> set[str]:
        return set()

    def read(self, key: str = "orders") -> Circuit:
        return self.breaker.read([key])[key]

    def read_with_names(self) -> tuple[Circuit, list[str]]:
        """The circuit, and the rows that were named as bad."""
        named: list[str] = []
        client: Any = self.client
        circuits = DynamoDBCircuits(client, CIRCUITS, "orders", named.append)
        return circuits.read(["orders"])["orders"], named

    def apply(self, event: Event, key: str = "orders") -> Circuit:
        moved = self.breaker.apply(key, event)
        assert moved.refused is None, moved
        return moved.circuit

    def type_in(self, key: str = "orders", **attributes: Any) -> None:
        """What a person, or something broken, writes into the table."""
        self.put({"pipeline": {"S": "orders"}, "circuit_key": {"S": key}, **attributes})

    def put(self, item: dict[str, Any]) -> None:
        self.client._real.put_item(TableName=CIRCUITS, Item=item)

    def delete(self, key: str) -> None:
        where = {"pipeline": {"S": "orders"}, "circuit_key": {"S": key}}
        self.client._real.delete_item(TableName=CIRCUITS, Key=where)

    def item(self, key: str = "orders") -> dict[str, Any]:
        where = {"pipeline": {"S": "orders"}, "circuit_key": {"S": key}}
        answer = self.client._real.get_item(TableName=CIRCUITS, Key=where, ConsistentRead=True)
        return dict(answer.get("Item", {}))

    def expiry(self) -> int:
        return int(self.item()["ttl"]["N"])


@pytest.fixture
def table(aws: Aws) -> Table:
    return Table(aws)


def hold(state: State, until: float = NOW + 3_600) -> OverrideBegun:
    return OverrideBegun(Override(state, "ada", "maintenance", until))


CLOSED = {"state": {"S": "CLOSED"}}
GARBAGE: list[dict[str, Any]] = [
    {},
    {"state": {"S": "half open, I think"}},
    {"state": {"N": "1"}},
    {**CLOSED, "generation": {"S": "7"}},
    {**CLOSED, "generation": {"N": "1.5"}},
    {**CLOSED, "generation": {"N": f"1{'0' * 120}"}},
    {**CLOSED, "openings": {"N": str(10**16)}},
    {**CLOSED, "open_until": {"N": "-1"}},
    {**CLOSED, "streak": {"BOOL": True}},
    {**CLOSED, "bad_today": {"N": "1"}},
    {**CLOSED, "permit": {"S": "me"}},
    {**CLOSED, "permit": {"M": {"owner": {"S": "me"}}}},
    {
        "state": {"S": "HALF_OPEN"},
        "permit": {"M": {"owner": {"S": "me"}, "until": {"N": "1"}, "attempt": {"S": "three"}}},
    },
    {**CLOSED, "paused": {"M": {}}},
    {**CLOSED, "forced": {"M": {"state": {"S": "AJAR"}}}},
]


class TestReading:
    def test_a_circuit_that_was_never_seen_is_closed(self, table: Table) -> None:
        assert table.read("never") == Circuit("never")

    def test_one_circuit_is_found_by_a_get_item(self, table: Table) -> None:
        assert table.breaker.find("never") == Circuit("never")
        table.apply(hold(State.OPEN))
        assert table.breaker.find("orders") == table.read()
        table.type_in(state={"S": "ajar"})
        assert table.breaker.find("orders").unreadable
        assert table.client.calls["get_item"] == 3

    def test_the_keys_with_a_record_are_known(self, table: Table) -> None:
        assert (table.breaker.keys(), table.breaker.recorded(["orders"])) == ([], {})
        for key in ("orders", "hooks.acme", "broken"):
            table.type_in(key, state={"S": "CLOSED" if key != "broken" else "ajar"})
        assert sorted(table.breaker.keys()) == ["broken", "hooks.acme", "orders"]
        assert table.new_breaker("invoices").keys() == []
        recorded = table.breaker.recorded(["hooks.acme", "hooks.amce", "broken"])
        assert sorted(recorded) == ["broken", "hooks.acme"]

    def test_one_hundred_circuits_are_one_call(self, table: Table) -> None:
        keys = [f"https://{number}.example" for number in range(100)]
        assert set(table.breaker.read(keys)) == set(keys)
        assert table.client.calls == {"batch_get_item": 1}

    def test_a_state_that_a_person_typed_counts(self, table: Table) -> None:
        table.type_in(state={"S": "OPEN"})
        assert table.read() == Circuit("orders", State.OPEN)
        assert table.apply(PermitTaken("me")).state is State.HALF_OPEN

    def test_what_is_not_understood_lets_nothing_through_and_its_neighbours_are_read(
        self, table: Table
    ) -> None:
        garbage: dict[str, Any] = {f"garbage{at}": each for at, each in enumerate(GARBAGE)}
        for key, attributes in garbage.items():
            table.type_in(key, **attributes)
        table.apply(Tripped(), "other")
        found = table.breaker.read([*garbage, "other"])
        assert not found["other"].unreadable
        for key, attributes in garbage.items():
            assert found[key].unreadable, attributes
            assert not found[key].is_closed, attributes
            assert table.breaker.apply(key, Tripped()).refused is Refusal.UNREADABLE

    def test_a_person_can_begin_an_unreadable_circuit_anew(self, table: Table) -> None:
        table.type_in(state={"S": "?"}, generation={"S": "x"}, bad_today={"N": "1"})
        table.apply(hold(State.CLOSED))
        assert table.read().is_closed
        assert table.apply(OverrideEnded()).forced is None

    def test_a_circuit_that_was_deleted_meanwhile_is_one_that_was_never_seen(
        self, table: Table
    ) -> None:
        seen = table.apply(Tripped())
        table.delete("orders")
        assert table.breaker.apply_to(seen, PermitTaken("me")).refused is Refusal.COOLING
        table.clock.now += POLICY.cooldown
        assert table.breaker.apply_to(seen, PermitTaken("me")).refused is Refusal.NOT_OPEN

    def test_a_store_that_gives_no_answer_holds(self, table: Table) -> None:
        table.client.spoilt["batch_get_item"] = [throttled]
        with pytest.raises(CircuitsUnavailable):
            table.read()
        nowhere = DynamoDBCircuits(table.client._real, "nowhere", "orders")
        with pytest.raises(CircuitsUnavailable):
            nowhere.read(["orders"])

    def test_two_pipelines_have_circuits_of_their_own(self, table: Table) -> None:
        table.apply(Tripped())
        assert table.new_breaker("invoices").read(["orders"])["orders"].is_closed


class TestChanging:
    def test_each_change_is_read_as_it_was_written_and_costs_one_write(self, table: Table) -> None:
        story: list[Event | Callable[[Circuit], Event]] = [
            Tripped(),
            MappingPaused("m", 20),
            lambda circuit: ExecutionLost(circuit.generation, circuit.restart),
            PermitTaken("a"),
            lambda circuit: CanaryAnswered(circuit.generation, "a", CanaryVerdict.NEUTRAL),
            PermitTaken("b"),
            lambda circuit: CanaryAnswered(circuit.generation, "b", CanaryVerdict.FAILURE),
            PermitTaken("c"),
            lambda circuit: CanaryLost(circuit.generation),
            PermitTaken("d"),
            lambda circuit: CanaryAnswered(circuit.generation, "d", CanaryVerdict.SUCCESS),
            PermitTaken("e"),
            lambda circuit: CanarySent(circuit.generation, "e", "first", 3),
            lambda circuit: CanaryAnswered(circuit.generation, "e", CanaryVerdict.SUCCESS),
            MappingPutBack("m"),
            MappingSeen(bounded=True),
            hold(State.OPEN, NOW + 90_000),
            OverrideEnded(),
            hold(State.CLOSED, NOW + 90_000),
            hold(State.OPEN, NO_END),
            hold(State.CLOSED, NO_END),
            OverrideEnded(),
            Tripped(),
            MappingSeen(bounded=False),
            MappingPaused("m", None, Pollers(2, 50)),
            PermitTaken("f"),
            # A canary is under way.
            hold(State.OPEN, NO_END),
            hold(State.CLOSED, NO_END),
        ]
        for step in story:
            circuit = table.read()
            table.clock.now += 1
            if isinstance(step, PermitTaken):
                table.clock.now = max(table.clock.now, circuit.open_until)
            if circuit.permit is not None and step is story[8]:
                table.clock.now = circuit.permit.until + CLOCK_SKEW + 1
            writes = table.client.writes
            changed = table.apply(step if not callable(step) else step(circuit))
            assert table.client.writes == writes + 1
            stored = table.read()
            assert stored.state is changed.state
            assert rounded(stored) == rounded(changed)
        assert table.read().is_closed

    def test_what_is_refused_is_not_written(self, table: Table) -> None:
        table.apply(Tripped())
        writes = table.client.writes
        assert table.breaker.apply("orders", Tripped()).refused is Refusal.NOT_CLOSED
        assert table.breaker.apply("orders", PermitTaken("me")).refused is Refusal.COOLING
        assert table.breaker.apply("orders", Reported()).refused is Refusal.HEALTHY
        assert table.client.writes == writes

    def test_a_write_that_the_sdk_tries_again_is_known_as_its_own(self, table: Table) -> None:
        table.apply(Tripped())
        table.clock.now += POLICY.cooldown
        table.client.spoilt["update_item"] = [tried_twice]
        permit = table.apply(PermitTaken("me"))
        assert table.read().permit == permit.permit
        table.client.spoilt["update_item"] = [tried_twice]
        table.apply(CanaryAnswered(permit.generation, "me", CanaryVerdict.SUCCESS))
        assert table.read().successes == 1

    def test_who_hears_nothing_has_no_permit_and_jams_nothing(self, table: Table) -> None:
        table.apply(Tripped())
        table.clock.now += POLICY.cooldown
        table.client.spoilt["update_item"] = [lost]
        with pytest.raises(CircuitsUnavailable):
            table.breaker.apply("orders", PermitTaken("me"))
        assert table.breaker.apply("orders", PermitTaken("me")).refused is Refusal.PERMIT_TAKEN
        table.clock.now += POLICY.lease + CLOCK_SKEW + 1
        moved = table.breaker.apply("orders", PermitTaken("you"))
        assert moved.refused is Refusal.LEASE_ENDED
        assert table.apply(CanaryLost(moved.circuit.generation)).state is State.OPEN

    def test_of_many_who_saw_the_same_circuit_one_gets_the_permit(self, table: Table) -> None:
        """battle-tested-patterns #63: late arrivals all see HALF_OPEN."""
        table.apply(Tripped())
        table.clock.now += POLICY.cooldown
        seen = table.read()
        answers = [table.breaker.apply_to(seen, PermitTaken(f"{n}")).refused for n in range(6)]
        assert answers == [None, *[Refusal.PERMIT_TAKEN] * 5]

    def test_of_many_who_saw_the_same_failures_one_trips(self, table: Table) -> None:
        seen = table.read()
        answers = [table.breaker.apply_to(seen, Tripped()).refused for _ in range(6)]
        assert answers == [None, *[Refusal.NOT_CLOSED] * 5]
        assert table.read().generation == 1

    def test_a_result_decided_on_what_has_changed_since_is_decided_anew(self, table: Table) -> None:
        table.apply(Tripped())
        table.clock.now += POLICY.cooldown
        permit = table.apply(PermitTaken("me"))
        table.apply(hold(State.OPEN))
        late = CanaryAnswered(permit.generation, "me", CanaryVerdict.SUCCESS)
        assert table.breaker.apply_to(permit, late).refused is Refusal.STALE
        assert table.read().forced is not None

    def test_a_state_that_a_person_types_meanwhile_is_not_overwritten(self, table: Table) -> None:
        seen = table.read()
        table.type_in(state={"S": "OPEN"})
        assert table.breaker.apply_to(seen, Tripped()).refused is Refusal.NOT_CLOSED

    def test_a_mapping_and_a_restart_are_changed_beside_the_state(self, table: Table) -> None:
        opened = table.apply(Tripped())
        table.clock.now += POLICY.cooldown
        table.apply(PermitTaken("me"))
        moved = table.breaker.apply_to(opened, MappingPaused("m", None))
        assert moved.refused is None
        assert table.read().paused == Pause("m", None, table.clock.now)
        lost_execution = ExecutionLost(opened.generation, opened.restart)
        assert table.breaker.apply_to(opened, lost_execution).refused is Refusal.STALE

    def test_of_two_sweeps_that_saw_the_same_one_restarts(self, table: Table) -> None:
        seen = table.apply(Tripped())
        event = ExecutionLost(seen.generation, seen.restart)
        assert table.breaker.apply_to(seen, event).circuit.restart == 1
        assert table.breaker.apply_to(seen, event).refused is Refusal.STALE
        assert table.read().restart == 1

    def test_of_two_who_pause_a_consumer_the_first_says_what_it_was_like(
        self, table: Table
    ) -> None:
        seen = table.apply(Tripped())
        table.breaker.apply_to(seen, MappingPaused("m", 20))
        assert table.breaker.apply_to(seen, MappingPaused("m", 2)).refused is None
        moved = table.breaker.apply_to(seen, MappingPaused("another", 2))
        assert moved.refused is Refusal.ANOTHER_MAPPING
        assert table.read().paused == Pause("m", 20, NOW)

    def test_a_mapping_is_put_back_whatever_else_stands_beside_it(self, table: Table) -> None:
        paused = {"mapping": {"S": "m"}, "at": {"N": "1790000433.23456"}, "note": {"S": "x"}}
        table.type_in(state={"S": "CLOSED"}, paused={"M": paused})
        assert table.apply(MappingPutBack("m")).paused is None
        assert table.read().paused is None

    def test_a_mapping_is_not_put_back_once_the_next_outage_has_begun(self, table: Table) -> None:
        table.apply(Tripped())
        table.apply(MappingPaused("m", None))
        closed = table.apply(hold(State.CLOSED, NOW + 60))
        table.clock.now += 61
        table.apply(Tripped())
        moved = table.breaker.apply_to(closed, MappingPutBack("m"))
        assert moved.refused is Refusal.NOT_CLOSED
        assert table.read().paused is not None


class TestOverridden:
    @pytest.mark.parametrize("state", [State.OPEN, State.CLOSED])
    def test_no_row_expires_before_its_override(self, table: Table, state: State) -> None:
        table.apply(hold(state, NO_END))
        assert table.expiry() > NO_END
        table.new_outcomes().report("orders", OutcomeCounts(5, 0))
        assert table.expiry() > NO_END
        table.apply(OverrideEnded())
        assert table.expiry() == NOW + KEEP_SECONDS
        table.clock.now += 60
        table.new_outcomes().report("orders", OutcomeCounts(5, 0))
        assert table.expiry() == NOW + 60 + KEEP_SECONDS

    def test_an_override_is_read_with_its_beginning(self, table: Table) -> None:
        table.apply(hold(State.OPEN, NO_END))
        held = table.read()
        assert held.held_since == NOW
        assert held.forced == Override(State.OPEN, "ada", "maintenance", NO_END, NOW)
        assert [circuit.key for circuit in table.breaker.troubled()] == ["orders"]

    def test_that_a_person_opened_it_is_kept_until_it_closes(self, table: Table) -> None:
        assert table.apply(hold(State.OPEN, NO_END)).by_hand
        table.apply(OverrideEnded())
        assert table.read().by_hand
        table.apply(hold(State.CLOSED))
        assert not table.read().by_hand
        assert "by_hand" not in table.item()
        table.type_in(state={"S": "OPEN"}, by_hand={"S": "yes"})
        assert not table.read().by_hand

    def test_an_override_without_an_end_is_kept_with_a_time(self, table: Table) -> None:
        table.apply(hold(State.OPEN, NO_END))
        item = table.item()
        for until in (item["forced"]["M"]["until"], item["open_until"]):
            assert float(until["N"]) == NO_END


class TestTroubled:
    def test_only_circuits_that_need_attention_are_listed(self, table: Table) -> None:
        table.new_outcomes().report("healthy", OutcomeCounts(5, 0))
        table.apply(Tripped(), "down")
        table.apply(hold(State.CLOSED), "held")
        table.apply(Tripped(), "paused")
        table.apply(MappingPaused("m", None), "paused")
        table.apply(hold(State.CLOSED), "paused")
        table.apply(OverrideEnded(), "paused")
        table.apply(Tripped(), "over")
        table.apply(hold(State.CLOSED), "over")
        table.apply(OverrideEnded(), "over")
        listed = {circuit.key for circuit in table.breaker.troubled()}
        assert listed == {"down", "held", "paused"}
        assert table.new_breaker("invoices").troubled() == []

    def test_a_consumer_that_is_paused_while_the_circuit_closes_is_found(
        self, table: Table
    ) -> None:
        table.apply(Tripped())
        for owner in ("a", "b"):
            table.clock.now += POLICY.cooldown
            seen = table.apply(PermitTaken(owner))
            if owner == "b":
                table.apply(MappingPaused("m", None))
            answer = CanaryAnswered(seen.generation, owner, CanaryVerdict.SUCCESS)
            assert table.breaker.apply_to(seen, answer).refused is None
        [found] = table.breaker.troubled()
        assert found.is_closed
        assert found.paused is not None

    def test_a_list_that_gives_no_answer_says_so(self, table: Table) -> None:
        table.client.spoilt["query"] = [throttled]
        with pytest.raises(CircuitsUnavailable):
            table.breaker.troubled()


class TestOutcomes:
    def test_outcomes_of_many_are_added_up_unread(self, table: Table) -> None:
        for _ in range(3):
            table.new_outcomes().report("orders", OutcomeCounts(2, 1))
        [bucket] = table.read().buckets
        assert (bucket.good, bucket.bad) == (6, 3)
        assert table.client.calls["update_item"] == 3
        assert table.read().is_closed

    def test_a_healthy_circuit_changes_no_state_and_is_not_read(self, table: Table) -> None:
        outcomes = table.new_outcomes()
        for _ in range(50):
            table.clock.now += 3
            outcomes.report("orders", OutcomeCounts(10, 0))
        assert table.client.calls == {"update_item": 50}
        assert table.read().generation == 0
        assert len(table.item()) <= 2 * MOST_STALE + 10

    def test_one_write_a_second_at_most_and_nothing_is_forgotten(self, table: Table) -> None:
        outcomes = table.new_outcomes()
        for _ in range(30):
            table.clock.now += 0.1
            outcomes.report("orders", OutcomeCounts(3, 1))
        table.clock.now += 1
        outcomes.report("orders", OutcomeCounts(0, 0))
        outcomes.report("orders", OutcomeCounts(1, 0))
        assert table.client.calls["update_item"] <= 5
        buckets = table.read().buckets
        assert sum(bucket.good for bucket in buckets) == 91
        assert sum(bucket.bad for bucket in buckets) == 30

    def test_what_is_older_than_the_window_is_not_told_as_if_it_were_new(
        self, table: Table
    ) -> None:
        outcomes = table.new_outcomes()
        outcomes.report("orders", OutcomeCounts(0, 1))
        outcomes.report("orders", OutcomeCounts(0, 1))
        table.clock.now += 2 * POLICY.window
        outcomes.report("orders", OutcomeCounts(1, 0))
        assert sum(bucket.bad for bucket in table.read().buckets) == 1
        assert table.read().is_closed

    def test_failures_trip_it_and_start_one_outage(self, table: Table) -> None:
        ours, theirs = table.new_outcomes(), table.new_outcomes()
        for outcomes in (ours, theirs):
            outcomes.report("orders", OutcomeCounts(0, 6))
        opened = table.read()
        assert opened.state is State.OPEN
        assert table.started == [("orders", opened.outage, 0)]
        assert table.metrics == {Count.CIRCUIT_TRIPPED: 1}
        table.clock.now += 5
        ours.report("orders", OutcomeCounts(0, 20))
        assert len(table.started) == 1
        assert table.read().generation == opened.generation

    def test_the_third_failure_in_a_row_is_written_within_the_second(self, table: Table) -> None:
        outcomes = table.new_outcomes()
        for _ in range(3):
            outcomes.report("orders", OutcomeCounts(bad=1))
        assert table.read().streak == 3
        assert table.client.calls["update_item"] == 2

    def test_a_report_that_is_written_gives_the_circuit(self, table: Table) -> None:
        ours, theirs = table.new_outcomes(), table.new_outcomes()
        assert ours.report("orders", OutcomeCounts(good=1)) == table.read()
        assert ours.report("orders", OutcomeCounts(good=1)) is None
        table.clock.now += 1
        opened = ours.report("orders", OutcomeCounts(bad=10))
        assert opened is not None
        assert opened.state is State.OPEN
        assert rounded(opened) == table.read()
        # Who reports later learns of it too.
        assert theirs.report("orders", OutcomeCounts(good=1)) == table.read()
        table.client.spoilt["update_item"] = [throttled]
        assert table.new_outcomes().report("orders", OutcomeCounts(bad=1)) is None

    def test_a_success_ends_the_streak(self, table: Table) -> None:
        table.new_outcomes().report("orders", OutcomeCounts(bad=5))
        table.clock.now += 1
        began = table.clock.now
        table.new_outcomes().report("orders", OutcomeCounts(good=1, good_at=began))
        assert table.read().streak == 0
        assert not {"streak", "streak_at"} & table.item().keys()

    def test_a_success_without_a_vote_ends_the_streak_and_counts_nothing(
        self, table: Table
    ) -> None:
        table.new_outcomes().report("orders", OutcomeCounts(bad=5))
        table.clock.now += 1
        retried = OutcomeCounts(retried_good=1, good_at=table.clock.now)
        table.new_outcomes().report("orders", retried)
        circuit = table.read()
        [bucket] = circuit.buckets
        assert (circuit.streak, bucket.good, bucket.bad) == (0, 0, 5)

    def test_a_success_that_began_before_the_streak_does_not_end_it(self, table: Table) -> None:
        began = table.clock.now
        table.clock.now += 1
        table.new_outcomes().report("orders", OutcomeCounts(bad=5))
        mixed = OutcomeCounts(good=4, good_at=began).then(OutcomeCounts(bad=2))
        table.new_outcomes().report("orders", mixed)
        assert table.read().streak == 7
        [bucket] = table.read().buckets
        assert (bucket.good, bucket.bad) == (4, 7)

    def test_after_a_success_the_streak_begins_anew(self, table: Table) -> None:
        table.new_outcomes().report("orders", OutcomeCounts(bad=5))
        table.clock.now += 1
        mixed = OutcomeCounts(good=1, good_at=table.clock.now).then(OutcomeCounts(bad=2))
        table.new_outcomes().report("orders", mixed)
        assert table.read().streak == 2
        # What began before that does not end it.
        table.new_outcomes().report("orders", OutcomeCounts(good=1, good_at=table.clock.now - 0.5))
        assert table.read().streak == 2

    def test_in_good_times_a_row_fits_one_write_unit(self, table: Table) -> None:
        """With the tenants of a pipeline of hundreds, an override, and a rate from before."""
        table.apply(hold(State.OPEN))
        table.apply(OverrideEnded())
        table.apply(hold(State.CLOSED))
        table.apply(OverrideEnded())
        outcomes = [table.new_outcomes() for _ in range(3)]
        for second in range(table.seconds):
            table.clock.now += 1
            tenants = frozenset(range(1_000 * second, 1_000 * second + 50))
            counts = OutcomeCounts(good=50, good_tenants=tenants, good_at=table.clock.now)
            outcomes[second % 3].report("orders", counts)
            assert row_bytes(table.item()) < 1_024

    def test_the_totals_of_all_processes_add_up_in_writes_that_calls_pay_for(
        self, table: Table
    ) -> None:
        outcomes = [table.new_outcomes() for _ in range(3)]
        for second in range(60):
            table.clock.now += 1
            counts = OutcomeCounts(good=9, retried_good=1, refused=2, good_at=table.clock.now)
            counts = counts.then(OutcomeCounts(retried_bad=1, throttled=1))
            outcomes[second % 3].report("orders", counts)
        before = table.client.writes
        for process in outcomes:
            process.report("orders", OutcomeCounts(refused=5))
        assert table.client.writes == before
        circuit = table.read()
        totals = (circuit.total_calls, circuit.total_failed, circuit.total_refused)
        assert totals == (720, 120, 120)
        assert circuit.counted_since == NOW + 1

    def test_openings_are_counted_beside_the_totals_and_no_transition_changes_those(
        self, table: Table
    ) -> None:
        table.new_outcomes().report("orders", OutcomeCounts(good=4, good_at=table.clock.now))
        before = table.read()
        table.apply(Tripped())
        table.apply(hold(State.CLOSED))
        table.apply(OverrideEnded())
        table.clock.now += 7 * DAY
        table.apply(Tripped())
        circuit = table.read()
        assert (circuit.openings, circuit.trips) == (2, 1)
        assert (circuit.total_calls, circuit.counted_since) == (4, before.counted_since)

    def test_totals_that_an_enemy_wrote_hold_the_letters_as_any_other_number(
        self, table: Table
    ) -> None:
        """DynamoDB refuses to add to them, so the breaker could no longer see failures."""
        odd: list[Any] = [{"S": "many"}, {"N": "-1"}, {"BOOL": True}, {"M": {}}]
        hostile = [
            *((name, value) for name in (*TOTALS, "openings", "counted_since") for value in odd),
            # Too large to be added to.
            *((name, {"N": "1e125"}) for name in TOTALS),
        ]
        for name, value in hostile:
            key = f"{name} {value}"
            table.type_in(key, **CLOSED, **{name: value})
            assert table.read(key).unreadable, key
            table.apply(hold(State.CLOSED), key)
            assert not table.read(key).unreadable, key

    def test_with_failures_a_row_stays_within_five_write_units(self, table: Table) -> None:
        outcomes = [table.new_outcomes() for _ in range(3)]
        for second in range(table.seconds):
            table.clock.now += 1
            tenants = frozenset(range(1_000 * second, 1_000 * second + 50))
            mixed = OutcomeCounts(bad=10, bad_tenants=tenants).then(
                OutcomeCounts(good=50, good_tenants=tenants, good_at=table.clock.now)
            )
            outcomes[second % 3].report("orders", mixed)
            assert row_bytes(table.item()) < 5 * 1_024
        assert table.read().is_closed

    def test_one_tenant_of_many_does_not_open_it(self, table: Table) -> None:
        outcomes = [table.new_outcomes() for _ in range(3)]
        for second in range(60):
            table.clock.now += 1
            good = OutcomeCounts(
                good=1, good_tenants=frozenset({100 + second % 20}), good_at=table.clock.now
            )
            outcomes[second % 3].report("orders", good)
        for second in range(60):
            table.clock.now += 1
            bad = OutcomeCounts(bad=9, bad_tenants=frozenset({7}))
            outcomes[second % 3].report("orders", bad)
        circuit = table.read()
        assert circuit.is_closed
        assert circuit.streak == 540
        assert circuit.streak_tenants == {7}

    def test_the_tenants_of_a_streak_end_with_it(self, table: Table) -> None:
        table.new_outcomes().report("orders", OutcomeCounts(bad=2, bad_tenants=frozenset({1, 2})))
        table.new_outcomes().report("orders", OutcomeCounts(bad=1, bad_tenants=frozenset({3})))
        assert table.read().streak_tenants == {1, 2, 3}
        [bucket] = table.read().buckets
        assert bucket.bad_tenants == {1, 2, 3}
        table.clock.now += 1
        good = OutcomeCounts(good=1, good_at=table.clock.now, good_tenants=frozenset({3}))
        table.new_outcomes().report(
            "orders", good.then(OutcomeCounts(bad=1, bad_tenants=frozenset({4})))
        )
        assert table.read().streak_tenants == {4}
        table.new_outcomes().report("orders", good)
        assert table.read().streak_tenants == frozenset()

    def test_tenants_leave_with_their_bucket_and_when_the_circuit_closes(
        self, table: Table
    ) -> None:
        outcomes = table.new_outcomes()
        outcomes.report("orders", OutcomeCounts(bad=1, slow=1, bad_tenants=frozenset({1})))
        table.clock.now += 10 * POLICY.window
        for _ in range(2):
            table.clock.now += 1
            outcomes.report("orders", OutcomeCounts(good=1, good_at=table.clock.now))
        assert not [name for name in table.item() if name.startswith(("tb_", "slow_"))]
        outcomes.report("orders", OutcomeCounts(bad=10, bad_tenants=frozenset({1})))
        table.clock.now += 1
        outcomes.report("orders", OutcomeCounts(bad=1, bad_tenants=frozenset({1})))
        assert table.read().state is State.OPEN
        table.apply(hold(State.CLOSED))
        left = ("tb_", "tg_", "bad_", "good_", "slow_", "streak_")
        assert not [name for name in table.item() if name.startswith(left)]

    def test_slow_calls_trip_it(self, table: Table) -> None:
        slow = OutcomeCounts(good=20, slow=20, good_at=table.clock.now)
        table.new_outcomes().report("orders", slow)
        assert table.read().state is State.OPEN

    def test_a_throttled_write_is_dropped_and_counted(self, table: Table) -> None:
        outcomes = table.new_outcomes()
        table.client.spoilt["update_item"] = [throttled]
        outcomes.report("orders", OutcomeCounts(3, 1))
        table.clock.now += 2
        outcomes.report("orders", OutcomeCounts(1, 0))
        assert table.metrics == {Count.OUTCOMES_DROPPED: 4}
        assert sum(bucket.good for bucket in table.read().buckets) == 1

    def test_a_trip_that_could_not_be_written_is_tried_at_the_next_report(
        self, table: Table
    ) -> None:
        outcomes = table.new_outcomes()
        table.client.spoilt["update_item"] = [lambda act: act(), throttled]
        outcomes.report("orders", OutcomeCounts(0, 10))
        assert table.metrics == {Count.CIRCUIT_NOT_TRIPPED: 1}
        table.clock.now += 2
        outcomes.report("orders", OutcomeCounts(0, 1))
        assert table.read().state is State.OPEN
        assert len(table.started) == 1

    def test_an_outage_that_could_not_be_started_is_counted_and_left_to_the_sweep(
        self, table: Table
    ) -> None:
        class Down:
            def start(self, *_: Any) -> None:
                raise ExecutionsUnavailable("ThrottlingException")

        table.new_outcomes(Down()).report("orders", OutcomeCounts(0, 10))
        assert table.metrics == {Count.CIRCUIT_TRIPPED: 1, Count.OUTAGE_NOT_STARTED: 1}
        assert [circuit.key for circuit in table.breaker.troubled()] == ["orders"]

    def test_who_may_not_start_outages_trips_all_the_same(self, table: Table) -> None:
        table.new_outcomes(None).report("orders", OutcomeCounts(0, 10))
        assert table.read().state is State.OPEN

    def test_buckets_outside_the_window_are_deleted(self, table: Table) -> None:
        """Even if each process writes only once in its life."""
        for _ in range(5 * MOST_STALE):
            table.clock.now += 10 * POLICY.window
            table.new_outcomes().report("orders", OutcomeCounts(1, 1))
        assert len(table.read().buckets) <= MOST_STALE + 1
        calls = table.client.calls["update_item"]
        assert calls <= 5 * MOST_STALE * 1.2

    def test_a_circuit_that_closes_forgets_what_was_counted(self, table: Table) -> None:
        table.new_outcomes().report("orders", OutcomeCounts(0, 10))
        table.apply(hold(State.CLOSED))
        assert (table.read().buckets, table.read().streak) == ((), 0)
        table.apply(OverrideEnded())
        table.new_outcomes().report("orders", OutcomeCounts(0, 1))
        assert table.read().is_closed

    def test_outcomes_never_change_an_unreadable_circuit(self, table: Table) -> None:
        table.type_in(state={"S": "?"}, streak={"S": "many"})
        table.new_outcomes().report("orders", OutcomeCounts(0, 10))
        assert table.metrics == {Count.OUTCOMES_DROPPED: 10}
        assert table.read().unreadable


class TestPace:
    def paced(self, table: Table, rate: float = 8.0) -> Circuit:
        """A circuit that has closed a second ago, and may let four calls a second through."""
        numbers = {"rate": rate, "generation": 7}
        attributes = {name: {"N": str(number)} for name, number in numbers.items()}
        table.type_in(state={"S": "OPEN"}, **attributes)
        table.apply(hold(State.CLOSED))
        table.apply(OverrideEnded())
        table.clock.now += 1
        return table.read()

    def take(self, table: Table, circuit: Circuit, calls: int) -> int:
        answer = table.new_outcomes().take(circuit, OutcomeCounts(), Wish(calls))
        assert answer is not None
        return answer[1].calls

    def test_a_circuit_that_closes_has_a_pace(self, table: Table) -> None:
        pace = self.paced(table).paced(table.clock.now)
        assert pace is not None
        assert (pace.limit, pace.cap, pace.normal) == (4.0, pytest.approx(14.4), 8.0)
        assert (pace.utat, pace.since, pace.because) == (NOW, NOW, "it comes back")

    def test_calls_and_outcomes_are_one_write(self, table: Table) -> None:
        circuit = self.paced(table)
        before = table.client.calls["update_item"]
        outcomes = OutcomeCounts(good=2, retried_good=1, retried_bad=1, throttled=1)
        answer = table.new_outcomes().take(circuit, outcomes, Wish(3, places=2))
        assert answer is not None
        assert answer[1].calls == 3
        assert answer[1].waits == (pytest.approx(1 / 11.52), pytest.approx(2 / 11.52))
        assert answer[0] == table.read()
        assert table.client.calls["update_item"] == before + 1
        assert table.read().calls == (CallCount(calls_number(table.clock.now), 3, 1, 1),)
        [bucket] = table.read().buckets
        assert (bucket.good, bucket.bad) == (2, 0)

    def test_many_processes_share_what_there_is(self, table: Table) -> None:
        """Each has read the circuit before any of the others has taken."""
        circuit = self.paced(table)
        assert [self.take(table, circuit, 2) for _ in range(4)] == [2, 2, 0, 0]

    def test_places_are_promised_one_after_the_other(self, table: Table) -> None:
        circuit = self.paced(table)
        waits = []
        for _ in range(2):
            answer = table.new_outcomes().take(circuit, OutcomeCounts(), Wish(places=2))
            assert answer is not None
            waits += answer[1].waits
        # 0.8 of the cap.
        assert waits == [pytest.approx(number / 11.52, abs=0.002) for number in range(1, 5)]

    def test_a_process_notes_its_places_each_three_seconds(self, table: Table) -> None:
        """What it has promised in between comes first, and other processes know of all of it."""
        circuit, outcomes, waits = self.paced(table), table.new_outcomes(), []
        before = table.client.calls["update_item"]
        for pause in (0.5, 0.5, 2.5, 0.0):
            answer = outcomes.take(circuit, OutcomeCounts(), Wish(places=20))
            assert answer is not None
            waits += [table.clock.now + wait for wait in answer[1].waits]
            circuit = answer[0]
            table.clock.now += pause
        assert table.client.calls["update_item"] == before + 2
        assert waits == sorted(waits)
        assert len(set(waits)) == 80
        other = table.new_outcomes().take(table.read(), OutcomeCounts(), Wish(places=1))
        assert other is not None
        assert table.clock.now + other[1].waits[0] >= waits[-1]

    def test_outcomes_wait_for_the_write_that_notes_the_places(self, table: Table) -> None:
        circuit, outcomes = self.paced(table), table.new_outcomes()
        outcomes.take(circuit, OutcomeCounts(), Wish(places=1))
        table.clock.now += 0.5
        answer = outcomes.take(circuit, OutcomeCounts(good=3), Wish(places=1))
        assert answer is not None
        assert not table.read().buckets
        table.clock.now += 3
        outcomes.take(circuit, OutcomeCounts(good=1), Wish(places=1))
        assert sum(bucket.good for bucket in table.read().buckets) == 4

    def test_an_answer_that_is_lost_wastes_and_never_grants_more(self, table: Table) -> None:
        circuit = self.paced(table)
        table.client.spoilt["update_item"] = [tried_twice]
        assert self.take(table, circuit, 2) == 2
        assert self.take(table, table.read(), 4) == 0

    def test_a_circuit_that_opened_meanwhile_grants_nothing(self, table: Table) -> None:
        circuit = self.paced(table)
        table.apply(Tripped())
        answer = table.new_outcomes().take(circuit, OutcomeCounts(), Wish(4))
        assert answer is not None
        assert (answer[1].calls, answer[0].state) == (0, State.OPEN)

    def test_of_two_who_saw_the_same_signs_one_changes_the_limit(self, table: Table) -> None:
        """Both begin a pace: one does, and the other keeps it."""
        for _ in range(2):
            table.new_outcomes().report("orders", OutcomeCounts(throttled=2), table.read())
            table.clock.now += 0.1
        pace = table.read().pace
        assert pace is not None
        assert (pace.turn, pace.because, pace.cap, pace.limit) == (1, "it throttles", None, FLOOR)

    def test_what_throttles_is_let_through_as_fast_as_it_accepted(self, table: Table) -> None:
        outcomes = table.new_outcomes()
        for _ in range(20):
            outcomes.report("orders", OutcomeCounts(good=4), table.read())
            table.clock.now += 1
        outcomes.report("orders", OutcomeCounts(good=1, throttled=2), table.read())
        pace = table.read().paced(table.clock.now)
        assert pace is not None
        assert pace.limit == pytest.approx(4.4, rel=0.05)
        assert table.read().is_closed

    def test_a_pace_that_a_person_ends_by_opening_begins_anew(self, table: Table) -> None:
        before = self.paced(table).pace
        table.apply(hold(State.OPEN))
        assert table.read().paced(table.clock.now) is None
        table.clock.now += 900
        table.apply(hold(State.CLOSED, NOW + 9_000))
        after = table.read().pace
        assert before is not None
        assert after is not None
        assert (after.since, after.utat, after.ptat) == (table.clock.now, table.clock.now, 0)
        assert after.turn > before.turn

    def test_a_row_that_is_deleted_lets_all_through(self, table: Table) -> None:
        circuit = self.paced(table)
        table.delete("orders")
        assert self.take(table, circuit, 40) == 40

    def test_a_throttled_write_gives_no_answer_and_is_counted(self, table: Table) -> None:
        circuit = self.paced(table)
        table.client.spoilt["update_item"] = [throttled]
        assert table.new_outcomes().take(circuit, OutcomeCounts(good=2), Wish(4)) is None
        assert table.metrics["OutcomesDropped"] == 2

    def test_a_pace_that_always_changes_grants_nothing_and_counts(self, table: Table) -> None:
        circuit = self.paced(table, rate=2_000.0)

        def after_another(act: Any) -> Any:
            assert self.take(table, table.read(), 1)
            return act()

        table.client.spoilt["update_item"] = [
            step for _ in range(MOST_CONFLICTS) for step in (after_another, lambda act: act())
        ]
        answer = table.new_outcomes().take(circuit, OutcomeCounts(good=1), Wish(4))
        assert answer is not None
        assert answer[1].calls == 0
        assert sum(bucket.good for bucket in table.read().buckets) == 1

    @each_row(
        "field",
        [
            {"limit": {"N": "0"}},
            {"limit": {"N": "-1"}},
            {"limit": {"N": "1e30"}},
            {"limit": {"S": "fast"}},
            {"cap": {"N": "0"}},
            {"normal": {"N": "1e30"}},
            {"turn": {"N": "1.5"}},
            {"turn": {"N": "1e30"}},
            {"turn": {"S": "x"}},
            {"utat": {"BOOL": True}},
            {"because": {"N": "1"}},
        ],
    )
    def test_a_malformed_pace_limits_nothing_and_is_named(self, table: Table, field: Any) -> None:
        circuit = self.paced(table)
        assert circuit.pace is not None
        item = table.item()
        pace = {"M": {**item.pop("pace")["M"], **field}}
        table.put({**item, "pace": pace})
        read, named = table.read_with_names()
        assert (read.state, read.pace, read.unreadable) == (State.CLOSED, None, False)
        assert len(named) == 1
        # The next outage's end begins another.
        table.apply(Tripped())
        table.apply(hold(State.CLOSED))
        assert table.read().pace is not None

    def test_a_pace_that_is_no_map_limits_nothing(self, table: Table) -> None:
        self.paced(table)
        table.put({**table.item(), "pace": {"S": "slow"}})
        assert table.read().pace is None
        table.new_outcomes().report("orders", OutcomeCounts(throttled=2), table.read())
        assert table.read().is_closed

    def test_counts_that_are_malformed_are_no_signs(self, table: Table) -> None:
        self.paced(table)
        odd = {"ok_x": {"N": "1"}, "failed_7": {"S": "many"}, "throttled_8": {"N": "-4"}}
        table.put({**table.item(), **odd})
        assert {calls.total for calls in table.read().calls} <= {0}

    def test_old_counts_of_calls_are_deleted(self, table: Table) -> None:
        outcomes = table.new_outcomes()
        circuit = self.paced(table)
        for _ in range(60):
            answer = outcomes.take(circuit, OutcomeCounts(good=1), Wish(1))
            assert answer is not None
            circuit = answer[0]
            table.clock.now += 1
        assert len(circuit.calls) <= KEPT_CALLS + 2


ILL, WELL = kind_of("c_tenantId", "a"), kind_of("c_tenantId", "b")


class TestKinds:
    def report(self, table: Table, *tenants: str, is_good: bool) -> None:
        """Messages of these tenants are processed, or fail, in a process of their own."""
        circuit, outcomes = table.read(), table.new_outcomes()
        for tenant in tenants:
            seen = (0, 1) if is_good else (1, 0)
            kinds = dict.fromkeys((ALL, kind_of("c_tenantId", tenant)), seen)
            counts = (
                OutcomeCounts(good=1, good_at=table.clock.now, kinds=kinds)
                if is_good
                else OutcomeCounts(bad=1, kinds=kinds)
            )
            outcomes.report("orders", counts, circuit)
            table.clock.now += 1

    def sicken(self, table: Table) -> Circuit:
        """A circuit of which tenant a is sick."""
        self.report(table, "a", is_good=False)
        self.report(table, *"bcdefghijk", is_good=True)
        self.report(table, "a", "a", "a", is_good=False)
        circuit = table.read()
        assert circuit.sick is not None
        return circuit

    def test_a_kind_that_fails_while_others_succeed_is_found(self, table: Table) -> None:
        circuit = self.sicken(table)
        assert circuit.is_closed
        assert circuit.sick is not None
        assert circuit.sick.of((ILL, WELL)) == (ILL,)

    def test_kinds_and_outcomes_are_one_write(self, table: Table) -> None:
        outcomes = table.new_outcomes()
        kinds = dict.fromkeys((ALL, ILL), (1, 0))
        before = table.client.writes
        circuit = outcomes.report("orders", OutcomeCounts(bad=1, kinds=kinds))
        assert table.client.writes == before + 1
        assert circuit == table.read()
        number = number_of(NOW)
        assert set(table.read().kinds) == {*(KindCount(kind, number, 1, 0) for kind in (ALL, ILL))}

    def test_only_the_successes_of_kinds_that_failed_are_counted(self, table: Table) -> None:
        self.report(table, "a", is_good=False)
        self.report(table, "a", "b", is_good=True)
        counts = {count.kind: (count.failed, count.good) for count in table.read().kinds}
        assert counts == {ALL: (1, 2), ILL: (1, 1)}

    def test_no_value_is_stored(self, table: Table) -> None:
        kinds = dict.fromkeys((ALL, kind_of("c_tenantId", "Rumpelstiltskin")), (1, 0))
        table.new_outcomes().report("orders", OutcomeCounts(bad=1, kinds=kinds))
        assert "umpel" not in str(table.item())

    def test_of_many_who_try_a_kind_at_once_one_may(self, table: Table) -> None:
        circuit = self.sicken(table)
        table.clock.now += 60
        answers = [self.tried(table, circuit) for _ in range(4)]
        assert answers == [True, False, False, False]

    def tried(self, table: Table, circuit: Circuit) -> bool:
        now = table.clock.now
        answer = table.new_outcomes().slow(circuit, lambda sick: sick.tried((ILL,), now))
        assert answer is not None
        assert answer[0].sick == table.read().sick
        return answer[1]

    def test_a_try_that_the_sdk_writes_twice_is_lost(self, table: Table) -> None:
        """It is refused, and the next one is due as soon as after any other."""
        circuit = self.sicken(table)
        table.clock.now += 60
        table.client.spoilt["update_item"] = [tried_twice]
        assert not self.tried(table, circuit)
        table.clock.now += 60
        assert self.tried(table, table.read())

    def test_two_successes_heal_and_end_the_counts(self, table: Table) -> None:
        circuit = self.sicken(table)
        for _ in range(2):
            answer = table.new_outcomes().slow(
                circuit, lambda sick: sick.showed((ILL,), is_good=True)
            )
            assert answer is not None
            circuit = answer[0]
        assert (table.read().sick, table.read().kinds) == (None, ())
        assert circuit == table.read()
        self.report(table, "a", is_good=False)
        assert table.read().sick is None

    def test_a_second_kind_is_slowed_beside_the_first(self, table: Table) -> None:
        self.sicken(table)
        self.report(table, *"bbbb", is_good=False)
        sick = table.read().sick
        assert sick is not None
        assert set(sick.of((ILL, WELL))) == {ILL, WELL}
        assert sick.turn == 2

    def test_a_kind_that_is_no_longer_sick_is_not_tried(self, table: Table) -> None:
        circuit = self.sicken(table)
        table.delete("orders")
        table.clock.now += 60
        assert not self.tried(table, circuit)
        assert table.item() == {}

    def test_a_throttled_write_gives_no_answer(self, table: Table) -> None:
        circuit = self.sicken(table)
        table.clock.now += 60
        table.client.spoilt["update_item"] = [throttled]
        now = table.clock.now
        assert table.new_outcomes().slow(circuit, lambda sick: sick.tried((ILL,), now)) is None

    def test_a_find_that_could_not_be_written_is_made_by_the_next_report(
        self, table: Table
    ) -> None:
        circuit = self.sicken(table)
        item = table.item()
        del item["sick"]
        table.put(item)
        table.client.spoilt["update_item"] = [lambda act: act(), throttled]
        self.report(table, "b", is_good=True)
        assert table.read().sick is None
        self.report(table, "b", is_good=True)
        assert table.read().sick is not None
        assert circuit.is_closed

    def test_few_kinds_that_fail_in_a_row_do_not_open_it(self, table: Table) -> None:
        """Two failures of each are too few to find it, and ten in a row would open it."""
        self.report(table, *"abcde", is_good=False)
        self.report(table, *"fghijklmnopq", is_good=True)
        self.report(table, *"abcdeabcdeabcde", is_good=False)
        circuit = table.read()
        assert (circuit.is_closed, circuit.streak) == (True, 15)
        assert len(circuit.sick.of([kind_of("c_tenantId", t) for t in "abcde"])) > 0  # type: ignore[union-attr]

    def test_an_outage_of_all_kinds_opens_it_as_soon_as_without(self, table: Table) -> None:
        self.report(table, *"abcdefghij", is_good=True)
        self.report(table, *"abcdefghij", is_good=False)
        assert not table.read().is_closed

    def test_an_outage_that_begins_while_a_kind_is_sick_opens_it_after_twenty(
        self, table: Table
    ) -> None:
        self.sicken(table)
        table.client._real.update_item(
            TableName=CIRCUITS,
            Key={"pipeline": {"S": "orders"}, "circuit_key": {"S": "orders"}},
            UpdateExpression="REMOVE streak, streak_at",
        )
        self.report(table, *"bcdefghijk" * 4, is_good=True)
        self.report(table, *("bcdefghijk" * 2)[:-1], is_good=False)
        assert (table.read().is_closed, table.read().streak) == (True, 19)
        self.report(table, "k", is_good=False)
        assert not table.read().is_closed

    def test_the_counts_of_an_outage_find_no_kind_after_it(self, table: Table) -> None:
        self.report(table, *"abababab", is_good=False)
        table.apply(Tripped())
        table.apply(hold(State.CLOSED))
        table.apply(OverrideEnded())
        self.report(table, *"cdefghijklmnopqrst", is_good=True)
        assert table.read().sick is None

    def test_outdated_counts_are_deleted(self, table: Table) -> None:
        self.report(table, "a", is_good=False)
        table.clock.now += 600
        self.report(table, "b", is_good=False)
        assert {count.number for count in table.read().kinds} == {number_of(NOW + 601)}

    @each_row(
        "sick",
        [
            {"S": "all"},
            {"M": {}},
            {"M": {"turn": {"N": "1"}, "kinds": {"S": "all"}}},
            {"M": {"turn": {"S": "x"}, "kinds": {"M": {}}}},
            {"M": {"turn": {"N": "1e30"}, "kinds": {"M": {}}}},
            {"M": {"turn": {"N": "1"}, "kinds": {"M": {ILL: {"N": "1"}}}}},
            {"M": {"turn": {"N": "1"}, "kinds": {"M": {ILL: {"M": {}}}}}},
            {"M": {"turn": {"N": "1"}, "kinds": {"M": {"acme": {"M": {}}}}}},
            {
                "M": {
                    "turn": {"N": "1"},
                    "kinds": {
                        "M": {
                            kind_of("size", str(at)): {
                                "M": {"next_try": {"N": "1"}, "good": {"N": "0"}}
                            }
                            for at in range(1_000)
                        }
                    },
                }
            },
            {
                "M": {
                    "turn": {"N": "1"},
                    "kinds": {"M": {ILL: {"M": {"next_try": {"N": "1"}, "good": {"N": "7"}}}}},
                }
            },
        ],
    )
    def test_malformed_kinds_slow_nothing_and_are_named(self, table: Table, sick: Any) -> None:
        table.type_in(**CLOSED, sick=sick)
        read, named = table.read_with_names()
        assert (read.state, read.sick, read.unreadable) == (State.CLOSED, None, False)
        assert len(named) == 1
        # The breaker works as before, and no try is owed to the row.
        before = table.client.writes
        answer = table.new_outcomes().slow(read, lambda kinds: kinds.and_found((ILL,), NOW))
        assert answer is not None
        assert table.client.writes <= before + 1
        self.report(table, *"abcdefghijklmn", is_good=False)
        assert not table.read().is_closed

    def test_counts_that_are_malformed_find_nothing_and_leave(self, table: Table) -> None:
        now = number_of(NOW)
        table.type_in(
            **CLOSED,
            **{
                f"x_{now}_{ILL}": {"S": "many"},
                f"y_{now}_{WELL}": {"N": "-4"},
                f"x_{now}_": {"BOOL": True},
                "x_": {"N": "1"},
                "x_7": {"N": "1"},
                f"x_{now}_acme": {"N": "9"},
                f"x_{'9' * 30}_{ILL}": {"N": "9"},
            },
        )
        assert {count.failed for count in table.read().kinds} == {0}
        self.report(table, "a", is_good=False)
        # The breaker's own counts are written all the same.
        assert table.read().streak == 1
        assert table.metrics["OutcomesDropped"] == 0
        self.report(table, "a", is_good=False)
        assert KindCount(ILL, now, 1, 0) in table.read().kinds

    def test_a_thousand_kinds_in_a_row_stop_nothing(self, table: Table) -> None:
        now = number_of(NOW)
        counts = {f"x_{now}_{kind_of('size', str(at))}": {"N": "99"} for at in range(1_000)}
        table.type_in(**CLOSED, **{f"x_{now}_": {"N": "1e40"}}, **counts)
        self.report(table, *"abcdefghijklmn", is_good=False)
        assert table.metrics["OutcomesDropped"] == 0
        assert not table.read().is_closed


def row_bytes(item: dict[str, Any]) -> int:
    """The size of an item as DynamoDB counts it, rounded up."""

    def of(value: Any) -> int:
        match value:
            case {"N": digits}:
                return len(digits) // 2 + 2
            case {"S": text}:
                return len(text.encode())
            case {"M": fields}:
                return 3 + sum(len(name) + 1 + of(field) for name, field in fields.items())
            case {"NS": members}:
                return 3 + sum(of({"N": member}) for member in members)
        raise TypeError(value)

    return sum(len(name) + of(value) for name, value in item.items())


def rounded(circuit: Circuit) -> Circuit:
    """As stored: to the thousandth of a second."""
    changes: dict[str, Any] = {
        name: round(getattr(circuit, name), 3)
        for name in ("started", "open_until", "cooldown", "opened_at", "closed_at")
    }
    for name, moment in (("permit", "until"), ("forced", "until"), ("paused", "at")):
        part = getattr(circuit, name)
        if part is not None:
            changes[name] = replace(part, **{moment: round(getattr(part, moment), 3)})
    return replace(circuit, **changes)


@pytest.fixture
def states() -> Iterator[Any]:
    with mock_aws():
        yield Counted(boto3.client("stepfunctions", region_name=REGION))


def state_machine(states: Any, name: str) -> str:
    wait = {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 60, "End": True}}}
    role = "arn:aws:iam::123456789012:role/circuit-breaker"
    answer = states.create_state_machine(name=name, definition=json.dumps(wait), roleArn=role)
    return str(answer["stateMachineArn"])


def test_an_outage_is_started_once_however_often_it_is_asked_for(states: Any) -> None:
    arn = state_machine(states, "started-once")
    outages = StepFunctionsExecutions(lambda: states, arn, "orders")
    for _ in range(3):
        outages.start("https://a.example/?x", 5, 0)
    name = execution_name("orders", "https://a.example/?x", 5, 0)
    assert outages.running() == {name}
    [execution] = states.list_executions(stateMachineArn=arn)["executions"]
    described = states.describe_execution(executionArn=execution["executionArn"])
    assert json.loads(described["input"]) == {
        "pipeline": "orders",
        "key": "https://a.example/?x",
        "generation": 5,
        "restart": 0,
    }


def test_an_outage_whose_execution_has_ended_gets_another_by_its_restart_number(
    states: Any,
) -> None:
    arn = state_machine(states, "started-again")
    outages = StepFunctionsExecutions(lambda: states, arn, "orders")
    outages.start("orders", 5, 0)
    [execution] = states.list_executions(stateMachineArn=arn)["executions"]
    states.stop_execution(executionArn=execution["executionArn"])
    outages.start("orders", 5, 0)
    assert outages.running() == frozenset()
    outages.start("orders", 5, 1)
    assert outages.running() == {execution_name("orders", "orders", 5, 1)}


def test_step_functions_that_gives_no_answer_is_said_so(states: Any) -> None:
    outages = StepFunctionsExecutions(lambda: states, state_machine(states, "silent"), "orders")
    for name, act in (
        ("start_execution", lambda: outages.start("orders", 1, 0)),
        ("list_executions", outages.running),
    ):
        states.spoilt[name] = [throttled]
        with pytest.raises(ExecutionsUnavailable, match="ThrottlingException"):
            act()
