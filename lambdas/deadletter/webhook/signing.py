"""The headers by which a receiver knows a webhook again and knows that it is ours.

Standard Webhooks 1.0.0 (standardwebhooks.com): the signed text is
`<id>.<timestamp>.<body>`, the signature HMAC-SHA256 in base64 behind `v1,`.
"""

from __future__ import annotations

import base64
import binascii
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
"""One `v1,<base64>` for each secret, with spaces between them."""

TOLERANCE = 300
"""Seconds that a timestamp may lie in the past or ahead before a receiver refuses it."""

_PREFIX = "whsec_"

# Bytes: what the standard asks of a secret.
_SHORTEST, _LONGEST = 24, 64

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
    except (binascii.Error, UnicodeEncodeError):
        # Its context would hold the text.
        raise BadSecret(f"a signing secret is base64 behind {_PREFIX}") from None
    if not _SHORTEST <= len(key) <= _LONGEST:
        raise BadSecret(f"a signing secret is {_SHORTEST} to {_LONGEST} bytes, not {len(key)}")
    return Secret(key)


def headers(webhook_id: str, at: float, body: bytes, secrets: Sequence[Secret]) -> dict[str, str]:
    """The headers of one attempt at `at` (epoch seconds), signed once with each secret.

    While a secret is replaced both of them sign, so a receiver may change over whenever
    it likes. Without a secret there is no signature.
    """
    timestamp = str(int(at))
    found = {ID: webhook_id, TIMESTAMP: timestamp}
    if secrets:
        signed = (_signature(one, webhook_id, timestamp, body) for one in secrets)
        found[SIGNATURE] = " ".join(signed)
    return found


def verify(given: Mapping[str, str], body: bytes, secrets: Sequence[Secret], now: float) -> None:
    """Raise BadSignature unless one of the secrets signed this body for these headers.

    `given` has lower-case names; `now` is epoch seconds.
    """
    webhook_id, timestamp = given.get(ID, ""), given.get(TIMESTAMP, "")
    if not webhook_id or _SECONDS.fullmatch(timestamp) is None:
        raise BadSignature(f"{ID} or {TIMESTAMP} is missing or unreadable")
    if abs(now - int(timestamp)) > TOLERANCE:
        raise BadSignature(f"{TIMESTAMP} is more than {TOLERANCE} seconds away")
    offered = [one.encode() for one in given.get(SIGNATURE, "").split(" ")]
    for secret in secrets:
        expected = _signature(secret, webhook_id, timestamp, body).encode()
        if any(hmac.compare_digest(one, expected) for one in offered):
            return
    raise BadSignature(f"{SIGNATURE} is none of the secrets'")


def _signature(secret: Secret, webhook_id: str, timestamp: str, body: bytes) -> str:
    signed = f"{webhook_id}.{timestamp}.".encode() + body
    digest = hmac.new(secret.key, signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"
