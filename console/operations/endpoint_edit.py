"""Register, enable and disable webhook endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated

from deadletter.contract import EVERY_PIPELINE
from deadletter.webhook.endpoint import SecretUnusable, refuse_secret_name
from deadletter.webhook.url_guard import Destination, UrlRefused, public_part, read_url

from . import endpoint_table
from .answer import Answer
from .audit import Facts, IntendedChange, recorded
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
        self._app = session.app()
        self._table = endpoint_table.table(session.aws, self._app.endpoints_table)

    def find(self) -> ListedEndpoint:
        """The endpoint; Problem if it is missing."""
        return listed(self._table.find(self._id), self._session.now)

    def add(self, url: str, secrets: Sequence[str], why: str = "") -> EndpointChange:
        """Registers the endpoint, enabled; Problem if it exists."""
        after = {"url": public_part(url), "standing": "enabled", "secrets": list(secrets)}
        with self._recorded("endpoint add", why, None, after):
            self._table.add(self._id, {"url": url, "enabled": True, "secrets": list(secrets)})
        return self._changed()

    def enable(self, why: str = "") -> EndpointChange:
        """Enables the endpoint and ends its pause."""
        with self._recorded("endpoint enable", why, self.find(), {"standing": "enabled"}):
            self._table.update(
                self._id,
                "SET enabled = :on "
                "REMOVE disabled_because, disabled_at, throttled_until, throttled_by",
                {":on": True},
            )
        return self._changed()

    def disable(self, reason: str) -> EndpointChange:
        """Disables the endpoint; the caller's identity is added to the reason."""
        with self._recorded("endpoint disable", reason, self.find(), {"standing": "disabled"}):
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

    def _recorded(
        self, command: str, why: str, before: ListedEndpoint | None, after: Facts
    ) -> AbstractContextManager[object]:
        """Of the URL its host alone: a path may hold a token. Secrets by name."""
        was = {"standing": before.standing} if before else None
        change = IntendedChange(
            command, EVERY_PIPELINE, endpoint_table.target(self._id), why, was, after
        )
        return recorded(self._session, self._app, change)

    def _changed(self) -> EndpointChange:
        return EndpointChange(**self._session.place, endpoint=self.find())
