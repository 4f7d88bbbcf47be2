"""Whether events can be posted to an endpoint, tried as the dispatcher does it."""

from __future__ import annotations

import json
import ssl
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from deadletter.contract import EVERY_PIPELINE
from deadletter.webhook import signing
from deadletter.webhook.endpoint import Endpoint, SecretsUnavailable, SecretUnusable
from deadletter.webhook.http import HttpResponse, HttpsClient, NoAnswer
from deadletter.webhook.url_guard import Destination, UrlRefused, read_url

from . import endpoint_table
from .answer import Answer
from .audit import IntendedChange, recorded
from .endpoint_list import ListedEndpoint, listed
from .endpoint_table import UrlPolicy
from .session import Session
from .words import duration

# Seconds for the whole exchange: the dispatcher's default.
_TIMEOUT = 5.0

# A certificate that ends sooner needs a person; most are renewed a month before.
_SOON = timedelta(days=14)

EVENT_TYPE = "deadletter.endpoint_check"
"""The type of the event that a check with POST sends."""


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """The TLS certificate of the endpoint."""

    subject: Annotated[str, "common name of its subject"]
    issuer: Annotated[str, "organisation or common name of its issuer"]
    expires: Annotated[datetime | None, "when it ends"]


@dataclass(frozen=True, slots=True)
class EndpointCheck(Answer):
    """What `dlq endpoint check` answers."""

    at: Annotated[datetime, "when it was checked"]
    endpoint: Annotated[ListedEndpoint, "the endpoint as the registry has it"]
    method: Annotated[str, "`HEAD` or `POST`"]
    addresses: Annotated[Sequence[str], "what its host resolves to, allowed or not"]
    address: Annotated[str | None, "the address that was connected to"]
    certificate: Annotated[ServerCertificate | None, "its TLS certificate, if valid"]
    status: Annotated[int | None, "the HTTP status that it answered"]
    retry_after: Annotated[str | None, "its Retry-After header"]
    seconds: Annotated[float, "how long all of it took"]
    problem: Annotated[str | None, "why nothing would be posted, or why no answer came"]


def check(
    session: Session, endpoint_id: str, policy: UrlPolicy, *, post: bool, why: str = ""
) -> EndpointCheck:
    """Asks an endpoint once, by HEAD or by POST, through the dispatcher's URL guard.

    A POST is recorded: the tenant gets an event by it.
    """
    app = session.app()
    table = endpoint_table.table(session.aws, app.endpoints_table)
    row = table.find(endpoint_id)
    answer = EndpointCheck(
        **session.place,
        at=session.now,
        endpoint=listed(row, session.now),
        method="POST" if post else "HEAD",
        addresses=(),
        address=None,
        certificate=None,
        status=None,
        retry_after=None,
        seconds=0.0,
        problem=row.why or None,
    )
    if row.endpoint is None:
        return answer
    if not post:
        return _exchange(session, row.endpoint, policy, answer)
    posted = endpoint_table.target(endpoint_id)
    change = IntendedChange("endpoint check", EVERY_PIPELINE, posted, why)
    with recorded(session, app, change) as record:
        answer = _exchange(session, row.endpoint, policy, answer)
        status = "no answer" if answer.status is None else str(answer.status)
        record.done({"posted": EVENT_TYPE, "status": status})
    return answer


def http_client() -> HttpsClient:
    """The client that sends the request; tests replace it."""
    return HttpsClient(_TIMEOUT, time.monotonic)


def _exchange(
    session: Session, endpoint: Endpoint, policy: UrlPolicy, answer: EndpointCheck
) -> EndpointCheck:
    """The answer with the results up to the first failure."""
    started = time.monotonic()
    try:
        to = read_url(endpoint.url, allow_loopback=policy.allow_loopback, ports=policy.ports)
        client = http_client()
        # Shown also if an address is refused: then it is the reason.
        answer = replace(answer, addresses=client.addresses(to))
        body, headers = b"", {"user-agent": "deadletter"}
        if answer.method == "POST":
            body, headers = _event(session, endpoint, to)
        answer = _with_response(answer, client.exchange(answer.method, to, body, headers))
    except (UrlRefused, NoAnswer, SecretUnusable) as error:
        answer = replace(answer, problem=str(error))
    except SecretsUnavailable as error:
        answer = replace(answer, problem=f"Secrets Manager gave no answer ({error})")
    return replace(answer, seconds=round(time.monotonic() - started, 3))


def _event(session: Session, endpoint: Endpoint, to: Destination) -> tuple[bytes, dict[str, str]]:
    from deadletter.aws.secrets import SecretsManagerSecrets

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
    if answer.endpoint.standing == "disabled":
        reasons.append("it is disabled: dlq endpoint enable posts to it again")
    status = answer.status
    if status is not None:
        refused = status in (410, 429) or 500 <= status <= 599
        if refused or (answer.method == "POST" and not 200 <= status <= 299):
            reasons.append(f"it answered {status}")
    expires = answer.certificate.expires if answer.certificate else None
    if expires is not None and expires - answer.at < _SOON:
        left = duration((expires - answer.at).total_seconds())
        reasons.append(f"its certificate ends in {left}")
    return reasons
