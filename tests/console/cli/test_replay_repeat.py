"""`dlq replay repeat`: an ended run once more, with what a person has to know first."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from console.cli.exit import Exit
from deadletter.aws.table import plain
from deadletter.redrive.journal import key_of
from deadletter.replay.plan import DISCARD, ReplayPlan, plan_from_text
from deadletter.replay.run import RunState
from deadletter.replay.ticket import ReplayOutcome
from tests.console.cli.test_replay_report import OUTCOMES, RUN, name, run
from tests.console.conftest import BUCKET

TWELVE = [(name(f"o{number}"), ReplayOutcome.RECOVERED) for number in range(12)]


@pytest.fixture
def orders(cloud: Any, functions: Any) -> Any:
    cloud.deploy("orders", settings={"consumer_library": True})
    functions.configure("orders", consumer_library=True)
    keep(cloud)
    return cloud


def keep(cloud: Any, of: str = RUN) -> None:
    cloud.s3.put_object(Bucket=BUCKET, Key=f"originals/orders/{of}/a.jsonl.gz", Body=b"")


def plan_of(cloud: Any, new: str) -> tuple[ReplayPlan, bytes]:
    rows = [plain(row) for row in cloud.dynamodb.scan(TableName="letters")["Items"]]
    mine = [row for row in rows if f"#run#{new}#plan" in row["pk"]]
    plan = next(plan_from_text(row["plan"]) for row in mine if "plan" in row)
    return plan, next(row["keys"] for row in mine if "keys" in row)


def repeated(dlq: Any, *options: str) -> dict[str, Any]:
    done = dlq("replay", "repeat", RUN, *options, "--why", "it rounds", "--yes", "--json")
    assert done.exit_code == Exit.DONE, done.output
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_run_is_repeated_as_a_run_of_its_own(orders: Any, functions: Any, dlq: Any) -> None:
    orders.replay(run())
    orders.snapshot(run(), OUTCOMES)
    answer = repeated(dlq)
    assert (answer["repeats"], answer["letters"], answer["again"]) == (RUN, 6, False)
    plan, keys = plan_of(orders, answer["run"]["run"])
    assert (plan.source, plan.destination, plan.counted) == (f"originals:{RUN}", "main", 6)
    assert (plan.accept, plan.approve, plan.why) == (None, False, "it rounds")
    assert keys == b"".join(sorted(map(key_of, "abcdef")))
    assert len(functions.machine.started) == 1


def test_twelve_of_twelve_would_be_skipped_and_dlq_says_so(orders: Any, dlq: Any) -> None:
    orders.replay(run())
    orders.snapshot(run(), TWELVE)
    [warning] = repeated(dlq)["warnings"]
    assert warning.startswith(
        "12 of 12 were processed before: the consumer will skip them unless its idempotency has "
        "forgotten them, after "
    )
    assert warning.endswith("; --again gives them a new key.")


def test_a_new_key_means_effects_once_more(orders: Any, dlq: Any) -> None:
    orders.replay(run())
    orders.snapshot(run(), TWELVE)
    answer = repeated(dlq, "--again")
    assert (answer["again"], answer["processed_before"]) == (True, 12)
    assert answer["warnings"] == [
        "12 of 12 were processed before: with --again the consumer processes them once more, with "
        "all their effects."
    ]
    assert plan_of(orders, answer["run"]["run"])[0].accept == "again"


def test_a_consumer_without_the_library_knows_no_key(cloud: Any, functions: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    functions.configure("orders")
    keep(cloud)
    cloud.replay(run())
    cloud.snapshot(run(), TWELVE)
    [warning] = repeated(dlq)["warnings"]
    assert "nothing of ours keeps it from processing them twice" in warning


@pytest.mark.parametrize(
    ("options", "origins"),
    [
        (("--only", "recovered"), "abc"),
        (("--only", "failed"), "de"),
        (("--id", "a", "--id", "copy-f"), "af"),
    ],
)
def test_letters_are_chosen_by_their_outcome_or_by_id(
    orders: Any, dlq: Any, options: tuple[str, ...], origins: str
) -> None:
    orders.replay(run())
    orders.snapshot(run(), OUTCOMES)
    answer = repeated(dlq, *options)
    assert plan_of(orders, answer["run"]["run"])[1] == b"".join(sorted(map(key_of, origins)))


def test_what_may_still_be_parked_or_was_edited_is_said(orders: Any, dlq: Any) -> None:
    orders.replay(run())
    orders.snapshot(run(), OUTCOMES)
    for key in ("edits/copy-a-1.json", "edits/copy-a-2.json", "edits/copy-b-3.json"):
        orders.s3.put_object(Bucket=BUCKET, Key=f"replay/orders/{RUN}/{key}", Body=b"{}")
    processed, parked, edited = repeated(dlq)["warnings"]
    assert processed.startswith("3 of 6 were processed before")
    assert parked.startswith("2 of 6 failed, and may still be parked: ")
    assert f"dlq replay rerun {RUN} --only failed" in parked
    assert edited.startswith(f"Edited in run {RUN}: 2 letters.")


def test_a_repetition_is_repeated_from_where_its_letters_are_kept(orders: Any, dlq: Any) -> None:
    keep(orders, "0" * 16)
    orders.replay(run(), source=f"originals:{'0' * 16}")
    orders.snapshot(run(), OUTCOMES)
    answer = repeated(dlq)
    assert plan_of(orders, answer["run"]["run"])[0].source == f"originals:{'0' * 16}"


def test_it_shows_what_it_has_started(orders: Any, dlq: Any) -> None:
    orders.replay(run())
    orders.snapshot(run(), TWELVE)
    done = dlq("replay", "repeat", RUN, "--again", "--why", "it rounds", "--yes")
    assert f"sends 12 letters of run {RUN} once more, with a new key." in done.stdout
    assert "! 12 of 12 were processed before" in done.stdout


def test_letters_without_room_for_a_new_key_are_counted_and_named(orders: Any, dlq: Any) -> None:
    counted = replace(run(), id="", letters=9, counted=12)
    made = orders.replay(counted, source=f"originals:{'0' * 16}", accept="again", counted=12)
    orders.snapshot(made, TWELVE[:9])
    names = "".join(f"{name(each).to_line()}\n" for each in ("x1", "x2"))
    key = f"replay/orders/{made.id}/manifest/no-room.jsonl"
    orders.s3.put_object(Bucket=BUCKET, Key=key, Body=names.encode())
    done = dlq("show", made.id, "--pipeline", "orders")
    said = " ".join(done.stdout.split())
    assert "2 letters of them would have gone without the new key" in said, said
    assert "x1, x2" in said
    assert "Of the other 1 no original is kept" in said


def test_a_second_person_has_to_agree_as_ever(orders: Any, functions: Any, dlq: Any) -> None:
    orders.replay(run())
    orders.snapshot(run(), OUTCOMES)
    assert plan_of(orders, repeated(dlq, "--approve")["run"]["run"])[0].approve
    functions.configure("orders", consumer_library=True, replay={"approve_above": 5})
    orders.deploy("orders", settings={"replay": {"approve_above": 5}})
    assert plan_of(orders, repeated(dlq)["run"]["run"])[0].approve


@pytest.mark.parametrize(
    ("state", "options", "status", "text"),
    [
        (RunState.RUNNING, (), Exit.ATTENTION, "only an ended run can be repeated"),
        (RunState.DONE, ("--only", "good"), Exit.USAGE, "--only is all, recovered, failed, not"),
        (RunState.DONE, ("--only", "failed"), Exit.ABSENT, "has no letter for --only failed"),
        (RunState.DONE, ("--id", "z"), Exit.ABSENT, "has no letter with these ids"),
    ],
)
def test_what_can_not_be_repeated_is_said(
    orders: Any, dlq: Any, state: RunState, options: tuple[str, ...], status: Exit, text: str
) -> None:
    orders.replay(run(state))
    orders.snapshot(run(), OUTCOMES[:2])
    done = dlq("replay", "repeat", RUN, *options, "--why", "x", "--yes")
    assert done.exit_code == status
    assert text in done.stderr


def test_without_an_original_dlq_says_what_is_left_to_do(
    cloud: Any, functions: Any, dlq: Any
) -> None:
    cloud.deploy("orders")
    functions.configure("orders")
    cloud.replay(run())
    cloud.snapshot(run(), OUTCOMES)
    done = dlq("replay", "repeat", RUN, "--why", "x", "--yes")
    assert done.exit_code == Exit.ABSENT
    assert f"No letter of run {RUN} is kept" in done.stderr
    assert f"dlq replay rerun {RUN} --only failed" in done.stderr


def test_a_run_that_threw_letters_away_is_not_repeated(orders: Any, dlq: Any) -> None:
    thrown = orders.replay(replace(run(), id=""), destination=DISCARD)
    orders.snapshot(thrown, OUTCOMES)
    done = dlq("replay", "repeat", thrown.id, "--why", "x", "--yes")
    assert done.exit_code == Exit.USAGE
    assert "dlq restore" in done.stderr
