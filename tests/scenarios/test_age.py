"""The age alarm rings in every mode, whoever has received the letter how often."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.scenarios.account import HOUR, MINUTE, Fault
from tests.scenarios.conftest import EACH_EVERY, MakeStage, redrive_policy
from tests.scenarios.figures import Figures
from tests.scenarios.stage import AGE_ALARMS, Stage

pytestmark = pytest.mark.long

THRESHOLD = HOUR / 2
LATEST = 5 * MINUTE
# Alarms are judged by the minute.
EARLIEST = -MINUTE


def sends_are_refused(stage: Stage) -> None:
    stage.account.faults.append(
        Fault("sqs", frozenset({"send_message_batch"}), "AccessDenied", "-redrive")
    )
    stage.die(3)


def the_circuit_is_open(stage: Stage) -> None:
    stage.trip()
    stage.die(3)


def a_person_holds_the_circuit(stage: Stage) -> None:
    stage.hold_circuit()
    stage.die(3)


def nothing_is_changed(stage: Stage) -> None:
    stage.die(3)


def a_person_tries_dry_runs(stage: Stage) -> None:
    sends_are_refused(stage)
    stage.account.each_minute.append(lambda: stage.redrive(source="dlq", dry_run=True, asked=True))


def another_team_shares_the_dlq(stage: Stage) -> None:
    theirs = stage.account.bring_queue(
        "theirs", RedrivePolicy=redrive_policy(stage.arn(stage.dlq), 1)
    )
    stage.die(3, main=theirs)


Begin = Callable[[Stage], None]

MODES: dict[str, tuple[str, Begin]] = {
    "enforce, circuit closed, sends refused": ("enforce", sends_are_refused),
    "enforce, circuit open by failure": ("enforce", the_circuit_is_open),
    "enforce, circuit held open by a person": ("enforce", a_person_holds_the_circuit),
    "observe": ("observe", nothing_is_changed),
    "dry runs by a person, each minute": ("enforce", a_person_tries_dry_runs),
    "a shared DLQ with foreign letters": ("enforce", another_team_shares_the_dlq),
}


BY_DAY = ("enforce, circuit open by failure", "observe", "a shared DLQ with foreign letters")


@pytest.mark.parametrize("every", EACH_EVERY)
@pytest.mark.parametrize(
    "mode",
    [mode if mode in BY_DAY else pytest.param(mode, marks=pytest.mark.nightly) for mode in MODES],
)
def test_an_age_alarm_rings_within_five_minutes_of_the_threshold(
    deployed: MakeStage, figures: Figures, mode: str, every: str
) -> None:
    kind, begin = MODES[mode]
    stage = deployed(f"{kind}-{every}", phase=3)
    stage.account.minutes(5)
    begin(stage)
    arrived = stage.account.clock()
    stage.account.minutes(45)
    pages = [at * MINUTE for at, alarm in stage.pages() if alarm in AGE_ALARMS]
    assert pages, stage.pages()
    late = pages[0] - (arrived - stage.account.began) - THRESHOLD
    assert EARLIEST <= late <= LATEST, late
    figures.worst("age alarm after the threshold", mode, late / MINUTE, "min")
    # The letters are still there, and so is the page.
    stage.account.minutes(60)
    assert AGE_ALARMS & set(stage.alarming())
    assert stage.account.errors == []


@pytest.mark.parametrize("mode", ["observe", "enforce, circuit open by failure"])
def test_the_age_page_ends_when_the_letters_are_gone(deployed: MakeStage, mode: str) -> None:
    kind, begin = MODES[mode]
    stage = deployed(f"{kind}-1m")
    begin(stage)
    stage.account.minutes(45)
    assert AGE_ALARMS & set(stage.alarming())
    stage.delete_all(stage.dlq)
    stage.account.minutes(5)
    assert not AGE_ALARMS & set(stage.alarming())
