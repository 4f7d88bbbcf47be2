"""`dlq run list`, `show`, and the switches of a run."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from botocore.exceptions import ClientError

from console.cli import progress
from console.cli.exit import Exit
from deadletter.aws.dynamodb import plain
from deadletter.aws.replay_runs import DynamoDBReplayRuns
from deadletter.circuit.state import State
from deadletter.replay.run import ReplayRun, RunRefused, RunState, moved_to

RUN = "4f0c1b2a3d4e5f60"


def run(state: RunState = RunState.RUNNING, **facts: Any) -> ReplayRun:
    given = {
        "id": RUN, "pipeline": "orders", "state": state, "letters": 100, "rate": 5.0,
        "created": time.time() - 60, "changed": time.time() - 5,
        "counts": {"RECOVERED": 40, "OPEN": 55, "SENT": 5},
    }  # fmt: skip
    return ReplayRun(**{**given, **facts})


@pytest.fixture
def orders(cloud: Any, functions: Any) -> Any:
    cloud.deploy("orders")
    return cloud


def stored(cloud: Any) -> ReplayRun:
    read = cloud.replays("orders").read(RUN)
    assert read is not None
    return ReplayRun(**{name: getattr(read, name) for name in ReplayRun.__slots__})


def test_runs_are_listed_the_live_ones_first(orders: Any, dlq: Any) -> None:
    orders.replay(run(RunState.DONE, id="aaaa"))
    orders.replay(run(RunState.HELD, because="2 of 5 failed"))
    done = dlq("run", "list")
    assert done.exit_code == Exit.ATTENTION
    rows = done.stdout.splitlines()
    assert rows[1].split()[:5] == [RUN, "orders", "HELD", "100", "40"]
    assert rows[1].endswith("2 of 5 failed")
    assert rows[2].startswith("aaaa")


def test_a_list_without_runs_says_so(orders: Any, dlq: Any) -> None:
    done = dlq("run", "list")
    assert done.exit_code == Exit.DONE
    assert "No run is remembered." in done.stdout


def test_a_run_shows_how_far_it_is_and_when_it_ends(orders: Any, dlq: Any) -> None:
    orders.replay(run())
    done = dlq("show", RUN)
    assert done.exit_code == Exit.DONE, done.output
    assert "RUNNING  [#########...............]  40 of 100 (40%)" in done.stdout
    assert "40 recovered, 5 sent" in done.stdout
    assert "5/s, ends about" in done.stdout
    assert "Waits for: The outcomes of 5 messages that it has sent." in done.stdout
    assert "planned by" in done.stdout


@pytest.mark.parametrize(
    ("state", "facts", "text", "status"),
    [
        (RunState.HELD, {"because": "2 of 5 failed"}, f"dlq run resume {RUN}", 1),
        (RunState.WAITING_APPROVAL, {}, f"dlq run approve {RUN}", 1),
        (RunState.BROKEN, {}, "the sum of its outcomes is not all of it", 1),
        (RunState.PLANNED, {"letters": None, "counts": {}}, "about to start", 0),
        (RunState.MOVING, {"letters": None, "counts": {}}, "It takes its messages", 0),
        (RunState.CANARY, {"step": 2}, "The outcomes of its canary of 5 messages.", 0),
        (RunState.ABORTED, {}, "Its remaining messages go to the parking queue", 0),
        (RunState.DONE, {"left": True}, "Waits for: Nothing: it has ended.", 0),
    ],
)
def test_a_run_says_what_it_waits_for(
    orders: Any, dlq: Any, state: RunState, facts: dict[str, Any], text: str, status: int
) -> None:
    orders.replay(run(state, **facts))
    done = dlq("show", RUN)
    assert text in done.stdout
    assert done.exit_code == status


@pytest.mark.parametrize(
    ("letters", "joined"), [(0, "and none joined the run"), (2, "and 2 joined the run")]
)
def test_a_run_says_that_counted_letters_did_not_join(
    orders: Any, dlq: Any, letters: int, joined: str
) -> None:
    counts = {"RECOVERED": letters}
    orders.replay(
        run(RunState.DONE, left=True, counted=7, letters=letters, counts=counts),
        source="parking:default",
    )
    done = dlq("show", RUN)
    assert done.exit_code == Exit.ATTENTION
    assert f"7 messages were counted, {joined}" in done.stdout
    assert "had left parking:default before the run took them" in done.stdout
    assert "dlq status --pipeline orders" in done.stdout
    row = dlq("run", "list").stdout.splitlines()[1]
    assert row.endswith(f"{letters} of 7 counted messages joined")


def test_a_run_without_an_execution_is_shown_as_such(orders: Any, functions: Any, dlq: Any) -> None:
    """An execution that was stopped says nothing: the run's item stays RUNNING."""
    orders.replay(run(created=time.time() - 120))
    functions.machine.running = []
    done = dlq("show", RUN)
    assert done.exit_code == Exit.ATTENTION
    assert "Waits for: Its execution: the last one has ended before the run" in done.stdout
    assert "\n    dlq status --pipeline orders\n" in done.stdout
    listed = dlq("run", "list")
    assert listed.exit_code == Exit.ATTENTION
    assert listed.stdout.splitlines()[1].endswith("its execution has ended")
    status = json.loads(dlq("status", "--json").stdout)
    [need] = [need for need in status["attention"] if need["kind"] == "run-stopped"]
    assert (need["says"], need["type"]) == (
        f"run {RUN} has no execution; the monitor starts the next one",
        f"dlq show {RUN}",
    )
    functions.machine.running = [f"{RUN}-0"]
    assert dlq("run", "list").exit_code == Exit.DONE
    assert json.loads(dlq("show", RUN, "--json").stdout)["run"]["run"]["lost"] is False


def test_a_run_that_has_just_been_started_may_have_no_execution_yet(
    orders: Any, functions: Any, dlq: Any
) -> None:
    orders.replay(run(RunState.PLANNED, created=time.time() - 5))
    functions.machine.running = []
    assert dlq("show", RUN).exit_code == Exit.DONE


def test_who_may_not_list_executions_sees_the_run_all_the_same(
    orders: Any, functions: Any, dlq: Any
) -> None:
    orders.replay(run(created=time.time() - 120))
    done = dlq("show", RUN, "--json")
    assert done.exit_code == Exit.DONE
    assert json.loads(done.stdout)["run"]["run"]["lost"] is None


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("resume", f"run {RUN} is RUNNING and can't be resumed. Type\n  dlq run hold {RUN}"),
        ("approve", "only a run that is WAITING_APPROVAL can be approved or rejected. Type\n  dlq"),
    ],
)
def test_what_a_run_does_not_allow_is_said_before_a_person_is_asked(
    orders: Any, functions: Any, dlq: Any, at_a_terminal: None, command: str, text: str
) -> None:
    orders.replay(run())
    done = dlq("run", command, RUN, "--reason", "x")
    assert done.exit_code == Exit.ATTENTION
    assert text in done.stderr
    assert "Go on?" not in done.stderr


def test_an_abort_says_how_many_letters_are_left(
    orders: Any, functions: Any, dlq: Any, at_a_terminal: None
) -> None:
    orders.replay(run())
    done = dlq("run", "abort", RUN, "--reason", "wrong", answers="n\n")
    assert done.exit_code == Exit.ATTENTION
    assert "What is left of it (about 60 messages) is parked." in done.stderr


def test_a_run_that_took_all_counted_letters_says_nothing_of_them(orders: Any, dlq: Any) -> None:
    orders.replay(run(RunState.DONE, left=True, counted=100))
    done = dlq("show", RUN)
    assert (done.exit_code, "counted" in done.stdout) == (Exit.DONE, False)


def test_the_first_characters_of_an_id_are_enough(orders: Any, dlq: Any) -> None:
    orders.replay(run())
    assert json.loads(dlq("show", "4f0c", "--json").stdout)["run"]["run"]["run"] == RUN
    orders.replay(run(id="4f0c999999999999"))
    done = dlq("show", "4f0c")
    assert done.exit_code == Exit.USAGE
    assert "2 runs begin with 4f0c: type more of the id." in done.stderr


def test_an_unknown_run_is_answered_with_the_known_ones(orders: Any, dlq: Any) -> None:
    orders.replay(run())
    done = dlq("run", "hold", "beef")
    assert done.exit_code == Exit.ABSENT
    assert f"it has {RUN} (RUNNING)" in done.stderr


def test_a_watched_run_is_shown_until_it_ends(
    orders: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.replay(run())

    def end(_seconds: float) -> None:
        before = stored(orders)
        orders.replays("orders").change(
            before, moved_to(before, RunState.DONE, at=time.time(), by="replay")
        )

    said: list[str] = []
    monkeypatch.setattr(progress, "pause", end)
    monkeypatch.setattr(progress, "say", said.append)
    done = dlq("show", RUN, "--watch", "--json")
    assert [text.split()[0] for text in said if text] == ["RUNNING"]
    assert json.loads(done.stdout)["run"]["run"]["state"] == "DONE"


def test_hold_is_one_write_and_asks_nothing(orders: Any, dlq: Any) -> None:
    orders.replay(run())
    done = dlq("run", "hold", RUN, "--reason", "support is asking")
    assert done.exit_code == Exit.DONE, done.output
    now = stored(orders)
    assert (now.state, now.resume_to, now.because) == (
        RunState.HELD, RunState.RUNNING, "support is asking",
    )  # fmt: skip
    assert now.by
    assert "RUNNING → HELD" in done.stdout
    assert "at the latest two seconds from now" in done.stdout
    assert f"dlq run resume {RUN}" in done.stdout


def test_holding_a_held_run_again_changes_nothing(orders: Any, dlq: Any) -> None:
    orders.replay(run(RunState.HELD, because="2 of 5 failed"))
    before = stored(orders)
    assert dlq("run", "hold", RUN).exit_code == Exit.DONE
    assert stored(orders) == before


def test_a_hold_gets_through_while_the_run_changes_its_own_item(
    orders: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.replay(run())
    change, refused = DynamoDBReplayRuns.change, iter([True, True])

    def contended(runs: Any, before: ReplayRun, after: ReplayRun) -> None:
        if next(refused, False):
            change(runs, stored(orders), moved_to(stored(orders), RunState.RUNNING, at=1, by="x"))
            raise RunRefused("changed meanwhile")
        change(runs, before, after)

    monkeypatch.setattr(DynamoDBReplayRuns, "change", contended)
    assert dlq("run", "hold", RUN).exit_code == Exit.DONE
    assert stored(orders).state is RunState.HELD


def test_what_a_state_does_not_allow_is_refused_with_what_it_does(orders: Any, dlq: Any) -> None:
    orders.replay(run(RunState.DONE))
    done = dlq("run", "hold", RUN)
    assert done.exit_code == Exit.ATTENTION
    assert "Nothing was done: run 4f0c1b2a3d4e5f60 is DONE" in done.stderr
    done = dlq("run", "resume", RUN, "--reason", "x", "--yes")
    assert f"is DONE and can't be resumed. Type\n  dlq show {RUN}\n" in done.stderr


def test_a_held_run_is_resumed_after_a_question(orders: Any, dlq: Any, at_a_terminal: None) -> None:
    orders.replay(run(RunState.HELD, resume_to=RunState.CANARY, because="2 of 5 failed"))
    done = dlq("run", "resume", RUN, "--reason", "x", answers="n\n")
    assert "It is HELD now: 2 of 5 failed." in done.stderr
    assert stored(orders).state is RunState.HELD
    assert dlq("run", "resume", RUN, "--reason", "x", answers="y\n").exit_code == Exit.DONE
    assert stored(orders).state is RunState.CANARY


@pytest.mark.parametrize(("option", "place"), [((), "parked"), (("--to", "schedule"), "schedule")])
def test_an_abort_says_where_the_rest_goes(
    orders: Any, dlq: Any, option: tuple[str, ...], place: str
) -> None:
    orders.replay(run())
    done = dlq("run", "abort", RUN, *option, "--reason", "wrong fix", "--yes")
    assert done.exit_code == Exit.DONE, done.output
    now = stored(orders)
    assert (now.state, now.leave_to, now.because) == (RunState.ABORTED, place, "wrong fix")


def test_an_abort_to_another_place_is_refused(orders: Any, dlq: Any) -> None:
    orders.replay(run())
    done = dlq("run", "abort", RUN, "--to", "main", "--reason", "x", "--yes")
    assert done.exit_code == Exit.USAGE
    assert "--to is parked or schedule, not 'main'." in done.stderr


def _waiting(cloud: Any) -> None:
    cloud.replay(run(RunState.WAITING_APPROVAL))
    cloud.put("letters", {"pk": {"S": f"orders#run#{RUN}#approval"}, "sk": {"S": "approval"},
                          "token": {"S": "the token"}})  # fmt: skip


@pytest.mark.parametrize(("verb", "approved"), [("approve", True), ("reject", False)])
def test_an_answer_is_put_on_record_and_the_execution_woken_that_changes_the_run(
    orders: Any, functions: Any, dlq: Any, verb: str, approved: bool
) -> None:
    _waiting(orders)
    done = dlq("run", verb, RUN, "--reason", "it is Friday", "--yes")
    assert done.exit_code == Exit.DONE, done.output
    assert functions.machine.answered == ["the token"]
    row = approval(orders)
    assert (row["approved"], row["because"]) == (approved, "it is Friday")
    # A person who may answer need not be allowed to write the run's item.
    assert stored(orders).state is RunState.WAITING_APPROVAL


def test_a_run_shows_who_approved_it(orders: Any, dlq: Any) -> None:
    orders.replay(run(approved_by="user/grace"))
    assert "approved by  user/grace" in dlq("show", RUN).stdout
    assert json.loads(dlq("show", RUN, "--json").stdout)["run"]["run"]["approved_by"] == (
        "user/grace"
    )


def test_who_may_abort_a_run_need_not_be_allowed_to_answer_its_approval(
    orders: Any, functions: Any, dlq: Any
) -> None:
    _waiting(orders)
    refused = ClientError({"Error": {"Code": "AccessDeniedException"}}, "SendTaskSuccess")
    functions.machine.raises = refused
    done = dlq("run", "abort", RUN, "--reason", "not today", "--yes")
    assert done.exit_code == Exit.DONE, done.output
    assert stored(orders).state is RunState.ABORTED
    # Of an approval nothing is on record.
    assert "approved" not in approval(orders)


def approval(orders: Any) -> dict[str, Any]:
    key = {"pk": {"S": f"orders#run#{RUN}#approval"}, "sk": {"S": "approval"}}
    return plain(orders.dynamodb.get_item(TableName="letters", Key=key)["Item"])


def test_an_approval_whose_execution_waits_no_longer_is_no_error(
    orders: Any, functions: Any, dlq: Any
) -> None:
    _waiting(orders)
    functions.machine.raises = ClientError({"Error": {"Code": "TaskTimedOut"}}, "SendTaskSuccess")
    assert dlq("run", "approve", RUN, "--reason", "ok", "--yes").exit_code == Exit.DONE


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_a_run_that_does_not_wait_is_neither_approved_nor_refused(
    orders: Any, functions: Any, dlq: Any, verb: str
) -> None:
    orders.replay(run())
    done = dlq("run", verb, RUN, "--reason", "x", "--yes")
    assert done.exit_code == Exit.ATTENTION
    assert "only a run that is WAITING_APPROVAL" in done.stderr
    assert stored(orders).state is RunState.RUNNING


def test_the_status_names_runs_that_wait_for_a_person(orders: Any, dlq: Any) -> None:
    orders.replay(run(RunState.HELD, because="2 of 5 failed"))
    orders.replay(run(RunState.RUNNING, id="aaaa"))
    orders.replay(run(RunState.DONE, id="bbbb", left=True))
    answer = json.loads(dlq("status", "--json").stdout)
    (replay,) = [item for item in answer["attention"] if item["kind"] == "run-held"]
    assert (replay["says"], replay["type"]) == (
        f"run {RUN} is HELD: 2 of 5 failed",
        f'dlq run resume {RUN} --reason "repaired"',
    )
    (pipeline,) = answer["pipelines"]
    assert {row["run"] for row in pipeline["runs"]} == {RUN, "aaaa"}


def test_a_run_that_was_planned_to_wait_meets_what_was_planned(
    orders: Any, functions: Any, dlq: Any
) -> None:
    orders.replay(run(RunState.HELD, created=time.time()), hold=True)
    resume = ("run", "resume", RUN, "--reason", "x", "--yes")
    as_planned = functions.consumer_changed
    functions.consumer_changed = "2099-11-18T03:40:00.000+0000"
    refused = dlq(*resume)
    assert (refused.exit_code, stored(orders).state) == (Exit.ATTENTION, RunState.HELD)
    assert "The consumer was changed at 18 Nov 03:40 UTC" in refused.stderr
    functions.consumer_changed = as_planned
    orders.circuit("orders", "orders", State.OPEN)
    assert "Circuit orders is OPEN: nothing was sent." in dlq(*resume).stderr
    orders.circuit("orders", "orders", State.CLOSED)
    assert dlq(*resume).exit_code == Exit.DONE
