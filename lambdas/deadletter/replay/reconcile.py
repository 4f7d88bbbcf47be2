"""Adds up a replay run: each letter of its snapshot has one outcome, or the run is BROKEN.

    letters of the manifest = sum of the outcomes, none of them OPEN, SENT or MISSING

Manifest, status rows and tickets are streamed: memory holds two bytes a letter.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deadletter.contract import MINUTE, run_lane
from deadletter.failure.ledger import Ledger
from deadletter.redrive.waiting_room import SHARDS, WaitingRoom, WaitingRoomEntry
from deadletter.replay.lineup import RunLetter, Trail, learned, letter_of, trails
from deadletter.replay.manifest import ManifestIndex, ManifestParts, ShardProgress, Statuses, save
from deadletter.replay.names import PART, Name
from deadletter.replay.objects import RunObjects
from deadletter.replay.plan import ReplayPlan
from deadletter.replay.run import ReplayRun, RunSum
from deadletter.replay.ticket import ANSWERED, TERMINAL, ReplayOutcome, Ticket, Tickets

REPORT = "report.json"
"""The object with the report of a run."""

WORST_KEYS = 20
"""Ordering keys that the report names: those with the most letters that were not recovered."""

MOST_NAMED = 500
"""Causes and tenants that the report names; the others are added up under OTHERS."""

OTHERS = "(others)"

MOST_MINUTES = 1_440
"""Minutes of a run's course that the report has; of a longer run it has every n-th."""

MOST_READ = 100
"""Letters whose tickets are read together."""

RETURNED = "RETURNED"
"""In a run's course: tries whose letter came back."""

_GOOD = frozenset({*ANSWERED, ReplayOutcome.RESTORED})
_SETTLED = TERMINAL - {ReplayOutcome.MISSING}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileSetup:
    """Everything that reconciling is given; `all_tickets` streams the tickets of the run."""

    plan: ReplayPlan
    run: ReplayRun
    index: ManifestIndex
    manifest: ManifestParts
    statuses: Statuses
    tickets: Tickets
    all_tickets: Callable[[], Iterable[Ticket]]
    ledger: Ledger
    room: WaitingRoom
    objects: RunObjects
    clock: Callable[[], float]


@dataclass(slots=True)
class _Sums:
    """Letters by outcome, in all and by cause, tenant and ordering key."""

    total: Counter[ReplayOutcome] = field(default_factory=Counter)
    causes: dict[str, Counter[ReplayOutcome]] = field(default_factory=dict)
    categories: dict[str, str] = field(default_factory=dict)
    tenants: dict[str, Counter[ReplayOutcome]] = field(default_factory=dict)
    worst: list[tuple[int, str, Counter[ReplayOutcome]]] = field(default_factory=list)
    key: str = ""
    of_key: Counter[ReplayOutcome] = field(default_factory=Counter)
    returned: int = 0

    def add(self, name: Name, outcome: ReplayOutcome) -> None:
        self.total[outcome] += 1
        _named(self.causes, name.cause)[outcome] += 1
        self.categories.setdefault(name.cause, name.category)
        _named(self.tenants, name.tenant)[outcome] += 1
        if not name.is_ordered:
            return
        # The letters of a key stand together in the manifest.
        if name.key != self.key:
            self.end_key()
            self.key = name.key
        self.of_key[outcome] += 1

    def end_key(self) -> None:
        bad = sum(number for outcome, number in self.of_key.items() if outcome not in _GOOD)
        if bad:
            heapq.heappush(self.worst, (bad, self.key, self.of_key))
            if len(self.worst) > WORST_KEYS:
                heapq.heappop(self.worst)
        self.key, self.of_key = "", Counter()


def _named(groups: dict[str, Counter[ReplayOutcome]], name: str) -> Counter[ReplayOutcome]:
    if name not in groups and len(groups) >= MOST_NAMED:
        name = OTHERS
    return groups.setdefault(name, Counter())


def reconcile(setup: ReconcileSetup, deadline: float) -> RunSum:
    """Add up a run and store its report; raises the errors of the stores.

    Letters without a final outcome are looked up once more. What was under way when the run
    ended, and has no outcome now, is UNKNOWN. Without time for it, the report lacks the run's
    course over time.
    """
    sums = _Sums()
    progresses: list[ShardProgress] = []
    for shard in range(SHARDS):
        progress = ShardProgress.of(shard, setup.statuses.read(shard))
        for names in _parts(setup, shard):
            _settle(setup, progress, names)
            for position, name in names:
                sums.add(name, progress.outcome(position))
        sums.end_key()
        sums.returned += progress.returns_total
        save(setup.statuses, [progress])
        progresses.append(progress)
    if setup.plan.restores:
        # No manifest names what it put back: each has a ticket.
        sums.total.update(ticket.fate for ticket in setup.all_tickets())
    letters = setup.run.messages if setup.run.messages is not None else setup.index.messages
    settled = sum(number for outcome, number in sums.total.items() if outcome in _SETTLED)
    unaccounted = abs(letters - settled)
    counts = _counts(sums.total)
    report = {
        **_report(setup, sums, letters, unaccounted),
        "minutes": _course(setup, progresses, deadline),
    }
    setup.objects.put(REPORT, json.dumps(report, separators=(",", ":")).encode())
    return RunSum(counts, unaccounted, report)


def _parts(setup: ReconcileSetup, shard: int) -> Iterator[Sequence[tuple[int, Name]]]:
    for part in range(setup.index.parts(shard)):
        names = setup.manifest.part(shard, part)
        yield list(enumerate(names, start=part * PART))


def _settle(
    setup: ReconcileSetup, progress: ShardProgress, names: Sequence[tuple[int, Name]]
) -> None:
    """Learn the outcomes of letters that have no final one in the status rows."""
    letters = [
        letter_of(name, position, progress.returned(position))
        for position, name in names
        if not progress.is_terminal(position)
    ]
    for start in range(0, len(letters), MOST_READ):
        part = letters[start : start + MOST_READ]
        found = trails(part, setup.tickets)
        awaited: list[RunLetter] = []
        absent: list[tuple[RunLetter, Trail]] = []
        for letter, trail in zip(part, found, strict=True):
            letter.follow(trail)
            if trail.is_open or trail.last is None:
                absent.append((letter, trail))
            elif trail.last.fate is ReplayOutcome.SENT:
                awaited.append(letter)
            else:
                progress.set(letter.position, trail.last.fate, letter.returns)
        _look_up(setup, progress, awaited)
        _look_into_lane(setup, progress, absent)


def _look_up(setup: ReconcileSetup, progress: ShardProgress, letters: Sequence[RunLetter]) -> None:
    timeout = setup.plan.outcome_timeout if setup.run.is_live else 0.0
    answers = learned(
        letters,
        ledger=setup.ledger,
        tickets=setup.tickets,
        now=setup.clock(),
        timeout=timeout,
    )
    for letter in letters:
        answer = answers.get(letter)
        outcome = ReplayOutcome.SENT if answer is None else answer.outcome
        progress.set(letter.position, outcome, letter.returns)


def _look_into_lane(
    setup: ReconcileSetup, progress: ShardProgress, letters: Sequence[tuple[RunLetter, Trail]]
) -> None:
    """Tell letters that are still in the run's lane from those that are nowhere."""
    if not letters:
        return
    lane = run_lane(setup.run.id)
    entries = [
        WaitingRoomEntry(letter.copy, letter.place, lane, progress.shard, 0.0)
        for letter, _ in letters
    ]
    contents = setup.room.read(entries, setup.clock())
    here = {received.letter.message_id for received in contents.letters}
    # Read after the items: a letter that left in between has its ticket by now.
    again = trails([letter for letter, _ in letters], setup.tickets)
    for (letter, before), trail in zip(letters, again, strict=True):
        if letter.copy in here or trail != before:
            progress.set(letter.position, ReplayOutcome.OPEN, letter.returns)
        else:
            progress.set(letter.position, ReplayOutcome.MISSING, letter.returns)


def _counts(outcomes: Mapping[ReplayOutcome, int]) -> dict[str, int]:
    return {outcome.name: number for outcome, number in outcomes.items() if number}


def _report(setup: ReconcileSetup, sums: _Sums, letters: int, unaccounted: int) -> dict[str, Any]:
    return {
        "run": setup.run.id,
        "pipeline": setup.run.pipeline,
        "at": int(setup.clock()),
        "state": str(setup.run.state),
        "messages": letters,
        "manifest": setup.run.manifest,
        "counts": _counts(sums.total),
        "unaccounted": unaccounted,
        "returned": sums.returned,
        "causes": [
            {
                "cause": cause,
                "category": sums.categories.get(cause, ""),
                "messages": counts.total(),
                "counts": _counts(counts),
            }
            for cause, counts in _largest(sums.causes)
        ],
        "tenants": [
            {"tenant": tenant, "messages": counts.total(), "counts": _counts(counts)}
            for tenant, counts in _largest(sums.tenants)
        ],
        "keys": [
            {"key": key, "messages": counts.total(), "counts": _counts(counts)}
            for _, key, counts in sorted(sums.worst, key=lambda entry: (-entry[0], entry[1]))
        ],
    }


def _largest(
    groups: Mapping[str, Counter[ReplayOutcome]],
) -> list[tuple[str, Counter[ReplayOutcome]]]:
    return sorted(groups.items(), key=lambda group: (-group[1].total(), group[0]))


def _course(
    setup: ReconcileSetup, progresses: Sequence[ShardProgress], deadline: float
) -> dict[str, dict[str, int]]:
    """Tries by the minute of their send, and by what became of them."""
    minutes: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for number, ticket in enumerate(setup.all_tickets()):
        if number % 1_000 == 0 and setup.clock() >= deadline:
            return {}
        minute = int(ticket.at) // MINUTE * MINUTE
        if ticket.returned is not None:
            minutes[minute][RETURNED] += 1
        elif ticket.position >= 0 and ticket.fate in (ReplayOutcome.SENT, ReplayOutcome.UNKNOWN):
            outcome = progresses[ticket.shard].outcome(ticket.position)
            minutes[minute][outcome.name] += 1
        else:
            minutes[minute][ticket.fate.name] += 1
    ordered = sorted(minutes)
    step = max(1, -(-len(ordered) // MOST_MINUTES))
    course: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for place, minute in enumerate(ordered):
        course[ordered[place // step * step]].update(minutes[minute])
    return {str(minute): dict(counts) for minute, counts in sorted(course.items())}
