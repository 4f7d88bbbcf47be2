"""`dlq endpoint list`: where tenants want their events, and which endpoints get none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from ..operations import endpoint_table
from ..operations.endpoint_table import EndpointRow, shown
from .command import Session
from .output import (
    Block,
    CommandResult,
    Line,
    Part,
    Reply,
    Styled,
    TextTable,
    count,
    line,
    moment,
)


@dataclass(frozen=True, slots=True)
class ListedEndpoint:
    """One endpoint, and how it stands."""

    tenant: Annotated[str, "the tenant"]
    endpoint: Annotated[str, "the endpoint's name"]
    url: Annotated[str, "scheme, host and port of its URL, or `?` for one that is refused"]
    standing: Annotated[str, "`enabled`, `disabled`, `throttled` or `invalid`"]
    because: Annotated[str, "why it is not enabled, if that is known"]
    disabled_at: Annotated[datetime | None, "when the dispatcher disabled it"]
    throttled_until: Annotated[datetime | None, "until when nothing is posted to it"]
    secrets: Annotated[Sequence[str], "names of the secrets that sign"]


@dataclass(frozen=True, slots=True)
class Endpoints(CommandResult):
    """What `dlq endpoint list` answers."""

    at: Annotated[datetime, "when it was read"]
    endpoints: Annotated[Sequence[ListedEndpoint], "all endpoints, by tenant and name"]


def list_(session: Session) -> Reply[Endpoints]:
    """List the endpoints of all tenants, and why one gets nothing.

    Of a URL only scheme, host and port are shown: its path may be a secret.
    """
    app = session.app()
    rows = endpoint_table.table(session.aws, app.endpoints_table).read()
    found = [listed(one, session.now) for one in rows]
    answer = Endpoints(
        session.aws.account, session.aws.region, session.app_name, session.now, found
    )
    return Reply(answer, _show)


def listed(row: EndpointRow, now: datetime) -> ListedEndpoint:
    """An endpoint as the dispatcher would find it now."""
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
        url=shown(endpoint.url) if endpoint else "?",
        standing=standing,
        because=because,
        disabled_at=moment(row.columns.get("disabled_at")) if standing == "disabled" else None,
        throttled_until=until if standing == "throttled" else None,
        secrets=endpoint.secrets if endpoint else (),
    )


def _show(answer: Endpoints) -> Iterator[Block]:
    yield line(
        Styled(count(len(answer.endpoints), "endpoint"), "strong"),
        f" of app {answer.app} in account {answer.account}, {answer.region}",
    )
    if answer.endpoints:
        yield Line()
        rows = [
            (one.tenant, one.endpoint, one.url, _standing(one), str(len(one.secrets)), one.because)
            for one in answer.endpoints
        ]
        yield TextTable(("TENANT", "ENDPOINT", "URL", "STANDING", ">SECRETS", "BECAUSE"), rows)


def _standing(one: ListedEndpoint) -> Part:
    return one.standing if one.standing == "enabled" else Styled(one.standing, "alarm")
