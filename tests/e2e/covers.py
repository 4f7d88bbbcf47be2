"""The cases of a day, and what each covers: all others of this folder run at night.

A case that is not here gets the mark `nightly`. `test_afterwards.py` compares the table with the
deployed app and with what was seen in it: each function, state machine and alarm has a case, and
each command is typed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deadletter.signals.pages import Alarm

MOST = 40
"""Cases by day: each may wait for the deployed app, and people wait for all."""


@dataclass(frozen=True, slots=True)
class Covered:
    """What of the deployed app a case has at work, by the last words of the names."""

    functions: tuple[str, ...] = ()
    machines: tuple[str, ...] = ()
    alarms: tuple[str, ...] = ()
    commands: bool = False
    """Whether it types every command."""


NOTHING = Covered()
"""What a case looks at that guards rights, content or the account of others."""

_RUN = ("redrive", "route", "consumer")

COVERS: Mapping[str, Mapping[str, Covered]] = {
    "test_deployed": {
        "the_schedule_starts_a_run": Covered(_RUN),
        "an_exhausted_letter_is_parked_with_its_reason": Covered(_RUN),
        "a_long_delay_goes_through_the_waiting_room": Covered(_RUN),
        "a_malformed_body_does_not_stop_its_batch": Covered(_RUN),
        "the_age_alarm_fires_reaches_its_subscriber_and_clears": Covered(
            _RUN, alarms=(Alarm.DLQ_AGE,)
        ),
        "the_status_command_and_the_dashboard_see_the_app": NOTHING,
    },
    "test_consumer": {
        "a_redriven_letter_that_is_processed_is_recovered_in_its_row": Covered(_RUN),
        "a_cause_that_appears_is_announced": Covered((*_RUN, "watch")),
        "a_failures_row_says_why_and_nothing_of_the_message": Covered(("consumer",)),
        "one_business_key_is_delivered_once": Covered(("consumer",)),
        "each_attempt_is_signed_with_every_secret_and_has_the_same_id": Covered(_RUN),
        "a_malformed_body_is_parked_by_the_consumer_in_its_first_life": Covered(("consumer",)),
    },
    "test_circuit": {
        "an_outage_leaves_the_main_queue_out_of_the_dlq_and_everything_as_it_was": Covered(
            (*_RUN, "circuit", "probe"), machines=("circuit-breaker",)
        ),
    },
    "test_circuit_machine": {
        "each_scene_ends_as_it_should_and_every_exit_of_every_state_is_taken": NOTHING,
    },
    "test_endpoint_edits": {
        "an_endpoint_that_is_typed_in_the_console_is_a_row_of_the_audit": Covered(("check-rules",)),
    },
    "test_rules": {"a_broken_rule_reports_itself": Covered(("check-rules",))},
    "test_stranger": {
        "an_order_is_processed_and_its_duplicate_is_skipped": NOTHING,
        "an_order_of_nothing_is_parked_by_their_own_role": NOTHING,
        "their_role_is_denied_nothing": NOTHING,
        "their_role_may_do_what_an_event_source_mapping_does": NOTHING,
    },
    "test_pages": {
        "the_deployment_waited_for_the_first_heartbeat": Covered(("first-heartbeat",)),
        "a_router_throttled_to_0_pages_and_the_page_clears": Covered(
            ("redrive", "watch"), alarms=(Alarm.REDRIVE_STALLED,)
        ),
        "each_alarm_that_rings_reaches_the_subscribers_of_the_topic": Covered(alarms=tuple(Alarm)),
    },
    "test_no_body": {
        "no_policy_but_bodyreader_shows_a_byte_of_a_body_nor_do_all_together": NOTHING,
        "bodyreader_sees_each_letter": NOTHING,
        "the_function_that_people_ask_answers_without_a_byte_of_a_body": NOTHING,
    },
    "test_on_call": {
        "each_command_works_with_the_policies_of_the_table_and_takes_what_it_says": Covered(
            ("replay", "redrive", "route"), commands=True
        ),
        "each_command_is_refused_without_the_policy_that_it_takes": NOTHING,
        "a_change_is_read_back_with_its_author_and_nobody_can_record_one_for_another": NOTHING,
        "who_runs_replays_writes_no_approval_and_no_plan_that_discards": NOTHING,
        "who_sees_no_bodies_reads_of_a_waiting_letter_what_holds_none": NOTHING,
        "people_on_call_can_not_touch_a_message": NOTHING,
    },
    "test_replay": {
        "each_letter_of_a_replay_is_accounted_for_and_in_order": Covered(
            ("replay", *_RUN), machines=("replay",)
        ),
    },
    "test_replay_by_hand": {
        "processed_letters_are_processed_once_more_under_a_new_key[ledgers]": Covered(
            ("replay", *_RUN), machines=("replay",)
        ),
    },
    "test_afterwards": {
        "no_canary_is_where_people_and_machines_look": NOTHING,
        "no_function_asks_for_more_than_it_is_granted": NOTHING,
        "the_routers_policy_with_the_partition_of_another_pipeline_is_refused": NOTHING,
        "without_one_permission_a_run_is_denied_and_the_letters_stay": NOTHING,
        "each_part_of_the_app_is_in_a_case_of_the_day": NOTHING,
    },
}


def is_by_day(file: str, case: str) -> bool:
    """Whether a case is one of the table: `case` is its name with its parameters, if it has any."""
    return case.removeprefix("test_") in COVERS.get(file, {})


def rows() -> list[tuple[str, str, Covered]]:
    """The table: file, case, and what it covers."""
    return [(file, case, covered) for file in COVERS for case, covered in COVERS[file].items()]
