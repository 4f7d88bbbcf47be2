"""Options of `dlq endpoint`."""

from __future__ import annotations

from typing import Annotated

import typer

from deadletter.webhook.endpoint import DEFAULT_ENDPOINT

Id = Annotated[
    str,
    typer.Argument(
        metavar="TENANT[/ENDPOINT]",
        help=f"The tenant, and its endpoint if that is not {DEFAULT_ENDPOINT!r}.",
    ),
]
Loopback = Annotated[
    bool,
    typer.Option("--allow-loopback", help="Also http to this machine, for sandboxes."),
]
Ports = Annotated[
    list[int] | None,
    typer.Option(
        "--allow-port", metavar="PORT", help="Also this port, as the settings do; repeatable."
    ),
]
