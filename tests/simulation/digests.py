"""One hash for each schedule, of its calls or of its outcome: two commits are compared by files.

`make sim OF=shards RUNS=2000 HASH=FILE` writes the file where there is none, and else compares it
and names the first seed that differs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from deadletter.aws.dynamodb import stored
from deadletter.aws.table import Compared, Condition, Joined, Opposite, OrElse, at_least, at_most
from tests.simulation.scheduler import Fault, Scheduler
from tests.simulation.witness import Broken

LENGTH = 16
"""Characters of a hash in a file: two of 10,000 schedules have one by chance once in 10^11."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How the schedule of a seed is made; it is made and run within `around`.

    `beside` are schedulers of further schedules of the seed, which are run first. `shape` is what
    a person is told of a seed, `seen` what is counted of a schedule that has been played.
    """

    make: Callable[[int], Any]
    around: Callable[[], AbstractContextManager[None]] = nullcontext
    beside: Callable[[int, Callable[[Scheduler], None]], None] = lambda seed, listen: None
    shape: Callable[[int], Any] | None = None
    seen: Callable[[Any], Mapping[str, int]] = lambda simulation: {}


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
    return f"{process} {name} {meaning(options)} {fault} {kind}\n"


def meaning(value: Any) -> str:
    """A value as text: without an order where it has none, and without addresses."""
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


_CONDITIONS = {
    "When": "ConditionExpression",
    "Where": "KeyConditionExpression",
    "Keep": "FilterExpression",
}
_CHANGES = ("Sets", "Adds", "Removes")


def _items(value: Mapping[Any, Any]) -> Iterator[str]:
    if changes := sorted(_changes(*(value.get(name, ()) for name in _CHANGES))):
        yield f"UpdateExpression: {', '.join(changes)}"
    for name, each in value.items():
        if name in ("SS", "NS", "BS"):
            yield f"{name}: {sorted(each)}"
        elif isinstance(each, Condition):
            yield f"{_CONDITIONS[name]}: {condition(each)}"
        elif name == "Only":
            yield f"ProjectionExpression: {', '.join(sorted(each))}"
        elif name not in _CHANGES:
            yield f"{name if isinstance(name, str) else meaning(name)}: {meaning(each)}"


def _changes(sets: Any, adds: Any, removes: Any) -> Iterator[str]:
    for name in sets:
        value = sets[name]
        is_kept = isinstance(value, OrElse)
        said = f"if_not_exists({value.name}, {_stored(value.value)})" if is_kept else _stored(value)
        yield f"SET {name} {said}"
    yield from (f"ADD {name} {_stored(adds[name])}" for name in adds)
    yield from (f"REMOVE {name}" for name in removes)


def condition(wanted: Condition) -> str:
    """What a condition means: what is joined by AND or OR has no order."""
    match wanted:
        case Opposite(inner):
            return f"NOT {condition(inner)}"
        case Compared(sign, path, values) if sign != "BETWEEN":
            name = path if isinstance(path, str) else ".".join(path)
            bounds = [*map(_stored, values)]
            if sign == "IN":
                return f"{name} IN {sorted(bounds)}"
            if sign.isalpha() or "_" in sign:
                return f"{sign}({', '.join([name, *bounds])})"
            return f"{name} {sign} {bounds[0]}"
    word = wanted.word if isinstance(wanted, Joined) else "AND"
    parts = {*map(condition, _parts(wanted, word))}
    return parts.pop() if len(parts) == 1 else f"({f' {word} '.join(sorted(parts))})"


def _parts(wanted: Condition, word: str) -> Iterator[Condition]:
    """What is joined by a word, however it is bracketed; a range has two parts."""
    match wanted:
        case Joined(joins, parts) if joins == word:
            for part in parts:
                yield from _parts(part, word)
        case Compared("BETWEEN", path, (least, most)) if word == "AND":
            yield from (at_least(path, least), at_most(path, most))
        case _:
            yield wanted


def _stored(value: Any) -> str:
    return meaning(stored({"": value})[""])
