"""What is read of one record, and of what it says about the letter's past."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deadletter.message.letter import Attribute, Letter
from deadletter.processing.delivery import (
    Delivery,
    Reader,
    group_of,
    handle_of,
    id_of,
    queue_of,
    receive_of,
)
from deadletter.settings.pipeline import Pipeline
from tests.each_row import each_row
from tests.processing.doubles import record, redriven
from tests.samples import NOW, REDRIVER, letter

MIB = 1024 * 1024


def read(original: Letter) -> Delivery:
    reader = Reader(Pipeline("orders"), frozenset({REDRIVER}), lambda: NOW)
    return reader.read(record(original))


def with_attributes(number: int) -> Letter:
    return letter(attributes={f"a{each}": Attribute("String", "x") for each in range(number)})


def test_a_letter_with_ten_attributes_may_have_lost_its_stamp() -> None:
    """SQS allows ten: the stamp is the eleventh."""
    assert not read(with_attributes(9)).may_have_lost_its_stamp
    assert read(with_attributes(10)).may_have_lost_its_stamp


def test_a_letter_with_less_than_a_kilobyte_of_room_may_have_lost_its_stamp() -> None:
    bare = letter("")
    room = MIB - bare.size
    assert not read(replace(bare, body="x" * (room - 1024))).may_have_lost_its_stamp
    assert read(replace(bare, body="x" * (room - 1023))).may_have_lost_its_stamp


def test_a_letter_that_carries_its_stamp_has_not_lost_it() -> None:
    nine = with_attributes(9)
    assert not read(redriven(nine)).may_have_lost_its_stamp
    forged = replace(redriven(nine), system={"SenderId": "AIDAPRODUCER"})
    assert read(forged).forged
    assert read(forged).may_have_lost_its_stamp


@each_row(
    ("sample", "was_dead"),
    [
        (letter(), False),
        (redriven(letter(), attempt=1, origin="m1"), True),
        (redriven(letter(), attempt=0, origin="first"), True),
        (redriven(letter(), attempt=0, origin="m1"), False),
        (letter(DeadLetterQueueSourceArn="arn:aws:sqs:eu-west-1:111122223333:orders"), True),
    ],
)
def test_a_letter_was_dead_by_its_attempt_its_origin_or_its_source(
    sample: Letter, was_dead: bool
) -> None:
    assert read(sample).was_dead is was_dead


@each_row("odd", [None, 7, "text", [], {}, {"attributes": None, "messageId": 7}])
def test_a_record_that_is_no_record_has_empty_fields(odd: Any) -> None:
    assert (id_of(odd), handle_of(odd), queue_of(odd), group_of(odd)) == ("", "", "", "")
    assert receive_of(odd) == 1


@pytest.mark.parametrize(("count", "receive"), [("0", 1), ("1", 1), ("2", 2), ("1000", 1000)])
def test_receives_are_counted_from_one(count: str, receive: int) -> None:
    assert receive_of({"attributes": {"ApproximateReceiveCount": count}}) == receive


def test_the_fields_of_a_record_are_read() -> None:
    sample = record(letter(message_id="m7", MessageGroupId="g"))
    assert (id_of(sample), handle_of(sample)) == ("m7", "handle of m7")
    assert (queue_of(sample), group_of(sample)) == ("orders", "g")
