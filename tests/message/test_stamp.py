"""The attribute that a letter carries through its lives, and who may write it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.message import stamp as stamps
from deadletter.message.letter import Attribute, Letter
from deadletter.message.stamp import (
    Stamp,
    StampReading,
    from_data,
    initial_stamp,
    parse,
    read,
    to_data,
)
from tests.samples import NOW, REDRIVER, json_values, letter
from tests.samples import stamps as any_stamps

TRUSTED = frozenset({REDRIVER, "123456789012"})
MARK = Stamp("origin", 3, 1_789_000_000_000, "AIDAPRODUCER", rule="r")


def stamped(mark: Stamp, sender: str) -> Letter:
    return letter(attributes={stamps.NAME: stamps.attribute(mark)}, SenderId=sender)


@pytest.mark.parametrize("sender", [REDRIVER, f"{REDRIVER}:session", "123456789012"])
def test_a_stamp_is_believed_if_one_of_our_roles_sent_the_letter(sender: str) -> None:
    assert read(stamped(MARK, sender), TRUSTED) == StampReading(MARK)


@pytest.mark.parametrize(
    "sender",
    [
        "",
        "AIDAPRODUCER",
        f"x:{REDRIVER}",
        f"AIDAPRODUCER:{REDRIVER}",
        f"{REDRIVER}2",
        REDRIVER[:-1],
    ],
)
def test_a_stamp_of_anybody_else_is_ignored_and_reported(sender: str) -> None:
    one = stamped(MARK, sender)
    assert read(one, TRUSTED) == StampReading(initial_stamp(one), forged=True)


def test_without_an_attribute_a_letter_is_in_its_first_life() -> None:
    one = letter(message_id="m7")
    assert read(one, TRUSTED) == StampReading(Stamp("m7", 0, 1_789_999_000_000, "AIDAPRODUCER"))


def test_our_own_senders_garbage_is_no_stamp() -> None:
    one = letter(attributes={stamps.NAME: Attribute("String", "[]")}, SenderId=REDRIVER)
    assert read(one, TRUSTED) == StampReading(initial_stamp(one), forged=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        "not json",
        "[" * 100_000,
        '{"origin": ""}',
        '{"origin": 5}',
        '{"attempt": 1}',
        '{"origin": "o", "attempt": -1}',
        '{"origin": "o", "attempt": true}',
        '{"origin": "o", "attempt": 1.5}',
        '{"origin": "o", "attempt": "1"}',
        '{"origin": "o", "attempt": null}',
        '{"origin": "o", "attempt": NaN}',
        '{"origin": "o", "attempt": %s}' % ("9" * 5_000),
        '{"origin": "o", "first_sent": -1}',
        '{"origin": "o", "first_sent": Infinity}',
        '{"origin": "o", "rule": 1}',
        '{"origin": "o", "at": "now"}',
        b"\xff\xfe\xfa",
        b'{"origin": "\xff"}',
    ],
)
def test_what_we_did_not_write_is_no_stamp(text: str | bytes) -> None:
    assert parse(text) is None


@given(json_values)
def test_no_data_breaks_the_reading_of_a_stamp(data: Any) -> None:
    for candidate in (
        data,
        {"origin": data},
        *({"origin": "o", key: data} for key in to_data(MARK)),
    ):
        found = from_data(candidate)
        assert found is None or (found.attempt >= 0 and found.origin)


@given(any_stamps)
def test_a_stamp_comes_back_as_it_was(mark: Stamp) -> None:
    # Empty text says as much as none, and is not sent.
    assert parse(stamps.attribute(mark).value) == mark


def test_fields_of_a_later_version_are_skipped() -> None:
    assert parse('{"origin": "o", "attempt": 2, "colour": "red"}') == Stamp("o", 2)


@given(st.text(max_size=400))
def test_the_attribute_is_plain_ascii_and_short(because: str) -> None:
    attribute = stamps.attribute(replace(MARK, because=because))
    assert attribute.data_type == "String"
    assert isinstance(attribute.value, str)
    assert all(" " <= character <= "~" for character in attribute.value)
    said = json.loads(attribute.value).get("because", "")
    assert because.startswith(said)
    assert len(said) == min(200, len(because))


def test_age_counts_from_the_first_send() -> None:
    assert Stamp("o", first_sent=1_789_999_990_500).age(NOW) == 9.5
    assert Stamp("o", first_sent=1_790_000_001_000).age(NOW) == 0.0


def test_a_letter_whose_first_send_nobody_knows_has_no_age() -> None:
    assert initial_stamp(Letter("m", "x")).age(NOW) == 0.0
