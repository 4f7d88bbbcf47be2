"""What a person means by a text in a cell, and what is strange about it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final
from unicodedata import category, normalize
from unicodedata import name as name_of

from deadletter.message.strict_json import Unreadable, read_json
from deadletter.rules.operators import RESERVED

# Opening quotes of keyboards and text processors, with those that close them.
_QUOTES: Final[Mapping[str, str]] = {
    '"': '"',
    "'": "'",
    "`": "`",
    "\u201c": "\u201d",
    "\u201e": "\u201c",
    "\u2018": "\u2019",
    "\u00ab": "\u00bb",
}

# Categories of Unicode: format and control characters, spaces and ends of lines.
_UNSEEN: Final = frozenset({"Cf", "Cc", "Zs", "Zl", "Zp"})

# They show nothing, and belong to a value all the same.
_BLANK: Final = "\ufe0f\u2800"

# Categories of Unicode: quotes, brackets and punctuation; and what many a name begins or ends with.
_AROUND: Final = frozenset({"Pi", "Pf", "Ps", "Pe", "Po"})
_OF_NAMES: Final = "./:#@&!"

# Writing systems with letters that look alike.
_ALIKE: Final = frozenset({"LATIN", "CYRILLIC", "GREEK"})

# With a meaning in other languages of patterns.
_SIGNS: Final = "*?^$|%"

# Between values in one cell. A space is a part of many names.
_BETWEEN: Final = re.compile(r"[,;\r\n]")

# Operators of patterns in which a star is a character like any other.
_WITHOUT_STARS: Final = ("prefix", "suffix", "equals-ignore-case")

# Characters: nothing that is longer is a slip for a name.
_LONGEST_NAME: Final = 100

_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")


def meant(text: str) -> str:
    """The text without what a clipboard adds to it.

    That are spaces and invisible characters around it, and one pair of quotes.
    """
    bare = _bare(text)
    return _bare(bare[1:-1]) if _is_quoted(bare) else bare


def several(text: str) -> Sequence[Any]:
    """The values in a text that holds more than one, or a list; empty if it is one value."""
    bare = _bare(text)
    if bare.startswith("["):
        try:
            listed = read_json(bare)
        except Unreadable:
            listed = None
        if isinstance(listed, list) and all(isinstance(each, str | int | float) for each in listed):
            return listed
    values = [meant(part) for part in _BETWEEN.split(bare)]
    values = [value for value in values if value]
    return values if len(values) > 1 else ()


def nearest(typed: str, known: Sequence[str]) -> str | None:
    """The known name that is spelled most like a typed one, in any case; None if none is near."""
    folded = {name.casefold(): name for name in sorted(known)}
    near = get_close_matches(_bare(typed[:_LONGEST_NAME]).casefold(), folded, n=1)
    return folded[near[0]] if near else None


def notes_of_value(name: str, text: str) -> Iterator[str]:
    """What is strange about the text of a column that stands for one value, a sentence each."""
    bare, value = _bare(text), meant(text)
    if text != text.strip():
        yield f"spaces around {name} are left out"
    if text.strip() != bare:
        yield f"invisible characters around {name} are left out"
    if _is_quoted(bare):
        yield f"quotes around {name} are left out"
    if not value:
        yield f"{name} is empty: it matches messages whose {name} is an empty text"
    if around := "".join(sign for sign in dict.fromkeys(value[:1] + value[-1:]) if _is_odd(sign)):
        yield f"{around} at an end of {name} belongs to the value"
    if signs := "".join(sign for sign in _SIGNS if sign in value):
        yield f"{signs} has no special meaning in {name}: use a pattern with wildcard, or a list"
    yield from _notes_of_characters(name, value)


def notes_of_pattern(pattern: Mapping[str, Any]) -> Iterator[str]:
    """What is strange about the texts in a pattern, a sentence each."""
    for path, operator, text, beside in _texts(pattern, ""):
        yield from _notes_of_characters(path, text)
        if operator in ("", *_WITHOUT_STARS) and "*" in text:
            yield f"* is no wildcard in {operator or 'a plain value'} of {path}: use wildcard"
        if operator == "" and path.startswith("body.") and _NUMBER.fullmatch(text):
            number = read_json(text)
            if number not in beside:
                yield f"{path} is the text {text!r}: messages with the number {text} do not match"


def _texts(branch: Any, path: str) -> Iterator[tuple[str, str, str, Sequence[Any]]]:
    """Each text in a pattern: its path, its operator ("" for a plain value), and its list."""
    if isinstance(branch, Mapping):
        for name, inner in branch.items():
            yield from _texts(inner, path if name == "$or" else f"{path}.{name}".lstrip("."))
        return
    for entry in branch if isinstance(branch, list | tuple) else ():
        if isinstance(entry, str):
            yield path, "", entry, branch
        elif isinstance(entry, Mapping):
            for operator, operand in entry.items():
                if isinstance(operand, str):
                    yield path, operator, operand, branch
                elif operator not in RESERVED:
                    # A branch of `$or`.
                    yield from _texts({operator: operand}, path)


def _notes_of_characters(name: str, text: str) -> Iterator[str]:
    if text.isascii() and text.isprintable():
        return
    hidden = [char for char in text if char in _BLANK or (char != " " and _is_unseen(char))]
    unseen = sorted({f"U+{ord(char):04X}" for char in hidden})
    if unseen:
        yield f"{name} holds characters that can't be seen: {', '.join(unseen)}"
    usual = normalize("NFKC", text)
    if usual != text and not unseen:
        yield f"{name} holds characters that look like others: typed anew it is {usual!r}"
    scripts = {name_of(char, "").partition(" ")[0] for char in text} & _ALIKE
    if len(scripts) > 1:
        yield f"{name} mixes letters that look alike: {', '.join(sorted(scripts))}"


def _bare(text: str) -> str:
    start, end = 0, len(text)
    while start < end and _is_unseen(text[start]):
        start += 1
    while start < end and _is_unseen(text[end - 1]):
        end -= 1
    return text[start:end]


def _is_unseen(character: str) -> bool:
    if character.isascii():
        return not character.isprintable() or character == " "
    return category(character) in _UNSEEN


def _is_odd(character: str) -> bool:
    return category(character) in _AROUND and character not in _OF_NAMES + _SIGNS


def _is_quoted(text: str) -> bool:
    pair = {text[0], text[-1]} if len(text) > 2 else set()
    return bool(pair) and _QUOTES.get(text[0]) == text[-1] and not pair & {*text[1:-1]}
