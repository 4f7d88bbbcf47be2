"""`dlq replay`: letters are replayed as a deployment: planned, tried, watched, accounted for."""

from __future__ import annotations

from .command import lazy_group

typer_app = lazy_group(
    "Replay runs: planned, rate-limited, abortable, and accounted for.",
    {
        "plan": (
            ".replay_plan:plan",
            [
                "dlq replay plan --pipeline orders",
                "dlq replay plan --pipeline orders --cause 3f1c9a2b --out plan.json "
                '--why "fix 4.2.1"',
                "dlq replay plan --pipeline orders --look --tenant acme --since 2d --rate 5",
                "dlq replay plan --pipeline orders --source lane:circuit:bank --stop-on-failure",
            ],
        ),
        "start": (
            ".replay_plan:start_",
            ["dlq replay start --plan plan.json", "dlq replay start --plan plan.json --yes"],
        ),
        "rerun": (
            ".replay_report:rerun",
            ['dlq replay rerun 4f0c1b --only failed --why "fixed in 4.2.2"'],
        ),
        "repeat": (
            ".replay_repeat:repeat",
            [
                'dlq replay repeat 4f0c1b --again --why "4.2.1 rounded the price"',
                'dlq replay repeat 4f0c1b --only failed --approve --why "fixed in 4.2.2"',
                "dlq replay repeat 4f0c1b --id 8f14e45f-ceea-467f-9575-2a8c1d6e2b11 --json",
            ],
        ),
        "edit": (
            ".replay_edit:edit",
            [
                "dlq replay edit 4f0c1b 8f14e45f-ceea-467f-9575-2a8c1d6e2b11 --editor",
                "dlq replay edit 4f0c1b 8f14e45f-ceea-467f-9575-2a8c1d6e2b11 --patch @fix.json",
            ],
        ),
        "mend": (
            ".replay_edit:mend",
            [
                "dlq replay mend 4f0c1b --cause 3f1c9a2b --patch @fix.json --dry-run",
                "dlq replay mend 4f0c1b --tenant acme --transform \"merge(@, {currency: 'EUR'})\"",
            ],
        ),
        "try": (
            ".replay_edit:try_",
            [
                "dlq replay try 4f0c1b --count 5 --function orders-consumer:candidate",
                "dlq replay try --plan plan.json --local 'python handler.py'",
            ],
        ),
    },
)
