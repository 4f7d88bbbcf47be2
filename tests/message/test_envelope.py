"""What is sent in a letter's place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.message import stamp as stamps
from deadletter.message.envelope import (
    UNMARKED_DELAY,
    QueueTraits,
    deduplication_id,
    seal,
    trace_without_lineage,
)
from deadletter.message.letter import Attribute, Letter
from deadletter.message.stamp import Stamp
from tests.samples import letter, letters
from tests.samples import stamps as any_stamps

STANDARD = QueueTraits()
FIFO = QueueTraits(fifo=True)
MARK = Stamp("origin", 1, 1)
FORGED = Attribute("String", '{"origin":"somebody","attempt":0,"first_sent":9999999999999}')


def with_attributes(number: int, **more: Attribute) -> Letter:
    plain = {f"a{n}": Attribute("String", "x") for n in range(number)}
    return letter(attributes={**plain, **more})


@given(letters, any_stamps)
def test_body_and_attributes_go_along_untouched(one: Letter, mark: Stamp) -> None:
    envelope = seal(one, mark, STANDARD)
    assert envelope.copy == one.message_id
    assert envelope.body == one.body
    assert {n: a for n, a in envelope.attributes.items() if n != stamps.NAME} == one.attributes
    assert envelope.group == one.group


def test_nine_attributes_leave_room_for_the_stamp_and_ten_do_not() -> None:
    nine, ten = (seal(with_attributes(number), MARK, STANDARD) for number in (9, 10))
    assert nine.marked
    assert stamps.parse(nine.attributes[stamps.NAME].value) == MARK
    assert not ten.marked
    assert len(ten.attributes) == 10
    assert ten.stamp == MARK


def test_an_older_stamp_gives_its_place_to_the_new_one() -> None:
    envelope = seal(with_attributes(9, Redrive=FORGED), MARK, STANDARD)
    assert envelope.marked
    assert stamps.parse(envelope.attributes[stamps.NAME].value) == MARK


def test_a_letter_with_no_room_for_the_stamp_carries_no_older_one_either() -> None:
    one = letter("x" * 2_000, attributes={stamps.NAME: FORGED, "a": Attribute("String", "x")})
    envelope = seal(one, MARK, QueueTraits(max_bytes=2_010))
    assert not envelope.marked
    assert list(envelope.attributes) == ["a"]


def test_the_stamp_may_fill_the_queues_limit_and_no_byte_more() -> None:
    one = letter("x" * 100)
    full = seal(one, MARK, STANDARD).size
    assert seal(one, MARK, QueueTraits(max_bytes=full)).marked
    assert not seal(one, MARK, QueueTraits(max_bytes=full - 1)).marked


@pytest.mark.parametrize(
    ("queue", "attributes", "delay", "sent_with"),
    [
        (STANDARD, 0, 0, 0),
        (STANDARD, 0, 900, 900),
        (STANDARD, 10, 0, UNMARKED_DELAY),
        (STANDARD, 10, 900, 900),
        (FIFO, 0, 0, None),
        (FIFO, 10, 0, None),
    ],
)
def test_delays(queue: QueueTraits, attributes: int, delay: int, sent_with: int | None) -> None:
    assert seal(with_attributes(attributes), MARK, queue, delay).delay == sent_with


def test_on_fifo_one_copy_is_one_message_however_often_it_is_moved() -> None:
    first, again = (seal(letter(message_id="m1"), Stamp("o", n, 1), FIFO) for n in (1, 2))
    other = seal(letter(message_id="m2"), MARK, FIFO)
    assert first.deduplication_id == again.deduplication_id == deduplication_id("m1")
    assert other.deduplication_id != first.deduplication_id
    assert seal(letter(), MARK, STANDARD).deduplication_id is None


@given(st.text())
def test_a_deduplication_id_is_one_that_sqs_takes(copy: str) -> None:
    token = deduplication_id(copy)
    assert token.isascii()
    assert token.isalnum()
    assert len(token) <= 128


@pytest.mark.parametrize(
    ("header", "kept"),
    [
        (None, None),
        ("", None),
        ("Root=1-2-3", "Root=1-2-3"),
        ("Root=1-2-3;Parent=4;Sampled=1", "Root=1-2-3;Parent=4;Sampled=1"),
        ("Root=1-2-3;Lineage=a87bd80c:1|68fd508a:5;Sampled=0", "Root=1-2-3;Sampled=0"),
        ("Lineage=1:a87bd80c:1", None),
        (" Root=1 ; Parent=2 ", "Root=1;Parent=2"),
        ("Self=1;Root=2", "Root=2"),
        ("nonsense", None),
    ],
)
def test_of_the_trace_only_what_joins_it_goes_along(header: str | None, kept: str | None) -> None:
    assert trace_without_lineage(header) == kept
    system: dict[str, Any] = {} if header is None else {"AWSTraceHeader": header}
    assert seal(letter(**system), MARK, STANDARD).trace_header == kept
