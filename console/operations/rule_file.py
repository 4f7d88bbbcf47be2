"""Rules in a file that version control can keep: checked without AWS, and applied.

A file is a JSON list of rules, each an object with the columns of the table; or the same as YAML,
with a column a line and values as JSON, as `dlq rules list --yaml` prints it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Annotated, Any

from deadletter.contract import EVERY_PIPELINE
from deadletter.message.strict_json import Unreadable, read_json
from deadletter.rules.rule import COLUMNS, VERDICT
from deadletter.settings.pipeline import Pipeline, RetryPolicy

from . import deployed, rule_table
from .answer import Answer
from .app import App
from .audit import IntendedChange, error_name, recorded
from .duration import seconds
from .problem import Cause, Problem
from .rule_table import RuleTable, RuleTableChange, StoredRule, canonical, column_changes
from .session import Session
from .verbs import Asked, TextFile, Verb
from .words import count

# Mistakes that an error names; `dlq rules test --file` names all.
_MAX_MISTAKES = 3

_Columns = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RuleMistake:
    """A reason why a file of rules must not be used."""

    file: Annotated[str, "the file"]
    rule_id: Annotated[str | None, "the rule; null if it has no id, or it is the whole file"]
    why: Annotated[str, "what is wrong, in a sentence"]


# Its form.

_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
"""Plain words that are no texts, or that some readers of YAML take for something else."""

_PLAIN = re.compile(r"[A-Za-z][\w./-]*", re.ASCII)
_LINE = re.compile(r'(- |  )("(?:[^"\\]|\\.)*"|[A-Za-z_][\w.-]*): +(\S.*)', re.ASCII)


def as_yaml(rules: Sequence[_Columns]) -> Iterator[str]:
    """The lines of a file with these rules."""
    if not rules:
        yield "[]"
    for rule in rules:
        lead = "- "
        for name, value in rule.items():
            is_plain = _PLAIN.fullmatch(name) and name.lower() not in _WORDS
            key = name if is_plain else json.dumps(name)
            yield f"{lead}{key}: {json.dumps(value, ensure_ascii=True)}"
            lead = "  "


def _parsed(text: str) -> Any:
    """What a file says. Raises Unreadable."""
    if text.lstrip()[:1] in ("[", "{"):
        return read_json(text)
    rules: list[dict[str, Any]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _LINE.fullmatch(line.rstrip())
        if found is None or (found[1] == "  " and not rules):
            raise Unreadable(f"line {number} is not a column of a rule, such as `- rule_id: r`")
        if found[1] == "- ":
            rules.append({})
        name = json.loads(found[2]) if found[2].startswith('"') else found[2]
        if name in rules[-1]:
            raise Unreadable(f"line {number}: {name} appears twice")
        rules[-1][name] = _value(found[3], number)
    return rules


def _value(text: str, number: int) -> Any:
    """A value as JSON, or a word without quotes."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    try:
        return read_json(text)
    except Unreadable as error:
        raise Unreadable(f"line {number}: put a text into double quotes") from error


def _entries(file: str, text: str, mistakes: list[RuleMistake]) -> Iterator[dict[str, Any]]:
    """The rules in a file that have a pipeline and an id; anything else is a mistake."""
    try:
        data = _parsed(text)
    except Unreadable as error:
        mistakes.append(RuleMistake(file, None, f"it is not readable: {error}"))
        return
    if not isinstance(data, list):
        mistakes.append(RuleMistake(file, None, "it should be a list of rules"))
        return
    for number, rule in enumerate(data, 1):
        rule_id = rule.get("rule_id") if isinstance(rule, dict) else None
        if not isinstance(rule, dict):
            mistakes.append(RuleMistake(file, None, f"rule {number} should be an object"))
        elif not isinstance(rule_id, str) or not rule_id:
            mistakes.append(RuleMistake(file, None, f"rule {number} has no rule_id"))
        elif not isinstance(rule.get("pipeline"), str) or not rule["pipeline"]:
            why = f"it has no pipeline; write {EVERY_PIPELINE!r} for every pipeline"
            mistakes.append(RuleMistake(file, rule_id, why))
        else:
            yield {name: value for name, value in rule.items() if name not in VERDICT}


# Checked without AWS.


@dataclass(frozen=True, slots=True)
class RuleFiles:
    """What is wrong with files of rules."""

    rules: Annotated[int, "rules in the files"]
    mistakes: Annotated[Sequence[RuleMistake], "what is wrong with them"]
    unchecked: Annotated[Sequence[str], "what can be checked beside a cdk.json only"]


_LONGEST_DELAY = 30 * 86_400  # seconds: no setting allows a longer delay
_DEFAULT_TTL = "12d"  # as in docs/settings.md

_Rules = Mapping[tuple[str, str], tuple[str, _Columns]]


def checked(files: Sequence[TextFile]) -> RuleFiles:
    """The mistakes in files of rules. One of them can be the cdk.json with the pipelines.

    Without that, each unknown column counts as a context, and is listed in `unchecked`.
    """
    settings = [file for file in files if _is_settings(file.text)]
    mistakes: list[RuleMistake] = []
    rules: dict[tuple[str, str], tuple[str, _Columns]] = {}
    for file in files:
        for rule in _entries(file.name, file.text, mistakes) if file not in settings else ():
            key = (str(rule["pipeline"]), str(rule["rule_id"]))
            if key in rules:
                mistakes.append(RuleMistake(file.name, key[1], f"{rules[key][0]} has it already"))
            else:
                rules[key] = (file.name, rule)
    columns = [rule for _, rule in rules.values()]
    pipelines = [each for file in settings for each in _of_the_app(file)] or _assumed(columns)
    mistakes += _refused(rules, pipelines)
    mistakes += _strays(rules, pipelines)
    return RuleFiles(len(rules), tuple(mistakes), () if settings else tuple(_unchecked(columns)))


def _is_settings(text: str) -> bool:
    try:
        data = read_json(text)
    except Unreadable:
        return False
    return isinstance(data, dict) and "context" in data


def _refused(rules: _Rules, pipelines: Sequence[Pipeline]) -> Iterator[RuleMistake]:
    columns = [rule for _, rule in rules.values()]
    for pipeline in pipelines:
        where = "" if pipeline.name == EVERY_PIPELINE else f" (in {pipeline.name})"
        for refused in rule_table.book(columns, pipeline).refused:
            keys = ((EVERY_PIPELINE, refused.rule_id), (pipeline.name, refused.rule_id))
            file = next(rules[key][0] for key in keys if key in rules)
            yield RuleMistake(file, refused.rule_id, f"{refused.why}{where}")


def _strays(rules: _Rules, pipelines: Sequence[Pipeline]) -> Iterator[RuleMistake]:
    known = (EVERY_PIPELINE, *(settings.name for settings in pipelines))
    for (pipeline, rule_id), (file, _) in rules.items():
        if pipeline not in known:
            why = f"there is no pipeline {pipeline!r}; there are {', '.join(known)}"
            yield RuleMistake(file, rule_id, why)


def _assumed(rules: Sequence[_Columns]) -> list[Pipeline]:
    """The pipelines of these rules, with settings that allow all that the rules name."""
    names = {str(rule["pipeline"]) for rule in rules} - {EVERY_PIPELINE} or {EVERY_PIPELINE}
    return [
        Pipeline(
            name,
            context=dict.fromkeys(_contexts(rules), ""),
            dedicated=_texts("queue", rules),
            policies=dict.fromkeys(_texts("policy", rules), RetryPolicy()),
            message_ttl=_LONGEST_DELAY,
        )
        for name in sorted(names)
    ]


def _unchecked(rules: Sequence[_Columns]) -> Iterator[str]:
    for what, names in (
        ("fields", _contexts(rules)),
        ("dedicated DLQs", _texts("queue", rules)),
        ("policies", _texts("policy", rules)),
    ):
        if names:
            yield f"{what} {', '.join(names)}"


def _contexts(rules: Sequence[_Columns]) -> list[str]:
    return sorted({column for rule in rules for column in rule} - COLUMNS)


def _texts(column: str, rules: Sequence[_Columns]) -> tuple[str, ...]:
    return tuple(sorted({rule[column] for rule in rules if isinstance(rule.get(column), str)}))


def _of_the_app(file: TextFile) -> list[Pipeline]:
    """The pipelines that a cdk.json names, as far as rules depend on them."""
    try:
        return [
            Pipeline(
                str(pipeline["name"]),
                context=dict(pipeline.get("context", {})),
                dedicated=tuple(pipeline.get("dedicated", {})),
                policies=dict.fromkeys(pipeline.get("policies", {}), RetryPolicy()),
                message_ttl=seconds(str(pipeline.get("message_ttl", _DEFAULT_TTL))),
            )
            for pipeline in read_json(file.text)["context"]["pipelines"]
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Problem(
            f"{file.name} is not a cdk.json with pipelines in its context: see docs/settings.md.",
            Cause.INPUT,
        ) from error


# Applied.


@dataclass(frozen=True, kw_only=True)
class ApplyRequest:
    """A file of rules, and whether it is all that there shall be."""

    file: Annotated[
        TextFile,
        Asked("A file of rules: YAML as list --yaml prints it, or JSON; - is stdin.",
              metavar="FILE", reads=True),
    ]  # fmt: skip
    prune: Annotated[
        bool, Asked("Remove what the file lacks, in the pipelines it has rules for.", ("--prune",))
    ] = False


@dataclass(frozen=True, slots=True)
class FileChange:
    """A rule that a file adds or changes, or that --prune removes."""

    rule: Annotated[str, "`pipeline/rule_id`"]
    did: Annotated[str, "`added`, `changed` or `removed`"]
    changes: Annotated[Sequence[str], "of one that was changed: column by column, in words"]

    def says(self) -> str:
        """The same for a person."""
        if self.did == CHANGED:
            return f"~ {self.rule}  {'; '.join(self.changes)}"
        return f"{'+' if self.did == ADDED else '-'} {self.rule}"


ADDED, CHANGED, REMOVED = "added", "changed", "removed"


@dataclass(frozen=True, slots=True)
class AppliedRules(Answer):
    """What `dlq rules apply` answers."""

    rules: Annotated[Sequence[FileChange], "what was written"]
    kept: Annotated[Sequence[str], "rules that the file does not have, and that stay"]
    unchanged: Annotated[int, "rules that are the same in the table and in the file"]
    raced: Annotated[Sequence[str], "rules that another person changed meanwhile: not written"]


@dataclass(frozen=True, slots=True)
class _Step:
    """One rule that is written over `old`, or removed (no `new`)."""

    old: StoredRule | None
    new: _Columns | None

    @property
    def _columns(self) -> _Columns:
        return self.new if self.new is not None else self.old.columns if self.old else {}

    @property
    def said(self) -> FileChange:
        """The step as an answer."""
        name = f"{self._columns['pipeline']}/{self._columns['rule_id']}"
        if self.old is None or self.new is None:
            return FileChange(name, ADDED if self.old is None else REMOVED, ())
        before, after = canonical(self.old.columns), canonical(self.new)
        return FileChange(name, CHANGED, tuple(column_changes(before, after)))

    def change(self, why: str) -> IntendedChange:
        """The step as the audit table keeps it."""
        before = canonical(self.old.columns) if self.old else None
        after = canonical(self.new) if self.new is not None else None
        target = rule_table.target(str(self._columns["rule_id"]))
        pipeline = str(self._columns["pipeline"])
        return IntendedChange("rules apply", pipeline, target, why, before, after)

    def write(self, table: RuleTable) -> None:
        """Makes the change; raises RuleTableChange if the rule has changed meanwhile."""
        if self.new is not None:
            table.put(_typed(self.new), self.old)
        elif self.old is not None:
            table.remove(self.old)


def _typed(columns: _Columns) -> dict[str, Any]:
    """The columns as a person types them: the pattern as text."""
    pattern = columns.get("pattern")
    if not isinstance(pattern, dict):
        return dict(columns)
    return {**columns, "pattern": json.dumps(pattern, ensure_ascii=False)}


@dataclass(frozen=True, slots=True)
class ApplyPlan:
    """What a file would do, rule by rule: added, changed, removed; and what stays."""

    app: App
    table: RuleTable
    steps: Sequence[_Step]
    kept: Sequence[str]
    unchanged: int


def _plan(session: Session, request: ApplyRequest) -> ApplyPlan:
    """What the file would do; Problem if a rule of it is refused: then none is written."""
    app = session.app()
    table = rule_table.table(session.aws, app.rules_table)
    wanted = _wanted(request.file)
    stored = table.read()
    there = {(rule.pipeline, rule.rule_id): rule for rule in stored}
    added, changed = [], []
    caller = session.aws.caller
    for key, new in wanted.items():
        old = there.get(key)
        if old is None:
            added.append(_Step(None, {"created_by": caller, **new}))
            continue
        # A file need not name the author of a rule: a missing author is not a change.
        author = {name: old.columns[name] for name in ("created_by",) if name in old.columns}
        if canonical({**author, **new}) != canonical(old.columns):
            changed.append(_Step(old, {"created_by": caller, **new}))
    pipelines = {pipeline for pipeline, _ in wanted}
    lacking = [
        _Step(rule, None)
        for key, rule in there.items()
        if key[0] in pipelines and key not in wanted
    ]
    _check(app, stored, wanted, gone=lacking if request.prune else ())
    return ApplyPlan(
        app,
        table,
        steps=[*added, *changed, *(lacking if request.prune else ())],
        kept=() if request.prune else [step.said.rule for step in lacking],
        unchanged=len(wanted) - len(added) - len(changed),
    )


def _wanted(file: TextFile) -> dict[tuple[str, str], dict[str, Any]]:
    """The rules of a file by pipeline and id; Problem if it has mistakes."""
    mistakes: list[RuleMistake] = []
    wanted: dict[tuple[str, str], dict[str, Any]] = {}
    for rule in _entries(file.name, file.text, mistakes):
        key = (rule["pipeline"], rule["rule_id"])
        if key in wanted:
            mistakes.append(RuleMistake(file.name, key[1], "it is there twice"))
        wanted[key] = rule
    texts = [f"{each.rule_id}: {each.why}" if each.rule_id else each.why for each in mistakes]
    _refuse(file.name, texts)
    return wanted


def _refuse(file: str, mistakes: Sequence[str]) -> None:
    if mistakes:
        more = len(mistakes) - _MAX_MISTAKES
        texts = [*mistakes[:_MAX_MISTAKES], *([f"and {more} more"] if more > 0 else [])]
        raise Problem(f"Nothing of {file} was applied: {'; '.join(texts)}.", Cause.FAILED)


def _check(
    app: App,
    stored: Sequence[StoredRule],
    wanted: Mapping[tuple[str, str], _Columns],
    gone: Sequence[_Step],
) -> None:
    """Raises Problem if a rule of the file would be INVALID in the table afterwards."""
    names = {pipeline for pipeline, _ in wanted}
    app.select(sorted(names - {EVERY_PIPELINE}))
    everywhere = EVERY_PIPELINE in names
    pipelines = [
        deployed.terms(pipeline)
        for pipeline in app.pipelines
        if everywhere or pipeline.name in names
    ]
    replaced = {*wanted, *((step.old.pipeline, step.old.rule_id) for step in gone if step.old)}
    others = [rule.columns for rule in stored if (rule.pipeline, rule.rule_id) not in replaced]
    mistakes = [
        f"{refused.rule_id} would be INVALID in {pipeline.name}: {refused.why}"
        for pipeline in pipelines
        for refused in rule_table.newly_refused(others, [*others, *wanted.values()], pipeline)
    ]
    _refuse("the file", mistakes)


def _question(plan: ApplyPlan) -> Iterator[str]:
    """What would change; nothing if nothing would."""
    if not plan.steps:
        return
    yield "The file would change:"
    yield from (f"  {step.said.says()}" for step in plan.steps)
    if plan.kept:
        kept = ", ".join(plan.kept)
        yield f"  keep what the file does not have (--prune would remove it): {kept}"


def _trial(_: Session, plan: ApplyPlan) -> Iterator[str]:
    yield f"{count(plan.unchanged, 'rule')} unchanged."


def _apply(session: Session, plan: ApplyPlan, reason: str) -> AppliedRules:
    """Writes the plan; rules that have changed meanwhile are left alone and named.

    Each change of a rule is recorded, and all of them before the first is made.
    """
    raced = []
    with ExitStack() as records:
        steps = [
            (step, records.enter_context(recorded(session, plan.app, step.change(reason))))
            for step in plan.steps
        ]
        for step, record in steps:
            try:
                step.write(plan.table)
            except RuleTableChange as error:
                raced.append(step.said.rule)
                record.failed(error_name(error))
            record.done()
    changes = [step.said for step in plan.steps]
    return AppliedRules(
        **session.place,
        rules=tuple(change for change in changes if change.rule not in raced),
        kept=tuple(plan.kept),
        unchanged=plan.unchanged,
        raced=tuple(raced),
    )


APPLY = Verb(
    name="apply",
    says="""Write a file of rules into the table.

    dlq shows what would be added, changed and removed, and asks. Rules that the file does not have
    stay, unless you add --prune. A file with a rule that would be INVALID is not applied at all. A
    rule that another person changes at the same time is left as it is, and the exit status is 1.

    To remove rules is severe: --yes does not do. Type the app's name when asked, or give it with
    --confirm.
    """,
    request=ApplyRequest,
    examples=(
        'dlq rules apply rules.yaml --reason "reviewed in 812"',
        'dlq rules apply rules.yaml --prune --reason "reviewed in 812" --confirm deadletter',
    ),
    change="A file of rules",
    prepare=_plan,
    question=_question,
    commit=_apply,
    trial=_trial,
    severe=lambda plan: any(step.new is None for step in plan.steps),
)
