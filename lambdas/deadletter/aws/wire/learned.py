"""Where a call goes and with which headers, learned from a request that boto3 has made.

So endpoints of partitions and FIPS, endpoints of one's own, and new headers are boto3's business.
Ours is Signature Version 4 of requests of which only time and body change.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlsplit

from botocore.utils import get_environ_proxies, normalize_url_path

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest
    from botocore.credentials import ReadOnlyCredentials

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


_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=[^/]+/\d{8}/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request, "
    r"SignedHeaders=(?P<signed>[^,]+), Signature="
)

_OF_ONE_REQUEST = frozenset(
    {
        "amz-sdk-invocation-id",
        "amz-sdk-request",
        "authorization",
        "content-length",
        "expect",
        "host",
        "x-amz-date",
        "x-amz-security-token",
        "x-amzn-trace-id",
    }
)
"""Headers that the next request does not repeat, in small letters."""

_PORTS = {"http": 80, "https": 443}
_MOMENT = "<moment>"


class _ToSign(NamedTuple):
    """Headers but for the time, the names of those that are signed, and their lines around it."""

    headers: Mapping[str, str]
    names: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class CallPlace:
    """All of a call's requests but time, credentials and body."""

    url: str
    origin: str
    target: str
    path: str
    host: str
    headers: Mapping[str, str]
    signer: Signer
    _signed: dict[str, _ToSign] = field(default_factory=dict, repr=False, compare=False)

    def headers_for(
        self, body: bytes, moment: str, credentials: ReadOnlyCredentials, added: Mapping[str, str]
    ) -> dict[str, str]:
        """The headers of one request; `added` may not be any that have to be signed."""
        known, signed, before, after = self._to_sign(credentials.token or "")
        headers = {**known, "x-amz-date": moment}
        lines = signed, f"{before}{moment}{after}"
        headers["authorization"] = self.signer.authorization(
            _keys_of(credentials), moment, self.path, lines, body
        )
        headers["content-length"] = str(len(body))
        return {**headers, **added}

    def _to_sign(self, token: str) -> _ToSign:
        """The part of the headers that changes with the credentials alone."""
        known = self._signed.get(token)
        if known is None:
            headers = {**self.headers, "host": self.host}
            if token:
                headers["x-amz-security-token"] = token
            names = {name: value for name, value in headers.items() if name not in UNSIGNED}
            signed, lines = lines_of({**names, "x-amz-date": _MOMENT})
            before, _, after = lines.partition(_MOMENT)
            known = _ToSign(headers, signed, before, after)
            # One at a time: a long-lived process has many tokens.
            self._signed.clear()
            self._signed[token] = known
        return known

    def request(self, headers: Mapping[str, str], body: bytes) -> bytes:
        """The request as it is sent."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"POST {self.target} HTTP/1.1\r\n{lines}\r\n".encode() + body


def learned(request: AWSPreparedRequest, credentials: ReadOnlyCredentials) -> CallPlace | None:
    """What boto3's request teaches; None if its like cannot be made without boto3.

    Our signature has to be the one that boto3 has made of the same request: otherwise boto3 signs
    in another way, or with other credentials. Requests through a proxy are boto3's as well.
    """
    parts = urlsplit(request.url)
    body = request.body.encode() if isinstance(request.body, str) else request.body
    if request.method != "POST" or parts.query or parts.scheme not in _PORTS:
        return None
    if not isinstance(body, bytes) or get_environ_proxies(request.url):
        return None
    headers = {name.lower(): _text(value) for name, value in request.headers.items()}
    headers.setdefault("host", _host_of(request.url))
    authorization = headers.get("authorization", "")
    scope = _AUTHORIZATION.match(authorization)
    if scope is None:
        return None
    path = quote(normalize_url_path(parts.path), safe="/~")
    signer = Signer(scope["region"], scope["service"])
    lines = lines_of({name: headers.get(name, "") for name in scope["signed"].split(";")})
    moment = headers.get("x-amz-date", "")
    if signer.authorization(_keys_of(credentials), moment, path, lines, body) != authorization:
        return None
    return CallPlace(
        url=request.url,
        origin=f"{parts.scheme}://{parts.netloc}",
        target=parts.path or "/",
        path=path,
        host=headers["host"],
        headers={name: value for name, value in headers.items() if name not in _OF_ONE_REQUEST},
        signer=signer,
    )


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _keys_of(credentials: ReadOnlyCredentials) -> tuple[str, str]:
    return str(credentials.access_key), str(credentials.secret_key)


def _host_of(url: str) -> str:
    """The header Host: without the port that the scheme has anyway."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    name = f"[{host}]" if ":" in host else host
    return name if parts.port in (None, _PORTS[parts.scheme]) else f"{name}:{parts.port}"
