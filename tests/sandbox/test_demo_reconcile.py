"""No event is lost, doubled, changed or misdirected without the account showing it."""

from dataclasses import replace

import pytest

from deadletter.message.letter import Attribute
from sandbox.demo.events import Event, plan
from sandbox.demo.reconcile import DeliveredEvent, FoundLetters, ParkedEvent, reconcile

EVENTS = plan(seed=1)
DELIVERED = next(event for event in EVENTS if event.parked_as is None)
PARKED = next(event for event in EVENTS if event.parked_as and event.attributes)


def found_as_planned(events: tuple[Event, ...] = EVENTS) -> FoundLetters:
    """Everything where it belongs."""
    return FoundLetters(
        delivered=[DeliveredEvent(event.digest) for event in events if event.parked_as is None],
        parked=[
            ParkedEvent(event.digest, event.parked_as, event.attributes)
            for event in events
            if event.parked_as
        ],
    )


def without(event: Event) -> FoundLetters:
    return found_as_planned(tuple(entry for entry in EVENTS if entry != event))


def test_when_all_goes_as_planned_nothing_is_wrong():
    outcome = reconcile(EVENTS, found_as_planned())
    assert outcome.passed
    assert not outcome.wrong
    assert outcome.delivered + sum(outcome.parked_by_reason.values()) == outcome.sent == len(EVENTS)
    assert set(outcome.parked_by_reason) == {"MALFORMED", "QUARANTINED"}


def test_any_event_that_is_nowhere_is_named_as_lost():
    for event in (*EVENTS[::10], DELIVERED, PARKED):
        outcome = reconcile(EVENTS, without(event))
        assert outcome.lost == (event.event_id,)
        assert outcome.wrong == {"lost": (event.event_id,)}
        assert not outcome.passed


def test_a_loss_is_not_made_good_by_a_duplicate_of_another_event():
    found = without(DELIVERED)
    outcome = reconcile(EVENTS, replace(found, delivered=[*found.delivered, found.delivered[0]]))
    assert outcome.lost == (DELIVERED.event_id,)
    assert outcome.duplicates == 1


def test_a_body_that_was_changed_is_a_loss_and_a_stranger():
    found = without(DELIVERED)
    outcome = reconcile(
        EVENTS, replace(found, delivered=[*found.delivered, DeliveredEvent("other")])
    )
    assert outcome.lost == (DELIVERED.event_id,)
    assert outcome.strangers == 1
    assert not outcome.passed


def test_an_unknown_body_counts_as_a_stranger():
    found = found_as_planned()
    outcome = reconcile(EVENTS, replace(found, parked=[*found.parked, ParkedEvent("?", "EXPIRED")]))
    assert outcome.strangers == 1
    assert "EXPIRED" not in outcome.parked_by_reason
    assert not outcome.passed


@pytest.mark.parametrize(
    "attributes",
    [{}, {**PARKED.attributes, "more": Attribute("String", "x")}],
    ids=["gone", "one more"],
)
def test_a_letter_parked_with_other_attributes_is_altered(attributes):
    found = without(PARKED)
    letter = ParkedEvent(PARKED.digest, PARKED.parked_as, attributes)
    outcome = reconcile(EVENTS, replace(found, parked=[*found.parked, letter]))
    assert outcome.altered == (PARKED.event_id,)
    assert not outcome.passed


def test_an_event_still_on_its_way_is_waiting_and_not_lost():
    outcome = reconcile(EVENTS, replace(without(DELIVERED), waiting=[DELIVERED.digest]))
    assert outcome.waiting == 1
    assert not outcome.lost
    assert not outcome.astray
    assert not outcome.passed


def test_an_event_that_came_to_another_end_is_astray():
    for event, elsewhere in (
        (
            DELIVERED,
            FoundLetters(
                parked=[ParkedEvent(DELIVERED.digest, "RETRIES_EXHAUSTED", DELIVERED.attributes)]
            ),
        ),
        (PARKED, FoundLetters(delivered=[DeliveredEvent(PARKED.digest)])),
        (PARKED, FoundLetters(parked=[ParkedEvent(PARKED.digest, "unknown", PARKED.attributes)])),
    ):
        rest = without(event)
        outcome = reconcile(
            EVENTS,
            FoundLetters(
                delivered=[*rest.delivered, *elsewhere.delivered],
                parked=[*rest.parked, *elsewhere.parked],
            ),
        )
        assert outcome.astray == (event.event_id,)
        assert not outcome.lost
        assert not outcome.passed


@pytest.mark.parametrize("end", ["delivered", "parked", "waiting"])
def test_an_event_seen_twice_counts_once_and_as_a_duplicate(end):
    found = found_as_planned()
    more = {
        "delivered": [DeliveredEvent(DELIVERED.digest)],
        "parked": [ParkedEvent(DELIVERED.digest, "RETRIES_EXHAUSTED", DELIVERED.attributes)],
        "waiting": [DELIVERED.digest],
    }[end]
    outcome = reconcile(EVENTS, replace(found, **{end: [*getattr(found, end), *more]}))
    assert outcome.duplicates == 1
    assert outcome.delivered == reconcile(EVENTS, found).delivered
    assert outcome.passed


def test_what_was_redriven_before_it_was_delivered_is_healed_once():
    found = found_as_planned()
    again = [DeliveredEvent(DELIVERED.digest, redriven=True)] * 2
    outcome = reconcile(EVENTS, replace(found, delivered=[*found.delivered, *again]))
    assert outcome.healed == 1


def test_what_was_seen_in_the_waiting_room_is_held_wherever_it_ended():
    outcome = reconcile(EVENTS, replace(found_as_planned(), held=[PARKED.digest, DELIVERED.digest]))
    assert outcome.held == 2


def test_a_letter_that_was_healed_without_the_ledger_saying_so_is_named():
    healed = DeliveredEvent(DELIVERED.digest, redriven=True)
    found = without(DELIVERED)
    found = replace(found, delivered=[*found.delivered, healed])
    assert reconcile(EVENTS, found).unrecorded == (DELIVERED.event_id,)
    outcome = reconcile(EVENTS, replace(found, recovered=[DELIVERED.digest]))
    assert outcome.passed
    assert (outcome.healed, outcome.recovered) == (1, 1)
