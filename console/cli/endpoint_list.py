"""`dlq endpoint list`: where tenants want their events, and which endpoints get none."""

from __future__ import annotations

from collections.abc import Iterator

from ..operations.endpoint_list import EndpointList, ListedEndpoint, list_endpoints
from ..operations.session import Session
from ..operations.words import count
from .output import Block, Line, Part, Reply, Styled, TextTable, line


def list_(session: Session) -> Reply[EndpointList]:
    """List the endpoints of all tenants, and why an endpoint gets nothing.

    Only scheme, host and port of a URL are shown: its path may be a secret.
    """
    return Reply(list_endpoints(session), _show)


def _show(answer: EndpointList) -> Iterator[Block]:
    yield line(
        Styled(count(len(answer.endpoints), "endpoint"), "strong"),
        f" of app {answer.app} in account {answer.account}, {answer.region}",
    )
    if answer.endpoints:
        yield Line()
        rows = [
            (
                endpoint.tenant,
                endpoint.endpoint,
                endpoint.url,
                _standing(endpoint),
                str(len(endpoint.secrets)),
                endpoint.because,
            )
            for endpoint in answer.endpoints
        ]
        yield TextTable(("TENANT", "ENDPOINT", "URL", "STANDING", ">SECRETS", "BECAUSE"), rows)


def _standing(endpoint: ListedEndpoint) -> Part:
    standing = endpoint.standing
    return standing if standing == "enabled" else Styled(standing, "alarm")
