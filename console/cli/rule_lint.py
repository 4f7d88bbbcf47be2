"""`dlq rules lint`: rules in version control, checked before anybody imports them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from deadletter.contract import EVERY_PIPELINE
from deadletter.message.strict_json import Unreadable, read_json
from deadletter.rules.rule import COLUMNS
from deadletter.settings.pipeline import Pipeline, RetryPolicy

from ..operations.duration import seconds
from ..operations.letters import read_text
from ..operations.problem import Exit, Problem
from ..operations.rule_table import book
from .command import Session
from .output import Block, Reply, Styled, count, line
from .rule_file import Mistake, entries

# Seconds: no setting allows a longer delay.
_LONGEST_DELAY = 30 * 86_400

# As in docs/settings.md.
_DEFAULT_MAX_DELAY = "7d"


@dataclass(frozen=True, slots=True)
class Linted:
    """What `dlq rules lint` answers."""

    rules: Annotated[int, "rules in the files"]
    mistakes: Annotated[Sequence[Mistake], "what is wrong with them"]
    unchecked: Annotated[Sequence[str], "what only --settings can tell to be right"]


Files = Annotated[list[str], typer.Argument(metavar="FILE...", help="Files of rules; - is stdin.")]
SettingsFile = Annotated[
    str | None,
    typer.Option("--settings", metavar="FILE", help="The cdk.json that names the pipelines."),
]

_Rules = Mapping[tuple[str, str], tuple[str, Mapping[str, Any]]]


def lint(session: Session, files: Files, settings: SettingsFile = None) -> Reply[Linted]:
    """Check files of rules, without AWS.

    With --settings, contexts, dedicated DLQs, policies and the longest delay are checked
    as the deployed router will check them. Without, each unknown column is taken for the
    name of a context, and said to be.

    The exit status is 1 if anything is wrong.
    """
    mistakes: list[Mistake] = []
    rules: dict[tuple[str, str], tuple[str, Mapping[str, Any]]] = {}
    for file in files:
        for entry in entries(file, mistakes):
            key = (str(entry["pipeline"]), str(entry["rule_id"]))
            if key in rules:
                mistakes.append(Mistake(file, key[1], f"{rules[key][0]} has it already"))
            else:
                rules[key] = (file, entry)
    said = [entry for _, entry in rules.values()]
    pipelines = _supposed(said) if settings is None else _of_the_app(settings)
    mistakes += _refused(rules, pipelines)
    mistakes += _strays(rules, pipelines)
    found = Linted(len(rules), tuple(mistakes), () if settings else tuple(_unchecked(said)))
    return Reply(found, show, Exit.ATTENTION if mistakes else Exit.DONE)


def _refused(rules: _Rules, pipelines: Sequence[Pipeline]) -> Iterator[Mistake]:
    said = [entry for _, entry in rules.values()]
    for pipeline in pipelines:
        where = "" if pipeline.name == EVERY_PIPELINE else f" (in {pipeline.name})"
        for refused in book(said, pipeline).refused:
            keys = ((EVERY_PIPELINE, refused.rule_id), (pipeline.name, refused.rule_id))
            file = next(rules[key][0] for key in keys if key in rules)
            yield Mistake(file, refused.rule_id, f"{refused.why}{where}")


def _strays(rules: _Rules, pipelines: Sequence[Pipeline]) -> Iterator[Mistake]:
    known = (EVERY_PIPELINE, *(one.name for one in pipelines))
    for (pipeline, rule_id), (file, _) in rules.items():
        if pipeline not in known:
            why = f"there is no pipeline {pipeline!r}; there are {', '.join(known)}"
            yield Mistake(file, rule_id, why)


def _supposed(rules: Sequence[Mapping[str, Any]]) -> list[Pipeline]:
    """The pipelines of these rules, as if all that only the settings can tell were right."""
    names = {str(one["pipeline"]) for one in rules} - {EVERY_PIPELINE} or {EVERY_PIPELINE}
    return [
        Pipeline(
            name,
            context=dict.fromkeys(_contexts(rules), ""),
            dedicated=_texts("queue", rules),
            policies=dict.fromkeys(_texts("policy", rules), RetryPolicy()),
            max_delay=_LONGEST_DELAY,
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
    return sorted({column for one in rules for column in one} - COLUMNS)


def _texts(column: str, rules: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(sorted({one[column] for one in rules if isinstance(one.get(column), str)}))


def _of_the_app(path: str) -> list[Pipeline]:
    """The pipelines that a cdk.json names, as far as rules depend on them."""
    try:
        data = read_json(read_text(path))
        return [
            Pipeline(
                str(one["name"]),
                context=dict(one.get("context", {})),
                dedicated=tuple(one.get("dedicated", {})),
                policies=dict.fromkeys(one.get("policies", {}), RetryPolicy()),
                max_delay=seconds(str(one.get("max_delay", _DEFAULT_MAX_DELAY))),
            )
            for one in data["context"]["pipelines"]
        ]
    except (Unreadable, KeyError, TypeError, ValueError, AttributeError) as error:
        raise Problem(
            f"{path} is no cdk.json with pipelines in its context: see docs/settings.md.",
            Exit.USAGE,
        ) from error


def show(found: Linted) -> Iterator[Block]:
    """The mistakes as a person reads them, one a line."""
    for one in found.mistakes:
        rule = f": {one.rule_id}" if one.rule_id is not None else ""
        yield line(Styled(f"{one.file}{rule}", "strong"), f": {one.why}")
    said = f"{count(found.rules, 'rule')}, {count(len(found.mistakes), 'mistake')}."
    yield line(Styled(said, "alarm" if found.mistakes else "good"))
    if found.unchecked:
        yield line(f"Not checked without --settings: {'; '.join(found.unchecked)}.")
