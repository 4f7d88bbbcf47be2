"""`dlq parked release` and `discard`: what a person sees, and what is stored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from console.cli.exit import Exit
from deadletter.aws.replay_objects import S3RunObjects
from deadletter.aws.replay_starts import unpacked
from deadletter.circuit.state import State
from deadletter.contract import Reason
from deadletter.message.letter import Attribute, Letter
from deadletter.message.stamp import Stamp
from deadletter.redrive.journal import key_of
from deadletter.replay.discarded import DiscardedLetter, discarded_name
from deadletter.replay.plan import ReplayPlan, plan_from_text

WHY = ("--why", "fixed in 4.2.1")


@pytest.fixture
def orders(cloud: Any, functions: Any) -> Any:
    """Pipeline orders with a router that answers."""
    cloud.deploy("orders", settings={"consumer_library": True})
    functions.configure("orders", consumer_library=True)
    functions.routes = True
    return cloud


def plans(cloud: Any) -> dict[str, ReplayPlan]:
    """The stored plans, by their source."""
    rows = [row for row in rows_of(cloud) if row["sk"]["S"] == "plan"]
    texts = [plan_from_text(row["plan"]["S"]) for row in rows]
    return {plan.source: plan for plan in texts}


def rows_of(cloud: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = cloud.dynamodb.scan(TableName="letters")["Items"]
    return rows


def counted(cloud: Any, run: str) -> frozenset[bytes]:
    """The keys of the origins that a person saw counted."""
    keys = [
        row["keys"]["B"]
        for row in rows_of(cloud)
        if f"#run#{run}#plan" in row["pk"]["S"] and row["sk"]["S"].startswith("counted#")
    ]
    return frozenset().union(*map(unpacked, keys))


def test_a_release_stores_a_plan_its_letters_and_a_run_and_starts_it(
    orders: Any, functions: Any, dlq: Any
) -> None:
    for number in range(12):
        orders.park("orders", "POISON", origin=f"poison-{number}")
    orders.park("orders", "EXPIRED", origin="expired")
    done = dlq("parked", "release", "--reason", "poison", *WHY, "--yes", "--json")
    assert done.exit_code == Exit.DONE, done.output
    answer = json.loads(done.stdout)
    assert (answer["letters"], answer["action"]) == (12, "release")
    (run,) = answer["runs"]
    plan = plans(orders)["parking:default"]
    assert plan.run_id == run["run"]
    assert (plan.destination, plan.counted, plan.is_release) == ("main", 12, True)
    assert plan.selection.reasons == (Reason.POISON,)
    assert plan.why == "fixed in 4.2.1"
    assert plan.who.startswith("arn:aws:")
    assert counted(orders, run["run"]) == {key_of(f"poison-{number}") for number in range(12)}
    (execution,) = functions.machine.started
    assert execution["name"] == f"{run['run']}-0"
    assert json.loads(execution["input"]) == {"run": run["run"]}
    assert orders.visible("orders-parking-default") == 13


def test_letters_in_the_queue_and_in_lane_parked_are_released_by_one_run(
    orders: Any, functions: Any, dlq: Any
) -> None:
    """A person need not know where a parked letter is: a run may have moved it meanwhile."""
    orders.park("orders", "POISON", origin="in-queue")
    orders.rescued("orders", "POISON", 1_000)
    answer = json.loads(dlq("parked", "release", "--all", *WHY, "--yes", "--json").stdout)
    (run,) = answer["runs"]
    assert (run["source"], run["letters"]) == ("parking:default", 2)
    assert counted(orders, run["run"]) == {key_of("in-queue"), key_of("first-life")}


def test_what_an_aborted_run_has_left_is_released_by_its_reason(orders: Any, dlq: Any) -> None:
    """The letter carries nothing of its run: only the item in lane `parked` has the reason."""
    orders.rescued("orders", "REPLAY_ABORTED", 1_000)
    orders.rescued("orders", "POISON", 2_000, origin="poison")
    choice = ("--reason", "REPLAY_ABORTED")
    done = dlq("parked", "release", *choice, *WHY, "--yes", "--json")
    assert done.exit_code == Exit.DONE, done.output
    (run,) = json.loads(done.stdout)["runs"]
    assert counted(orders, run["run"]) == {key_of("first-life")}
    shown = dlq("show", "rescued-REPLAY_ABORTED-1000", "--json")
    place = json.loads(shown.stdout)["message"]["places"][0]
    assert (place["where"], place["because"]) == ("PARKED", "it is REPLAY_ABORTED")


def test_each_parking_queue_has_a_run_with_its_own_rescued_letters(
    orders: Any, functions: Any, dlq: Any
) -> None:
    orders.deploy("orders", settings={"consumer_library": True}, parking=("default", "legal"))
    orders.park("orders", "POISON", origin="a")
    orders.rescued("orders", "POISON", 1_000, key="legal")
    orders.rescued("orders", "SILENT", 1_000, key="gone")
    answer = json.loads(dlq("parked", "release", "--all", *WHY, "--yes", "--json").stdout)
    assert {run["source"]: run["letters"] for run in answer["runs"]} == {
        "parking:default": 2, "parking:legal": 1,
    }  # fmt: skip


def test_a_letter_is_released_by_its_id_or_the_id_of_its_first_life(
    orders: Any, functions: Any, dlq: Any
) -> None:
    sent = orders.park("orders", "POISON", origin="first-a")
    orders.park("orders", "POISON", origin="first-b")
    orders.park("orders", "POISON", origin="first-c")
    done = dlq("parked", "release", "--id", sent, "--id", "first-b", *WHY, "--yes", "--json")
    answer = json.loads(done.stdout)
    assert counted(orders, answer["runs"][0]["run"]) == {key_of("first-a"), key_of("first-b")}


def test_a_person_sees_what_would_be_released_and_may_refuse(
    orders: Any, functions: Any, dlq: Any, at_a_terminal: None
) -> None:
    orders.park("orders", "POISON", origin="a")
    orders.park("orders", "EXHAUSTED", origin="b")
    done = dlq("parked", "release", "--all", *WHY, answers="n\n")
    assert done.exit_code == Exit.ATTENTION
    for text in (
        "App deadletter in account 123456789012",
        "Release 2 parked letters of orders: 2 in parking queue default.",
        "They are parked for 1 POISON, 1 EXHAUSTED.",
        "letters/s",
        "Nothing was done.",
    ):
        assert text in done.stderr
    assert not functions.machine.started
    assert not plans(orders)


def test_a_release_needs_a_reason(orders: Any, functions: Any, dlq: Any) -> None:
    orders.park("orders", "POISON")
    done = dlq("parked", "release", "--all", "--yes")
    assert done.exit_code == Exit.USAGE
    assert "A release needs a reason: add --why." in done.stderr


def test_nothing_to_release_is_said(orders: Any, functions: Any, dlq: Any) -> None:
    orders.park("orders", "POISON")
    done = dlq("parked", "release", "--reason", "EXPIRED", *WHY, "--yes")
    assert done.exit_code == Exit.ABSENT
    assert "No parked letter of orders matches: nothing was done." in done.stderr
    assert not functions.machine.started


def test_an_expired_letter_is_not_released_and_can_be_discarded(
    orders: Any, functions: Any, dlq: Any
) -> None:
    long_ago = 1_600_000_000_000
    orders.park("orders", "EXPIRED", origin="expired", first_sent=long_ago)
    done = dlq("parked", "release", "--all", *WHY, "--yes")
    assert done.exit_code == Exit.ABSENT
    assert "would stay out (1 EXPIRED)" in done.stderr
    # One that was given up in time has waited for a person since.
    orders.park("orders", "POISON", origin="poison", first_sent=long_ago)
    done = dlq("parked", "release", "--all", *WHY, "--yes")
    assert done.exit_code == Exit.DONE, done.output
    assert plans(orders)["parking:default"].counted == 1


def test_expired_letters_are_discarded_like_any_other(
    orders: Any, functions: Any, dlq: Any
) -> None:
    orders.park("orders", "EXPIRED", origin="expired", first_sent=1_600_000_000_000)
    done = dlq("parked", "discard", "--all", *WHY, "--yes", "--confirm", "deadletter")
    assert done.exit_code == Exit.DONE, done.output
    assert plans(orders)["parking:default"].counted == 1


def test_a_collision_is_accepted_by_a_person_or_not_released(
    orders: Any, functions: Any, dlq: Any
) -> None:
    orders.park("orders", "COLLISION", origin="a")
    done = dlq("parked", "release", "--all", *WHY, "--yes")
    assert done.exit_code == Exit.USAGE
    assert "Parked for COLLISION: 1 letter. Another message" in done.stderr
    assert "--accept-collision" in done.stderr
    done = dlq("parked", "release", "--all", *WHY, "--yes", "--accept-collision")
    assert done.exit_code == Exit.DONE, done.output
    assert plans(orders)["parking:default"].accept == "collision"


def test_a_person_sees_what_would_be_thrown_away_and_no_content_of_it(
    orders: Any, functions: Any, dlq: Any, at_a_terminal: None
) -> None:
    for number in range(6):
        sent = 1_789_000_000_000 + number
        body = json.dumps({"card": SECRET})
        orders.park("orders", "POISON", body, origin=f"poison-{number}", first_sent=sent)
        orders.failed("orders", f"poison-{number}", error_type="KeyError", fingerprint="f1")
    orders.park("orders", "EXPIRED", origin="expired", first_sent=1_790_000_000_000)
    done = dlq("parked", "discard", "--all", *WHY, answers="n\n")
    assert done.exit_code == Exit.ATTENTION
    for text in (
        "Discard 7 parked letters of orders: 7 in parking queue default.",
        "They are parked for 6 POISON, 1 EXPIRED.",
        "Their last failures: 6 KeyError (f1), 1 not on record.",
        "The oldest was first sent at 2026-09-10 00:26 UTC: poison-0.",
        "By the ids of their first lives: expired, poison-0, poison-1, poison-2, poison-3, and 2"
        " more.",
    ):
        assert text in " ".join(done.stderr.split()), done.stderr
    assert SECRET not in done.output
    assert not functions.machine.started


def test_a_discard_keeps_an_export_unless_told_otherwise(
    orders: Any, functions: Any, dlq: Any, at_a_terminal: None
) -> None:
    orders.park("orders", "POISON", origin="a")
    orders.circuit("orders", "orders", State.OPEN)
    done = dlq("parked", "discard", "--all", "--why", "not wanted", answers="y\n")
    plan = plans(orders)["parking:default"]
    assert "Circuit" not in done.output
    place = f"s3://letters-bucket/replay/orders/{plan.run_id}/discarded/"
    assert f"Copies are kept below {place}" in done.stdout
    assert f"Undo it:   dlq parked restore orders --run {plan.run_id}" in done.stdout
    assert (plan.destination, plan.keep_export, plan.canary) == ("discard", True, ())
    assert (plan.rate, plan.ramp) == (100.0, (1.0,))


def test_a_discard_without_an_export_says_that_it_is_final(
    orders: Any, functions: Any, dlq: Any, at_a_terminal: None
) -> None:
    orders.park("orders", "POISON", origin="a")
    discard = ("parked", "discard", "--all", "--why", "x", "--no-export")
    done = dlq(*discard, "--yes", answers="y\n")
    assert "Nothing was done." in done.stderr
    assert "This can't be undone. Type deadletter to go on:" in done.stderr
    assert "No export is kept" in done.stderr
    assert plans(orders) == {}
    done = dlq(*discard, answers="deadletter\n")
    assert done.exit_code == Exit.DONE, done.output
    assert plans(orders)["parking:default"].keep_export is False


def test_a_discard_without_an_export_and_a_terminal_needs_the_name_of_the_app(
    orders: Any, functions: Any, dlq: Any
) -> None:
    orders.park("orders", "POISON", origin="a")
    discard = ("parked", "discard", "--all", "--why", "x", "--no-export")
    for given in (("--yes",), ("--yes", "--confirm", "billing")):
        done = dlq(*discard, *given)
        assert done.exit_code == Exit.USAGE
        assert plans(orders) == {}
    done = dlq(*discard, "--confirm", "deadletter")
    assert done.exit_code == Exit.DONE, done.output
    assert plans(orders)["parking:default"].keep_export is False


def test_a_bad_filter_is_refused_before_a_letter_is_received(
    orders: Any, functions: Any, dlq: Any
) -> None:
    sent = orders.park("orders", "POISON")
    for option, text in (
        (("--pattern", "{"), "--pattern is not JSON"),
        (("--pattern", '{"body": 1}'), "can't be chosen so: pattern"),
        (("--jmespath", "a["), "can't be chosen so: where"),
        (("--reason", "POISEN"), "the reasons are"),
        (("--since", "yesterday"), "is no time: write how long ago"),
    ):
        done = dlq("parked", "release", *option, *WHY, "--yes")
        assert done.exit_code == Exit.USAGE, done.output
        assert text in done.stderr
    listed = json.loads(dlq("list", "--in", "parked", "--look", "--json").stdout)
    (letter,) = listed["messages"]
    assert (letter["current_id"], letter["received"]) == (sent, 1)


def test_a_person_says_which_letters(orders: Any, functions: Any, dlq: Any) -> None:
    orders.park("orders", "POISON")
    for verb in ("release", "discard", "restore"):
        done = dlq("parked", verb, *WHY, "--yes")
        assert done.exit_code == Exit.USAGE
        letters = (
            "discarded letters: --run, --id"
            if verb == "restore"
            else "parked letters: --id, --reason"
        )
        assert f"Say which {letters}, another filter, or --all." in done.stderr
        done = dlq("parked", verb, "--all", "--id", "a", *WHY, "--yes")
        assert "--all and a filter exclude each other: give one." in done.stderr
    assert not functions.machine.started


def test_a_persons_reason_in_reason_is_told_to_be_why(orders: Any, dlq: Any) -> None:
    for command in ("release", "discard", "restore"):
        done = dlq("parked", command, "--reason", "fixed", "--yes")
        assert done.exit_code == Exit.USAGE
        assert "why you do it is --why" in done.stderr


# Restoring what was discarded.

FIRST, SECOND = "4f0c1b2a3d4e5f60", "5f0c1b2a3d4e5f60"
SECRET = "4111-x"


def objects(cloud: Any, run: str) -> S3RunObjects:
    return S3RunObjects(cloud.s3, "letters-bucket", "orders", run)


def discarded(cloud: Any, run: str, origin: str, reason: str = "POISON", **facts: Any) -> None:
    """The copy of a letter that a run has thrown away."""
    stamp = Stamp(origin, 2, 1_789_000_000_000, reason=reason, run=run, decision="HOLD", base=2)
    body = json.dumps({"tenantId": "acme", "card": SECRET})
    kept = DiscardedLetter(
        **{
            "letter": Letter(f"copy-{origin}", body, {"a": Attribute("String", SECRET)}, {}),
            "home": "parking:default",
            "stamp": stamp,
            "at": 1_790_000_000,
            "by": "arn:aws:iam::123456789012:user/ann",
            "because": "one wrong line",
            **facts,
        }
    )
    objects(cloud, run).put(discarded_name(f"copy-{origin}"), kept.to_bytes())


def test_a_restore_starts_a_run_for_the_letters_that_were_counted(
    orders: Any, functions: Any, dlq: Any
) -> None:
    for number in range(60):
        discarded(orders, FIRST, f"a-{number}")
    discarded(orders, SECOND, "b", "EXPIRED")
    # Other objects of a run are no letters.
    objects(orders, SECOND).put("report.json", b"{}")
    done = dlq("parked", "restore", "--reason", "poison", *WHY, "--yes", "--json")
    assert done.exit_code == Exit.DONE, done.output
    answer = json.loads(done.stdout)
    assert (answer["action"], answer["letters"], answer["copies"]) == ("restore", 60, [])
    (run,) = answer["runs"]
    plan = plans(orders)["discarded"]
    assert (plan.run_id, plan.destination, plan.counted) == (run["run"], "restore", 60)
    assert (plan.why, plan.is_for_discarders) == ("fixed in 4.2.1", True)
    assert plan.who.startswith("arn:aws:")
    keys = [
        row["keys"]["B"]
        for row in rows_of(orders)
        if row["pk"]["S"].endswith(f"#run#{run['run']}#discard") and "keys" in row
    ]
    found = frozenset().union(*map(unpacked, keys))
    assert found == {key_of(f"a-{number}") for number in range(60)}
    (execution,) = functions.machine.started
    assert json.loads(execution["input"]) == {"run": run["run"]}
    # The command itself moves nothing.
    assert len(objects(orders, FIRST).listed("discarded/")) == 60
    assert not [row for row in rows_of(orders) if "#letter#" in row["pk"]["S"]]


def test_a_restore_shows_who_threw_the_letters_away_and_no_content(
    orders: Any, functions: Any, dlq: Any, at_a_terminal: None
) -> None:
    discarded(orders, FIRST, "a")
    discarded(orders, FIRST, "b", "EXHAUSTED")
    discarded(orders, SECOND, "c", by="user/bob", because="a test", at=1_790_100_000)
    objects(orders, SECOND).put("discarded/torn.json", b"{")
    done = dlq("parked", "restore", "--all", *WHY, answers="n\n")
    assert done.exit_code == Exit.ATTENTION
    for text in (
        "Restore 3 discarded letters of orders.",
        "They were parked for 2 POISON, 1 EXHAUSTED.",
        "Their last failures: 3 not on record.",
        "By the ids of their first lives: a, b, c.",
        f"Run {FIRST} discarded 2 of them at 2026-09-21 14:13 UTC, for arn:aws:iam::123456789012:"
        "user/ann: one wrong line",
        f"Run {SECOND} discarded 1 of them at 2026-09-22 18:00 UTC, for user/bob: a test",
        f"these copies can't be read, and stay: {SECOND}/discarded/torn.json",
        "Nothing was done.",
    ):
        assert text in " ".join(done.stderr.replace("\n", " ").split()), done.stderr
    assert SECRET not in done.output
    assert not functions.machine.started


@pytest.mark.parametrize(
    ("choice", "origins"),
    [
        (("--run", FIRST), "ab"),
        (("--run", FIRST[:6]), "ab"),
        (("--run", FIRST, "--reason", "EXPIRED"), "b"),
        (("--id", "copy-c"), "c"),
        (("--id", "a", "--id", "c"), "ac"),
        (("--tenant", "acme"), "abc"),
        (("--pattern", '{"body": {"card": ["4111-x"]}}'), "abc"),
        (("--all",), "abc"),
    ],
)
def test_letters_are_restored_by_run_id_or_filter(
    orders: Any, functions: Any, dlq: Any, choice: tuple[str, ...], origins: str
) -> None:
    orders.deploy(
        "orders", settings={"consumer_library": True, "context": {"tenantId": "body.tenantId"}}
    )
    functions.configure("orders", consumer_library=True, context={"tenantId": "body.tenantId"})
    discarded(orders, FIRST, "a")
    discarded(orders, FIRST, "b", "EXPIRED")
    discarded(orders, SECOND, "c")
    done = dlq("parked", "restore", *choice, *WHY, "--yes", "--json")
    assert done.exit_code == Exit.DONE, done.output
    answer = json.loads(done.stdout)
    (plan,) = plans(orders).values()
    assert (answer["letters"], plan.counted) == (len(origins), len(origins))
    assert plan.restored_run == (FIRST if "--run" in choice else None)


def test_nothing_to_restore_is_said(orders: Any, functions: Any, dlq: Any) -> None:
    discarded(orders, FIRST, "a")
    for choice, text in (
        (("--reason", "EXPIRED"), "No discarded letter of orders matches whose copy is kept"),
        (("--run", SECOND), f"No run '{SECOND}' of orders has kept anything."),
    ):
        done = dlq("parked", "restore", *choice, *WHY, "--yes")
        assert done.exit_code == Exit.ABSENT
        assert text in done.stderr
    assert not functions.machine.started


def test_the_start_of_several_runs_ids_restores_none(orders: Any, functions: Any, dlq: Any) -> None:
    discarded(orders, FIRST, "a")
    discarded(orders, f"{FIRST[:8]}00000000", "b")
    done = dlq("parked", "restore", "--run", FIRST[:8], *WHY, "--yes")
    assert done.exit_code == Exit.USAGE
    assert "Several runs begin with" in done.stderr


def test_a_restore_says_how_to_follow_it(orders: Any, functions: Any, dlq: Any) -> None:
    discarded(orders, FIRST, "a")
    done = dlq("parked", "restore", "--all", *WHY, "--yes")
    assert "1 discarded letter of orders being restored" in done.stdout
    run = plans(orders)["discarded"].run_id
    for text in (
        f"dlq show {run} --watch",
        f"dlq replay hold {run}",
        "dlq list --in parked --look --pipeline orders",
    ):
        assert text in done.stdout
    shown = dlq("show", run, "--json")
    assert json.loads(shown.stdout)["run"]["destination"] == "restore"
