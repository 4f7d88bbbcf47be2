"""Rules in a file that version control can keep: checked without AWS, and applied.

A file is a JSON list of rules, each an object with the columns of the table; or the same as YAML,
with a column a line and values as JSON, as `dlq rules list --yaml` prints it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from deadletter.contract import EVERY_PIPELINE
from deadletter.message.strict_json import Unreadable, read_json
from deadletter.rules.rule import COLUMNS, VERDICT
from deadletter.settings.pipeline import Pipeline, RetryPolicy

from . import rule_table
from .errors import Cause, Problem
from .rule_table import RulePlan, RuleRevision, canonical
from .session import Answer, Session
from .verbs import Asked, TextFile, Verb
from .words import count, seconds

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


_Rules = Mapping[tuple[str, str], tuple[str, _Columns]]
"""The file and the columns of each rule, by pipeline and id."""


def _read(files: Sequence[TextFile], mistakes: list[RuleMistake]) -> _Rules:
    """The rules in files that have a pipeline and an id; anything else is a mistake."""
    rules: dict[tuple[str, str], tuple[str, _Columns]] = {}
    for file in files:
        for number, rule in enumerate(_listed(file, mistakes), 1):
            columns = rule if isinstance(rule, dict) else {}
            rule_id, pipeline = columns.get("rule_id"), columns.get("pipeline")
            named = rule_id if isinstance(rule_id, str) and rule_id else None
            if not isinstance(rule, dict):
                why = f"rule {number} should be an object"
            elif named is None:
                why = f"rule {number} has no rule_id"
            elif not isinstance(pipeline, str) or not pipeline:
                why = f"it has no pipeline; write {EVERY_PIPELINE!r} for every pipeline"
            elif (pipeline, named) in rules:
                why = f"{rules[pipeline, named][0]} has it already"
            else:
                rule = {name: value for name, value in columns.items() if name not in VERDICT}
                rules[pipeline, named] = (file.name, rule)
                continue
            mistakes.append(RuleMistake(file.name, named, why))
    return rules


def _listed(file: TextFile, mistakes: list[RuleMistake]) -> list[Any]:
    """The list in a file; anything else is a mistake."""
    try:
        data, why = _parsed(file.text), "it should be a list of rules"
    except Unreadable as error:
        data, why = None, f"it is not readable: {error}"
    if not isinstance(data, list):
        mistakes.append(RuleMistake(file.name, None, why))
    return data if isinstance(data, list) else []


# Checked without AWS.


@dataclass(frozen=True, slots=True)
class RuleFiles:
    """What is wrong with files of rules."""

    rules: Annotated[int, "rules in the files"]
    mistakes: Annotated[Sequence[RuleMistake], "what is wrong with them"]
    unchecked: Annotated[Sequence[str], "what can be checked beside a cdk.json only"]


_LONGEST_DELAY = 30 * 86_400  # seconds: no setting allows a longer delay
_DEFAULT_TTL = "12d"  # as in docs/settings.md


def checked(files: Sequence[TextFile]) -> RuleFiles:
    """The mistakes in files of rules. One of them can be the cdk.json with the pipelines.

    Without that, each unknown column counts as a context, and is listed in `unchecked`.
    """
    settings = [file for file in files if _is_settings(file.text)]
    mistakes: list[RuleMistake] = []
    rules = _read([file for file in files if file not in settings], mistakes)
    columns = [rule for _, rule in rules.values()]
    named = {
        "fields": sorted({column for rule in columns for column in rule} - COLUMNS),
        "dedicated DLQs": _texts("queue", columns),
        "policies": _texts("policy", columns),
    }
    pipelines = [each for file in settings for each in _of_the_app(file)] or [
        # With settings that allow all that the rules name.
        Pipeline(
            name,
            context=dict.fromkeys(named["fields"], ""),
            dedicated=tuple(named["dedicated DLQs"]),
            policies=dict.fromkeys(named["policies"], RetryPolicy()),
            message_ttl=_LONGEST_DELAY,
        )
        for name in _texts("pipeline", columns, aside=EVERY_PIPELINE) or [EVERY_PIPELINE]
    ]
    mistakes += _refused(rules, pipelines)
    mistakes += _strays(rules, pipelines)
    unchecked = [f"{what} {', '.join(names)}" for what, names in named.items() if names]
    return RuleFiles(len(rules), tuple(mistakes), () if settings else tuple(unchecked))


def _texts(column: str, rules: Sequence[_Columns], aside: str = "") -> list[str]:
    return sorted({rule[column] for rule in rules if isinstance(rule.get(column), str)} - {aside})


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
class AppliedRules(Answer):
    """What `dlq rules apply` answers."""

    rules: Annotated[Sequence[RuleRevision], "what was written"]
    kept: Annotated[Sequence[str], "rules that the file lacks, and that stay"]
    unchanged: Annotated[int, "rules that are the same in the table and in the file"]
    raced: Annotated[Sequence[str], "rules that another person changed meanwhile: not written"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyPlan(RulePlan):
    """What a file would do, and how many of its rules are in the table already."""

    kept: Sequence[str]
    unchanged: int


def _plan(session: Session, request: ApplyRequest) -> ApplyPlan:
    """What the file would do; Problem if a rule of it is refused: then none is written."""
    app = session.app()
    wanted = _wanted(request.file)
    pipelines = {pipeline for pipeline, _ in wanted}
    app.select(sorted(pipelines - {EVERY_PIPELINE}))
    stored = rule_table.table(session.aws, app.rules_table).read()
    there = {row.key: row.image for row in stored}
    changes = []
    for key, new in wanted.items():
        before = there.get(key)
        # A file need not name the author of a rule: a missing author is not a change.
        author = {name: each for name, each in (before or {}).items() if name == "created_by"}
        after = canonical({**author, **new})
        if after != before:
            after = canonical({"created_by": session.aws.caller, **new})
        changes.append(RuleRevision(*key, before, after))
    lacking = [
        RuleRevision(*key, columns, None)
        for key, columns in there.items()
        if key[0] in pipelines and key not in wanted
    ]
    kept = [] if request.prune else [f"{each.pipeline}/{each.rule_id}" for each in lacking]
    changes += lacking if request.prune else []
    rule_table.check(app, stored, changes)
    # Rules are added first, and removed last.
    made = [each for each in changes if each.before != each.after]
    made.sort(key=lambda each: (each.before is not None, each.after is None))
    says = ["The file would change:", *(f"  {each.line}" for each in made)] if made else []
    if made and kept:
        also = f"  keep what the file does not have (--prune would remove it): {', '.join(kept)}"
        says.append(also)
    unchanged = len(changes) - len(made)
    return ApplyPlan(command="apply", app=app, changes=made, stored=stored, says=says, kept=kept,
                     unchanged=unchanged)  # fmt: skip


def _wanted(file: TextFile) -> dict[tuple[str, str], _Columns]:
    """The rules of a file by pipeline and id; Problem if it has mistakes."""
    mistakes: list[RuleMistake] = []
    wanted = {key: rule for key, (_, rule) in _read([file], mistakes).items()}
    rule_table.refuse([f"{m.rule_id}: {m.why}" if m.rule_id else m.why for m in mistakes])
    return wanted


def _apply(session: Session, plan: ApplyPlan, reason: str) -> AppliedRules:
    """Writes the plan; rules that have changed meanwhile are left alone and named."""
    made = plan.make(session, reason)
    return AppliedRules(
        **session.place,
        rules=tuple(made),
        kept=tuple(plan.kept),
        unchanged=plan.unchanged,
        raced=tuple(f"{each.pipeline}/{each.rule_id}" for each in plan.changes if each not in made),
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
    question=lambda plan: iter(plan.says),
    commit=_apply,
    trial=lambda _, plan: iter([f"{count(plan.unchanged, 'rule')} unchanged."]),
    severe=lambda plan: any(each.after is None for each in plan.changes),
)
