"""Text about a message, without a word of the message."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

from deadletter.message.letter import Letter

LONGEST = 200
"""Characters that are left of any text: enough to recognise a failure by."""

# Characters of a text that are looked at; what an exception quotes can be a whole message.
_LOOKED_AT = 2_000

_MASK = "…"

_CONTRACTED = "'(?:s|t|re|ll|ve|d|m)(?![A-Za-z'])"

# What stands between quotation marks is a value; if its end is missing, so is the rest. The
# apostrophe of "can't" opens nothing.
_QUOTED = re.compile(
    rf"""(?!(?<=[A-Za-z]{{2}}){_CONTRACTED})'"""
    r"""(?:\\.|[^'\\]|'(?=[A-Za-z]))*'?"""
    r"""|"(?:\\.|[^"\\])*"?"""
    r"""|`[^`]*`?|“[^”]*”?|‘[^’]*’?|«[^»]*»?""",  # noqa: RUF001
    re.DOTALL,
)

# A chunk that is a plain word, or up to three joined by hyphens or underscores. A host name,
# a path, key=value, a number, a letter beyond ASCII: all of that may be data.
_PLAIN = re.compile(
    rf"[(\[{{<]*([A-Za-z]+(?:[_-][A-Za-z]+){{,2}}(?:{_CONTRACTED})?)[)\]}}>]*([,.;:]?)[!?.)\]]*"
)

# Characters; English words that a longer run of letters is do not appear in error texts.
_LONGEST_WORD = 16

# Lower, Capital or UPPER: any other mixture looks like a token.
_CASED = re.compile(r"[A-Z]?[a-z]*|[A-Z]+")
_HEX = re.compile(r"[a-f]{4,}")

# What follows one of these is what it names.
_SECRETIVE = frozenset(
    {"authorization", "basic", "bearer", "credential", "credentials", "key", "passphrase"}
    | {"passwd", "password", "pwd", "secret", "signature", "token"}
)

# From this many letters on a word is looked for inside other words too: a shorter one, like
# "in", stands inside almost any.
_FOUND_INSIDE = 4

_WORD = re.compile(r"[A-Za-z]+")
# However many backslashes: JSON inside JSON doubles them. Tried where a run of them begins and
# nowhere else, or a body of nothing else would take hours.
_ESCAPED = re.compile(r"(?<!\\)\\+(?:u([0-9a-fA-F]{4})|[bfnrt])")

# How often base64 stands in base64: Celery's messages do it twice.
_LAYERS = 2
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}")
_URL_SAFE = str.maketrans("-_", "+/")
_LONGER_WORD = re.compile(rf"[A-Za-z]{{{_FOUND_INSIDE},}}")


def redact(text: str, letter: Letter | None) -> str:
    """The words of `text` that are surely no data, at most LONGEST characters of them.

    What may have come from outside is left out, each run of it as one "…": what is
    quoted, every URL, host, path, number and token, the word after "password" and its
    like, and each word that also stands in the letter's body or in the value of an
    attribute. Never raises; how long `text` is makes no difference.
    """
    seen = text[:_LOOKED_AT]
    chunks = _QUOTED.sub(f" {_MASK} ", seen).split()
    if len(text) > _LOOKED_AT and chunks:
        # Where the text was cut nobody knows what the last word was.
        chunks[-1] = _MASK
    if not any(map(_PLAIN.fullmatch, chunks)):
        return _MASK if chunks else ""
    said = _Said(letter)
    found: list[str] = []
    length, secretive = 0, False
    for chunk in chunks:
        word = None if secretive else _kept(chunk, said)
        secretive = not _SECRETIVE.isdisjoint(_WORD.findall(chunk.lower()))
        if word is None and found[-1:] == [_MASK]:
            continue
        length += len(word or _MASK) + 1
        if length > LONGEST:
            break
        found.append(word or _MASK)
    return " ".join(found)


def _kept(chunk: str, said: _Said) -> str | None:
    plain = _PLAIN.fullmatch(chunk)
    if plain is None:
        return None
    words = _WORD.findall(plain[1])
    if any(_is_token(word) or said.holds(word.lower()) for word in words):
        return None
    return plain[1] + plain[2]


def _is_token(word: str) -> bool:
    too_long = len(word) > _LONGEST_WORD
    mixed = _CASED.fullmatch(word) is None
    return too_long or mixed or _HEX.fullmatch(word.lower()) is not None


class _Said:
    """What stands in a letter: its body and the values of its attributes, whatever the case."""

    def __init__(self, letter: Letter | None) -> None:
        self._text = "" if letter is None else searchable_text(letter)
        self._words: frozenset[str] | None = None

    def holds(self, word: str) -> bool:
        """Whether the word (in lower case) is in there, or one of there is inside of it."""
        if len(word) >= _FOUND_INSIDE and word in self._text:
            return True
        if self._words is None:
            self._words = frozenset(_WORD.findall(self._text))
        return word in self._words or any(
            word[start:end] in self._words
            for start in range(len(word))
            for end in range(start + _FOUND_INSIDE, len(word) + 1)
        )


def searchable_text(letter: Letter) -> str:
    """All that stands in a letter, in lower case: as it is, and without escapes and base64."""
    layer = "\n".join(_parts(letter))
    said = [layer]
    for depth in range(_LAYERS + 1):
        if "\\" in layer:
            layer = _ESCAPED.sub(_character, layer)
            said.append(layer)
        if depth < _LAYERS:
            layer = "\n".join(filter(None, map(_decoded, _BASE64.findall(layer))))
            said.append(layer)
    return "\n".join(said).lower()


def _decoded(run: str) -> str:
    """The text that stands there in base64; of bytes that are none, the words in them."""
    whole = run[:-1] if len(run) % 4 == 1 else run + "=" * (-len(run) % 4)
    raw = base64.b64decode(whole.translate(_URL_SAFE))
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = ""
    if text and "".join(text.split()).isprintable():
        return text
    return " ".join(_LONGER_WORD.findall(raw.decode("latin-1")))


def _parts(letter: Letter) -> Iterator[str]:
    yield letter.body
    # A tenant may stand in the group, which producers choose as well.
    yield from letter.system.values()
    for one in letter.attributes.values():
        # One character a byte: only ASCII letters are looked for.
        yield one.value if isinstance(one.value, str) else one.value.decode("latin-1")


def _character(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else " "
