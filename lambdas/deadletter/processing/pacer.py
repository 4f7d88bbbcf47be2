"""The calls and places that one batch has taken from the paces of its circuits.

A message that finds no call left waits in place first, where that is allowed, a second at a time,
until a second before no work may begin; only then is it given back, hidden until its place. That
costs a receive, and a backlog that is refused again and again would walk into the DLQ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from deadletter.circuit.state import Circuit
from deadletter.pace.pace import PaceGrant, Wish, hidden_for, is_worth_asking

MOST_WISHED = 10
"""Calls that are asked for at once: what is granted and not used is lost."""

SECONDS_BETWEEN_WISHES = 1.0
"""After a wish that was not granted; each costs a write."""

LONGEST_PAUSE, SHORTEST_PAUSE = 1.0, 0.5
"""Seconds that a message waits in place before it looks again; drawn, so that processes take
turns."""

UNKNOWN_PLACE = 60.0
"""Seconds that a message waits for its place at most if the row gives no answer."""

Take = Callable[[Circuit, Wish], tuple[Circuit, PaceGrant] | None]
"""Takes from a circuit's pace; returns the circuit as it is then. None without an answer."""


@dataclass(slots=True)
class _Tokens:
    """Calls that were granted and not used yet, under one generation of the circuit."""

    generation: int
    left: int
    until: float
    asked_at: float
    was_enough: bool


@dataclass(slots=True, eq=False, repr=False)
class Pacer:
    """What one batch has of each key's pace. Its gate calls it under a lock."""

    take: Take
    clock: Callable[[], float]
    random: Random
    _tokens: dict[str, _Tokens] = field(default_factory=dict)
    _waits: dict[str, list[float]] = field(default_factory=dict)

    def has_call(
        self, circuit: Circuit, wanted: int, *, returning: bool, whole: bool = False
    ) -> bool:
        """Whether a call may begin now. Asks for up to `wanted` calls if none is left."""
        now, key = self.clock(), circuit.key
        tokens = self._tokens.get(key)
        if tokens is not None and tokens.generation == circuit.generation:
            if tokens.left > 0 and now < tokens.until:
                return True
            if not tokens.was_enough and now - tokens.asked_at < SECONDS_BETWEEN_WISHES:
                return False
        pace = circuit.paced(now)
        wish = Wish(min(MOST_WISHED, max(1, wanted)), returning=returning, whole=whole)
        if pace is None or not is_worth_asking(pace, wish, now):
            return pace is None
        answer = self.take(circuit, wish)
        # If the row gives no answer, all are let through: the handler finds out.
        calls = wish.calls if answer is None else answer[1].calls
        until = now + SECONDS_BETWEEN_WISHES if answer is None else answer[1].until
        generation = circuit.generation if answer is None else answer[0].generation
        tokens = _Tokens(generation, calls, until, now, calls == wish.calls)
        self._tokens[key] = tokens
        return tokens.left > 0 and self.clock() < tokens.until

    def use(self, circuit: Circuit) -> None:
        """Use one of the calls that `has_call` has found."""
        tokens = self._tokens.get(circuit.key)
        if tokens is not None:
            tokens.left -= 1

    def place(self, circuit: Circuit, wanted: int, *, again: bool) -> float | None:
        """Seconds until a message's place; None if the circuit is not paced any more.

        Asks for `wanted` places at once, for what is left of the batch. A message that waits
        `again` has its place in a long row: another one would count it twice.
        """
        now = self.clock()
        pace = circuit.paced(now)
        if again and pace is not None and pace.waits_long(now):
            return hidden_for(pace.ptat - now, self.random)
        waits = self._waits.setdefault(circuit.key, [])
        if not waits:
            answer = self.take(circuit, Wish(places=max(1, wanted)))
            if answer is None:
                return UNKNOWN_PLACE * (1 + self.random.random()) / 2
            waits += answer[1].waits
        return hidden_for(waits.pop(0), self.random) if waits else None

    def pause(self) -> float:
        """Seconds to wait in place before the next look."""
        return SHORTEST_PAUSE + (LONGEST_PAUSE - SHORTEST_PAUSE) * self.random.random()
