"""The state machine as a graph: where each state leads, and what it does when it fails."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deadletter.contract import DAY
from deadletter.outage.steps import Next
from deadletter.replay.judge import ReplayNext
from deadletter.replay.machine import APPROVAL_DAYS

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "statemachines").glob("*.asl.json"))
# The replay machine has one more for each place where a person or a manifest comes in.
MOST_STATES = {"Announce": 12, "Preflight": 16, "Worker": 1}
TERMINAL = {"Succeed", "Fail"}

Machine = dict[str, Any]


def exits(state: Machine) -> Iterator[str]:
    """Every state that one may lead to."""
    if "Next" in state:
        yield state["Next"]
    if "Default" in state:
        yield state["Default"]
    for choice in (*state.get("Choices", ()), *state.get("Catch", ())):
        yield choice["Next"]


def faults(machine: Machine) -> Iterator[str]:
    """What is wrong with a state machine, each with the state's name."""
    states: Machine = machine["States"]
    children = [state["ItemProcessor"] for state in states.values() if state["Type"] == "Map"]
    if len(states) + sum(len(child["States"]) for child in children) > MOST_STATES.get(
        machine["StartAt"], 0
    ):
        yield f"{len(states)} states"
    if machine.get("QueryLanguage", "JSONPath") != "JSONPath":
        yield "not JSONPath"
    for name, state in states.items():
        if not state.get("Comment"):
            yield f"{name}: no Comment"
        for to in exits(state):
            if to not in states:
                yield f"{name}: leads to {to}, which is none"
        if state["Type"] not in {*TERMINAL, "Choice"} and not ("Next" in state or state.get("End")):
            yield f"{name}: leads nowhere"
        if state["Type"] == "Choice" and "Default" not in state:
            yield f"{name}: no Default"
        if state["Type"] == "Task":
            yield from (f"{name}: {fault}" for fault in task_faults(state, states))
        if state["Type"] == "Map":
            yield from (f"{name}: {fault}" for fault in map_faults(state, states))
    for name in states.keys() - reached(machine):
        yield f"{name}: never reached"


def map_faults(state: Machine, states: Machine) -> Iterator[str]:
    """What is wrong with a Distributed Map of workers, which hold themselves."""
    if state.get("ToleratedFailurePercentage") != 100:
        yield "a failed worker ends the others"
    yield from (fault for fault in task_faults(state, states) if fault != "no TimeoutSeconds")
    child = state["ItemProcessor"]
    for fault in faults(child):
        # A worker that fails is tolerated: the next step takes what it left.
        if not fault.endswith("not everything is caught"):
            yield fault


def task_faults(state: Machine, states: Machine) -> Iterator[str]:
    if "TimeoutSeconds" not in state:
        yield "no TimeoutSeconds"
    retries, catches = state.get("Retry", []), state.get("Catch", [])
    if not any("States.ALL" in retry["ErrorEquals"] for retry in retries):
        yield "not everything is tried again"
    for retry in retries:
        if not {"MaxAttempts", "BackoffRate", "IntervalSeconds"} <= retry.keys():
            yield "a Retry without bounds"
        if retry.get("JitterStrategy") != "FULL":
            yield "a Retry without full jitter"
    if not any("States.ALL" in catche["ErrorEquals"] for catche in catches):
        yield "not everything is caught"
    for catche in catches:
        to = states.get(catche["Next"], {})
        if to.get("Type") == "Succeed":
            yield f"a failure ends as success in {catche['Next']}"
        if not catche.get("ResultPath", "").startswith("$."):
            yield "a Catch that overwrites the state"


def reached(machine: Machine) -> set[str]:
    states, todo, seen = machine["States"], [machine["StartAt"]], set[str]()
    while todo:
        name = todo.pop()
        if name in seen or name not in states:
            continue
        seen.add(name)
        todo += exits(states[name])
    return seen


@pytest.fixture
def breaker() -> Machine:
    machine: Machine = json.loads((ROOT / "statemachines/circuit_breaker.asl.json").read_text())
    return machine


@pytest.fixture
def replay() -> Machine:
    machine: Machine = json.loads((ROOT / "statemachines/replay.asl.json").read_text())
    return machine


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_graph_is_sound(path: Path) -> None:
    assert list(faults(json.loads(path.read_text()))) == []


def test_the_choices_know_every_word_that_the_functions_say(breaker: Machine) -> None:
    said = {
        choice["StringEquals"]
        for state in breaker["States"].values()
        for choice in state.get("Choices", ())
    }
    assert said == {str(step) for step in Next}


def test_the_route_of_a_replay_knows_every_word_that_its_function_says(replay: Machine) -> None:
    said = {choice["StringEquals"] for choice in replay["States"]["Route"]["Choices"]}
    assert said == {str(step) for step in ReplayNext}
    assert replay["States"][replay["States"]["Route"]["Default"]]["Type"] == "Fail"


def test_an_approval_waits_for_a_token_ends_and_is_asked_once(replay: Machine) -> None:
    approval = replay["States"]["Approval"]
    assert approval["Resource"].endswith(".waitForTaskToken")
    assert approval["Parameters"]["Payload"]["token.$"] == "$$.Task.Token"
    assert approval["TimeoutSeconds"] == APPROVAL_DAYS * DAY
    # A second question would wait for a second day.
    assert approval["Retry"][0]["ErrorEquals"] == ["States.Timeout"]
    assert approval["Retry"][0]["MaxAttempts"] == 0
    assert approval["Catch"][0] == {
        "ErrorEquals": ["States.Timeout"],
        "ResultPath": "$.failure",
        "Next": "Lapse",
    }


def test_the_workers_are_the_items_of_a_distributed_map(replay: Machine) -> None:
    work = replay["States"]["Work"]
    assert work["ItemProcessor"]["ProcessorConfig"]["Mode"] == "DISTRIBUTED"
    assert work["ItemsPath"] == "$.step.workers"
    assert "MaxConcurrencyPath" not in work
    assert "ItemBatcher" not in work


def test_no_step_of_a_replay_passes_anything_but_words_and_numbers(replay: Machine) -> None:
    for state in replay["States"].values():
        if state["Type"] == "Task" and "ResultSelector" in state:
            assert state["ResultSelector"] == {
                f"{name}.$": f"$.Payload.{name}"
                for name in ("next", "state", "wait_seconds", "loops", "workers")
            }


def test_an_unknown_answer_is_a_failure(breaker: Machine) -> None:
    for state in breaker["States"].values():
        if state["Type"] == "Choice":
            assert breaker["States"][state["Default"]]["Type"] == "Fail"


def test_only_numbers_and_words_are_taken_from_an_answer(breaker: Machine) -> None:
    for state in breaker["States"].values():
        if state["Type"] == "Task":
            assert state["ResultSelector"] == {
                f"{name}.$": f"$.Payload.{name}"
                for name in ("next", "state", "wait_seconds", "probes", "empty", "said")
            }


def without(state: str, part: str) -> Callable[[Machine], None]:
    return lambda machine: machine["States"][state].pop(part)


def set_to(state: str, part: str, value: Any) -> Callable[[Machine], None]:
    return lambda machine: machine["States"][state].update({part: value})


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (set_to("Cooldown", "Next", "Probing"), "Cooldown: leads to Probing, which is none"),
        (without("Cooldown", "Next"), "Cooldown: leads nowhere"),
        (without("Judge", "Default"), "Judge: no Default"),
        (without("Closed", "Comment"), "Closed: no Comment"),
        (without("Probe", "TimeoutSeconds"), "Probe: no TimeoutSeconds"),
        (without("Probe", "Retry"), "Probe: not everything is tried again"),
        (without("Probe", "Catch"), "Probe: not everything is caught"),
        (
            lambda machine: machine["States"]["Probe"]["Catch"][0].update(Next="Closed"),
            "Probe: a failure ends as success in Closed",
        ),
        (
            lambda machine: machine["States"]["Pause"]["Retry"][0].pop("JitterStrategy"),
            "Pause: a Retry without full jitter",
        ),
        (
            lambda machine: machine["States"]["Pause"]["Retry"][0].pop("MaxAttempts"),
            "Pause: a Retry without bounds",
        ),
        (
            lambda machine: machine["States"]["Pause"]["Catch"][0].pop("ResultPath"),
            "Pause: a Catch that overwrites the state",
        ),
        (
            lambda machine: machine["States"].update(
                Alone={"Type": "Succeed", "Comment": "nobody comes here"}
            ),
            "Alone: never reached",
        ),
    ],
)
def test_a_planted_fault_is_found(
    breaker: Machine, plant: Callable[[Machine], None], found: str
) -> None:
    broken = copy.deepcopy(breaker)
    plant(broken)
    assert found in list(faults(broken))


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (
            set_to("Work", "ToleratedFailurePercentage", 0),
            "Work: a failed worker ends the others",
        ),
        (without("Work", "Catch"), "Work: not everything is caught"),
        (
            lambda machine: worker(machine).pop("TimeoutSeconds"),
            "Work: Worker: no TimeoutSeconds",
        ),
        (lambda machine: worker(machine).pop("Comment"), "Work: Worker: no Comment"),
    ],
)
def test_a_fault_planted_among_the_workers_is_found(
    replay: Machine, plant: Callable[[Machine], None], found: str
) -> None:
    broken = copy.deepcopy(replay)
    plant(broken)
    assert found in list(faults(broken))


def worker(machine: Machine) -> Machine:
    found: Machine = machine["States"]["Work"]["ItemProcessor"]["States"]["Worker"]
    return found
