"""Removes message content from error texts."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

from deadletter.message.letter import Letter

LONGEST = 200
"""The most characters of a redacted text: enough to recognise a failure."""

# The most characters of a text that are read: an exception can quote a whole message.
_LOOKED_AT = 2_000

_MASK = "…"

_CONTRACTED = "'(?:s|t|re|ll|ve|d|m)(?![A-Za-z'])"

# Text in quotation marks is a value; without a closing mark the value ends with the text. The
# apostrophe of "can't" is no quotation mark.
_QUOTED = re.compile(
    rf"""(?!(?<=[A-Za-z]{{2}}){_CONTRACTED})'"""
    r"""(?:\\.|[^'\\]|'(?=[A-Za-z]))*'?"""
    r"""|"(?:\\.|[^"\\])*"?"""
    r"""|`[^`]*`?|“[^”]*”?|‘[^’]*’?|«[^»]*»?""",  # noqa: RUF001
    re.DOTALL,
)

# A chunk that is a plain word, or up to three words joined by hyphens or underscores. Anything
# else may be data: a host name, a path, key=value, a number, a letter beyond ASCII.
_PLAIN = re.compile(
    rf"[(\[{{<]*([A-Za-z]+(?:[_-][A-Za-z]+){{,2}}(?:{_CONTRACTED})?)[)\]}}>]*([,.;:]?)[!?.)\]]*"
)

# Characters; error texts have no longer English words.
_LONGEST_WORD = 16

# Lower, Capital or UPPER: any other mixture may be a token.
_CASED = re.compile(r"[A-Z]?[a-z]*|[A-Z]+")
_HEX = re.compile(r"[a-f]{4,}")

# The word after one of these is a secret.
_SECRETIVE = frozenset(
    {"authorization", "basic", "bearer", "credential", "credentials", "key", "passphrase"}
    | {"passwd", "password", "pwd", "secret", "signature", "token"}
)

# Words of at least this many letters are searched inside other words too: a shorter one, like
# "in", is part of almost any text.
_SEARCHED_INSIDE = 4

_WORD = re.compile(r"[A-Za-z]+")
# Any number of backslashes: JSON inside JSON doubles them. Tried only where a run of them
# begins: otherwise a body of backslashes would take hours.
_ESCAPED = re.compile(r"(?<!\\)\\+(?:u([0-9a-fA-F]{4})|[bfnrt])")

# The depth of base64 within base64: Celery's messages have two layers.
_LAYERS = 2
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}")
_URL_SAFE = str.maketrans("-_", "+/")
_LONGER_WORD = re.compile(rf"[A-Za-z]{{{_SEARCHED_INSIDE},}}")


def redact(text: str, letter: Letter | None) -> str:
    """The words of `text` that cannot be data, at most LONGEST characters.

    Everything that may be data is removed, and each run of it becomes one "…": quoted
    text, every URL, host, path, number and token, the word after "password" and similar
    words, and each word that is also in the letter's body or in the value of an
    attribute. Never raises. Takes no longer for a longer `text`.
    """
    beginning = text[:_LOOKED_AT]
    chunks = _QUOTED.sub(f" {_MASK} ", beginning).split()
    if len(text) > _LOOKED_AT and chunks:
        # The last word may be cut.
        chunks[-1] = _MASK
    if not any(map(_PLAIN.fullmatch, chunks)):
        return _MASK if chunks else ""
    words = _LetterWords(letter)
    redacted: list[str] = []
    length, secretive = 0, False
    for chunk in chunks:
        word = None if secretive else _harmless_word(chunk, words)
        secretive = not _SECRETIVE.isdisjoint(_WORD.findall(chunk.lower()))
        if word is None and redacted[-1:] == [_MASK]:
            continue
        length += len(word or _MASK) + 1
        if length > LONGEST:
            break
        redacted.append(word or _MASK)
    return " ".join(redacted)


def _harmless_word(chunk: str, letter_words: _LetterWords) -> str | None:
    """The chunk without its brackets, or None if it may be data."""
    plain = _PLAIN.fullmatch(chunk)
    if plain is None:
        return None
    words = _WORD.findall(plain[1])
    if any(_is_token(word) or letter_words.contain(word.lower()) for word in words):
        return None
    return plain[1] + plain[2]


def _is_token(word: str) -> bool:
    too_long = len(word) > _LONGEST_WORD
    mixed = _CASED.fullmatch(word) is None
    return too_long or mixed or _HEX.fullmatch(word.lower()) is not None


class _LetterWords:
    """The words in a letter's body and in the values of its attributes, in lower case."""

    def __init__(self, letter: Letter | None) -> None:
        self._text = "" if letter is None else searchable_text(letter)
        self._words: frozenset[str] | None = None

    def contain(self, word: str) -> bool:
        """True if the word (in lower case) is in the letter, or has a word of the letter in it."""
        if len(word) >= _SEARCHED_INSIDE and word in self._text:
            return True
        if self._words is None:
            self._words = frozenset(_WORD.findall(self._text))
        return word in self._words or any(
            word[start:end] in self._words
            for start in range(len(word))
            for end in range(start + _SEARCHED_INSIDE, len(word) + 1)
        )


def searchable_text(letter: Letter) -> str:
    """The whole text of a letter in lower case: as it is, unescaped, and decoded from base64."""
    layer = "\n".join(_parts(letter))
    layers = [layer]
    for depth in range(_LAYERS + 1):
        if "\\" in layer:
            layer = _ESCAPED.sub(_character, layer)
            layers.append(layer)
        if depth < _LAYERS:
            layer = "\n".join(filter(None, map(_decoded, _BASE64.findall(layer))))
            layers.append(layer)
    return "\n".join(layers).lower()


def _decoded(run: str) -> str:
    """The text in a run of base64; for bytes that are not text, the words in them."""
    padded = run[:-1] if len(run) % 4 == 1 else run + "=" * (-len(run) % 4)
    raw = base64.b64decode(padded.translate(_URL_SAFE))
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = ""
    if text and "".join(text.split()).isprintable():
        return text
    return " ".join(_LONGER_WORD.findall(raw.decode("latin-1")))


def _parts(letter: Letter) -> Iterator[str]:
    yield letter.body
    # The group may name a tenant: producers choose it as well.
    yield from letter.system.values()
    for attribute in letter.attributes.values():
        value = attribute.value
        # One character for each byte: only ASCII letters are searched.
        yield value if isinstance(value, str) else value.decode("latin-1")


def _character(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else " "
