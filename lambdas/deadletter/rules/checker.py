"""Checks each edit of the rules table; its author sees the verdict within seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Protocol

from deadletter.contract import EVERY_PIPELINE
from deadletter.rules.rule import (
    COLUMNS,
    VERDICT,
    Rule,
    RuleRefused,
    cut,
    is_disabled,
    is_shadow,
    notes_of,
    read_rule,
)
from deadletter.rules.ties import namesake_note, tie_note, tied
from deadletter.rules.typed import nearest
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline, RetryPolicy

# An item may have any number of columns, but the condition of a write at most 4 KB.
_MOST_COMPARED = 60

# Characters: a verdict must neither make an item too large nor a message unreadable.
_MOST_REASON = 1000

# Characters: old and new go into one item of at most 400 KB; a valid rule has 32 KB at most.
_MOST_STORED = 128 * 1024


class RuleStatus(StrEnum):
    """The verdict on a rule."""

    VALID = "VALID"
    INVALID = "INVALID"


class CheckUnavailable(Exception):
    """An edit could not be checked, or its verdict not be written: it is checked again."""


@dataclass(frozen=True, slots=True)
class RuleEdit:
    """One change of one rule, from the stream of the rules table.

    `sequence` is its place in the stream, `at` its time (epoch seconds, cut to whole
    seconds, so it does not order two edits). `old` and `new` are the item before and
    after; None if the edit created or deleted it.
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
    """The verdict that is written onto an item if the item is still the one that was judged.

    `judged` are the judged columns, and `absent` the columns that it did not have. `version` is
    that of a valid rule.
    """

    pipeline: str
    rule_id: str
    judged: Mapping[str, Any]
    absent: tuple[str, ...]
    status: RuleStatus
    reason: str | None
    at: str
    version: str | None = None


@dataclass(frozen=True, slots=True)
class RuleRefusal:
    """The public notice of a refused rule: the reason, without any of its values.

    `refused_by` are the pipelines in which it matches nothing; it is `*` alone for a rule
    whose pipeline does not exist. `disabled` says that a person has switched it off, so that
    nobody has to be called for it.
    """

    pipeline: str
    rule_id: str
    reason: str
    refused_by: tuple[str, ...]
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """The actions that one edit needs; None for each one that it does not need."""

    change: RuleEdit | None = None
    verdict: RuleVerdict | None = None
    refusal: RuleRefusal | None = None


@dataclass(frozen=True, slots=True)
class CheckedBatch:
    """The result of a batch: the refused rules, and the edit that it stopped at, if any."""

    refusals: tuple[RuleRefusal, ...]
    failed: str | None = None
    why: str | None = None

    def to_response(self) -> dict[str, Any]:
        """The function's answer: Lambda retries from the edit that failed, or not at all."""
        failed = [self.failed] if self.failed else []
        return {"batchItemFailures": [{"itemIdentifier": sequence} for sequence in failed]}


class Terms(Protocol):
    """The pipelines, with what each allows in a rule; raises CheckUnavailable."""

    def pipelines(self, *, fresh: bool = False) -> Mapping[str, Pipeline]:
        """The pipelines by name; with `fresh`, not from a cache that is minutes old."""


class Verdicts(Protocol):
    """The store of verdicts; raises CheckUnavailable."""

    def write(self, verdict: RuleVerdict) -> bool:
        """Write the verdict. Returns False if the item has changed since."""


class RuleHistory(Protocol):
    """The store of changes; storing one twice stores it once. Raises CheckUnavailable."""

    def keep(self, change: RuleEdit) -> None: ...


class BookVersions(Protocol):
    """The versions by which routers know that rules have changed; raises CheckUnavailable."""

    def write(self, pipeline: str, version: str) -> None:
        """Write the version of the rules of a pipeline, or of EVERY_PIPELINE."""


class VersionCounts(Protocol):
    """What versions of rules have matched; raises CheckUnavailable."""

    def forget(self, pipelines: Iterable[str], rule_id: str, keep: str | None) -> None:
        """Remove the counts of a rule in these pipelines, but for the version `keep`."""


class Namesakes(Protocol):
    """The stored rules; raises CheckUnavailable."""

    def of(self, rule_id: str, keys: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
        """The rules with this id as they are now, by the pipeline or `*` they are stored under."""

    def under(self, key: str) -> Sequence[Mapping[str, Any]]:
        """The rules of a pipeline, or of `*`, as they are now."""


class RuleEvents(Protocol):
    """The channel on which refusals are announced; raises CheckUnavailable."""

    def announce(self, refusal: RuleRefusal) -> None: ...


class RuleChecker:
    """Checks edits in order, and stops at the first that it cannot finish.

    Checking an edit again has the same result.
    """

    def __init__(
        self,
        *,
        terms: Terms,
        verdicts: Verdicts,
        history: RuleHistory,
        announcer: RuleEvents,
        versions: BookVersions,
        counts: VersionCounts,
        namesakes: Namesakes,
        clock: Callable[[], float],
    ) -> None:
        self._terms = terms
        self._verdicts = verdicts
        self._history = history
        self._announcer = announcer
        self._versions = versions
        self._counts = counts
        self._namesakes = namesakes
        self._clock = clock
        self._under: dict[str, Sequence[Mapping[str, Any]]] = {}

    def check(self, edits: Iterable[RuleEdit]) -> CheckedBatch:
        refusals: list[RuleRefusal] = []
        # All edits of a batch are in the table by now: it is read once for all of them.
        self._under = {}
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
        if change_of(edit) is not None:
            # First: whatever keeps the edit from being judged, routers have to read it.
            self._versions.write(edit.pipeline, edit.event_id)
        namesakes = self._namesakes_of(edit)
        others = self._others_of(edit) if edit.new is not None else ()
        finding = check(edit, self._terms.pipelines(), now, namesakes, others)
        if finding.refusal is not None:
            # A deployment may just have created what the rule names.
            finding = check(edit, self._terms.pipelines(fresh=True), now, namesakes, others)
        if finding.change is not None:
            self._history.keep(finding.change)
            self._forget(edit)
        if finding.verdict is not None and not self._verdicts.write(finding.verdict):
            # The item was edited again: that edit is in the stream too.
            return None
        if finding.change is not None:
            self._tell_namesakes(edit, namesakes, now)
            self._tell_tied(edit, now)
        if finding.refusal is not None:
            self._announcer.announce(finding.refusal)
        return finding.refusal

    def _namesakes_of(self, edit: RuleEdit) -> Mapping[str, Mapping[str, Any]]:
        if edit.pipeline != EVERY_PIPELINE:
            return self._namesakes.of(edit.rule_id, [EVERY_PIPELINE])
        return self._namesakes.of(edit.rule_id, sorted(self._terms.pipelines()))

    def _tell_namesakes(
        self, edit: RuleEdit, namesakes: Mapping[str, Mapping[str, Any]], now: float
    ) -> None:
        """Write onto the rules with the id of an edited one which of them counts now.

        Two edits at a time: whichever is checked later finds both rules as they are.
        """
        if not namesakes:
            return
        pipelines = self._terms.pipelines()
        rules = self._namesakes.of(edit.rule_id, sorted({EVERY_PIPELINE, *pipelines}))
        for key in sorted(rules.keys() - {edit.pipeline}):
            self._judge_again(rules[key], rules, now)

    def _tell_tied(self, edit: RuleEdit, now: float) -> None:
        """Write onto the rules that are, or were, tied with an edited one which goes first now."""
        pipelines = self._terms.pipelines()
        keys = [edit.pipeline] if edit.pipeline in pipelines else []
        if edit.pipeline == EVERY_PIPELINE:
            keys = [EVERY_PIPELINE, *sorted(pipelines)]
        for key in keys:
            others = [item for item in self._rules_under(key) if _is_other(item, edit)]
            tied_ids = {
                rule.rule_id
                for image in (edit.old, edit.new)
                for rule in _tied(image, others, _concerned(key, pipelines))
            }
            for item in others:
                if _id(item) in tied_ids:
                    keys_of_id = sorted({EVERY_PIPELINE, *pipelines})
                    self._judge_again(item, self._namesakes.of(_id(item), keys_of_id), now)

    def _judge_again(
        self, item: Mapping[str, Any], of_its_id: Mapping[str, Mapping[str, Any]], now: float
    ) -> None:
        """Write the verdict on a rule that was not edited, if it has become another one."""
        key = str(item["pipeline"])
        unedited = RuleEdit("", "", now, key, _id(item), item, item)
        namesakes = {name: other for name, other in of_its_id.items() if name != key}
        others = self._others_of(unedited)
        verdict = check(unedited, self._terms.pipelines(), now, namesakes, others).verdict
        # A rule that is refused meanwhile is announced when it is edited.
        if verdict is not None and verdict.status is RuleStatus.VALID:
            self._verdicts.write(verdict)

    def _others_of(self, edit: RuleEdit) -> Sequence[Mapping[str, Any]]:
        """The rules that are tried beside a rule in all pipelines that it is about."""
        keys = dict.fromkeys((edit.pipeline, EVERY_PIPELINE))
        return [item for key in keys for item in self._rules_under(key) if _is_other(item, edit)]

    def _rules_under(self, key: str) -> Sequence[Mapping[str, Any]]:
        if key not in self._under:
            self._under[key] = self._namesakes.under(key)
        return self._under[key]

    def _forget(self, edit: RuleEdit) -> None:
        """Remove the counts of versions that are gone: a rule that is edited or made again starts
        anew. A mistake in an edit removes none, because it may be corrected.
        """
        concerned = _concerned(edit.pipeline, self._terms.pipelines())
        version = _version(edit.new, concerned)
        if edit.old is not None and (edit.new is None or version is not None):
            self._counts.forget(sorted(concerned), edit.rule_id, version)


def change_of(edit: RuleEdit) -> RuleEdit | None:
    """The edit of what people write, for the history; None if it changes nothing of that."""
    old, new = _content(edit.old), _content(edit.new)
    return None if old == new else replace(edit, old=_for_history(old), new=_for_history(new))


def check(
    edit: RuleEdit,
    pipelines: Mapping[str, Pipeline],
    now: float,
    namesakes: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    others: Sequence[Mapping[str, Any]] = (),
) -> RuleFinding:
    """The actions that an edit needs; `now` is epoch seconds.

    `namesakes` are the rules with the same id, by the pipeline or `*` they are stored under;
    `others` are all rules that are tried beside it.
    The verdict is compared with the one on the item, so the record of our own write is
    checked like any other and needs no action.
    """
    change, new = change_of(edit), _content(edit.new)
    if edit.new is None or new is None:
        return RuleFinding(change)
    concerned = _concerned(edit.pipeline, pipelines)
    item = _as_judged_before(edit, new, concerned)
    why, refusal = _judge(edit, item, pipelines, now, namesakes, others)
    status = RuleStatus.VALID if refusal is None else RuleStatus.INVALID
    if (edit.new.get("status"), edit.new.get("status_reason")) == (status, why):
        return RuleFinding(change, None, refusal if change else None)
    judged = dict(sorted(new.items())[:_MOST_COMPARED])
    # With the keys in the condition, the write cannot create a deleted rule again.
    judged |= {"pipeline": edit.pipeline, "rule_id": edit.rule_id}
    columns = COLUMNS.union(*(pipeline.context for pipeline in concerned.values()))
    absent = tuple(sorted(columns - new.keys())[:_MOST_COMPARED])
    version = None if refusal else _version(new, concerned, **_KNOWN)
    verdict = RuleVerdict(
        edit.pipeline, edit.rule_id, judged, absent, status, why, _iso(now), version
    )
    return RuleFinding(change, verdict, refusal)


def _as_judged_before(
    edit: RuleEdit, new: Mapping[str, Any], pipelines: Mapping[str, Pipeline]
) -> Mapping[str, Any]:
    """The columns with the verdict on them, if the edit has not changed what the rule does.

    A rule in shadow mode does nothing: when it is enforced, it is judged anew.

    What a person types has to be valid by the rules of today; a rule that was valid when it was
    typed stays so.
    """
    old = _version(edit.old, pipelines, **_KNOWN)
    is_same = old is not None and old == _version(new, pipelines, **_KNOWN)
    was_valid = edit.old is not None and edit.old.get("status") == RuleStatus.VALID
    was_shadow = edit.old is not None and is_shadow(edit.old) and not is_shadow(new)
    return {**new, **_KNOWN} if is_same and was_valid and not was_shadow else new


def _judge(
    edit: RuleEdit,
    item: Mapping[str, Any],
    pipelines: Mapping[str, Pipeline],
    now: float,
    namesakes: Mapping[str, Mapping[str, Any]],
    others: Sequence[Mapping[str, Any]],
) -> tuple[str | None, RuleRefusal | None]:
    """Why the rule is refused, for its author, and the notice for others.

    Of a valid rule, what its author should know of it, if anything, and no notice.
    """
    if edit.pipeline != EVERY_PIPELINE and edit.pipeline not in pipelines:
        names = ", ".join(sorted(pipelines)) or "none"
        near = nearest(edit.pipeline, [*pipelines])
        hint = f"did you mean {near}? " if near else ""
        why = f"no pipeline is named {edit.pipeline!r}; {hint}there are {names}"
        gist = cut(f"no pipeline has this name; there are {names}", _MOST_REASON)
        notice = RuleRefusal(
            edit.pipeline, edit.rule_id, gist, (EVERY_PIPELINE,), disabled=is_disabled(item)
        )
        return cut(why, _MOST_REASON), notice
    concerned = _concerned(edit.pipeline, pipelines)
    refused: dict[str, RuleRefused] = {}
    notes: dict[str, None] = {}
    for name, pipeline in sorted(concerned.items()):
        try:
            rule = read_rule(item, pipeline)
        except RuleRefused as error:
            refused[name] = error
        else:
            notes.update(dict.fromkeys(notes_of(rule, item, pipeline, now)))
    if not refused:
        note = namesake_note(edit.pipeline, item, namesakes, pipelines)
        tie = _tie(item, others, concerned)
        said = [*([note] if note else []), *notes, *([tie] if tie else [])]
        return cut("; ".join(said), _MOST_REASON) or None, None
    [first, *_] = refused.values()
    everywhere = len(refused) == len(concerned) and {str(error) for error in refused.values()} == {
        str(first)
    }
    where = "" if everywhere else f"in {', '.join(refused)}: "
    gist = cut(f"{where}{first.gist}", _MOST_REASON)
    notice = RuleRefusal(
        edit.pipeline, edit.rule_id, gist, tuple(refused), disabled=is_disabled(item)
    )
    return cut(f"{where}{first}", _MOST_REASON), notice


def _tie(
    item: Mapping[str, Any],
    others: Iterable[Mapping[str, Any]],
    pipelines: Mapping[str, Pipeline],
) -> str | None:
    """That a valid rule is tied with others, and which goes first; None if it is not."""
    rule = _first_valid(item, pipelines, **_KNOWN)
    return None if rule is None else tie_note(rule, _tied(item, others, pipelines))


def _tied(
    item: Mapping[str, Any] | None,
    others: Iterable[Mapping[str, Any]],
    pipelines: Mapping[str, Pipeline],
) -> Sequence[Rule]:
    """The others that are tied with a stored rule; none if it is not valid."""
    rule = _first_valid(item, pipelines, **_KNOWN)
    if rule is None:
        return ()
    valid = (_first_valid(other, pipelines, **_KNOWN) for other in others)
    return tied(rule, (other for other in valid if other is not None))


_KNOWN = {"status": "VALID"}
"""The verdict on a rule that was valid when it was typed."""


def _first_valid(
    item: Mapping[str, Any] | None, pipelines: Mapping[str, Pipeline], **columns: str
) -> Rule | None:
    """The stored rule, with these columns, in the first of these pipelines in which it is valid."""
    for pipeline in () if item is None else pipelines.values():
        with suppress(RuleRefused):
            return read_rule({**(item or {}), **columns}, pipeline)
    return None


def _version(
    item: Mapping[str, Any] | None, pipelines: Mapping[str, Pipeline], **columns: str
) -> str | None:
    rule = _first_valid(item, pipelines, **columns)
    return None if rule is None else rule.version


def _id(item: Mapping[str, Any]) -> str:
    return str(item["rule_id"])


def _is_other(item: Mapping[str, Any], edit: RuleEdit) -> bool:
    """Whether a stored rule is not the edited one, nor one of its id, of which one counts."""
    return _id(item) != edit.rule_id


def _concerned(pipeline: str, pipelines: Mapping[str, Pipeline]) -> Mapping[str, Pipeline]:
    if pipeline == EVERY_PIPELINE:
        return pipelines
    return {pipeline: pipelines[pipeline]} if pipeline in pipelines else {}


def pipeline_from_terms(name: str, data: Any) -> Pipeline:
    """A pipeline with what its rules need, from the `terms` of its registration.

    Raises BadSettings for malformed terms.
    """
    match data:
        case {
            "context": [*context],
            "dedicated": [*dedicated],
            "policies": [*policies],
            "max_delay": int() | float() as max_delay,
        } if all(isinstance(name, str) for name in (*context, *dedicated, *policies)):
            return Pipeline(
                name,
                # A rule needs the names of the context, not their expressions.
                context=dict.fromkeys(context, ""),
                dedicated=tuple(dedicated),
                policies=dict.fromkeys(policies, RetryPolicy()),
                message_ttl=float(max_delay),
            )
    raise BadSettings(f"pipeline {name} is registered without terms for its rules")


def _content(item: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The columns of an item that people write."""
    if item is None:
        return None
    return {name: value for name, value in item.items() if name not in VERDICT}


def _for_history(item: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    length = len(str(item))
    return item if item is None or length <= _MOST_STORED else {"too_long": length}


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
