"""Figures that are shown while there is something to say: troubles, and what they are made of.

A level that calls a person ends by itself once its cause is gone:

    CircuitTrouble    with the next look; of outages, when the first of them is as old as the
                      period in which they count
    DlqDepth          with the next look at a DLQ that holds few enough letters, or becomes emptier
                      fast enough
    ParkedUnattended  with the next look at an empty queue; when a letter has left, after five
                      minutes of counts that agree, or with the second count of its lane, within
                      twenty; not while a parking queue is rescued into the lane of another
    RuleTrouble       with the next look
    ReplayBroken      with the next look; of lost executions, a quarter of an hour after the first
    RedriveStalled    with the next look
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from deadletter.contract import MAIN_DLQ
from deadletter.signals.figures import COUNTED, Count, Figure
from deadletter.signals.pages import Alarm
from deadletter.signals.troubles import Seen, TroubleKind
from deadletter.watch.attended import unattended, unattended_troubles
from deadletter.watch.circuit_trouble import circuit_troubles
from deadletter.watch.drain_time import depth_troubles
from deadletter.watch.observation import Observation
from deadletter.watch.point import MetricPoint
from deadletter.watch.queue_figures import ZEROS_FOR
from deadletter.watch.replay_trouble import replay_troubles
from deadletter.watch.row import Level, WatchRow
from deadletter.watch.shared_look import FAILURES_THAT_CALL, shared_troubles
from deadletter.watch.stall import is_shared
from deadletter.watch.watch_settings import WatchSettings

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
        *depth_troubles(row.drain, row.queues[MAIN_DLQ].letters, settings.alarms),
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
