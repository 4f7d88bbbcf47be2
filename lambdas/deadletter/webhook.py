"""Delivers messages to the endpoints that a registry names for their tenants."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from deadletter import stamp as stamps
from deadletter.document import DocumentBuilder
from deadletter.letter import Letter, NotALetter, from_event, utf8
from deadletter.settings import Pipeline

DEFAULT_ENDPOINT = "default"
"""The endpoint of a tenant whose message names none (context `endpointId`)."""


class Undeliverable(Exception):
    """The message was not delivered; the text says why, without a word of the message."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One row of the registry: where a tenant wants its events."""

    tenant: str
    endpoint: str
    url: str
    enabled: bool = True


class Registry(Protocol):
    """Where endpoints are kept; raises Undeliverable when it cannot answer."""

    def find(self, tenant: str, endpoint: str) -> Endpoint | None: ...


Post = Callable[[str, bytes, Mapping[str, str]], int]
"""Posts a body with headers to a URL and returns the status; raises Undeliverable without one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one message: delivered if `failure` is None."""

    message_id: str
    failure: str | None = None


class Dispatcher:
    """Posts each message of a batch to its tenant's endpoint; 2xx alone is success."""

    def __init__(
        self,
        *,
        pipeline: Pipeline,
        registry: Registry,
        post: Post,
        trusted_senders: frozenset[str],
        allow_loopback: bool,
        clock: Callable[[], float],
    ) -> None:
        self._documents = DocumentBuilder(pipeline)
        self._fifo = pipeline.fifo
        self._registry = registry
        self._post = post
        self._trusted = trusted_senders
        self._allow_loopback = allow_loopback
        self._clock = clock

    def dispatch(self, records: Sequence[Mapping[str, Any]]) -> list[Outcome]:
        """One outcome a record. On FIFO the first failure of a group fails the rest of it."""
        outcomes: list[Outcome] = []
        stopped: set[str] = set()
        for record in records:
            message_id = str(record.get("messageId"))
            try:
                letter = from_event(record)
                if letter.group in stopped:
                    raise Undeliverable("an earlier message of its group failed")
                self._deliver(letter)
            except (NotALetter, Undeliverable) as error:
                outcomes.append(Outcome(message_id, str(error)))
                group = record.get("attributes", {}).get("MessageGroupId")
                if self._fifo and group is not None:
                    stopped.add(group)
            else:
                outcomes.append(Outcome(message_id))
        return outcomes

    def _deliver(self, letter: Letter) -> None:
        mark = stamps.read(letter, self._trusted).stamp
        document = self._documents.build(letter, mark, None, self._clock())
        if document.unreadable is not None:
            raise Undeliverable(f"the body cannot be read: {document.unreadable}")
        context = document.value["context"]
        tenant = context.get("tenantId")
        if not isinstance(tenant, str):
            raise Undeliverable("the message names no tenant")
        endpoint = self._registry.find(tenant, str(context.get("endpointId", DEFAULT_ENDPOINT)))
        if endpoint is None or not endpoint.enabled:
            raise Undeliverable("the tenant has no such endpoint, or it is disabled")
        refuse_url(endpoint.url, self._allow_loopback)
        headers = {
            "content-type": "application/json",
            "webhook-id": mark.origin,
            "webhook-attempt": str(mark.attempt + 1),
        }
        status = self._post(endpoint.url, utf8(letter.body), headers)
        if not 200 <= status <= 299:
            raise Undeliverable(f"the endpoint answered {status}")


def refuse_url(url: str, allow_loopback: bool) -> None:
    """Raise Undeliverable for a URL that nothing is ever posted to.

    https with a host, no user, no fragment; plain http to a loopback address only,
    and only where the settings allow it.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        raise Undeliverable("the endpoint's URL cannot be read") from None
    if allow_loopback and parts.scheme == "http" and _is_loopback(host):
        return
    if parts.scheme != "https" or not host or parts.username is not None or parts.fragment:
        raise Undeliverable("the endpoint's URL is not a plain https URL")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
