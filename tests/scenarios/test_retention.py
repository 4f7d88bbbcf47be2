"""No letter is lost to retention, in simulated months; where nothing may be moved, a page comes."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.scenarios.account import DAY, HOUR, MINUTE
from tests.scenarios.conftest import EVERY, MakeStage
from tests.scenarios.figures import Figures
from tests.scenarios.stage import Stage

pytestmark = pytest.mark.nightly

# Longer than the longest retention, twice.
MONTH_DAYS = 30
# Nothing happens between two hours, so an hour is one step.
STEP = 60


def body(number: int) -> str:
    return f'{{"tenantId": "a", "number": {number}}}'


def die_daily(stage: Stage, days: int, *, step: int = STEP) -> list[str]:
    """Each day two letters die, and time passes. Returns their bodies."""
    bodies = []
    for _ in range(days):
        for _ in range(2):
            bodies.append(body(len(bodies)))
            stage.die(body=bodies[-1])
        pass_days(stage, 1, step=step)
    return bodies


def pass_days(stage: Stage, days: int, *, step: int = STEP) -> None:
    for _ in range(days * 1_440 // step):
        stage.account.tick(step)


def check_all_there(stage: Stage, bodies: list[str], figures: Figures, case: str) -> None:
    """Each letter is in a queue or in the waiting room, and retention has dropped none."""
    assert stage.account.errors == []
    lost = len(stage.account.sqs.expired())
    assert lost == 0
    assert len(stage.everywhere()) == len(bodies)
    figures.worst("letters lost to retention", f"{case}, {len(bodies)} letters", lost, "")


# An hour's first minute was once the only one in which runs looked for old letters.
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("every", "phase"),
    [("5m", 0), *((every, 2) for every in EVERY), ("5m", 1), ("10m", 7)],
)
def test_an_open_circuit_loses_nothing(
    deployed: MakeStage, figures: Figures, every: str, phase: int
) -> None:
    stage = deployed(f"enforce-{every}", phase=phase)
    stage.hold_circuit()
    bodies = die_daily(stage, MONTH_DAYS)
    check_all_there(stage, bodies, figures, f"circuit held open, every {every}")
    assert not stage.held(stage.main)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["enforce-5m", "brought"])
def test_a_dead_router_loses_nothing(deployed: MakeStage, figures: Figures, name: str) -> None:
    stage = deployed(name)
    stage.account.throttled.add(stage.function("route"))
    bodies = die_daily(stage, MONTH_DAYS, step=30)
    check_all_there(stage, bodies, figures, f"router dead, {name}")


@pytest.mark.nightly
def test_brought_queues_of_four_days_lose_nothing(deployed: MakeStage, figures: Figures) -> None:
    stage = deployed("brought")
    stage.hold_circuit()
    bodies = die_daily(stage, MONTH_DAYS, step=30)
    check_all_there(stage, bodies, figures, "brought queues of four days, circuit held open")


def test_a_message_that_was_old_before_it_died_is_not_lost(
    deployed: MakeStage, figures: Figures
) -> None:
    stage = deployed("brought")
    stage.hold_circuit()
    stage.account.minutes(30)
    stage.send(body(1))
    for _ in range(95):
        stage.account.tick(60)
    # Twenty minutes before the end of its retention it dies: SQS counts from the first send.
    stage.account.minutes(39)
    stage.die(body=body(2))
    assert len(stage.held(stage.dlq)) == 2
    stage.account.minutes(30)
    check_all_there(stage, [body(1), body(2)], figures, "old before it died")


@pytest.mark.nightly
def test_parked_letters_are_not_lost_and_never_return(
    deployed: MakeStage, figures: Figures
) -> None:
    stage = deployed("isolated")
    stage.add_rule("stop", tenantId="a", action="QUARANTINE")
    bodies = die_daily(stage, 6)
    # The rule has ended, and the retention of the parking lot passes.
    stage.delete_rule("stop")
    pass_days(stage, MONTH_DAYS - 6)
    check_all_there(stage, bodies, figures, "parked")
    assert not stage.held(stage.main)
    # No person has looked after them: one page, which stays, also when they move to the lane.
    assert stage.alarming() == ["ParkedUnattended"]
    [(at, alarm)] = stage.pages()
    assert alarm == "ParkedUnattended"
    figures.worst("a page of unattended letters", "parked", at / 1_440, "days")
    assert 7 <= at / 1_440 <= 13


@pytest.mark.nightly
def test_letters_of_an_isolated_tenant_are_not_lost_and_never_return(
    deployed: MakeStage, figures: Figures
) -> None:
    stage = deployed("isolated")
    stage.add_rule("isolate", tenantId="a", action="DEDICATED_DLQ", queue="vip")
    bodies = die_daily(stage, MONTH_DAYS // 2)
    check_all_there(stage, bodies, figures, "dedicated DLQ without a schedule")
    assert not stage.held(stage.main)
    stage.delete_rule("isolate")
    pass_days(stage, MONTH_DAYS // 2)
    check_all_there(stage, bodies, figures, "dedicated DLQ without a schedule")
    assert not stage.held(stage.main)
    assert not stage.held(stage.dlq)
    # A person asks for them: they go back.
    for _ in range(30):
        stage.redrive(source="vip", asked=True)
        stage.account.minutes(1)
    places = Counter(stage.everywhere())
    back = places.pop("deadletter-isolated-main", 0)
    # What was older than message_ttl is parked as EXPIRED.
    parked = places.pop("deadletter-isolated-parking", 0)
    parked += sum(number for lane, number in places.items() if "|parked|" in lane)
    assert back + parked == len(bodies), places


@pytest.mark.nightly
def test_fifo_letters_are_not_lost_and_keep_their_order(
    deployed: MakeStage, figures: Figures
) -> None:
    stage = deployed("ordered")
    stage.hold_circuit()
    bodies = die_daily(stage, MONTH_DAYS)
    check_all_there(stage, bodies, figures, "FIFO, circuit held open")
    assert not stage.held(stage.main)


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=pytest.mark.nightly) for name in ("observe-1m", "observe-1d")),
        "watched",
    ],
)
def test_observe_pages_long_before_a_letter_expires(
    deployed: MakeStage, figures: Figures, name: str
) -> None:
    stage = deployed(name)
    stage.account.minutes(5)
    stage.die(3)
    retention = 4 * DAY if name == "watched" else 14 * DAY
    until = stage.account.elapsed + retention
    while stage.account.elapsed < until - 3 * HOUR and not paged(stage):
        stage.account.tick(10)
    [at] = paged(stage)
    left = (until - at * MINUTE) / HOUR
    assert left >= 24
    assert stage.account.sqs.expired() == []
    figures.least("hours from the page to the loss, observe", name, left, "h")


def test_observe_pages_for_a_message_before_it_dies_old(
    deployed: MakeStage, figures: Figures
) -> None:
    """SQS counts from the first send: a message of the main queue pages, dead or not."""
    stage = deployed("watched")
    stage.send()
    for _ in range(84):
        stage.account.tick(STEP)
    [at] = paged(stage)
    left = (4 * DAY - at * MINUTE) / HOUR
    assert left >= 46
    figures.least("hours from the page to the loss, observe", "old before it died", left, "h")
    # It dies with half a day left: the same page goes on.
    stage.die()
    stage.account.minutes(10)
    assert paged(stage) == [at]
    assert "MessageExpiry" in stage.alarming()


def paged(stage: Stage) -> list[float]:
    return [at for at, alarm in stage.pages() if alarm == "MessageExpiry"]


def test_an_old_message_pages_while_the_consumer_is_paused(
    deployed: MakeStage, figures: Figures
) -> None:
    stage = deployed("enforce-1m")
    stage.account.minutes(5)
    stage.send()
    sent = stage.account.elapsed
    while stage.account.elapsed < sent + 3.4 * DAY:
        stage.account.tick(STEP)
    assert stage.pages() == []
    stage.account.minutes(6 * 60)
    [(at, alarm)] = stage.pages()
    assert alarm == "MessageExpiry"
    left = (sent + 4 * DAY - at * MINUTE) / HOUR
    figures.least("hours from the page to the loss, main queue", "consumer paused", left, "h")
    assert left > 11
