"""The words of a letter: in its body, its attributes and what SQS says of it."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

from deadletter.message.letter import Letter

_WORD = re.compile(r"[A-Za-z]+")

# Any number of backslashes: JSON inside JSON doubles them. Tried only where a run of them
# begins: otherwise a body of backslashes would take hours.
_ESCAPED = re.compile(r"(?<!\\)\\+(?:u([0-9a-fA-F]{4})|[bfnrt])")

# The depth of base64 within base64: Celery's messages have two layers.
_LAYERS = 2
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}")
_URL_SAFE = str.maketrans("-_", "+/")
# In bytes that are not text, shorter runs of letters are chance.
_LONGER_WORD = re.compile(r"[A-Za-z]{4,}")

# The name of a field, in JSON, in JSON inside JSON, and as Python writes it.
_FIELD = re.compile(r"""["'][^"'\\\n]{0,64}\\{0,8}["']\s{0,8}:""")


class LetterWords:
    """The words in the values of a letter's body and in its attributes, in lower case.

    The names of its fields are left out: they are the program's as well.
    """

    def __init__(self, letter: Letter | None) -> None:
        self._letter = letter
        self._words: frozenset[str] | None = None

    def contain(self, word: str) -> bool:
        """True if the word (in lower case), its singular or its plural is in the letter."""
        if self._words is None:
            # A letter may have a mebibyte, and most errors name nothing that it could hold.
            text = "" if self._letter is None else searchable_text(self._letter)
            self._words = frozenset(_WORD.findall(text))
        return not self._words.isdisjoint((word, word.removesuffix("s"), f"{word}s"))


def searchable_text(letter: Letter) -> str:
    """The text of a letter in lower case: as it is, unescaped, and decoded from base64.

    Without the names of fields.
    """
    layer = "\n".join(_parts(letter))
    layers = [layer]
    for depth in range(_LAYERS + 1):
        if "\\" in layer:
            layer = _ESCAPED.sub(_character, layer)
            layers.append(layer)
        if depth < _LAYERS:
            layer = "\n".join(filter(None, map(_decoded, _BASE64.findall(layer))))
            layers.append(layer)
    return "\n".join(_FIELD.sub(" ", layer) for layer in layers).lower()


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
