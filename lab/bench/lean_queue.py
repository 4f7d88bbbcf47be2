"""A queue of numbered letters that costs the machine little: a part of `lab.bench.lean_stub`.

A letter is its number: body, attributes and id follow from it, and are made when it is received.
So a queue of a million letters is a few bytes a letter, what was sent is checked against what
should have been, and each letter has one entry in the books: how often it was sent, and whether
it is deleted.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from heapq import heappop, heappush
from typing import Any

from deadletter.message.stamp import NAME as OUR_ATTRIBUTE

PRODUCER = "AIDAPRODUCER"
"""The SenderId of all letters."""

MOST_IN_FLIGHT = 120_000
"""Messages of one standard queue that may be received and not deleted."""

_START = '{"order": "'
_DIGITS = 8


class OverLimit(Exception):
    """Too many messages of the queue are in flight."""


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
        """Message attributes as JSON: bytes are base64."""
        return {
            "region": {"DataType": "String", "StringValue": "eu"},
            "order": {"DataType": "String", "StringValue": f"{number:0{_DIGITS}d}"},
        }

    def id(self, number: int) -> str:
        return f"{number:08x}-1111-4111-8111-111111111111"

    def number_in(self, body: str) -> int | None:
        """The number of the letter with this body; None if it is no letter's body."""
        digits = body[len(_START) : len(_START) + _DIGITS]
        if not digits.isdecimal() or int(digits) >= self.number:
            return None
        return int(digits) if body == self.body(int(digits)) else None


def number_of(letter_id: str) -> int | None:
    """The number of a letter by its id; None if the id is no letter's."""
    return int(letter_id[:8], 16) if letter_id.endswith("-1111-4111-8111-111111111111") else None


@dataclass(frozen=True, slots=True)
class Audited:
    """What became of the letters.

    arrived     were sent to a queue once or more often, and deleted
    unfinished  are still in the source queue
    lost        were deleted and never sent
    duplicated  sends of a letter after its first
    changed     sends with a body that is no letter's, or with other attributes; our own attribute
                does not count, a FIFO letter's group does
    disordered  FIFO letters that were sent after a later one of their group
    """

    arrived: int
    unfinished: int
    lost: int
    duplicated: int
    changed: int
    disordered: int = 0

    @property
    def is_safe(self) -> bool:
        """Whether letters that are left are the only thing wrong."""
        return not (self.lost or self.duplicated or self.changed or self.disordered)

    @property
    def is_clean(self) -> bool:
        return self.is_safe and not self.unfinished


class LeanQueue:
    """The source queue, and the books of what was sent and deleted."""

    def __init__(self, letters: LetterSeries, source_arn: str, began: float) -> None:
        self._letters = letters
        self._source_arn = source_arn
        self._sent_at = str(int((began - 3600) * 1000))
        self._next = 0
        self._returned: deque[int] = deque()
        # By number: the token of the receive, and when the lock ends.
        self._in_flight: dict[int, tuple[int, float]] = {}
        self._expiries: list[tuple[float, int]] = []
        self._tokens = 0
        self._receives: dict[int, int] = {}
        self._deleted = bytearray(letters.number)
        self._sends = bytearray(letters.number)
        self._left = self._unsent = letters.number
        self._changed = self._disordered = 0
        # By group: the highest number that was sent.
        self._highest: dict[int, int] = {}
        self._groups = [
            deque(range(group, letters.number, letters.groups)) for group in range(letters.groups)
        ]
        self._open_groups: deque[int] = deque(range(letters.groups))
        self._locks: dict[int, int] = {}

    def visible(self, now: float) -> int:
        self._expire(now)
        return self._left - len(self._in_flight)

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def left(self) -> int:
        """Letters that are not deleted."""
        return self._left

    @property
    def unsent(self) -> int:
        """Letters that no other queue has got."""
        return self._unsent

    def receive(self, wanted: int, visibility: float, now: float) -> list[tuple[int, str]]:
        """Numbers and receipt handles of so many letters at most; they are locked."""
        self._expire(now)
        if len(self._in_flight) >= MOST_IN_FLIGHT:
            raise OverLimit
        numbers = self._in_order(wanted) if self._groups else self._any(wanted)
        return [(number, self._lock(number, now + visibility)) for number in numbers]

    def message(self, number: int, handle: str, *, attributes: bool, system: bool) -> str:
        """The letter in the answer of a receive, as JSON."""
        body = self._letters.body(number)
        self._receives[number] = receives = self._receives.get(number, 0) + 1
        message: dict[str, Any] = {
            "MessageId": self._letters.id(number),
            "ReceiptHandle": handle,
            "MD5OfBody": hashlib.md5(body.encode(), usedforsecurity=False).hexdigest(),
            "Body": body,
        }
        if attributes:
            message["MessageAttributes"] = self._letters.attributes(number)
        if system:
            message["Attributes"] = {
                "SenderId": PRODUCER,
                "SentTimestamp": self._sent_at,
                "ApproximateReceiveCount": str(3 + receives),
                "ApproximateFirstReceiveTimestamp": self._sent_at,
                "DeadLetterQueueSourceArn": self._source_arn,
                **self._fifo(number),
            }
        return json.dumps(message)

    def delete(self, handle: str) -> None:
        """Delete the letter with this receipt handle."""
        number, token = map(int, handle.split(".")[:2])
        if self._deleted[number] or (self._groups and not self._is_lock(number, token)):
            return
        self._deleted[number] = 1
        self._left -= 1
        self._receives.pop(number, None)
        if self._in_flight.pop(number, None) is not None:
            self._unlock_group(number)

    def hide(self, handle: str, seconds: float, now: float) -> None:
        """Change a letter's lock; 0 seconds release it."""
        number, token = map(int, handle.split(".")[:2])
        if not self._is_lock(number, token):
            return
        if seconds:
            self._in_flight[number] = (token, now + seconds)
            heappush(self._expiries, (now + seconds, number))
        else:
            self._release(number)

    def sent(
        self, body: str, attributes: Mapping[str, Mapping[str, Any]], group: str | None = None
    ) -> None:
        """Record a message that was sent to another queue."""
        number = self._letters.number_in(body)
        ours = {name: value for name, value in attributes.items() if name != OUR_ATTRIBUTE}
        if number is None or not self._is_as_it_was(number, ours, group):
            self._changed += 1
            number = self._order_in(body) if number is None else number
        if number is None:
            return
        if not self._sends[number]:
            self._unsent -= 1
            self._note_order(number)
        self._sends[number] = min(255, self._sends[number] + 1)

    def _is_as_it_was(self, number: int, attributes: Mapping[str, Any], group: str | None) -> bool:
        expected = f"g{number % self._letters.groups}" if self._letters.groups else None
        return attributes == self._letters.attributes(number) and group == expected

    def _note_order(self, number: int) -> None:
        if not self._letters.groups:
            return
        group = number % self._letters.groups
        highest = self._highest.get(group, -1)
        self._disordered += number < highest
        self._highest[group] = max(number, highest)

    def audit(self) -> dict[str, Any]:
        pairs = list(zip(self._deleted, self._sends, strict=True))
        return asdict(
            Audited(
                arrived=sum(1 for deleted, sends in pairs if deleted and sends),
                unfinished=sum(1 for deleted, _ in pairs if not deleted),
                lost=sum(1 for deleted, sends in pairs if deleted and not sends),
                duplicated=sum(sends - 1 for _, sends in pairs if sends > 1),
                changed=self._changed,
                disordered=self._disordered,
            )
        )

    def _order_in(self, body: str) -> int | None:
        digits = body[len(_START) : len(_START) + _DIGITS]
        return int(digits) if digits.isdecimal() and int(digits) < self._letters.number else None

    def _fifo(self, number: int) -> dict[str, str]:
        if not self._groups:
            return {}
        return {
            "MessageGroupId": f"g{number % self._letters.groups}",
            "MessageDeduplicationId": f"d{number}",
            "SequenceNumber": f"{10**18 + number}",
        }

    def _any(self, wanted: int) -> Sequence[int]:
        numbers: list[int] = []
        while self._returned and len(numbers) < wanted:
            number = self._returned.popleft()
            if not self._deleted[number]:
                numbers.append(number)
        fresh = min(wanted - len(numbers), self._letters.number - self._next)
        numbers += range(self._next, self._next + fresh)
        self._next += fresh
        return numbers

    def _in_order(self, wanted: int) -> Sequence[int]:
        numbers: list[int] = []
        while self._open_groups and len(numbers) < wanted:
            group = self._open_groups.popleft()
            waiting = self._groups[group]
            taken = [waiting.popleft() for _ in range(min(len(waiting), wanted - len(numbers)))]
            if taken:
                self._locks[group] = len(taken)
            numbers += taken
        return numbers

    def _lock(self, number: int, until: float) -> str:
        self._tokens += 1
        self._in_flight[number] = (self._tokens, until)
        heappush(self._expiries, (until, number))
        # As long as real ones.
        return f"{number}.{self._tokens}." + "A" * 160

    def _expire(self, now: float) -> None:
        while self._expiries and self._expiries[0][0] <= now:
            _, number = heappop(self._expiries)
            # A lock that was made longer has a later entry.
            if number in self._in_flight and self._in_flight[number][1] <= now:
                self._release(number)

    def _is_lock(self, number: int, token: int) -> bool:
        return number in self._in_flight and self._in_flight[number][0] == token

    def _release(self, number: int) -> None:
        del self._in_flight[number]
        if self._groups:
            waiting = self._groups[number % self._letters.groups]
            waiting.append(number)
            self._groups[number % self._letters.groups] = deque(sorted(waiting))
            self._unlock_group(number)
        else:
            self._returned.append(number)

    def _unlock_group(self, number: int) -> None:
        if not self._groups:
            return
        group = number % self._letters.groups
        self._locks[group] -= 1
        if not self._locks[group]:
            del self._locks[group]
            if self._groups[group]:
                self._open_groups.append(group)
