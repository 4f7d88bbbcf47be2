"""`dlq endpoint add`, `enable` and `disable`: where a tenant gets its events, or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from ..operations.endpoint_edit import EndpointChange, EndpointEditor, check_url
from ..operations.endpoint_table import url_policy
from ..operations.session import Session
from . import asking
from .asking import OptionalWhy, Reason, Yes
from .endpoint_options import Id, Loopback, Ports
from .output import Block, Reply, line

Url = Annotated[str, typer.Option("--url", metavar="URL", help="Where to post: https.")]
SecretNames = Annotated[
    list[str] | None,
    typer.Option(
        "--secret",
        metavar="NAME",
        help="Name of a secret that signs, <app>/webhooks/...; repeatable.",
    ),
]


def add(
    session: Session,
    endpoint_id: Id,
    url: Url,
    secret: SecretNames = None,
    allow_loopback: Loopback = False,
    allow_port: Ports = None,
    why: OptionalWhy = None,
    yes: Yes = False,
) -> Reply[EndpointChange]:
    """Register an endpoint of a tenant.

    The dispatcher's rules for URLs apply. The host is resolved only when something is
    posted: see dlq endpoint check. Without a secret nothing is posted, except to this
    machine in a sandbox.
    """
    names, because = secret or [], asking.why(why)
    destination = check_url(session, url, url_policy(allow_loopback, allow_port), names)
    editor = EndpointEditor(session, endpoint_id)
    if not yes:
        asking.confirm(session, f"Post the events of {endpoint_id} to {destination.host}.")
    return Reply(editor.add(url, names, because), _show)


def enable(
    session: Session, endpoint_id: Id, why: OptionalWhy = None, yes: Yes = False
) -> Reply[EndpointChange]:
    """Enable an endpoint, within seconds, and end its pause.

    Letters that failed meanwhile come back by themselves if they have attempts left; the
    others are in the parking lot.
    """
    because = asking.why(why)
    editor = EndpointEditor(session, endpoint_id)
    editor.find()
    if not yes:
        asking.confirm(session, f"Post to endpoint {endpoint_id} again.")
    return Reply(editor.enable(because), _show)


def disable(
    session: Session, endpoint_id: Id, reason: Reason = None, yes: Yes = False
) -> Reply[EndpointChange]:
    """Disable an endpoint, within seconds: nothing is posted to it.

    Its messages fail like any other: they are tried again, and end in the parking lot if
    the endpoint stays disabled.
    """
    editor = EndpointEditor(session, endpoint_id)
    editor.find()
    why = asking.reason(reason, "Disabling an endpoint")
    if not yes:
        asking.confirm(session, f"Post nothing more to endpoint {endpoint_id}.")
    return Reply(editor.disable(why), _show)


def _show(answer: EndpointChange) -> Iterator[Block]:
    endpoint = answer.endpoint
    name = f"Endpoint {endpoint.tenant}/{endpoint.endpoint} ({endpoint.url})"
    because = f": {endpoint.because}" if endpoint.because else ""
    yield line(f"{name} is {endpoint.standing}{because}.")
