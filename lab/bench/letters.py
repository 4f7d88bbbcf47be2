"""Numbered letters, and the books of what became of them.

A letter is its number: body and attributes follow from it, so what was sent is checked against what
should have been.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from deadletter.message.stamp import NAME as OUR_ATTRIBUTE

PIPELINE = "orders"

# The names of the queue with the letters, and of the one where they belong.
SOURCE, MAIN = "source", "main"

_START = '{"order": "'
_DIGITS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterSeries:
    """What the letters look like.

    `tenants` is how many different values `tenantId` has; `groups` is the number of FIFO groups
    (0: no FIFO queue).
    """

    number: int
    body_bytes: int = 1024
    tenants: int = 4
    groups: int = 0

    def body(self, number: int) -> str:
        text = f'{_START}{number:0{_DIGITS}d}", "tenantId": "t{number % self.tenants}", "pad": "'
        return text + "x" * (self.body_bytes - len(text) - 2) + '"}'

    def attributes(self, number: int) -> dict[str, dict[str, str]]:
        return {
            "region": {"DataType": "String", "StringValue": "eu"},
            "order": {"DataType": "String", "StringValue": f"{number:0{_DIGITS}d}"},
        }

    def group(self, number: int) -> str | None:
        return f"g{number % self.groups}" if self.groups else None

    def number_in(self, body: str) -> int | None:
        """The number that stands in a body; None if it is no letter's."""
        digits = body[len(_START) : len(_START) + _DIGITS]
        return int(digits) if digits.isdecimal() and int(digits) < self.number else None


@dataclass(frozen=True, slots=True)
class Audited:
    """What became of the letters.

    unfinished  are still in the source queue
    lost        are in no queue, and were never sent
    duplicated  sends of a letter after its first
    changed     sends with a body that is no letter's, or with other attributes; our own attribute
                does not count, a FIFO letter's group does
    disordered  FIFO letters that were sent after a later one of their group
    """

    unfinished: int = 0
    lost: int = 0
    duplicated: int = 0
    changed: int = 0
    disordered: int = 0


class Books:
    """What was sent to other queues than the source."""

    def __init__(self, letters: LetterSeries) -> None:
        self._letters = letters
        self._sends = [0] * letters.number
        self._highest: dict[str | None, int] = {}
        self._changed = self._disordered = 0
        self.unsent = letters.number

    def note(
        self, body: str, attributes: Mapping[str, Mapping[str, Any]], group: str | None
    ) -> None:
        """Note a message that was sent."""
        number = self._letters.number_in(body)
        ours = {name: value for name, value in attributes.items() if name != OUR_ATTRIBUTE}
        if number is None:
            self._changed += 1
            return
        wanted = (self._letters.body(number), self._letters.attributes(number))
        self._changed += (body, ours) != wanted or group != self._letters.group(number)
        if not self._sends[number]:
            self.unsent -= 1
            self._disordered += group is not None and number < self._highest.get(group, -1)
            self._highest[group] = max(number, self._highest.get(group, -1))
        self._sends[number] += 1

    def audit(self, left: Collection[int]) -> Audited:
        """The books, if these letters are left in the source queue."""
        return Audited(
            unfinished=len(left),
            lost=sum(not sends and number not in left for number, sends in enumerate(self._sends)),
            duplicated=sum(sends - 1 for sends in self._sends if sends),
            changed=self._changed,
            disordered=self._disordered,
        )
