"""The literals of a program: the texts that its own code contains, and that are no data."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from traceback import walk_tb
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any

from deadletter.failure.foreign import attribute, chain_of
from deadletter.failure.place import is_library, is_library_class
from deadletter.failure.vocabulary import is_word

# Frames read of one traceback at each end; between them lies a recursion.
_FRAMES = 20

# Steps of a traceback: Python's own limit of a recursion is 1,000.
_STEPS = 3_000

# Constants read of one function, with those of functions inside it, and of all of them.
_CONSTANTS = 300
_LITERALS = 2_000

# Characters of one constant: a longer one is a document inside the program.
_LONGEST_LITERAL = 500

# Templates of one table.
_TEMPLATES = 50

# Functions inside functions, and tuples inside tuples.
_DEPTH = 3

# Classes that an exception's own one derives from.
_CLASSES = 6

# Texts read in all, the same one read twice counted twice.
_MOST_READ = 3 * _LITERALS

# Initialisers of subclasses, each of which calls the next one.
_INITIALISERS = 4

NOTED = "_deadletter_literals"
"""The attribute in which an exception keeps the literals of the code that made it."""

# What `%`, `str.format` and `string.Template` replace.
_PLACEHOLDER = re.compile(
    r"%(?:\(\w{1,60}\))?[-+#0]{0,5}\d{0,4}(?:\.\d{1,4})?[sdrifxXeEgGc]"
    r"|\{[^{}\n]{0,80}\}|\$\{?\w{1,60}\}?"
)
_WORDS = re.compile(r"[^\W_]+")
_SECRET = re.compile(r"key|secret|token|pass|pwd|cred|auth|phrase|dsn|salt|sign|pin", re.IGNORECASE)
_LETTERS = re.compile(r"[^\W\d_]{2}")


def literals_of(error: BaseException, *, only_own: bool = False) -> frozenset[str]:
    """The texts that the program itself contains, of the code that raised the error.

    Read from the constants of the functions in its traceback and in those of its causes, and of
    the functions and templates that these name, from the exceptions' classes, and from what our
    own exceptions noted when they were made. Placeholders cut a constant into pieces, as they
    stand in an f-string. With `only_own` those of Python and of libraries are left out. Never
    raises; the number and length are bounded.
    """
    literals: set[str] = set()
    try:
        for text in islice(_literals(error, only_own), _MOST_READ):
            literals.add(text)
            if len(literals) >= _LITERALS:
                break
    except Exception:  # code of a foreign class
        return frozenset()
    return frozenset(literals)


def _literals(error: BaseException, only_own: bool) -> Iterator[str]:
    read: set[int] = set()
    for link in chain_of(error):
        noted = attribute(link.error, NOTED)
        if isinstance(noted, tuple):
            yield from (text for text in noted[:_LITERALS] if isinstance(text, str))
        kinds = _classes(type(link.error), only_own)
        frames = list(_frames(link.error.__traceback__, only_own))
        for code in (*(frame.f_code for frame in frames), *_codes_of_classes(kinds)):
            if id(code) not in read:
                read.add(id(code))
                yield from constants_of(code)
        yield from _texts_of_classes(kinds)
        for frame in frames:
            if not is_library(frame):
                yield from _texts_of_module(frame)


def _texts_of_module(frame: FrameType) -> Iterator[str]:
    """The texts of what a function of the team names: of other functions, and templates.

    A text that is neither a template nor a sentence of error words may be a setting, and so a
    secret; what is named like a secret is one.
    """
    for name in frame.f_code.co_names[:_CONSTANTS]:
        named = frame.f_globals.get(name)
        if type(named) is FunctionType:
            yield from constants_of(named.__code__)
        if not name.isupper():
            # Only capitals say that it is a constant, and no cache of customers.
            continue
        values = named.values() if type(named) is dict else (named,)
        for value in islice(values, _TEMPLATES):
            if type(value) is not str or len(value) > _LONGEST_LITERAL:
                continue
            is_constant = type(named) is str and _is_sentence(named) and not _SECRET.search(name)
            if is_constant or _PLACEHOLDER.search(value):
                yield from _pieces(value)


def _is_sentence(text: str) -> bool:
    words = _WORDS.findall(text)
    return len(words) > 1 and sum(map(is_word, words)) >= len(words) / 2


def _classes(kind: type, only_own: bool) -> list[type]:
    kinds = kind.__mro__[:_CLASSES]
    return [holder for holder in kinds if not only_own or not is_library_class(holder)]


def _codes_of_classes(kinds: Iterable[type]) -> Iterator[CodeType]:
    for holder in kinds:
        for name in ("__init__", "__str__"):
            function = holder.__dict__.get(name)
            if isinstance(function, FunctionType):
                yield function.__code__


def _texts_of_classes(kinds: Iterable[type]) -> Iterator[str]:
    """The texts in attributes of the classes, where libraries keep their templates."""
    for holder in kinds:
        for name, text in islice(holder.__dict__.items(), _CONSTANTS):
            if isinstance(text, str) and not name.startswith("__"):
                yield from _pieces(text)


def note_literals(error: BaseException) -> None:
    """Keep with the exception the literals of the code that makes it.

    An exception that was made and not yet raised has no traceback. To be called by `__init__`;
    the initialisers of subclasses count, and the first function that is no initialiser.
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


def _frames(trace: TracebackType | None, only_own: bool) -> Iterator[FrameType]:
    frames = [frame for frame, _ in islice(walk_tb(trace), _STEPS)]
    for frame in (frames[:_FRAMES] + frames[_FRAMES:][-_FRAMES:])[::-1]:
        # What a module's own code contains are settings and tables: they may be secrets.
        is_own = frame.f_code.co_name != "<module>" and not is_library(frame)
        if is_own or not only_own:
            yield frame


def constants_of(code: CodeType) -> tuple[str, ...]:
    """The texts in the constants of a function, and their pieces between placeholders."""
    texts = islice(_texts(code.co_consts, 0), _CONSTANTS)
    names = (name for name in code.co_names[:_CONSTANTS] if len(name) > 1)
    return tuple(dict.fromkeys((*(piece for text in texts for piece in _pieces(text)), *names)))


def _pieces(text: str) -> Iterator[str]:
    if len(text) <= _LONGEST_LITERAL:
        # A text that has the form of a placeholder may be used as it is.
        yield from filter(_LETTERS.search, dict.fromkeys((text, *_PLACEHOLDER.split(text))))


def _texts(constants: Iterable[Any], depth: int, *, in_tuple: bool = False) -> Iterator[str]:
    for constant in islice(constants, _CONSTANTS):
        if isinstance(constant, str):
            # A sentence in a tuple is an entry of a table more often than the text of an error.
            if not in_tuple or len(constant.split(None, 1)) < 2:
                yield constant
        elif depth < _DEPTH and isinstance(constant, tuple | frozenset):
            yield from _texts(constant, depth + 1, in_tuple=True)
        elif depth < _DEPTH and isinstance(constant, CodeType):
            yield from _texts(constant.co_consts, depth + 1)
