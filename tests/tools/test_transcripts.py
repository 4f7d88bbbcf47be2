"""Transcripts are put between their markers, and what does not fit is refused."""

from __future__ import annotations

import pytest

from tests.each_row import each_row
from tools.transcripts import NotFit, commands_of, filled, transcripts_of

PAGE = """# A page

<!-- transcript: one -->
<!-- end -->

between

<!-- transcript: two -->
<!-- end -->
"""
ONE = "$ dlq status orders\nNothing needs a person.  \n$ dlq groups orders\nNo letter.\n"


def test_a_transcript_stands_as_it_was_and_the_others_stay() -> None:
    page = filled(PAGE, {"one": ONE})
    assert transcripts_of(page) == {"one": ONE.replace(".  \n", ".\n").strip(), "two": ""}
    assert "\nbetween\n" in page


def test_a_page_that_is_filled_again_with_the_same_does_not_change() -> None:
    page = filled(PAGE, {"one": ONE})
    assert filled(page, {"one": ONE}) == page
    assert filled(page, {}) == page


def test_a_newer_transcript_takes_the_place_of_an_older_one() -> None:
    page = filled(filled(PAGE, {"one": ONE}), {"one": "$ dlq show orders\nrate 5\n"})
    assert commands_of(transcripts_of(page)["one"]) == ["dlq show orders"]


@each_row(
    "text",
    [
        "$ dlq status\nError: /tmp/build",
        "$ dlq status\nsee /home/ann/.aws",
        "$ dlq status\nCan't reach https://127.0.0.1:4566",
        "$ dlq status\n```\n",
        "no command\n",
    ],
)
def test_a_text_of_one_machine_or_that_ends_its_block_is_refused(text: str) -> None:
    with pytest.raises(NotFit):
        filled(PAGE, {"one": text})


def test_a_transcript_without_a_marker_is_refused() -> None:
    with pytest.raises(NotFit, match="no marker for three"):
        filled(PAGE, {"three": ONE})
