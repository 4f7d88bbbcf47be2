"""What people do with a DLQ otherwise, modelled on the demo's own events."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

import pytest

from deadletter.contract import Reason
from sandbox.alarms import SHORT_MINUTE
from sandbox.demo import beside as module
from sandbox.demo.beside import (
    ASSUMPTIONS,
    COUNTED,
    LOOP,
    MEASURED,
    MODELLED,
    NATIVE_BEST,
    NATIVE_MORNING,
    Way,
    beside,
    measured,
)
from sandbox.demo.events import HEALTHY, RECOVERING, REFUSING, Event, plan
from sandbox.demo.person import Act
from sandbox.demo.receiver import Visit
from sandbox.demo.reconcile import DeliveredEvent, FoundLetters, ParkedEvent, reconcile
from tests.each_row import each_row

EVENTS = plan(1)
MINUTES = 5
DOWN = [event for event in EVENTS if event.tenant == RECOVERING and not event.parked_as]
HOPELESS = [event for event in EVENTS if event.parked_as]


@pytest.fixture(scope="module")
def ways() -> dict[str, Way]:
    return {way.system: way for way in beside(EVENTS, outage_minutes=MINUTES)}


def test_native_redrive_at_the_best_moment_needs_somebody_awake_then_and_sorts_nothing(
    ways: dict[str, Way],
) -> None:
    """Its best case stays in the comparison: nothing lost, nothing late."""
    best = ways[NATIVE_BEST]
    assert best.broken == len(DOWN)
    assert best.poison_rounds == len(HOPELESS)
    assert (best.duplicates, best.lost, best.changed, best.left, best.late) == (0, 0, 0, 0, 0)
    assert (best.acts, best.minutes, best.night_minutes) == (3, 15, 10)
    # The outage began at 03:00 and is over before this minute.
    assert best.hours == f"03:{MINUTES + 1:02}"
    assert best.did == (
        f"{best.hours} sees that the outage is over",
        f"{best.hours} starts the redrive",
        "09:00 looks through the hopeless messages",
    )
    assert best.sorted == 0


def test_native_redrive_in_the_morning_wakes_nobody_and_all_that_was_down_is_late(
    ways: dict[str, Way],
) -> None:
    morning = ways[NATIVE_MORNING]
    assert morning.late == len(DOWN)
    assert (morning.night_minutes, morning.hours) == (0, "by day")
    best = ways[NATIVE_BEST]
    differs = ("system", "night_minutes", "hours", "late", "did", "note")
    assert replace(morning, **{name: getattr(best, name) for name in differs}) == best


def test_a_shell_loop_that_is_interrupted_sends_twice_and_copies_bodies_only(
    ways: dict[str, Way],
) -> None:
    loop = ways[LOOP]
    large = [event for event in DOWN if len(event.body.encode()) >= module.LONGEST_ARGUMENT]
    assert loop.left == len(large) > 0
    assert loop.changed == sum(1 for event in DOWN if event.attributes) > 0
    assert loop.duplicates == 1
    assert loop.lost == 0
    # What is not healed is late, too.
    assert loop.late == len(large)
    assert loop.poison_rounds > len(HOPELESS)
    assert (loop.night_minutes, loop.hours) == (10, f"03:01 03:{MINUTES + 3:02}")
    assert loop.sorted == 0


@pytest.mark.parametrize(
    ("kept", "acts", "night_minutes", "late", "left"),
    [
        (lambda event: event.tenant == HEALTHY and not event.parked_as, 0, 0, 0, 0),
        (lambda event: event.tenant == HEALTHY, 1, 0, 0, 0),
        (lambda event: event in DOWN[:7], 2, 10, 7, 0),
    ],
    ids=["nothing dies", "only hopeless ones die", "only those of the outage die"],
)
def test_a_persons_acts_and_the_late_ones_follow_from_the_events(
    kept, acts, night_minutes, late, left
) -> None:
    loop, best, morning = beside([event for event in EVENTS if kept(event)], outage_minutes=MINUTES)
    assert (loop.acts, best.acts, morning.acts) == (acts, acts, acts)
    assert (loop.night_minutes, best.night_minutes) == (night_minutes, night_minutes)
    assert (morning.night_minutes, morning.late) == (0, late)


def test_a_way_that_put_hopeless_messages_apart_would_have_sorted_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The model counts them; that the ways of today put none apart is what they do."""

    def sorting(world: module._Model) -> None:
        apart = world._sqs.create_queue(QueueName="apart")["QueueUrl"]
        for letter in world._received(world._dlq):
            world._sqs.send_message(QueueUrl=apart, MessageBody=letter["Body"])
            world._sqs.delete_message(QueueUrl=world._dlq, ReceiptHandle=letter["ReceiptHandle"])

    monkeypatch.setattr(module._Model, "move", sorting)
    [_, best, _] = beside(HOPELESS, outage_minutes=MINUTES)
    assert best.sorted == 10


def test_both_are_modelled_and_say_so(ways: dict[str, Way]) -> None:
    assert {way.how for way in ways.values()} == {MODELLED}
    assert all(way.note for way in ways.values())
    assert ways.keys() == ASSUMPTIONS.keys()


def test_every_figure_is_explained(ways: dict[str, Way]) -> None:
    assert ways[LOOP].as_json().keys() == COUNTED.keys() | {"system", "how", "did", "note"}


def test_a_demo_whose_outage_saw_no_run_of_the_redriver_is_compared_all_the_same() -> None:
    assert beside(EVENTS, outage_minutes=0) == beside(EVENTS, outage_minutes=1)


def test_it_is_always_the_same(ways: dict[str, Way]) -> None:
    assert {way.system: way for way in beside(EVENTS, outage_minutes=MINUTES)} == ways


def test_a_longer_outage_costs_the_loop_more_and_moves_the_hour_of_who_waits_for_its_end(
    ways: dict[str, Way],
) -> None:
    loop, best, morning = beside(EVENTS, outage_minutes=2 * MINUTES)
    later = replace(ways[NATIVE_BEST], hours=f"03:{2 * MINUTES + 1}", did=best.did)
    assert best == later
    assert morning == ways[NATIVE_MORNING]
    assert loop.broken > ways[LOOP].broken
    assert loop.poison_rounds > ways[LOOP].poison_rounds


def test_after_an_outage_of_half_an_hour_the_best_case_is_late_too() -> None:
    [_, best, _] = beside(EVENTS, outage_minutes=30)
    assert (best.late, best.hours) == (len(DOWN), "03:31")


def test_a_loop_that_deletes_before_it_sends_loses_letters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The model tells a loss: a careless loop in the place of the careful one."""

    def careless(world: module._Model) -> None:
        while letters := world._received(world._dlq):
            for letter in letters:
                handle = letter["ReceiptHandle"]
                world._sqs.delete_message(QueueUrl=world._dlq, ReceiptHandle=handle)
                if len(letter["Body"]) < module.LONGEST_ARGUMENT:
                    world._sqs.send_message(QueueUrl=world._main, MessageBody=letter["Body"])

    monkeypatch.setattr(module._Model, "loop", careless)
    [loop, *_] = beside(EVENTS, outage_minutes=MINUTES)
    assert loop.lost > 0


def visit(event: Event, status: int, attempt: int = 1, at: float = 0.0) -> Visit:
    return Visit(event.tenant, event.digest, "id", attempt, status, at)


HEALED = DOWN[0]
REFUSED = next(event for event in EVENTS if event.tenant == REFUSING and not event.attributes)
PARKED = ParkedEvent(REFUSED.digest, "QUARANTINED", REFUSED.attributes)
DELIVERED = DeliveredEvent(HEALED.digest, redriven=True)


def own(
    found: FoundLetters, visits: Sequence[Visit] = (), acts: Sequence[Act] = (), sent: float = 0.0
) -> Way:
    """What a run with these two events came to, both sent at once."""
    events = [HEALED, REFUSED]
    outcome = reconcile(events, found)
    sent_at = {event.digest: sent for event in events}
    return measured(events, visits, found, outcome, sent_at=sent_at, acts=acts)


def test_our_own_figures_are_what_the_endpoints_saw() -> None:
    visits = [
        visit(HEALED, 503),
        visit(HEALED, 503, 2),
        visit(HEALED, 200, 3),
        visit(REFUSED, 422),
        visit(REFUSED, 422, 2),
    ]
    ours = own(FoundLetters([DELIVERED], [PARKED], recovered=[HEALED.digest]), visits)
    assert (ours.how, ours.broken, ours.poison_rounds) == (MEASURED, 2, 1)
    assert (ours.duplicates, ours.lost, ours.changed, ours.left) == (0, 0, 0, 0)


@each_row(("reason", "sorted_"), [*((str(why), 1) for why in Reason), ("unknown", 0)])
def test_a_hopeless_message_is_sorted_if_it_is_parked_with_a_reason(
    reason: str, sorted_: int
) -> None:
    assert own(FoundLetters(parked=[replace(PARKED, reason=reason)])).sorted == sorted_


def test_what_could_be_delivered_and_what_waits_is_not_sorted() -> None:
    parked = ParkedEvent(HEALED.digest, "RETRIES_EXHAUSTED", HEALED.attributes)
    assert own(FoundLetters(parked=[parked], waiting=[REFUSED.digest])).sorted == 0


LATE = module.LATE_AFTER * SHORT_MINUTE


@each_row(
    ("visits", "late"),
    [
        ([visit(HEALED, 200, at=10 + LATE)], 0),
        ([visit(HEALED, 200, at=10 + LATE + 0.1)], 1),
        ([visit(HEALED, 503, at=11), visit(HEALED, 200, at=10 + 2 * LATE)], 1),
        ([visit(HEALED, 200, at=11), visit(HEALED, 200, at=10 + 2 * LATE)], 0),
        ([visit(HEALED, 503, at=11)], 1),
    ],
    ids=["just in time", "late", "healed late", "a duplicate comes late", "never"],
)
def test_a_message_is_late_by_its_first_delivery_in_minutes_of_the_run(
    visits: Sequence[Visit], late: int
) -> None:
    """The hopeless one is not late: it was never to be delivered."""
    assert own(FoundLetters(), visits, sent=10.0).late == late


def test_our_own_acts_are_those_that_are_given() -> None:
    ours = own(FoundLetters(), acts=[Act(0.0, "an alarm rang"), Act(360.0, "looks")])
    assert (ours.acts, ours.minutes, ours.night_minutes, ours.hours) == (2, 10, 5, "03:00")


WITHOUT_PYTEST = """
import sys

class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pytest", "_pytest", "hypothesis", "moto"):
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Nothing())
import sandbox.__main__, sandbox.demo.beside
"""


def test_the_sandbox_needs_none_of_the_packages_of_the_tests() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_PYTEST], check=True)
