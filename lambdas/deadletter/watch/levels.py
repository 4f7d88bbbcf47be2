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

from collections.abc import Iterator, Mapping

from deadletter.contract import MAIN_DLQ
from deadletter.signals.figures import COUNTED, Count, Figure
from deadletter.watch.attended import attention_reasons, unattended
from deadletter.watch.circuit_trouble import circuit_reasons
from deadletter.watch.drain_time import depth_reasons
from deadletter.watch.observation import Observation
from deadletter.watch.point import MetricPoint
from deadletter.watch.queue_figures import ZEROS_FOR
from deadletter.watch.replay_trouble import broken_runs, replay_reasons
from deadletter.watch.row import Level, LevelTrouble, WatchRow
from deadletter.watch.watch_settings import WatchSettings

_EVERYWHERE = "|*"
"""Behind the metric's name: the level of all pipelines."""

_RULES_EVERYWHERE = f"{Figure.RULE_TROUBLE}{_EVERYWHERE}"

_LATE_EDITS = "edits of rules may take 10 minutes: "
"""What the reason begins with while the rule checker does not see edits."""

_MOST_NAMES = 3
"""The most rules that a reason names."""


def with_levels(
    row: WatchRow, observation: Observation, settings: WatchSettings, now: float
) -> tuple[dict[str, Level], dict[str, LevelTrouble]]:
    """The levels of this minute by metric, and why those that call a person are more than 0.

    What could not be read stays as it was.
    """
    seen = {**_remembered(row), **_seen(row, observation, settings, now)}
    rule_reasons = list(_rule_reasons(row, observation))
    reasons = {
        Figure.CIRCUIT_TROUBLE: circuit_reasons(
            row.circuits, row.held, seen.get(Count.CAUSES_HELD, 0), settings.alarms, now
        ),
        Figure.DLQ_DEPTH: depth_reasons(row.drain, row.queues[MAIN_DLQ].letters, settings.alarms),
        Figure.PARKED_UNATTENDED: attention_reasons(_unattended(row, settings, now)),
        Figure.REPLAY_BROKEN: replay_reasons(row.replays),
        Figure.RULE_TROUBLE: rule_reasons,
    }
    why = {str(metric): "; ".join(texts) for metric, texts in reasons.items()}
    values = {
        **seen,
        Figure.CIRCUIT_TROUBLE: int(bool(why[Figure.CIRCUIT_TROUBLE])),
        Figure.DLQ_DEPTH: int(bool(why[Figure.DLQ_DEPTH])),
        Figure.PARKED_UNATTENDED: sum(found[1] for found in _unattended(row, settings, now)),
        Figure.REPLAY_BROKEN: len(broken_runs(row.replays)),
    }
    levels = {}
    for name, value in values.items():
        if value:
            levels[str(name)] = Level(value, now)
        elif name in row.levels:
            levels[str(name)] = Level(0, row.levels[name].positive_at)
    troubles = {
        metric: LevelTrouble(row.troubles[metric].since if metric in row.troubles else now, text)
        for metric, text in why.items()
        if text and (values.get(metric) or values.get(f"{metric}{_EVERYWHERE}"))
    }
    return levels, troubles


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


def _seen(
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
    if _late_edits(row, observation):
        known = values.get(_RULES_EVERYWHERE, _remembered(row).get(_RULES_EVERYWHERE, 0))
        values[_RULES_EVERYWHERE] = max(known, 1)
    if observation.memories is not None:
        recent = {
            trouble
            for memory in observation.memories.values()
            for trouble, at in memory.troubles.items()
            if now - at <= settings.trouble_lasts
        }
        values[Figure.FAILURE_DOMINATES] = int(Count.DOMINANT_FAILURE in recent)
    return values


def _unattended(
    row: WatchRow, settings: WatchSettings, now: float
) -> Iterator[tuple[str, int, float]]:
    return unattended(row.attended, row.queues, row.lanes, settings.alarms.parked_after, now)


def _rule_reasons(row: WatchRow, observation: Observation) -> Iterator[str]:
    """Which rules do nothing, and why edits are late; what could not be read is as it was."""
    rules = observation.rules
    if rules is None:
        yield from (text for text in _rule_reasons_before(row) if not text.startswith(_LATE_EDITS))
    elif rules.refused:
        yield f"invalid, and matching nothing: {_names(rules.refused)}"
    if rules is not None and rules.limited:
        yield f"stopped after max_matches letters: {_names(rules.limited)}"
    if late := _late_edits(row, observation):
        yield late


def _late_edits(row: WatchRow, observation: Observation) -> str:
    """Why edits are noticed late; empty if they are not."""
    if observation.late_edits is None:
        before = _rule_reasons_before(row)
        return next((text for text in before if text.startswith(_LATE_EDITS)), "")
    return f"{_LATE_EDITS}{observation.late_edits}" if observation.late_edits else ""


def _rule_reasons_before(row: WatchRow) -> list[str]:
    before = row.troubles.get(Figure.RULE_TROUBLE)
    return [] if before is None else before.why.split("; ")


def _names(rules: tuple[str, ...]) -> str:
    more = f" and {len(rules) - _MOST_NAMES} more" if len(rules) > _MOST_NAMES else ""
    return ", ".join(rules[:_MOST_NAMES]) + more
