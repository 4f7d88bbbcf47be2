"""Removes message content from error texts.

What remains are words of the program and of the vocabulary of error texts. Behind the name of a
secret even those are data, up to the end of the sentence.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from deadletter.failure.secretive import (
    FUNCTION,
    LABELS,
    NAME_LIKE,
    NARROW,
    NUMBERED,
    NUMBERS,
    PERSONS,
    STATES,
    TOO,
    VERBS,
    announces_secret,
    is_secretive_word,
    parts_of,
)
from deadletter.failure.template import Kind, pieces
from deadletter.failure.vocabulary import is_word
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


LONGEST = 200
"""The most characters of a redacted text: enough to recognise a failure."""

MASK = "…"

# The most characters of a text that are read: an exception can quote a whole message.
_LOOKED_AT = 1_000

# Chunks between white space that are read; behind that many, all is data.
_MOST_CHUNKS = 100

# Words of a value at the beginning of a text; longer ones may be an error's text.
_LONGEST_SUBJECT = 3

# Behind a text of the program with one of these, the text of another error may follow.
_OPEN_ENDS = (":", ".", ",", ";", "(", "-")

# Brackets looked into; behind that many, all is data.
_MOST_BRACKETS = 40

# Chunks that may say how a secret is: a longer text is no state.
_LONGEST_STATE = 8


def redact(text: str, letter: Letter | None, literals: frozenset[str] = frozenset()) -> str:
    """The words of `text` that cannot be data, at most LONGEST characters.

    Everything that may be data is removed, and each run of it becomes one "…". What remains
    are texts of the program (`literals`) and words of the vocabulary of errors, but none that
    is also in the letter, stands where the program inserts a value, may be a person's name,
    or follows the name of a secret. A sentence of the program remains also where a word of it
    is in the letter; a single word of the program remains in quotation marks, as the name of a
    field, or as the whole text. Never raises. Takes no
    longer for a longer `text`.
    """
    reader = _Reader(_MarkedText(text, literals), LetterWords(letter))
    redacted: list[str] = []
    length = 0
    for visible in reader.visible():
        if visible == MASK and redacted[-1:] == [MASK]:
            continue
        length += len(visible) + 1
        if length > LONGEST:
            break
        redacted.append(visible)
    return " ".join(redacted)


def ledger_message(
    text: str, letter: Letter | None, literals: frozenset[str], error_type: str
) -> str:
    """The redacted text, or the type of the error if no word of the text may remain."""
    message = redact(text, letter, literals)
    return message if message.strip(f"{MASK} .,;:") or not text else error_type


@dataclass(frozen=True, slots=True)
class _Chunk:
    """What stands between white space in a text.

    `word` is what of it may remain, empty if all of it is data; `literal` is the number of the
    program's text that the word is from, 0 if it is from none, and `phrase` is True if that
    text has several words. `has_value` is True if data follows the word in the same chunk.
    `begins_line` is True for the first of a line, `coded` for an AWS code.
    """

    raw: str
    word: str
    literal: int
    phrase: bool
    has_value: bool
    begins_line: bool
    coded: bool

    @property
    def lower(self) -> str:
        """The word in lower case."""
        return self.word.lower()

    @property
    def written(self) -> str:
        """The word with the punctuation mark behind it."""
        mark = _WRITTEN.match(self.raw, self.raw.index(self.word) + len(self.word))
        return self.word + (mark[1] if mark else "")

    @property
    def is_capital(self) -> bool:
        """True if it begins with a capital, brackets aside."""
        return self.raw.lstrip(_OPENING)[:1].isupper()

    @property
    def is_data(self) -> bool:
        """True if no word of it may remain, and it is more than punctuation."""
        return not self.word and _CONTENT.search(self.raw) is not None

    @property
    def is_closed(self) -> bool:
        """True for data with an end of its own: a quotation, a bracket, a number."""
        return not self.word and _CLOSED.fullmatch(self.raw) is not None

    @property
    def ends_sentence(self) -> bool:
        """True if a sentence ends behind it, and it is no title or initial of a person."""
        end = self.raw.rstrip(_CLOSING)
        is_short = not self.word and len(end) <= _LONGEST_TITLE
        return end.endswith(("!", "?", ";")) or (end.endswith(".") and not is_short)

    @property
    def ends_clause(self) -> bool:
        """True if a value that is not secret ends behind it."""
        return self.ends_sentence or self.raw.endswith((",", ")", "]", "}"))

    @property
    def label(self) -> str:
        """The name before a value, in lower case, as in "city: …" and "city=…"."""
        match = _LABEL.match(self.raw.lstrip(_OPENING))
        return match[1].lower() if match else self.lower

    @property
    def announces_value(self) -> bool:
        """True if a value follows in the next chunk, as behind a colon."""
        return self.raw.rstrip(_CLOSING).endswith(_ANNOUNCING) or self.raw == "-"


# Characters of "Prof.", with its mark.
_LONGEST_TITLE = 5

_QUOTES = ("'", '"', "`")
_OPENING, _CLOSING = "([{<\"'`", ")]}>\"'`"
_ANNOUNCING = (":", "=", "=>", "->", "→", "–", "—", "|")  # noqa: RUF001
_WRITTEN = re.compile(rf"[{re.escape(_CLOSING)}]*([.,;:])")
_CONTENT = re.compile(r"[\w…]")
_CLOSED = re.compile(r"[(\[]*(?:…+|[\d.,]+)[)\],;]*")
_ASSIGNMENT = re.compile(r"[(\[{]?[\w.-]*=")
_GLUED = re.compile(r"[:=][^\s:=]")
_OPTION = re.compile(r"--?[A-Za-z][\w-]*")
_HEADER = re.compile(r"[A-Za-z]+(?:-[A-Za-z]+)+:")

# The word at the beginning of "key=…", "key:…" and "call(…)".
_LABEL = re.compile(r"([A-Za-z_-]+)[:=(]")
_EDGES = re.compile(
    rf"[{re.escape(_OPENING)}]*(.*?)[{re.escape(_CLOSING)}.,;:!?=。、！？：；]*",  # noqa: RUF001
    re.DOTALL,
)

# What a program writes itself is a word in any script, a class or a host. A number that it writes
# is left out: it says nothing.
_OWN_WORD = re.compile(rf"[^\d@=<>\\{MASK}]+|[A-Za-z]{{1,4}}\d{{1,2}}")
_ERROR_NAME = re.compile(r"\w+(?:Error|Exception|Failure|Fault|Timeout|Warning)")
_CAMEL = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
_MOST_PARTS = 3

# How botocore writes every error of a service: its code, then the operation.
_CODED = re.compile(r"\(([A-Za-z.]{1,80})\) when calling the ([A-Za-z]{1,60}) operation")

# What stands in these is data whatever it looks like: a key, a document in XML.
_BLOCK = re.compile(
    r"-----BEGIN.*?(?:-----END[^\n]*|\Z)"
    r"|<[^<>\s]+[^<>]*>[^<]*</(?:.*>|.*)"
    # "anna at example dot com"
    r"|\b[\w.-]{1,40}(?:\s\W?dot\W?\s[\w-]{1,40}){0,3}\s?\W?at\W?\s?[\w-]{1,40}"
    r"(?:\s\W?dot\W?\s[\w-]{1,40}){1,3}"
    r"|\b\d{1,5}\w?(?:\s[\w.'-]{1,30}){0,3}\s(?:street|road|avenue|lane|boulevard|square)\b"
    r"[^.;\n]*",
    re.DOTALL | re.IGNORECASE,
)

# A bracket behind one of these holds a row, whatever is in it.
_OF_ROWS = re.compile(
    r"(?:contains|key|params|parameters|row|value|values|=|:=)\s*\Z", re.IGNORECASE
)
_OF_DATA = re.compile(r"[,=:…\n]")
_BRACKET = re.compile(r"[()\[\]{}]")
# A path or a URL of the program stands where it inserts a value.
_IS_WORDS = re.compile(r"(?!\W*/|\w+://)")
_CHUNK = re.compile(r"\S+")
_LAST_CHUNK = re.compile(r"\S+\Z")
_PAIRS = {"(": ")", "[": "]", "{": "}"}


def _beginning(text: str) -> str:
    """What is read of a text. Its last word may be cut, and is data then."""
    beginning = text[:_LOOKED_AT]
    if len(text) > _LOOKED_AT:
        beginning = _LAST_CHUNK.sub(MASK, beginning)
    behind = next(islice(_CHUNK.finditer(beginning), _MOST_CHUNKS, None), None)
    return f"{beginning[: behind.start()]}{MASK}" if behind else beginning


def _names_value(label: str) -> bool:
    """True for the name before a value, False for a value with a colon, as in "user:pass"."""
    name = label[:-1].lower()
    return not label.endswith(":") or name in LABELS or announces_secret(name, "", has_value=True)


class _MarkedText:
    """The beginning of a text, with what each of its characters is part of."""

    def __init__(self, text: str, literals: frozenset[str]) -> None:
        self.kinds: list[Kind] = []
        self.literals: list[int] = []
        self.phrases = {0: False}
        shown: list[str] = []
        words = frozenset(filter(_IS_WORDS.match, literals))
        for number, piece in enumerate(pieces(_beginning(text), words), 1):
            size, is_literal = len(piece.text), piece.kind is Kind.LITERAL
            self.kinds += [piece.kind] * size
            self.literals += [number if is_literal else 0] * size
            self.phrases[number] = " " in piece.text
            shown.append(MASK * size if piece.kind is Kind.QUOTED else piece.text)
        self.raw = "".join(shown)
        self.coded = {match.start(group) for match in _CODED.finditer(self.raw) for group in (1, 2)}
        self._hide_blocks()
        self._hide_brackets()

    def chunks(self) -> Iterator[_Chunk]:
        """The chunks of the text, in their order."""
        before = 0
        for match in _CHUNK.finditer(self.raw):
            begins_line = before == 0 or "\n" in self.raw[before : match.start()]
            before = match.end()
            yield self._chunk(match[0], match.start(), begins_line=begins_line)

    def _chunk(self, raw: str, start: int, *, begins_line: bool) -> _Chunk:
        edges = _EDGES.fullmatch(raw)
        core_start = start + (edges.start(1) if edges else 0)
        core = edges[1] if edges else ""
        word, has_value = core if self._is_word(core, core_start) else "", False
        label = None if word else _LABEL.match(core)
        if label and self._is_word(label[1], core_start) and _names_value(label[0]):
            word, has_value = label[1], True
        literal = self.literals[core_start] if word else 0
        phrase = self.phrases[literal]
        coded = core_start in self.coded
        return _Chunk(raw, word, literal, phrase, has_value, begins_line, coded)

    def _is_word(self, core: str, start: int) -> bool:
        """True if the core of a chunk is one word that may remain."""
        if start in self.coded:
            return all(map(is_word, parts_of(core)))
        kinds = set(self.kinds[start : start + len(core)])
        if kinds == {Kind.LITERAL}:
            return _OWN_WORD.fullmatch(core) is not None and core.isprintable()
        if not core or MASK in core:
            return False
        if kinds != {Kind.WORD}:
            # A word that the vocabulary has is a value here: the program inserts it.
            return len(kinds) == 1 and is_secretive_word(core.lower()) and not is_word(core)
        if _CAMEL.search(core):
            return _ERROR_NAME.fullmatch(core) is not None
        return len(parts_of(core)) <= _MOST_PARTS

    def _hide(self, start: int, end: int) -> None:
        if any(kind is not Kind.LITERAL for kind in self.kinds[start:end]):
            self.raw = self.raw[:start] + MASK * (end - start) + self.raw[end:]

    def _hide_blocks(self) -> None:
        for match in _BLOCK.finditer(self.raw):
            self._hide(*match.span())

    def _hide_brackets(self) -> None:
        opened: list[int] = []
        for number, match in enumerate(_BRACKET.finditer(self.raw)):
            at = match.start()
            if number == _MOST_BRACKETS:
                self._hide(at, len(self.raw))
                return
            if match[0] in _PAIRS:
                opened.append(at)
            elif opened and match[0] == _PAIRS.get(self.raw[opened[-1]]):
                self._hide_data(opened.pop(), at + 1)
        for start in opened:
            self._hide_data(start, len(self.raw))

    def _hide_data(self, start: int, end: int) -> None:
        """Hide a bracket that holds a row, an object or a call."""
        of_rows = _OF_ROWS.search(self.raw, max(0, start - 20), start)
        if self.raw[start] == "{" or of_rows or _OF_DATA.search(self.raw, start + 1, end):
            self._hide(start, end)


def _assigns(chunk: _Chunk) -> bool:
    """True if all up to the end of the clause is a value, as behind "city=Long"."""
    own = chunk.literal and chunk.phrase and not chunk.has_value
    return not own and _ASSIGNMENT.match(chunk.raw) is not None and not chunk.ends_clause


class _Reader:
    """Reads a text from its beginning, and knows what the words before mean for the next ones."""

    def __init__(self, text: _MarkedText, letter_words: LetterWords) -> None:
        self._chunks = list(text.chunks())
        self._letter_words = letter_words
        # Whether the program inserts a value here, behind a text of its own or before one.
        self._is_inserted = self._begins_with_value()
        # The chunk that named a secret in this sentence.
        self._secret: _Chunk | None = None
        # Whether all is data: up to the end of the sentence, of the line, and of the clause.
        self._hides_sentence = self._hides_line = self._hides_clause = False
        # Whether the chunk before was data with a capital: a part of a name.
        self._after_name = False

    def visible(self) -> Iterator[str]:
        """What remains of each chunk; MASK for data, nothing for punctuation."""
        for at, chunk in enumerate(self._chunks):
            self._enter(chunk, at)
            remains = self._remains(chunk, at)
            if remains:
                yield chunk.word if chunk.has_value else chunk.written
            if chunk.has_value or (not remains and (chunk.word or chunk.is_data)):
                yield MASK
            if chunk.word or chunk.is_data:
                self._after_name = not remains and chunk.is_capital and not chunk.announces_value
            self._expect(chunk, at)
            self._leave(chunk)

    def _enter(self, chunk: _Chunk, at: int) -> None:
        """The program's own sentence goes on behind a value, and a line ends a clause."""
        before = self._before(at)
        if before.phrase and not before.raw.endswith(_OPEN_ENDS):
            self._is_inserted = True
        if chunk.phrase:
            self._is_inserted = False
        goes_on = chunk.phrase and (self._secret is None or chunk.literal != self._secret.literal)
        if goes_on:
            self._hides_sentence = False
        if goes_on or chunk.begins_line:
            self._hides_line = self._hides_clause = False

    def _begins_with_value(self) -> bool:
        """True if the text begins as in f"{name} is blocked"."""
        for chunk in self._chunks[: _LONGEST_SUBJECT + 1]:
            if chunk.phrase:
                return chunk.lower in FUNCTION and chunk is not self._chunks[0]
        return False

    def _leave(self, chunk: _Chunk) -> None:
        if chunk.ends_sentence:
            self._secret, self._after_name = None, False
            self._hides_sentence = self._hides_line = False
        if chunk.ends_clause:
            self._hides_clause = False

    def _remains(self, chunk: _Chunk, at: int) -> bool:
        if self._is_inserted and not (chunk.phrase or chunk.coded):
            return False
        if not chunk.word or self._hides_sentence or self._hides_line or self._hides_clause:
            return False
        if self._secret is not None and not self._may_follow_secret(chunk, at):
            self._hides_sentence = not chunk.literal
            return False
        if chunk.phrase or chunk.coded:
            return True
        if chunk.literal and (chunk.raw[0] in _QUOTES or len(self._chunks) == 1):
            # The name of a field, or the whole text.
            return is_word(chunk.word) or not self._is_in_letter(chunk)
        # Any other single word of the program may be a value that it compares with.
        if chunk.literal and not (is_word(chunk.word) or is_secretive_word(chunk.lower)):
            return False
        if chunk.lower not in FUNCTION and self._is_in_letter(chunk):
            return False
        return not self._may_be_name(chunk, at)

    def _is_in_letter(self, chunk: _Chunk) -> bool:
        return any(map(self._letter_words.contain, (chunk.lower, *parts_of(chunk.word))))

    # Secrets.

    def _may_follow_secret(self, chunk: _Chunk, at: int) -> bool:
        if chunk.literal and self._secret is not None:
            if chunk.phrase and chunk.literal != self._secret.literal:
                return True
            if chunk.literal == self._secret.literal and is_word(chunk.word):
                return True
        if chunk.lower in TOO:
            return self._before(at).lower == "too"
        another = is_secretive_word(chunk.lower) and self._before(at).lower in FUNCTION
        if another or chunk.lower not in NARROW:
            return another
        # Between the secret's name and the end of the sentence it may be the secret itself.
        is_state = chunk.lower in STATES or chunk.lower in FUNCTION
        return is_state or self._before(at) is not self._secret or self._after(at).lower in NARROW

    def _expect(self, chunk: _Chunk, at: int) -> None:
        """What the chunk says of those behind it."""
        following = self._after(at)
        verb = following.lower in VERBS
        value = chunk.announces_value or chunk.has_value
        next_value = not following.word and following.announces_value
        if self._names_secret(chunk, at, has_value=value or next_value or verb):
            self._secret = chunk
        if self._secret is None:
            self._hides_clause = self._hides_clause or _assigns(chunk)
            self._hides_line = self._hides_line or self._is_label(chunk, at, next_value)
        elif _GLUED.search(chunk.raw) and not chunk.ends_sentence:
            self._hides_sentence = True
        elif chunk.announces_value or chunk.lower in VERBS:
            allowed = STATES if chunk.announces_value else NARROW | TOO
            rest = self._sentence(at + 1)
            closed = bool(rest) and rest[0].is_closed
            short = len(rest) < _LONGEST_STATE
            is_state = short and all(self._is_state(part, allowed) for part in rest)
            if not closed and not (is_state and self._begins_as_state(rest)):
                self._hides_sentence = True

    def _names_secret(self, chunk: _Chunk, at: int, *, has_value: bool) -> bool:
        if chunk.coded or _ERROR_NAME.fullmatch(chunk.word):
            return False
        # A quotation or a bracket is a value, and names nothing.
        text = chunk.word or chunk.raw
        return announces_secret(text, self._before(at).lower, has_value=has_value)

    def _is_state(self, chunk: _Chunk, allowed: frozenset[str]) -> bool:
        if self._secret is not None and chunk.literal and is_word(chunk.word):
            return chunk.literal == self._secret.literal or chunk.phrase
        return chunk.lower in allowed

    def _begins_as_state(self, rest: Sequence[_Chunk]) -> bool:
        """True if the first word that is no grammar says how a secret is, as in "is not valid".

        A word that may follow it in a sentence, such as "active", may be the secret itself here.
        """
        said = next((part for part in rest if part.lower not in FUNCTION), None)
        return said is None or said.lower == "too" or self._is_state(said, STATES)

    def _sentence(self, start: int) -> Sequence[_Chunk]:
        """The chunks up to the end of the sentence."""
        longest = self._chunks[start : start + _LONGEST_STATE]
        ends = (number for number, chunk in enumerate(longest, 1) if chunk.ends_sentence)
        return longest[: next(ends, _LONGEST_STATE)]

    # Other values, and names.

    def _is_label(self, chunk: _Chunk, at: int, next_value: bool) -> bool:
        """True if the sentence goes on with data, as behind "note:" and "the message was:"."""
        if _HEADER.fullmatch(chunk.raw):
            return True
        if chunk.lower == "contains" and self._before(at).lower == "row":
            return True
        if not (chunk.announces_value or next_value):
            return False
        if chunk.is_data and self._before(at).lower in NUMBERED:
            return True
        label = self._before(at).label if chunk.lower in VERBS else chunk.label
        return label in LABELS

    def _may_be_name(self, chunk: _Chunk, at: int) -> bool:
        if is_secretive_word(chunk.lower):
            return False
        if chunk.lower in FUNCTION and not chunk.word.istitle():
            return False
        before = self._before(at)
        if _OPTION.fullmatch(before.raw):
            return True
        if chunk.lower in NUMBERS and {before.lower, self._after(at).lower} & NUMBERS:
            return True
        if before.lower in PERSONS and before.word == before.raw and chunk.lower not in NARROW:
            return True
        if not chunk.is_capital:
            return False
        if self._after_name and chunk.lower not in FUNCTION:
            return True
        if chunk.word.isupper():
            # Of a spelled-out number or code.
            return len(chunk.word) == 1 and at > 0
        goes_on = not chunk.begins_line and (
            (before.raw[:1].islower() and before.raw[-1:].isalnum()) or before.raw.endswith(",")
        )
        is_verb = self._after(at).word.islower()
        return goes_on or (chunk.lower in NAME_LIKE and not is_verb)

    def _before(self, at: int) -> _Chunk:
        return self._chunks[at - 1] if at else _NOTHING

    def _after(self, at: int) -> _Chunk:
        return self._chunks[at + 1] if at + 1 < len(self._chunks) else _NOTHING


_NOTHING = _Chunk("", "", 0, False, False, True, False)
