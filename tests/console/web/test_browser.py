"""The page in Chromium: it is seen, clicked, and attacked from another port."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import BrowserContext, Page, Playwright, sync_playwright

from console.operations import aws
from console.operations.audit_lines import BY_PAGE
from console.operations.session import Session
from console.web.guard import PageGuard
from console.web.server import page_of
from deadletter.circuit.state import State
from deadletter.failure.failure import Blame
from deadletter.failure.ledger import AboutLetter
from sandbox.demo.page import page as demo_page
from tests.console.cli.test_replay_report import RUN, kept, run
from tests.console.conftest import REGION, Cloud, FakeLambda
from tests.e2e.browser import needs_chromium, program
from tests.e2e.test_replay_page import broken
from tests.e2e.test_replay_page import page as account_page
from tests.sandbox.demo_report import report

pytestmark = needs_chromium

ROOT = Path(__file__).parents[3]

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"

PICTURES = ROOT / "build" / "ui"

LONG = "cedar-" + "x" * 180
"""A name that fits nowhere."""


@dataclass
class Seen:
    """A tab, and what it said: errors of its console, and addresses that it asked for."""

    page: Page
    guard: PageGuard
    errors: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def open(self, path: str = "") -> None:
        self.page.goto(f"http://127.0.0.1:{self.guard.port}{self.guard.root}{path}")

    def click(self, name: str) -> None:
        self.page.get_by_role("button", name=name).first.click()

    @property
    def text(self) -> str:
        return self.page.inner_text("main")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    playwright: Playwright
    with sync_playwright() as playwright:
        sandboxed = [] if os.geteuid() else ["--no-sandbox"]
        browser = playwright.chromium.launch(executable_path=program(), args=sandboxed)
        yield browser
        browser.close()


@pytest.fixture
def app(cloud: Cloud, functions: FakeLambda) -> dict[str, str]:
    """A pipeline in trouble, with names too long for any screen; IDs of its messages."""
    settings = {"consumer_library": True, "context": {"tenantId": "body.tenant"}}
    cloud.deploy("orders", parking=("default", "fix"), context=("tenantId",), settings=settings)
    functions.configure("orders", **settings)
    functions.routes = True
    now, ids = time.time(), {}
    kinds: dict[str, dict[str, Any]] = {
        "down": {"error_type": "HTTPError", "http_status": 503, "blame": Blame.DEPENDENCY},
        "bug": {"error_type": "KeyError", "message": "no price " + "y" * 200},
    }
    for number, (name, facts) in enumerate(kinds.items()):
        ids[name] = cloud.letter(json.dumps({"tenant": LONG}))
        about = AboutLetter({"tenantId": LONG})
        cloud.failed(
            "orders", ids[name], about, at=now - 60, fingerprint=f"{number}abc" * 4, **facts
        )
    ids["order"] = cloud.letter(json.dumps({"tenant": "cedar", "price": 0}))
    cloud.failed("orders", ids["order"], error_type="ValueError", fingerprint="2abc" * 4)
    cloud.park("orders", "POISON", "{}")
    cloud.circuit("orders", "orders", State.OPEN)
    cloud.waiting("orders", "circuit:orders", 12)
    cloud.replay(run(because=LONG, counts={"RECOVERED": 3, "PARKED": 1}), why=LONG)
    kept(cloud)
    cloud.rule("stop-cedar", tenantId="cedar", action="HOLD", reason="503 " + "z" * 120)
    return ids


@pytest.fixture
def tab(app: dict[str, str], chromium: Chromium, request: pytest.FixtureRequest) -> Iterator[Seen]:
    """The page, opened by its address; a test may ask for another scheme and width."""
    options: dict[str, Any] = getattr(request, "param", {})
    numbers = iter(range(9))
    guard = PageGuard(secret=lambda: f"secret-{next(numbers)}", clock=time.monotonic)
    listening = socket.create_server(("127.0.0.1", 0))
    guard.port = listening.getsockname()[1]
    session = Session(lambda: aws.connect(None, REGION), "deadletter", time.time, via=BY_PAGE)
    # Clients are made in this thread, as the server's own threads may not.
    _ = session.aws.sqs, session.aws.dynamodb, session.aws.cloudwatch, session.aws.ssm
    config = uvicorn.Config(
        page_of(session, guard, acts=True), access_log=False, log_level="error", lifespan="off"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
    thread.start()
    context = chromium.new_context(**{"viewport": {"width": 1200, "height": 800}, **options})
    seen = _seen(context, guard)
    seen.page.goto(guard.address)
    seen.page.wait_for_url(f"**{guard.root}")
    yield seen
    context.close()
    server.should_exit = True
    thread.join()


def _heard(seen: Seen, kind: str, text: str) -> None:
    """A person who is quicker than the focus is told so, and that is no fault of the page."""
    if kind in ("error", "warning"):
        seen.errors.append(text)


def _seen(context: BrowserContext, guard: PageGuard) -> Seen:
    seen = Seen(context.new_page(), guard)
    seen.page.on("console", lambda said: _heard(seen, said.type, said.text))
    seen.page.on("pageerror", lambda error: seen.errors.append(str(error)))
    seen.page.on("request", lambda asked: seen.asked.append(asked.url))
    return seen


def screens(app: dict[str, str]) -> dict[str, str]:
    return {
        "now": "",
        "causes": "causes",
        "cause": "causes/" + "0abc" * 4,
        "find": "find?q=status%3E499",
        "message": f"m/{app['down']}",
        "runs": "runs",
        "run": f"runs/{RUN}",
        "form": "form/rules-add?pipeline=orders&action=HOLD&expires=24h&rule=stop",
    }


def faults(page: Page) -> list[tuple[str, list[str]]]:
    """What axe finds, with the elements."""
    # By the DevTools, which the page's policy does not bind.
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run().then((done) => done.violations)")
    return [(each["id"], [node["html"] for node in each["nodes"]]) for each in found]


@pytest.mark.slow_because("Chromium draws eight screens, and each is judged")
@pytest.mark.parametrize(
    ("tab", "name"),
    [
        ({"color_scheme": "light"}, "wide"),
        ({"color_scheme": "dark"}, "dark"),
        ({"viewport": {"width": 390, "height": 800}}, "narrow"),
    ],
    indirect=["tab"],
)
def test_each_screen_fits_is_silent_and_asks_nobody_else(
    app: dict[str, str], tab: Seen, name: str
) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    for screen, path in screens(app).items():
        tab.open(path)
        tab.page.screenshot(path=PICTURES / f"{screen}-{name}.png", full_page=True)
        width = tab.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert width <= 0, f"{screen} is {width} pixels too wide"
        assert faults(tab.page) == [], screen
    assert tab.errors == []
    home = f"http://127.0.0.1:{tab.guard.port}{tab.guard.root}"
    assert [url for url in tab.asked if not url.startswith(home)] == []


@pytest.mark.slow_because("Chromium draws two pages, and each is judged")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1200])
def test_a_page_that_is_one_file_fits_and_has_no_fault(
    chromium: Chromium, tmp_path: Path, width: int, scheme: Any
) -> None:
    file = tmp_path / "page.html"
    with chromium.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme
    ) as context:
        page = context.new_page()
        for text in (account_page(broken(7)), demo_page(report())):
            file.write_text(text)
            page.goto(file.as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert faults(page) == []


def test_a_message_is_found_edited_and_sent_again_by_clicks(app: dict[str, str], tab: Seen) -> None:
    tab.open()
    tab.page.get_by_placeholder("ID, or tenant=cedar").fill(app["order"])
    tab.page.keyboard.press("Enter")
    tab.page.get_by_role("link", name=app["order"][:13]).click()
    tab.click("Edit and send")
    editor = tab.page.get_by_label("The message")
    editor.fill(editor.input_value().replace('"price": 0', '"price": 7'))
    tab.click("Plan it")
    assert '"price": 7' in tab.text
    assert "Nothing was changed yet" in tab.text
    tab.open(f"m/{app['order']}")
    tab.click("Retry")
    tab.page.get_by_label("Reason").fill("the price is right")
    tab.click("Retry 1 message")
    tab.page.wait_for_url("**/runs/*")
    assert "PLANNED" in tab.text or "HELD" in tab.text
    assert tab.errors == []


def test_a_circuit_is_closed_by_the_keyboard_alone(
    app: dict[str, str], tab: Seen, dlq: Any
) -> None:
    tab.open("runs")
    button = tab.page.get_by_role("button", name="Close for 10m")
    for _ in range(80):
        tab.page.keyboard.press("Tab")
        if button.evaluate("(each) => each === document.activeElement"):
            break
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_function("document.activeElement.name === 'reason'")
    tab.page.keyboard.type("false alarm")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector("h1:has-text('done')")
    [row] = json.loads(dlq("circuit", "list", "--json").stdout)["circuits"]
    assert (row["state"], row["forced_reason"]) == ("CLOSED", "false alarm")


@pytest.fixture
def elsewhere() -> Iterator[Callable[[str], str]]:
    """A page of another port of this machine; gives its address."""
    pages: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(pages.get(self.path, b""))

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever).start()

    def page(text: str) -> str:
        pages["/x"] = text.encode()
        return f"http://127.0.0.1:{server.server_port}/x"

    yield page
    server.shutdown()
    server.server_close()


def test_a_page_of_another_port_reads_frames_and_sends_nothing(
    app: dict[str, str], tab: Seen, elsewhere: Callable[[str], str]
) -> None:
    home = f"http://127.0.0.1:{tab.guard.port}{tab.guard.root}"
    tab.page.goto(
        elsewhere(
            f"""<form id=f method=post action="{home}plan/circuit-open">
            <input name=form value={tab.guard.form}><input name=pipeline value=orders>
            <input name=expires value=2h></form><iframe src="{home}"></iframe>"""
        )
    )
    read = (
        """(url) => fetch(url, {credentials: "include"}).then((a) => a.text(), () => "refused")"""
    )
    assert tab.page.evaluate(read, home) == "refused"
    assert not any(frame.url.startswith(home) for frame in tab.page.frames[1:])
    tab.page.evaluate("document.getElementById('f').submit()")
    tab.page.wait_for_url(f"{home}plan/circuit-open")
    assert tab.page.inner_text("body") == "Another page has asked for this."


def test_the_address_that_was_opened_opens_nothing_more(tab: Seen, chromium: Chromium) -> None:
    context = chromium.new_context()
    stranger = _seen(context, tab.guard)
    stranger.page.goto(tab.guard.address.rpartition("=")[0] + "=secret-3")
    assert "opened before" in stranger.page.inner_text("body")
    stranger.open()
    assert "good for one browser" in stranger.page.inner_text("body")
    context.close()
