"""Rules in version control, checked before they are imported, without AWS."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from deadletter.contract import EVERY_PIPELINE
from deadletter.message.strict_json import Unreadable, read_json
from deadletter.rules.rule import COLUMNS
from deadletter.settings.pipeline import Pipeline, RetryPolicy

from .duration import seconds
from .problem import Cause, Problem
from .rule_file import RuleMistake, entries
from .rule_table import book

# Seconds: no setting allows a longer delay.
_LONGEST_DELAY = 30 * 86_400

# As in docs/settings.md.
_DEFAULT_TTL = "12d"


@dataclass(frozen=True, slots=True)
class LintReport:
    """What `dlq rules lint` answers."""

    rules: Annotated[int, "rules in the files"]
    mistakes: Annotated[Sequence[RuleMistake], "what is wrong with them"]
    unchecked: Annotated[Sequence[str], "what can be checked with --settings only"]


_Rules = Mapping[tuple[str, str], tuple[str, Mapping[str, Any]]]


def lint(files: Sequence[tuple[str, str]], settings: tuple[str, str] | None) -> LintReport:
    """The mistakes in files of rules; `files` are names and texts.

    `settings` is name and text of the cdk.json with the pipelines. Without it, each unknown
    column counts as a context, and is listed in `unchecked`.
    """
    mistakes: list[RuleMistake] = []
    rules: dict[tuple[str, str], tuple[str, Mapping[str, Any]]] = {}
    for file, text in files:
        for rule in entries(file, text, mistakes):
            key = (str(rule["pipeline"]), str(rule["rule_id"]))
            if key in rules:
                mistakes.append(RuleMistake(file, key[1], f"{rules[key][0]} has it already"))
            else:
                rules[key] = (file, rule)
    columns = [rule for _, rule in rules.values()]
    pipelines = _assumed(columns) if settings is None else _of_the_app(*settings)
    mistakes += _refused(rules, pipelines)
    mistakes += _strays(rules, pipelines)
    unchecked = () if settings else tuple(_unchecked(columns))
    return LintReport(len(rules), tuple(mistakes), unchecked)


def _refused(rules: _Rules, pipelines: Sequence[Pipeline]) -> Iterator[RuleMistake]:
    columns = [rule for _, rule in rules.values()]
    for pipeline in pipelines:
        where = "" if pipeline.name == EVERY_PIPELINE else f" (in {pipeline.name})"
        for refused in book(columns, pipeline).refused:
            keys = ((EVERY_PIPELINE, refused.rule_id), (pipeline.name, refused.rule_id))
            file = next(rules[key][0] for key in keys if key in rules)
            yield RuleMistake(file, refused.rule_id, f"{refused.why}{where}")


def _strays(rules: _Rules, pipelines: Sequence[Pipeline]) -> Iterator[RuleMistake]:
    known = (EVERY_PIPELINE, *(settings.name for settings in pipelines))
    for (pipeline, rule_id), (file, _) in rules.items():
        if pipeline not in known:
            why = f"there is no pipeline {pipeline!r}; there are {', '.join(known)}"
            yield RuleMistake(file, rule_id, why)


def _assumed(rules: Sequence[Mapping[str, Any]]) -> list[Pipeline]:
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


def _unchecked(rules: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for what, names in (
        ("contexts", _contexts(rules)),
        ("dedicated DLQs", _texts("queue", rules)),
        ("policies", _texts("policy", rules)),
    ):
        if names:
            yield f"{what} {', '.join(names)}"


def _contexts(rules: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted({column for rule in rules for column in rule} - COLUMNS)


def _texts(column: str, rules: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(sorted({rule[column] for rule in rules if isinstance(rule.get(column), str)}))


def _of_the_app(file: str, text: str) -> list[Pipeline]:
    """The pipelines that a cdk.json names, as far as rules depend on them."""
    try:
        data = read_json(text)
        return [
            Pipeline(
                str(pipeline["name"]),
                context=dict(pipeline.get("context", {})),
                dedicated=tuple(pipeline.get("dedicated", {})),
                policies=dict.fromkeys(pipeline.get("policies", {}), RetryPolicy()),
                message_ttl=seconds(str(pipeline.get("message_ttl", _DEFAULT_TTL))),
            )
            for pipeline in data["context"]["pipelines"]
        ]
    except (Unreadable, KeyError, TypeError, ValueError, AttributeError) as error:
        raise Problem(
            f"{file} is not a cdk.json with pipelines in its context: see docs/settings.md.",
            Cause.INPUT,
        ) from error
