"""What people do with a DLQ otherwise, modelled on the demo's own events."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from sandbox.demo import beside as module
from sandbox.demo.beside import (
    ASSUMPTIONS,
    COUNTED,
    LOOP,
    MEASURED,
    MODELLED,
    NATIVE,
    NATIVE_ONCE,
    Way,
    beside,
    measured,
)
from sandbox.demo.events import RECOVERING, REFUSING, Event, plan
from sandbox.demo.receiver import Visit
from sandbox.demo.reconcile import DeliveredEvent, FoundLetters, ParkedEvent, reconcile

EVENTS = plan(1)
MINUTES = 5
DOWN = [event for event in EVENTS if event.tenant == RECOVERING and not event.parked_as]
HOPELESS = [event for event in EVENTS if event.parked_as]


@pytest.fixture(scope="module")
def ways() -> dict[str, Way]:
    return {way.system: way for way in beside(EVENTS, outage_minutes=MINUTES)}


def test_native_redrive_loses_nothing_and_asks_the_broken_endpoint_every_minute(
    ways: dict[str, Way],
) -> None:
    native = ways[NATIVE]
    assert native.broken == len(DOWN) * (1 + MINUTES)
    assert native.poison_rounds == len(HOPELESS) * (MINUTES + module.ROUNDS_AFTERWARDS)
    assert (native.duplicates, native.lost, native.changed, native.left) == (0, 0, 0, 0)
    assert native.unsorted == len(HOPELESS)


def test_native_redrive_at_the_right_moment_asks_the_broken_endpoint_once_for_each_event(
    ways: dict[str, Way],
) -> None:
    """Its best case is in the comparison, too: what is left to say of it are the hopeless."""
    once = ways[NATIVE_ONCE]
    assert once.broken == len(DOWN)
    assert once.poison_rounds == once.unsorted == len(HOPELESS)
    assert (once.duplicates, once.lost, once.changed, once.left) == (0, 0, 0, 0)


def test_a_shell_loop_that_is_interrupted_sends_twice_and_copies_bodies_only(
    ways: dict[str, Way],
) -> None:
    loop = ways[LOOP]
    large = [event for event in DOWN if len(event.body.encode()) >= module.LONGEST_ARGUMENT]
    assert loop.left == len(large) > 0
    assert loop.changed == sum(1 for event in DOWN if event.attributes) > 0
    assert loop.duplicates == 1
    assert loop.lost == 0
    assert loop.unsorted == len(HOPELESS)


def test_both_are_modelled_and_say_so(ways: dict[str, Way]) -> None:
    assert {way.how for way in ways.values()} == {MODELLED}
    assert all(way.note for way in ways.values())
    assert ways.keys() == ASSUMPTIONS.keys()


def test_every_figure_is_explained(ways: dict[str, Way]) -> None:
    figures = {name for name, value in ways[LOOP].as_json().items() if isinstance(value, int)}
    assert figures == COUNTED.keys() | {"rounds"}


def test_a_demo_whose_outage_saw_no_run_of_the_redriver_is_compared_all_the_same() -> None:
    assert beside(EVENTS, outage_minutes=0) == beside(EVENTS, outage_minutes=1)


def test_it_says_how_many_rounds_the_outage_had(ways: dict[str, Way]) -> None:
    assert {way.rounds for way in ways.values()} == {MINUTES}


def test_it_is_always_the_same(ways: dict[str, Way]) -> None:
    assert {way.system: way for way in beside(EVENTS, outage_minutes=MINUTES)} == ways


def test_a_longer_outage_costs_more_except_who_waits_for_its_end(ways: dict[str, Way]) -> None:
    *repeated, once = beside(EVENTS, outage_minutes=2 * MINUTES)
    assert replace(once, rounds=MINUTES) == ways[NATIVE_ONCE]
    for way in repeated:
        assert way.broken > ways[way.system].broken
        assert way.poison_rounds > ways[way.system].poison_rounds


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


def visit(event: Event, status: int, attempt: int = 1) -> Visit:
    return Visit(event.tenant, event.digest, "id", attempt, status)


def test_our_own_figures_are_what_the_endpoints_saw() -> None:
    refused = next(event for event in EVENTS if event.tenant == REFUSING and not event.attributes)
    healed = DOWN[0]
    visits = [
        visit(healed, 503),
        visit(healed, 503, 2),
        visit(healed, 200, 3),
        visit(refused, 422),
        visit(refused, 422, 2),
    ]
    found = FoundLetters(
        delivered=[DeliveredEvent(healed.digest, redriven=True)],
        parked=[ParkedEvent(refused.digest, "QUARANTINED", refused.attributes)],
        recovered=[healed.digest],
    )
    outcome = reconcile([healed, refused], found)
    ours = measured([healed, refused], visits, outcome)
    assert (ours.how, ours.broken, ours.poison_rounds) == (MEASURED, 2, 1)
    assert (ours.duplicates, ours.lost, ours.changed, ours.left) == (0, 0, 0, 0)
    assert ours.unsorted == 0
    unparked = reconcile([healed, refused], FoundLetters(waiting=[refused.digest]))
    assert measured([healed, refused], visits, unparked).unsorted == 1


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
