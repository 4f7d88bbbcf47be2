"""Envelopes: the messages that replace letters."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
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
from tests.each_row import each_row
from tests.samples import letter, letters
from tests.samples import stamps as any_stamps

STANDARD = QueueTraits()
FIFO = QueueTraits(fifo=True)
MARK = Stamp("origin", 1, 1)
FORGED = Attribute("String", '{"origin":"somebody","attempt":0,"first_sent":9999999999999}')


def with_attributes(number: int, **more: Attribute) -> Letter:
    plain = {f"a{n}": Attribute("String", "x") for n in range(number)}
    return letter(attributes={**plain, **more})


OWN = Attribute("Number.int", "7")


@given(letters, any_stamps)
@example(letter(attributes={stamps.NAME: OWN}), MARK)
def test_body_and_attributes_are_sent_unchanged(original: Letter, mark: Stamp) -> None:
    envelope = seal(original, mark, STANDARD)
    assert envelope.copy == original.message_id
    assert envelope.body == original.body
    run_group = None if mark.run is None else f"replay:{mark.run}"
    assert envelope.group == (run_group if original.group is None else original.group)
    sent = {name: each for name, each in envelope.attributes.items() if name != stamps.NAME}
    own = original.attributes.get(stamps.NAME)
    if own is None:
        assert (sent, envelope.kept_as) == (original.attributes, None)
    else:
        assert sent.pop(str(envelope.kept_as)) == own
        assert {**sent, stamps.NAME: own} == original.attributes


reserved_names = st.sampled_from(
    [stamps.NAME, stamps.KEPT_NAME, *(f"Redriv{number}" for number in range(10))]
)
crowded = st.dictionaries(
    reserved_names,
    st.builds(
        Attribute,
        st.sampled_from(["String", "Number.int", "String.json"]),
        st.text(max_size=9) | any_stamps.map(lambda mark: str(stamps.attribute(mark).value)),
    )
    | st.builds(Attribute, st.sampled_from(["Binary", "Binary.gzip"]), st.binary(max_size=9)),
    max_size=10,
)


@given(crowded, any_stamps, st.integers(0, 30), st.booleans())
def test_no_attribute_is_dropped_and_no_foreign_stamp_is_sent(
    attributes: dict[str, Attribute], mark: Stamp, room: int, fifo: bool
) -> None:
    """Holds for any taken names, and for as little room as the queue has left."""
    original = letter(attributes=attributes)
    queue = QueueTraits(fifo=fifo, max_bytes=original.size + room)
    envelope = seal(original, mark, queue)
    carried = dict(envelope.attributes)
    if envelope.marked:
        assert carried.pop(stamps.NAME) == stamps.attribute(mark)
    assert stamps.NAME not in carried
    assert sorted(map(repr, carried.values())) == sorted(
        repr(attribute)
        for name, attribute in attributes.items()
        if not (name == stamps.NAME and stamps.is_replaced(attribute, mark))
    )
    assert {name for name in attributes if name != stamps.NAME} <= set(carried)
    assert set(carried) - set(attributes) == {envelope.kept_as} - {None}
    assert envelope.kept_as is None or stamps.is_reserved(envelope.kept_as)
    assert envelope.size <= queue.max_bytes
    assert len(envelope.attributes) <= 10


def test_a_producers_own_attribute_of_our_name_goes_under_another() -> None:
    envelope = seal(with_attributes(8, Redrive=OWN), MARK, STANDARD)
    assert envelope.kept_as == "Redrive-original"
    assert envelope.attributes["Redrive-original"] == OWN
    assert envelope.marked


def test_in_its_next_life_the_renamed_attribute_keeps_its_name() -> None:
    first = seal(letter(attributes={stamps.NAME: OWN}), MARK, STANDARD)
    again = letter(message_id="m2", attributes=dict(first.attributes), SenderId="AROAREDRIVER")
    second = seal(again, Stamp("origin", 2, 1), STANDARD)
    assert second.kept_as is None
    assert second.attributes["Redrive-original"] == OWN
    assert len(second.attributes) == 2


def test_where_the_other_name_is_taken_or_too_long_it_is_one_as_long_as_ours() -> None:
    taken = {f"Redriv{number}": OWN for number in range(8)}
    full = letter(attributes={stamps.NAME: OWN, stamps.KEPT_NAME: OWN, **taken})
    assert seal(full, MARK, STANDARD).kept_as == "Redriv8"
    short = letter(attributes={stamps.NAME: OWN})
    assert seal(short, MARK, QueueTraits(max_bytes=short.size)).kept_as == "Redriv0"
    assert seal(short, MARK, QueueTraits(max_bytes=short.size + 9)).kept_as == "Redrive-original"


def test_an_attribute_of_our_name_is_kept_even_if_our_stamp_then_has_no_room() -> None:
    envelope = seal(with_attributes(9, Redrive=OWN), MARK, STANDARD)
    assert not envelope.marked
    assert len(envelope.attributes) == 10
    assert envelope.attributes["Redrive-original"] == OWN


def test_nine_attributes_leave_room_for_the_stamp_and_ten_do_not() -> None:
    nine, ten = (seal(with_attributes(number), MARK, STANDARD) for number in (9, 10))
    assert nine.marked
    assert stamps.parse(nine.attributes[stamps.NAME].value) == MARK
    assert not ten.marked
    assert len(ten.attributes) == 10
    assert ten.stamp == MARK


def test_a_new_stamp_replaces_the_one_before() -> None:
    before = stamps.attribute(Stamp("origin", 0, 1, rule="r"))
    envelope = seal(with_attributes(9, Redrive=before), MARK, STANDARD)
    assert envelope.marked
    assert stamps.parse(envelope.attributes[stamps.NAME].value) == MARK
    assert len(envelope.attributes) == 10
    assert envelope.kept_as is None


def test_a_stamp_that_is_not_ours_is_never_sent_on_under_its_name() -> None:
    forged = letter("x" * 2_000, attributes={stamps.NAME: FORGED, "a": Attribute("String", "x")})
    envelope = seal(forged, MARK, QueueTraits(max_bytes=forged.size))
    assert not envelope.marked
    assert dict(envelope.attributes) == {"Redriv0": FORGED, "a": Attribute("String", "x")}


def test_a_stamp_may_fill_the_queues_limit_exactly() -> None:
    short = letter("x" * 100)
    full = seal(short, MARK, STANDARD).size
    assert seal(short, MARK, QueueTraits(max_bytes=full)).marked
    assert not seal(short, MARK, QueueTraits(max_bytes=full - 1)).marked


@each_row(
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


@each_row(
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


def test_a_letter_with_room_for_its_stamp_is_sent_without_a_delay() -> None:
    assert seal(letter(), MARK, STANDARD).delay == 0


def test_a_letter_without_room_waits_five_seconds_for_its_record() -> None:
    crowded = with_attributes(10)
    assert seal(crowded, MARK, STANDARD).delay == 5
    assert seal(crowded, MARK, STANDARD, 7).delay == 7
    assert seal(crowded, MARK, STANDARD, consumed=False).delay == 0


def test_a_queue_that_says_nothing_has_the_limits_of_a_new_one() -> None:
    """SQS: 1 MiB, and four days."""
    assert (STANDARD.fifo, STANDARD.max_bytes, STANDARD.retention) == (False, 2**20, 4 * 86_400)


def test_copies_whose_ids_differ_in_one_character_have_different_deduplication_ids() -> None:
    """SQS would swallow the second copy for good."""
    copy = "0e7ea9ae-9b17-4a3e-8c5a-4f4e4f1bb1a1"
    others = {copy[:at] + "x" + copy[at + 1 :] for at in range(len(copy))}
    assert len({deduplication_id(other) for other in {copy, *others}}) == len(copy) + 1


def test_live_messages_go_before_a_run_on_a_standard_queue_alone() -> None:
    ungrouped, mark = Letter("copy", "{}"), Stamp("origin", run="0123456789abcdef")
    assert seal(ungrouped, mark, STANDARD).group == "replay:0123456789abcdef"
    assert seal(ungrouped, mark, STANDARD, consumed=False).group is None
    assert seal(ungrouped, mark, FIFO).group is None
    returned = Letter("copy", "{}", {}, {"MessageGroupId": "replay:fedcba9876543210"})
    assert seal(returned, mark, STANDARD).group == "replay:0123456789abcdef"
    assert seal(returned, Stamp("origin"), STANDARD).group is None
    grouped = Letter("copy", "{}", {}, {"MessageGroupId": "replay:ours"})
    assert seal(grouped, mark, STANDARD).group == "replay:ours"
