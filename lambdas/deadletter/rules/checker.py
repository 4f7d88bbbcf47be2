"""Judges each edit of the rules table at once, so that whoever typed it learns within seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Protocol

from deadletter.contract import EVERY_PIPELINE
from deadletter.rules.rule import COLUMNS, VERDICT, RuleRefused, read_rule
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline, RetryPolicy

# An item may have any number of columns, and the condition of a write 4 KB.
_MOST_COMPARED = 60

# The verdict must not be what makes an item too large, nor a message unreadable.
_MOST_REASON = 1000

# Old and new go into one item of at most 400 KB; a rule has 32 KB.
_MOST_KEPT = 128 * 1024


class RuleStatus(StrEnum):
    """Whether a rule is one."""

    VALID = "VALID"
    INVALID = "INVALID"


class CheckUnavailable(Exception):
    """An edit could not be judged, or its verdict not be told: it is looked at again."""


@dataclass(frozen=True, slots=True)
class RuleEdit:
    """One change of one rule, as the stream of the rules table tells it.

    `sequence` is its place in the stream, `at` when it happened (epoch seconds, cut to
    whole ones, so it says nothing about the order of two edits). `old` and `new` are the
    item before and after, None where there was or is none.
    """

    sequence: str
    event_id: str
    at: float
    pipeline: str
    rule_id: str
    old: Mapping[str, Any] | None
    new: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """What is written back onto an item, as long as it still says what was judged.

    `judged` are its columns then, and `absent` those it did not have.
    """

    pipeline: str
    rule_id: str
    judged: Mapping[str, Any]
    absent: tuple[str, ...]
    status: RuleStatus
    reason: str | None
    at: str


@dataclass(frozen=True, slots=True)
class RuleRefusal:
    """What others hear of a refused rule: why, without any of its values.

    `refused_by` are the pipelines in which it matches nothing; `*` alone stands for a
    rule whose pipeline does not exist.
    """

    pipeline: str
    rule_id: str
    reason: str
    refused_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RuleChange:
    """One edit for the history; `at` is ISO 8601 in UTC. A stream does not say whose it was."""

    pipeline: str
    rule_id: str
    at: str
    sequence: str
    event_id: str
    old: Mapping[str, Any] | None
    new: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """What comes of one edit; None for what there is no need to do."""

    change: RuleChange | None = None
    verdict: RuleVerdict | None = None
    refusal: RuleRefusal | None = None


@dataclass(frozen=True, slots=True)
class CheckedBatch:
    """What came of a batch: the rules refused, and the edit that it stopped at, if any."""

    refusals: tuple[RuleRefusal, ...]
    failed: str | None = None
    why: str | None = None


class Terms(Protocol):
    """What each pipeline allows in a rule; raises CheckUnavailable."""

    def pipelines(self, *, fresh: bool = False) -> Mapping[str, Pipeline]:
        """The pipelines by name; `fresh` asks for what holds now, not minutes ago."""


class Verdicts(Protocol):
    """Where verdicts are written; raises CheckUnavailable."""

    def write(self, verdict: RuleVerdict) -> bool:
        """Whether it was written; False if the item says something else by now."""


class RuleHistory(Protocol):
    """Where changes are kept; keeping one twice keeps it once. Raises CheckUnavailable."""

    def keep(self, change: RuleChange) -> None: ...


class RuleEvents(Protocol):
    """Who tells others; raises CheckUnavailable."""

    def announce(self, refusal: RuleRefusal) -> None: ...


class RuleChecker:
    """Judges edits in their order, and stops at the first that it cannot bring to its end.

    Everything it does may be done again: it says the same.
    """

    def __init__(
        self,
        *,
        terms: Terms,
        verdicts: Verdicts,
        history: RuleHistory,
        announcer: RuleEvents,
        clock: Callable[[], float],
    ) -> None:
        self._terms = terms
        self._verdicts = verdicts
        self._history = history
        self._announcer = announcer
        self._clock = clock

    def check(self, edits: Iterable[RuleEdit]) -> CheckedBatch:
        refusals: list[RuleRefusal] = []
        for edit in edits:
            try:
                refusal = self._check(edit)
            except CheckUnavailable as error:
                return CheckedBatch(tuple(refusals), edit.sequence, str(error))
            if refusal is not None:
                refusals.append(refusal)
        return CheckedBatch(tuple(refusals))

    def _check(self, edit: RuleEdit) -> RuleRefusal | None:
        now = self._clock()
        found = check(edit, self._terms.pipelines(), now)
        if found.refusal is not None:
            # A deployment may just have made what the rule asks for.
            found = check(edit, self._terms.pipelines(fresh=True), now)
        if found.change is not None:
            self._history.keep(found.change)
        if found.verdict is not None and not self._verdicts.write(found.verdict):
            # Somebody has edited it again: that edit is in the stream too.
            return None
        if found.refusal is not None:
            self._announcer.announce(found.refusal)
        return found.refusal


def check(edit: RuleEdit, pipelines: Mapping[str, Pipeline], now: float) -> RuleFinding:
    """What to do about an edit; `now` is epoch seconds.

    The verdict is compared with the one that the item carries, so the record of our
    own write is judged like any other and asks for nothing.
    """
    old, new = _content(edit.old), _content(edit.new)
    change = None
    if old != new:
        moment = _iso(edit.at)
        change = RuleChange(
            edit.pipeline,
            edit.rule_id,
            moment,
            edit.sequence,
            edit.event_id,
            _kept(old),
            _kept(new),
        )
    if edit.new is None or new is None:
        return RuleFinding(change)
    why, refusal = _judge(edit, new, pipelines, now)
    status = RuleStatus.VALID if refusal is None else RuleStatus.INVALID
    if (edit.new.get("status"), edit.new.get("status_reason")) == (status, why):
        return RuleFinding(change, None, refusal if change else None)
    judged = dict(sorted(new.items())[:_MOST_COMPARED])
    # The keys are never absent, so a rule that was deleted is not written into being.
    judged |= {"pipeline": edit.pipeline, "rule_id": edit.rule_id}
    known = COLUMNS.union(*(one.context for one in _concerned(edit.pipeline, pipelines).values()))
    absent = tuple(sorted(known - new.keys())[:_MOST_COMPARED])
    verdict = RuleVerdict(edit.pipeline, edit.rule_id, judged, absent, status, why, _iso(now))
    return RuleFinding(change, verdict, refusal)


def _judge(
    edit: RuleEdit, item: Mapping[str, Any], pipelines: Mapping[str, Pipeline], now: float
) -> tuple[str | None, RuleRefusal | None]:
    """Why the rule is refused: for the person who typed it, and for everybody else."""
    if edit.pipeline != EVERY_PIPELINE and edit.pipeline not in pipelines:
        names = ", ".join(sorted(pipelines)) or "none"
        why = _cut(f"no pipeline is named {edit.pipeline!r}; there are {names}")
        return why, RuleRefusal(edit.pipeline, edit.rule_id, why, (EVERY_PIPELINE,))
    concerned = _concerned(edit.pipeline, pipelines)
    refused: dict[str, RuleRefused] = {}
    for name, pipeline in sorted(concerned.items()):
        try:
            rule = read_rule(item, pipeline)
            if rule.enabled and rule.expires_at is not None and rule.expires_at <= now:
                raise RuleRefused("expires_at is past, so the rule matches nothing")
        except RuleRefused as error:
            refused[name] = error
    if not refused:
        return None, None
    [first, *_] = refused.values()
    everywhere = len(refused) == len(concerned) and {str(one) for one in refused.values()} == {
        str(first)
    }
    where = "" if everywhere else f"in {', '.join(refused)}: "
    gist = _cut(f"{where}{first.gist}")
    return _cut(f"{where}{first}"), RuleRefusal(edit.pipeline, edit.rule_id, gist, tuple(refused))


def _concerned(pipeline: str, pipelines: Mapping[str, Pipeline]) -> Mapping[str, Pipeline]:
    if pipeline == EVERY_PIPELINE:
        return pipelines
    return {name: one for name, one in pipelines.items() if name == pipeline}


def pipeline_from_terms(name: str, data: Any) -> Pipeline:
    """A pipeline, as far as its rules are concerned, from the `terms` of its registration.

    Raises BadSettings for terms that cannot be understood.
    """
    match data:
        case {
            "context": [*context],
            "dedicated": [*dedicated],
            "policies": [*policies],
            "max_delay": int() | float() as max_delay,
        } if all(isinstance(one, str) for one in (*context, *dedicated, *policies)):
            return Pipeline(
                name,
                # Where a name's value stands makes no difference to a rule.
                context=dict.fromkeys(context, ""),
                dedicated=tuple(dedicated),
                policies=dict.fromkeys(policies, RetryPolicy()),
                max_delay=float(max_delay),
            )
    raise BadSettings(f"pipeline {name} is registered without terms for its rules")


def _content(item: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """What people wrote of an item."""
    if item is None:
        return None
    return {name: value for name, value in item.items() if name not in VERDICT}


def _kept(item: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    length = len(str(item))
    return item if item is None or length <= _MOST_KEPT else {"too_long": length}


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_REASON else f"{text[: _MOST_REASON - 1]}…"


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
