"""`dlq run list`, `show`, and the switches of a run."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from botocore.exceptions import ClientError

from console.cli import output
from console.cli.exit import Exit
from deadletter.aws.dynamodb import plain
from deadletter.aws.replay_runs import DynamoDBReplayRuns
from deadletter.circuit.state import State
from deadletter.replay.run import ReplayRun, RunRefused, RunState, moved_to

RUN = "4f0c1b2a3d4e5f60"


def run(state: RunState = RunState.RUNNING, **facts: Any) -> ReplayRun:
    given = {
        "id": RUN, "pipeline": "orders", "state": state, "messages": 100, "rate": 5.0,
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
    orders.replay(run(RunState.DONE, id="aaaa", left=True))
    orders.replay(run(RunState.HELD, because="2 of 5 failed"))
    done = dlq("run list", ends=Exit.ATTENTION)
    rows = done.stdout.splitlines()
    assert rows[1].split()[:5] == [RUN, "orders", "HELD", "100", "40"]
    assert rows[1].endswith("2 of 5 failed")
    assert rows[2].startswith("aaaa")
    (pipeline,) = json.loads(dlq("status --json").stdout)["pipelines"]
    assert [row["run"] for row in pipeline["runs"]] == [RUN]


def test_a_list_without_runs_says_so(orders: Any, dlq: Any) -> None:
    dlq("run list", ends=Exit.DONE, says="No run is remembered.")


def test_a_run_whose_row_cannot_be_read_is_not_absent(orders: Any, dlq: Any) -> None:
    orders.replay(run(RunState.HELD))
    [row] = [
        row for row in orders.dynamodb.scan(TableName="messages")["Items"] if row["sk"]["S"] == RUN
    ]
    orders.put("messages", {**row, "generation": {"S": "x"}})
    named = f"messages orders#runs {RUN}"
    for line in ("run list", "doctor orders --removal"):
        dlq(line, ends=Exit.ATTENTION, says=(f"a row cannot be read: {named}", "get-item"))
    for line in ("show", "show run:", "run hold"):
        for id_ in (RUN, RUN[:6]):
            typed = f"{line}{id_}" if line.endswith(":") else f"{line} {id_}"
            dlq(typed, ends=Exit.ATTENTION, refuses=f"cannot be read: its row is {named}")
    dlq("run hold beef", ends=Exit.ABSENT, refuses="no run yet, and 1 row that cannot be read")
    dlq("show some-message", ends=Exit.ABSENT, refuses=f"rows cannot be read: {named}")
    dlq("list some-message", ends=Exit.ATTENTION, says=f"run:{RUN}")


def test_a_run_shows_how_far_it_is_and_when_it_ends(orders: Any, dlq: Any) -> None:
    orders.replay(run(approved_by="user/grace"))
    says = (
        "RUNNING  [#########...............]  40 of 100 (40%)", "40 recovered, 5 sent",
        "5/s, ends about", "Waits for: The outcomes of 5 messages that it has sent.", "planned by",
        "approved by  user/grace",
    )  # fmt: skip
    dlq(f"show {RUN}", ends=Exit.DONE, says=says)


@pytest.mark.parametrize(
    ("state", "facts", "text", "status"),
    [
        (RunState.HELD, {"because": "2 of 5 failed"}, f"dlq run resume {RUN}", 1),
        (RunState.WAITING_APPROVAL, {}, f"dlq run approve {RUN}", 1),
        (RunState.BROKEN, {}, "the sum of its outcomes is not all of it", 1),
        (RunState.PLANNED, {"messages": None, "counts": {}}, "about to start", 0),
        (RunState.MOVING, {"messages": None, "counts": {}}, "It takes its messages", 0),
        (RunState.CANARY, {"step": 2}, "The outcomes of its canary of 5 messages.", 0),
        (RunState.ABORTED, {}, "Its remaining messages go to the parking queue", 0),
        (RunState.DONE, {"left": True}, "Waits for: Nothing: it has ended.", 0),
    ],
)
def test_a_run_says_what_it_waits_for(
    orders: Any, dlq: Any, state: RunState, facts: dict[str, Any], text: str, status: int
) -> None:
    orders.replay(run(state, **facts))
    dlq(f"show {RUN}", ends=status, says=text)


@pytest.mark.parametrize(
    ("letters", "joined"), [(0, "and none joined the run"), (2, "and 2 joined the run")]
)
def test_a_run_says_that_counted_letters_did_not_join(
    orders: Any, dlq: Any, letters: int, joined: str
) -> None:
    taken = {"messages": letters, "counts": {"RECOVERED": letters}}
    orders.replay(run(RunState.DONE, left=True, counted=7, **taken), source="parking:default")
    says = (
        f"7 messages were counted, {joined}",
        "had left parking:default before the run took them", "dlq status --pipeline orders",
    )  # fmt: skip
    dlq(f"show {RUN}", ends=Exit.ATTENTION, says=says)
    row = dlq("run list").stdout.splitlines()[1]
    assert row.endswith(f"{letters} of 7 counted messages joined")


def lost(dlq: Any, status: Exit = Exit.DONE) -> Any:
    return json.loads(dlq(f"show {RUN} --json", ends=status).stdout)["run"]["run"]["lost"]


def test_a_run_without_an_execution_is_shown_as_such(orders: Any, functions: Any, dlq: Any) -> None:
    """An execution that was stopped says nothing: the run's item stays RUNNING."""
    orders.replay(run(created=time.time() - 120))
    # Who may not list executions sees the run all the same.
    assert lost(dlq) is None
    functions.machine.running = []
    says = (
        "Waits for: Its execution: the last one has ended before the run",
        "\n    dlq status --pipeline orders\n",
    )
    dlq(f"show {RUN}", ends=Exit.ATTENTION, says=says)
    listed = dlq("run list", ends=Exit.ATTENTION)
    assert listed.stdout.splitlines()[1].endswith("its execution has ended")
    needs = json.loads(dlq("status --json").stdout)["attention"]
    assert [(need["says"], need["type"]) for need in needs if need["kind"] == "run-stopped"] == [
        (f"run {RUN} has no execution; the monitor starts the next one", f"dlq show {RUN}")
    ]
    functions.machine.running = [f"{RUN}-0"]
    dlq("run list", ends=Exit.DONE)
    assert lost(dlq) is False


def test_a_run_that_has_just_been_started_may_have_no_execution_yet(
    orders: Any, functions: Any, dlq: Any
) -> None:
    orders.replay(run(RunState.PLANNED, created=time.time() - 5))
    functions.machine.running = []
    dlq(f"show {RUN}", ends=Exit.DONE)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("resume", f"run {RUN} is RUNNING and can't be resumed. Type\n  dlq run hold {RUN}"),
        *(
            (verb, "only a run that is WAITING_APPROVAL can be approved or rejected. Type\n  dlq")
            for verb in ("approve", "reject")
        ),
    ],
)
def test_what_a_run_does_not_allow_is_said_before_a_person_is_asked(
    orders: Any, functions: Any, dlq: Any, at_a_terminal: None, command: str, text: str
) -> None:
    orders.replay(run())
    done = dlq("run", command, RUN, "--reason", "x", ends=Exit.ATTENTION, refuses=text)
    assert "Go on?" not in done.stderr
    assert stored(orders).state is RunState.RUNNING


def test_an_abort_says_how_many_letters_are_left(
    orders: Any, functions: Any, dlq: Any, at_a_terminal: None
) -> None:
    orders.replay(run())
    done = dlq(f"run abort {RUN} --reason wrong", answers="n\n", ends=Exit.ATTENTION)
    assert "What is left of it (about 60 messages) is parked." in done.stderr


def test_the_first_characters_of_an_id_are_enough(orders: Any, dlq: Any) -> None:
    orders.replay(run())
    assert json.loads(dlq("show 4f0c --json").stdout)["run"]["run"]["run"] == RUN
    dlq("run hold beef", ends=Exit.ABSENT, refuses=f"it has {RUN} (RUNNING)")
    orders.replay(run(id="4f0c999999999999"))
    dlq("show 4f0c", ends=Exit.USAGE, refuses="2 runs begin with 4f0c: type more of the id.")


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
    monkeypatch.setattr(output, "pause", end)
    monkeypatch.setattr(output, "say", said.append)
    done = dlq(f"show {RUN} --watch --json")
    assert [text.split()[0] for text in said if text] == ["RUNNING"]
    assert json.loads(done.stdout)["run"]["run"]["state"] == "DONE"


def test_hold_is_one_write_and_asks_nothing(orders: Any, dlq: Any) -> None:
    orders.replay(run())
    says = ("RUNNING → HELD", "at the latest two seconds from now", f"dlq run resume {RUN}")
    dlq(f"run hold {RUN} --reason 'support is asking'", ends=Exit.DONE, says=says)
    now = stored(orders)
    held = (now.state, now.resume_to, now.because)
    assert held == (RunState.HELD, RunState.RUNNING, "support is asking")
    assert now.by
    # Once more, it changes nothing.
    dlq(f"run hold {RUN}", ends=Exit.DONE)
    assert stored(orders) == now


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
    dlq(f"run hold {RUN}", ends=Exit.DONE)
    assert stored(orders).state is RunState.HELD


def test_what_a_state_does_not_allow_is_refused_with_what_it_does(orders: Any, dlq: Any) -> None:
    orders.replay(run(RunState.DONE))
    refuses = "Nothing was done: run 4f0c1b2a3d4e5f60 is DONE"
    dlq(f"run hold {RUN}", ends=Exit.ATTENTION, refuses=refuses)
    refuses = f"is DONE and can't be resumed. Type\n  dlq show {RUN}\n"
    dlq(f"run resume {RUN} --reason x --yes", refuses=refuses)


def test_a_held_run_is_resumed_after_a_question(orders: Any, dlq: Any, at_a_terminal: None) -> None:
    orders.replay(run(RunState.HELD, resume_to=RunState.CANARY, because="2 of 5 failed"))
    dlq(f"run resume {RUN} --reason x", answers="n\n", refuses="It is HELD now: 2 of 5 failed.")
    assert stored(orders).state is RunState.HELD
    dlq(f"run resume {RUN} --reason x", answers="y\n", ends=Exit.DONE)
    assert stored(orders).state is RunState.CANARY


@pytest.mark.parametrize(("option", "place"), [("", "parked"), ("--to schedule", "schedule")])
def test_an_abort_says_where_the_rest_goes(orders: Any, dlq: Any, option: str, place: str) -> None:
    orders.replay(run())
    refuses = "--to is parked or schedule, not 'main'."
    dlq(f"run abort {RUN} --to main --reason x --yes", ends=Exit.USAGE, refuses=refuses)
    dlq(f"run abort {RUN} {option} --reason 'wrong fix' --yes", ends=Exit.DONE)
    now = stored(orders)
    assert (now.state, now.leave_to, now.because) == (RunState.ABORTED, place, "wrong fix")


def _waiting(cloud: Any) -> None:
    cloud.replay(run(RunState.WAITING_APPROVAL))
    cloud.put("messages", {"pk": {"S": f"orders#run#{RUN}#approval"}, "sk": {"S": "approval"},
                          "token": {"S": "the token"}})  # fmt: skip


@pytest.mark.parametrize(("verb", "approved"), [("approve", True), ("reject", False)])
def test_an_answer_is_put_on_record_and_the_execution_woken_that_changes_the_run(
    orders: Any, functions: Any, dlq: Any, verb: str, approved: bool
) -> None:
    _waiting(orders)
    dlq("run", verb, RUN, "--reason", "it is Friday", "--yes", ends=Exit.DONE)
    assert functions.machine.answered == ["the token"]
    row = approval(orders)
    assert (row["approved"], row["because"]) == (approved, "it is Friday")
    # A person who may answer need not be allowed to write the run's item.
    assert stored(orders).state is RunState.WAITING_APPROVAL


def test_who_may_abort_a_run_need_not_be_allowed_to_answer_its_approval(
    orders: Any, functions: Any, dlq: Any
) -> None:
    _waiting(orders)
    refused = ClientError({"Error": {"Code": "AccessDeniedException"}}, "SendTaskSuccess")
    functions.machine.raises = refused
    dlq(f"run abort {RUN} --reason 'not today' --yes", ends=Exit.DONE)
    assert stored(orders).state is RunState.ABORTED
    # Of an approval nothing is on record.
    assert "approved" not in approval(orders)


def approval(orders: Any) -> dict[str, Any]:
    key = {"pk": {"S": f"orders#run#{RUN}#approval"}, "sk": {"S": "approval"}}
    return plain(orders.dynamodb.get_item(TableName="messages", Key=key)["Item"])


def test_only_a_verb_that_asks_why_says_so(dlq: Any) -> None:
    helps = [dlq(f"run {verb} --help", ends=Exit.DONE).output for verb in ("hold", "resume")]
    assert ["Why; asked for if not given." in each for each in helps] == [False, True]


def test_an_approval_whose_execution_waits_no_longer_is_no_error(
    orders: Any, functions: Any, dlq: Any
) -> None:
    _waiting(orders)
    functions.machine.raises = ClientError({"Error": {"Code": "TaskTimedOut"}}, "SendTaskSuccess")
    dlq(f"run approve {RUN} --reason ok --yes", ends=Exit.DONE)


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
    refuses = "is OPEN: nothing was sent. It is lifted by\n  dlq circuit close orders -p orders -"
    dlq(*resume, ends=Exit.ATTENTION, refuses=refuses)
    orders.circuit("orders", "orders", State.CLOSED)
    dlq(*resume, ends=Exit.DONE)
