"""What another page, another program, or a message tries: the page refuses it."""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from console.web import page
from console.web.acts import ACTS
from console.web.guard import (
    COOKIE,
    HEADERS,
    IDLE_SECONDS,
    LONGEST_SECONDS,
    MOST_BYTES,
    TOKEN_SECONDS,
    PageGuard,
)
from deadletter.failure.ledger import AboutLetter
from tests.console.conftest import Cloud
from tests.console.web.conftest import HOST, ORIGIN, PORT, Browser, Ticking, asked
from tests.each_row import each_row

Opened = Callable[..., Browser]

OWN = {"host": HOST, "sec-fetch-site": "same-origin"}
FORM = {**OWN, "origin": ORIGIN, "content-length": "10"}


@pytest.fixture
def guard(ticking: Ticking) -> PageGuard:
    numbers = iter(range(9))
    return PageGuard(secret=lambda: f"secret-{next(numbers)}", clock=ticking, port=PORT)


def entered(guard: PageGuard) -> str:
    cookie = guard.entered(guard.address.rpartition("=")[2])
    assert cookie is not None
    return cookie


ATTACKS: dict[str, list[tuple[str, str, dict[str, str]]]] = {
    "1. a name or an address of an attacker's that points to this machine": [
        ("GET", "{root}", {"host": "evil.example"}),
        ("GET", "{root}", {"host": f"evil.example:{PORT}"}),
        ("GET", "{root}", {"host": "127.0.0.1"}),
        ("GET", "{root}", {"host": f"localhost:{PORT}"}),
        ("GET", "{root}", {"host": f"0.0.0.0:{PORT}"}),
        ("GET", "{root}", {"host": f"127.0.0.1.:{PORT}"}),
        ("GET", "{root}", {"host": f"[::ffff:127.0.0.1]:{PORT}"}),
        ("GET", "{root}", {"host": f"127.0.0.1:{PORT}, evil.example"}),
        ("GET", "{root}", {"host": ""}),
    ],
    "2. a page of another port, which has the same host and gets its cookies": [
        ("GET", "{root}", {"sec-fetch-site": "same-site"}),
        ("GET", "{root}", {"sec-fetch-site": "cross-site"}),
        ("GET", "{root}", {"sec-fetch-site": "same-origin, cross-site"}),
        # A browser that says no sec-fetch-site.
        ("GET", "{root}", {"sec-fetch-site": "none", "origin": f"http://127.0.0.1:{PORT + 1}"}),
        ("GET", "{root}", {"origin": "null"}),
    ],
    "3. no cookie, or another one": [
        ("GET", "{root}", {"cookie": ""}),
        ("GET", "{root}", {"cookie": f"{COOKIE}=guessed"}),
        ("GET", "{root}", {"cookie": f"{COOKIE}=secret-2x"}),
        ("GET", "{root}", {"cookie": f"x{COOKIE}=secret-2"}),
        ("GET", "{root}", {"cookie": f"{COOKIE}="}),
        ("GET", "{root}", {"cookie": f'{COOKIE}="\\000'}),
        ("GET", "{root}static/page.js", {"cookie": ""}),
        ("POST", "{root}plan/retry", {"cookie": ""}),
    ],
    "4. a path beside the page's own": [
        ("GET", "/", {}),
        ("GET", "/secret-0", {}),
        ("GET", "/SECRET-0/", {}),
        ("GET", "//secret-0/", {}),
        ("GET", "/x/../secret-0/", {}),
        ("GET", "/static/page.js", {}),
    ],
    "5. a form of another page": [
        ("POST", "{root}plan/retry", {"origin": "http://evil.example"}),
        ("POST", "{root}plan/retry", {"origin": f"http://127.0.0.1:{PORT + 1}"}),
        ("POST", "{root}plan/retry", {"origin": f"https://{HOST}"}),
        ("POST", "{root}plan/retry", {"origin": "null"}),
        ("POST", "{root}plan/retry", {"origin": ""}),
        ("POST", "{root}plan/retry", {"origin": f"http://[::1]:{PORT}"}),
        ("POST", "{root}plan/retry", {"sec-fetch-site": "none"}),
        ("POST", "{root}plan/retry", {"sec-fetch-site": "same-site"}),
    ],
    "6. a form that is too large, or of a length that nobody says": [
        ("POST", "{root}plan/retry", {"content-length": str(MOST_BYTES + 1)}),
        ("POST", "{root}plan/retry", {"content-length": "-1"}),
        ("POST", "{root}plan/retry", {"content-length": "1_0"}),
        ("POST", "{root}plan/retry", {"content-length": ""}),
    ],
    "7. another method": [
        ("PUT", "{root}", {}),
        ("OPTIONS", "{root}", {}),
        ("TRACE", "{root}", {}),
        ("HEAD", "{root}", {}),
        ("POST", "{root}enter", {}),
    ],
}
"""What is refused before any screen is asked: forty-five requests, of seven kinds.

The other kinds have tests of their own, here or in Chromium: 8. the address of the page used twice,
too late or guessed; 9. a form without the page's word; 10. a header sent twice; 11. a frame, an
image, a script, a style, a socket or a window of another page; 12. HTML and scripts in what a
message says; 13. a change where none was allowed, or a plan carried out twice; 14. a path out of
the folder of files.
"""


@each_row(
    ("method", "path", "changes"),
    [row for rows in ATTACKS.values() for row in rows],
    ids=[f"{kind[:2]} {row}" for kind, rows in ATTACKS.items() for row in rows],
)
def test_what_is_not_this_pages_own_is_refused(
    guard: PageGuard, method: str, path: str, changes: dict[str, str]
) -> None:
    guard.entered(guard.address.rpartition("=")[2])
    own = {**(FORM if method == "POST" else OWN), "cookie": f"{COOKIE}=secret-2"}
    target = path.format(root=guard.root)
    assert guard.refusal(method, target, {**own, **changes}) is not None
    if changes:
        # Nothing but the change is the reason.
        refused = guard.refusal(method, target, own)
        assert refused is None or path in ("{root}enter",)


@each_row(
    ("method", "changes"),
    [
        ("GET", {}),
        ("GET", {"host": f"[::1]:{PORT}"}),
        ("GET", {"sec-fetch-site": "none"}),
        ("GET", {"cookie": f"theirs=1; {COOKIE}=secret-2"}),
        # Any port of this machine can set a cookie of that name: that locks nobody out.
        ("GET", {"cookie": f"{COOKIE}=secret-2; {COOKIE}=of-another-port"}),
        ("GET", {"origin": ORIGIN}),
        ("POST", {}),
        ("POST", {"host": f"[::1]:{PORT}", "origin": f"http://[::1]:{PORT}"}),
    ],
)
def test_what_is_this_pages_own_is_served(
    guard: PageGuard, method: str, changes: dict[str, str]
) -> None:
    own = {**(FORM if method == "POST" else OWN), "cookie": f"{COOKIE}=secret-2", **changes}
    assert guard.refusal(method, guard.root, own) is None


def test_the_address_opens_the_page_once_and_in_time(guard: PageGuard, ticking: Ticking) -> None:
    assert guard.entered("guessed") is None
    assert guard.entered("") is None
    cookie = entered(guard)
    assert f"Path={guard.root};" in cookie
    assert {"HttpOnly", "SameSite=Strict"} <= set(cookie.split("; "))
    assert guard.entered(guard.address.rpartition("=")[2]) is None
    assert guard.entered("secret-3") is None


def test_the_address_is_too_old_after_a_minute(guard: PageGuard, ticking: Ticking) -> None:
    ticking.now += TOKEN_SECONDS + 1
    assert guard.entered(guard.address.rpartition("=")[2]) is None


def test_the_page_ends_without_a_tab_and_after_its_time(guard: PageGuard, ticking: Ticking) -> None:
    own = {**OWN, "cookie": f"{COOKIE}=secret-2"}
    began = ticking.now
    ticking.now = began + IDLE_SECONDS
    assert not guard.is_over()
    assert guard.refusal("GET", guard.root, {**own, "host": "evil.example"}) is not None
    ticking.now += 1
    assert guard.is_over()
    assert guard.refusal("GET", guard.root, own) is None
    assert not guard.is_over()
    ticking.now = began + LONGEST_SECONDS + 1
    assert guard.refusal("GET", guard.root, own) is None
    assert guard.is_over()


def test_a_refused_request_reaches_no_screen_and_is_sealed_too(opened: Opened) -> None:
    answer = opened().get("", host="evil.example")
    assert (answer.status, answer.text) == (403, "This page has another address.")
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS


def test_the_address_that_was_opened_and_what_is_below_it_open_nothing_more(opened: Opened) -> None:
    browser = opened()
    browser.headers.clear()
    again, below = browser.get("enter?token=secret-3"), browser.get()
    assert (again.status, "opened before" in again.text) == (403, True)
    assert (below.status, "good for one browser" in below.text) == (403, True)


def test_two_headers_of_a_kind_are_believed_both_or_not_at_all(opened: Opened) -> None:
    browser = opened()
    twice = {**OWN, **browser.headers, "Host": "evil.example"}
    assert asked(browser.page, "GET", browser.guard.root, twice, b"").status == 403


def test_no_path_leads_out_of_the_folder_of_files(cloud: Cloud, opened: Opened) -> None:
    cloud.deploy("orders")
    browser = opened(acts=True)
    for path in ("../guard.py", "%2e%2e/guard.py", "..%2fguard.py", "..%5cguard.py", "/etc/passwd",
                 "....//guard.py", "page.js%00", "templates/base.html"):  # fmt: skip
        assert browser.get(f"static/{path}").status == 404, path
    assert browser.get("static/page.js").status == 200


def test_a_socket_is_closed(opened: Opened) -> None:
    browser = opened()
    said: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        said.append(message)

    headers = [(b"host", HOST.encode()), (b"cookie", browser.headers["cookie"].encode())]
    scope = {"type": "websocket", "path": browser.guard.root, "headers": headers}
    asyncio.run(browser.page(scope, receive, send))
    assert said == [{"type": "websocket.close"}]


def test_a_form_without_the_pages_word_is_refused(cloud: Cloud, opened: Opened) -> None:
    cloud.deploy("orders")
    browser = opened(acts=True)
    for path in ("plan/circuit-open", "do/guessed", "m/A-4711", "find"):
        for word in ("", "guessed", browser.guard.form + "x"):
            answer = browser.post(path, form=word, pipeline="orders", expires="2h")
            assert (answer.status, "Another page" in answer.text) == (403, True), path


def test_each_answer_is_sealed_and_runs_no_script_but_its_own(cloud: Cloud, opened: Opened) -> None:
    cloud.deploy("orders")
    browser = opened(acts=True)
    for path in ("", "find", "runs", "form/rules-add", "static/page.js", "nothing"):
        answer = browser.get(path)
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
        assert re.findall(r"<script(?![^>]* src=)", answer.text) == []
        assert re.findall(r"<[^>]*\s(?:style|on\w+)=", answer.text) == []
    policy = HEADERS["content-security-policy"]
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'")


HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{ 7*7 }}\u202e\x1b[2J"


def test_no_template_lets_a_text_be_a_part_of_the_page() -> None:
    templates = Path(page.__file__).parent / "templates"
    for path in templates.glob("*.html"):
        # A page that is one file has the style in it, which is ours.
        text = path.read_text().replace('<style>\n{% include "page.css" %}', "")
        assert not re.search(r"\|\s*safe|autoescape|hx-on|javascript:|<style|\son\w+=", text), path


def test_what_a_message_says_is_shown_as_text(cloud: Cloud, opened: Opened) -> None:
    cloud.deploy("orders", context=("tenantId",), settings={"consumer_library": True})
    id_ = cloud.letter(json.dumps({"x": HOSTILE}), note=HOSTILE.replace("\x1b", ""))
    about = AboutLetter({"tenantId": HOSTILE}, endpoint=HOSTILE)
    facts = {"error_type": HOSTILE, "message": HOSTILE, "fingerprint": "f" * 16, "place": HOSTILE}
    cloud.failed("orders", id_, about, **facts)
    cloud.rule("r", pattern={"x": [HOSTILE]}, action="HOLD", reason=HOSTILE, created_by=HOSTILE)
    browser = opened(acts=True)
    pages = [browser.get(path) for path in ("", "causes", "causes/ffff", "find?q=cause%3Dffff",
                                            f"m/{id_}", "runs", "find?q=" + "%3Cscript%3E",
                                            "form/rules-add?rule=%22%3E%3Cscript%3E")]  # fmt: skip
    pages.append(browser.post(f"m/{id_}", look="on"))
    for answer in pages:
        assert "alert(1)</script>" not in answer.text
        assert "<img" not in answer.text
        assert "\u202e" not in answer.text
        assert "\x1b" not in answer.text
    shown = html.unescape("".join(answer.text for answer in pages))
    assert "<script>alert(1)</script>" in shown
    assert "{{ 7*7 }}" in shown


def test_what_changes_something_is_there_only_for_who_asked_for_it(
    cloud: Cloud, opened: Opened
) -> None:
    cloud.deploy("orders")
    browser = opened()
    for words in ACTS:
        answer: Any = browser.post(f"plan/{words.replace(' ', '-')}", pipeline="orders")
        assert answer.status == 404, words
