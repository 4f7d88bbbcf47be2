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
    own = troubled[0]
    assert circuits_state("orders", troubled) == CircuitsState(level=1, open_keys=2, of_all=(own,))


def test_configuration_that_all_messages_need_is_counted_apart_from_single_keys() -> None:
    troubled = [
        Circuit("orders#config", State.OPEN),
        Circuit("dependency/payments#config", State.HALF_OPEN),
        Circuit("dependency/mail#config", State.CLOSED),
        Circuit("dependency/payments", State.OPEN),
        Circuit("endpoint-7#config", State.OPEN),
    ]
    state = circuits_state("orders", troubled)
    assert (state.named, state.open_keys) == (2, 2)
    assert [circuit.key for circuit in state.of_all] == [
        "dependency/mail#config",
        "dependency/payments",
        "dependency/payments#config",
        "orders#config",
    ]


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
    expected = RulesState(refused=("a",), limited=("c", "e"), everywhere=2)
    assert rules_state(answer) == expected


def test_an_invalid_rule_that_is_disabled_calls_no_person() -> None:
    disabled = [
        RefusedRule("a", "why", disabled=True),
        RefusedRule("b", "why", everywhere=True, disabled=True),
    ]
    assert rules_state(RouterAnswer((), tuple(disabled))) == RulesState()


def test_a_rule_of_all_pipelines_may_be_in_one_list_alone() -> None:
    """Each partition gives its own list."""
    answer = RouterAnswer((), limited_rules=(), limited_everywhere=("d",))
    assert rules_state(answer) == RulesState(everywhere=1)


def test_what_no_look_has_seen_is_no_trouble() -> None:
    assert RulesState() == RulesState(refused=(), limited=(), everywhere=0)
    assert not Observation().counted
