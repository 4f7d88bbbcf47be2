"""Asks a dependency's health URL whether it works, before a letter is tried on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from deadletter.outage.prober import Health
from deadletter.webhook.http import HttpResponse, NoAnswer
from deadletter.webhook.url_guard import Destination, UrlRefused, read_url

Exchange = Callable[[str, Destination, bytes, Mapping[str, str]], HttpResponse]
"""One HTTP exchange through the guard: method, destination, body, headers."""


class HttpHealth(Health):
    """A URL that answers GET with 2xx while the dependency works."""

    def __init__(self, url: str, exchange: Exchange) -> None:
        self._url = url
        self._exchange = exchange

    def is_well(self) -> bool:
        """Whether it answered with 2xx; False if the request failed or was refused."""
        try:
            answer = self._exchange("GET", read_url(self._url), b"", {})
        except (UrlRefused, NoAnswer):
            return False
        return 200 <= answer.status < 300
