"""The template of an error's text: what the program wrote, and where values stand in it.

A text is made of the program's own words and of data. The words are constants of the code that
raised the error, or stand in the vocabulary of error texts; everything else may be data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

from deadletter.failure.vocabulary import is_word

LONGEST_TEXT = 2_000
"""The most characters of a text that are read: an exception can quote a whole message."""

_LETTERS = re.compile(r"[^\W\d_]{2}")


class Kind(StrEnum):
    """What a piece of a text is; every kind but LITERAL, WORD and MARK is a value."""

    LITERAL = "literal"
    WORD = "word"
    MARK = "mark"
    NUMBER = "number"
    QUOTED = "quoted"
    URL = "url"
    EMAIL = "email"
    PATH = "path"
    HOST = "host"
    ID = "id"
    NAME = "name"


_HARMLESS = frozenset({Kind.LITERAL, Kind.WORD, Kind.MARK})


class Piece(NamedTuple):
    """A piece of a text.

    LITERAL is a constant of the program, WORD a word of error texts, MARK white space or one
    punctuation mark. HOST is any dotted name, ID a mixture of letters and digits, NAME any other
    word.
    """

    text: str
    kind: Kind

    @property
    def is_value(self) -> bool:
        """True if the piece may be data."""
        return self.kind not in _HARMLESS


# The apostrophe of "can't" is no quotation mark.
_CONTRACTED = r"'(?:s|t|re|ll|ve|d|m)(?![A-Za-z'])"

# In this order. A quotation without its closing mark ends with the text; an apostrophe behind a
# letter opens none, except for Python's b'' and r''.
_TOKEN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<quoted>
          (?<!\w)(?:[bBrRuU]|[bB][rR]|[rR][bB])?'(?:\\.|[^'\\]|'(?=[A-Za-z]))*+'?
        | "(?:\\.|[^"\\])*+"?
        | `[^`]*+`? | “[^”]*+”? | ‘[^’]*+’? | «[^»]*+»?
      )
    | (?P<url>[A-Za-z][A-Za-z0-9+.-]{0,20}://[^\s"'<>]*)
    | (?P<email>[\w.+%-]{1,80}@[\w.-]+)
    | (?P<path>(?:[A-Za-z]:|~|\.{1,2}|[\w.-]{1,80})?[\\/][\w][^\s"'<>|:;,()]*)
    | (?P<number>
          [+-]?\d[\d.,:_/-]*+(?:T[\d:.,]++)?
          (?:Z|[eE][+-]?\d++|%|\s?(?:ms|s|us|µs|ns|kb|mb|gb|h|min|sec)(?!\w))?(?!\w)
      )
    | (?P<host>[\w-]{1,63}(?:\.[\w-]{1,63})++(?::\d{1,5}+)?|::[0-9a-fA-F:]++)
    | (?P<word>[\w-]++(?:'[\w-]++)*+)
    | (?P<mark>.)
    """,  # noqa: RUF001
    re.VERBOSE | re.DOTALL,
)
_TRAILING = ".,;:!?)]}"
_PLAIN = re.compile(rf"[A-Za-z]+(?:{_CONTRACTED})?")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+")
_DIGIT = re.compile(r"\d")
_QUOTES = "'\"`“‘«"  # noqa: RUF001
_CLOSING = dict(zip(_QUOTES, "'\"`”’»", strict=True))  # noqa: RUF001

# Quotation marks that are looked at to find the one that closes a value.
_QUOTATION_MARKS = 20

# Parts of a joined name, such as "insufficient_funds" or "NotFound".
_MOST_PARTS = 6

# Words for each comma of a sentence; a list of values has more commas.
_CLAUSE = 5

# Letters of a literal that is not in a text by chance, as " of " may be.
_DISTINCTIVE = 4

# The end of a literal after which another error's text may stand.
_INTRODUCES = re.compile(r"([:(\[–—-]|\b(because|as|since|with|and|but)) ?$")  # noqa: RUF001

# Words of a run that is a sentence also if some of them are unknown.
_LONG = 4


def pieces(text: str, literals: frozenset[str] = frozenset()) -> list[Piece]:
    """The pieces of a text; joined, they are its first LONGEST_TEXT characters.

    A literal counts where it stands between the ends of words; the longest first. Beside a
    literal of an f-string no word counts as known: there the program inserts a value. Only after
    a colon and the like the value may be a sentence, such as the text of another error. Never
    raises; the time is bounded.
    """
    beginning = text[:LONGEST_TEXT]
    scanned = list(_scan(beginning, _Literals(literals, beginning)))
    if len(text) > LONGEST_TEXT and scanned and scanned[-1].kind is not Kind.MARK:
        # The last word may be cut.
        scanned[-1] = Piece(scanned[-1].text, Kind.NAME)
    return list(_inserted(scanned))


class _Literals:
    """The literals that stand in a text, the longest first, by their first two characters."""

    def __init__(self, literals: Iterable[str], text: str) -> None:
        self.all = {literal for literal in literals if literal and literal in text}
        self._by_start: dict[str, list[str]] = {}
        for literal in sorted(self.all, key=len, reverse=True):
            if _LETTERS.search(literal):
                self._by_start.setdefault(literal[:2], []).append(literal)

    def at(self, text: str, start: int) -> str | None:
        for literal in self._by_start.get(text[start : start + 2], ()):
            if text.startswith(literal, start) and _is_apart(text, start, start + len(literal)):
                return literal
        return None


def _is_apart(text: str, start: int, end: int) -> bool:
    """True if no word is cut at either end."""
    cut_before = start > 0 and _is_inside(text[start - 1]) and _is_inside(text[start])
    cut_after = end < len(text) and _is_inside(text[end - 1]) and _is_inside(text[end])
    return not cut_before and not cut_after


def _is_inside(character: str) -> bool:
    return character.isalnum() or character == "_"


def _scan(text: str, literals: _Literals) -> Iterator[Piece]:
    at = 0
    while at < len(text):
        literal = literals.at(text, at)
        if literal is not None:
            yield Piece(literal, Kind.LITERAL)
            at += len(literal)
            value = _quoted_by(literal, text, at, literals)
            if value:
                yield Piece(value, Kind.QUOTED)
                at += len(value)
            continue
        token = _TOKEN.match(text, at)
        assert token is not None  # the last alternative matches any character
        kind = token.lastgroup or "mark"
        for piece in _classified(kind, token[0], text[at - 1 : at], literals):
            yield piece
            at += len(piece.text)


def _quoted_by(literal: str, text: str, start: int, literals: _Literals) -> str:
    """The value that the program itself puts into quotation marks, without the closing one."""
    closing = _CLOSING.get(literal[-1])
    if closing is None or literal.count(literal[-1]) % 2 == 0:
        return ""
    closings = re.finditer(re.escape(closing), text[start:])
    ends = [start + match.start() for match in islice(closings, _QUOTATION_MARKS)]
    for end in ends:
        if literals.at(text, end) is not None:
            return text[start:end]
    # An apostrophe inside a word closes nothing.
    closed = (end for end in ends if not _is_inside(text[end + 1 : end + 2]))
    return text[start : next(closed, len(text))]


def _classified(kind: str, token: str, before: str, literals: _Literals) -> Iterator[Piece]:
    if kind == "quoted" and token[1:-1] in literals.all and token[-1] == _CLOSING.get(token[0]):
        yield Piece(token[0], Kind.MARK)
        yield Piece(token[1:-1], Kind.LITERAL)
        yield Piece(token[-1], Kind.MARK)
    elif kind in ("url", "path", "email", "number"):
        yield Piece(token.rstrip(_TRAILING) or token, Kind(kind))
    elif kind == "host":
        yield Piece(token, Kind.NUMBER if token.replace(".", "").isdecimal() else Kind.HOST)
    elif kind == "word":
        yield Piece(token, Kind.NAME if before == "=" else _kind_of_word(token))
    else:
        yield Piece(token, Kind.QUOTED if kind == "quoted" else Kind.MARK)


def _kind_of_word(token: str) -> Kind:
    if token.strip("_-") == "":
        return Kind.MARK
    if _DIGIT.search(token):
        return Kind.ID
    if _PLAIN.fullmatch(token) and _is_known(token):
        return Kind.WORD
    parts = _PARTS.findall(token) if token.isascii() else []
    joined = 2 <= len(parts) <= _MOST_PARTS
    return Kind.WORD if joined and all(map(is_word, parts)) else Kind.NAME


def _is_known(word: str) -> bool:
    stem, mark, _ = word.rpartition("'")
    return is_word(word) or (bool(mark) and is_word(stem))


def _inserted(scanned: Sequence[Piece]) -> Iterator[Piece]:
    """The pieces, with the words as values that stand where the program inserts one."""
    run: list[Piece] = []
    before: Piece | None = None
    for piece in (*scanned, None):
        if piece is not None and not _is_distinctive(piece):
            run.append(piece)
            continue
        closes = piece is not None and not _is_inside(piece.text[0])
        opens = before is not None and not _is_inside(before.text[-1])
        quotes = before is not None and _INTRODUCES.search(before.text) is not None
        is_value = closes or (opens and not (quotes and _is_sentence(run)))
        for part in run:
            is_word_of_value = is_value and part.kind is Kind.WORD
            yield Piece(part.text, Kind.NAME) if is_word_of_value else part
        run, before = [], piece
        if piece is not None:
            yield piece


def _is_distinctive(piece: Piece) -> bool:
    return piece.kind is Kind.LITERAL and sum(map(str.isalpha, piece.text)) >= _DISTINCTIVE


def _is_sentence(run: Sequence[Piece]) -> bool:
    """True for known words side by side; a list of words is no sentence, nor is a name."""
    words = [piece for piece in run if piece.kind in (Kind.WORD, Kind.NAME, Kind.ID)]
    known = sum(piece.kind is Kind.WORD for piece in words)
    pairs = zip(run, run[1:], run[2:], strict=False)
    side_by_side = any(
        first.kind is Kind.WORD and gap.text.isspace() and second.kind is Kind.WORD
        for first, gap, second in pairs
    )
    commas = sum(piece.text == "," for piece in run)
    if not side_by_side or commas > len(words) / _CLAUSE:
        return False
    if len(words) < _LONG:
        return known == len(words) and not any(piece.text.istitle() for piece in words[1:])
    return known >= _LONG - 1
