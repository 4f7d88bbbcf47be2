"""`dlq endpoint`: where tenants want their events. Each command has a module of its own."""

from __future__ import annotations

from .command import command, group
from .endpoint_check import check
from .endpoint_edit import add, disable, enable
from .endpoint_list import list_

typer_app = group("Webhook endpoints: where tenants want their events, and which get none.")

command(
    typer_app,
    "list",
    example=[
        "dlq endpoint list",
        "dlq endpoint list --query \"endpoints[?standing!='enabled'].[tenant, because]\"",
    ],
)(list_)

command(
    typer_app,
    "check",
    example=["dlq endpoint check acme", "dlq endpoint check acme/invoices --post --json"],
)(check)

command(
    typer_app,
    "add",
    example=[
        "dlq endpoint add acme --url https://acme.example/in --secret deadletter/webhooks/acme",
    ],
)(add)

command(
    typer_app, "enable", example=["dlq endpoint enable acme", "dlq endpoint enable acme/invoices"]
)(enable)

command(typer_app, "disable", example=['dlq endpoint disable acme --reason "acme is moving"'])(
    disable
)
