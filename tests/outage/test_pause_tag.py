"""The tag that remembers a pause: what is written is read again, and nothing else is ours."""

from __future__ import annotations

import re

import pytest

from deadletter.circuit.state import Pollers
from deadletter.outage.mapping import Limits, PauseTag
from tests.each_row import each_row

# What AWS takes as the value of a tag.
AWS_VALUE = re.compile(r"[\w .:/=+@-]{0,256}", re.ASCII)

TAGS = [
    PauseTag(7, Limits(50), 1_800_000_000.0),
    PauseTag(0, Limits(), 0.0),
    PauseTag(123_456, Limits(pollers=Pollers(2, 2_000)), 1_800_000_000.0),
]


@pytest.mark.parametrize("tag", TAGS)
def test_a_tag_reads_as_it_was_written_in_letters_that_aws_takes(tag: PauseTag) -> None:
    assert PauseTag.from_value(tag.to_value()) == tag
    assert AWS_VALUE.fullmatch(tag.to_value())


def test_the_value_is_spelled_as_documented() -> None:
    values = [tag.to_value() for tag in TAGS]
    assert values == [
        "g=7/c=50/p=-/t=1800000000",
        "g=0/c=-/p=-/t=0",
        "g=123456/c=-/p=2-2000/t=1800000000",
    ]


@each_row(
    "value",
    [
        *("", "yes", '{"g": 1}', "g=1/c=50/p=-", "g=1/c=50/p=-/t=", "g=1/c=fifty/p=-/t=1"),
        *("g=1/c=50/p=2/t=1", "g=-1/c=50/p=-/t=1", "g=1/c=50/p=-/t=1 ", "g=1/c=\u0665/p=-/t=1"),
        "g=1/c=50/p=-/t=" + "9" * 5_000,
    ],
)
def test_a_value_of_somebody_else_is_no_pause(value: str) -> None:
    assert PauseTag.from_value(value) is None
