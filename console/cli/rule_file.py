"""`dlq rules export` and `import`: all rules as a file that version control can keep.

A file is a JSON list of rules, each an object with the columns of the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from deadletter.contract import EVERY_PIPELINE
from deadletter.message.strict_json import Unreadable, read_json
from deadletter.rules.rule import VERDICT

from ..operations import deployed, rule_table
from ..operations.app import App
from ..operations.letters import read_text
from ..operations.problem import Exit, Problem
from ..operations.rule_table import RuleTable, RuleTableChange, Stored, told
from . import rule_text
from .command import Session
from .output import Block, CommandResult, Line, Reply, Styled, count, line
from .rule_edit import Yes

# Mistakes of a file that an error names; `dlq rules lint` names all.
_MAX_MISTAKES = 3


@dataclass(frozen=True, slots=True)
class Mistake:
    """One reason why a file of rules should not be used."""

    file: Annotated[str, "the file"]
    rule_id: Annotated[str | None, "the rule; null if it has no id, or it is the whole file"]
    why: Annotated[str, "what is wrong, in a sentence"]


@dataclass(frozen=True, slots=True)
class Exported(CommandResult):
    """What `dlq rules export` answers."""

    rules: Annotated[Sequence[Any], "the rules, by pipeline and id, as lint and import take them"]


@dataclass(frozen=True, slots=True)
class FileChange:
    """One rule that a file changes."""

    rule: Annotated[str, "`pipeline/rule_id`"]
    changes: Annotated[Sequence[str], "column by column, in words"]


@dataclass(frozen=True, slots=True)
class Imported(CommandResult):
    """What `dlq rules import` answers."""

    added: Annotated[Sequence[str], "rules that were not there, as `pipeline/rule_id`"]
    changed: Annotated[Sequence[FileChange], "rules that said something else"]
    removed: Annotated[Sequence[str], "rules that the file does not have, with --prune"]
    kept: Annotated[Sequence[str], "the same without --prune: they stay"]
    unchanged: Annotated[int, "rules that say the same in the table and in the file"]
    raced: Annotated[Sequence[str], "rules that somebody else changed meanwhile: not written"]


SomeRules = Annotated[
    list[str] | None,
    typer.Option(
        "--pipeline",
        metavar="NAME",
        help="Only rules of this pipeline, or of '*'; may be given several times.",
    ),
]
File = Annotated[str, typer.Argument(metavar="FILE", help="A file of rules; - is stdin.")]
Prune = Annotated[
    bool,
    typer.Option("--prune", help="Remove what the file lacks, in the pipelines it has rules for."),
]


def export(session: Session, pipeline: SomeRules = None) -> Reply[Exported]:
    """Print the rules as JSON, for version control and for `import`.

    The order never changes, so that a difference is a change. What the validator wrote
    onto the rules is left out.
    """
    app = session.app()
    app.some([one for one in pipeline or () if one != EVERY_PIPELINE])
    stored = rule_table.table(session.aws, app.rules_table).read()
    rules = tuple(told(one.columns) for one in stored if not pipeline or one.pipeline in pipeline)
    found = Exported(session.aws.account, session.aws.region, session.app_name, rules)
    return Reply(found, _show_exported)


def _show_exported(found: Exported) -> Iterator[Block]:
    for one in json.dumps(found.rules, indent=2, ensure_ascii=True).splitlines():
        yield line(one)


def import_(
    session: Session, file: File, prune: Prune = False, yes: Yes = False
) -> Reply[Imported]:
    """Write a file of rules into the table.

    What would be added, changed and removed is shown, in which account and region, and
    you are asked. Rules that the file does not have stay, unless you say --prune. A file
    with a rule that would be INVALID is not imported at all; one that somebody changes
    at the same moment is left as they made it.
    """
    app = session.app()
    wanted = _wanted(file)
    table = rule_table.table(session.aws, app.rules_table)
    stored = table.read()
    plan = _planned(stored, wanted, session.aws.caller, prune=prune)
    _check(app, plan, stored, wanted)
    if not plan.empty and not yes:
        session.agreed("Import would:", *_steps(plan))
    raced = tuple(_carry_out(table, plan))
    added = [_name(one) for one in plan.added]
    changed = [FileChange(_name(new), tuple(_changes(old, new))) for old, new in plan.changed]
    removed = [_name(one.columns) for one in plan.removed]
    found = Imported(
        session.aws.account,
        session.aws.region,
        session.app_name,
        tuple(one for one in added if one not in raced),
        tuple(one for one in changed if one.rule not in raced),
        tuple(one for one in removed if one not in raced),
        tuple(_name(one.columns) for one in plan.kept),
        len(wanted) - len(added) - len(changed),
        raced,
    )
    return Reply(found, _show_imported, Exit.ATTENTION if raced else Exit.DONE)


def entries(file: str, mistakes: list[Mistake]) -> Iterator[dict[str, Any]]:
    """The rules in a file that have a pipeline and an id; what else is there is a mistake."""
    try:
        data = read_json(read_text(file))
    except Unreadable as error:
        mistakes.append(Mistake(file, None, f"it is not readable: {error}"))
        return
    if not isinstance(data, list):
        mistakes.append(Mistake(file, None, "it should be a JSON list of rules"))
        return
    for number, one in enumerate(data, 1):
        rule_id = one.get("rule_id") if isinstance(one, dict) else None
        if not isinstance(one, dict):
            mistakes.append(Mistake(file, None, f"rule {number} should be a JSON object"))
        elif not isinstance(rule_id, str) or not rule_id:
            mistakes.append(Mistake(file, None, f"rule {number} has no rule_id"))
        elif not isinstance(one.get("pipeline"), str) or not one["pipeline"]:
            why = f"it has no pipeline; write {EVERY_PIPELINE!r} for every one"
            mistakes.append(Mistake(file, rule_id, why))
        else:
            yield {name: value for name, value in one.items() if name not in VERDICT}


_Columns = Mapping[str, Any]


def _wanted(file: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The rules of a file by pipeline and id; Problem if there is anything wrong with it."""
    mistakes: list[Mistake] = []
    wanted: dict[tuple[str, str], dict[str, Any]] = {}
    for one in entries(file, mistakes):
        key = (one["pipeline"], one["rule_id"])
        if key in wanted:
            mistakes.append(Mistake(file, key[1], "it is there twice"))
        wanted[key] = one
    _refuse(file, [f"{one.rule_id}: {one.why}" if one.rule_id else one.why for one in mistakes])
    return wanted


def _refuse(file: str, whys: Sequence[str]) -> None:
    if whys:
        more = len(whys) - _MAX_MISTAKES
        said = [*whys[:_MAX_MISTAKES], *([f"and {more} more"] if more > 0 else [])]
        raise Problem(f"Nothing was imported from {file}: {'; '.join(said)}.", Exit.ATTENTION)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What an import would do, rule by rule."""

    added: Sequence[_Columns]
    changed: Sequence[tuple[Stored, _Columns]]
    removed: Sequence[Stored]
    kept: Sequence[Stored]

    @property
    def empty(self) -> bool:
        return not (self.added or self.changed or self.removed)


def _planned(
    stored: Sequence[Stored],
    wanted: Mapping[tuple[str, str], _Columns],
    caller: str,
    *,
    prune: bool,
) -> _Plan:
    there = {(one.pipeline, one.rule_id): one for one in stored}
    added: list[_Columns] = []
    changed: list[tuple[Stored, _Columns]] = []
    for key, new in wanted.items():
        old = there.get(key)
        if old is None:
            added.append({"created_by": caller, **new})
            continue
        # A file need not say who wrote a rule: that alone is no difference.
        author = {name: old.columns[name] for name in ("created_by",) if name in old.columns}
        if told({**author, **new}) != told(old.columns):
            changed.append((old, {"created_by": caller, **new}))
    pipelines = {pipeline for pipeline, _ in wanted}
    lacking = [one for key, one in there.items() if key[0] in pipelines and key not in wanted]
    return _Plan(added, changed, lacking if prune else (), () if prune else lacking)


def _check(
    app: App,
    plan: _Plan,
    stored: Sequence[Stored],
    wanted: Mapping[tuple[str, str], _Columns],
) -> None:
    """Raises Problem if the file's rules would not be valid in the table as it would be."""
    names = {pipeline for pipeline, _ in wanted}
    app.some(sorted(names - {EVERY_PIPELINE}))
    judging = [one for one in app.pipelines if EVERY_PIPELINE in names or one.name in names]
    gone = {(one.pipeline, one.rule_id) for one in plan.removed} | wanted.keys()
    others = [one.columns for one in stored if (one.pipeline, one.rule_id) not in gone]
    whys = [
        f"{refused.rule_id} would be INVALID in {one.name}: {refused.why}"
        for one in map(deployed.terms, judging)
        for refused in rule_table.spoilt(others, [*others, *wanted.values()], one)
    ]
    _refuse("the file", whys)


def _carry_out(table: RuleTable, plan: _Plan) -> Iterator[str]:
    """Writes the plan; names the rules that somebody else changed meanwhile."""
    for over, columns in [*((None, one) for one in plan.added), *plan.changed]:
        try:
            table.put(_typed(columns), over)
        except RuleTableChange:
            yield _name(columns)
    for one in plan.removed:
        try:
            table.remove(one)
        except RuleTableChange:
            yield _name(one.columns)


def _typed(columns: _Columns) -> dict[str, Any]:
    """The columns as a person would type them: a pattern in one field, as text."""
    pattern = columns.get("pattern")
    if not isinstance(pattern, dict):
        return dict(columns)
    return {**columns, "pattern": json.dumps(pattern, ensure_ascii=False)}


def _name(columns: _Columns) -> str:
    return f"{columns['pipeline']}/{columns['rule_id']}"


def _changes(old: Stored, new: _Columns) -> Iterator[str]:
    return rule_text.changes(told(old.columns), told(new))


def _steps(plan: _Plan) -> Iterator[str]:
    for one in plan.added:
        yield f"  + {_name(one)}"
    for old, new in plan.changed:
        yield f"  ~ {_name(new)}  {'; '.join(_changes(old, new))}"
    for stored in plan.removed:
        yield f"  - {_name(stored.columns)}"
    if plan.kept:
        kept = ", ".join(_name(one.columns) for one in plan.kept)
        yield f"  keep what the file does not have (--prune would remove it): {kept}"


def _show_imported(found: Imported) -> Iterator[Block]:
    yield line(Styled("Rules imported", "strong"), f" in account {found.account}, {found.region}")
    for name in found.added:
        yield line(f"+ {name}", indent=2)
    for one in found.changed:
        yield line(f"~ {one.rule}  {'; '.join(one.changes)}", indent=2)
    for name in found.removed:
        yield line(f"- {name}", indent=2)
    yield line(f"{count(found.unchanged, 'rule')} unchanged.", indent=2)
    if found.kept:
        yield line(f"Not in the file, and kept: {', '.join(found.kept)}.", indent=2)
    if found.raced:
        yield Line()
        yield line(
            Styled("Changed by somebody else meanwhile, so left alone: ", "alarm"),
            f"{', '.join(found.raced)}; look again.",
        )
