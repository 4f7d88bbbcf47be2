"""Envelopes: the messages that replace letters."""

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
def test_body_and_attributes_are_sent_unchanged(original: Letter, mark: Stamp) -> None:
    envelope = seal(original, mark, STANDARD)
    assert envelope.copy == original.message_id
    assert envelope.body == original.body
    assert {n: a for n, a in envelope.attributes.items() if n != stamps.NAME} == original.attributes
    assert envelope.group == original.group


def test_nine_attributes_leave_room_for_the_stamp_and_ten_do_not() -> None:
    nine, ten = (seal(with_attributes(number), MARK, STANDARD) for number in (9, 10))
    assert nine.marked
    assert stamps.parse(nine.attributes[stamps.NAME].value) == MARK
    assert not ten.marked
    assert len(ten.attributes) == 10
    assert ten.stamp == MARK


def test_a_new_stamp_replaces_an_older_one() -> None:
    envelope = seal(with_attributes(9, Redrive=FORGED), MARK, STANDARD)
    assert envelope.marked
    assert stamps.parse(envelope.attributes[stamps.NAME].value) == MARK


def test_an_older_stamp_is_removed_even_if_the_new_one_has_no_room() -> None:
    forged = letter("x" * 2_000, attributes={stamps.NAME: FORGED, "a": Attribute("String", "x")})
    envelope = seal(forged, MARK, QueueTraits(max_bytes=2_010))
    assert not envelope.marked
    assert list(envelope.attributes) == ["a"]


def test_a_stamp_may_fill_the_queues_limit_exactly() -> None:
    short = letter("x" * 100)
    full = seal(short, MARK, STANDARD).size
    assert seal(short, MARK, QueueTraits(max_bytes=full)).marked
    assert not seal(short, MARK, QueueTraits(max_bytes=full - 1)).marked


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
def test_the_delay_of_an_envelope_depends_on_queue_and_stamp(
    queue: QueueTraits, attributes: int, delay: int, sent_with: int | None
) -> None:
    assert seal(with_attributes(attributes), MARK, queue, delay).delay == sent_with


def test_on_fifo_a_copy_has_one_deduplication_id_in_all_its_moves() -> None:
    first, again = (seal(letter(message_id="m1"), Stamp("o", n, 1), FIFO) for n in (1, 2))
    other = seal(letter(message_id="m2"), MARK, FIFO)
    assert first.deduplication_id == again.deduplication_id == deduplication_id("m1")
    assert other.deduplication_id != first.deduplication_id
    assert seal(letter(), MARK, STANDARD).deduplication_id is None


@given(st.text())
def test_a_deduplication_id_is_valid_for_sqs(copy: str) -> None:
    token = deduplication_id(copy)
    assert token.isascii()
    assert token.isalnum()
    assert len(token) <= 128


@pytest.mark.parametrize(
    ("header", "sent"),
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
def test_only_root_parent_and_sampled_of_the_trace_header_are_sent(
    header: str | None, sent: str | None
) -> None:
    assert trace_without_lineage(header) == sent
    system: dict[str, Any] = {} if header is None else {"AWSTraceHeader": header}
    assert seal(letter(**system), MARK, STANDARD).trace_header == sent
