"""Batches and waves of envelopes for SQS."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.message.confirmation import Confirmation
from deadletter.message.envelope import Envelope
from deadletter.message.letter import MAX_BYTES
from deadletter.message.queue import (
    MAX_BATCH,
    Depth,
    ReceivedLetter,
    batches,
    check_confirmations,
    waves,
)
from deadletter.message.stamp import Stamp
from tests.samples import letter, received

KIB = 1024
_BODIES = {size: "x" * size for size in (0, 1, 100 * KIB, 300 * KIB, 1024 * KIB - 1, 1024 * KIB)}


def envelope(number: int, size: int = 0, group: str | None = None) -> Envelope:
    return Envelope(str(number), _BODIES[size], {}, Stamp("o"), marked=False, group=group)


sized = st.lists(st.sampled_from(sorted(_BODIES)), max_size=30).map(
    lambda sizes: [envelope(number, size) for number, size in enumerate(sizes)]
)


@given(sized)
def test_a_batch_is_at_most_ten_messages_and_a_mebibyte_in_order(envelopes: list[Envelope]) -> None:
    result = list(batches(envelopes))
    assert [item for batch in result for item in batch] == envelopes
    for batch in result:
        assert 1 <= len(batch) <= MAX_BATCH
        assert sum(item.size for item in batch) <= MAX_BYTES


@given(sized)
def test_a_batch_is_filled_as_far_as_the_limits_allow(envelopes: list[Envelope]) -> None:
    result = list(batches(envelopes))
    for batch, following in pairwise(result):
        full = len(batch) == MAX_BATCH
        assert full or sum(item.size for item in batch) + following[0].size > MAX_BYTES


grouped = st.lists(st.sampled_from(["g", "h", "i", None]), max_size=20).map(
    lambda groups: [envelope(number, group=group) for number, group in enumerate(groups)]
)


@given(grouped)
def test_on_fifo_a_wave_holds_one_letter_a_group_and_groups_keep_their_order(
    envelopes: list[Envelope],
) -> None:
    result = list(waves(envelopes, fifo=True))
    flat = [item for wave in result for item in wave]
    assert sorted(int(item.copy) for item in flat) == list(range(len(envelopes)))
    for wave in result:
        assert wave
        assert max(Counter(item.group for item in wave).values()) == 1
    for group in {item.group for item in envelopes}:
        in_group = [int(item.copy) for item in flat if item.group == group]
        assert in_group == sorted(in_group)


@given(grouped)
def test_there_are_as_many_waves_as_letters_in_the_largest_group(envelopes: list[Envelope]) -> None:
    sizes = Counter(item.group for item in envelopes)
    assert len(list(waves(envelopes, fifo=True))) == max(sizes.values(), default=0)


@given(grouped)
def test_on_a_standard_queue_all_letters_are_one_wave(envelopes: list[Envelope]) -> None:
    assert list(waves(envelopes, fifo=False)) == ([envelopes] if envelopes else [])


def test_a_receipt_handle_is_not_in_the_repr() -> None:
    assert "handle of m1" not in repr(received(letter()))


def test_the_total_depth_counts_visible_in_flight_and_delayed() -> None:
    assert Depth(1, 20, 300).total == 321


def test_eleven_small_envelopes_are_ten_and_one() -> None:
    assert [len(batch) for batch in batches(envelope(at) for at in range(11))] == [10, 1]


def test_one_byte_more_than_a_mebibyte_is_two_batches() -> None:
    full = [envelope(0, 1024 * KIB - 1), envelope(1, 1)]
    assert len(list(batches(full))) == 1
    assert len(list(batches([*full, envelope(2, 1)]))) == 2


def test_a_letter_is_not_deleted_with_the_confirmation_of_another() -> None:
    mine, other = received(letter(message_id="mine")), received(letter(message_id="other"))
    check_confirmations([(mine, Confirmation("mine", "main")), (other, Confirmation("other", "x"))])
    with pytest.raises(ValueError, match="the confirmation is for mine, not for this message"):
        check_confirmations(
            [(mine, Confirmation("mine", "main")), (other, Confirmation("mine", "main"))]
        )


def test_a_letter_from_a_queue_has_been_judged() -> None:
    assert not ReceivedLetter(letter(), "handle", 0.0).is_rescued
