"""The state machine, executed in moto with the real handlers."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from deadletter.circuit.state import State
from deadletter.circuit.transitions import OverrideEnded
from deadletter.outage.executions import START_SECONDS
from deadletter.testing.clock import START
from tests.statemachines.conftest import DEFINITION, Account, client
from tests.statemachines.test_graph import exits

MORE_THAN_RETRIES = 50


def failing(times: int) -> Callable[[dict[str, Any]], Any]:
    """A consumer that fails so many canaries and is well from then on."""
    left = [times]

    def answer(event: dict[str, Any]) -> dict[str, Any]:
        if left[0] > 0:
            left[0] -= 1
            item = event["Records"][0]["messageId"]
            return {"batchItemFailures": [{"itemIdentifier": item}]}
        return {"batchItemFailures": []}

    return answer


def fill(account: Account, letters: int = 6) -> None:
    for number in range(letters):
        account.put(account.dlq, json.dumps({"secret": f"body {number}"}))


def test_an_outage_of_five_probes_takes_at_most_forty_transitions(account: Account) -> None:
    fill(account)
    account.answers = failing(3)
    execution = account.run(account.trip())
    assert execution.status == "SUCCEEDED"
    assert execution.visited[-1] == "Closed"
    assert execution.visited.count("Probe") == 5
    assert execution.transitions == 33
    assert account.circuit().state is State.CLOSED
    assert account.circuit().paused is None
    assert account.consumer_mapping() == ("Enabled", 50)
    # Two came back well and are gone; the others are where they were.
    assert account.depth(account.dlq) == 4


def test_it_stays_within_forty_where_lambda_disables_the_mapping_slowly(account: Account) -> None:
    fill(account)
    account.answers = failing(3)
    account.changing = 5
    execution = account.run(account.trip())
    assert execution.visited[-1] == "Closed"
    assert execution.retries == 5
    assert execution.transitions <= 40


def test_nothing_of_a_letter_is_in_the_history(account: Account) -> None:
    fill(account)
    account.answers = failing(1)
    execution = account.run(account.trip())
    assert len(account.given) == 3
    assert "body" not in execution.history
    assert "secret" not in execution.history


def test_the_consumer_sees_one_record_of_the_queue_it_came_from_and_the_permit(
    account: Account,
) -> None:
    dead, live = account.put(account.dlq), account.put(account.main)
    account.run(account.trip())
    records = [argument["Records"] for argument in account.given]
    assert [[message["messageId"] for message in batch] for batch in records] == [[dead], [live]]
    arns = [batch[0]["eventSourceARN"] for batch in records]
    assert arns == [account.arn(account.dlq), account.arn(account.main)]
    assert len(set(account.permits)) == 2
    assert account.depth(account.dlq) == account.depth(account.main) == 0


def test_the_consumer_comes_back_in_steps(account: Account) -> None:
    fill(account)
    limits: list[int | None] = []
    original = client("lambda").meta.events
    original.register_first(
        "before-call.lambda.UpdateEventSourceMapping",
        lambda params, **_: limits.append(json.loads(params["body"]).get("Enabled")),
        "watch",
    )
    try:
        account.run(account.trip())
    finally:
        original.unregister("before-call.lambda.UpdateEventSourceMapping", unique_id="watch")
    # Disabled once, enabled once, and from then on only its limit grows.
    assert limits == [False, True, None, None, None, None]


def test_the_wait_is_what_is_left_of_the_cooldown(account: Account) -> None:
    fill(account)
    circuit = account.trip()
    account.clock.advance(10)
    account.run(circuit)
    assert account.waits[0] <= circuit.open_until - (START + 10) + 1


def test_the_opening_and_the_closing_are_announced_once_each(account: Account) -> None:
    fill(account)
    account.answers = failing(2)
    account.run(account.trip())
    states = [(change.get("before"), change["state"]) for change in account.announced]
    assert states == [(None, "OPEN"), ("OPEN", "HALF_OPEN"), ("HALF_OPEN", "CLOSED")]
    assert account.metrics["CircuitOpened"] == 1


# Every state, every exit of every state.


def edges(visited: list[str]) -> set[tuple[str, str]]:
    return set(pairwise(visited))


def goes_well(account: Account) -> None:
    fill(account)
    account.answers = failing(1)


def takes_two_answers(account: Account, step: str, word: str) -> None:
    handler = account.functions["probe" if step == "probe" else "circuit"]

    def says(event: dict[str, Any], context: Any) -> Any:
        answer = handler(event, context)
        return {**answer, "next": word} if event["step"] == step else answer

    account.functions["probe" if step == "probe" else "circuit"] = says


def fails_after_a_hold(account: Account) -> None:
    """A person has opened the circuit and let it go, and the first canary fails."""
    goes_well(account)
    account.force(State.OPEN, 60)
    account.apply(OverrideEnded())


SCENES: dict[str, tuple[Callable[[Account], None], str]] = {
    "well": (goes_well, "SUCCEEDED"),
    "an outage after a hold": (fails_after_a_hold, "SUCCEEDED"),
    "no announcement": (lambda a: a.broken.update(announce=MORE_THAN_RETRIES), "FAILED"),
    "no probe": (lambda a: a.broken.update(probe=MORE_THAN_RETRIES), "FAILED"),
    "no way back": (
        lambda a: (fill(a), a.broken.update(resume=MORE_THAN_RETRIES))[0],
        "FAILED",
    ),
    "no pause": (
        lambda a: (fill(a), a.broken.update(pause=MORE_THAN_RETRIES))[0],
        "SUCCEEDED",
    ),
    "nonsense at first": (lambda a: takes_two_answers(a, "announce", "fly"), "FAILED"),
    "nonsense of the probe": (
        lambda a: (fill(a), takes_two_answers(a, "probe", "fly"))[0],
        "FAILED",
    ),
    "nonsense on the way back": (
        lambda a: (fill(a), takes_two_answers(a, "resume", "fly"))[0],
        "FAILED",
    ),
    "not ours at first": (lambda a: takes_two_answers(a, "announce", "hand over"), "SUCCEEDED"),
    "not ours any more": (
        lambda a: (fill(a), takes_two_answers(a, "probe", "hand over"))[0],
        "SUCCEEDED",
    ),
    "not ours on the way back": (
        lambda a: (fill(a), takes_two_answers(a, "resume", "hand over"))[0],
        "SUCCEEDED",
    ),
    "closed before it began": (
        lambda a: takes_two_answers(a, "announce", "resume"),
        "SUCCEEDED",
    ),
    "nothing to pause": (
        lambda a: (fill(a), takes_two_answers(a, "announce", "probe"))[0],
        "SUCCEEDED",
    ),
}
SEEN: set[tuple[str, str]] = set()


@pytest.mark.parametrize("scene", SCENES)
def test_a_scene_ends_as_it_should(account: Account, scene: str) -> None:
    setting, status = SCENES[scene]
    setting(account)
    execution = account.run(account.trip())
    SEEN.update(edges(execution.visited))
    assert execution.status == status
    assert (execution.visited[-1] == "ExecutionLost") == (status == "FAILED")


def test_every_state_was_visited_and_every_exit_taken() -> None:
    states = json.loads(DEFINITION.read_text())["States"]
    assert {(name, to) for name, item in states.items() for to in exits(item)} == SEEN


def test_a_step_that_fails_now_and_then_is_tried_again(account: Account) -> None:
    fill(account)
    account.broken.update(announce=2, pause=2, probe=2, resume=2)
    execution = account.run(account.trip())
    assert execution.visited[-1] == "Closed"
    assert execution.retries == 8
    assert account.consumer_mapping() == ("Enabled", 50)


def test_a_consumer_that_could_not_be_paused_is_counted_once(account: Account) -> None:
    fill(account)
    account.broken.update(pause=MORE_THAN_RETRIES)
    execution = account.run(account.trip())
    assert execution.visited[-1] == "Closed"
    assert account.metrics["ConsumerNotPaused"] == 1
    assert account.consumer_mapping() == ("Enabled", 50)


# Names, and what is left lying about.


def test_a_trip_that_two_have_seen_starts_one_execution(account: Account) -> None:
    fill(account)
    circuit = account.trip()
    account.run(circuit)
    account.outages.start(circuit.key, circuit.outage, circuit.restart)
    found = client("stepfunctions").list_executions(stateMachineArn=account.machine)
    assert len(found["executions"]) == 1


def test_an_outage_whose_execution_was_lost_is_gone_on_with(account: Account) -> None:
    fill(account)
    account.broken.update(probe=4)
    assert account.run(account.trip()).status == "FAILED"
    assert account.circuit().state is State.OPEN
    assert account.consumer_mapping()[0] == "Disabled"
    account.clock.advance(START_SECONDS)
    execution = account.rerun()
    assert account.circuit().restart == 1
    assert execution.visited[-1] == "Closed"
    # The first pause knew what the mapping had been.
    assert account.consumer_mapping() == ("Enabled", 50)


def test_a_mapping_that_was_left_paused_is_put_back_by_the_sweep(account: Account) -> None:
    fill(account)
    account.broken.update(resume=MORE_THAN_RETRIES)
    assert account.run(account.trip()).status == "FAILED"
    assert account.circuit().state is State.CLOSED
    assert account.consumer_mapping()[0] == "Disabled"
    account.clock.advance(START_SECONDS)
    assert account.watch()["MappingPutBack"] == 1
    assert account.consumer_mapping() == ("Enabled", 50)
    assert account.circuit().paused is None
    assert account.breaker.troubled() == []


def test_a_mapping_that_an_operator_had_disabled_is_left_alone(account: Account) -> None:
    fill(account)
    account.disable()
    execution = account.run(account.trip())
    assert execution.visited[-1] == "Closed"
    assert account.circuit().paused is None
    assert account.consumer_mapping() == ("Disabled", 50)


def test_a_mapping_that_an_operator_disables_on_the_way_back_stays_so(account: Account) -> None:
    fill(account)
    handler = account.functions["circuit"]
    resumed = []

    def operated(event: dict[str, Any], context: Any) -> Any:
        answer = handler(event, context)
        if event["step"] == "resume":
            resumed.append(answer)
            if len(resumed) == 2:
                account.disable()
        return answer

    account.functions["circuit"] = operated
    execution = account.run(account.trip())
    assert execution.visited[-1] == "Closed"
    assert account.circuit().paused is None
    assert account.consumer_mapping() == ("Disabled", 50)


def test_after_so_many_probes_another_execution_goes_on(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(account)
    monkeypatch.setattr("deadletter.outage.steps.MOST_PROBES", 3)
    account.answers = failing(4)
    execution = account.run(account.trip())
    assert execution.visited[-1] == "HandOver"
    assert execution.visited.count("Probe") == 3
    assert account.circuit().state is State.OPEN
    account.clock.advance(START_SECONDS)
    execution = account.rerun()
    assert execution.visited[-1] == "Closed"
    assert account.circuit().trips == 1


# What a person says.


def test_a_circuit_that_a_person_opened_waits_for_his_word_to_end(account: Account) -> None:
    fill(account)
    account.force(State.OPEN, 3_600)
    execution = account.rerun()
    assert execution.visited[-1] == "Closed"
    # Rounded up to a whole second.
    assert 3_599 <= account.waits[0] <= 3_601
    assert [change["state"] for change in account.announced] == ["OPEN", "HALF_OPEN", "CLOSED"]


def test_an_execution_whose_circuit_a_person_has_closed_hands_over(account: Account) -> None:
    fill(account)

    def answer(_: dict[str, Any]) -> dict[str, Any]:
        account.force(State.CLOSED, 600)
        return {"batchItemFailures": []}

    account.answers = answer
    execution = account.run(account.trip())
    assert execution.visited[-1] == "HandOver"
    assert account.circuit().state is State.CLOSED
    assert account.consumer_mapping()[0] == "Disabled"
    account.clock.advance(START_SECONDS)
    account.watch()
    assert account.consumer_mapping() == ("Enabled", 50)


def test_a_word_that_has_ended_leaves_the_list_of_trouble(account: Account) -> None:
    account.force(State.CLOSED, 600)
    account.watch()
    assert len(account.breaker.troubled()) == 1
    account.clock.advance(601)
    account.watch()
    assert account.breaker.troubled() == []


def test_a_circuit_left_to_itself_is_probed_at_once(account: Account) -> None:
    fill(account)
    account.force(State.OPEN, 3_600)
    account.apply(OverrideEnded())
    assert account.rerun().visited[-1] == "Closed"
    assert account.waits[0] == 1


# Single keys.


def test_the_outage_of_a_single_key_pauses_and_announces_nothing(account: Account) -> None:
    execution = account.run(account.trip("endpoint-7"))
    assert "Pause" not in execution.visited
    assert execution.visited[-1] == "Closed"
    assert account.announced == []
    assert account.consumer_mapping() == ("Enabled", 50)


def test_open_keys_are_counted(account: Account) -> None:
    account.trip("endpoint-7")
    account.trip("endpoint-8")
    figures = account.watch()
    assert figures["OpenCircuits"] == 2
    assert "CircuitState" not in figures
    account.trip()
    figures = account.watch()
    assert figures["OpenCircuits"] == 2
    assert figures["CircuitState"] == 2


def test_a_healthy_pipeline_starts_nothing_and_reads_one_index(account: Account) -> None:
    assert "OpenCircuits" not in account.watch()
    found = client("stepfunctions").list_executions(stateMachineArn=account.machine)
    assert found["executions"] == []
