"""Register, enable and disable webhook endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from deadletter.webhook.endpoint import SecretUnusable, refuse_secret_name
from deadletter.webhook.url_guard import Destination, UrlRefused, read_url

from . import endpoint_table
from .answer import Answer
from .endpoint_list import ListedEndpoint, listed
from .endpoint_table import UrlPolicy
from .problem import Cause, Problem
from .session import Session


@dataclass(frozen=True, slots=True)
class EndpointChange(Answer):
    """What `dlq endpoint add`, `enable` and `disable` answer."""

    endpoint: Annotated[ListedEndpoint, "the endpoint as it stands now"]


def check_url(session: Session, url: str, policy: UrlPolicy, secrets: Sequence[str]) -> Destination:
    """The destination of a new endpoint; Problem if its URL or a secret's name is refused."""
    try:
        destination = read_url(url, allow_loopback=policy.allow_loopback, ports=policy.ports)
    except UrlRefused as error:
        raise Problem(f"URL refused: {error}. See --help.", Cause.INPUT) from error
    if not secrets and not destination.loopback:
        raise Problem(
            "Nothing is posted unsigned: name a secret with --secret "
            f"{session.app_name}/webhooks/...",
            Cause.INPUT,
        )
    try:
        for name in secrets:
            refuse_secret_name(name, f"{session.app_name}/webhooks/")
    except SecretUnusable as error:
        raise Problem(f"The secret can't be used: {error}.", Cause.INPUT) from error
    return destination


class EndpointEditor:
    """Changes of the endpoint `endpoint_id`, TENANT or TENANT/ENDPOINT."""

    def __init__(self, session: Session, endpoint_id: str) -> None:
        self._session = session
        self._id = endpoint_id
        self._table = endpoint_table.table(session.aws, session.app().endpoints_table)

    def find(self) -> ListedEndpoint:
        """The endpoint; Problem if it is missing."""
        return listed(self._table.find(self._id), self._session.now)

    def add(self, url: str, secrets: Sequence[str]) -> EndpointChange:
        """Registers the endpoint, enabled; Problem if it exists."""
        self._table.add(self._id, {"url": url, "enabled": True, "secrets": list(secrets)})
        return self._changed()

    def enable(self) -> EndpointChange:
        """Enables the endpoint and ends its pause."""
        self._table.update(
            self._id,
            "SET enabled = :on REMOVE disabled_because, disabled_at, throttled_until, throttled_by",
            {":on": True},
        )
        return self._changed()

    def disable(self, reason: str) -> EndpointChange:
        """Disables the endpoint; the caller's identity is added to the reason."""
        self._table.update(
            self._id,
            "SET enabled = :off, disabled_because = :because, disabled_at = :at",
            {
                ":off": False,
                ":because": f"{reason} ({self._session.aws.caller})",
                ":at": int(self._session.clock()),
            },
        )
        return self._changed()

    def _changed(self) -> EndpointChange:
        return EndpointChange(**self._session.place, endpoint=self.find())
