"""What circuits and the router's answer say to the watch."""

from __future__ import annotations

from deadletter.circuit.state import NO_END, Circuit, Override, State
from deadletter.routing.router import RouterAnswer
from deadletter.rules.refused_rule import RefusedRule
from deadletter.watch.observation import (
    CircuitsState,
    Observation,
    RulesState,
    circuits_state,
    rules_state,
)


def test_circuits_that_are_not_troubled_are_closed() -> None:
    assert circuits_state("orders", []) == CircuitsState()


def test_only_circuits_of_single_keys_are_counted() -> None:
    troubled = [
        Circuit("orders", State.HALF_OPEN),
        Circuit("endpoint-7", State.OPEN),
        Circuit("endpoint-8", State.HALF_OPEN),
        Circuit("endpoint-9", State.CLOSED),
    ]
    assert circuits_state("orders", troubled) == CircuitsState(level=1, open_keys=2)


def test_configuration_that_all_messages_need_is_counted_apart_from_single_keys() -> None:
    troubled = [
        Circuit("orders#config", State.OPEN),
        Circuit("dependency/payments#config", State.HALF_OPEN),
        Circuit("dependency/mail#config", State.CLOSED),
        Circuit("dependency/payments", State.OPEN),
        Circuit("endpoint-7#config", State.OPEN),
    ]
    assert circuits_state("orders", troubled) == CircuitsState(
        named=2, open_keys=2, misconfigured=2
    )


def test_only_a_hold_without_an_end_is_a_hold_that_may_be_forgotten() -> None:
    forgotten = Override(State.OPEN, "ada", "looks odd", NO_END, begun=7.0)
    ends = Override(State.CLOSED, "ada", "looks fine", 1e9, begun=7.0)
    troubled = [
        Circuit("orders", State.OPEN, forced=forgotten),
        Circuit("endpoint-7", forced=ends),
    ]
    assert circuits_state("orders", troubled).held == {"orders": 7.0}


def test_rules_of_all_pipelines_are_counted_apart() -> None:
    answer = RouterAnswer(
        (),
        (RefusedRule("a", "why"), RefusedRule("b", "why", everywhere=True)),
        limited_rules=("c", "d", "e"),
        limited_everywhere=("d",),
    )
    expected = RulesState(refused=1, refused_everywhere=1, limited=2, limited_everywhere=1)
    assert rules_state(answer) == expected


def test_what_no_look_has_seen_is_no_trouble() -> None:
    rules = RulesState()
    assert (rules.refused, rules.refused_everywhere) == (0, 0)
    assert (rules.limited, rules.limited_everywhere) == (0, 0)
    assert not Observation().counted


def test_a_pipeline_never_has_fewer_than_no_rules_at_their_limit() -> None:
    """Each partition gives its own list; a rule of all pipelines may be in one of them alone."""
    answer = RouterAnswer((), limited_rules=(), limited_everywhere=("d",))
    assert rules_state(answer) == RulesState(limited=0, limited_everywhere=1)
