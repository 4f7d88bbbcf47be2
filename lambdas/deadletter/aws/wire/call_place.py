"""All of a call's requests but time, credentials and body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from deadletter.aws.wire.signature import UNSIGNED, Signer

PORTS = {"http": 80, "https": 443}


class Credentials(Protocol):
    """Credentials at one moment, as botocore has them."""

    @property
    def access_key(self) -> str | None: ...

    @property
    def secret_key(self) -> str | None: ...

    @property
    def token(self) -> str | None: ...


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

    def headers_for(
        self, body: bytes, moment: str, credentials: Credentials, added: Mapping[str, str]
    ) -> dict[str, str]:
        """The headers of one request; `added` may not be any that have to be signed."""
        headers = {**self.headers, "host": self.host, "x-amz-date": moment}
        if credentials.token:
            headers["x-amz-security-token"] = credentials.token
        signed = {name: value for name, value in headers.items() if name not in UNSIGNED}
        headers["authorization"] = self.signer.authorization(
            *keys_of(credentials), moment, self.path, signed, body
        )
        headers["content-length"] = str(len(body))
        return {**headers, **added}

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
