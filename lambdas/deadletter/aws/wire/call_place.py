"""All of a call's requests but time, credentials and body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from deadletter.aws.wire.signature import UNSIGNED, Signer, lines_of

PORTS = {"http": 80, "https": 443}


class Credentials(Protocol):
    """Credentials at one moment, as botocore has them."""

    @property
    def access_key(self) -> str | None: ...

    @property
    def secret_key(self) -> str | None: ...

    @property
    def token(self) -> str | None: ...


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
        self, body: bytes, moment: str, credentials: Credentials, added: Mapping[str, str]
    ) -> dict[str, str]:
        """The headers of one request; `added` may not be any that have to be signed."""
        known, signed, before, after = self._to_sign(credentials.token or "")
        headers = {**known, "x-amz-date": moment}
        headers["authorization"] = self.signer.of_lines(
            *keys_of(credentials), moment, self.path, signed, f"{before}{moment}{after}", body
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


def keys_of(credentials: Credentials) -> tuple[str, str]:
    """The access key and the secret key."""
    return str(credentials.access_key), str(credentials.secret_key)


def host_of(url: str) -> str:
    """The header Host: without the port that the scheme has anyway."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    name = f"[{host}]" if ":" in host else host
    return name if parts.port in (None, PORTS[parts.scheme]) else f"{name}:{parts.port}"
