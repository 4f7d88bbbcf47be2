"""Options that say which messages a rule is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from deadletter.rules.rule import COLUMNS, VERDICT

from ..operations.problem import Cause, Problem
from .text_file import read_text

# Nearly every pipeline has this context, and nearly every rule is about it.
_TENANT = "tenantId"

Tenant = Annotated[
    str | None, typer.Option("--tenant", metavar="ID", help=f"Short for --where {_TENANT}=ID.")
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="NAME=TEXT",
        help="A context of the pipeline and its exact text; may be given several times.",
    ),
]
Pattern = Annotated[
    str | None,
    typer.Option(
        "--pattern", metavar="JSON|@FILE", help="An event pattern over the whole document."
    ),
]


def matching_columns(
    tenant: str | None, where: Sequence[str] | None, pattern: str | None
) -> dict[str, Any]:
    """The columns of a rule that say which messages it matches."""
    columns: dict[str, Any] = {}
    for text in [*([f"{_TENANT}={tenant}"] if tenant is not None else []), *(where or ())]:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise Problem(f"--where takes NAME=TEXT, not {text!r}.", Cause.INPUT)
        if name in columns:
            raise Problem(f"{name} is given twice: list its values in a --pattern.", Cause.INPUT)
        if name in COLUMNS | VERDICT:
            raise Problem(f"{name} is a column of every rule, not a context.", Cause.INPUT)
        columns[name] = value
    if pattern is not None:
        columns["pattern"] = read_text(pattern[1:]) if pattern.startswith("@") else pattern
    return columns
