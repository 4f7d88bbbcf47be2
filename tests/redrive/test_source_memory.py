"""What runs remember of a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from deadletter.pace.auto_rate import AutoRate
from deadletter.redrive.journal import GRACE
from deadletter.redrive.report import REMEMBERED_TROUBLES, Report
from deadletter.redrive.round_robin import LastTurn
from deadletter.redrive.run_limits import LOCK_PAST_DEADLINE
from deadletter.redrive.source_memory import (
    BRIEF_FOR,
    UNKNOWN,
    RunEnd,
    SourceMemory,
    after_look,
    after_rescue,
    after_run,
    seconds_until_next_try,
    was_just_empty,
    with_lost_run,
)
from deadletter.signals.figures import Count
from tests.each_row import each_row


def end_of(
    at: float,
    stopped: str,
    *,
    well: bool = True,
    trouble: str = "",
    troubles: Sequence[str] = (),
    looks: int = 0,
    **rest: Any,
) -> RunEnd:
    """The end of a run that counted these troubles and looks."""
    counts = {**dict.fromkeys(troubles, 1), Count.LOOKED_AT: looks}
    report = Report("orders", "dlq", stopped, counts, ended_well=well, trouble=trouble)
    return RunEnd(ended=at, report=report, **rest)


def test_a_run_that_ends_well_forgets_the_trouble_and_not_what_single_letters_need() -> None:
    before = SourceMemory(trouble="denied", ended_well_at=10, troubles={"Undecided": 10})
    end = end_of(70, "nothing to do", troubles=["Unsendable"])
    assert after_run(before, end) == SourceMemory(
        ended_at=70,
        ended_well_at=70,
        stopped="nothing to do",
        troubles={"Undecided": 10, "Unsendable": 70},
    )


def test_a_run_that_does_not_end_well_leaves_its_trouble() -> None:
    end = end_of(70, "x", well=False, trouble="denied")
    memory = after_run(SourceMemory(ended_well_at=10), end)
    assert (memory.ended_at, memory.ended_well_at, memory.trouble) == (70, 10, "denied")


def test_fruitless_runs_are_counted_until_a_letter_moves() -> None:
    def run(memory: SourceMemory, ended: float, fruitless: bool | None) -> SourceMemory:
        return after_run(memory, end_of(ended, "x", fruitless=fruitless))

    memory = run(run(UNKNOWN, 10, True), 20, True)
    assert (memory.fruitless, memory.fruitless_at) == (2, 20)
    memory = run(memory, 30, None)
    assert (memory.fruitless, memory.fruitless_at) == (2, 20)
    assert run(memory, 40, False).fruitless == 0


def test_a_run_that_kept_no_rate_leaves_the_one_of_before() -> None:
    memory = after_run(UNKNOWN, end_of(70, "x", auto_rate=AutoRate(80.0)))
    assert memory.auto_rate == AutoRate(80.0)
    memory = after_run(memory, end_of(130, "nothing to do"))
    assert memory.auto_rate == AutoRate(80.0)


def test_the_oldest_letter_is_the_least_until_a_pass_has_seen_all() -> None:
    memory = after_run(SourceMemory(oldest=50), end_of(70, "x", oldest=60))
    assert memory.oldest == 50
    memory = after_run(memory, end_of(80, "x", oldest=40))
    assert memory.oldest == 40
    memory = after_run(memory, end_of(90, "x", oldest=60, pass_began=85))
    assert (memory.oldest, memory.emptied_at) == (60, None)


def test_an_empty_queue_forgets_age_and_looks() -> None:
    before = SourceMemory(oldest=50, looks=7, looked_at=60)
    end = end_of(90, "nothing to do", pass_began=85, emptied=True)
    memory = after_run(before, end)
    assert (memory.oldest, memory.looks, memory.emptied_at) == (None, 0, 85)


def test_looks_add_up_and_a_look_is_no_run() -> None:
    end = end_of(90, "looked", looks=3, oldest=50)
    memory = after_look(after_look(UNKNOWN, end), end)
    assert memory == SourceMemory(looks=6, looked_at=90, oldest=50)


def test_a_run_that_lost_its_lease_is_counted_once_and_only_when_the_lease_is_over() -> None:
    held = SourceMemory(held_until=1_000.0, fruitless=1, fruitless_at=500.0)
    assert with_lost_run(held, 999.0) is held
    lost = with_lost_run(held, 1_000.0)
    assert (lost.fruitless, lost.fruitless_at, lost.ended_at) == (2, 985.0, 1_000.0)
    # Two minutes after its lease, and with it its intents, has ended.
    first = replace(lost, fruitless=1)
    assert seconds_until_next_try(first, 1_000.0) == 120.0
    assert not lost.last_ended_well
    assert with_lost_run(lost, 2_000.0) is lost


def test_a_source_whose_lease_was_given_back_has_lost_no_run() -> None:
    assert with_lost_run(UNKNOWN, 1_000.0) is UNKNOWN


def test_the_first_run_of_a_source_may_be_lost_too() -> None:
    assert with_lost_run(SourceMemory(held_until=0.5), 1_000.0).fruitless == 1


@each_row(
    ("fruitless", "minutes"),
    [(0, 0), (1, 2.25), (2, 4.25), (3, 8.25), (4, 15), (5, 15), (1_000, 15)],
)
def test_letters_are_left_alone_for_longer_up_to_a_quarter_of_an_hour(
    fruitless: int, minutes: float
) -> None:
    memory = SourceMemory(fruitless=fruitless, fruitless_at=1_000.0)
    assert seconds_until_next_try(memory, 1_000.0) == 60 * minutes
    assert seconds_until_next_try(memory, 1_000.0 + 60 * minutes + 1) == 0.0


def test_the_fields_of_a_lost_run() -> None:
    held = SourceMemory(held_until=1_000.0, ended_at=900.0, ended_well_at=900.0, stopped="done")
    lost = with_lost_run(held, 1_000.5)
    assert lost == SourceMemory(
        held_until=1_000.0,
        ended_at=1_000.0,
        ended_well_at=900.0,
        stopped="done",
        trouble="the last run was cut off before its end",
        fruitless=1,
        fruitless_at=985.0,
    )
    # A fruitless run that ended later has counted already.
    later = SourceMemory(held_until=1_000.0, fruitless=3, fruitless_at=1_000.5)
    assert with_lost_run(later, 2_000.0) is later


def test_a_source_without_a_run_has_no_trouble_and_nothing_to_wait_for() -> None:
    assert UNKNOWN.last_ended_well
    assert seconds_until_next_try(UNKNOWN, 1_000.0) == 0.0
    assert not SourceMemory(ended_at=70.0).last_ended_well
    assert not SourceMemory(ended_at=70.0, ended_well_at=10.0).last_ended_well
    assert SourceMemory(ended_at=70.0, ended_well_at=70.0).last_ended_well


def test_the_pause_runs_from_the_end_of_the_last_fruitless_run() -> None:
    memory = SourceMemory(fruitless=1, fruitless_at=1_000.0)
    assert seconds_until_next_try(memory, 1_045.0) == 90.0
    assert seconds_until_next_try(memory, 1_134.5) == 0.5
    assert seconds_until_next_try(memory, 1_135.0) == 0.0
    # No run has left a time that is yet to come: each look at it would put the next try off.
    assert seconds_until_next_try(memory, 999.0) == 0.0
    # By then the intents of a run that ended as it began have ended.
    intents = 55.0 + LOCK_PAST_DEADLINE + GRACE
    assert seconds_until_next_try(memory, 1_000.0) > intents


def test_a_run_that_names_no_trouble_leaves_the_known_one() -> None:
    before = SourceMemory(trouble="denied")
    assert after_run(before, end_of(70, "x", well=False)).trouble == "denied"
    other = end_of(70, "x", well=False, trouble="throttled")
    assert after_run(before, other).trouble == "throttled"


def test_a_run_that_gave_no_turns_leaves_the_last_one_as_it_is() -> None:
    before = SourceMemory(last_turn=LastTurn("due", "circuit:a"))
    assert after_run(before, end_of(70, "x")).last_turn == LastTurn("due", "circuit:a")
    moved = LastTurn("queue", "circuit:b")
    assert after_run(before, end_of(70, "x", last_turn=moved)).last_turn == moved


def test_a_rescue_remembers_letters_that_need_a_person_and_no_end_of_a_run() -> None:
    before = SourceMemory(
        ended_at=50.0, stopped="done", trouble="denied", fruitless=2, troubles={"Undecided": 10.0}
    )
    end = end_of(
        90,
        "x",
        well=False,
        trouble="other",
        fruitless=True,
        pass_began=85.0,
        emptied=True,
        troubles=["Unsendable"],
        last_turn=LastTurn("due"),
    )
    assert after_rescue(before, end) == SourceMemory(
        emptied_at=85.0,
        ended_at=50.0,
        stopped="done",
        trouble="denied",
        fruitless=2,
        troubles={"Undecided": 10.0, "Unsendable": 90.0},
    )


def test_without_a_look_the_time_of_the_last_one_stays() -> None:
    before = SourceMemory(looks=7, looked_at=60.0)
    assert after_look(before, end_of(90, "x")) == before
    assert after_look(before, end_of(90, "x", looks=1)).looked_at == 90


def test_a_source_that_no_run_has_seen_has_no_looks_no_lease_and_no_fruitless_runs() -> None:
    assert (UNKNOWN.looks, UNKNOWN.held_until, UNKNOWN.fruitless) == (0, 0.0, 0)


def test_a_page_about_a_letter_is_remembered_for_each_metric_that_has_one() -> None:
    assert {str(metric) for metric in REMEMBERED_TROUBLES} == {
        "PossibleDuplicate",
        "RedriveUnrecorded",
        "Unsendable",
        "Undecided",
        "BadRow",
        "DominantFailure",
    }


@each_row(
    ("memory", "brief"),
    [
        (SourceMemory(), False),
        (SourceMemory(emptied_at=1_000.0), True),
        (SourceMemory(emptied_at=1_000.0 - BRIEF_FOR), False),
        (SourceMemory(emptied_at=1_000.0, oldest=900.0), False),
        # Another clock is ahead.
        (SourceMemory(emptied_at=1_001.0), False),
    ],
)
def test_a_queue_was_just_empty_for_ten_minutes_after_a_pass_that_emptied_it(
    memory: SourceMemory, brief: bool
) -> None:
    assert was_just_empty(memory, 1_000.0) is brief
