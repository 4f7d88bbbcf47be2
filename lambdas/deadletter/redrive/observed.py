"""What a pipeline in mode observe would have done with its letters, since it began to observe."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from deadletter.routing.decision import Decision, Divert, Hold, Park, Redrive

MOST_OBSERVED = 2_000
"""Letters of a source that are kept by their ids: some 100 KB. Of more only the number is kept."""


class ObservedUnavailable(Exception):
    """What was observed could not be read or written."""


@dataclass(frozen=True, slots=True)
class WouldGo:
    """Where a letter would have gone, and by which rule; `target` is a lane, queue or reason."""

    action: str
    target: str = ""
    rule: str = ""


@dataclass(frozen=True, slots=True)
class ObservedLetter:
    """The first decision on a letter that was observed, at epoch seconds, and why."""

    where: WouldGo
    at: float
    because: str


@dataclass(frozen=True, slots=True)
class Observed:
    """What was observed in one source since `since` (epoch seconds), by the letters' origin ids.

    `more` is how often a letter was judged that did not fit in any more.
    """

    since: float
    messages: Mapping[str, ObservedLetter] = field(default_factory=dict)
    more: int = 0

    def with_judged(self, judged: Iterable[tuple[str, Decision]], now: float) -> Observed:
        """This with more letters, by their origin ids; one that was judged before is left out."""
        letters, more = dict(self.messages), self.more
        for origin, decision in judged:
            if origin in letters:
                continue
            if len(letters) >= MOST_OBSERVED:
                more += 1
                continue
            letters[origin] = ObservedLetter(would_go(decision), now, decision.because)
        return Observed(self.since, letters, more)


class Observations(Protocol):
    """The store of what was observed. Raises ObservedUnavailable."""

    def note(self, source: str, judged: Iterable[tuple[str, Decision]], now: float) -> None:
        """Add what was decided about letters of a source, by their origin ids."""


def would_go(decision: Decision) -> WouldGo:
    """Where a decision sends a letter."""
    rule = decision.rule or ""
    match decision:
        case Redrive():
            return WouldGo("REDRIVE", "main queue", rule)
        case Hold(lane=lane):
            return WouldGo("HOLD", f"lane {lane}", rule)
        case Divert(queue=queue):
            return WouldGo("DIVERT", f"dedicated DLQ {queue}", rule)
        case Park(reason=reason):
            return WouldGo("PARK", str(reason), rule)


def to_text(observed: Observed) -> str:
    """The letters as JSON; each place and each reason once."""
    places: dict[tuple[str, ...], int] = {}
    letters: dict[str, Any] = {}
    for origin, letter in observed.messages.items():
        where = letter.where
        key = (where.action, where.target, where.rule, letter.because)
        letters[origin] = [places.setdefault(key, len(places)), int(letter.at)]
    return json.dumps({"places": list(places), "messages": letters, "more": observed.more},
                      separators=(",", ":"))  # fmt: skip


def from_text(text: str, since: float) -> Observed:
    """What `to_text` wrote; empty for anything else: it is for people, and starts again."""
    try:
        data = json.loads(text)
        places = [tuple(map(str, place)) for place in data["places"]]
        letters = {
            str(origin): ObservedLetter(WouldGo(*places[index][:3]), float(at), places[index][3])
            for origin, (index, at) in data["messages"].items()
        }
        return Observed(since, letters, int(data["more"]))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return Observed(since)
