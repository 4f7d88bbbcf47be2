"""The expiry that a sender wrote is read as a time, or counts as none. Nothing raises."""

from __future__ import annotations

from typing import Any

import pytest

from deadletter.message.letter import Attribute, Letter
from deadletter.message.stamp import Stamp
from deadletter.rules.document import Document, DocumentBuilder, moment
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline
from tests.each_row import each_row

NOON = 1_800_014_400.0
"""2027-01-15 12:00 UTC."""


@each_row(
    ("value", "time"),
    [
        (1_800_014_400, NOON),
        (1_800_014_400.5, NOON + 0.5),
        (1_800_014_400_250, NOON + 0.25),
        ("1800014400", NOON),
        ("1800014400250", NOON + 0.25),
        ("2027-01-15T12:00:00Z", NOON),
        ("2027-01-15T12:00:00.000Z", NOON),
        ("2027-01-15 13:00:00+01:00", NOON),
        ("20270115T120000Z", NOON),
        # Without an offset it is UTC, and a day lasts until its end.
        ("2027-01-15T12:00", NOON),
        ("2027-01-15", NOON + 12 * 3600),
        # "Never", as .NET writes it.
        ("9999-12-31T23:59:59.9999999Z", 253_402_300_799.999_999),
    ],
)
def test_a_time_is_read(value: Any, time: float) -> None:
    assert moment(value) == pytest.approx(time, abs=1e-3)


@each_row(
    ("value",),
    [
        (value,)
        for value in (
            *(True, False, None, [], [1_800_014_400], {}, "", " ", "soon", "never"),
            *(0, -1, -1_800_014_400, 3_600, 10**30, -(10**30), 10**4_000, 1e300, 1e18),
            # Microseconds and nanoseconds, and what lies between seconds and milliseconds.
            *(1_800_014_400_000_000, 1_800_014_400_000_000_000, 500_000_000_000),
            *("1e400", "NaN", "Infinity", "-1800014400", "0", "3600", "1" * 1_000_000),
            *("2027-13-15T12:00:00Z", "2027-01-15T25:00:00Z", "0001-01-01T00:00:00Z"),
            *("0001-01-01T00:00:00+14:00", "9999-12-31", "2027-01-15T12:00:00Z" + " " * 10**6),
            *(
                "\u0662\u0660\u0662\u0667-\u0660\u0661-\u0661\u0665",
                "2027-01-15T12:00:00Z\n2027",
                "\ud800",
                "15.01.2027",
                "2027",
            ),
        )
    ],
)
def test_what_is_no_time_is_none_and_raises_nothing(value: Any) -> None:
    assert moment(value) is None


def document(path: str, body: str, **attributes: Attribute) -> Document:
    builder = DocumentBuilder(Pipeline("orders", expires=path))
    return builder.build(Letter("m", body, attributes), Stamp("m"), None, 0.0)


def test_it_is_found_in_the_body_or_in_an_attribute() -> None:
    found = document("body.valid.until", '{"valid": {"until": 1800014400}}')
    assert (found.expires, found.undated) == (NOON, False)
    for kind, text in (("String", "2027-01-15T12:00:00Z"), ("Number", "1800014400000")):
        found = document("attributes.expires", "{}", expires=Attribute(kind, text))
        assert (found.expires, found.undated) == (NOON, False)
    found = document("body.ends || attributes.expires", '{"ends": "2027-01-15T12:00:00Z"}')
    assert found.expires == NOON


def test_a_message_without_one_has_none_and_one_that_cannot_be_read_says_so() -> None:
    assert document("body.until", "{}").expires is None
    assert not document("body.until", '{"until": null}').undated
    assert not document("body.until", "no JSON").undated
    for value in ("true", "[1800014400]", '"soon"', "-1", "3600", "{}"):
        found = document("body.until", f'{{"until": {value}}}')
        assert (found.expires, found.undated) == (None, True), value


def test_an_invalid_path_is_refused_before_a_letter_is_read() -> None:
    with pytest.raises(BadSettings, match="expires"):
        DocumentBuilder(Pipeline("orders", expires="body..until"))
