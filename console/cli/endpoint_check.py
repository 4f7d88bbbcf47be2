"""`dlq endpoint check`: whether events can be posted to an endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from ..operations import endpoint_check as operation
from ..operations.endpoint_check import EVENT_TYPE, EndpointCheck, complaints
from ..operations.endpoint_table import url_policy
from ..operations.session import Session
from ..operations.words import clock, duration
from . import asking
from .asking import OptionalWhy
from .endpoint_options import Id, Loopback, Ports
from .exit import Exit
from .output import Block, Line, Part, Reply, Styled, TextTable, line

Post = Annotated[
    bool,
    typer.Option("--post", help=f"POST a signed event of type {EVENT_TYPE}; else only HEAD."),
]


def check(
    session: Session,
    endpoint_id: Id,
    post: Post = False,
    allow_loopback: Loopback = False,
    allow_port: Ports = None,
    why: OptionalWhy = None,
) -> Reply[EndpointCheck]:
    """Send a request to an endpoint, from here, through the dispatcher's URL guard.

    It shows the host's addresses, the TLS certificate and its end, the status and
    Retry-After. A HEAD request has no effect, and any answer to it shows that a server is
    there; only --post shows the answer to an event. A disabled or throttled endpoint is
    checked too, and is not changed.

    The exit status is 1 if events would not arrive: no answer, a refused URL, a disabled
    endpoint, a status of 410, 429 or 5xx (with --post: anything but 2xx), or a certificate
    that ends within 14 days.
    """
    policy = url_policy(allow_loopback, allow_port)
    answer = operation.check(session, endpoint_id, policy, post=post, why=asking.why(why))
    return Reply(answer, _show, Exit.ATTENTION if complaints(answer) else Exit.DONE)


def _show(answer: EndpointCheck) -> Iterator[Block]:
    endpoint = answer.endpoint
    yield line(
        Styled(f"Endpoint {endpoint.tenant}/{endpoint.endpoint}", "strong"),
        f" of app {answer.app} in account {answer.account}, {answer.region}",
    )
    yield Line()
    rows: list[tuple[Part, Part]] = [("url", endpoint.url)]
    standing = f"{endpoint.standing}: {endpoint.because}" if endpoint.because else endpoint.standing
    enabled = endpoint.standing == "enabled"
    rows.append(("standing", standing if enabled else Styled(standing, "alarm")))
    if endpoint.throttled_until is not None:
        rows.append(("throttled until", clock(endpoint.throttled_until, answer.at)))
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
    reasons = complaints(answer)
    if not reasons:
        yield line(
            Styled("Events would arrive." if answer.method == "POST" else "It is there.", "good")
        )
    for complaint in reasons:
        yield line(Styled(f"{complaint[0].upper()}{complaint[1:]}.", "alarm"))
