"""One trouble is one level: it is shown while it lasts, and then 0 for a while."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deadletter.contract import CIRCUIT_LEVELS, DAY, END_OF_TIME, HOUR, MINUTE, WATCH, Mode
from deadletter.redrive.source_memory import SourceMemory
from deadletter.replay.care import Care
from deadletter.signals.figures import Count, Figure
from deadletter.signals.troubles import TroubleKind
from deadletter.signals.troubles import why as why_seen
from deadletter.watch.observation import (
    CircuitsState,
    FirstDue,
    LaneState,
    RulesState,
    SharedLook,
)
from deadletter.watch.queues import first_due, lanes_to_count
from deadletter.watch.row import Failing, LaneRow, QueueRow, WatchRow
from deadletter.watch.troubles import failing_steps, stall
from tests.each_row import each_row
from tests.watch.minutes import BEGIN, Minutes

STALLED = Figure.REDRIVE_STALLED


def test_a_first_deployment_and_a_quiet_day_show_no_trouble() -> None:
    minutes = Minutes()
    for _ in range(24 * 60):
        minutes.pass_minutes(1)
        assert minutes.minute is not None
        assert [(point.metric, point.value) for point in minutes.minute.points] == [(STALLED, 0)]


def test_no_run_that_ends_well_is_a_stall_in_the_fourth_minute() -> None:
    minutes = Minutes()
    minutes.pass_minutes(5)
    denied = "the queue gave no answer: AccessDenied for sqs:ReceiveMessage"
    minutes.remember(stopped=denied, ended_at=minutes.now + 1)
    minutes.pass_minutes(3, runs_end_well=False)
    assert minutes.value(STALLED) == 0
    minutes.pass_minutes(1, runs_end_well=False)
    assert minutes.value(STALLED) == 1
    assert minutes.row is not None
    [seen] = minutes.row.seen
    assert seen.kind is TroubleKind.RUNS_FAIL
    assert "AccessDenied for sqs:ReceiveMessage" in seen.says()
    minutes.pass_minutes(9, runs_end_well=False)
    assert minutes.row.seen[0].since == seen.since
    minutes.pass_minutes(1)
    assert minutes.value(STALLED) == 0
    assert minutes.row.seen == ()


def test_a_redriver_that_leaves_no_record_any_more_is_named_as_silent() -> None:
    """Its last run ended well: why it ended says nothing of the runs that are missing."""
    minutes = Minutes()
    minutes.pass_minutes(5)
    minutes.remember(stopped="nothing to do")
    minutes.pass_minutes(4, runs_end_well=False)
    assert minutes.row is not None
    assert "none has left a record since" in str(minutes.why(STALLED))
    assert "nothing to do" not in str(minutes.why(STALLED))


def test_a_redriver_that_never_ran_stalls_from_the_first_minute_of_the_watch() -> None:
    minutes = Minutes()
    minutes.pass_minutes(4, runs_end_well=False)
    assert minutes.value(STALLED) == 0
    minutes.pass_minutes(1, runs_end_well=False)
    assert minutes.value(STALLED) == 1


def test_a_redriver_that_runs_each_day_stalls_after_three_days() -> None:
    minutes = Minutes()
    minutes.settings = replace(minutes.settings, every=float(DAY))
    minutes.pass_minutes(1)
    minutes.now += 3 * DAY - 10 * MINUTE
    minutes.pass_minutes(1, runs_end_well=False)
    assert minutes.value(STALLED) == 0
    minutes.now += 10 * MINUTE
    minutes.pass_minutes(1, runs_end_well=False)
    assert minutes.value(STALLED) == 1


@pytest.mark.parametrize(
    ("step", "times"), [("lease", 1), ("router", 2), ("queue dlq", 3), ("circuits", 3)]
)
def test_a_step_that_fails_in_a_row_is_a_stall_with_its_reason(step: str, times: int) -> None:
    minutes = Minutes()
    minutes.pass_minutes(1)
    minutes.failed = {step: "ThrottlingException"}
    minutes.pass_minutes(times - 1)
    assert times == 1 or minutes.value(STALLED) == 0
    minutes.pass_minutes(1)
    assert minutes.value(STALLED) == 1
    assert minutes.row is not None
    assert minutes.why(STALLED) == f"{step}: ThrottlingException"
    minutes.failed = {}
    minutes.pass_minutes(1)
    assert minutes.value(STALLED) == 0


def test_a_router_that_fails_now_and_then_is_no_stall() -> None:
    minutes = Minutes()
    for failed in ({}, {"router": "busy"}) * 5:
        minutes.failed = failed
        minutes.pass_minutes(1)
        assert minutes.value(STALLED) == 0


def test_a_dominant_failure_is_shown_for_a_quarter_of_an_hour() -> None:
    minutes = Minutes()
    minutes.remember("slow", troubles={Count.DOMINANT_FAILURE: BEGIN, "SomethingElse": BEGIN})
    minutes.pass_minutes(16)
    assert minutes.value(Figure.FAILURE_DOMINATES) == 1
    minutes.pass_minutes(1)
    assert minutes.value(Figure.FAILURE_DOMINATES) == 0
    minutes.pass_minutes(10)
    assert minutes.value(Figure.FAILURE_DOMINATES) is None


def test_it_lasts_three_runs_if_runs_are_rare() -> None:
    minutes = Minutes()
    minutes.settings = replace(minutes.settings, every=float(DAY))
    minutes.remember(troubles={Count.DOMINANT_FAILURE: BEGIN})
    minutes.now += 3 * DAY
    minutes.pass_minutes(1)
    assert minutes.value(Figure.FAILURE_DOMINATES) == 1
    minutes.pass_minutes(1)
    assert minutes.value(Figure.FAILURE_DOMINATES) == 0


def test_rules_that_do_nothing_are_a_level_of_their_pipeline_and_of_all() -> None:
    minutes = Minutes(rules=RulesState(refused=("a",), limited=("b", "c", "d"), everywhere=2))
    minutes.pass_minutes(1)
    points = minutes.points(Figure.RULE_TROUBLE)
    assert {(point.everywhere, point.value) for point in points} == {(False, 4), (True, 2)}


def test_levels_stay_while_they_cannot_be_read() -> None:
    minutes = Minutes(
        rules=RulesState(refused=("a",)),
        circuits=CircuitsState(level=2, open_keys=4, held={"orders": BEGIN - DAY}),
    )
    minutes.remember(troubles={Count.DOMINANT_FAILURE: BEGIN})
    minutes.pass_minutes(1)
    minutes.rules = minutes.circuits = minutes.memories = None
    minutes.pass_minutes(30)
    assert minutes.value(Figure.RULE_TROUBLE) == 1
    assert minutes.value(Figure.CIRCUIT_STATE) == CIRCUIT_LEVELS["OPEN"]
    assert minutes.value(Figure.OPEN_CIRCUITS) == 4
    assert minutes.value(Figure.FAILURE_DOMINATES) == 1
    minutes.circuits = CircuitsState()
    minutes.pass_minutes(1)
    assert minutes.value(Figure.CIRCUIT_STATE) == 0


def test_a_named_dependency_that_is_down_shows_in_the_pipelines_state() -> None:
    minutes = Minutes(circuits=CircuitsState(level=1, named=2))
    minutes.pass_minutes(1)
    assert minutes.value(Figure.CIRCUIT_STATE) == CIRCUIT_LEVELS["OPEN"]


def test_causes_are_a_level() -> None:
    minutes = Minutes(causes=2)
    minutes.pass_minutes(1)
    minutes.causes = None
    minutes.pass_minutes(1)
    assert minutes.value(Count.CAUSES_HELD) == 2
    minutes.causes = 0
    minutes.pass_minutes(1)
    assert minutes.value(Count.CAUSES_HELD) == 0


def test_the_first_due_letter_says_how_late_the_room_is() -> None:
    minutes = Minutes(due=FirstDue(BEGIN - HOUR), lanes={"due": LaneState(1, BEGIN - HOUR)})
    minutes.pass_minutes(1)
    assert minutes.value(Figure.OLDEST_MESSAGE_AGE, "room:due") == HOUR
    minutes.due = None
    minutes.pass_minutes(1)
    assert minutes.value(Figure.OLDEST_MESSAGE_AGE, "room:due") == HOUR + MINUTE
    minutes.due = FirstDue(minutes.now + HOUR)
    minutes.pass_minutes(1)
    assert minutes.value(Figure.OLDEST_MESSAGE_AGE, "room:due") == 0
    minutes.due, minutes.lanes = FirstDue(None), {}
    minutes.pass_minutes(1)
    assert minutes.value(Figure.OLDEST_MESSAGE_AGE, "room:due") == 0
    minutes.pass_minutes(20)
    assert minutes.value(Figure.OLDEST_MESSAGE_AGE, "room:due") is None


def test_the_room_counts_all_lanes_but_those_of_a_queue() -> None:
    minutes = Minutes(
        lanes={
            "due": LaneState(1, BEGIN + 9),
            "circuit:orders": LaneState(1, BEGIN + 11 * DAY),
            "rule:a": LaneState(3, BEGIN + 5),
            "rule:b": LaneState(4, BEGIN + 6),
            "parked": LaneState(5, END_OF_TIME + BEGIN),
        }
    )
    minutes.pass_minutes(6)
    assert minutes.value(Figure.MESSAGES, "room") == 9
    # Due when it is twelve days old, in eleven days.
    assert minutes.value(Figure.OLDEST_MESSAGE_AGE, "room:circuit") == DAY + 5 * MINUTE
    assert minutes.value(Figure.OLDEST_MESSAGE_AGE, "room:rule") == 5 * MINUTE
    minutes.lanes = {}
    minutes.pass_minutes(3)
    assert minutes.value(Figure.MESSAGES, "room") == 9
    minutes.pass_minutes(2)
    # Counted again, ten minutes after the first count.
    assert minutes.value(Figure.MESSAGES, "room") == 0
    assert minutes.value(Figure.OLDEST_MESSAGE_AGE, "room:rule") == 0
    minutes.pass_minutes(9)
    assert minutes.value(Figure.MESSAGES, "room") == 0
    minutes.pass_minutes(1)
    assert minutes.value(Figure.MESSAGES, "room") is None


def test_the_lane_of_delays_is_not_late_for_letters_that_have_left_it() -> None:
    minutes = Minutes(due=FirstDue(BEGIN - HOUR), lanes={"due": LaneState(5, BEGIN - HOUR)})
    minutes.pass_minutes(1)
    minutes.due = FirstDue(None)
    minutes.pass_minutes(5)
    # The last count still knows five letters.
    assert minutes.value(Figure.MESSAGES, "room") == 5
    assert minutes.value(Figure.OLDEST_MESSAGE_AGE, "room:due") == 0


def test_a_letter_that_waits_for_the_circuit_is_late_only_from_its_closing() -> None:
    minutes = Minutes(due=FirstDue(BEGIN - HOUR), circuits=CircuitsState(level=2))
    minutes.pass_minutes(30)
    assert minutes.value(Figure.OLDEST_MESSAGE_AGE, "room:due") == 0
    minutes.circuits = CircuitsState()
    minutes.pass_minutes(5)
    assert minutes.value(Figure.OLDEST_MESSAGE_AGE, "room:due") == 5 * MINUTE


def test_lanes_are_counted_every_ten_minutes_and_never_more_than_forty() -> None:
    row = WatchRow(first_at=BEGIN, ran_at=BEGIN, counted_at=BEGIN)
    lanes = [*(f"circuit:{number}" for number in range(60)), "parked", "due"]
    assert lanes_to_count(row, lanes, BEGIN + 9 * MINUTE) == ((), False)
    counted, complete = lanes_to_count(row, lanes, BEGIN + 10 * MINUTE)
    assert complete
    assert len(counted) == 40
    assert {"parked", "due"} <= set(counted)


def test_the_lanes_of_runs_are_counted_before_those_of_circuits() -> None:
    """Letters of a run that has ended must not be overlooked."""
    row = WatchRow(first_at=BEGIN, ran_at=BEGIN, counted_at=BEGIN)
    lanes = [*(f"circuit:{number}" for number in range(60)), "run:a", "due"]
    counted, _ = lanes_to_count(row, lanes, BEGIN + 10 * MINUTE)
    assert counted[:3] == ["due", "run:a", "circuit:0"]
    runs = [*(f"run:{number}" for number in range(60)), "parked", "due"]
    counted, _ = lanes_to_count(row, runs, BEGIN + 10 * MINUTE)
    assert counted[:2] == ["parked", "due"]


def test_letters_of_a_run_count_and_are_never_late() -> None:
    minutes = Minutes(lanes={"run:a": LaneState(7, END_OF_TIME)})
    minutes.pass_minutes(60)
    assert minutes.value(Figure.MESSAGES, "room") == 7
    ages = {point.source for point in minutes.points(Figure.OLDEST_MESSAGE_AGE)}
    assert not any(source and source.startswith("room") for source in ages)


def test_the_lanes_of_a_rescue_are_counted_each_minute() -> None:
    queues = {"parking:default": QueueRow(rescued_at=BEGIN)}
    row = WatchRow(first_at=BEGIN, ran_at=BEGIN, counted_at=BEGIN, queues=queues)
    lanes = ["circuit:orders", "parked", "run:a", "dedicated:slow"]
    counted = lanes_to_count(row, lanes, BEGIN + MINUTE)
    assert counted == (["parked", "dedicated:slow"], False)


def test_all_lanes_are_counted_from_590_seconds_after_the_last_count() -> None:
    row = WatchRow(first_at=BEGIN, ran_at=BEGIN, counted_at=BEGIN)
    assert lanes_to_count(row, ["due"], BEGIN + 589.5) == ((), False)
    assert lanes_to_count(row, ["due"], BEGIN + 590) == (["due"], True)
    assert WatchRow(first_at=BEGIN, ran_at=BEGIN).counted_at == 0


def test_a_rescue_fills_its_lanes_for_fifteen_minutes() -> None:
    queues = {"dlq": QueueRow(rescued_at=BEGIN)}
    row = WatchRow(first_at=BEGIN, ran_at=BEGIN, counted_at=BEGIN + 800, queues=queues)
    assert lanes_to_count(row, ["parked"], BEGIN + 900) == (["parked"], False)
    assert lanes_to_count(row, ["parked"], BEGIN + 901) == ((), False)


def test_a_lane_with_letters_or_with_a_due_time_is_a_lane_that_holds_letters() -> None:
    """Its figures go on as 0 for a while after that."""
    rows = {"rule": LaneRow(messages=2), "circuit": LaneRow(held_at=3.0)}
    held = first_due(rows, FirstDue(5.0), 7.0)
    assert {kind: row.held_at for kind, row in held.items()} == {
        "rule": 7.0,
        "circuit": 3.0,
        "due": 7.0,
    }


def test_the_age_of_a_rescued_lane_is_known_only_while_it_holds_letters() -> None:
    sent = END_OF_TIME + 5.0
    assert LaneRow(messages=1, first_due=sent).oldest == 5.0
    assert LaneRow(messages=0, first_due=sent).oldest is None
    assert LaneRow(messages=1).oldest is None


def test_a_level_is_shown_as_0_for_ten_minutes_to_the_second() -> None:
    minutes = Minutes(rules=RulesState(refused=("a",)))
    minutes.pass_minutes(1)
    minutes.rules = RulesState()
    minutes.pass_minutes(10)
    assert minutes.value(Figure.RULE_TROUBLE) == 0
    minutes.pass_minutes(1)
    assert minutes.value(Figure.RULE_TROUBLE) is None


def test_a_stall_begins_after_180_seconds_and_says_for_how_many_minutes() -> None:
    """The text has the whole minutes since the last good run, and since the last one at all."""
    settings = Minutes().settings
    row = WatchRow(first_at=BEGIN, ran_at=BEGIN)
    memories = {"dlq": SourceMemory(ended_well_at=BEGIN, ended_at=BEGIN + 60, stopped="denied")}
    assert why_seen(stall(row, memories, settings, BEGIN + 180)) == ""
    assert why_seen(stall(row, memories, settings, BEGIN + 200)) == (
        "no run has ended well for 3 minutes; the last one ended 2 minutes ago: denied"
    )
    never = why_seen(stall(row, {}, settings, BEGIN + 200))
    assert never == "no run has ended well for 3 minutes; none has run yet"


def test_failures_are_in_a_row_over_fifteen_minutes_and_not_longer() -> None:
    row = WatchRow(first_at=BEGIN, ran_at=BEGIN, failing={"router": Failing(BEGIN, 1, "busy")})
    after = {gap: failing_steps(row, {"router": "busy"}, BEGIN + gap) for gap in (900, 901)}
    assert after[900]["router"] == Failing(BEGIN, 2, "busy")
    assert after[901]["router"] == Failing(BEGIN + 901, 1, "busy")


# A letter of the waiting room that is late.


def late(minutes: Minutes) -> str:
    """Why runs have stalled; empty if they have not."""
    assert minutes.row is not None
    stalled = minutes.why(STALLED) or ""
    assert minutes.value(STALLED) == bool(stalled)
    return stalled


def test_a_letter_that_is_due_for_a_quarter_of_an_hour_is_a_stall() -> None:
    minutes = Minutes(due=FirstDue(BEGIN))
    minutes.pass_minutes(15)
    assert late(minutes) == ""
    minutes.pass_minutes(1)
    assert late(minutes) == "a message that waits has been due for 15 minutes"
    minutes.due = None
    minutes.pass_minutes(1)
    assert late(minutes) != ""
    minutes.due = FirstDue(minutes.now)
    minutes.pass_minutes(1)
    assert late(minutes) == ""


@pytest.mark.parametrize("circuits", [CircuitsState(level=2), CircuitsState(named=1)])
def test_a_letter_behind_an_open_circuit_is_no_stall_until_it_closes(
    circuits: CircuitsState,
) -> None:
    minutes = Minutes(due=FirstDue(BEGIN - DAY), circuits=circuits)
    minutes.pass_minutes(20)
    assert late(minutes) == ""
    minutes.circuits = CircuitsState()
    minutes.pass_minutes(14)
    assert late(minutes) == ""
    minutes.pass_minutes(1)
    assert late(minutes) != ""


def test_a_letter_behind_a_replay_run_is_no_stall_until_it_has_ended() -> None:
    minutes = Minutes(due=FirstDue(BEGIN - DAY), replays=Care(moving=("r1",)))
    minutes.pass_minutes(20)
    assert late(minutes) == ""
    minutes.replays = Care()
    minutes.pass_minutes(14)
    assert late(minutes) == ""
    minutes.pass_minutes(1)
    assert late(minutes) != ""


def test_mode_observe_moves_no_letter_and_is_no_stall() -> None:
    minutes = Minutes(due=FirstDue(BEGIN - DAY))
    minutes.settings = replace(minutes.settings, mode=Mode.OBSERVE)
    minutes.pass_minutes(20)
    assert late(minutes) == ""


def test_how_late_a_letter_may_be_is_a_setting() -> None:
    minutes = Minutes(due=FirstDue(BEGIN))
    minutes.settings = replace(minutes.settings, alarms=WATCH._replace(room_late=HOUR))
    minutes.pass_minutes(60)
    assert late(minutes) == ""
    minutes.pass_minutes(1)
    assert late(minutes) != ""


def test_a_run_that_does_not_end_well_explains_a_letter_that_is_late() -> None:
    minutes = Minutes(due=FirstDue(BEGIN))
    minutes.pass_minutes(1)
    minutes.pass_minutes(30, runs_end_well=False)
    assert "no run has ended well" in late(minutes)
    assert "what waits" not in late(minutes)


# Rules that do nothing.


def test_rules_that_do_nothing_are_named_until_they_are_mended() -> None:
    minutes = Minutes(rules=RulesState(refused=("a", "b", "c", "d", "e"), limited=("f",)))
    minutes.pass_minutes(1)
    why = "invalid, and matching nothing: a, b, c and 2 more; stopped after max_matches messages: f"
    assert minutes.why(Figure.RULE_TROUBLE) == why
    minutes.rules = None
    minutes.pass_minutes(2)
    assert (minutes.value(Figure.RULE_TROUBLE), minutes.why(Figure.RULE_TROUBLE)) == (6, why)
    minutes.rules = RulesState()
    minutes.pass_minutes(1)
    assert (minutes.value(Figure.RULE_TROUBLE), minutes.why(Figure.RULE_TROUBLE)) == (0, None)


def test_a_rule_of_all_pipelines_is_no_trouble_of_one() -> None:
    minutes = Minutes(rules=RulesState(everywhere=2))
    minutes.pass_minutes(1)
    assert [point.everywhere for point in minutes.points(Figure.RULE_TROUBLE)] == [True]
    assert minutes.why(Figure.RULE_TROUBLE) is None


@each_row(
    ("look", "says"),
    [
        (
            SharedLook(late="the mapping is Disabled"),
            "edits of rules may take 10 minutes: the mapping is Disabled",
        ),
        (SharedLook(undelivered=2), "2 edits of rules were not checked"),
        (
            SharedLook(failed=3, why="TooManyRequestsException"),
            "whether the rule checker works cannot be read: TooManyRequestsException",
        ),
    ],
)
def test_what_all_pipelines_share_is_a_trouble_of_the_app_and_of_no_pipeline(
    look: SharedLook, says: str
) -> None:
    minutes = Minutes(shared=look)
    minutes.pass_minutes(1)
    assert [point.everywhere for point in minutes.points(Figure.SHARED_TROUBLE)] == [True]
    assert minutes.why(Figure.SHARED_TROUBLE) == says
    assert minutes.points(Figure.RULE_TROUBLE) == []
    # As it was, while it cannot be read.
    minutes.shared = None
    minutes.pass_minutes(2)
    assert [point.value for point in minutes.points(Figure.SHARED_TROUBLE)] == [1]
    minutes.shared = SharedLook(failed=2, why="it is busy")
    minutes.pass_minutes(1)
    assert [point.value for point in minutes.points(Figure.SHARED_TROUBLE)] == [0]
    assert minutes.why(Figure.SHARED_TROUBLE) is None


def test_a_rule_checker_that_cannot_be_asked_stalls_no_pipeline() -> None:
    minutes = Minutes(failed={"rule checker": "ThrottlingException"})
    minutes.pass_minutes(30)
    assert minutes.value(STALLED) == 0


def test_a_mapping_that_a_person_has_disabled_pages_while_messages_wait() -> None:
    minutes = Minutes(consumer="1a2b", letters={"main": 5})
    minutes.pass_minutes(5)
    assert minutes.value(STALLED) == 0
    minutes.pass_minutes(1)
    assert minutes.row is not None
    assert [seen.kind for seen in minutes.row.seen] == [TroubleKind.CONSUMER_DISABLED]
    assert minutes.value(STALLED) == 1
    # As it was, while it is not asked.
    minutes.consumer = None
    minutes.pass_minutes(1)
    assert minutes.value(STALLED) == 1
    minutes.letters["main"] = 0
    minutes.pass_minutes(1)
    assert minutes.row.seen == ()
    assert minutes.value(STALLED) == 0


@each_row("consumer", ["", None])
def test_messages_that_wait_for_a_mapping_that_works_page_for_nothing(consumer: str | None) -> None:
    minutes = Minutes(consumer=consumer, letters={"main": 5})
    minutes.pass_minutes(30)
    assert minutes.value(STALLED) == 0
