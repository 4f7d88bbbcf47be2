"""The comparison of one field of an event pattern: plain values and operators."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NoReturn

from deadletter.rules.cidr import IPV6, read_address
from deadletter.rules.fields import EXACT_IN_DOUBLE, FieldValues, exact_key, plain_number
from deadletter.rules.hooks import (
    ANY,
    Hook,
    all_but,
    any_of,
    between,
    contains,
    ends,
    exact,
    folded,
    like,
    network_of,
    starts,
)
from deadletter.rules.wildcard import (
    LONG_TEXT,
    NO_SCAN,
    Scan,
    matches_wildcard,
    read_wildcard,
    scan_of,
)
from deadletter.rules.work import CHARACTERS_PER_STEP


class PatternRefused(ValueError):
    """The reason why a pattern is refused: the path, what is wrong, and what is allowed."""


class Absent:
    """The value of a field that a document does not have; `null` is a value."""


ABSENT: Final = Absent()

Test = Callable[[Any], bool]
"""Called with one leaf value, or with ABSENT. Its cost is bounded by the length of the value
times a constant of the pattern: no test backtracks."""

TextTest = Callable[[str], bool]
"""The test of an operator that accepts strings only; called with a string."""


@dataclass(frozen=True, slots=True, eq=False)
class _Text:
    """Accepts the texts that pass a test; each of them is found by any one of `hooks`.

    `steps` is what one test costs, and `scan` what the search of a text costs. Each accepted text
    contains each of `pieces`.
    """

    test: TextTest
    hooks: tuple[Hook, ...] = (ANY,)
    steps: float = 1
    scan: Scan = NO_SCAN
    pieces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _Value:
    """The same for values of any kind."""

    test: Test
    hooks: tuple[Hook, ...] = (ANY,)
    steps: float = 1
    scan: Scan = NO_SCAN


Accepts = _Value | _Text | frozenset[Hashable]
"""What one operator accepts: the values that pass a test, or a set of exact values."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The list of one field: a value matches if any entry of the list accepts it.

    `keys` are the exact values, in the form of `exact_key`, if the list holds nothing else.
    Each accepted value is found by any one hook of any one tuple in `hooks`. `absent` is True if
    a missing field is accepted. Each accepted value is a text that contains each of `pieces`.
    `steps` is what one value costs to try, `scan` what
    the search of its text costs. `words` describes the list for a person.
    """

    test: Test
    words: str
    keys: frozenset[Hashable] | None
    absent: bool
    hooks: tuple[tuple[Hook, ...], ...]
    steps: float
    scan: Scan
    pieces: tuple[str, ...] = ()

    def accepts(self, leaf: Any) -> bool:
        """True if the leaf, or any value of an array, is accepted.

        Also if the field may be missing from the element of an array that another field chooses.
        """
        if leaf.__class__ is not FieldValues:
            return self.test(leaf)
        if self.absent and leaf.deep:
            return True
        if self.keys is not None:
            return not self.keys.isdisjoint(leaf.distinct)
        # Most long arrays lack a piece, which one search finds out for all of their texts.
        if self.pieces and not all(piece in leaf.joined for piece in self.pieces):
            return False
        return any(self.test(value) for value, _ in leaf.distinct.values())

    def cost(self, leaf: Any) -> float:
        """The most steps that it takes to try this leaf."""
        if leaf.__class__ is str:
            each = self.scan.of_long if len(leaf) > LONG_TEXT else self.scan.of_any
            return self.steps + len(leaf) * each / CHARACTERS_PER_STEP
        if leaf.__class__ is FieldValues:
            return (
                leaf.count * self.steps + leaf.characters * self.scan.of_any / CHARACTERS_PER_STEP
            )
        return self.steps


def compare(where: str, values: Any) -> Comparison:
    """The comparison in a pattern's list. Raises PatternRefused, naming `where`."""
    if not isinstance(values, list | tuple):
        refuse(where, f"{quoted(values)} is neither a list nor an object; write [{quoted(values)}]")
    if not values:
        refuse(where, "an empty list matches nothing; leave the field out or name a value")
    keys: set[Hashable] = set()
    accepted: list[Accepts] = []
    words: list[str] = []
    for value in values:
        if isinstance(value, Mapping):
            accepts, text = _expression(where, value)
            if isinstance(accepts, frozenset):
                keys |= accepts
            else:
                accepted.append(accepts)
        else:
            text = quoted(value)
            keys.add(_exact(where, value))
            if isinstance(value, str) and ":" in value and read_address(value):
                # 2001:db8::1 has other spellings, which AWS accepts.
                accepted.append(_same_address(value))
        words.append(text)
    only = accepted[0] if len(accepted) == 1 and not keys else None
    tried = [accepts for accepts in accepted if not isinstance(accepts, frozenset)]
    if keys:
        accepted.append(frozenset(keys))
    test = _any_of([_as_test(accepts) for accepts in accepted])
    return Comparison(
        test=test,
        words=_listed(words),
        keys=frozenset(keys) if not tried else None,
        absent=test(ABSENT),
        hooks=(
            *(exact(key) for key in keys),
            *(_named(accepts.hooks, values) for accepts in tried),
        ),
        steps=sum(accepts.steps for accepts in tried),
        scan=sum((accepts.scan for accepts in tried), NO_SCAN),
        pieces=only.pieces if isinstance(only, _Text) else (),
    )


def _named(options: tuple[Hook, ...], values: Any) -> tuple[Hook, ...]:
    """The hooks; one that fits every value is told apart by what is written in the list."""
    return (any_of(repr(values)),) if options == (ANY,) else options


def refuse(where: str, why: str) -> NoReturn:
    """Raise PatternRefused for this place in the pattern."""
    raise PatternRefused(f"{where}: {why}")


def quoted(value: Any) -> str:
    """A piece of a pattern for an error message, cut to 60 characters."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _listed(words: list[str]) -> str:
    shown = " or ".join(words[:5])
    return shown if len(words) <= 5 else f"{shown} or {len(words) - 5} more"


def _expression(where: str, expression: Mapping[Any, Any]) -> tuple[Accepts, str]:
    name, operand = _only_entry(where, expression)
    compiled = _OPERATORS.get(name)
    if compiled is None:
        refuse(where, f"unknown operator {quoted(name)}; allowed are {', '.join(_OPERATORS)}")
    return compiled(where, operand)


def _only_entry(where: str, expression: Mapping[Any, Any]) -> tuple[Any, Any]:
    if len(expression) != 1:
        refuse(where, f"one operator in each {{...}}, not {len(expression)}; use one {{...}} each")
    return next(iter(expression.items()))


def _string(where: str, name: str, operand: Any) -> str:
    if not isinstance(operand, str):
        refuse(where, f"{name} takes a string, not {quoted(operand)}")
    return operand


def _exact(where: str, value: Any) -> Hashable:
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


def _as_test(accepts: Accepts) -> Test:
    if isinstance(accepts, _Text):
        text = accepts.test
        return lambda value: value.__class__ is str and text(value)
    if isinstance(accepts, frozenset):
        keys = accepts
        if all(isinstance(key, str) for key in keys):
            return keys.__contains__
        return lambda value: exact_key(value) in keys
    return accepts.test


def _any_of(tests: list[Test]) -> Test:
    if len(tests) == 1:
        return tests[0]
    return lambda value: any(test(value) for test in tests)


def _exactly(where: str, operand: Any) -> tuple[Accepts, str]:
    text = _string(where, "exactly", operand)
    return frozenset({text}), quoted(text)


def _exists(where: str, operand: Any) -> tuple[Accepts, str]:
    if not isinstance(operand, bool):
        refuse(where, f"exists takes true or false, not {quoted(operand)}")
    if operand:
        return _Value(lambda value: value is not ABSENT), "a value"
    return _Value(lambda value: value is ABSENT), "no value"


_NUMBERS: Final = frozenset({int, float})


def _comparable(where: str, name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        refuse(where, f"{name} takes a number, not {quoted(value)}")
    number = plain_number(value)
    if isinstance(number, float) and math.isfinite(number):
        return number
    if isinstance(number, int) and abs(number) <= EXACT_IN_DOUBLE:
        return number
    refuse(where, f"{quoted(value)} has more digits than a double holds (about 17)")


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
            refuse(
                where,
                'numeric takes one of the forms ["=", 5], ["<", 5], [">=", 0], '
                f'[">", 0, "<=", 5], not {quoted(operand)}',
            )


def _within(above: str, low: float, below: str, high: float) -> _Value:
    ends = frozenset(end for sign, end in ((above, low), (below, high)) if sign in "<>")

    def test(value: Any) -> bool:
        kind = value.__class__
        return kind in _NUMBERS and low <= value <= high and value not in ends

    return _Value(test, (between(low, high),), steps=2)


def _prefix(where: str, operand: Any) -> tuple[Accepts, str]:
    if isinstance(operand, Mapping):
        text = _ignoring_case(where, "prefix", operand)
        return _folded_start(text), f"starts with {quoted(text)} in any case"
    start = _string(where, "prefix", operand)
    return _starting(start), f"starts with {quoted(start)}"


def _suffix(where: str, operand: Any) -> tuple[Accepts, str]:
    if isinstance(operand, Mapping):
        text = _ignoring_case(where, "suffix", operand)
        return _folded_end(text), f"ends with {quoted(text)} in any case"
    end = _string(where, "suffix", operand)
    return _ending(end), f"ends with {quoted(end)}"


def _starting(start: str) -> _Text:
    return _Text(lambda value: value.startswith(start), starts(start), pieces=(start,))


def _ending(end: str) -> _Text:
    return _Text(lambda value: value.endswith(end), ends(end), pieces=(end,))


def _ignoring_case(where: str, name: str, operand: Mapping[Any, Any]) -> str:
    inner, text = _only_entry(where, operand)
    if inner != "equals-ignore-case":
        refuse(where, f"{name} takes a string or {{equals-ignore-case}}, not {quoted(inner)}")
    return _string(where, "equals-ignore-case", text)


def _equals_ignore_case(where: str, operand: Any) -> tuple[Accepts, str]:
    text = _string(where, "equals-ignore-case", operand)
    words = f"{quoted(text)} in any case"
    if text.isascii():
        length, same = len(text), _ascii_folded(text, slice(None))
        return (
            _Text(lambda value: len(value) == length and same(value), folded(text), steps=4),
            words,
        )
    cases = _cases(text)
    steps = _STEPS_OF_CASES * len(cases)
    return _Text(lambda value: len(value) in _end_positions(value, cases), steps=steps), words


def _folded_start(text: str) -> _Text:
    if text.isascii():
        test = _ascii_folded(text, slice(len(text)))
        return _Text(test, starts(text.lower(), any_case=True), steps=4)
    cases = _cases(text)
    steps = _STEPS_OF_CASES * len(cases)
    return _Text(lambda value: bool(_end_positions(value, cases)), steps=steps)


def _folded_end(text: str) -> _Text:
    if text.isascii():
        test = _ascii_folded(text, slice(-len(text), None) if text else slice(0))
        return _Text(test, ends(text.lower(), any_case=True), steps=4)
    cases = tuple(tuple(form[::-1] for form in forms) for forms in reversed(_cases(text)))
    longest = sum(max(map(len, forms)) for forms in cases)
    steps = _STEPS_OF_CASES * len(cases)
    return _Text(lambda value: bool(_end_positions(value[-longest:][::-1], cases)), steps=steps)


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


def _wildcard(where: str, operand: Any) -> tuple[Accepts, str]:
    text = _string(where, "wildcard", operand)
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
            return _Text(
                lambda value: piece in value, contains(piece), 1, _scan(pieces), (piece,)
            ), words
        case _:
            # Most values fail at the end, and this test is cheaper than the call.
            end = pieces[-1]
            return (
                _Text(
                    lambda value: value.endswith(end) and matches_wildcard(value, pieces),
                    like(pieces),
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
    words = f"anything but {_listed([quoted(value) for value in values])}"
    if values and all(isinstance(value, str) for value in values):
        unwanted = frozenset({*values, ABSENT})
        return _Value(lambda value: value not in unwanted, (all_but(unwanted),)), words
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
        _Value(
            lambda value: value is not ABSENT and exact_key(value) not in excluded,
            (all_but(excluded),),
            steps=4,
        ),
        words,
    )


def _anything_but_like(where: str, operand: Mapping[Any, Any]) -> tuple[Accepts, str]:
    name, inner = _only_entry(where, operand)
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
        if _string(where, f"anything-but {name}", text) == "" and name in ("prefix", "suffix"):
            refuse(where, f"anything-but {name} of an empty string would match no string")
        accepts, _ = _OPERATORS[name](where, text)
        tests.append(_as_test(accepts))
        steps += 1
        if not isinstance(accepts, frozenset):
            steps += accepts.steps
            scan += accepts.scan
    unwanted = _any_of(tests)
    return (
        _Value(lambda value: value is not ABSENT and not unwanted(value), steps=steps, scan=scan),
        f"anything but {name} {_listed([quoted(text) for text in texts])}",
    )


def _cidr(where: str, operand: Any) -> tuple[Accepts, str]:
    text = _string(where, "cidr", operand)
    host, slash, bits = text.partition("/")
    address = read_address(host)
    if not slash or not address or not (bits.isascii() and bits.removeprefix("+").isdigit()):
        refuse(
            where, f"cidr takes an address and a length, such as 10.0.0.0/24, not {quoted(text)}"
        )
    width = 32 if address < IPV6 else 128
    if int(bits) >= width:
        refuse(
            where, f"cidr length {quoted(bits)} is not below {width}; write a host as plain text"
        )
    shift = width - int(bits)
    network = address >> shift

    def test(value: str) -> bool:
        candidate = read_address(value)
        return candidate is not None and candidate >> shift == network

    return _Text(test, (network_of(network, shift),), _STEPS_OF_ADDRESS), f"an address in {text}"


def _same_address(text: str) -> _Text:
    wanted = read_address(text)
    assert wanted is not None
    hooks = (network_of(wanted, 0),)
    return _Text(lambda value: read_address(value) == wanted, hooks, _STEPS_OF_ADDRESS)


# Steps to read an address that is not in the cache.
_STEPS_OF_ADDRESS: Final = 20


_OPERATORS: Final[Mapping[str, Callable[[str, Any], tuple[Accepts, str]]]] = {
    "prefix": _prefix,
    "suffix": _suffix,
    "equals-ignore-case": _equals_ignore_case,
    "wildcard": _wildcard,
    "anything-but": _anything_but,
    "numeric": _numeric,
    "exists": _exists,
    "cidr": _cidr,
    "exactly": _exactly,
}
_NEGATABLE: Final = ("prefix", "suffix", "equals-ignore-case", "wildcard")

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
