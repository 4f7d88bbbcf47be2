"""The webhook endpoints of all tenants, and why an endpoint gets nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from deadletter.webhook.url_guard import public_part

from . import endpoint_table
from .answer import Answer
from .endpoint_table import EndpointRow
from .session import Session
from .words import moment


@dataclass(frozen=True, slots=True)
class ListedEndpoint:
    """An endpoint and its standing."""

    tenant: Annotated[str, "the tenant"]
    endpoint: Annotated[str, "the endpoint's name"]
    url: Annotated[str, "scheme, host and port of its URL, or `?` for a refused URL"]
    standing: Annotated[str, "`enabled`, `disabled`, `throttled` or `invalid`"]
    because: Annotated[str, "why it is not enabled, if that is known"]
    disabled_at: Annotated[datetime | None, "when the dispatcher disabled it"]
    throttled_until: Annotated[datetime | None, "until when nothing is posted to it"]
    secrets: Annotated[Sequence[str], "names of the secrets that sign"]


@dataclass(frozen=True, slots=True)
class EndpointList(Answer):
    """What `dlq endpoint list` answers."""

    at: Annotated[datetime, "when it was read"]
    endpoints: Annotated[Sequence[ListedEndpoint], "all endpoints, by tenant and name"]


def list_endpoints(session: Session) -> EndpointList:
    """All endpoints, by tenant and name."""
    rows = endpoint_table.table(session.aws, session.app().endpoints_table).read()
    endpoints = [listed(row, session.now) for row in rows]
    return EndpointList(**session.place, at=session.now, endpoints=endpoints)


def listed(row: EndpointRow, now: datetime) -> ListedEndpoint:
    """An endpoint as the dispatcher sees it now."""
    endpoint = row.endpoint
    until = moment(endpoint.throttled_until) if endpoint and endpoint.throttled_until else None
    if endpoint is None:
        standing, because = "invalid", row.why
    elif not endpoint.enabled:
        standing, because = "disabled", endpoint.disabled_because
    elif until is not None and until > now:
        standing, because = "throttled", f"it answered {endpoint.throttled_by}"
    else:
        standing, because = "enabled", ""
    return ListedEndpoint(
        tenant=row.tenant,
        endpoint=row.name,
        url=public_part(endpoint.url) if endpoint else "?",
        standing=standing,
        because=because,
        disabled_at=moment(row.columns.get("disabled_at")) if standing == "disabled" else None,
        throttled_until=until if standing == "throttled" else None,
        secrets=endpoint.secrets if endpoint else (),
    )
