"""The template of an error's text: what the program wrote, and where values stand in it.

A text is made of the program's own words and of data. The words are constants of the code that
raised the error, or stand in the vocabulary of error texts; everything else may be data.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import islice
from types import CodeType, TracebackType
from typing import Any, NamedTuple

from deadletter.failure.foreign import attribute, chain_of
from deadletter.failure.vocabulary import is_word

LONGEST_TEXT = 2_000
"""The most characters of a text that are read: an exception can quote a whole message."""

# Frames read of one traceback at each end; between them lies a recursion.
_FRAMES = 20

# Steps of a traceback: Python's own limit of a recursion is 1,000.
_STEPS = 3_000

# Constants read of one function, with those of functions inside it, and of all of them.
_CONSTANTS = 300
_LITERALS = 2_000

# Characters of one constant: a longer one is a document inside the program.
_LONGEST_LITERAL = 500

# Functions inside functions, and tuples inside tuples.
_DEPTH = 3

# Initialisers of subclasses, each of which calls the next one.
_INITIALISERS = 4

NOTED = "_deadletter_literals"
"""The attribute in which an exception keeps the literals of the code that made it."""

# What `%`, `str.format` and `string.Template` replace.
_PLACEHOLDER = re.compile(
    r"%(?:\(\w{1,60}\))?[-+ #0]{0,5}\d{0,4}(?:\.\d{1,4})?[sdrifxXeEgGc]"
    r"|\{[^{}\n]{0,80}\}|\$\{?\w{1,60}\}?"
)
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


def literals_of(error: BaseException) -> frozenset[str]:
    """The texts that the program itself contains, of the code that raised the error.

    Read from the constants of the functions in its traceback and in those of its causes, and
    from what our own exceptions noted when they were made. Placeholders cut a constant into
    pieces, as they stand in an f-string. Never raises; the number and length are bounded.
    """
    literals: set[str] = set()
    try:
        for link in chain_of(error):
            noted = attribute(link.error, NOTED)
            literals.update(noted if isinstance(noted, tuple) else ())
            for code in dict.fromkeys(_codes(link.error.__traceback__)):
                literals.update(constants_of(code))
                if len(literals) > _LITERALS:
                    break
    except Exception:  # code of a foreign class
        return frozenset()
    return frozenset(islice((item for item in literals if isinstance(item, str)), _LITERALS))


def note_literals(error: BaseException) -> None:
    """Keep with the exception the literals of the code that makes it.

    An exception that was made and not yet raised has no traceback. To be called by `__init__`;
    the initialisers of subclasses count, and the first function that is none.
    """
    frame = sys._getframe(2) if hasattr(sys, "_getframe") else None
    literals: list[str] = []
    for _ in range(_INITIALISERS):
        if frame is None:
            break
        literals += constants_of(frame.f_code)
        if frame.f_code.co_name != "__init__":
            break
        frame = frame.f_back
    setattr(error, NOTED, tuple(literals[:_LITERALS]))


def _codes(trace: TracebackType | None) -> Iterator[CodeType]:
    steps: list[TracebackType] = []
    while trace is not None and len(steps) < _STEPS:
        steps.append(trace)
        trace = trace.tb_next
    for step in (steps[:_FRAMES] + steps[_FRAMES:][-_FRAMES:])[::-1]:
        yield step.tb_frame.f_code


def constants_of(code: CodeType) -> tuple[str, ...]:
    """The texts in the constants of a function, without their placeholders."""
    texts = islice(_texts(code.co_consts, 0), _CONSTANTS)
    names = (name for name in code.co_names[:_CONSTANTS] if len(name) > 1)
    pieces = (piece for text in texts for piece in _PLACEHOLDER.split(text))
    return tuple(dict.fromkeys((*filter(_LETTERS.search, pieces), *names)))


def _texts(constants: Iterable[Any], depth: int) -> Iterator[str]:
    for constant in islice(constants, _CONSTANTS):
        if isinstance(constant, str):
            if len(constant) <= _LONGEST_LITERAL:
                yield constant
        elif depth < _DEPTH and isinstance(constant, tuple | frozenset):
            yield from _texts(constant, depth + 1)
        elif depth < _DEPTH and isinstance(constant, CodeType):
            yield from _texts(constant.co_consts, depth + 1)


# The apostrophe of "can't" is no quotation mark.
_CONTRACTED = r"'(?:s|t|re|ll|ve|d|m)(?![A-Za-z'])"

# In this order. A quotation without its closing mark ends with the text.
_TOKEN = re.compile(
    rf"""
      (?P<space>\s+)
    | (?P<quoted>
          (?!(?<=[A-Za-z]{{2}}){_CONTRACTED})'(?:\\.|[^'\\]|'(?=[A-Za-z]))*+'?
        | "(?:\\.|[^"\\])*+"?
        | `[^`]*+`? | “[^”]*+”? | ‘[^’]*+’? | «[^»]*+»?
      )
    | (?P<url>[A-Za-z][A-Za-z0-9+.-]{{0,20}}://[^\s"'<>]*)
    | (?P<email>[\w.+%-]{{1,80}}@[\w.-]+)
    | (?P<path>(?:[A-Za-z]:|~|\.{{1,2}}|[\w.-]{{1,80}})?[\\/][\w][^\s"'<>|:;,()]*)
    | (?P<number>
          [+-]?\d[\d.,:_/-]*+(?:T[\d:.,]++)?
          (?:Z|[eE][+-]?\d++|%|\s?(?:ms|s|us|µs|ns|kb|mb|gb|h|min|sec)(?!\w))?(?!\w)
      )
    | (?P<host>[\w-]{{1,63}}(?:\.[\w-]{{1,63}})++(?::\d{{1,5}}+)?|::[0-9a-fA-F:]++)
    | (?P<word>[\w-]+(?:(?<=[A-Za-z]{{2}}){_CONTRACTED})?)
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

# Parts of a joined name, such as "insufficient_funds" or "NotFound".
_MOST_PARTS = 6

# The share of known words that makes a run of words after a literal a sentence.
_SENTENCE = 0.6


def pieces(text: str, literals: frozenset[str] = frozenset()) -> list[Piece]:
    """The pieces of a text; joined, they are its first LONGEST_TEXT characters.

    A literal counts where it stands between the ends of words; the longest first. Between two
    literals of an f-string, and for a single word beside one, no word counts as known: there
    the program inserts a value. Never raises; the time is bounded.
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
        self.all = {literal for literal in literals if literal in text}
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
    ends = [start - 1]
    while (end := text.find(closing, ends[-1] + 1)) >= 0:
        if literals.at(text, end) is not None:
            return text[start:end]
        ends.append(end)
    return text[start : ends[1]] if len(ends) > 1 else text[start:]


def _classified(kind: str, token: str, before: str, literals: _Literals) -> Iterator[Piece]:
    if kind == "quoted" and token[1:-1] in literals.all and token[-1] == _CLOSING[token[0]]:
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
        if piece is not None and piece.kind is not Kind.LITERAL:
            run.append(piece)
            continue
        opens = before is not None and not _is_inside(before.text[-1])
        closes = piece is not None and not _is_inside(piece.text[0])
        is_value = (opens and closes) or ((opens or closes) and not _is_sentence(run))
        for part in run:
            is_word_of_value = is_value and part.kind is Kind.WORD
            yield Piece(part.text, Kind.NAME) if is_word_of_value else part
        run, before = [], piece
        if piece is not None:
            yield piece


def _is_sentence(run: Sequence[Piece]) -> bool:
    known = sum(piece.kind is Kind.WORD for piece in run)
    words = known + sum(piece.kind in (Kind.NAME, Kind.ID) for piece in run)
    return known > 1 and known >= _SENTENCE * words
