"""What a run did, in numbers: never a body, never an attribute's value."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from deadletter.decision import Decision, Park


class Count(StrEnum):
    """What is counted; the value is the metric's name."""

    RECEIVED = "Received"
    REDRIVEN = "RedriveSuccess"
    PARKED = "MessageMovedToParkingLot"
    HELD = "Held"
    DIVERTED = "Diverted"
    FAILED = "RedriveFailure"
    LEFT = "LeftInPlace"
    POSSIBLE_DUPLICATE = "PossibleDuplicate"
    ALREADY_SENT = "AlreadySent"
    UNMARKED = "RedriveUnmarked"
    UNRECORDED = "RedriveUnrecorded"
    FOREIGN = "ForeignLetter"
    FORGED = "ForgedStamp"
    UNDECIDED = "Undecided"
    UNDELETED = "Undeleted"
    UNSENDABLE = "Unsendable"
    LATE = "TooLateToSend"
    BROKEN = "BrokenInWaitingRoom"
    ROUTER_UNAVAILABLE = "RouterUnavailable"
    JOURNAL_UNAVAILABLE = "JournalUnavailable"
    ROOM_UNAVAILABLE = "RoomUnavailable"
    QUEUE_UNAVAILABLE = "QueueUnavailable"
    RULE_INVALID = "RuleInvalid"
    RULE_LIMIT_REACHED = "RuleLimitReached"


ALWAYS_COUNTED = (Count.REDRIVEN, Count.FAILED, Count.PARKED, Count.HELD, Count.DIVERTED)
"""Figures whose zero says something too: that the run took place."""


class Tally:
    """Counts that several workers add to at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._decisions: Counter[str] = Counter()
        self._shadows: Counter[str] = Counter()
        self._refused_rules: dict[str, str] = {}
        self._limited_rules: set[str] = set()

    def add(self, count: Count, number: int = 1) -> None:
        if number:
            with self._lock:
                self._counts[count] += number

    def decided(self, decision: Decision) -> None:
        with self._lock:
            self._decisions[name_of(decision)] += 1

    def noticed(
        self,
        refused_rules: Mapping[str, str],
        shadows: Mapping[str, int],
        limited_rules: Iterable[str] = (),
    ) -> None:
        """What the router said beside its verdicts; a rule that every chunk names counts once."""
        with self._lock:
            self._refused_rules.update(refused_rules)
            self._counts[Count.RULE_INVALID] = len(self._refused_rules)
            self._limited_rules.update(limited_rules)
            self._counts[Count.RULE_LIMIT_REACHED] = len(self._limited_rules)
            self._shadows.update(shadows)

    def report(self, pipeline: str, source: str, stopped: str) -> Report:
        with self._lock:
            return Report(
                pipeline,
                source,
                stopped,
                {count: number for count, number in self._counts.items() if number},
                dict(self._decisions),
                dict(self._shadows),
                dict(self._refused_rules),
                tuple(sorted(self._limited_rules)),
            )


@dataclass(frozen=True, slots=True)
class Report:
    """One run: `stopped` says why it ended, the rest is counts."""

    pipeline: str
    source: str
    stopped: str
    counts: Mapping[str, int] = field(default_factory=dict)
    decisions: Mapping[str, int] = field(default_factory=dict)
    shadow_matches: Mapping[str, int] = field(default_factory=dict)
    refused_rules: Mapping[str, str] = field(default_factory=dict)
    limited_rules: tuple[str, ...] = ()

    @property
    def moved(self) -> int:
        """Letters that are somewhere else now, for whatever reason."""
        ways = (Count.REDRIVEN, Count.PARKED, Count.HELD, Count.DIVERTED)
        return sum(self.counts.get(way, 0) for way in ways)

    def metrics(self) -> dict[str, int]:
        """What goes to CloudWatch: the five main figures always, of the rest what happened."""
        return {**dict.fromkeys(map(str, ALWAYS_COUNTED), 0), **_named(self.counts)}

    def to_json(self) -> dict[str, Any]:
        """The report as the function returns it and as the log shows it."""
        return {
            "pipeline": self.pipeline,
            "source": self.source,
            "stopped": self.stopped,
            "received": self.counts.get(Count.RECEIVED, 0),
            "moved": self.moved,
            "failed": self.counts.get(Count.FAILED, 0),
            "left": self.counts.get(Count.LEFT, 0),
            "possible_duplicates": self.counts.get(Count.POSSIBLE_DUPLICATE, 0),
            "decisions": dict(self.decisions),
            "counts": _named(self.counts),
            "shadow_matches": dict(self.shadow_matches),
            "refused_rules": dict(self.refused_rules),
            "limited_rules": list(self.limited_rules),
        }


def _named(counts: Mapping[str, int]) -> dict[str, int]:
    return {str(count): number for count, number in counts.items()}


def name_of(decision: Decision) -> str:
    """The decision's name in reports and on the command line: REDRIVE, PARK:POISON, …"""
    name = type(decision).__name__.upper()
    return f"{name}:{decision.reason}" if isinstance(decision, Park) else name
