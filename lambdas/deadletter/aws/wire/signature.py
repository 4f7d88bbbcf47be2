"""Signature Version 4, for requests of which only time and body change."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

ALGORITHM = "AWS4-HMAC-SHA256"
_END = "aws4_request"

UNSIGNED = frozenset(
    {
        "authorization",
        "connection",
        "expect",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "x-amzn-trace-id",
    }
)
"""Headers that proxies may change, or that AWS does not count, in small letters."""


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs for one region and service.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html
    """

    region: str
    service: str
    # The key of a day, by secret and day: four digests that each request would need again.
    _keys: dict[tuple[str, str], bytes] = field(default_factory=dict, repr=False)

    def authorization(
        self, keys: tuple[str, str], moment: str, path: str, lines: tuple[str, str], body: bytes
    ) -> str:
        """The header Authorization of a POST without a query.

        `keys` are the access key and the secret key, `moment` is like 20261123T193000Z, `path` is
        encoded as in the signature, and `lines` are those of the headers to sign.
        """
        (access_key, secret_key), (signed, text) = keys, lines
        request = f"POST\n{path}\n\n{text}\n{signed}\n{sha256(body).hexdigest()}"
        scope = f"{moment[:8]}/{self.region}/{self.service}/{_END}"
        whole = f"{ALGORITHM}\n{moment}\n{scope}\n{sha256(request.encode()).hexdigest()}"
        signature = _digest(self._key(secret_key, moment[:8]), whole).hex()
        return (
            f"{ALGORITHM} Credential={access_key}/{scope}, "
            f"SignedHeaders={signed}, Signature={signature}"
        )

    def _key(self, secret_key: str, day: str) -> bytes:
        key = self._keys.get((secret_key, day))
        if key is None:
            key = f"AWS4{secret_key}".encode()
            for part in (day, self.region, self.service, _END):
                key = _digest(key, part)
            # One key at a time: a long-lived process has many days and many secrets.
            self._keys.clear()
            self._keys[secret_key, day] = key
        return key


def lines_of(headers: Mapping[str, str]) -> tuple[str, str]:
    """The names of headers, which are in small letters, and their lines as they are signed."""
    names = sorted(headers)
    lines = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in names)
    return ";".join(names), lines


def _digest(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
