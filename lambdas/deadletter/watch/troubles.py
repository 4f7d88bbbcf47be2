"""Which troubles of a pipeline call a person: circuits, replay runs, stalls, and alarm levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from deadletter.circuit.state import Circuit
from deadletter.contract import DAY, MAIN, MAIN_DLQ, MINUTE, Mode, WatchDefaults, is_config_key
from deadletter.redrive.source_memory import UNKNOWN, SourceMemory
from deadletter.replay.care import Care
from deadletter.routing.decision import DUE
from deadletter.signals.figures import COUNTED, Count, Figure
from deadletter.signals.pages import Alarm
from deadletter.signals.troubles import Seen, TroubleKind, is_throttled
from deadletter.watch.observation import (
    FAILURES_THAT_CALL,
    CircuitsState,
    MetricPoint,
    Observation,
    shared_troubles,
)
from deadletter.watch.queues import (
    NO_LANE,
    ZEROS_FOR,
    depth_troubles,
    unattended,
    unattended_troubles,
)
from deadletter.watch.row import CircuitOpenings, CircuitsRow, Failing, Level, ReplaysRow, WatchRow
from deadletter.watch.watch_settings import WatchSettings

HELD_TOO_LONG = float(DAY)
"""Seconds after which any hold without an end is shown: a person may have forgotten it."""

MOST_OPENINGS = 20
"""The most outages of a circuit that are remembered; no threshold is higher."""

NO_OPENINGS = CircuitOpenings(outage=0, trips=0)


def with_circuits(
    row: CircuitsRow, state: CircuitsState | None, alarms: WatchDefaults, now: float
) -> CircuitsRow:
    """The row after a look at the circuits; as it was if they could not be read."""
    if state is None:
        return row
    not_closed = [circuit for circuit in state.of_all if not circuit.is_closed]
    many = state.open_keys >= alarms.open_circuits
    begun = now if row.many_since is None else row.many_since
    return CircuitsRow(
        not_closed={
            circuit.key: _since(row, circuit, now)
            for circuit in not_closed
            if not is_config_key(circuit.key)
        },
        stuck={
            circuit.key: kind
            for circuit in not_closed
            if not _has_end(circuit, now) and (kind := _stuck(circuit))
        },
        openings=_openings(row.openings, state, now - alarms.flapping_within, now),
        many_since=begun if many else None,
    )


def _has_end(circuit: Circuit, now: float) -> bool:
    """Whether a person holds the circuit until a time that is yet to come."""
    return circuit.forced is not None and circuit.forced.has_end and circuit.is_forced(now)


def _since(row: CircuitsRow, circuit: Circuit, now: float) -> float:
    """Since when a circuit is not closed. The time of a hold with an end does not count."""
    if _has_end(circuit, now):
        return now
    begun = row.not_closed.get(circuit.key)
    return min(now, circuit.opened_at or now) if begun is None else begun


def _stuck(circuit: Circuit) -> str:
    """The trouble of a circuit that no automation will close; empty if it may."""
    if circuit.unreadable:
        return TroubleKind.CIRCUIT_MALFORMED
    return TroubleKind.CONFIGURATION if is_config_key(circuit.key) else ""


def _openings(
    rows: Mapping[str, CircuitOpenings], state: CircuitsState, oldest: float, now: float
) -> dict[str, CircuitOpenings]:
    """The outages of each circuit of all messages, without those before `oldest`."""
    seen = {
        circuit.key: _opened(rows.get(circuit.key), circuit, now)
        for circuit in state.of_all
        if not is_config_key(circuit.key)
    }
    recent = {
        key: CircuitOpenings(
            outage=row.outage,
            trips=row.trips,
            at=tuple(at for at in row.at if at > oldest)[-MOST_OPENINGS:],
        )
        for key, row in {**rows, **seen}.items()
    }
    return {key: row for key, row in recent.items() if row.at or key in seen}


def _opened(row: CircuitOpenings | None, circuit: Circuit, now: float) -> CircuitOpenings:
    """The outages after a look. A circuit may open more than once between two looks.

    Its trips say how often, as long as it has not settled in between. An outage that a person
    began does not count.
    """
    known = row or NO_OPENINGS
    if circuit.unreadable:
        return known
    if row is None:
        # Of a closed circuit that was never seen, the outages are over.
        new = 0 if circuit.is_closed else 1
    elif circuit.outage == row.outage:
        new = 0
    elif circuit.trips > row.trips:
        new = circuit.trips - row.trips
    else:
        new = 1 if circuit.trips == 1 else circuit.trips if circuit.trips < row.trips else 0
    if circuit.forced is not None and not circuit.is_closed:
        new = 0
    began = min(now, circuit.opened_at or now)
    at = (*known.at, *(began,) * min(new, MOST_OPENINGS))
    return CircuitOpenings(outage=circuit.outage, trips=circuit.trips, at=at)


def circuit_troubles(
    row: CircuitsRow,
    held: Mapping[str, float],
    causes: float,
    alarms: WatchDefaults,
    now: float,
) -> Iterator[Seen]:
    """What of the circuits needs a person.

    `held` says since when circuits are held without an end, `causes` how many causes of failure
    are.
    """
    for key, stuck in row.stuck.items():
        yield Seen(TroubleKind(stuck), {"key": key})
    if causes:
        yield Seen(TroubleKind.CAUSE_DOMINATES)
    open_long = {
        key: now - since
        for key, since in row.not_closed.items()
        if now - since >= alarms.circuit_open_after
    }
    for key, seconds in open_long.items():
        if key not in held:
            yield Seen(TroubleKind.CIRCUIT_OPEN, {"key": key, "seconds": seconds})
    for key, openings in row.openings.items():
        times = sum(now - at < alarms.flapping_within for at in openings.at)
        if times >= alarms.flapping_times:
            facts: dict[str, str | float] = {"key": key, "times": times}
            yield Seen(TroubleKind.CIRCUIT_FLAPS, facts | {"within": alarms.flapping_within})
    if row.many_since is not None and now - row.many_since >= alarms.open_circuits_for:
        seconds = now - row.many_since
        yield Seen(TroubleKind.MANY_CIRCUITS, {"most": alarms.open_circuits, "seconds": seconds})
    for key, since in held.items():
        if key in open_long or now - since >= HELD_TOO_LONG:
            yield Seen(TroubleKind.CIRCUIT_HELD, {"key": key, "seconds": now - since})


LOST_WITHIN = 15.0 * MINUTE
"""Seconds within which a run may lose one execution: it is started again, and goes on."""

MOST_LOST = 2
"""Executions that a run loses within LOST_WITHIN until a person is called."""


def with_replays(row: ReplaysRow, state: Care | None, now: float) -> ReplaysRow:
    """The row after a look at the runs; without one only time passes."""
    restarted = () if state is None else state.restarted
    runs = (*row.lost, *(run for run in restarted if run not in row.lost))
    lost = {
        run: tuple(
            at
            for at in (*row.lost.get(run, ()), *((now,) if run in restarted else ()))
            if now - at < LOST_WITHIN
        )[-MOST_LOST:]
        for run in runs
    }
    return ReplaysRow(
        broken=row.broken if state is None else state.broken,
        lost={run: times for run, times in lost.items() if times},
        moved_at=now if state is not None and state.moving else row.moved_at,
    )


def replay_troubles(row: ReplaysRow) -> Iterator[Seen]:
    """The runs that need a person, each once."""
    for run, times in row.lost.items():
        if len(times) >= MOST_LOST and run not in row.broken:
            lost: dict[str, str | float] = {"run": run, "times": len(times)}
            yield Seen(TroubleKind.RUN_LOST, lost | {"within": LOST_WITHIN})
    for run in row.broken:
        yield Seen(TroubleKind.RUN_BROKEN, {"run": run})


RULE_CHECKER = "rule checker"
"""A step whose failure is the app's: no run waits for it."""

ROUTER, LEASE = "router", "lease"
"""Steps of the watch whose failure stops runs too: asking the router, and reading the leases."""

FAILURES_THAT_STALL = {LEASE: 1, ROUTER: 2}
"""How often in a row a step fails until runs have stalled. Without the lease items nothing is
remembered, so the first failure counts; the alarm asks for three minutes itself."""

OTHER_FAILURES_THAT_STALL = 3
"""The same for all other steps. What the watch cannot see, it cannot page for."""

UNREAD_FOR = 5.0 * MINUTE
"""Seconds in which messages wait for a consumer whose mapping is disabled until it is a trouble: a
person disables it for a moment, too."""

LONGEST_RUN_ON = 15.0 * MINUTE
"""Seconds after its last run in which a failure is in a row with the one before."""


SHARED_FOR = 15.0 * MINUTE
"""Seconds in which a throttled table is the app's trouble alone: one page and not one of each
pipeline. Runs that really end badly have stalled all the same."""


def is_shared(failing: Failing) -> bool:
    """Whether a step fails of what all pipelines share: a table that is throttled.

    What is denied is a permission of the pipeline's own.
    """
    return is_throttled(failing.why) and " for dynamodb:" in failing.why


def failing_steps(row: WatchRow, failed: Mapping[str, str], now: float) -> dict[str, Failing]:
    """The steps that fail now, with how often they have in a row."""
    steps = {}
    for step, why in failed.items():
        before = row.failing.get(step)
        if before is None or now - row.ran_at > LONGEST_RUN_ON:
            steps[step] = Failing(now, 1, why)
        else:
            steps[step] = Failing(before.since, before.times + 1, why)
    return steps


_STEPS = {ROUTER: TroubleKind.ROUTER_DOWN, LEASE: TroubleKind.LEASE_UNREAD}


def stall(
    row: WatchRow,
    memories: Mapping[str, SourceMemory] | None,
    settings: WatchSettings,
    now: float,
) -> Iterator[Seen]:
    """Why no run can do its work; nothing if runs can, as far as the watch knows.

    `row` holds the steps that fail in this minute.
    """
    can_run = True
    for step, failing in row.failing.items():
        is_of_app = step == RULE_CHECKER or (
            is_shared(failing) and now - failing.since < SHARED_FOR
        )
        least = FAILURES_THAT_STALL.get(step, OTHER_FAILURES_THAT_STALL)
        if failing.times >= least and not is_of_app:
            can_run = False
            kind = _STEPS.get(step, TroubleKind.STEP_FAILED)
            yield Seen(kind, {"step": step, "why": failing.why})
    if memories is not None:
        memory = memories.get(MAIN_DLQ, UNKNOWN)
        # No watch, no complaint: the time before its first minute does not count.
        well_at = row.first_at if memory.ended_well_at is None else memory.ended_well_at
        if now - well_at > settings.stalls_after:
            can_run = False
            yield _last(memory, now - well_at, now)
    if can_run and settings.mode is Mode.ENFORCE:
        late = late_seconds(row, now)
        if late >= settings.alarms.room_late:
            yield Seen(TroubleKind.ROOM_LATE, {"seconds": late})


def unread_main_queue(row: WatchRow, consumer: str | None, now: float) -> Iterator[Seen]:
    """That a person has disabled the consumer's mapping and messages wait.

    `consumer` is the UUID of that mapping, empty if none is disabled, and None if nothing was
    asked: then it is as it was.
    """
    main = row.queues[MAIN]
    if main.filled_at is None or now - main.filled_at < UNREAD_FOR:
        return
    if consumer is None:
        yield from (each for each in row.seen if each.kind is TroubleKind.CONSUMER_DISABLED)
    elif consumer:
        yield Seen(TroubleKind.CONSUMER_DISABLED, {"uuid": consumer, "messages": main.messages})


def not_closed_at(row: WatchRow) -> float:
    """When the pipeline's circuit, or a named dependency's, was last seen open; else long ago."""
    level = row.levels.get(Figure.CIRCUIT_STATE)
    return 0.0 if level is None else level.positive_at


def late_seconds(row: WatchRow, now: float) -> float:
    """How long a letter of the lane of delays has been due while nothing kept it there.

    The circuits keep it while they are open, and a replay run while it moves letters.
    """
    due = row.lanes.get(DUE, NO_LANE).first_due
    if due is None:
        return 0.0
    return now - max(due, not_closed_at(row), row.replays.moved_at)


def _last(memory: SourceMemory, seconds: float, now: float) -> Seen:
    """What is known of the last run."""
    if memory.ended_at is None:
        return Seen(TroubleKind.NO_RUN_YET, {"seconds": seconds})
    if memory.ended_at == memory.ended_well_at:
        return Seen(TroubleKind.RUNS_SILENT, {"seconds": seconds})
    why = memory.trouble or memory.stopped or "no reason is known"
    facts: dict[str, str | float] = {"seconds": seconds, "ago": now - memory.ended_at}
    return Seen(TroubleKind.RUNS_FAIL, facts | {"why": why})


_EVERYWHERE = "|*"
"""Behind the metric's name: the level of all pipelines."""

_RULES_EVERYWHERE = f"{Figure.RULE_TROUBLE}{_EVERYWHERE}"
_SHARED = f"{Figure.SHARED_TROUBLE}{_EVERYWHERE}"

_MOST_NAMES = 3
"""The most rules that a reason names."""


def with_levels(
    row: WatchRow, observation: Observation, settings: WatchSettings, now: float
) -> tuple[dict[str, Level], tuple[Seen, ...]]:
    """The levels of this minute by figure, and the troubles that call a person by them.

    What could not be read stays as it was.
    """
    read = {**_remembered(row), **_read(row, observation, settings, now)}
    unattended_now = tuple(
        unattended(row.attended, row.queues, row.lanes, settings.alarms.parked_after, now)
    )
    circuits = (row.circuits, row.held, read.get(Count.CAUSES_HELD, 0), settings.alarms, now)
    seen = (
        *circuit_troubles(*circuits),
        *depth_troubles(row.drain, row.queues[MAIN_DLQ].messages, settings.alarms),
        *unattended_troubles(unattended_now),
        *_rule_troubles(row, observation),
        *replay_troubles(row.replays),
        *_shared_troubles(row, observation),
    )
    pages = Counter(each.page for each in seen)
    values = {
        **read,
        Figure.CIRCUIT_TROUBLE: int(bool(pages[Alarm.CIRCUIT_TROUBLE])),
        Figure.DLQ_DEPTH: int(bool(pages[Alarm.DLQ_DEPTH])),
        Figure.PARKED_UNATTENDED: sum(letters for _, letters, _ in unattended_now),
        Figure.REPLAY_BROKEN: pages[Alarm.REPLAY_BROKEN],
        _SHARED: int(bool(pages[Alarm.SHARED_TROUBLE])),
    }
    levels = {}
    for name, value in values.items():
        if value:
            levels[str(name)] = Level(value, now)
        elif name in row.levels:
            levels[str(name)] = Level(0, row.levels[name].positive_at)
    return levels, seen


def level_points(levels: Mapping[str, Level], now: float) -> Iterator[MetricPoint]:
    """The levels that are more than 0 or were until lately."""
    for name, level in levels.items():
        if level.value or now - level.positive_at <= ZEROS_FOR:
            metric = COUNTED[name.removesuffix(_EVERYWHERE)]
            everywhere = name.endswith(_EVERYWHERE)
            yield MetricPoint(metric, level.value, now, everywhere=everywhere)


def _remembered(row: WatchRow) -> dict[str, float]:
    """The levels as they were. One of no metric is forgotten: a row must not stop the watch."""
    return {
        name: level.value
        for name, level in row.levels.items()
        if name.removesuffix(_EVERYWHERE) in COUNTED
    }


def _read(
    row: WatchRow, observation: Observation, settings: WatchSettings, now: float
) -> dict[str, float]:
    """The levels that were read in this minute."""
    values: dict[str, float] = {}
    circuits, rules = observation.circuits, observation.rules
    if circuits is not None:
        # A dependency that the handler names is one of all messages.
        values[Figure.CIRCUIT_STATE] = max(circuits.level, circuits.named)
        values[Figure.OPEN_CIRCUITS] = circuits.open_keys
    if observation.causes is not None:
        values[Count.CAUSES_HELD] = observation.causes
    if rules is not None:
        values[Figure.RULE_TROUBLE] = len(rules.refused) + len(rules.limited)
        values[_RULES_EVERYWHERE] = rules.everywhere
    if observation.memories is not None:
        recent = {
            trouble
            for memory in observation.memories.values()
            for trouble, at in memory.troubles.items()
            if now - at <= settings.trouble_lasts
        }
        values[Figure.FAILURE_DOMINATES] = int(Count.DOMINANT_FAILURE in recent)
    return values


_OF_RULES = (TroubleKind.RULE_INVALID, TroubleKind.RULE_SPENT)


def _rule_troubles(row: WatchRow, observation: Observation) -> Iterator[Seen]:
    """Which rules do nothing; as it was if that could not be read."""
    rules = observation.rules
    if rules is None:
        yield from (each for each in row.seen if each.kind in _OF_RULES)
    else:
        for kind, names in zip(_OF_RULES, (rules.refused, rules.limited), strict=True):
            if names:
                yield Seen(kind, {"rules": _names(names), "rule": names[0]})


_OF_APP = (
    *(TroubleKind.EDITS_LATE, TroubleKind.EDITS_UNCHECKED),
    TroubleKind.CHECKER_UNREAD,
)


def _shared_troubles(row: WatchRow, observation: Observation) -> Iterator[Seen]:
    """What all pipelines share; as it was if it could not be read."""
    if observation.shared is None:
        yield from (each for each in row.seen if each.kind in _OF_APP)
    else:
        yield from shared_troubles(observation.shared)
    lasting = (each for each in row.failing.values() if each.times >= FAILURES_THAT_CALL)
    throttled = next(filter(is_shared, lasting), None)
    if throttled is not None:
        yield Seen(TroubleKind.SHARED_THROTTLED, {"why": throttled.why})


def _names(rules: tuple[str, ...]) -> str:
    more = f" and {len(rules) - _MOST_NAMES} more" if len(rules) > _MOST_NAMES else ""
    return ", ".join(rules[:_MOST_NAMES]) + more
