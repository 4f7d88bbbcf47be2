"""`dlq rules`: what there is to do with routing rules. Each command has a module of its own."""

from __future__ import annotations

from .command import lazy_group

typer_app = lazy_group(
    "Routing rules: which letters to stop, slow down or set apart.",
    {
        "list": (
            ".rule_list:list_",
            [
                "dlq rules list",
                "dlq rules list orders --query \"pipelines[].rules[?status=='INVALID'][]\"",
            ],
        ),
        "add": (
            ".rule_edit:add",
            [
                'dlq rules add stop-acme --tenant acme --action quarantine --reason "half a body"',
                "dlq rules add slow-imports --where messageType=import --action delayed_redrive "
                "--delay 2h",
                "dlq rules add try-it --action hold --pattern @pattern.json --mode shadow "
                "--expires 7d",
            ],
        ),
        "disable": (
            ".rule_edit:disable",
            ['dlq rules disable stop-acme --reason "acme has mended it"'],
        ),
        "enable": (
            ".rule_edit:enable",
            ['dlq rules enable stop-acme --reason "acme is broken again"'],
        ),
        "remove": (
            ".rule_undo:remove",
            ['dlq rules remove stop-acme --reason "acme has mended it"'],
        ),
        "undo": (
            ".rule_undo:undo",
            [
                'dlq rules undo slow-imports --reason "20h was a slip for 2h"',
                'dlq rules undo stop-acme --to 2h --reason "as it was before the release"',
            ],
        ),
        "test": (
            ".rule_trial:try_",
            [
                "dlq rules test stop-acme --pipeline orders",
                "dlq rules test --tenant acme --limit 200",
                "dlq rules test --tenant acme --against waiting",
                "dlq rules test --pattern @pattern.json --body letter.json",
            ],
        ),
        "lint": (".rule_lint:lint", ["dlq rules lint rules/*.json --settings cdk.json"]),
        "export": (".rule_file:export", ["dlq rules export --pipeline orders --pipeline '*'"]),
        "import": (
            ".rule_file:import_",
            [
                "dlq rules import rules.json",
                "dlq rules import rules.json --prune --confirm deadletter",
            ],
        ),
    },
)
