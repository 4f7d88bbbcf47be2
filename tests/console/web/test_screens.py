"""Each screen shows what its verb answers, and what the same is in a terminal."""

from __future__ import annotations

import html
import json
import time
from collections.abc import Callable
from unittest.mock import Mock

import pytest

from console.cli import output
from console.web.screens import Screens
from deadletter.contract import Blame
from tests.console.conftest import Cloud, Dlq
from tests.console.web.conftest import Browser
from tests.each_row import each_row

LIBRARY = {"consumer_library": True}
Opened = Callable[..., Browser]


@pytest.fixture
def failed(cloud: Cloud) -> str:
    """An app with a message that fails; its ID."""
    cloud.deploy("orders", settings=LIBRARY)
    id_ = cloud.letter("{}")
    facts = {"error_type": "HTTPError", "http_status": 503, "fingerprint": "f503" * 4}
    cloud.failed("orders", id_, at=time.time() - 60, blame=Blame.DEPENDENCY, **facts)
    return id_


@each_row(
    ("path", "shows"),
    [
        ("", ["Nothing needs a person", "orders", "main queue", "arrived", "dlq status"]),
        ("causes", ["1 message in 1 group", "HTTPError 503", "f503f503", "dlq groups orders"]),
        ("causes?by=tenant", ["unknown", "dlq groups orders --by tenant"]),
        ("causes/f503f503", ["HTTPError 503", "dlq circuit list", "dlq show cause:f503f503"]),
        ("find", ["Type an ID"]),
        ("find?q=cause%3Df503f503", ["1 message", "503", "dlq list -f cause=f503f503"]),
        ("find?q=tenant%3Dcedr", ["0 messages", "Not searched"]),
        ("m/{id}", ["failed: 503 HTTPError", "Processed:", "dlq show {id}", "Show the body"]),
        ("runs", ["There is no run", "dlq run list", "nothing is on record"]),
    ],
)
def test_a_screen_shows_what_is_there(
    failed: str, opened: Opened, path: str, shows: list[str]
) -> None:
    answer = opened().get(path.format(id=failed))
    text = html.unescape(answer.text)
    assert answer.status == 200, text
    assert [each for each in shows if each.format(id=failed) not in text] == []
    # Without --act nothing on it changes anything.
    assert "/plan/" not in text
    assert "/form/" not in text


@each_row(
    ("path", "status", "says"),
    [
        ("m/A-4711", 404, "A-4711"),
        ("causes/ffff", 404, "No cause"),
        ("causes?by=colour", 400, "colour"),
        ("find?q=colour%3Dred", 400, "colour"),
        ("runs/f00d", 404, "f00d"),
        ("nothing", 404, "Not Found"),
        ("form/retry", 404, "Not Found"),
    ],
)
def test_what_is_not_there_is_said_in_a_sentence(
    failed: str, opened: Opened, path: str, status: int, says: str
) -> None:
    answer = opened().get(path)
    assert (answer.status, says in html.unescape(answer.text)) == (status, True), answer.text


def test_each_screen_is_shown_where_there_are_several_pipelines(
    failed: str, cloud: Cloud, opened: Opened
) -> None:
    cloud.deploy("bills", "orders")
    browser = opened(acts=True)
    for path in ("", "causes", "causes/f503f503", "find?q=status%3E499", f"m/{failed}", "runs"):
        assert browser.get(path).status == 200, path


def test_one_id_leads_to_its_message(failed: str, opened: Opened) -> None:
    browser = opened()
    found = browser.get(f"find?q={failed}")
    assert found.status == 303, found.text
    assert found.headers["location"] == f"{browser.guard.root}m/{failed}"
    for search in (f"{failed}+status%3E499", f"{failed}&in=dlq", f"{failed}+A-1", "A-1"):
        assert browser.get(f"find?q={search}").status == 200


def test_a_defect_of_the_page_is_said_without_what_it_quotes(
    failed: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = opened()
    broken = Mock(side_effect=KeyError("4111-1111"))
    monkeypatch.setattr("console.operations.groups.read", broken)
    answer = browser.get("causes")
    assert (answer.status, "4111" in answer.text) == (500, False)
    assert "The page itself failed (KeyError)" in answer.text


def test_what_the_page_reads_is_what_the_command_answers(
    failed: str, opened: Opened, dlq: Dlq
) -> None:
    browser = opened()
    answer = output.plain(Screens(browser.session, browser.guard, acts=False).read_now())
    typed = json.loads(dlq("status --flow --json").stdout)
    assert answer["pipelines"] == typed["pipelines"]
    assert answer["flow"] == typed["flow"]
