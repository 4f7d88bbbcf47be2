"""A text in a cell is read as it was meant, and what is strange about it is said."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from deadletter.rules.typed import meant, nearest, notes_of_pattern, notes_of_value, several
from tests.each_row import each_row


@each_row(
    ("typed", "is_meant"),
    [
        ("cedar", "cedar"),
        (" cedar\u00a0", "cedar"),
        ("\u200bce\u200bdar\ufeff", "ce\u200bdar"),
        ('"cedar"', "cedar"),
        ("' cedar '", "cedar"),
        ("\u201ccedar\u201d", "cedar"),
        ("\u201ecedar\u201c", "cedar"),
        ('"cedar', '"cedar'),
        ("\"cedar'", "\"cedar'"),
        ('"a" and "b"', '"a" and "b"'),
        ('""', '""'),
        ("\"'cedar'\"", "'cedar'"),
        ("\U0001f332", "\U0001f332"),
        ("  ", ""),
    ],
)
def test_what_a_clipboard_adds_is_left_out(typed: str, is_meant: str) -> None:
    assert meant(typed) == is_meant


@each_row(
    ("typed", "values"),
    [
        ("cedar", []),
        ("cedar,birch", ["cedar", "birch"]),
        ('"cedar"; "birch";', ["cedar", "birch"]),
        ("cedar\r\nbirch\n", ["cedar", "birch"]),
        ("cedar,", []),
        ("Acme Corp", []),
        ('["cedar"]', ["cedar"]),
        ("[42, true]", [42, True]),
        ('[{"a": 1}]', []),
        ("[cedar]", []),
        ("[", []),
    ],
)
def test_several_values_in_one_cell_are_told_apart(typed: str, values: list[Any]) -> None:
    assert list(several(typed)) == values


def test_the_nearest_name_is_found_in_any_case() -> None:
    assert nearest("TENANT_ID ", ["messageType", "tenantId"]) == "tenantId"
    assert nearest("region", ["messageType", "tenantId"]) is None
    assert nearest("tenantId" * 10_000, ["tenantId"]) is None


@each_row(
    ("typed", "note"),
    [
        (" cedar", "spaces around t are left out"),
        ("cedar\u200b", "invisible characters around t are left out"),
        ("'cedar'", "quotes around t are left out"),
        ("", "t is empty: it matches messages whose t is an empty text"),
        ("ced?r", "? has no special meaning in t: use a pattern with wildcard, or a list"),
        ("ce\u200bdar\u200d2", "t holds characters that can't be seen: U+200B, U+200D"),
        ("Acme\u00a0Corp", "t holds characters that can't be seen: U+00A0"),
        *(
            (typed, f"{typed[-1]} at an end of t belongs to the value")
            for typed in (
                "cedar,",
                "cedar;",
                "\u201dcedar\u201d",
                "''cedar''",
                "cedar]",
            )
        ),
        ('"cedar', '" at an end of t belongs to the value'),
        ("\u00bbcedar\u00ab", "\u00bb\u00ab at an end of t belongs to the value"),
        ("\u201ecedar\u201d", "\u201e\u201d at an end of t belongs to the value"),
        ("\u300ccedar\u300d", "\u300c\u300d at an end of t belongs to the value"),
        ("[cedar]", "[] at an end of t belongs to the value"),
        ("ced\u0430r", "t mixes letters that look alike: CYRILLIC, LATIN"),
        ("cedar\ufe0f", "t holds characters that can't be seen: U+FE0F"),
        ("cedar\u2800", "t holds characters that can't be seen: U+2800"),
        ("\uff14\uff12", "t holds characters that look like others: typed anew it is '42'"),
    ],
)
def test_what_is_strange_about_a_value_is_said(typed: str, note: str) -> None:
    assert list(notes_of_value("t", typed)) == [note]


@each_row(
    "typed",
    ["cedar", "Acme Corp", "42", "caf\u00e9", "\u6771\u4eac", "a-b_c/d", "Acme Inc.", "/a/"],
)
def test_an_ordinary_value_is_not_strange(typed: str) -> None:
    assert list(notes_of_value("t", typed)) == []


@each_row(
    ("pattern", "notes"),
    [
        ({"body": {"n": [1], "t": ["a"]}}, []),
        (
            {"body": {"n": ["1"]}},
            ["body.n is the text '1': messages with the number 1 do not match"],
        ),
        ({"body": {"n": ["1", 1]}}, []),
        ({"body": {"n": ["007"]}}, []),
        ({"context": {"n": ["1"]}}, []),
        ({"body": {"n": ["a*"]}}, ["* is no wildcard in a plain value of body.n: use wildcard"]),
        ({"body": {"n": [{"wildcard": "a*"}]}}, []),
        (
            {"body": {"n": [{"suffix": "*a"}]}},
            ["* is no wildcard in suffix of body.n: use wildcard"],
        ),
        (
            {"$or": [{"body": {"n": ["*"]}}, {"body": {"m": ["x"]}}]},
            ["* is no wildcard in a plain value of body.n: use wildcard"],
        ),
        (
            {"context": {"t": [{"anything-but": {"prefix": "*"}}, {"anything-but": ["*"]}]}},
            [],
        ),
        (
            {"context": {"t": [{"prefix": "ce\u200bdar"}]}},
            ["context.t holds characters that can't be seen: U+200B"],
        ),
    ],
)
def test_what_is_strange_about_a_pattern_is_said(pattern: Any, notes: list[str]) -> None:
    assert list(notes_of_pattern(pattern)) == notes


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    assert meant(meant(text)) == meant(text) or meant(text)[0] in "\"'`\u201c\u201e\u2018\u00ab"
    several(text)
    nearest(text, ["tenantId"])
    list(notes_of_value("t", text))
    list(notes_of_pattern({"body": {"t": [text, {"prefix": text}]}}))
