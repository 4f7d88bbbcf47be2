"""What the router asks about replay runs has the same answer on every backend."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deadletter.aws.dynamodb import DynamoDBTable
from deadletter.aws.replay_runs import DynamoDBReplayRuns
from deadletter.aws.replay_tickets import DynamoDBLiveRuns, DynamoDBTickets, ticket_key
from deadletter.contract import Partition
from deadletter.message.stamp import Stamp
from deadletter.replay.run import LIVE, ReplayRun, RunState
from deadletter.replay.ticket import ReplayOutcome, Ticket
from deadletter.routing.router import RouterUnavailable
from deadletter.routing.selection import CopiesOfRuns
from tests.aws.backends import Aws
from tests.aws.test_replay_tickets import one_by_one
from tests.tables import LETTERS, create_messages_table

NOW = 1_800_000_000.0
STAMP = Stamp("o1", 3, run="r9", ticket="c1")
SENT = Ticket(run="r9", origin="o1", copy="c1", shard=3, position=501, attempt=3, at=NOW)
RUN = (Partition.RUNS.of("orders"), "r9")
KEY = ticket_key("orders", "r9", "o1", "c1")


class Scene:
    """A pipeline with replay runs."""

    def __init__(self, aws: Aws) -> None:
        create_messages_table(aws.dynamodb)
        self.table = DynamoDBTable(aws.dynamodb, LETTERS)
        self.bad_rows: set[str] = set()
        self.live_runs = DynamoDBLiveRuns(aws.dynamodb, LETTERS, "orders", self.bad_rows.add)
        self.runs = DynamoDBReplayRuns(aws.dynamodb, LETTERS, "orders", lambda: NOW)
        self.tickets = DynamoDBTickets(
            aws.dynamodb,
            LETTERS,
            pipeline="orders",
            run="r9",
            clock=lambda: NOW,
            in_parallel=one_by_one,
        )

    def begin(self) -> None:
        self.runs.create(ReplayRun(id="r9", pipeline="orders", state=RunState.RUNNING))

    def waits_for(self, copy: str = "c2", stamp: Stamp = STAMP) -> bool:
        return copy in self.live_runs.returnable({copy: stamp}).copies


@pytest.fixture
def scene(aws: Aws) -> Scene:
    return Scene(aws)


def test_a_run_that_is_live_waits_for_the_letter_of_an_open_ticket(scene: Scene) -> None:
    scene.begin()
    scene.tickets.put([SENT])
    for state in RunState:
        scene.table.change(RUN, {"state": str(state)})
        assert scene.waits_for() is (state in LIVE), state


def test_an_unknown_run_waits_for_no_letter(scene: Scene) -> None:
    scene.tickets.put([SENT])
    assert not scene.waits_for()


def test_a_live_run_waits_for_a_letter_whose_ticket_is_not_written_yet(scene: Scene) -> None:
    scene.begin()
    assert scene.waits_for()
    # No run has sent this one.
    assert not scene.waits_for(stamp=replace(STAMP, ticket=None))


def test_a_run_waits_no_longer_for_a_letter_whose_outcome_is_settled(scene: Scene) -> None:
    scene.begin()
    scene.tickets.put([SENT])
    for fate in ReplayOutcome:
        scene.table.change(KEY, {"fate": str(fate)})
        assert scene.waits_for() is (fate is ReplayOutcome.SENT), fate


def test_a_ticket_takes_one_copy_back(scene: Scene) -> None:
    scene.begin()
    scene.tickets.put([SENT])
    scene.table.change(KEY, {"returned": "c2", "returned_place": '["pk", "sk"]'})
    assert scene.waits_for("c2")
    assert not scene.waits_for("c3")


def test_a_letter_that_was_stopped_or_left_over_is_let_go(scene: Scene) -> None:
    scene.tickets.put([SENT])
    for fate in ReplayOutcome:
        scene.table.change(KEY, {"fate": str(fate)})
        let_go = {"c1"} if fate in (ReplayOutcome.STOPPED, ReplayOutcome.LEFT) else frozenset()
        assert scene.live_runs.let_go({"c1": STAMP, "c3": STAMP}).copies == let_go, fate


def test_letters_of_several_runs_are_told_apart(scene: Scene) -> None:
    scene.begin()
    scene.tickets.put([SENT])
    stamps = {"c2": STAMP, "c3": replace(STAMP, run="r8"), "c4": replace(STAMP, origin="o2")}
    assert scene.live_runs.returnable(stamps).copies == {"c2", "c4"}


def test_nothing_is_known_of_a_letter_with_a_malformed_ticket_or_run(scene: Scene) -> None:
    scene.begin()
    scene.tickets.put([SENT])
    scene.table.change(KEY, {"fate": "?!"})
    other = replace(STAMP, origin="o2")
    assert scene.live_runs.returnable({"c2": STAMP, "c4": other}) == CopiesOfRuns(
        frozenset({"c4"}), frozenset({"c2"})
    )
    assert scene.live_runs.let_go({SENT.copy: STAMP}).unreadable == {SENT.copy}
    scene.table.change(RUN, {"state": 7})
    assert scene.live_runs.returnable({"c4": other}).unreadable == {"c4"}
    assert scene.bad_rows == {f"{LETTERS} {' '.join(KEY)}", f"{LETTERS} orders#runs r9"}


def test_runs_that_cannot_be_read_are_no_answer(aws: Aws) -> None:
    with pytest.raises(RouterUnavailable, match=LETTERS):
        DynamoDBLiveRuns(aws.dynamodb, LETTERS, "orders").returnable({"c2": STAMP})
