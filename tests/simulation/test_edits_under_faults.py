"""Edits of rules reach the letters that wait, whatever fails meanwhile."""

from __future__ import annotations

from tests.simulation.rule_edits import edited
from tests.simulation.search import DAY, played, seeds


def test_no_letter_waits_for_a_rule_of_before_and_none_is_lost() -> None:
    schedules = seeds(DAY // 4, 250)
    astray = sum(schedule.astray for schedule in played(edited, schedules))
    # The proof is not of easy weather: edits did set letters astray.
    assert astray > len(schedules)
