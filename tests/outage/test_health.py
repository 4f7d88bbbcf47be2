"""The health URL is called by GET through the URL guard, and only 2xx is well."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from deadletter.outage.health import HttpHealth
from deadletter.webhook.http import AnswerTimeout, HttpResponse, NoAnswer
from deadletter.webhook.url_guard import Destination
from tests.each_row import each_row

URL = "https://status.example/up?deep=1"


@each_row(
    ("status", "well"),
    [
        (199, False),
        (200, True),
        (204, True),
        (299, True),
        (300, False),
        (301, False),
        (404, False),
        (503, False),
    ],
)
def test_only_status_2xx_is_well(status: int, well: bool) -> None:
    asked = []

    def exchange(
        method: str, destination: Destination, body: bytes, headers: Mapping[str, str]
    ) -> HttpResponse:
        asked.append((method, destination.host, destination.target, body, dict(headers)))
        return HttpResponse(status)

    assert HttpHealth(URL, exchange).is_well() is well
    assert asked == [("GET", "status.example", "/up?deep=1", b"", {})]


@pytest.mark.parametrize("error", [NoAnswer("no"), AnswerTimeout("late")])
def test_no_answer_is_not_well(error: Exception) -> None:
    def exchange(*_: object) -> HttpResponse:
        raise error

    assert not HttpHealth(URL, exchange).is_well()


@pytest.mark.parametrize("url", ["http://status.example/", "https://10.0.0.1/", "file:///etc"])
def test_a_refused_url_is_not_called(url: str) -> None:
    def exchange(*_: object) -> HttpResponse:
        raise AssertionError("asked")

    assert not HttpHealth(url, exchange).is_well()
