"""The stamp of a letter, and the senders whose stamps are believed."""

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
from tests.each_row import each_row
from tests.samples import NOW, REDRIVER, json_values, letter
from tests.samples import stamps as any_stamps

TRUSTED = frozenset({REDRIVER, "123456789012"})
MARK = Stamp("origin", 3, 1_789_000_000_000, "AIDAPRODUCER", rule="r")


def stamped(mark: Stamp, sender: str) -> Letter:
    return letter(attributes={stamps.NAME: stamps.attribute(mark)}, SenderId=sender)


@pytest.mark.parametrize("sender", [REDRIVER, f"{REDRIVER}:session", "123456789012"])
def test_a_stamp_is_believed_if_one_of_our_roles_sent_the_letter(sender: str) -> None:
    assert read(stamped(MARK, sender), TRUSTED) == StampReading(MARK)


@each_row(
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
def test_a_stamp_of_another_sender_is_ignored_and_reported(sender: str) -> None:
    forged = stamped(MARK, sender)
    assert read(forged, TRUSTED) == StampReading(initial_stamp(forged), forged=True, foreign=1)


def test_without_an_attribute_a_letter_is_in_its_first_life() -> None:
    original = letter(message_id="m7")
    assert read(original, TRUSTED) == StampReading(
        Stamp("m7", 0, 1_789_999_000_000, "AIDAPRODUCER")
    )


def test_a_malformed_stamp_of_a_trusted_sender_is_forged() -> None:
    garbled = letter(attributes={stamps.NAME: Attribute("String", "[]")}, SenderId=REDRIVER)
    assert read(garbled, TRUSTED) == StampReading(initial_stamp(garbled), forged=True)


@each_row(
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
        *(
            json.dumps({"origin": "o", "attempt": 1} | huge)
            for huge in (
                {"first_sent": 10**400},
                {"at": 10**400},
                {"at": -(10**400)},
                {"attempt": 10**400, "base": 10**400, "spared": 10**400},
            )
        ),
        '{"origin": "o", "attempt": -1}',
        '{"origin": "o", "attempt": true}',
        '{"origin": "o", "attempt": 1.5}',
        '{"origin": "o", "attempt": "1"}',
        '{"origin": "o", "attempt": null}',
        '{"origin": "o", "attempt": NaN}',
        '{"origin": "o", "attempt": %s}' % ("9" * 5_000),
        '{"origin": "o", "first_sent": -1}',
        '{"origin": "o", "base": -1}',
        '{"origin": "o", "attempt": 1, "base": 3}',
        '{"origin": "o", "attempt": 1, "spared": 3}',
        '{"origin": "o", "base": "1"}',
        '{"origin": "o", "first_sent": Infinity}',
        '{"origin": "o", "rule": 1}',
        '{"origin": "o", "at": "now"}',
        '{"origin": "o", "key": null}',
        '{"origin": "o", "key": "7"}',
        '{"origin": "o", "key": "%s"}' % ("A" * 64),
        '{"origin": "o", "key": "%s\\n"}' % ("a" * 64),
        '{"origin": "o", "key": "%s"}' % ("a" * 1_000_000),
        '{"origin": "o", "key": {"S": "%s"}}' % ("a" * 64),
        b"\xff\xfe\xfa",
        b'{"origin": "\xff"}',
    ],
)
def test_text_in_another_form_is_not_a_stamp(text: str | bytes) -> None:
    assert parse(text) is None


@given(json_values)
def test_reading_a_stamp_never_raises(data: Any) -> None:
    for candidate in (
        data,
        {"origin": data},
        *({"origin": "o", key: data} for key in to_data(MARK)),
    ):
        stamp = from_data(candidate)
        assert stamp is None or (stamp.attempt >= 0 and stamp.origin)


@given(any_stamps)
def test_a_stamp_survives_its_attribute(mark: Stamp) -> None:
    # An empty text is not sent.
    assert parse(stamps.attribute(mark).value) == mark


def test_a_stamp_says_nothing_of_lives_that_it_does_not_except() -> None:
    assert not {"base", "spared"} & to_data(Stamp("o", 3)).keys()
    assert to_data(Stamp("o", 3, base=4, spared=4)).items() >= {"base": 4, "spared": 4}.items()


@pytest.mark.parametrize(("attempt", "base", "used"), [(0, 0, 0), (5, 2, 3), (0, 1, 0)])
def test_attempts_used_leaves_out_the_base(attempt: int, base: int, used: int) -> None:
    assert Stamp("o", attempt, base=base).attempts_used == used


def test_fields_of_a_later_version_are_skipped() -> None:
    assert parse('{"origin": "o", "attempt": 2, "colour": "red"}') == Stamp("o", 2)


@given(st.text(max_size=400))
def test_the_attribute_is_plain_ascii_and_short(because: str) -> None:
    attribute = stamps.attribute(replace(MARK, because=because))
    assert attribute.data_type == "String"
    assert isinstance(attribute.value, str)
    assert all(" " <= character <= "~" for character in attribute.value)
    reason = json.loads(attribute.value).get("because", "")
    assert because.startswith(reason)
    assert len(reason) == min(200, len(because))


def test_age_counts_from_the_first_send() -> None:
    assert Stamp("o", first_sent=1_789_999_990_500).age(NOW) == 9.5
    assert Stamp("o", first_sent=1_790_000_001_000).age(NOW) == 0.0


def test_the_age_is_zero_if_the_first_send_is_unknown() -> None:
    assert initial_stamp(Letter("m", "x")).age(NOW) == 0.0


def test_a_long_explanation_is_cut_to_two_hundred_characters() -> None:
    """With it the stamp would not fit where the letter is large."""
    long = json.loads(stamps.attribute(replace(MARK, because="x" * 300)).value)
    assert long["because"] == "x" * 200


def test_a_stamp_without_counts_is_of_a_first_life_and_is_not_forged() -> None:
    assert (Stamp("origin").attempt, Stamp("origin").first_sent) == (0, 0)
    assert Stamp("origin").age(NOW) == 0.0
    assert from_data({"origin": "origin"}) == Stamp("origin", 0, 0)
    assert not StampReading(MARK).forged


TEN = {f"a{number}": Attribute("String", "x") for number in range(10)}
NINE = {name: TEN[name] for name in list(TEN)[:9]}
CARRIED = {stamps.NAME: stamps.attribute(MARK)}


@each_row(
    ("attributes", "sender", "may_be"),
    [
        ({}, "AIDAPRODUCER", False),
        (NINE, "AIDAPRODUCER", False),
        (TEN, "AIDAPRODUCER", True),
        # A producer's own attribute `Redrive` is no stamp that we left out.
        (CARRIED, "AIDAPRODUCER", False),
        ({**NINE, **CARRIED}, "AIDAPRODUCER", True),
        ({}, REDRIVER, True),
        (TEN, REDRIVER, True),
        (CARRIED, REDRIVER, False),
        ({**NINE, **CARRIED}, REDRIVER, False),
        ({stamps.NAME: Attribute("String", "{}")}, REDRIVER, True),
    ],
)
def test_the_ledger_may_keep_the_stamp_of_a_letter_that_carries_none_of_ours(
    attributes: dict[str, Attribute], sender: str, may_be: bool
) -> None:
    assert (
        stamps.may_be_in_ledger(letter(attributes=attributes, SenderId=sender), TRUSTED) is may_be
    )


@each_row(
    ("name", "reserved"),
    [
        ("Redrive", True),
        ("Redrive-original", True),
        ("Redriv0", True),
        ("Redriv9", True),
        ("Redriven", False),
        ("Redriv", False),
        ("Redrivx", False),
        ("Redriv10", False),
        ("Reason7", False),
        ("tenant1", False),
        ("redrive", False),
    ],
)
def test_only_the_names_that_we_give_are_reserved(name: str, reserved: bool) -> None:
    assert stamps.is_reserved(name) is reserved
