"""`dlq parked list`: a look at the parking lot that takes nothing out of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from console.cli.exit import Exit
from deadletter.contract import Reason


def letters(dlq: Any, *arguments: str) -> Any:
    done = dlq("parked", "list", "--json", *arguments)
    assert done.exit_code == Exit.DONE, done.output
    return json.loads(done.stdout)["letters"]


def visible(cloud: Any, queue: str = "orders-parking-default") -> int:
    name = "ApproximateNumberOfMessages"
    answer = cloud.sqs.get_queue_attributes(QueueUrl=cloud.urls[queue], AttributeNames=[name])
    return int(answer["Attributes"][name])


def test_a_letter_says_why_it_is_there(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    sent = cloud.park("orders", "QUARANTINED", rule="block-tenant-a", at=1_795_000_000)
    (letter,) = letters(dlq)
    assert letter["message_id"] == sent
    assert letter["reason"] == "QUARANTINED"
    assert letter["because"] == "it is QUARANTINED"
    assert letter["rule"] == "block-tenant-a"
    assert letter["attempts"] == 3
    assert letter["parked_at"] == "2026-11-18T11:06:40Z"
    assert letter["first_sent"] == "1970-01-01T00:00:01Z"
    assert letter["origin"] == "first-life"
    assert letter["received"] == 1
    output = dlq("parked", "list").stdout
    assert f"{sent}  QUARANTINED  after 3 attempts, by rule block-tenant-a, parked 18 Nov" in output
    assert "\n    it is QUARANTINED\n" in output


def test_looking_leaves_every_letter_where_it_was(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    for _ in range(12):
        cloud.park("orders", "POISON")
    assert len(letters(dlq, "--limit", "100")) == 12
    assert visible(cloud) == 12


def test_a_letter_is_listed_once(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    sent = {cloud.park("orders", "POISON") for _ in range(25)}
    ids = [letter["message_id"] for letter in letters(dlq, "--limit", "100")]
    assert len(ids) == 25
    assert set(ids) == sent


def test_no_more_are_listed_than_asked_for(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    for _ in range(15):
        cloud.park("orders", "POISON")
    assert len(letters(dlq)) == 10
    assert len(letters(dlq, "--limit", "3")) == 3
    done = dlq("parked", "list", "--limit", "3")
    assert "3 listed, 3 looked at, 15 there." in done.stdout
    assert visible(cloud) == 15


@pytest.mark.parametrize("limit", ["0", "101", "many"])
def test_a_limit_out_of_range_is_a_usage_error(dlq: Any, limit: str) -> None:
    assert dlq("parked", "list", "--limit", limit).exit_code == Exit.USAGE


def test_letters_of_one_reason_are_found_among_others(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    for _ in range(20):
        cloud.park("orders", "POISON")
    sent = cloud.park("orders", "EXPIRED")
    (letter,) = letters(dlq, "--reason", "expired")
    assert letter["message_id"] == sent
    assert visible(cloud) == 21


def test_an_unknown_reason_is_answered_with_the_known_ones(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    done = dlq("parked", "list", "--reason", "poisoned")
    assert done.exit_code == Exit.USAGE
    assert f"the reasons are {', '.join(Reason)}." in done.stderr


def test_all_parking_queues_of_a_pipeline_are_looked_at(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders", parking=["default", "legal"])
    cloud.park("orders", "POISON")
    cloud.park("orders", "PERMANENT", key="legal")
    assert {letter["queue"]: letter["reason"] for letter in letters(dlq)} == {
        "default": "POISON",
        "legal": "PERMANENT",
    }


def test_an_empty_parking_lot_is_no_error(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    assert "0 listed, 0 looked at, 0 there." in dlq("parked", "list").stdout


def test_a_body_is_shown_only_if_asked_for(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    cloud.park("orders", "POISON", body='{"card": "4111-x"}')
    assert "4111-x" not in dlq("parked", "list").output
    assert "4111-x" not in dlq("parked", "list", "--json").output
    assert "4111-x" in dlq("parked", "list", "--show-body").stdout
    assert letters(dlq, "--show-body")[0]["body"] == '{"card": "4111-x"}'


def test_a_letter_can_not_control_the_terminal(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    cloud.park("orders", "\x1b[2J", body="a\x1b]0;x\x07\nb\u202e", because="\x9b31m", rule="\r")
    for arguments in (["--show-body"], ["--show-body", "--json"]):
        output = dlq("parked", "list", *arguments).output
        assert all(character == "\n" or character.isprintable() for character in output)
    assert r"a\x1b]0;x\x07\nb\u202e" in dlq("parked", "list", "--show-body").stdout


def test_a_long_body_is_cut_on_screen_and_whole_in_json(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    cloud.park("orders", "POISON", body="x" * 2_001)
    assert "1 more character: see --json" in dlq("parked", "list", "--show-body").stdout
    assert len(letters(dlq, "--show-body")[0]["body"]) == 2_001


def test_a_letter_without_our_attribute_is_listed_with_what_is_known(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    cloud.park("orders", None)
    (letter,) = letters(dlq)
    assert letter["reason"] is None
    assert letter["first_sent"] is not None
    assert "reason unknown" in dlq("parked", "list").stdout


def test_letters_rescued_from_a_parking_queue_are_listed_first_the_oldest_first(
    cloud: Any, dlq: Any
) -> None:
    cloud.deploy("orders")
    in_queue = cloud.park("orders", "POISON")
    older, newer = (cloud.rescued("orders", "POISON", sent) for sent in (1_000, 2_000))
    listed = letters(dlq)
    assert [letter["message_id"] for letter in listed] == [older, newer, in_queue]
    assert [letter["rescued"] for letter in listed] == [True, True, False]
    assert (listed[0]["queue"], listed[0]["reason"], listed[0]["attempts"]) == (
        "default",
        "POISON",
        3,
    )
    assert listed[0]["first_sent"] == "1970-01-01T00:16:40Z"
    output = dlq("parked", "list").stdout
    assert "3 listed, 1 looked at, 3 there, 2 of them in the waiting room." in output
    assert "rescued from queue default" in output


def test_the_filters_apply_to_rescued_letters(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    cloud.rescued("orders", "POISON", 1_000)
    expired = cloud.rescued("orders", "EXPIRED", 2_000)
    (letter,) = letters(dlq, "--reason", "EXPIRED", "--show-body")
    assert (letter["message_id"], letter["body"]) == (expired, "{}")
    assert len(letters(dlq, "--limit", "1")) == 1


def test_a_letter_is_shown_with_its_failures(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    cloud.failed("orders", "first-life", error_type="KeyError", message="no price", attempt=2)
    sent = cloud.park("orders", "POISON", body='{"card": "4111-x"}', attempt=3)
    cloud.park("orders", "EXPIRED", origin="another")
    for id_ in (sent, "first-life"):
        letter = json.loads(dlq("parked", "show", id_, "--json").stdout)
        assert (letter["message_id"], letter["reason"], letter["attempts"]) == (sent, "POISON", 3)
        assert [failure["error_type"] for failure in letter["failures"]] == ["KeyError"]
        assert letter["body"] is letter["attributes"] is None
    output = dlq("parked", "show", sent).stdout
    assert "POISON: it is POISON" in output
    assert "KeyError: no price" in output
    assert f"dlq parked release --pipeline orders --id {sent}" in output
    assert "4111-x" not in output
    assert "4111-x" in dlq("parked", "show", sent, "--show-body").stdout
    assert visible(cloud) == 2


def test_a_rescued_letter_is_shown(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    sent = cloud.rescued("orders", "POISON", 1_000)
    letter = json.loads(dlq("parked", "show", sent, "--json").stdout)
    assert letter["rescued"] is True
    assert letter["queue"] == "default"


def test_a_letter_that_is_not_parked_is_not_shown(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    cloud.park("orders", "POISON")
    done = dlq("parked", "show", "nope")
    assert done.exit_code == Exit.ABSENT
    assert "nope is not among the parked letters of orders (1 letter looked at" in done.stderr


def test_an_export_holds_whole_letters_and_moves_none(cloud: Any, dlq: Any, tmp_path: Path) -> None:
    cloud.deploy("orders", parking=["default", "legal"])
    cloud.park("orders", "POISON", body="one", key="legal")
    for _ in range(12):
        cloud.park("orders", "EXPIRED", body="more")
    rescued = cloud.rescued("orders", "POISON", 1_000)
    file = tmp_path / "parked.jsonl"
    done = dlq("parked", "export", "--out", str(file))
    assert done.exit_code == Exit.DONE, done.output
    assert "14 letters of orders copied into" in done.stdout
    rows = [json.loads(row) for row in file.read_text().splitlines()]
    assert {(row["place"], row["body"]) for row in rows} == {
        ("parked", "{}"), ("legal", "one"), ("default", "more"),
    }  # fmt: skip
    assert rows[0]["id"] == rescued
    assert "Redrive" in rows[1]["attributes"]
    assert visible(cloud) == 12
    assert file.stat().st_mode & 0o077 == 0


def test_an_export_takes_only_what_is_asked_for(cloud: Any, dlq: Any, tmp_path: Path) -> None:
    cloud.deploy("orders")
    sent = cloud.park("orders", "POISON", origin="a")
    cloud.park("orders", "POISON", origin="b")
    cloud.park("orders", "EXPIRED", origin="a")
    file = tmp_path / "parked.jsonl"
    dlq("parked", "export", "--out", str(file), "--reason", "poison", "--id", "a")
    (row,) = map(json.loads, file.read_text().splitlines())
    assert row["id"] == sent


def test_an_export_does_not_write_over_a_file(cloud: Any, dlq: Any, tmp_path: Path) -> None:
    cloud.deploy("orders")
    file = tmp_path / "parked.jsonl"
    file.write_text("mine")
    done = dlq("parked", "export", "--out", str(file))
    assert done.exit_code == Exit.USAGE
    assert "is there already: name another file." in done.stderr
    assert file.read_text() == "mine"
