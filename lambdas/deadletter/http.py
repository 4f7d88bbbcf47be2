"""Posting over HTTP: one request, no redirects, no proxies from the environment."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

from deadletter.webhook import Undeliverable

_MOST_RESPONSE = 64 * 1024  # bytes: nobody reads more of an endpoint's answer


class Poster:
    """Posts with a time limit of `timeout` seconds for each step of the exchange."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout

    def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        parts = urlsplit(url)
        host = parts.hostname or ""
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(
                host, parts.port, timeout=self._timeout, context=context
            )
        else:
            connection = http.client.HTTPConnection(host, parts.port, timeout=self._timeout)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            connection.request("POST", target, body, dict(headers))
            answer = connection.getresponse()
            answer.read(_MOST_RESPONSE)
            return answer.status
        except TimeoutError as error:
            raise Undeliverable("the endpoint did not answer in time") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Undeliverable(f"no connection: {type(error).__name__}") from error
        finally:
            connection.close()
