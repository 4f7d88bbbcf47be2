"""Whether events can be posted to an endpoint, tried as the dispatcher does it."""

from __future__ import annotations

import json
import ssl
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from deadletter.webhook import signing
from deadletter.webhook.endpoint import Endpoint, SecretsUnavailable, SecretUnusable
from deadletter.webhook.http import HttpResponse, HttpsClient, NoAnswer
from deadletter.webhook.url_guard import Destination, UrlRefused, read_url

from .session import Session
from .words import duration

# Seconds for the whole exchange: the dispatcher's default.
_TIMEOUT = 5.0

# A certificate that ends sooner needs a person; most are renewed a month before.
_SOON = timedelta(days=14)

# What a server answers that knows no HEAD.
_NOT_IMPLEMENTED = 501

EVENT_TYPE = "deadletter.endpoint_check"
"""The type of the test message."""


@dataclass(frozen=True, slots=True)
class UrlPolicy:
    """Which URLs are allowed, as the dispatcher's settings say."""

    allow_loopback: bool
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """The TLS certificate of the endpoint."""

    subject: Annotated[str, "common name of its subject"]
    issuer: Annotated[str, "organisation or common name of its issuer"]
    expires: Annotated[datetime | None, "when it ends"]


@dataclass(frozen=True, slots=True)
class EndpointCheck:
    """What an endpoint answered."""

    at: Annotated[datetime, "when it was asked"]
    method: Annotated[str, "`HEAD` or `POST`"]
    addresses: Annotated[Sequence[str], "what its host resolves to, allowed or not"] = ()
    address: Annotated[str | None, "the address that was connected to"] = None
    certificate: Annotated[ServerCertificate | None, "its TLS certificate, if valid"] = None
    status: Annotated[int | None, "the HTTP status that it answered"] = None
    retry_after: Annotated[str | None, "its Retry-After header"] = None
    seconds: Annotated[float, "how long all of it took"] = 0.0
    problem: Annotated[str | None, "why nothing would be posted, or why no answer came"] = None


def http_client() -> HttpsClient:
    """The client that sends the request; tests replace it."""
    return HttpsClient(_TIMEOUT, time.monotonic)


def ask(
    session: Session, endpoint: Endpoint, policy: UrlPolicy, *, post: bool = False
) -> EndpointCheck:
    """Asks an endpoint once, through the dispatcher's URL guard: the results up to a failure.

    By HEAD; by POST with a signed test message, which the tenant gets.
    """
    started = time.monotonic()
    answer = EndpointCheck(session.now, "POST" if post else "HEAD")
    try:
        to = read_url(endpoint.url, allow_loopback=policy.allow_loopback, ports=policy.ports)
        client = http_client()
        # Shown also if an address is refused: then it is the reason.
        answer = replace(answer, addresses=client.addresses(to))
        body, headers = b"", {"user-agent": "deadletter"}
        if post:
            body, headers = _event(session, endpoint, to)
        answer = _with_response(answer, client.exchange(answer.method, to, body, headers))
    except (UrlRefused, NoAnswer, SecretUnusable) as error:
        answer = replace(answer, problem=str(error))
    except SecretsUnavailable as error:
        answer = replace(answer, problem=f"Secrets Manager gave no answer ({error})")
    return replace(answer, seconds=round(time.monotonic() - started, 3))


def _event(session: Session, endpoint: Endpoint, to: Destination) -> tuple[bytes, dict[str, str]]:
    from deadletter.aws.endpoints import SecretsManagerSecrets

    if not endpoint.secrets and not to.loopback:
        raise SecretUnusable("the endpoint has no secret to sign with")
    prefix = f"{session.app_name}/webhooks/"
    store = SecretsManagerSecrets(lambda: session.aws.secretsmanager, prefix, session.clock)
    secrets = [store.read(name) for name in endpoint.secrets]
    body = json.dumps(
        {"type": EVENT_TYPE, "timestamp": session.now.isoformat(), "data": {}}
    ).encode()
    signed = signing.headers(f"check_{uuid.uuid4()}", session.clock(), body, secrets)
    return body, {"content-type": "application/json", "user-agent": "deadletter", **signed}


def _with_response(answer: EndpointCheck, response: HttpResponse) -> EndpointCheck:
    return replace(
        answer,
        addresses=response.addresses,
        address=response.address,
        certificate=_certificate(response.certificate),
        status=response.status,
        retry_after=response.retry_after,
    )


def _certificate(fields: Mapping[str, Any]) -> ServerCertificate | None:
    if not fields:
        return None
    subject, issuer = _names(fields.get("subject", ())), _names(fields.get("issuer", ()))
    try:
        expires = datetime.fromtimestamp(ssl.cert_time_to_seconds(fields["notAfter"]), UTC)
    except (KeyError, ValueError):
        expires = None
    return ServerCertificate(
        subject.get("commonName", ""),
        issuer.get("organizationName") or issuer.get("commonName", ""),
        expires,
    )


def _names(parts: Sequence[Sequence[tuple[str, str]]]) -> dict[str, str]:
    return {name: value for part in parts for name, value in part}


def complaints(answer: EndpointCheck) -> list[str]:
    """Why events do not arrive, or will soon not arrive."""
    reasons = [answer.problem] if answer.problem else []
    status, posted = answer.status, answer.method == "POST"
    if status is not None:
        refused = status in (410, 429) or (500 <= status <= 599 and status != _NOT_IMPLEMENTED)
        if not 200 <= status <= 299 if posted else refused:
            reasons.append(f"it answered {status}")
    expires = answer.certificate.expires if answer.certificate else None
    if expires is not None and expires - answer.at < _SOON:
        left = duration(expires - answer.at)
        reasons.append(f"its certificate ends in {left}")
    return reasons


def in_words(answer: EndpointCheck) -> Iterator[str]:
    """What was found, and whether events would arrive."""
    if answer.addresses:
        yield f"addresses: {', '.join(answer.addresses)}"
    if (certificate := answer.certificate) is not None:
        yield f"certificate: {certificate.subject}, from {certificate.issuer}"
        if certificate.expires is not None:
            left = duration(certificate.expires - answer.at)
            yield f"certificate ends on {certificate.expires:%Y-%m-%d}, in {left}"
    if answer.status is not None:
        yield f"{answer.method}: {answer.status} in {answer.seconds:.2f} s"
    if answer.retry_after is not None:
        yield f"retry-after: {answer.retry_after}"
    reasons = complaints(answer)
    for reason in reasons:
        yield f"Events would not arrive: {reason}."
    if not reasons:
        yield "Events would arrive." if answer.method == "POST" else "A server is there."
