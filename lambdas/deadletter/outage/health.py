"""Asks a dependency's health URL whether it works, before a letter is tried on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from deadletter.webhook.http import HttpResponse, NoAnswer
from deadletter.webhook.url_guard import Destination, UrlRefused, read_url

HEALTH_SECONDS = 5.0
"""Seconds that a dependency may take to answer a health check."""

BELIEVED_SECONDS = 10
"""Seconds for which a replay run believes an answer: the longest from a bad one to the last send,
beside the five of a worker's next look, and the bound of how often the page is asked."""

Exchange = Callable[[str, Destination, bytes, Mapping[str, str]], HttpResponse]
"""One HTTP exchange through the guard: method, destination, body, headers."""


Health = Callable[[], str]
"""Says without a letter why the dependency counts as down; empty if it works. Its no is an answer;
its yes is not: a letter is tried if there is one."""


def http_trouble(url: str, exchange: Exchange) -> str:
    """Why the dependency counts as down, without the URL; empty if it answered GET with 2xx."""
    try:
        answer = exchange("GET", read_url(url), b"", {})
    except UrlRefused as refused:
        return f"the health URL is not asked: {refused}"
    except NoAnswer as error:
        return f"the health URL gives no answer: {error}"
    return "" if 200 <= answer.status < 300 else f"the health URL answers HTTP {answer.status}"


def believed(health: Health, clock: Callable[[], float]) -> Health:
    """The health check by an answer that is ten seconds old at most."""
    answer, until = "", clock()

    def trouble() -> str:
        nonlocal answer, until
        if clock() >= until:
            answer = health()
            until = clock() + BELIEVED_SECONDS
        return answer

    return trouble
