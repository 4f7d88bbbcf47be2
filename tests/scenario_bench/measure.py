"""The figures of one run: one system in one scenario with one seed."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any

from tests.scenario_bench.scenario import Scenario
from tests.scenario_bench.systems import SYSTEMS, Deadletter, System
from tests.scenario_bench.traffic import Book, Sent, messages_of

RETURN_SECONDS, RETURN_MESSAGES, RETURN_WINDOWS = 10.0, 20, 3
"""Full throughput is back with the first of three windows in a row that each have RETURN_SHARE of
the healthy messages sent in them. A window is so long, or as long as so many messages take."""

RETURN_SHARE = 0.9

SURGE_SECONDS = 10
"""The window in which requests are counted while the backlog comes back."""

ON_TIME = 60.0
"""A message that needs nothing in trouble is processed within this."""

SETTLED = 1_800.0
"""Three lives of a poisonous message, each with its retries, are over by then."""

LATE = 900.0
"""A message that is not processed within this is late."""

BUSY_SECONDS = 60.0
"""The window in which writes of circuits are counted."""


@dataclass(frozen=True)
class Figures:
    """What one run shows. Times are seconds; None where it did not happen or has no meaning.

    goodput             healthy messages processed, of those sent and not purged (0 to 1)
    late                healthy messages not processed within LATE seconds of their sending, and
                        those that are not processed at the end
    longest             the longest that a healthy message took from its sending
    dead_requests       requests that a dependency in trouble did not serve
    used                what a dependency with a rate limit served, of what the limit allows
    opened_after        from the first such request to the first open circuit
    openings            how often a circuit opened
    reopenings          how often after the recovery
    not_closed          how long a circuit was open or half open, in all
    closed_after        from the recovery until every circuit is closed
    full_rate_after     from the recovery until 90 % of the normal throughput is back
    after_closed        the same, from the moment at which every circuit is closed
    last_back           from the recovery until each healthy message sent before it is processed
    surge               most requests in 10 s from the recovery until then, of the normal rate
    way_back            from a message's first failure until it is visible again after its first
                        death, the median of those that came back
    back_after          from the deletion of the circuit's row until the mapping is enabled
    letters             moves of a message into the DLQ
    moves               moves between queues and waiting room in all, of the messages sent
    parked_rightly      poisonous messages in the parking lot at the end
    poison_left         those that are not, though they were sent SETTLED seconds before the end
    parked_wrongly      healthy messages in the parking lot at the end
    duplicates          repetitions of a finished message
    probed_to_death     live messages that a probe took and that ended in the DLQ
    out_of_order        messages of a FIFO group processed after a later one
    disordered          of these, dead ones that a later one which had been dead as well overtook:
                        those we have moved, and so could have kept in order
    bystanders          messages that need nothing in trouble, sent while something is, that are
                        processed within ON_TIME seconds (0 to 1)
    circuit_writes      most writes of circuits in a minute, a second and environment
    waiting             where the other messages are at the end
    lost                messages that are nowhere: more than 0 is a bug
    """

    scenario: str
    system: str
    seed: int
    rate: float
    sent: int
    healthy: int
    goodput: float
    late: int
    longest: float | None
    dead_requests: int
    used: float | None
    opened_after: float | None
    openings: int
    reopenings: int
    not_closed: float
    closed_after: float | None
    full_rate_after: float | None
    after_closed: float | None
    last_back: float | None
    surge: float | None
    way_back: float | None
    back_after: float | None
    letters: int
    moves: float
    parked_rightly: int
    poison_left: int
    parked_wrongly: int
    duplicates: int
    probed_to_death: int
    out_of_order: int
    disordered: int
    bystanders: float | None
    circuit_writes: float
    waiting: dict[str, int]
    lost: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Observer:
    """Looks at the circuits once a second."""

    system: System
    openings: int = 0
    reopenings: int = 0
    not_closed: float = 0.0
    opened_at: float | None = None
    closed_at: float | None = None
    back_at: float | None = None
    _open: int = 0

    def run(self) -> None:
        """Look for ever."""
        recovers = self.system.scenario.recovers
        deleted = self.system.scenario.row_deleted
        while True:
            now = self.system.elapsed
            states = self.system.states()
            tripped = states.count("OPEN")
            closed = all(state == "CLOSED" for state in states)
            if tripped > self._open and not self._halfway(states):
                self.openings += tripped - self._open
                if recovers is not None and now >= recovers:
                    self.reopenings += tripped - self._open
                if self.opened_at is None:
                    self.opened_at = now
            self._open = len(states) - states.count("CLOSED")
            self.not_closed += not closed
            if recovers is not None and now >= recovers and closed and self.closed_at is None:
                self.closed_at = now
            if deleted is not None and now > deleted and self.back_at is None:
                self.back_at = now if self.system.source.enabled else None
            self.system.timeline.advance(1.0)

    def _halfway(self, states: Sequence[str]) -> bool:
        """Whether what is open now was half open, and not closed, before."""
        return states.count("OPEN") + states.count("HALF_OPEN") <= self._open


def run(scenario: Scenario, name: str, seed: int) -> Figures:
    """Play a scenario with a system. The same arguments give the same figures."""
    return play(SYSTEMS[name](scenario, seed, Book(messages_of(scenario, seed))))


def play(system: System) -> Figures:
    """Play the scenario of a system to its end."""
    scenario, timeline = system.scenario, system.timeline
    observer = Observer(system)
    with system.patched():
        system.prepare()
        timeline.spawn(lambda: send(system))
        timeline.spawn(observer.run)
        for at, event in scenario.events:
            timeline.spawn(partial(system.befall, event), system.began + at)
        timeline.run_until(system.began + scenario.ends)
        figures = _figures(system, observer)
        timeline.close()
    return figures


def send(system: System) -> None:
    """The producer."""
    stage = system.stage
    for message in system.book.messages:
        wait = message.at - system.elapsed
        if wait > 0:
            system.timeline.advance(wait)
        options: dict[str, Any] = {}
        if system.scenario.fifo:
            token = f"m{message.number}"
            options = {"MessageGroupId": message.group, "MessageDeduplicationId": token}
        stage.put(json.dumps(message.body), **options)


def _figures(system: System, observer: Observer) -> Figures:
    scenario, book, requests = system.scenario, system.book, system.dependencies
    kept = [message for message in book.messages if message.number not in book.purged]
    healthy = [message for message in kept if not message.poison]
    waits = [book.processed_at.get(message.number, math.inf) - message.at for message in healthy]
    places = places_of(system)
    poison = {message.number for message in book.messages if message.poison}
    parked = places.get("parked", set())
    elsewhere = set().union(*places.values()) | book.purged | book.processed_at.keys()
    began = min(requests.dead, default=None)
    recovers = scenario.recovers
    opened, closed = observer.opened_at, observer.closed_at
    last = _last_back(healthy, book.processed_at, recovers)
    return Figures(
        scenario=scenario.name,
        system=system.name,
        seed=system.seed,
        rate=scenario.rate,
        sent=len(book.messages),
        healthy=len(healthy),
        goodput=sum(map(math.isfinite, waits)) / len(healthy),
        late=sum(wait > LATE for wait in waits),
        longest=_finite(max(waits)),
        dead_requests=len(requests.dead),
        used=_used(scenario, len(requests.accepted)),
        opened_after=_since(opened, began) if began is not None else opened,
        openings=observer.openings,
        reopenings=observer.reopenings,
        not_closed=observer.not_closed,
        closed_after=_since(closed, recovers) if observer.openings else None,
        full_rate_after=_full_rate(system, recovers),
        after_closed=_full_rate(system, closed) if observer.openings else None,
        last_back=_since(last, recovers),
        surge=_surge(scenario, requests.requests, scenario.ends if last is None else last),
        way_back=round(median(system.ways_back), 1) if system.ways_back else None,
        back_after=_since(observer.back_at, scenario.row_deleted),
        letters=len(system.deaths),
        moves=round(system.moves / len(book.messages), 2),
        parked_rightly=len(parked & poison),
        poison_left=len({m.number for m in kept if _is_settled(m, scenario)} & poison - parked),
        parked_wrongly=len(parked - poison),
        duplicates=sum(count - 1 for count in book.effects.values()),
        probed_to_death=system.victims,
        out_of_order=len(overtaken(book, book.processed_at.keys())) if scenario.fifo else 0,
        disordered=len(overtaken(book, system.dead)) if scenario.fifo else 0,
        bystanders=_bystanders(scenario, healthy, book.processed_at),
        circuit_writes=round(
            _most_within(BUSY_SECONDS, system.circuit_writes)
            / BUSY_SECONDS
            / scenario.environments,
            2,
        ),
        waiting={
            name: len(numbers - book.processed_at.keys())
            for name, numbers in sorted(places.items())
            if name != "parked" and numbers - book.processed_at.keys()
        },
        lost=len({message.number for message in book.messages} - elsewhere),
    )


def overtaken(book: Book, numbers: Collection[int]) -> list[int]:
    """The messages processed after a later one of their group, both among these."""
    group_of = {message.number: message.group for message in book.messages}
    latest: dict[str, int] = {}
    overtaken = []
    for number in sorted(book.processed_at, key=book.processed_at.__getitem__):
        if number in numbers:
            group = group_of[number]
            if number < latest.get(group, -1):
                overtaken.append(number)
            latest[group] = max(number, latest.get(group, -1))
    return overtaken


def _bystanders(
    scenario: Scenario, healthy: Sequence[Sent], processed_at: Mapping[int, float]
) -> float | None:
    """The share of those on time; None if the trouble leaves none out."""
    sent = [
        message
        for message in healthy
        if any(spell.begins <= message.at < spell.ends for spell in scenario.spells)
        and not any(spell.affects(message.body, message.at) for spell in scenario.spells)
    ]
    on_time = [
        message
        for message in sent
        if processed_at.get(message.number, math.inf) - message.at <= ON_TIME
    ]
    return len(on_time) / len(sent) if sent else None


def _is_settled(message: Sent, scenario: Scenario) -> bool:
    return message.at <= scenario.ends - SETTLED


def places_of(system: System) -> dict[str, set[int]]:
    """The messages that lie somewhere, by place."""
    stage = system.stage
    names = {stage.main: "main", stage.dlq: "dlq", stage.parking: "parked"}
    names = {url.rpartition("/")[2]: name for url, name in names.items()}
    places: dict[str, set[int]] = {}
    for message in stage.sqs.snapshot():
        number = json.loads(message.body)["id"]
        places.setdefault(names.get(message.queue, message.queue), set()).add(number)
    if isinstance(system, Deadletter):
        bodies = system.letters_in_room()
        if bodies:
            places["room"] = {json.loads(body)["id"] for body in bodies}
    return places


def _since(moment: float | None, begin: float | None) -> float | None:
    return None if moment is None or begin is None else max(0.0, round(moment - begin, 1))


def _full_rate(system: System, begin: float | None) -> float | None:
    """Seconds from `begin` until the throughput is that of the healthy messages sent."""
    if begin is None:
        return None
    processed = sorted(system.book.processed_at.values())
    healthy = [message.at for message in system.book.messages if not message.poison]
    length = max(RETURN_SECONDS, RETURN_MESSAGES / system.scenario.rate)

    def is_full(start: float) -> bool:
        end = start + length
        done = bisect_left(processed, end) - bisect_left(processed, start)
        due = bisect_left(healthy, end) - bisect_left(healthy, start)
        return due > 0 and done >= RETURN_SHARE * due

    start = begin
    while start + RETURN_WINDOWS * length <= system.scenario.lasts:
        if all(is_full(start + turn * length) for turn in range(RETURN_WINDOWS)):
            return round(start - begin, 1)
        start += 1.0
    return None


def _finite(seconds: float) -> float | None:
    return round(seconds, 1) if math.isfinite(seconds) else None


def _last_back(
    healthy: Sequence[Sent], processed_at: Mapping[int, float], recovers: float | None
) -> float | None:
    """When the last of the messages sent before the recovery is processed; None if never."""
    if recovers is None:
        return None
    last = max(
        (processed_at.get(m.number, math.inf) for m in healthy if m.at < recovers), default=0.0
    )
    return last if math.isfinite(last) else None


def _used(scenario: Scenario, accepted: int) -> float | None:
    """The share of what a rate limit allowed; None without one."""
    allowed = sum(spell.limit * (spell.ends - spell.begins) for spell in scenario.spells)
    return round(accepted / allowed, 4) if allowed else None


def _surge(scenario: Scenario, requests: Sequence[float], end: float) -> float | None:
    """The most requests in SURGE_SECONDS from the recovery to this end, of the normal rate."""
    recovers = scenario.recovers
    if recovers is None or scenario.begins is None:
        return None
    before = bisect_left(requests, scenario.begins) / scenario.begins
    most = _most_within(SURGE_SECONDS, [at for at in requests if recovers <= at <= end])
    return round(most / SURGE_SECONDS / before, 2)


def _most_within(length: float, times: Sequence[float]) -> int:
    """The most of these times, which are in order, that lie in a window of this length."""
    return max((bisect_left(times, at + length) - i for i, at in enumerate(times)), default=0)
