"""Letters of one ordering key have places in it whose texts compare as the places do."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.message.letter import Letter
from deadletter.message.stamp import Stamp, initial_stamp
from deadletter.routing.ordering import Ordering, key_hash, shard_of_hash, shard_of_key
from deadletter.rules.document import Document
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline
from tests.each_row import each_row
from tests.samples import letter

PLAIN = Pipeline("orders")
FIFO = replace(PLAIN, fifo=True)
BY_BODY = replace(PLAIN, ordering_key="body.customer", sequence="body.version")
STAMP = Stamp("o1", first_sent=1_789_999_000_000)


def key_of(pipeline: Pipeline, body: Any, mail: Letter | None = None) -> str:
    return Ordering(pipeline).key(mail or letter(), Document({"body": body}))


def place_of(body: Any, pipeline: Pipeline = BY_BODY, stamp: Stamp = STAMP, **system: str) -> str:
    return Ordering(pipeline).sequence(letter(**system), stamp, Document({"body": body}))


@each_row(
    ("body", "key"),
    [
        ({"customer": "ann"}, "ann"),
        ({"customer": 7}, "7"),
        ({"customer": 0}, "0"),
        ({"customer": ""}, ""),
        ({"customer": None}, ""),
        ({"customer": True}, ""),
        ({"customer": ["ann"]}, ""),
        ({}, ""),
        (None, ""),
    ],
)
def test_the_ordering_key_is_a_text_or_a_number_of_the_letter(body: Any, key: str) -> None:
    assert key_of(BY_BODY, body) == key


def test_a_fifo_group_is_the_key_of_letters_without_another() -> None:
    grouped = letter(MessageGroupId="g1")
    both = replace(BY_BODY, fifo=True)
    assert key_of(FIFO, {}, grouped) == "g1"
    assert key_of(both, {}, grouped) == "g1"
    assert key_of(both, {"customer": "ann"}, grouped) == "ann"
    # The tenant of a fair queue is no order.
    assert key_of(PLAIN, {}, grouped) == ""


numbers = (
    st.integers()
    | st.floats(allow_nan=False)
    | st.integers(-(10**20), 10**20)
    | st.sampled_from([0, -0.0, 2**53, 2**53 + 1, -(2**53) - 1, 10**400, -(10**400), 0.5, 1e-310])
)


@given(numbers, numbers)
def test_places_compare_as_numbers_do(first: float, second: float) -> None:
    texts = place_of({"version": first}), place_of({"version": second})
    if first < second:
        # Numbers beyond all sense may be equal: then the first send decides.
        assert texts[0] < texts[1] or max(abs(first), abs(second)) > 10**21
        assert texts[0] <= texts[1]
    elif first == second:
        assert texts[0] == texts[1]


@each_row("sign", [1, -1])
def test_a_number_beyond_all_doubles_is_placed_as_infinity_is(sign: int) -> None:
    texts = [place_of({"version": each}) for each in (sign * inf, sign * 10**400)]
    assert texts[0] == texts[1]


def test_neighbouring_versions_of_any_size_are_told_apart() -> None:
    least = 1 - 10**21
    versions = [least, least + 1, -(2**60) - 1, -(2**60), -1, -0.5, -1e-310, 0, 1e-310, 0.5]
    versions += [1, 9, 10, 2**60, 2**60 + 1, -least - 1, -least]
    texts = [place_of({"version": version}) for version in versions]
    assert texts == sorted(set(texts))
    assert place_of({"version": -0.0}) == place_of({"version": 0})


words = st.text(max_size=128).filter(lambda text: not text.isdigit())


def test_texts_of_digits_compare_as_numbers_do() -> None:
    versions = ["9", "10", "0011", 12, "13", "9a"]
    texts = [place_of({"version": version}) for version in versions]
    assert texts == sorted(texts)
    assert place_of({"version": "007"}) == place_of({"version": 7})


@given(words, words)
def test_places_compare_as_texts_do(first: str, second: str) -> None:
    texts = place_of({"version": first}), place_of({"version": second})
    assert (texts[0] < texts[1]) is (first < second)


def test_letters_without_a_place_come_last_by_their_first_send() -> None:
    later = replace(STAMP, first_sent=STAMP.first_sent + 1)
    texts = [
        place_of({"version": 10**30}),
        place_of({"version": "z"}),
        place_of({}),
        place_of({}, stamp=later),
    ]
    assert texts == sorted(set(texts))


def test_the_first_send_is_the_place_without_a_setting_then_the_number_that_sqs_gave() -> None:
    texts = [
        place_of({"version": 9}, FIFO, STAMP, SequenceNumber=number)
        for number in ("9", "10", "18870000000000000001", str(2**128))
    ]
    later = replace(STAMP, first_sent=STAMP.first_sent + 1)
    texts.append(place_of({"version": 1}, FIFO, later, SequenceNumber="1"))
    assert texts == sorted(set(texts))


def test_a_later_life_of_a_letter_keeps_the_place_of_the_first() -> None:
    """A run has sent the first one, which failed, and both were sent in the same millisecond."""
    first, second = (
        initial_stamp(letter(message_id=f"m{number}", SequenceNumber=number))
        for number in ("9", "10")
    )
    texts = [
        place_of({}, FIFO, first, SequenceNumber="12"),
        place_of({}, FIFO, second, SequenceNumber="11"),
    ]
    assert texts == sorted(set(texts))


def test_a_place_is_short_whatever_the_letter_says() -> None:
    assert len(place_of({}, FIFO, replace(STAMP, sequence="7" * 10_000))) < 129
    assert len(place_of({"version": "x" * 10_000})) == 129
    lengths = {len(place_of({"version": number})) for number in (0, -(10**400), 10**400, 1e308)}
    assert lengths == {39}


@pytest.mark.parametrize("setting", ["ordering_key", "sequence"])
def test_an_invalid_expression_is_refused_by_name(setting: str) -> None:
    with pytest.raises(BadSettings, match=setting):
        Ordering(Pipeline("orders", **{setting: "a b"}))


@given(st.text())
def test_a_key_has_a_hash_of_sixteen_digits_and_one_of_eight_shards(key: str) -> None:
    assert len(key_hash(key)) == 16
    assert shard_of_key(key) == shard_of_hash(key_hash(key)) < 8
