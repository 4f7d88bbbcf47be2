"""How envelopes are put together for SQS."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from deadletter.message.envelope import Envelope
from deadletter.message.letter import MAX_BYTES
from deadletter.message.queue import MAX_BATCH, Depth, batches, waves
from deadletter.message.stamp import Stamp
from tests.samples import letter, taken

KIB = 1024
_BODIES = {size: "x" * size for size in (0, 1, 100 * KIB, 300 * KIB, 1024 * KIB - 1, 1024 * KIB)}


def envelope(number: int, size: int = 0, group: str | None = None) -> Envelope:
    return Envelope(str(number), _BODIES[size], {}, Stamp("o"), marked=False, group=group)


sized = st.lists(st.sampled_from(sorted(_BODIES)), max_size=30).map(
    lambda sizes: [envelope(number, size) for number, size in enumerate(sizes)]
)


@given(sized)
def test_a_batch_is_at_most_ten_messages_and_a_mebibyte_in_order(envelopes: list[Envelope]) -> None:
    found = list(batches(envelopes))
    assert [one for batch in found for one in batch] == envelopes
    for batch in found:
        assert 1 <= len(batch) <= MAX_BATCH
        assert sum(one.size for one in batch) <= MAX_BYTES


@given(sized)
def test_no_batch_ends_before_it_must(envelopes: list[Envelope]) -> None:
    found = list(batches(envelopes))
    for batch, following in pairwise(found):
        full = len(batch) == MAX_BATCH
        assert full or sum(one.size for one in batch) + following[0].size > MAX_BYTES


grouped = st.lists(st.sampled_from(["g", "h", "i", None]), max_size=20).map(
    lambda groups: [envelope(number, group=group) for number, group in enumerate(groups)]
)


@given(grouped)
def test_on_fifo_a_wave_holds_one_letter_a_group_and_groups_keep_their_order(
    envelopes: list[Envelope],
) -> None:
    found = list(waves(envelopes, fifo=True))
    flat = [one for wave in found for one in wave]
    assert sorted(int(one.copy) for one in flat) == list(range(len(envelopes)))
    for wave in found:
        assert wave
        assert max(Counter(one.group for one in wave).values()) == 1
    for group in {one.group for one in envelopes}:
        in_group = [int(one.copy) for one in flat if one.group == group]
        assert in_group == sorted(in_group)


@given(grouped)
def test_there_are_as_many_waves_as_letters_in_the_largest_group(envelopes: list[Envelope]) -> None:
    sizes = Counter(one.group for one in envelopes)
    assert len(list(waves(envelopes, fifo=True))) == max(sizes.values(), default=0)


@given(grouped)
def test_elsewhere_everything_goes_out_at_once(envelopes: list[Envelope]) -> None:
    assert list(waves(envelopes, fifo=False)) == ([envelopes] if envelopes else [])


def test_a_receipt_handle_never_shows_in_print() -> None:
    assert "handle of m1" not in repr(taken(letter()))


def test_a_queues_depth_is_everything_in_it() -> None:
    assert Depth(1, 20, 300).total == 321
