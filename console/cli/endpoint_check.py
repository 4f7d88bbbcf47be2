"""`dlq endpoint check`: whether an endpoint can be posted to, as the dispatcher would do it."""

from __future__ import annotations

import json
import ssl
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from deadletter.webhook import signing
from deadletter.webhook.endpoint import Endpoint, SecretsUnavailable, SecretUnusable
from deadletter.webhook.http import HttpResponse as Answered
from deadletter.webhook.http import HttpsClient, NoAnswer
from deadletter.webhook.url_guard import Destination, UrlRefused, read_url

from ..operations import endpoint_table
from ..operations.endpoint_table import Guard, Id, Loopback, Ports, guard
from ..operations.problem import Exit
from .command import Session
from .endpoint_list import ListedEndpoint, listed
from .output import (
    Block,
    CommandResult,
    Line,
    Part,
    Reply,
    Styled,
    TextTable,
    clock,
    duration,
    line,
)

# Seconds for the exchange in all: the dispatcher's default.
_TIMEOUT = 5.0

# A certificate that ends sooner is worth a call; most are renewed a month before.
_SOON = timedelta(days=14)

_TYPE = "deadletter.endpoint_check"

Post = Annotated[
    bool,
    typer.Option("--post", help=f"POST a signed event of type {_TYPE}; else only HEAD."),
]


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """The TLS certificate that the endpoint showed."""

    subject: Annotated[str, "common name of its subject"]
    issuer: Annotated[str, "organisation or common name of its issuer"]
    expires: Annotated[datetime | None, "when it ends"]


@dataclass(frozen=True, slots=True)
class Check(CommandResult):
    """What `dlq endpoint check` answers."""

    at: Annotated[datetime, "when it was asked"]
    endpoint: Annotated[ListedEndpoint, "the endpoint as the registry has it"]
    method: Annotated[str, "`HEAD` or `POST`"]
    addresses: Annotated[Sequence[str], "what its host stands for, fit or not"]
    address: Annotated[str | None, "the address that was connected to"]
    certificate: Annotated[
        ServerCertificate | None, "its TLS certificate, if it showed a valid one"
    ]
    status: Annotated[int | None, "the HTTP status that it answered"]
    retry_after: Annotated[str | None, "its Retry-After header"]
    seconds: Annotated[float, "how long all of it took"]
    problem: Annotated[str | None, "why nothing would be posted, or why no answer came"]


def check(
    session: Session,
    endpoint_id: Id,
    post: Post = False,
    allow_loopback: Loopback = False,
    allow_port: Ports = None,
) -> Reply[Check]:
    """Ask an endpoint once, from here, through the guard that the dispatcher uses.

    It shows the host's addresses, the TLS certificate and its end, the status and
    Retry-After. A HEAD has no effect, and whatever is answered shows that something is
    there; only a POST shows what an event would be answered. A disabled or throttled
    endpoint is asked all the same, and stays as it is.

    The exit status is 1 if events would not arrive: no answer, a refused URL, a disabled
    endpoint, a status of 410, 429 or 5xx (with --post: anything but 2xx), or a certificate
    that ends within 14 days.
    """
    table = endpoint_table.table(session.aws, session.app().endpoints_table)
    row = table.find(endpoint_id)
    empty = Check(
        session.aws.account,
        session.aws.region,
        session.app_name,
        session.now,
        listed(row, session.now),
        "POST" if post else "HEAD",
        (),
        None,
        None,
        None,
        None,
        0.0,
        row.why or None,
    )
    if row.endpoint is None:
        return Reply(empty, _show, Exit.ATTENTION)
    answer = _asked(session, row.endpoint, guard(allow_loopback, allow_port), empty)
    return Reply(answer, _show, Exit.ATTENTION if _complaints(answer) else Exit.DONE)


def poster() -> HttpsClient:
    """What asks; tests replace it."""
    return HttpsClient(_TIMEOUT, time.monotonic)


def _asked(session: Session, endpoint: Endpoint, allowed: Guard, empty: Check) -> Check:
    """The check, as far as it came."""
    started = time.monotonic()
    answer = empty
    try:
        to = read_url(endpoint.url, allow_loopback=allowed.allow_loopback, ports=allowed.ports)
        one = poster()
        # Shown also if one of them is refused, for then they are the reason.
        answer = replace(answer, addresses=one.addresses(to))
        body, headers = b"", {"user-agent": "deadletter"}
        if empty.method == "POST":
            body, headers = _event(session, endpoint, to)
        answer = _answered(answer, one.exchange(empty.method, to, body, headers))
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
    body = json.dumps({"type": _TYPE, "timestamp": session.now.isoformat(), "data": {}}).encode()
    signed = signing.headers(f"check_{uuid.uuid4()}", session.clock(), body, secrets)
    return body, {"content-type": "application/json", "user-agent": "deadletter", **signed}


def _answered(empty: Check, answer: Answered) -> Check:
    return replace(
        empty,
        addresses=answer.addresses,
        address=answer.address,
        certificate=_certificate(answer.certificate),
        status=answer.status,
        retry_after=answer.retry_after,
    )


def _certificate(shown: Mapping[str, Any]) -> ServerCertificate | None:
    if not shown:
        return None
    subject, issuer = _names(shown.get("subject", ())), _names(shown.get("issuer", ()))
    try:
        expires = datetime.fromtimestamp(ssl.cert_time_to_seconds(shown["notAfter"]), UTC)
    except (KeyError, ValueError):
        expires = None
    return ServerCertificate(
        subject.get("commonName", ""),
        issuer.get("organizationName") or issuer.get("commonName", ""),
        expires,
    )


def _names(parts: Sequence[Sequence[tuple[str, str]]]) -> dict[str, str]:
    return {name: value for part in parts for name, value in part}


def _complaints(answer: Check) -> list[str]:
    """Why events would not arrive, or soon won't."""
    found = [answer.problem] if answer.problem else []
    if answer.endpoint.standing == "disabled":
        found.append("it is disabled: dlq endpoint enable posts to it again")
    status = answer.status
    if status is not None:
        refused = status in (410, 429) or 500 <= status <= 599
        if refused or (answer.method == "POST" and not 200 <= status <= 299):
            found.append(f"it answered {status}")
    expires = answer.certificate.expires if answer.certificate else None
    if expires is not None and expires - answer.at < _SOON:
        left = duration((expires - answer.at).total_seconds())
        found.append(f"its certificate ends in {left}")
    return found


def _show(answer: Check) -> Iterator[Block]:
    one = answer.endpoint
    yield line(
        Styled(f"Endpoint {one.tenant}/{one.endpoint}", "strong"),
        f" of app {answer.app} in account {answer.account}, {answer.region}",
    )
    yield Line()
    rows: list[tuple[Part, Part]] = [("url", one.url)]
    standing = f"{one.standing}: {one.because}" if one.because else one.standing
    rows.append(("standing", standing if one.standing == "enabled" else Styled(standing, "alarm")))
    if one.throttled_until is not None:
        rows.append(("throttled until", clock(one.throttled_until, answer.at)))
    if answer.addresses:
        rows.append(("addresses", ", ".join(answer.addresses)))
    if answer.certificate is not None:
        rows.append(
            ("certificate", f"{answer.certificate.subject}, from {answer.certificate.issuer}")
        )
        if answer.certificate.expires is not None:
            left = duration((answer.certificate.expires - answer.at).total_seconds())
            on = answer.certificate.expires.strftime("%Y-%m-%d")
            rows.append(("", f"ends on {on}, in {left}"))
    if answer.status is not None:
        rows.append((answer.method, f"{answer.status} in {answer.seconds:.2f} s"))
    if answer.retry_after is not None:
        rows.append(("retry-after", answer.retry_after))
    yield TextTable((), rows)
    yield Line()
    complaints = _complaints(answer)
    if not complaints:
        yield line(
            Styled("Events would arrive." if answer.method == "POST" else "It is there.", "good")
        )
    for complaint in complaints:
        yield line(Styled(f"{complaint[0].upper()}{complaint[1:]}.", "alarm"))
