"""The headers by which a receiver recognizes a repeated webhook and verifies its sender.

Standard Webhooks 1.0.0 (standardwebhooks.com): the signed text is
`<id>.<timestamp>.<body>`, the signature HMAC-SHA256 in base64 behind `v1,`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

ID = "webhook-id"
"""The same for every retry and every replay of one message."""

TIMESTAMP = "webhook-timestamp"
"""Epoch seconds of this attempt."""

SIGNATURE = "webhook-signature"
"""One `v1,<base64>` for each secret, separated by spaces."""

TOLERANCE_SECONDS = 300
"""How far a timestamp may lie in the past or the future before a receiver refuses it."""

_PREFIX = "whsec_"

# The length of a secret by the standard.
_SHORTEST_BYTES, _LONGEST_BYTES = 24, 64

_SECONDS = re.compile(r"[0-9]{1,12}")


class BadSecret(ValueError):
    """The text is not a signing secret; the message says what is wrong and never quotes it."""


class BadSignature(Exception):
    """The headers do not prove that the body is ours."""


@dataclass(frozen=True, slots=True)
class Secret:
    """One signing secret, kept out of every printed form."""

    key: bytes = field(repr=False)


def read_secret(text: str) -> Secret:
    """The secret in `whsec_<base64>`, of 24 to 64 bytes; raises BadSecret."""
    if not text.startswith(_PREFIX):
        raise BadSecret(f"a signing secret starts with {_PREFIX}")
    try:
        key = base64.b64decode(text.removeprefix(_PREFIX).encode(), validate=True)
    except ValueError:
        # `from None`: the error in its context would hold the text.
        raise BadSecret(f"a signing secret is base64 behind {_PREFIX}") from None
    if not _SHORTEST_BYTES <= len(key) <= _LONGEST_BYTES:
        raise BadSecret(
            f"a signing secret is {_SHORTEST_BYTES} to {_LONGEST_BYTES} bytes, not {len(key)}"
        )
    return Secret(key)


def headers(webhook_id: str, at: float, body: bytes, secrets: Sequence[Secret]) -> dict[str, str]:
    """The headers of one attempt at `at` (epoch seconds), signed once with each secret.

    While a secret is replaced, both sign, so the receiver may change over at any time.
    Without a secret there is no signature.
    """
    timestamp = str(int(at))
    headers = {ID: webhook_id, TIMESTAMP: timestamp}
    if secrets:
        signatures = (_signature(secret, webhook_id, timestamp, body) for secret in secrets)
        headers[SIGNATURE] = " ".join(signatures)
    return headers


def verify(received: Mapping[str, str], body: bytes, secrets: Sequence[Secret], now: float) -> None:
    """Raise BadSignature unless one of the secrets signed this body for these headers.

    `received` has lower-case names; `now` is epoch seconds.
    """
    webhook_id, timestamp = received.get(ID, ""), received.get(TIMESTAMP, "")
    if not webhook_id or _SECONDS.fullmatch(timestamp) is None:
        raise BadSignature(f"{ID} or {TIMESTAMP} is missing or unreadable")
    if abs(now - int(timestamp)) > TOLERANCE_SECONDS:
        raise BadSignature(f"{TIMESTAMP} is more than {TOLERANCE_SECONDS} seconds away")
    signatures = [text.encode() for text in received.get(SIGNATURE, "").split(" ")]
    for secret in secrets:
        expected = _signature(secret, webhook_id, timestamp, body).encode()
        if any(hmac.compare_digest(signature, expected) for signature in signatures):
            return
    raise BadSignature(f"{SIGNATURE} does not match any of the secrets")


def _signature(secret: Secret, webhook_id: str, timestamp: str, body: bytes) -> str:
    signed = f"{webhook_id}.{timestamp}.".encode() + body
    digest = hmac.new(secret.key, signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"
