"""Intents that stand after a run: which letters they name, and when they leave the journal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deadletter.contract import HOUR
from deadletter.redrive.journal import key_of
from tests.simulation import test_interrupted_runs
from tests.simulation.stage import Stage
from tests.simulation.test_interrupted_runs import (
    BODY,
    PLACES,
    Strike,
    dead_letter,
    due_letter,
    everywhere,
    is_mark,
    run,
)


def called(wanted: str, fault: str, *, at: int = 1) -> Strike:
    """A fault at the so-manieth call of that name."""
    calls = 0

    def strike(name: str, _options: dict[str, Any]) -> str | None:
        nonlocal calls
        calls += name == wanted
        return fault if name == wanted and calls == at else None

    return strike


def at_mark(fault: str) -> Strike:
    return lambda name, options: fault if is_mark(name, options) else None


def deletes(fault: str) -> Strike:
    """A fault at each delete of a letter from its queue or from the room."""

    def strike(name: str, options: dict[str, Any]) -> str | None:
        of_letters = name in ("delete_message_batch", "batch_write_item")
        return fault if of_letters else None

    return strike


def keys_on_record(stage: Stage) -> set[bytes]:
    return {
        item["plans"]["B"][at : at + 16]
        for item in stage.journal()
        for at in range(0, len(item["plans"]["B"]), 18)
    }


def test_only_the_letter_without_an_answer_stands() -> None:
    stage = Stage()
    copies = [stage.put(BODY) for _ in range(25)]
    stage.fail()
    run(stage, called("send_message_batch", "lost"))
    # The answer about one batch was lost; the other letters are marked and deleted.
    assert len(keys_on_record(stage)) == 10
    assert keys_on_record(stage) < set(map(key_of, copies))
    report = run(stage)
    assert report is not None
    assert report.counts["PossibleDuplicate"] == 10
    assert stage.journal() == []
    assert len(everywhere(stage)) == len(stage.bodies(stage.main)) == 35


@PLACES
@pytest.mark.parametrize(
    "strike", [at_mark("cut"), at_mark("after"), at_mark("lost"), called("put_item", "lost")]
)
def test_nothing_stands_after_the_next_run_that_ended_in_good_order(
    place: Callable[[], Stage], strike: Strike
) -> None:
    stage = place()
    run(stage, strike)
    run(stage)
    run(stage)
    assert stage.journal() == []
    assert stage.waiting() == stage.bodies(stage.dlq) == []


@PLACES
def test_a_mark_stands_until_its_letter_is_surely_deleted(place: Callable[[], Stage]) -> None:
    """A run that sees the letter and can't delete it has explained nothing."""
    stage = place()
    for _ in range(4):
        run(stage, deletes("refused"))
        assert len(stage.journal()) == 1
    run(stage)
    assert everywhere(stage) == stage.bodies(stage.main) == [BODY]
    assert stage.waiting() == stage.journal() == []


def test_a_delete_that_was_answered_after_the_lock_explains_nothing() -> None:
    stage = dead_letter()
    run(stage, at_mark("after"))
    assert len(stage.journal()) == 1

    def slow(name: str, options: dict[str, Any]) -> str | None:
        if name == "delete_message_batch":
            stage.clock.advance(200)
        return None

    run(stage, slow)
    assert len(stage.journal()) == 1


@pytest.mark.parametrize("place", [dead_letter, due_letter])
def test_an_intent_about_letters_that_are_gone_leaves_when_its_place_is_seen_empty(
    place: Callable[[], Stage],
) -> None:
    """The run was cut off after its deletes: nobody will see its letters again."""
    stage = place()
    of_letters = "delete_message_batch" if place is dead_letter else "batch_write_item"
    assert run(stage, called(of_letters, "after")) is None
    assert everywhere(stage) == stage.bodies(stage.main) == [BODY]
    run(stage)
    assert len(stage.journal()) == 1
    stage.clock.advance(2 * HOUR)
    report = run(stage)
    assert report is not None
    assert report.stopped == "nothing to do"
    assert stage.journal() == []


def test_an_idle_run_reads_the_journal_once_an_hour_and_ends_well_without_it() -> None:
    stage = Stage()
    reads: list[str] = []

    def refuse(name: str, options: dict[str, Any]) -> str | None:
        if name == "query" and "#journal" in str(options):
            reads.append(name)
            return "refused"
        return None

    for _ in range(24):
        report = run(stage, refuse)
        assert report is not None
        assert report.stopped == "nothing to do"
        assert report.ended_well
    # Two hours in steps of five minutes.
    assert 2 <= len(reads) <= 3


def test_a_letter_that_somebody_holds_keeps_the_intents_of_its_queue() -> None:
    """SQS counts it as in flight: the queue is not empty."""
    stage = dead_letter()
    assert run(stage, at_mark("after")) is None
    stage.take(stage.dlq, hide=3 * HOUR)
    stage.clock.advance(2 * HOUR)
    run(stage)
    assert len(stage.journal()) == 1
    stage.clock.advance(2 * HOUR)
    run(stage)
    assert everywhere(stage) == stage.bodies(stage.main) == [BODY]
    assert stage.journal() == []


def test_the_mark_of_a_letter_that_left_the_room_outlives_its_copy_in_the_queue() -> None:
    stage = dead_letter()
    due = due_letter().pipeline
    stage.pipeline = due
    # It went into the room, and the run was cut off before it marked and deleted it.
    assert run(stage, at_mark("cut")) is None
    assert len(stage.waiting()) == len(stage.bodies(stage.dlq)) == 1
    stage.take(stage.dlq, hide=11 * HOUR)
    stage.clock.advance(2 * HOUR)
    run(stage)
    assert stage.bodies(stage.main) == [BODY]
    # Its shard is empty, and its intent has long ended.
    stage.clock.advance(3 * HOUR)
    run(stage)
    assert stage.waiting() == []
    stage.clock.advance(7 * HOUR)
    report = run(stage)
    assert everywhere(stage) == stage.bodies(stage.main) == [BODY]
    assert report is not None
    assert report.counts.get("PossibleDuplicate", 0) == 0
    assert stage.waiting() == []
    stage.clock.advance(2 * HOUR)
    run(stage)
    assert stage.journal() == []


def test_a_letter_on_record_is_not_made_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = dead_letter()
    # Its lock has ended then, and the grace after it has not.
    monkeypatch.setattr(test_interrupted_runs, "LOCKS_END", 120)
    assert run(stage, at_mark("cut")) is None
    visible: list[Any] = []

    def watch(name: str, options: dict[str, Any]) -> str | None:
        if name == "change_message_visibility_batch":
            visible.extend(options["Entries"])
        return None

    report = run(stage, watch)
    assert report is not None
    assert report.counts["LeftInPlace"] == 1
    assert visible == []


def test_a_letter_on_record_that_cannot_be_moved_is_not_made_visible() -> None:
    stage = Stage()
    stage.put("{")
    stage.fail()
    assert run(stage, at_mark("cut")) is None
    visible: list[Any] = []

    def no_target(name: str, options: dict[str, Any]) -> str | None:
        if name == "change_message_visibility_batch":
            visible.extend(options["Entries"])
        is_asked = name == "get_queue_attributes" and "parking" in options["QueueUrl"]
        return "refused" if is_asked else None

    report = run(stage, no_target)
    assert report is not None
    assert report.counts["LeftInPlace"] == 1
    assert report.counts.get("PossibleDuplicate", 0) == 0
    assert visible == []


def test_a_run_reads_the_journal_once_for_all_its_letters() -> None:
    stage = Stage()
    for _ in range(500):
        stage.put(BODY)
    stage.fail()
    reads: list[str] = []

    def count(name: str, options: dict[str, Any]) -> str | None:
        if name == "query" and "#journal" in str(options):
            reads.append(name)
        return None

    report = run(stage, count)
    assert report is not None
    assert report.moved == 500
    assert len(reads) == 1
