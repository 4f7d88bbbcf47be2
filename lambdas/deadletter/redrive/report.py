"""The report of a run, in numbers: never a body, never an attribute's value."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any

from deadletter.failure.failure import FailureKind
from deadletter.redrive.order import MAIN, Order
from deadletter.routing.decision import Decision, Park, encode
from deadletter.signals.figures import COUNTED, Count, Figure

WAYS = (Figure.REDRIVEN, Figure.MOVED_TO_PARKING, Figure.HELD, Figure.DIVERTED)
"""The metrics of letters that left the place where they were, one for each kind of target."""

DOMINANT_FROM = 11
"""Letters that must have failed alike: with fewer, a majority means little."""


LETTER_TROUBLES = (
    Figure.POSSIBLE_DUPLICATE,
    Count.REDRIVE_UNRECORDED,
    Count.UNSENDABLE,
    Count.UNDECIDED,
    Count.BAD_ROW,
)
"""The metrics of single letters that a person has to look at."""

REMEMBERED_TROUBLES = (*LETTER_TROUBLES, Count.DOMINANT_FAILURE)
"""The metrics whose time is remembered when a run counts them: each of them is a page."""


MOST_BAD_ROWS = 10
"""Rows that cannot be read, whose names are remembered: a lease's item is read in each minute."""


def nothing(_metric: str, _number: int) -> None:
    """Publishes nothing: for runs whose report is read in the same process."""


class Tally:
    """Counts that several workers add to at once.

    `count_metric` publishes a metric at once: what it was told survives the end of the process.
    """

    def __init__(self, count_metric: Callable[[str, int], None] = nothing) -> None:
        self._count_metric = count_metric
        self._published: Counter[str] = Counter()
        self._lock = threading.RLock()
        self._counts: Counter[str] = Counter()
        self._decisions: Counter[str] = Counter()
        self._shadows: Counter[str] = Counter()
        self._costly_rules: Counter[str] = Counter()
        self._refused_rules: dict[str, str] = {}
        self._limited_rules: set[str] = set()
        self._failures: Counter[str] = Counter()
        self._error_types: dict[str, str] = {}
        self._judged = 0
        self._trouble = ""
        self._failed = False
        self._tried = 0
        self._gone = 0
        self._futile = 0
        self._after_kill = 0
        self._tried_for: Counter[str] = Counter()
        self._taken_by: Counter[str] = Counter()
        self._oldest: float | None = None
        self._letters: list[Mapping[str, Any]] = []
        self._ages: list[int] = []
        self._bad_rows: set[str] = set()

    def count(self, metric: str, number: int = 1) -> None:
        """Add to a metric; one whose sum is 0 is left out of the report."""
        with self._lock:
            self._counts[metric] += number

    def count_received(self, sent_ms: Sequence[int | None], now: float) -> None:
        """Add letters that were received, by their SentTimestamp; `now` is epoch seconds."""
        ages = [max(0, round(now - ms / 1000)) for ms in sent_ms if ms]
        with self._lock:
            self._counts[Figure.RECEIVED] += len(sent_ms)
            self._ages += ages

    def count_now(self, metric: str, number: int = 1) -> None:
        """Add to a metric and publish that number at once, before the run goes on."""
        if not number:
            return
        with self._lock:
            self._counts[metric] += number
            self._published[metric] += number
            # One line at a time: workers share the output.
            self._count_metric(metric, number)

    def count_possible_duplicates(self, orders: Iterable[Order]) -> None:
        """Count the letters that may have been sent before, and publish them, before the send."""
        doubtful = [order for order in orders if order.maybe_sent]
        with self._lock:
            self._after_kill += sum(order.after_kill for order in doubtful)
        self.count_now(Figure.POSSIBLE_DUPLICATE, len(doubtful))

    def count_of(self, metric: str) -> int:
        with self._lock:
            return self._counts[metric]

    def note_trouble(self, trouble: str) -> None:
        """Keep what AWS refused or did not answer, for the report; the first one is kept."""
        with self._lock:
            self._trouble = self._trouble or trouble

    def note_bad_row(self, row: str) -> None:
        """Count a row that cannot be read, once however often it is read, and keep its name."""
        self.note_bad_rows([row])

    def note_bad_rows(self, rows: Iterable[str]) -> None:
        """The same of several rows."""
        with self._lock:
            self._bad_rows.update(rows)
            self._counts[Count.BAD_ROW] = len(self._bad_rows)

    def fail(self, trouble: str) -> None:
        """The run cannot do its work, for this reason."""
        self.note_trouble(trouble)
        self._failed = True

    def count_tried(self, letters: int) -> None:
        """Add letters of ours that were due and free to move, when they are taken in hand."""
        with self._lock:
            self._tried += letters

    def count_gone(self, letters: int) -> None:
        """Add letters that were deleted from where they were, or wait in another place now."""
        with self._lock:
            self._gone += letters

    def count_target(self, target: str, tried: int, moved: int) -> None:
        """Add letters that were sent to one place, and how many arrived and left their own."""
        with self._lock:
            self._tried_for[target] += tried
            self._taken_by[target] += moved
            self._futile += tried - moved

    def count_futile(self, letters: int) -> None:
        """Add letters that were received for nothing, and not for a fault of their own."""
        with self._lock:
            self._futile += letters

    @property
    def futile(self) -> int:
        """Letters that were received for nothing.

        One that no queue takes or that the router does not decide is not counted, nor are
        those of its FIFO group behind it: they would keep others from ever being tried.
        """
        with self._lock:
            return self._futile

    def note_left(self, sent_ms: Iterable[int | None]) -> None:
        """Keep the SentTimestamp of the oldest letter that was received and stays."""
        with self._lock:
            known = [ms / 1000 for ms in sent_ms if ms]
            self._oldest = min(
                [*known, *([] if self._oldest is None else [self._oldest])], default=None
            )

    @property
    def oldest_left(self) -> float | None:
        """SentTimestamp of the oldest letter that was left, in epoch seconds."""
        with self._lock:
            return self._oldest

    @property
    def fruitless(self) -> bool | None:
        """Whether no letter left its place of those that were tried; None if none was tried.

        True as well if the main queue took none of its letters, whatever else moved.
        """
        with self._lock:
            if not self._tried:
                return None
            # Others may be parked meanwhile: what was to go back is received for nothing.
            main_refuses = self._tried_for[MAIN] > 0 and not self._taken_by[MAIN]
            return main_refuses or not self._gone

    def count_decisions(self, decisions: Iterable[Decision]) -> None:
        names = Counter(map(decision_name, decisions))
        with self._lock:
            self._decisions.update(names)

    def add_rule_notes(
        self,
        refused_rules: Mapping[str, str],
        shadows: Mapping[str, int],
        limited_rules: Iterable[str] = (),
        costly_rules: Mapping[str, int] = MappingProxyType({}),
        *,
        unnamed_refused: int = 0,
        unnamed_limited: int = 0,
    ) -> None:
        """Add what the router says of rules; a rule that several chunks name counts once.

        `unnamed_refused` and `unnamed_limited` are rules that it counts and does not name.
        """
        with self._lock:
            self._refused_rules.update(refused_rules)
            self._counts[Count.RULE_INVALID] = len(self._refused_rules) + unnamed_refused
            self._limited_rules.update(limited_rules)
            self._counts[Count.RULE_LIMIT_REACHED] = len(self._limited_rules) + unnamed_limited
            self._shadows.update(shadows)
            self._costly_rules.update(costly_rules)
            self._counts[Count.RULE_TOO_COSTLY] += sum(costly_rules.values())

    def count_failures(self, kinds: Iterable[FailureKind], *, of: int) -> None:
        """Add how letters last failed, `of` so many that the router was asked about."""
        with self._lock:
            self._judged += of
            for kind in kinds:
                self._failures[kind.fingerprint] += kind.messages
                self._error_types[kind.fingerprint] = kind.error_type

    def note_judged(self, judged: Iterable[tuple[str, Decision]]) -> None:
        """Keep what was decided about each letter, by its message id, for the report."""
        with self._lock:
            self._letters += [
                {"message_id": message_id, **encode(decision)} for message_id, decision in judged
            ]

    def report(self, pipeline: str, home: str, stopped: str) -> Report:
        with self._lock:
            dominant = self._dominant()
            counts = {metric: number for metric, number in self._counts.items() if number}
            if dominant is not None:
                counts[Count.DOMINANT_FAILURE] = dominant.messages
            why_not_well = self._why_not_well()
            return Report(
                pipeline,
                home,
                stopped,
                counts,
                dict(self._decisions),
                dict(self._shadows),
                dict(self._refused_rules),
                tuple(sorted(self._limited_rules)),
                dominant,
                ended_well=not why_not_well,
                trouble=self._trouble or why_not_well,
                published=dict(self._published),
                messages=tuple(self._letters),
                ages=tuple(self._ages),
                costly_rules=dict(self._costly_rules),
                after_kill=self._after_kill,
                bad_rows=tuple(sorted(self._bad_rows)[:MOST_BAD_ROWS]),
            )

    def _why_not_well(self) -> str:
        """Why the run did not do its work; empty if it did.

        Letters that stay for a fault of their own need a person; they are in LETTER_TROUBLES.
        """
        for target, tried in self._tried_for.items():
            if tried and not self._taken_by[target]:
                return f"none of {tried} messages could be moved to {target}"
        if self.fruitless and self._futile:
            return f"none of {self._tried} messages could be moved"
        return "the run could not do its work" if self._failed else ""

    def _dominant(self) -> FailureKind | None:
        """The failure of more than half of the run's letters, if there is one."""
        for fingerprint, letters in self._failures.most_common(1):
            enough = letters >= DOMINANT_FROM
            over_half = 2 * letters > self._judged
            if enough and over_half:
                return FailureKind(fingerprint, self._error_types[fingerprint], letters)
        return None


@dataclass(frozen=True, slots=True)
class Report:
    """One run on the DLQ `home`: `stopped` says why it ended, the rest is numbers.

    `dominant` is the failure of more than half of its letters. `ended_well` says that
    the run could do its work, or had none;
    `trouble` names what AWS refused or did not answer, such as
    `AccessDeniedException for dynamodb:Query on deadletter-messages`; `published` are the
    numbers among `counts` that were published during the run. `letters` are the message ids and
    decisions of a dry run that a person asked for, `ages` the ages in seconds of the letters that
    it received. `shard` says which part of a drain it was, as `2 of 4`; empty for a run alone.
    `after_kill` are the possible duplicates whose run was killed; the others had no answer.
    `bad_rows` names rows that it could not read.
    """

    pipeline: str
    home: str
    stopped: str
    counts: Mapping[str, int] = field(default_factory=dict)
    decisions: Mapping[str, int] = field(default_factory=dict)
    shadow_matches: Mapping[str, int] = field(default_factory=dict)
    refused_rules: Mapping[str, str] = field(default_factory=dict)
    limited_rules: tuple[str, ...] = ()
    dominant: FailureKind | None = None
    ended_well: bool = True
    trouble: str = ""
    published: Mapping[str, int] = field(default_factory=dict)
    messages: Sequence[Mapping[str, Any]] = ()
    ages: Sequence[int] = ()
    costly_rules: Mapping[str, int] = field(default_factory=dict)
    shard: str = ""
    after_kill: int = 0
    bad_rows: Sequence[str] = ()

    @property
    def moved(self) -> int:
        """Letters that left the place where they were, for any target."""
        return sum(self.counts.get(way, 0) for way in WAYS)

    @property
    def troubles(self) -> list[str]:
        """The metrics of REMEMBERED_TROUBLES that this run counted."""
        return [str(metric) for metric in REMEMBERED_TROUBLES if self.counts.get(metric, 0)]

    def metrics(self) -> dict[str, int]:
        """The figures that were not published during the run, without zeros.

        A metric costs $0.30 a month if each run has it. The log line of the run has all counts.
        """
        counts = {**self.counts, Figure.RUN_FAILED: int(not self.ended_well)}
        figures = {
            name: number for name, number in counts.items() if isinstance(COUNTED[name], Figure)
        }
        return dict(Counter(_named(figures)) - Counter(_named(self.published)))

    def samples(self) -> dict[str, Sequence[int]]:
        """The metrics with one value for each letter."""
        return {str(Figure.AGE_WHEN_RECEIVED): self.ages}

    def to_json(self) -> dict[str, Any]:
        """The report as the function returns and logs it."""
        return {
            "pipeline": self.pipeline,
            "source": self.home,
            **({"shard": self.shard} if self.shard else {}),
            "stopped": self.stopped,
            "ended_well": self.ended_well,
            **({"trouble": self.trouble} if self.trouble else {}),
            "received": self.counts.get(Figure.RECEIVED, 0),
            "moved": self.moved,
            "failed": self.counts.get(Figure.REDRIVE_FAILURE, 0),
            "left": self.counts.get(Count.LEFT_IN_PLACE, 0),
            "possible_duplicates": self.counts.get(Figure.POSSIBLE_DUPLICATE, 0),
            "possible_duplicates_of_killed_runs": self.after_kill,
            "decisions": dict(self.decisions),
            "counts": _named(self.counts),
            "shadow_matches": dict(self.shadow_matches),
            "refused_rules": dict(self.refused_rules),
            "limited_rules": list(self.limited_rules),
            **({"costly_rules": dict(self.costly_rules)} if self.costly_rules else {}),
            **({"bad_rows": list(self.bad_rows)} if self.bad_rows else {}),
            **({"messages": list(self.messages)} if self.messages else {}),
            **({} if self.dominant is None else {"dominant_failure": asdict(self.dominant)}),
        }


def _named(counts: Mapping[str, int]) -> dict[str, int]:
    return {str(metric): number for metric, number in counts.items()}


def decision_name(decision: Decision) -> str:
    """The decision's name in reports and on the command line: REDRIVE, PARK:POISON, …"""
    name = type(decision).__name__.upper()
    return f"{name}:{decision.reason}" if isinstance(decision, Park) else name
