"""The health URL is called by GET through the URL guard, and only 2xx is well."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from deadletter.outage.health import BELIEVED_SECONDS, believed, http_trouble
from deadletter.testing.clock import Clock
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

    trouble = http_trouble(URL, exchange)
    assert trouble == ("" if well else f"the health URL answers HTTP {status}")
    assert asked == [("GET", "status.example", "/up?deep=1", b"", {})]


@pytest.mark.parametrize("error", [NoAnswer("no"), AnswerTimeout("late")])
def test_no_answer_is_not_well(error: Exception) -> None:
    def exchange(*_: object) -> HttpResponse:
        raise error

    assert http_trouble(URL, exchange) == f"the health URL gives no answer: {error}"


@pytest.mark.parametrize("url", ["http://status.example/", "https://10.0.0.1/", "file:///etc"])
def test_a_refused_url_is_not_called(url: str) -> None:
    def exchange(*_: object) -> HttpResponse:
        raise AssertionError("asked")

    assert http_trouble(url, exchange).startswith("the health URL is not asked: ")


def test_an_answer_is_believed_for_a_while_so_that_the_page_is_asked_so_often_and_no_more() -> None:
    clock, answers, asked = Clock(), ["", "the health URL answers HTTP 503", ""], [0]

    def page() -> str:
        asked[0] += 1
        return answers[asked[0] - 1]

    trouble = believed(page, clock)
    said = []
    for _ in range(30):
        said.append(trouble())
        clock.advance(1.0)
    assert asked == [3]
    assert [text for number, text in enumerate(said) if number % BELIEVED_SECONDS == 0] == answers


def test_a_page_that_hangs_is_asked_no_sooner_after_its_answer() -> None:
    """The pause begins with the answer: a run goes on between two looks at a slow page."""
    clock, asked = Clock(), []

    def page() -> str:
        asked.append(clock())
        clock.advance(5.0)
        return ""

    trouble = believed(page, clock)
    trouble()
    clock.advance(BELIEVED_SECONDS - 0.5)
    trouble()
    clock.advance(1.0)
    trouble()
    assert asked[1] - asked[0] == 5.0 + BELIEVED_SECONDS + 0.5
