"""`dlq rules export` and `import`: all rules as a file that version control can keep.

A file is a JSON list of rules, each an object with the columns of the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated

import typer

from ..operations import rule_file as operation
from ..operations.rule_file import (
    ImportPlan,
    RuleExport,
    RuleImport,
    RuleImporter,
    column_changes,
    rule_name,
)
from ..operations.session import Session
from ..operations.words import count
from . import asking
from .asking import Confirm, OptionalWhy, Yes
from .exit import Exit
from .output import Block, Line, Reply, Styled, line
from .text_file import read_text

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


def export(session: Session, pipeline: SomeRules = None) -> Reply[RuleExport]:
    """Print the rules as JSON, for version control and for `import`.

    The order is fixed, so that every difference is a change. The verdicts of the rule
    checker are left out.
    """
    return Reply(operation.export(session, pipeline or ()), _show_exported)


def _show_exported(answer: RuleExport) -> Iterator[Block]:
    for text in json.dumps(answer.rules, indent=2, ensure_ascii=True).splitlines():
        yield line(text)


def import_(
    session: Session,
    file: File,
    prune: Prune = False,
    why: OptionalWhy = None,
    yes: Yes = False,
    confirm_app: Confirm = None,
) -> Reply[RuleImport]:
    """Write a file of rules into the table.

    dlq shows what would be added, changed and removed, in which account and region, and
    asks. Rules that the file does not have stay, unless you add --prune. A file with a
    rule that would be INVALID is not imported at all. A rule that another person changes
    at the same time is left as it is.

    To remove rules is severe: --yes does not do. Type the app's name when asked, or give it
    with --confirm.
    """
    because = asking.why(why)
    importer = RuleImporter(session)
    plan = importer.plan(file, read_text(file), prune=prune)
    if plan.removed:
        question = ("Import would:", *_steps(plan))
        asking.confirm_by_name(session, confirm_app, session.app_name, *question)
    elif not plan.empty and not yes:
        asking.confirm(session, "Import would:", *_steps(plan))
    answer = importer.carry_out(plan, because)
    return Reply(answer, _show_imported, Exit.ATTENTION if answer.raced else Exit.DONE)


def _steps(plan: ImportPlan) -> Iterator[str]:
    for columns in plan.added:
        yield f"  + {rule_name(columns)}"
    for old, new in plan.changed:
        yield f"  ~ {rule_name(new)}  {'; '.join(column_changes(old, new))}"
    for stored in plan.removed:
        yield f"  - {rule_name(stored.columns)}"
    if plan.kept:
        kept = ", ".join(rule_name(rule.columns) for rule in plan.kept)
        yield f"  keep what the file does not have (--prune would remove it): {kept}"


def _show_imported(answer: RuleImport) -> Iterator[Block]:
    yield line(Styled("Rules imported", "strong"), f" in account {answer.account}, {answer.region}")
    for name in answer.added:
        yield line(f"+ {name}", indent=2)
    for change in answer.changed:
        yield line(f"~ {change.rule}  {'; '.join(change.changes)}", indent=2)
    for name in answer.removed:
        yield line(f"- {name}", indent=2)
    yield line(f"{count(answer.unchanged, 'rule')} unchanged.", indent=2)
    if answer.kept:
        yield line(f"Not in the file, and kept: {', '.join(answer.kept)}.", indent=2)
    if answer.raced:
        yield Line()
        yield line(
            Styled("Changed by another person meanwhile, so left alone: ", "alarm"),
            f"{', '.join(answer.raced)}; look again.",
        )
