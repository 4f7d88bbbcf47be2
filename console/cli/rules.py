"""`dlq rules`: what there is to do with routing rules. Each command has a module of its own."""

from __future__ import annotations

from .command import command, group
from .rule_edit import add, disable, enable
from .rule_explanation import explain
from .rule_file import export, import_
from .rule_lint import lint
from .rule_list import list_
from .rule_trial import try_

typer_app = group("Routing rules: which letters to stop, slow down or set apart.")

command(
    typer_app,
    "list",
    example=[
        "dlq rules list",
        "dlq rules list orders --query \"pipelines[].rules[?status=='INVALID'][]\"",
    ],
)(list_)

command(
    typer_app,
    "add",
    example=[
        'dlq rules add stop-acme --tenant acme --action quarantine --reason "half a body"',
        "dlq rules add slow-imports --where messageType=import --action delayed_redrive --delay 2h",
        "dlq rules add try-it --action hold --pattern @pattern.json --mode shadow --expires 7d",
    ],
)(add)

command(
    typer_app,
    "disable",
    example=['dlq rules disable stop-acme --reason "acme has mended it"'],
)(disable)

command(
    typer_app,
    "enable",
    example=['dlq rules enable stop-acme --reason "acme is broken again"'],
)(enable)

command(
    typer_app,
    "test",
    example=[
        "dlq rules test stop-acme --pipeline orders",
        "dlq rules test --tenant acme --limit 200",
        "dlq rules test --pattern @pattern.json --body letter.json",
    ],
)(try_)

command(
    typer_app,
    "explain",
    example=[
        "dlq rules explain 8f14e45f-ceea-467f-9575-2a8c1d6e2b11 --pipeline orders",
        "dlq rules explain 8f14e45f-ceea-467f-9575-2a8c1d6e2b11 --source parking",
        "dlq rules explain --body letter.json --attribute region=eu-west-1",
    ],
)(explain)

command(
    typer_app,
    "lint",
    example=["dlq rules lint rules/*.json --settings cdk.json"],
)(lint)

command(
    typer_app,
    "export",
    example=["dlq rules export --pipeline orders --pipeline '*'"],
)(export)

command(
    typer_app,
    "import",
    example=[
        "dlq rules import rules.json",
        "dlq rules import rules.json --prune --confirm deadletter",
    ],
)(import_)
