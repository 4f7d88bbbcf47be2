"""`dlq endpoint add`, `enable` and `disable`: where a tenant gets its events, or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import typer

from deadletter.webhook.endpoint import SecretUnusable, refuse_secret_name
from deadletter.webhook.url_guard import UrlRefused, read_url

from ..operations import endpoint_table
from ..operations.endpoint_table import Id, Loopback, Ports, guard
from ..operations.problem import Exit, Problem
from . import asking
from .command import Session
from .endpoint_list import ListedEndpoint, listed
from .output import Block, CommandResult, Reply, line

Url = Annotated[str, typer.Option("--url", metavar="URL", help="Where to post: https.")]
SecretNames = Annotated[
    list[str] | None,
    typer.Option(
        "--secret",
        metavar="NAME",
        help="Name of a secret that signs, <app>/webhooks/...; repeatable.",
    ),
]
Why = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Why; asked for if not given.")
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Don't ask; needed where nobody can be asked.")
]


@dataclass(frozen=True, slots=True)
class EndpointChange(CommandResult):
    """What `dlq endpoint add`, `enable` and `disable` answer."""

    endpoint: Annotated[ListedEndpoint, "the endpoint as it stands now"]


def add(
    session: Session,
    endpoint_id: Id,
    url: Url,
    secret: SecretNames = None,
    allow_loopback: Loopback = False,
    allow_port: Ports = None,
    yes: Yes = False,
) -> Reply[EndpointChange]:
    """Register an endpoint of a tenant.

    The URL is judged as the dispatcher judges it; what its host stands for is looked up
    only when something is posted: see dlq endpoint check. Without a secret nothing is
    posted, except to this machine in a sandbox.
    """
    allowed = guard(allow_loopback, allow_port)
    try:
        to = read_url(url, allow_loopback=allowed.allow_loopback, ports=allowed.ports)
    except UrlRefused as error:
        raise Problem(f"Nothing is ever posted there ({error}): see --help.", Exit.USAGE) from error
    names = secret or []
    if not names and not to.loopback:
        raise Problem(
            "Nothing is posted unsigned: name a secret with --secret "
            f"{session.app_name}/webhooks/...",
            Exit.USAGE,
        )
    try:
        for one in names:
            refuse_secret_name(one, f"{session.app_name}/webhooks/")
    except SecretUnusable as error:
        raise Problem(f"The secret can't be used: {error}.", Exit.USAGE) from error
    table = endpoint_table.table(session.aws, session.app().endpoints_table)
    if not yes:
        session.agreed(f"Post the events of {endpoint_id} to {to.host}.")
    table.add(endpoint_id, {"url": url, "enabled": True, "secrets": names})
    return _changed(session, table, endpoint_id)


def enable(session: Session, endpoint_id: Id, yes: Yes = False) -> Reply[EndpointChange]:
    """Post to an endpoint again, within seconds, its pause forgotten.

    Letters that failed meanwhile come back by themselves, as far as they have attempts
    left; the others are in the parking lot.
    """
    table = endpoint_table.table(session.aws, session.app().endpoints_table)
    table.find(endpoint_id)
    if not yes:
        session.agreed(f"Post to endpoint {endpoint_id} again.")
    table.update(
        endpoint_id,
        "SET enabled = :on REMOVE disabled_because, disabled_at, throttled_until, throttled_by",
        {":on": True},
    )
    return _changed(session, table, endpoint_id)


def disable(
    session: Session, endpoint_id: Id, reason: Why = None, yes: Yes = False
) -> Reply[EndpointChange]:
    """Post nothing more to an endpoint, within seconds.

    Its messages fail and go the way of all that fail: they are tried again, and end in the
    parking lot if it stays disabled.
    """
    table = endpoint_table.table(session.aws, session.app().endpoints_table)
    table.find(endpoint_id)
    why = asking.reason(reason, "Disabling an endpoint")
    if not yes:
        session.agreed(f"Post nothing more to endpoint {endpoint_id}.")
    table.update(
        endpoint_id,
        "SET enabled = :off, disabled_because = :because, disabled_at = :at",
        {
            ":off": False,
            ":because": f"{why} ({session.aws.caller})",
            ":at": int(session.clock()),
        },
    )
    return _changed(session, table, endpoint_id)


def _changed(
    session: Session, table: endpoint_table.EndpointTable, endpoint_id: str
) -> Reply[EndpointChange]:
    found = listed(table.find(endpoint_id), session.now)
    answer = EndpointChange(session.aws.account, session.aws.region, session.app_name, found)
    return Reply(answer, _show)


def _show(answer: EndpointChange) -> Iterator[Block]:
    one = answer.endpoint
    because = f": {one.because}" if one.because else ""
    yield line(f"Endpoint {one.tenant}/{one.endpoint} ({one.url}) is {one.standing}{because}.")
