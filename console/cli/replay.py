"""`dlq replay`: letters are replayed as a deployment: planned, tried, watched, accounted for."""

from __future__ import annotations

from .command import command, group
from .replay_edit import edit, mend, try_
from .replay_plan import plan, start_
from .replay_report import report_, rerun
from .replay_runs import abort, approve, hold, list_, refuse, resume, show

typer_app = group("Replay runs: planned, rate-limited, abortable, and accounted for.")

command(
    typer_app,
    "plan",
    example=[
        "dlq replay plan --pipeline orders",
        'dlq replay plan --pipeline orders --cause 3f1c9a2b --out plan.json --why "fix 4.2.1"',
        "dlq replay plan --pipeline orders --look --tenant acme --since 2d --rate 5",
        "dlq replay plan --pipeline orders --source lane:circuit:bank --stop-on-failure",
    ],
)(plan)

command(
    typer_app,
    "start",
    example=["dlq replay start --plan plan.json", "dlq replay start --plan plan.json --yes"],
)(start_)

command(
    typer_app,
    "list",
    example=["dlq replay list", "dlq replay list orders --json"],
)(list_)

command(
    typer_app,
    "show",
    example=["dlq replay show 4f0c1b", "dlq replay show 4f0c1b --watch"],
)(show)

command(
    typer_app,
    "hold",
    example=["dlq replay hold 4f0c1b", 'dlq replay hold 4f0c1b --why "support is asking"'],
)(hold)

command(typer_app, "resume", example=["dlq replay resume 4f0c1b"])(resume)

command(
    typer_app,
    "abort",
    example=[
        'dlq replay abort 4f0c1b --why "the fix is wrong"',
        'dlq replay abort 4f0c1b --to schedule --why "they recover by themselves" --yes',
    ],
)(abort)

command(typer_app, "approve", example=['dlq replay approve 4f0c1b --why "checked with finance"'])(
    approve
)

command(typer_app, "refuse", example=['dlq replay refuse 4f0c1b --why "not on a Friday"'])(refuse)

command(
    typer_app,
    "report",
    example=["dlq replay report 4f0c1b", "dlq replay report 4f0c1b --html report.html"],
)(report_)

command(
    typer_app,
    "rerun",
    example=['dlq replay rerun 4f0c1b --only failed --why "fixed in 4.2.2"'],
)(rerun)

command(
    typer_app,
    "edit",
    example=[
        "dlq replay edit 4f0c1b 8f14e45f-ceea-467f-9575-2a8c1d6e2b11 --editor",
        "dlq replay edit 4f0c1b 8f14e45f-ceea-467f-9575-2a8c1d6e2b11 --patch @fix.json",
    ],
)(edit)

command(
    typer_app,
    "mend",
    example=[
        "dlq replay mend 4f0c1b --cause 3f1c9a2b --patch @fix.json --dry-run",
        "dlq replay mend 4f0c1b --tenant acme --transform \"merge(@, {currency: 'EUR'})\"",
    ],
)(mend)

command(
    typer_app,
    "try",
    example=[
        "dlq replay try 4f0c1b --count 5 --function orders-consumer:candidate",
        "dlq replay try --plan plan.json --local 'python handler.py'",
    ],
)(try_)
