"""What can be wrong with one attribute of a row, whoever has left it so."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tests.rows.recorded import KEYS, Example, Recorded, plain_name

HUGE = "1" + "0" * 120
"""A number beyond every clock and every counter; DynamoDB stores it."""


FAR = {"N": str(2**38)}
"""A time that a clock can show, in some thousand years."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One attribute of a row, and what stands in its place; None if it is missing."""

    kind: str
    example: Example
    attribute: str
    how: str
    value: Mapping[str, Any] | None

    def __str__(self) -> str:
        return f"{self.kind}: {self.attribute} {self.how}"

    @property
    def row(self) -> dict[str, Any]:
        """The row as it is damaged."""
        rest = {name: value for name, value in self.example.item.items() if name != self.attribute}
        return rest if self.value is None else {**rest, self.attribute: dict(self.value)}


def damages(recorded: Recorded, kind: str) -> Iterator[Damage]:
    """Every attribute of the rows of a kind, damaged in every way."""
    for example in {id(one): one for one in recorded.kinds[kind].values()}.values():
        for attribute, value in example.item.items():
            known = recorded.kinds[kind].get(plain_name(attribute))
            if attribute in KEYS[example.table] or known is not example:
                continue
            for how, damaged in damaged_values(value):
                yield Damage(kind, example, attribute, how, damaged)


def damaged_values(value: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    """What may stand in the place of an attribute's value."""
    [(kind, content)] = value.items()
    yield "missing", None
    yield "null", {"NULL": True}
    yield "of another type", {"N": "7"} if kind == "S" else {"S": "seven"}
    if kind != "L":
        yield "a list", {"L": []}
    match kind:
        case "S":
            yield "garbage", {"S": "\0{]"}
            yield "empty", {"S": ""}
            yield from _damaged_text(content)
        case "N":
            yield "a fraction", {"N": str(Decimal(content) + Decimal("0.5"))}
            for number in ("-7.5", HUGE, f"-{HUGE}"):
                yield f"out of range: {number[:4]}", {"N": number}
        case "B":
            yield "garbage", {"B": b"\xff\x00\x01"}
            yield "empty", {"B": b""}
        case "M":
            yield "empty", {"M": {}}
            for name, part in content.items():
                for how, damaged in damaged_values(part):
                    rest = {key: each for key, each in content.items() if key != name}
                    whole = rest if damaged is None else {**rest, name: damaged}
                    yield f"{name} {how}", {"M": whole}
        case "L":
            yield "empty", {"L": []}
            yield "garbage", {"L": [{"N": "-7.5"}]}
        case "NS":
            yield "garbage", {"NS": ["-7.5", HUGE]}


def _damaged_text(text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A text that is JSON, with one of its parts damaged."""
    try:
        data = json.loads(text)
    except ValueError:
        return
    if not isinstance(data, dict | list):
        return
    yield "other JSON", {"S": "[[]]"}
    for how, damaged in _damaged_parts(data):
        yield how, {"S": json.dumps(damaged)}


def _damaged_parts(data: Any) -> Iterator[tuple[str, Any]]:
    """JSON with one of its parts damaged, however deep; of a list it is the first one."""
    parts = data if isinstance(data, dict) else dict(enumerate(data[:1])) if data else {}
    for name, part in parts.items():

        def other(value: Any, name: Any = name) -> Any:
            return {**data, name: value} if isinstance(data, dict) else [value, *data[1:]]

        if isinstance(data, dict):
            yield f"{name} missing", {key: each for key, each in data.items() if key != name}
        numbers = [-7.5, 1e300, 10**400] if isinstance(part, int | float) else []
        for value in (*numbers, None, "seven" if not isinstance(part, str) else 7):
            yield f"{name} is {str(value)[:9]}", other(value)
        if isinstance(part, dict | list):
            yield from ((f"{name} {how}", other(value)) for how, value in _damaged_parts(part))
