"""Texts of errors are cut into the program's words and values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.failure.literals import literals_of
from deadletter.failure.signals import Permanent, Skip, Transient
from deadletter.failure.template import LONGEST_TEXT, Kind, Piece, pieces
from tests.each_row import each_row
from tests.failure.exceptions import caught, raised
from tests.speed import is_quick


def kept(text: str, *literals: str) -> str:
    """The text with each run of values as one "…"."""
    cut = pieces(text, frozenset(literals))
    masked = "".join("…" if piece.is_value else piece.text for piece in cut)
    return re.sub(r"…(\W*…)+", "…", masked)


def values(text: str, *literals: str) -> list[tuple[str, str]]:
    return [
        (piece.text, str(piece.kind))
        for piece in pieces(text, frozenset(literals))
        if piece.is_value
    ]


@each_row(
    ("text", "expected"),
    [
        ("12 of 3.5 at 10:30 took 12ms or 5 s, 20%", ["number"] * 6),
        ("2026-03-04T10:11:12Z", ["number"]),
        ("'a b' \"c\" `d` “e”", ["quoted"] * 4),
        ("no 'end of it", ["quoted"]),
        ("GET https://u:p@host.example/x?y=z: failed", ["url"]),
        ("to me@example.com.", ["email"]),
        ("/var/task/app.py or C:\\temp or a/b", ["path"] * 3),
        ("db.internal:5432 and app.orders.Model", ["host"] * 2),
        ("10.0.0.1", ["number"]),
        ("o-17 and 5f2 and 3f2504e0-4f89-11d3-9a0c-0305e82c3301", ["id"] * 3),
        ("customer Anna Müller", ["name"] * 2),
        ("state=closed", ["name"]),
        ("insufficient_funds NotFound can't couldn't rows", []),
        ("客户 不存在", ["name"] * 2),
    ],
)
def test_a_value_has_a_kind(text: str, expected: list[str]) -> None:
    assert [kind for _, kind in values(text)] == expected


@each_row(
    ("text", "literals", "left"),
    [
        ("customer Anna is blocked", (), "customer … is blocked"),
        ("customer Long is blocked", ("customer ", " is blocked"), "customer … is blocked"),
        ("customer Out of Stock is blocked", ("customer ", " is blocked"), "customer … is blocked"),
        ("unknown state closed", ("unknown state ",), "unknown state …"),
        (
            "cannot charge: connection refused",
            ("cannot charge: ",),
            "cannot charge: connection refused",
        ),
        # Most words of another error's text are known.
        (
            "cannot charge: the card was Xyzzy",
            ("cannot charge: ",),
            "cannot charge: the card was …",
        ),
        ("cannot charge: the card Xyzzy Grue", ("cannot charge: ",), "cannot charge: …"),
        ("no flumph", ("no flumph",), "no flumph"),
        ("flumphs", ("flumph",), "…"),
        ("a 'flumph' and a 'grue'", ("flumph",), "a 'flumph' and a …"),
        ("the flumph 'not found at all' is", ("the flumph '", "' is"), "the flumph '…' is"),
        ("the flumph 'the boys' club' is", ("the flumph '", "' is"), "the flumph '…' is"),
        ("the flumph 'it's so'", ("the flumph '",), "the flumph '…'"),
        ("got b'plain words' there", (), "got … there"),
    ],
)
def test_literals_stay_and_what_stands_between_them_is_a_value(
    text: str, literals: tuple[str, ...], left: str
) -> None:
    assert kept(text, *literals) == left


def refused(name: str) -> None:
    raise RuntimeError(f"flumph {name} is refused by {name!r} for %d reasons" % 5)


def by_format(name: str) -> None:
    form = "flumph {0:>3} of %(grue)s and {name} ends"
    raise RuntimeError(form.format(name, name=name))


def by_tuple(name: str) -> None:
    if name in ("snark", ("boojum", ("jabberwock",))):
        raise LookupError
    raise RuntimeError(name)


def test_literals_are_the_constants_of_the_code_that_raised() -> None:
    assert {"flumph ", " is refused by ", " for ", " reasons"} <= literals_of(
        caught(lambda: refused("Anna"))
    )
    assert {"flumph ", " of ", " and ", " ends"} <= literals_of(caught(lambda: by_format("Anna")))
    assert {"snark", "boojum", "jabberwock"} <= literals_of(caught(lambda: by_tuple("Anna")))
    wrapped = raised(ValueError("x"), cause=caught(lambda: by_tuple("Anna")))
    assert "boojum" in literals_of(wrapped)
    assert "Anna" not in literals_of(caught(lambda: by_tuple(str.title("anna"))))
    assert literals_of(ValueError("x")) == frozenset()
    # What is named by a single letter is often a value.
    named = literals_of(caught(lambda: re.flumph or re.q))  # type: ignore[attr-defined]
    assert "flumph" in named
    assert "q" not in named


class Late(Transient):
    """An exception of a team's own, with more of them below it."""

    def __init__(self, why: str = "flumphing") -> None:
        super().__init__(why)


class VeryLate(Late):
    """One of many forms."""

    def __init__(self, why: str = "flumphing") -> None:
        super().__init__(why)


class MuchTooLate(VeryLate):
    """The last of them."""

    def __init__(self, why: str) -> None:
        super().__init__(why)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Transient("flumphing"),
        lambda: Permanent("flumphing"),
        lambda: Skip("flumphing"),
        lambda: MuchTooLate("flumphing"),
    ],
)
def test_our_own_exceptions_note_the_literals_of_the_code_that_made_them(
    make: Callable[[], Exception],
) -> None:
    """One that was never raised has no traceback."""
    assert "flumphing" in literals_of(make())


@given(st.text(), st.frozensets(st.text(max_size=5), max_size=5))
def test_the_pieces_are_the_text(text: str, literals: frozenset[str]) -> None:
    assert "".join(piece.text for piece in pieces(text, literals)) == text[:LONGEST_TEXT]


PARTS = [
    "a ",
    "'",
    "'a",
    '"\\',
    "(",
    "\ud800",
    "word ",
    "x",
    "a-",
    "<a",
    "`",
    "a.",
    "1:",
    "a/",
    "@a",
]


@each_row("part", PARTS, ids=ascii)
def test_the_time_for_any_text_is_bounded(part: str) -> None:
    literals = frozenset(part * number for number in range(1, 300))
    found: list[list[Piece]] = []
    assert is_quick(lambda: found.append(pieces(part * 2**18, literals)), 1)
    assert sum(len(piece.text) for piece in found[0]) == LONGEST_TEXT


def test_a_word_that_was_cut_is_a_value() -> None:
    text = "1 " * 998 + "so that"
    assert pieces(text)[-1] == ("that"[: LONGEST_TEXT - 1999], Kind.NAME)


class Odd(Exception):
    """An exception whose attributes raise."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


def test_reading_the_literals_of_a_hostile_exception_never_raises() -> None:
    assert isinstance(literals_of(caught(lambda: (_ for _ in ()).throw(Odd()))), frozenset)
    namespace: dict[str, Any] = {}
    texts = ",".join(repr(f"text {number}") for number in range(50_000))
    exec(f"def work():\n    raise ValueError(({texts}))", namespace)  # noqa: S102 - a huge constant
    error = caught(namespace["work"])
    assert is_quick(lambda: literals_of(error), 0.5)
    assert len(literals_of(error)) <= 2_000

    def deep(number: int) -> None:
        deep(number + 1)

    assert literals_of(caught(lambda: deep(0)))


CLOSED = "the flumph is closed on this day"
PASSPHRASE = "the order is not found"
SETTING = "correct horse battery staple"


cache: dict[str, str] = {"customer": "Order Timeout", "form": "no {flumph} here"}
TABLE: dict[str, str] = {"customer": "Open Order"}


def of_the_module() -> None:
    raise RuntimeError(CLOSED + PASSPHRASE + SETTING, cache, TABLE)


def test_a_sentence_of_the_module_is_a_literal_and_a_setting_is_none() -> None:
    literals = literals_of(caught(of_the_module))
    assert CLOSED in literals
    data = {PASSPHRASE, SETTING, *cache.values(), *TABLE.values(), " here"}
    assert not data & literals
