"""Export and import all rules as a file that version control can keep.

A file is a JSON list of rules, each an object with the columns of the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Annotated, Any

from deadletter.contract import EVERY_PIPELINE
from deadletter.message.strict_json import Unreadable, read_json
from deadletter.rules.rule import VERDICT

from . import deployed, rule_table, rule_text
from .answer import Answer
from .app import App
from .audit import IntendedChange, error_name, recorded
from .problem import Cause, Problem
from .rule_table import RuleTable, RuleTableChange, StoredRule, canonical
from .session import Session

# Mistakes that an error names; `dlq rules lint` names all.
_MAX_MISTAKES = 3

_Columns = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RuleMistake:
    """A reason why a file of rules must not be used."""

    file: Annotated[str, "the file"]
    rule_id: Annotated[str | None, "the rule; null if it has no id, or it is the whole file"]
    why: Annotated[str, "what is wrong, in a sentence"]


@dataclass(frozen=True, slots=True)
class RuleExport(Answer):
    """What `dlq rules export` answers."""

    rules: Annotated[Sequence[Any], "the rules, by pipeline and id, as lint and import take them"]


@dataclass(frozen=True, slots=True)
class FileChange:
    """A rule that a file changes."""

    rule: Annotated[str, "`pipeline/rule_id`"]
    changes: Annotated[Sequence[str], "column by column, in words"]


@dataclass(frozen=True, slots=True)
class RuleImport(Answer):
    """What `dlq rules import` answers."""

    added: Annotated[Sequence[str], "rules that are new, as `pipeline/rule_id`"]
    changed: Annotated[Sequence[FileChange], "rules that were different"]
    removed: Annotated[Sequence[str], "rules that the file does not have, with --prune"]
    kept: Annotated[Sequence[str], "the same without --prune: they stay"]
    unchanged: Annotated[int, "rules that are the same in the table and in the file"]
    raced: Annotated[Sequence[str], "rules that another person changed meanwhile: not written"]


def export(session: Session, pipelines: Sequence[str]) -> RuleExport:
    """The rules of these pipelines, or all rules, in a fixed order and without verdicts."""
    app = session.app()
    app.select([name for name in pipelines if name != EVERY_PIPELINE])
    stored = rule_table.table(session.aws, app.rules_table).read()
    rules = (rule for rule in stored if not pipelines or rule.pipeline in pipelines)
    return RuleExport(**session.place, rules=tuple(canonical(rule.columns) for rule in rules))


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What an import would do, rule by rule."""

    added: Sequence[_Columns]
    changed: Sequence[tuple[StoredRule, _Columns]]
    removed: Sequence[StoredRule]
    kept: Sequence[StoredRule]
    unchanged: int

    @property
    def empty(self) -> bool:
        return not (self.added or self.changed or self.removed)


class RuleImporter:
    """The import of a file of rules into the table of an app."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._app = session.app()
        self._table = rule_table.table(session.aws, self._app.rules_table)

    def plan(self, file: str, text: str, *, prune: bool) -> ImportPlan:
        """What the import of this text would do; Problem if a rule of it is refused.

        `file` names the text. With `prune`, rules that the file lacks are removed, in the
        pipelines that it has rules for.
        """
        wanted = _wanted(file, text)
        stored = self._table.read()
        plan = _planned(stored, wanted, self._session.aws.caller, prune=prune)
        _check(self._app, plan, stored, wanted)
        return plan

    def carry_out(self, plan: ImportPlan, why: str = "") -> RuleImport:
        """Writes the plan; rules that have changed meanwhile are left alone and named.

        Each change of a rule is recorded, and all of them before the first is made.
        """
        raced = []
        with ExitStack() as records:
            steps = [
                (step, records.enter_context(recorded(self._session, self._app, step.change(why))))
                for step in _steps(plan)
            ]
            for step, record in steps:
                try:
                    step.write(self._table)
                except RuleTableChange as error:
                    raced.append(step.name)
                    record.failed(error_name(error))
                record.done()
        added = [rule_name(columns) for columns in plan.added]
        changed = [
            FileChange(rule_name(new), tuple(column_changes(old, new))) for old, new in plan.changed
        ]
        removed = [rule_name(rule.columns) for rule in plan.removed]
        return RuleImport(
            **self._session.place,
            added=tuple(name for name in added if name not in raced),
            changed=tuple(change for change in changed if change.rule not in raced),
            removed=tuple(name for name in removed if name not in raced),
            kept=tuple(rule_name(rule.columns) for rule in plan.kept),
            unchanged=plan.unchanged,
            raced=tuple(raced),
        )


def entries(file: str, text: str, mistakes: list[RuleMistake]) -> Iterator[dict[str, Any]]:
    """The rules in a file that have a pipeline and an id; anything else is a mistake."""
    try:
        data = read_json(text)
    except Unreadable as error:
        mistakes.append(RuleMistake(file, None, f"it is not readable: {error}"))
        return
    if not isinstance(data, list):
        mistakes.append(RuleMistake(file, None, "it should be a JSON list of rules"))
        return
    for number, rule in enumerate(data, 1):
        rule_id = rule.get("rule_id") if isinstance(rule, dict) else None
        if not isinstance(rule, dict):
            mistakes.append(RuleMistake(file, None, f"rule {number} should be a JSON object"))
        elif not isinstance(rule_id, str) or not rule_id:
            mistakes.append(RuleMistake(file, None, f"rule {number} has no rule_id"))
        elif not isinstance(rule.get("pipeline"), str) or not rule["pipeline"]:
            why = f"it has no pipeline; write {EVERY_PIPELINE!r} for every pipeline"
            mistakes.append(RuleMistake(file, rule_id, why))
        else:
            yield {name: value for name, value in rule.items() if name not in VERDICT}


def _wanted(file: str, text: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The rules of a file by pipeline and id; Problem if it has mistakes."""
    mistakes: list[RuleMistake] = []
    wanted: dict[tuple[str, str], dict[str, Any]] = {}
    for rule in entries(file, text, mistakes):
        key = (rule["pipeline"], rule["rule_id"])
        if key in wanted:
            mistakes.append(RuleMistake(file, key[1], "it is there twice"))
        wanted[key] = rule
    _refuse(file, [_mistake_text(mistake) for mistake in mistakes])
    return wanted


def _mistake_text(mistake: RuleMistake) -> str:
    return f"{mistake.rule_id}: {mistake.why}" if mistake.rule_id else mistake.why


def _refuse(file: str, mistakes: Sequence[str]) -> None:
    if mistakes:
        more = len(mistakes) - _MAX_MISTAKES
        texts = [*mistakes[:_MAX_MISTAKES], *([f"and {more} more"] if more > 0 else [])]
        raise Problem(f"Nothing was imported from {file}: {'; '.join(texts)}.", Cause.FAILED)


def _planned(
    stored: Sequence[StoredRule],
    wanted: Mapping[tuple[str, str], _Columns],
    caller: str,
    *,
    prune: bool,
) -> ImportPlan:
    there = {(rule.pipeline, rule.rule_id): rule for rule in stored}
    added: list[_Columns] = []
    changed: list[tuple[StoredRule, _Columns]] = []
    for key, new in wanted.items():
        old = there.get(key)
        if old is None:
            added.append({"created_by": caller, **new})
            continue
        # A file need not name the author of a rule: a missing author is not a change.
        author = {name: old.columns[name] for name in ("created_by",) if name in old.columns}
        if canonical({**author, **new}) != canonical(old.columns):
            changed.append((old, {"created_by": caller, **new}))
    pipelines = {pipeline for pipeline, _ in wanted}
    lacking = [rule for key, rule in there.items() if key[0] in pipelines and key not in wanted]
    return ImportPlan(
        added,
        changed,
        removed=lacking if prune else (),
        kept=() if prune else lacking,
        unchanged=len(wanted) - len(added) - len(changed),
    )


def _check(
    app: App,
    plan: ImportPlan,
    stored: Sequence[StoredRule],
    wanted: Mapping[tuple[str, str], _Columns],
) -> None:
    """Raises Problem if a rule of the file would be INVALID in the table after the import."""
    names = {pipeline for pipeline, _ in wanted}
    app.select(sorted(names - {EVERY_PIPELINE}))
    everywhere = EVERY_PIPELINE in names
    pipelines = [
        deployed.terms(pipeline)
        for pipeline in app.pipelines
        if everywhere or pipeline.name in names
    ]
    gone = {(rule.pipeline, rule.rule_id) for rule in plan.removed} | wanted.keys()
    others = [rule.columns for rule in stored if (rule.pipeline, rule.rule_id) not in gone]
    mistakes = [
        f"{refused.rule_id} would be INVALID in {pipeline.name}: {refused.why}"
        for pipeline in pipelines
        for refused in rule_table.newly_refused(others, [*others, *wanted.values()], pipeline)
    ]
    _refuse("the file", mistakes)


@dataclass(frozen=True, slots=True)
class _Step:
    """One rule that an import writes over `old`, or removes (no `new`)."""

    old: StoredRule | None
    new: _Columns | None

    @property
    def name(self) -> str:
        return rule_name(self._columns)

    @property
    def _columns(self) -> _Columns:
        return self.new if self.new is not None else self.old.columns if self.old else {}

    def change(self, why: str) -> IntendedChange:
        """The step as the audit table keeps it."""
        before = canonical(self.old.columns) if self.old else None
        after = canonical(self.new) if self.new is not None else None
        target = rule_table.target(str(self._columns["rule_id"]))
        pipeline = str(self._columns["pipeline"])
        return IntendedChange("rules import", pipeline, target, why, before, after)

    def write(self, table: RuleTable) -> None:
        """Makes the change; raises RuleTableChange if the rule has changed meanwhile."""
        if self.new is not None:
            table.put(_typed(self.new), self.old)
        elif self.old is not None:
            table.remove(self.old)


def _steps(plan: ImportPlan) -> Iterator[_Step]:
    for columns in plan.added:
        yield _Step(None, columns)
    for old, new in plan.changed:
        yield _Step(old, new)
    for rule in plan.removed:
        yield _Step(rule, None)


def _typed(columns: _Columns) -> dict[str, Any]:
    """The columns as a person types them: the pattern as text."""
    pattern = columns.get("pattern")
    if not isinstance(pattern, dict):
        return dict(columns)
    return {**columns, "pattern": json.dumps(pattern, ensure_ascii=False)}


def rule_name(columns: _Columns) -> str:
    """The rule as `pipeline/rule_id`."""
    return f"{columns['pipeline']}/{columns['rule_id']}"


def column_changes(old: StoredRule, new: _Columns) -> Iterator[str]:
    """Each column that differs, in words."""
    return rule_text.changes(canonical(old.columns), canonical(new))
