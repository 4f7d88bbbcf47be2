"""Fair shares of a run: the queue and each lane that is due take turns (deficit round robin)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from deadletter.routing.decision import DUE

QUEUE = "queue"
"""The name of the queue among the sources; the others have the names of their lanes."""

_LANES = "lanes"
_KINDS = (DUE, _LANES, QUEUE)
"""Each kind gets the same share: however many circuits and rules hold letters, the queue and the
lane of delays are not lost among them."""

SECONDS_A_TURN = 5.0
SMALLEST_TURN, LARGEST_TURN = 10, 100
"""Letters of one turn: one receive at least, one intent of the journal at most."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Where the turns of a source's runs go on.

    kind     the kind whose turn it is: the lane of delays, the other lanes, or the queue
    lane     the last of the other lanes that had its turn: the next one follows by name
    credits  letters that a kind may take before the next kind; below 0 it took too many
    claims   letters that a lane was granted in a turn that the end of a run cut short
    """

    kind: str = QUEUE
    lane: str = ""
    credits: Mapping[str, int] = field(default_factory=dict)
    claims: Mapping[str, int] = field(default_factory=dict)


NO_SHARES = Shares()
"""The shares before the first run."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A source may move so many letters now."""

    source: str
    letters: int


def quantum(rate: float) -> int:
    """Letters that a turn adds: what the pace (letters a second) allows in a few seconds."""
    return max(SMALLEST_TURN, min(LARGEST_TURN, int(rate * SECONDS_A_TURN)))


def next_turn(shares: Shares, sources: Collection[str], letters: int) -> tuple[Turn | None, Shares]:
    """The next turn among sources that have letters, and the shares after it was granted.

    `letters` is the quantum. Without a source there is no turn.
    """
    if not sources:
        return None, shares
    present = {_kind(source) for source in sources}
    left = dict(shares.credits)
    kind = shares.kind
    while kind not in present or left.get(kind, 0) <= 0:
        kind = _KINDS[(_KINDS.index(kind) + 1) % len(_KINDS)] if kind in _KINDS else QUEUE
        if kind in present:
            left[kind] = min(left.get(kind, 0) + letters, letters)
    source, granted, lane, claims = kind, left[kind], shares.lane, dict(shares.claims)
    if kind == _LANES:
        [source, *_] = in_turn(shares, [name for name in sources if _kind(name) == _LANES])
        lane, granted = source, letters + claims.pop(source, 0)
    left[kind] -= granted
    return Turn(source, granted), Shares(kind, lane, left, claims)


def end_turn(shares: Shares, turn: Turn, used: int, *, is_cut: bool) -> Shares:
    """The shares after a turn in which `used` letters were taken.

    What the source did not use is its kind's again. If the end of the run cut the turn
    short, the rest is added to the source's next turn, up to the largest turn.
    """
    kind, rest = _kind(turn.source), turn.letters - used
    left = min(shares.credits.get(kind, 0) + rest, LARGEST_TURN)
    claims = shares.claims
    if is_cut and rest > 0 and kind == _LANES:
        claim = min(claims.get(turn.source, 0) + rest, LARGEST_TURN)
        claims = {**claims, turn.source: claim}
    return replace(shares, credits={**shares.credits, kind: left}, claims=claims)


def in_turn(shares: Shares, lanes: Collection[str]) -> list[str]:
    """The lanes in the order of their turns."""
    return sorted(lanes, key=lambda lane: (lane <= shares.lane, lane))


def after_turns(
    shares: Shares, *, served: Collection[str], due: Collection[str], looked_upto: str | None
) -> Shares:
    """Where the next run begins, after one that gave turns to the lanes `served` of those `due`.

    If a run had time to look into some lanes only (up to `looked_upto`), and each of them
    that was due has had a turn, the next run looks into the others.
    """
    waiting = set(due) - set(served) - {DUE}
    if looked_upto is None or waiting or _kind(looked_upto) != _LANES:
        return shares
    return replace(shares, lane=looked_upto)


def without_lost(shares: Shares, lanes: Collection[str]) -> Shares:
    """The shares without the claims of lanes that do not exist any more."""
    claims = {name: letters for name, letters in shares.claims.items() if name in lanes}
    return replace(shares, claims=claims)


def _kind(source: str) -> str:
    return source if source in (DUE, QUEUE) else _LANES
