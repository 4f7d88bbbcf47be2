"""The demo's mail has every shape that was asked for, and SQS takes all of it."""

import json
import re
from collections import Counter

from deadletter.contract import Reason
from deadletter.message.letter import MAX_ATTRIBUTES, MAX_BYTES
from deadletter.message.strict_json import Unreadable, read_json
from sandbox.demo.events import REFUSING, SNAPSHOT_TYPE, TENANTS, Event, batches, plan
from tests.each_row import each_row

EVENTS = plan(seed=1)

# What SQS takes in a body (SendMessage, "MessageBody").
ALLOWED = re.compile(r"[\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]*")


def malformed(event: Event) -> bool:
    try:
        read_json(event.body)
    except Unreadable:
        return True
    return False


def test_one_seed_is_one_plan():
    assert plan(seed=1) == EVENTS
    assert plan(seed=2) != EVENTS


def test_there_are_at_least_three_hundred_and_no_two_bodies_are_alike():
    assert len(EVENTS) >= 300
    assert len({event.digest for event in EVENTS}) == len(EVENTS)
    assert len({event.event_id for event in EVENTS}) == len(EVENTS)


@each_row(
    ("shape", "at_least"),
    [
        (malformed, 10),
        (lambda event: len(event.attributes) == MAX_ATTRIBUTES, 10),
        (
            lambda event: any(
                isinstance(attribute.value, bytes) for attribute in event.attributes.values()
            ),
            10,
        ),
        (lambda event: event.size > 256 * 1024, 5),
        (lambda event: 900_000 <= event.size < 950_000, 1),
    ],
    ids=["malformed", "ten attributes", "binary", "over 256 KiB", "900 KB"],
)
def test_every_shape_is_there(shape, at_least):
    assert sum(map(shape, EVENTS)) >= at_least


def test_sqs_takes_every_event():
    for event in EVENTS:
        assert event.size <= MAX_BYTES
        assert len(event.attributes) <= MAX_ATTRIBUTES
        assert ALLOWED.fullmatch(event.body)


def test_what_can_be_read_says_whose_it_is():
    for event in EVENTS:
        if not malformed(event):
            body = json.loads(event.body)
            assert (body["id"], body["tenantId"]) == (event.event_id, event.tenant)
    assert {event.tenant for event in EVENTS} == set(TENANTS)


def test_the_one_snapshot_is_the_900_kb_event():
    snapshots = [event for event in EVENTS if SNAPSHOT_TYPE in event.body]
    assert snapshots == [max(EVENTS, key=lambda event: event.size)]


def test_malformed_events_are_to_be_parked_and_the_bad_tenants_quarantined():
    for event in EVENTS:
        if malformed(event):
            assert event.parked_as is Reason.MALFORMED
        else:
            refused = event.tenant == REFUSING
            assert event.parked_as == (Reason.QUARANTINED if refused else None)
    assert set(Counter(event.parked_as for event in EVENTS)) == {
        None,
        Reason.MALFORMED,
        Reason.QUARANTINED,
    }


def test_batches_are_what_sqs_takes_at_once_and_leave_nothing_out():
    # The large ones together: in the plan's own order they may never meet.
    by_size = sorted(EVENTS, key=lambda event: event.size)
    cut = list(batches(by_size))
    assert [event for batch in cut for event in batch] == by_size
    assert all(0 < len(batch) <= 10 for batch in cut)
    assert all(sum(event.size for event in batch) <= MAX_BYTES for batch in cut)


def test_a_batch_is_as_full_as_it_may_be():
    small = [event for event in EVENTS if event.size < 5_000]
    assert {len(batch) for batch in list(batches(small))[:-1]} == {10}
