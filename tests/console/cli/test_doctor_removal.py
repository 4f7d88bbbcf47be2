"""`dlq doctor --removal`: a pipeline is removed once nothing is left of it, and not before."""

from __future__ import annotations

import json
from typing import Any

from console.cli.exit import Exit
from deadletter.circuit.state import State
from deadletter.replay.run import ReplayRun
from tests.console.conftest import Cloud, Dlq

OURS = "deadletter-orders-"
STACKS = {"pipeline": "Deadletter-Orders", "queues": "Deadletter-Orders-Queues"}


def deployed(cloud: Cloud, *, theirs: tuple[str, ...] = (), **described: Any) -> None:
    """Pipeline orders with a dedicated DLQ; all its queues are ours but `theirs`."""
    cloud.deploy("orders", dedicated=("vip",))
    queues = {
        f"{name}_url": cloud.queue(f"their-{name}" if name in theirs else f"{OURS}{name}")
        for name in ("main", "dlq")
    }
    parking = {"default": cloud.queue(f"{OURS}parking")}
    dedicated = {"vip": cloud.queue(f"{OURS}dlq_vip")}
    cloud.redeploy(**{
        **queues, "parking": parking, "dedicated": dedicated, "stacks": STACKS, **described,
    })  # fmt: skip


def left_of(dlq: Dlq, status: Exit) -> dict[str, Any]:
    done = dlq("doctor orders --removal --json", ends=status)
    answer: dict[str, Any] = json.loads(done.stdout)["removal"]
    assert answer["ready"] is (status is Exit.DONE)
    # Nothing is said about the removal while something is left.
    assert bool(answer["steps"]) is answer["ready"]
    return answer


def test_an_empty_pipeline_is_removed_by_these_commands(cloud: Cloud, dlq: Dlq) -> None:
    deployed(cloud)
    answer = left_of(dlq, Exit.DONE)
    assert answer["left"] == []
    assert [step["command"] for step in answer["steps"] if step["command"]] == [
        "npx cdk destroy Deadletter-Orders",
        "aws cloudformation update-termination-protection --no-enable-termination-protection"
        " --stack-name Deadletter-Orders-Queues",
        "npx cdk destroy Deadletter-Orders-Queues",
        "npx cdk deploy --all",
    ]
    kept = {item["name"]: item["command"] for item in answer["stays"]}
    names = ["main", "dlq", "dlq_vip", "parking"]
    assert list(kept) == [*(f"{OURS}{name}" for name in names), "messages", "rules"]
    assert (
        kept[f"{OURS}parking"] == f"aws sqs delete-queue --queue-url {cloud.urls[OURS + 'parking']}"
    )
    dlq("doctor orders --removal", says=("nothing is left, it can be removed", "What stays:"))
    # It reads, and there is nothing to record.
    assert cloud.dynamodb.scan(TableName="audit")["Count"] == 0


def test_a_pipeline_in_a_stack_of_yours_is_removed_by_a_deployment(cloud: Cloud, dlq: Dlq) -> None:
    deployed(cloud, stacks={"pipeline": "Shop", "queues": "Shop"})
    steps = left_of(dlq, Exit.DONE)["steps"]
    assert [step["command"] for step in steps if step["command"]] == ["npx cdk deploy Shop"]


def test_a_pipeline_with_a_message_in_any_queue_is_not_ready(cloud: Cloud, dlq: Dlq) -> None:
    deployed(cloud)
    commands = {
        "main": None,
        "dlq_vip": "dlq retry --auto --in dedicated:vip -p orders",
        "dlq": "dlq retry --auto -p orders",
        "parking": "dlq retry --in parked --all -p orders",
    }
    for queue in commands:
        cloud.letter("{}", OURS + queue)
    left = left_of(dlq, Exit.ATTENTION)["left"]
    assert [(item["kind"], item["name"], item["messages"], item["command"]) for item in left] == [
        ("QUEUE", OURS + queue, 1, command) for queue, command in commands.items()
    ]
    page = dlq("doctor orders --removal", says="not yet, 4 things left").stdout
    assert "npx cdk destroy" not in page


def test_a_message_in_flight_counts(cloud: Cloud, dlq: Dlq) -> None:
    deployed(cloud)
    cloud.letter("{}", f"{OURS}dlq")
    cloud.sqs.receive_message(QueueUrl=cloud.urls[f"{OURS}dlq"])
    [left] = left_of(dlq, Exit.ATTENTION)["left"]
    assert left["messages"] == 1


def test_a_pipeline_with_a_letter_in_any_lane_is_not_ready(cloud: Cloud, dlq: Dlq) -> None:
    deployed(cloud)
    commands = {
        "dedicated:vip": "dlq retry --auto --in dedicated:vip -p orders",
        "due": "dlq retry --in time --all -p orders",
        "parked": "dlq retry --in parked --all -p orders",
        "rule:a b": "dlq retry --in 'rule:a b' -p orders",
        "run:4f0c": "dlq run abort 4f0c",
    }
    for lane in commands:
        cloud.waiting("orders", lane, 2)
    left = left_of(dlq, Exit.ATTENTION)["left"]
    assert [(item["kind"], item["name"], item["messages"], item["command"]) for item in left] == [
        ("WAITING", lane, 2, command) for lane, command in commands.items()
    ]


def test_a_pipeline_with_an_open_circuit_or_a_hold_is_not_ready(cloud: Cloud, dlq: Dlq) -> None:
    deployed(cloud)
    cloud.circuit("orders", "hooks acme", State.OPEN)
    [left] = left_of(dlq, Exit.ATTENTION)["left"]
    assert (left["kind"], left["name"], left["command"]) == ("CIRCUIT", "hooks acme", None)
    for key in ("", "'hooks acme' "):
        dlq(f"circuit close {key}-p orders --expires 2h --reason x -y", ends=Exit.DONE)
    own, other = left_of(dlq, Exit.ATTENTION)["left"]
    assert own["command"] == 'dlq circuit release -p orders --reason "it is removed"'
    assert other["command"].startswith("dlq circuit release 'hooks acme' -p orders")
    assert "by hand" in own["says"]


def test_a_pipeline_whose_consumer_is_paused_is_not_ready(cloud: Cloud, dlq: Dlq) -> None:
    deployed(cloud)
    paused = {"mapping": "m", "at": 1}
    cloud.circuit("orders", "orders", State.CLOSED, paused=paused)
    [left] = left_of(dlq, Exit.ATTENTION)["left"]
    assert "its consumer is paused" in left["says"]


def test_a_pipeline_with_a_live_replay_run_is_not_ready(cloud: Cloud, dlq: Dlq) -> None:
    deployed(cloud)
    run = cloud.replay(ReplayRun(pipeline="orders", id="4f0c1f6f"))
    [left] = left_of(dlq, Exit.ATTENTION)["left"]
    assert (left["kind"], left["name"]) == ("RUN", run.id)
    assert left["command"] == f"dlq run abort {run.id}"


def test_your_main_queue_goes_on_without_us(cloud: Cloud, dlq: Dlq) -> None:
    deployed(cloud, theirs=("main",))
    cloud.letter("{}", "their-main")
    stays = left_of(dlq, Exit.DONE)["stays"]
    assert stays[0] == {
        "name": "their-main",
        "says": "your queue: we don't touch it",
        "command": None,
    }


def test_where_we_only_observe_your_dlq_is_left_as_it_is(cloud: Cloud, dlq: Dlq) -> None:
    deployed(cloud, theirs=("main", "dlq"), mode="observe")
    cloud.letter("{}", "their-dlq")
    stays = {item["name"]: item for item in left_of(dlq, Exit.DONE)["stays"]}
    assert stays["their-dlq"]["says"] == "your queue, with 1 message: we don't touch it"


def test_your_dlq_is_emptied_first_where_we_move_letters(cloud: Cloud, dlq: Dlq) -> None:
    deployed(cloud, theirs=("main", "dlq"))
    cloud.letter("{}", "their-dlq")
    [left] = left_of(dlq, Exit.ATTENTION)["left"]
    assert left["command"] == "dlq retry --auto -p orders"


def test_where_we_only_observe_nothing_empties_a_dlq_of_ours(cloud: Cloud, dlq: Dlq) -> None:
    deployed(cloud, mode="observe")
    cloud.letter("{}", f"{OURS}dlq")
    [left] = left_of(dlq, Exit.ATTENTION)["left"]
    assert left["command"] is None
    assert "set mode to enforce" in left["says"]


def test_what_could_not_be_read_is_left(cloud: Cloud, dlq: Dlq) -> None:
    deployed(cloud)
    cloud.sqs.delete_queue(QueueUrl=cloud.urls[f"{OURS}dlq_vip"])
    [left] = left_of(dlq, Exit.ATTENTION)["left"]
    assert (left["kind"], left["command"]) == ("UNREAD", None)
    assert "dedicated DLQ vip could not be read" in left["says"]
