"""The operators of event patterns: what each accepts, and how its values are found."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from decimal import Decimal
from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address
from typing import Any, Final

from deadletter.rules.accepted import (
    ABSENT,
    AcceptedText,
    AcceptedValue,
    Accepts,
    Test,
    TextTest,
    any_test,
    as_test,
    listed,
    only_entry,
    quoted,
    refuse,
    string,
)
from deadletter.rules.fields import EXACT_IN_DOUBLE, exact_key, plain_number
from deadletter.rules.wildcard import NO_SCAN, Scan, matches_wildcard, read_wildcard, scan_of

# Added to an address, so that no network of one version contains an address of the other.
_IPV4: Final = 4 << 32

IPV6: Final = 6 << 128
"""Added to an IPv6 address: every smaller number is IPv4."""

# Characters of the longest address; a longer text is not one, and is not cached.
_LONGEST: Final = 39

_HEX_AND_COLON: Final = frozenset("0123456789abcdefABCDEF:")


def read_address(text: str) -> int | None:
    """The address as one number for both versions, or None if the text is not an address.

    The octets of IPv4 are decimal, also after a zero. IPv4 mapped into IPv6 is IPv4. A text
    with a zone, or with IPv4 dots within IPv6, is not an address.
    """
    return _read(text) if len(text) <= _LONGEST else None


# Many rules read the address of one letter.
@lru_cache(maxsize=256)
def _read(text: str) -> int | None:
    if ":" not in text:
        octets = text.split(".")
        if len(octets) != 4 or not all(octet.isascii() and octet.isdigit() for octet in octets):
            return None
        numbers = [int(octet) for octet in octets]
        return None if max(numbers) > 255 else _IPV4 | int.from_bytes(bytes(numbers), "big")
    if not _HEX_AND_COLON.issuperset(text):
        return None
    try:
        address = IPv6Address(text)
    except AddressValueError:
        return None
    inner = address.ipv4_mapped
    return IPV6 | int(address) if inner is None else _IPV4 | int(inner)


Operator = Callable[[str, Any], tuple[Accepts, str]]
"""Reads an operand, named by its place in the pattern: what it accepts, and the words for it."""


def read_expression(where: str, expression: Mapping[Any, Any]) -> tuple[Accepts, str]:
    name, operand = only_entry(where, expression)
    compiled = _OPERATORS.get(name)
    if compiled is None:
        refuse(where, f"unknown operator {quoted(name)}; allowed are {', '.join(_OPERATORS)}")
    return compiled(where, operand)


def read_exact(where: str, value: Any) -> Hashable:
    if value is None or isinstance(value, str | bool):
        return exact_key(value)
    if isinstance(value, int | float | Decimal):
        if value != value or value in (math.inf, -math.inf):
            refuse(where, f"{value} is not a JSON number")
        return exact_key(value)
    return refuse(
        where,
        f"{quoted(value)} is not a string, a number, true, false, null or an operator {{...}}",
    )


def _exactly(where: str, operand: Any) -> tuple[Accepts, str]:
    text = string(where, "exactly", operand)
    return frozenset({text}), quoted(text)


def _exists(where: str, operand: Any) -> tuple[Accepts, str]:
    if not isinstance(operand, bool):
        refuse(where, f"exists takes true or false, not {quoted(operand)}")
    if operand:
        return AcceptedValue(lambda value: value is not ABSENT), "a value"
    return AcceptedValue(lambda value: value is ABSENT), "no value"


_NUMBERS: Final = frozenset({int, float})


def _comparable(where: str, name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        refuse(where, f"{name} takes a number, not {quoted(value)}")
    number = plain_number(value)
    if isinstance(number, float) and math.isfinite(number):
        return number
    if isinstance(number, int) and abs(number) <= EXACT_IN_DOUBLE:
        return number
    return refuse(where, f"{quoted(value)} has more digits than a double holds (about 17)")


def _numeric(where: str, operand: Any) -> tuple[Accepts, str]:
    def limit(value: Any) -> float:
        return _comparable(where, "numeric", value)

    match operand:
        case ["=", value]:
            return frozenset({limit(value)}), f"= {value}"
        case [(">" | ">=") as above, low]:
            return _within(above, limit(low), "<", math.inf), f"{above} {low}"
        case [("<" | "<=") as below, high]:
            return _within(">", -math.inf, below, limit(high)), f"{below} {high}"
        case [(">" | ">=") as above, low, ("<" | "<=") as below, high]:
            if not limit(low) < limit(high):
                refuse(where, f"numeric range is empty: {low} is not below {high}")
            words = f"{above} {low} and {below} {high}"
            return _within(above, limit(low), below, limit(high)), words
        case _:
            return refuse(
                where,
                'numeric takes one of the forms ["=", 5], ["<", 5], [">=", 0], '
                f'[">", 0, "<=", 5], not {quoted(operand)}',
            )


def _within(above: str, low: float, below: str, high: float) -> AcceptedValue:
    ends = frozenset(end for sign, end in ((above, low), (below, high)) if sign in "<>")

    def test(value: Any) -> bool:
        kind = value.__class__
        return kind in _NUMBERS and low <= value <= high and value not in ends

    return AcceptedValue(test, steps=2, only_numbers=True)


def _edge(
    name: str,
    words: str,
    exact: Callable[[str], AcceptedText],
    folded: Callable[[str], AcceptedText],
) -> Operator:
    """The operator for texts that have a text at one of their ends, or have it in any case."""

    def read(where: str, operand: Any) -> tuple[Accepts, str]:
        if isinstance(operand, Mapping):
            text = _ignoring_case(where, name, operand)
            return folded(text), f"{words} {quoted(text)} in any case"
        text = string(where, name, operand)
        return exact(text), f"{words} {quoted(text)}"

    return read


def _starting(start: str) -> AcceptedText:
    return AcceptedText(lambda value: value.startswith(start), pieces=(start,))


def _ending(end: str) -> AcceptedText:
    return AcceptedText(lambda value: value.endswith(end), pieces=(end,))


def _ignoring_case(where: str, name: str, operand: Mapping[Any, Any]) -> str:
    inner, text = only_entry(where, operand)
    if inner != "equals-ignore-case":
        refuse(where, f"{name} takes a string or {{equals-ignore-case}}, not {quoted(inner)}")
    return string(where, "equals-ignore-case", text)


def _equals_ignore_case(where: str, operand: Any) -> tuple[Accepts, str]:
    text = string(where, "equals-ignore-case", operand)
    return folded_whole(text), f"{quoted(text)} in any case"


def _wildcard(where: str, operand: Any) -> tuple[Accepts, str]:
    text = string(where, "wildcard", operand)
    words = f"like {quoted(text)}"
    try:
        pieces = read_wildcard(text)
    except ValueError as error:
        refuse(where, f"wildcard {quoted(text)} {error}")
    match pieces:
        case [whole]:
            return frozenset({whole}), words
        case [start, ""]:
            return _starting(start), words
        case ["", end]:
            return _ending(end), words
        case ["", piece, ""]:
            return AcceptedText(lambda value: piece in value, 1, _scan(pieces), (piece,)), words
        case _:
            # Most values fail at the end, and this test is cheaper than the call.
            end = pieces[-1]
            return (
                AcceptedText(
                    lambda value: value.endswith(end) and matches_wildcard(value, pieces),
                    steps=2 + len(pieces),
                    scan=_scan(pieces),
                    pieces=tuple(pieces),
                ),
                words,
            )


def _scan(pieces: list[str]) -> Scan:
    # The searches share the characters of the text, so the longest piece counts.
    return scan_of(max(map(len, pieces[1:-1]), default=0))


def _anything_but(where: str, operand: Any) -> tuple[Accepts, str]:
    if isinstance(operand, Mapping):
        return _anything_but_like(where, operand)
    values = operand if isinstance(operand, list | tuple) else [operand]
    words = f"anything but {listed([quoted(value) for value in values])}"
    if values and all(isinstance(value, str) for value in values):
        unwanted = frozenset({*values, ABSENT})
        return AcceptedValue(lambda value: value not in unwanted), words
    numbers = [value for value in values if not isinstance(value, str | bool | Mapping | None)]
    if not values or len(numbers) != len(values):
        refuse(
            where,
            "anything-but takes strings or numbers, not both and nothing else, or one of "
            f"{', '.join(_NEGATABLE)}; not {quoted(operand)}",
        )
    excluded = frozenset(
        exact_key(_comparable(where, "anything-but", number)) for number in numbers
    )
    return (
        AcceptedValue(
            lambda value: value is not ABSENT and exact_key(value) not in excluded, steps=4
        ),
        words,
    )


def _anything_but_like(where: str, operand: Mapping[Any, Any]) -> tuple[Accepts, str]:
    name, inner = only_entry(where, operand)
    if name not in _NEGATABLE:
        refuse(
            where, f"anything-but can't hold {quoted(name)}; allowed are {', '.join(_NEGATABLE)}"
        )
    texts = inner if isinstance(inner, list | tuple) else [inner]
    if not texts:
        refuse(where, f"anything-but {name} of an empty list would match everything")
    tests: list[Test] = []
    steps, scan = 0.0, NO_SCAN
    for text in texts:
        if string(where, f"anything-but {name}", text) == "" and name in ("prefix", "suffix"):
            refuse(where, f"anything-but {name} of an empty string would match no string")
        accepts, _ = _OPERATORS[name](where, text)
        tests.append(as_test(accepts))
        steps += 1
        if not isinstance(accepts, frozenset):
            steps += accepts.steps
            scan += accepts.scan
    unwanted = any_test(tests)
    return (
        AcceptedValue(
            lambda value: value is not ABSENT and not unwanted(value), steps=steps, scan=scan
        ),
        f"anything but {name} {listed([quoted(text) for text in texts])}",
    )


def _cidr(where: str, operand: Any) -> tuple[Accepts, str]:
    text = string(where, "cidr", operand)
    host, slash, bits = text.partition("/")
    address = read_address(host)
    if not slash or not address or not (bits.isascii() and bits.removeprefix("+").isdigit()):
        refuse(
            where, f"cidr takes an address and a length, such as 10.0.0.0/24, not {quoted(text)}"
        )
    width = 32 if address < IPV6 else 128
    if len(bits) > len("+128") or int(bits) >= width:
        refuse(
            where, f"cidr length {quoted(bits)} is not below {width}; write a host as plain text"
        )
    shift = width - int(bits)
    network = address >> shift

    def test(value: str) -> bool:
        candidate = read_address(value)
        return candidate is not None and candidate >> shift == network

    return AcceptedText(test, _STEPS_OF_ADDRESS), f"an address in {text}"


def same_address(text: str) -> AcceptedText:
    wanted = read_address(text)
    assert wanted is not None
    return AcceptedText(lambda value: read_address(value) == wanted, _STEPS_OF_ADDRESS)


# Steps to read an address that is not in the cache.
_STEPS_OF_ADDRESS: Final = 20


_NEGATABLE: Final = ("prefix", "suffix", "equals-ignore-case", "wildcard")


def folded_whole(text: str) -> AcceptedText:
    """Accepts the text in any case."""
    if text.isascii():
        length, same = len(text), _ascii_folded(text, slice(None))
        return AcceptedText(lambda value: len(value) == length and same(value), steps=4)
    cases = _cases(text)
    steps = _STEPS_OF_CASES * len(cases)
    return AcceptedText(lambda value: len(value) in _end_positions(value, cases), steps=steps)


def folded_start(text: str) -> AcceptedText:
    """Accepts the texts that begin with the text in any case."""
    if text.isascii():
        test = _ascii_folded(text, slice(len(text)))
        return AcceptedText(test, steps=4)
    cases = _cases(text)
    steps = _STEPS_OF_CASES * len(cases)
    return AcceptedText(lambda value: bool(_end_positions(value, cases)), steps=steps)


def folded_end(text: str) -> AcceptedText:
    """Accepts the texts that end with the text in any case."""
    if text.isascii():
        test = _ascii_folded(text, slice(-len(text), None) if text else slice(0))
        return AcceptedText(test, steps=4)
    cases = tuple(tuple(form[::-1] for form in forms) for forms in reversed(_cases(text)))
    longest = sum(max(map(len, forms)) for forms in cases)
    steps = _STEPS_OF_CASES * len(cases)
    return AcceptedText(
        lambda value: bool(_end_positions(value[-longest:][::-1], cases)), steps=steps
    )


# Steps for each character that may have several cases, of one to three characters.
_STEPS_OF_CASES: Final = 20


def _ascii_folded(text: str, part: slice) -> TextTest:
    lowered = text.lower()
    # The value has to be ASCII too: the lower case of the Kelvin sign is k.
    return lambda value: (piece := value[part]).isascii() and piece.lower() == lowered


def _cases(text: str) -> tuple[tuple[str, ...], ...]:
    """The lower and upper case of each character, as AWS accepts them: `ß` is also SS."""
    return tuple(tuple({character.lower(), character.upper()}) for character in text)


def _end_positions(value: str, cases: tuple[tuple[str, ...], ...]) -> set[int]:
    """The positions in the value where the characters can end; at most two for each character."""
    ends = {0}
    for forms in cases:
        ends = {end + len(form) for end in ends for form in forms if value.startswith(form, end)}
        if not ends:
            break
    return ends


_OPERATORS: Final[Mapping[str, Operator]] = {
    "prefix": _edge("prefix", "starts with", _starting, folded_start),
    "suffix": _edge("suffix", "ends with", _ending, folded_end),
    "equals-ignore-case": _equals_ignore_case,
    "wildcard": _wildcard,
    "anything-but": _anything_but,
    "numeric": _numeric,
    "exists": _exists,
    "cidr": _cidr,
    "exactly": _exactly,
}

RESERVED: Final = frozenset(
    {
        *_OPERATORS,
        "=",
        "<",
        "<=",
        ">",
        ">=",
        "regex",
        "not-wildcard",
        "not-equals-ignore-case",
        "date-after",
        "date-on-or-after",
        "date-before",
        "date-on-or-before",
        "in-date-range",
        "ip-address-in-range",
        "ip-address-not-in-range",
    }
)
"""Names that can't be a field inside `$or`: operators, and names AWS reserves for later ones."""
