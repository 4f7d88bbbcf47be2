"""What two messages with one idempotency key are compared by, and where they differ."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import sha256
from typing import Any

from deadletter.message.letter import Attribute, utf8
from deadletter.message.strict_json import ExactFloat
from deadletter.message.wrappers import MOST_WRAPPERS, SERVICES

MOST_PATHS = 92
"""Paths whose hashes are stored. With them a row of the claims stays below one write unit."""

MOST_NAMED = 5
"""Differing paths that are named."""

_LONGEST_PATH = 80

_DEEPEST = 12
"""Pieces of a path; values below have the path of what they are within."""

_CORE, _WRAPPER, _SHORT = 16, 8, 3
"""Bytes of hashes: of the whole, of a wrapper, and of a path and its values. A short one only
names a path; it never decides that two messages are the same."""

_FORM = b"\x02"
"""The form of what is stored. Another one cannot be compared."""

_HEAD = len(_FORM) + 2 + _CORE + MOST_WRAPPERS * (1 + _WRAPPER)

# A name that a program gives its fields, not one that is data itself, such as an id or an address.
_FIELD = re.compile(r"(?!(?:[^0-9]*[0-9]){4})[A-Za-z_][A-Za-z0-9_-]{0,39}")

HIDDEN = "…"
"""Stands for a key of the message that may be data."""

GROUPING = "the order or grouping of values"
"""In place of a path: the values at each path are the same."""

BEYOND = f"a path beyond the first {MOST_PATHS}"

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Content:
    """What is compared of a message, as hashes: no content leaves this object.

    `scheme` is a hash of the setting that says what is compared, `core` one of all that is,
    `wrappers` has one for the facts of each service's wrapper, and `paths` a short hash of the
    values at each path. `names` gives the paths by their short hashes.
    """

    scheme: bytes
    core: bytes
    wrappers: Mapping[str, bytes] = field(default_factory=dict)
    paths: Mapping[bytes, bytes] = field(default_factory=dict)
    names: Mapping[bytes, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def identity(self) -> bytes:
        """All that is compared, in one text of bytes."""
        return self.core + b"".join(self.wrappers.get(name, b"-") for name in SERVICES)

    def stored(self) -> bytes:
        """The content as a row keeps it: at most 600 bytes."""
        wrappers = [
            bytes([number]) + self.wrappers[name]
            for number, name in enumerate(SERVICES, start=1)
            if name in self.wrappers
        ]
        wrappers += [bytes(1 + _WRAPPER)] * (MOST_WRAPPERS - len(wrappers))
        paths = (path + value for path, value in self.paths.items())
        return b"".join((_FORM, self.scheme, self.core, *wrappers, *paths))

    def differences(self, stored: bytes) -> tuple[str, ...] | None:
        """The paths in which it differs from a stored content: none if both are the same.

        None if the stored one cannot be compared, because it was written under another
        setting. A wrapper is compared only if both messages came in one: a
        producer that publishes the same event by another service repeats it.
        """
        before = _read(stored)
        if before is None or before.scheme != self.scheme:
            return None
        common = self.wrappers.keys() & before.wrappers.keys()
        changed = [name for name in SERVICES if name in common]
        changed = [name for name in changed if self.wrappers[name] != before.wrappers[name]]
        if self.core == before.core:
            return tuple(f"the facts of {name}" for name in changed)
        paths = [
            self.names[path]
            for path, value in self.paths.items()
            if before.paths.get(path) != value
        ]
        gone = len(before.paths.keys() - self.paths.keys())
        if gone and len(before.paths) < MOST_PATHS and len(self.paths) < MOST_PATHS:
            paths.append(f"{gone} more that only the first message has")
        paths.extend(f"the facts of {name}" for name in changed)
        unnamed = GROUPING if len(self.paths) < MOST_PATHS else BEYOND
        return tuple(paths) or (unnamed,)


def content_of(
    setting: str,
    values: Mapping[str, Any],
    attributes: Mapping[str, Attribute],
    wrappers: Iterable[tuple[str, Mapping[str, Any]]] = (),
) -> Content:
    """The content of a message under a setting.

    `values` are what is compared, by the first piece of their paths; `wrappers` the facts of
    each service's wrapper. The order of keys, spaces between tokens, and whether a number is
    written 1.0 or 1 make no difference; every digit of a number does.
    """
    whole: list[bytes] = []
    at_paths: dict[Path, list[bytes]] = {}
    for path, token in _tokens(values, attributes):
        piece = _measured(token)
        whole.append(piece)
        if path is not None:
            if path in at_paths:
                at_paths[path].append(piece)
            elif len(at_paths) < MOST_PATHS:
                at_paths[path] = [piece]
    facts: dict[str, list[bytes]] = {}
    for service, fact in wrappers:
        facts.setdefault(service, []).extend(_measured(token) for _, token in _walk((), fact))
    short = {sha256(utf8("\0".join(path))).digest()[:_SHORT]: path for path in at_paths}
    return Content(
        scheme=sha256(utf8(setting)).digest()[:2],
        core=_digest(whole, _CORE),
        wrappers={service: _digest(pieces, _WRAPPER) for service, pieces in facts.items()},
        paths={key: _digest(at_paths[path], _SHORT) for key, path in short.items()},
        names={key: shown(path) for key, path in short.items()},
    )


def shown(path: Path) -> str:
    """A path for people: a key that may be data is hidden, and an index is never named."""
    text = path[0]
    for piece in path[1:]:
        text += piece if piece == "[]" else f".{piece if _FIELD.fullmatch(piece) else HIDDEN}"
    return text if len(text) <= _LONGEST_PATH else f"{text[: _LONGEST_PATH - 1]}{HIDDEN}"


def listed(paths: Iterable[str]) -> str:
    """Paths in one sentence, the first few of them."""
    named = list(dict.fromkeys(paths))
    rest = len(named) - MOST_NAMED
    return ", ".join(named[:MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _measured(token: bytes) -> bytes:
    """A token with its length: "ab", "c" differs from "a", "bc"."""
    return len(token).to_bytes(4, "big") + token


def _digest(pieces: Iterable[bytes], size: int) -> bytes:
    return sha256(b"".join(pieces)).digest()[:size]


def _tokens(
    values: Mapping[str, Any], attributes: Mapping[str, Attribute]
) -> Iterator[tuple[Path | None, bytes]]:
    for name, value in values.items():
        yield from _walk((name,), value)
    for name, attribute in sorted(attributes.items()):
        content = attribute.value
        value = content if isinstance(content, bytes) else utf8(content)
        yield None, utf8(name)
        yield None, utf8(attribute.data_type)
        yield ("attributes", name), value


def _walk(path: Path, value: Any) -> Iterator[tuple[Path | None, bytes]]:
    """The tokens of JSON in one order. The values of leaves have their paths with them."""
    # A stack, because a message may nest a thousand levels. A key stands before its value.
    stack: list[tuple[Path, str | None, Any]] = [(path, None, value)]
    while stack:
        path, key, value = stack.pop()
        if key is not None:
            yield None, utf8(key)
        if isinstance(value, dict) and value:
            yield None, b"{%d" % len(value)
            for name in sorted(value, reverse=True):
                stack.append((_within(path, name), name, value[name]))
        elif isinstance(value, list) and value:
            yield None, b"[%d" % len(value)
            inner = _within(path, "[]")
            stack.extend((inner, None, item) for item in reversed(value))
        else:
            yield path, _leaf(value)


def _within(path: Path, piece: str) -> Path:
    return path if len(path) >= _DEEPEST else (*path, piece)


def _leaf(value: Any) -> bytes:
    if isinstance(value, str):
        return b"s" + utf8(value)
    if value is None or isinstance(value, bool | dict | list):
        return repr(value).encode()
    if isinstance(value, ExactFloat):
        return b"n" + _digits(value.text)
    return b"n" + _digits(repr(value))


def _digits(text: str) -> bytes:
    """The value of a number: its sign, its digits without zeros at the ends, its exponent."""
    if text.isdecimal() and text[-1] != "0" and text.isascii():
        # Most numbers, without their detour.
        return f"{text.lstrip('0')}e0".encode()
    try:
        sign, digits, exponent = Decimal(text).as_tuple()
    except ArithmeticError:
        return utf8(text)
    written = "".join(map(str, digits)).lstrip("0")
    kept = written.rstrip("0")
    if not isinstance(exponent, int):
        return utf8(text)
    if not kept:
        return b"0"
    power = exponent + len(written) - len(kept)
    return f"{'-' if sign else ''}{kept}e{power}".encode()


def _read(stored: bytes) -> Content | None:
    if len(stored) < _HEAD or not stored.startswith(_FORM):
        return None
    scheme, rest = stored[1:3], stored[3:]
    core, rest = rest[:_CORE], rest[_CORE:]
    wrappers = {}
    for _ in range(MOST_WRAPPERS):
        number, digest, rest = rest[0], rest[1 : 1 + _WRAPPER], rest[1 + _WRAPPER :]
        if 1 <= number <= len(SERVICES):
            wrappers[SERVICES[number - 1]] = digest
    size = 2 * _SHORT
    pairs = (rest[start : start + size] for start in range(0, len(rest), size))
    return Content(scheme, core, wrappers, {pair[:_SHORT]: pair[_SHORT:] for pair in pairs})
