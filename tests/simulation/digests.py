"""One hash for each schedule, of its calls or of its outcome: two commits are compared by files.

`make sim OF=shards RUNS=2000 HASH=FILE` writes the file where there is none, and else compares it
and names the first seed that differs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from deadletter.aws.dynamodb import worded
from tests.simulation.scheduler import Fault, Scheduler
from tests.simulation.witness import Broken

LENGTH = 16
"""Characters of a hash in a file: two of 10,000 schedules have one by chance once in 10^11."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How the schedule of a seed is made; it is made and run within `around`.

    `beside` are schedulers of further schedules of the seed, which are run first.
    """

    make: Callable[[int], Any]
    around: Callable[[], AbstractContextManager[None]] = nullcontext
    beside: Callable[[int, Callable[[Scheduler], None]], None] = lambda seed, listen: None


@dataclass(frozen=True, slots=True)
class Digest:
    """What a schedule did, as two hashes."""

    calls: str
    outcome: str


def digest(kind: Kind, seed: int) -> Digest:
    """Run the schedule with this seed. A broken promise is part of what it did."""
    calls = hashlib.sha256()

    def listen(scheduler: Scheduler) -> None:
        scheduler.on_end = lambda *call: calls.update(_line(*call).encode())

    with kind.around():
        kind.beside(seed, listen)
        simulation = kind.make(seed)
        listen(simulation.scheduler)
        try:
            simulation.run()
        except Broken as broken:
            calls.update(str(broken).encode())
            return Digest(calls.hexdigest()[:LENGTH], f"broken: {broken}".replace("\n", " "))
    outcome = hashlib.sha256(meaning(simulation.outcome()).encode())
    return Digest(calls.hexdigest()[:LENGTH], outcome.hexdigest()[:LENGTH])


def differing(path: Path, hashes: Mapping[int, str]) -> str:
    """Write the hashes of seeds, or compare them with those that are there: the first seed that
    differs, or is missing; empty if none.
    """
    if not path.exists():
        path.write_text("".join(f"{seed} {said}\n" for seed, said in hashes.items()))
        return ""
    before: dict[int, str] = {}
    for line in path.read_text().splitlines():
        seed, _, said = line.partition(" ")
        before[int(seed)] = said
    for seed, said in hashes.items():
        if before.get(seed) != said:
            return f"seed {seed}: {before.get(seed, 'nothing')} before, {said} now"
    return ""


def _line(
    process: str, name: str, options: Any, fault: Fault | None, error: BaseException | None
) -> str:
    kind = "answered"
    if isinstance(error, ClientError):
        kind = str(error.response["Error"]["Code"])
    elif error is not None:
        kind = type(error).__name__
    said = worded(options) if isinstance(options, Mapping) else options
    return f"{process} {name} {meaning(said)} {fault} {kind}\n"


# What options say, however they say it.

_ASKED_FOR_ON_FAILURE = "ReturnValuesOnConditionCheckFailure"
"""It changes what a refusal tells, and nothing else."""


def meaning(value: Any) -> str:
    """A value as text: without an order where it has none, and without addresses.

    Expressions of DynamoDB are what they mean, whatever their placeholders are called.
    """
    match value:
        case Enum():
            return str(value)
        case None | str() | int() | float() | bytes() | Decimal():
            return repr(value)
        case Mapping():
            return f"{{{', '.join(sorted(_items(value)))}}}"
        case list() | tuple():
            return f"[{', '.join(map(meaning, value))}]"
        case Set():
            return f"[{', '.join(sorted(map(meaning, value)))}]"
    name = type(value).__name__
    if is_dataclass(value):
        return name + meaning({field.name: getattr(value, field.name) for field in fields(value)})
    return name


def _items(value: Mapping[Any, Any]) -> Iterator[str]:
    for name, each in value.items():
        if name in ("SS", "NS", "BS"):
            yield f"{name}: {sorted(each)}"
        elif not isinstance(name, str):
            yield f"{meaning(name)}: {meaning(each)}"
        elif name.endswith("Expression"):
            names = value.get("ExpressionAttributeNames", {})
            values = value.get("ExpressionAttributeValues", {})
            yield f"{name}: {expression(each, names, values)}"
        elif name != _ASKED_FOR_ON_FAILURE and not name.startswith("ExpressionAttribute"):
            yield f"{name}: {meaning(each)}"


_BEGINS = "{N: '"
_SECTIONS = ("SET", "REMOVE", "ADD", "DELETE")
_words = lru_cache(4_096)(re.compile(r"\s*([#:]?\w+|<>|<=|>=|[=<>(),.+-])").findall)


def expression(text: str, names: Mapping[str, str], values: Mapping[str, Any]) -> str:
    """What an expression means. What is joined by AND, OR or commas has no order, and
    `SET x = x + :v` is `ADD x :v`.
    """
    reader = _Reader(_words(text), names, values)
    # A projection is a list of paths; a condition is one of one.
    read = reader.updates if reader.words[0] in _SECTIONS else partial(reader.listed, reader.any_of)
    found = ", ".join(sorted(read()))
    reader.check(reader.at == len(reader.words))
    return found


class _Reader:
    """Reads words of an expression from left to right, and names and values in their places."""

    def __init__(
        self, words: Sequence[str], names: Mapping[str, str], values: Mapping[str, Any]
    ) -> None:
        self.words = words
        self._names = names
        self._values = values
        self._joined_of: dict[tuple[str, str], set[str]] = {}
        self.at = 0

    def check(self, is_read: bool) -> None:
        if not is_read:
            # No Exception: what is being tested must not take it for a failure of its own.
            raise Broken(f"an expression that this module does not know: {self.words}")

    def _take(self, *expected: str) -> str:
        if self.at < len(self.words) and (word := self.words[self.at]) in expected:
            self.at += 1
            return word
        return ""

    def _must(self, word: str) -> None:
        self.check(bool(self._take(word)))

    def listed(self, read: Callable[[], str]) -> list[str]:
        found = [read()]
        while self._take(","):
            found.append(read())
        return found

    def any_of(self) -> str:
        return self._joined("OR", partial(self._joined, "AND", self._one))

    def _joined(self, word: str, read: Callable[[], str]) -> str:
        found = set(self._parts(word, read()))
        while self._take(word):
            found |= self._parts(word, read())
        return found.pop() if len(found) == 1 else self._whole(word, found)

    def _whole(self, word: str, parts: set[str]) -> str:
        text = f"({f' {word} '.join(sorted(parts))})"
        self._joined_of[word, text] = parts
        return text

    def _parts(self, word: str, text: str) -> set[str]:
        """The halves of what is joined by the same word, however it is bracketed."""
        return self._joined_of.get((word, text), {text})

    def _one(self) -> str:
        if self._take("NOT"):
            return f"NOT {self._one()}"
        if self._take("("):
            inner = self.any_of()
            self._must(")")
            return inner
        left = self._operand()
        if self._take("BETWEEN"):
            least = self._operand()
            self._must("AND")
            return self._whole("AND", {f"{left} <= {self._operand()}", f"{left} >= {least}"})
        sign = self._take("=", "<>", "<", "<=", ">", ">=", "IN")
        if sign == "IN":
            self._must("(")
            choices = self.listed(self._operand)
            self._must(")")
            return f"{left} IN {sorted(choices)}"
        return f"{left} {sign} {self._operand()}" if sign else left

    def _operand(self) -> str:
        word = self.words[self.at]
        self.at += 1
        if word.startswith(":"):
            return meaning(self._values[word])
        if self._take("("):
            arguments = self.listed(self._operand)
            self._must(")")
            return f"{word}({', '.join(arguments)})"
        path = self._names[word] if word.startswith("#") else word
        return f"{path}.{self._operand()}" if self._take(".") else path

    def updates(self) -> Iterator[str]:
        while section := self._take(*_SECTIONS):
            yield from self.listed(partial(self._update, section))

    def _update(self, section: str) -> str:
        path = self._operand()
        if section == "REMOVE":
            return f"REMOVE {path}"
        if section != "SET":
            return f"{section} {path} {self._operand()}"
        self._must("=")
        left = self._operand()
        sign = self._take("+", "-")
        if not sign:
            return f"SET {path} {left}"
        self.check(left == path)
        value = self._operand()
        return f"ADD {path} {value if sign == '+' else value.replace(_BEGINS, f'{_BEGINS}-')}"
