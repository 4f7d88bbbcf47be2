"""The page in Chromium: it is seen, clicked, and attacked from another port."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser

from console.operations import aws
from console.operations.audit_lines import BY_PAGE
from console.operations.session import Session
from console.web.guard import PageGuard
from console.web.server import page_of
from deadletter.circuit.state import State
from deadletter.failure.failure import Blame
from deadletter.failure.ledger import AboutLetter
from tests.chromium import Tab
from tests.console.conftest import REGION, Cloud, FakeLambda

ROOT = Path(__file__).parents[3]

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"

PICTURES = ROOT / "build" / "ui"

LONG = "cedar-" + "x" * 180
"""A name that fits nowhere."""


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
    for number in range(12):
        about = AboutLetter({"tenantId": "acme" if number % 4 else "cedar"})
        facts = {"at": now - 90, "fingerprint": "0abc" * 4, "version": "4.2", **kinds["down"]}
        cloud.failed("orders", f"more-{number}", about, **facts)
    ids["order"] = cloud.letter(json.dumps({"tenant": "cedar", "price": 0}))
    cloud.failed("orders", ids["order"], error_type="ValueError", fingerprint="2abc" * 4)
    cloud.park("orders", "POISON", "{}")
    cloud.circuit("orders", "orders", State.OPEN)
    cloud.waiting("orders", "circuit:orders", 12)
    cloud.rule("stop-cedar", tenantId="cedar", action="HOLD", reason="503 " + "z" * 120)
    return ids


@pytest.fixture
def guard(app: dict[str, str]) -> Iterator[PageGuard]:
    """The page is served for whom this guard lets in."""
    numbers = iter(range(9))
    made = PageGuard(secret=lambda: f"secret-{next(numbers)}", clock=time.monotonic)
    listening = socket.create_server(("127.0.0.1", 0))
    made.port = listening.getsockname()[1]
    session = Session(lambda: aws.connect(None, REGION), "deadletter", time.time, via=BY_PAGE)
    # Clients are made in this thread, as the server's own threads may not.
    _ = session.aws.sqs, session.aws.dynamodb, session.aws.cloudwatch, session.aws.ssm
    config = uvicorn.Config(
        page_of(session, made, acts=True), access_log=False, log_level="error", lifespan="off"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
    thread.start()
    yield made
    server.should_exit = True
    thread.join()


@pytest.fixture
def tab(guard: PageGuard, chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Tab]:
    """The page, opened by its address; a test may ask for another scheme and width."""
    options: dict[str, Any] = getattr(request, "param", {})
    with chromium.new_context(**{"viewport": {"width": 1200, "height": 800}, **options}) as context:
        opened = Tab(context, f"http://127.0.0.1:{guard.port}{guard.root}")
        opened.page.goto(guard.address)
        opened.page.wait_for_url(opened.home)
        yield opened


def screens(app: dict[str, str]) -> dict[str, str]:
    return {
        "now": "",
        "causes": "causes",
        "cause": "causes/" + "0abc" * 4,
        "find": "find?q=status%3E499",
        "message": f"m/{app['down']}",
        "runs": "runs",
        "form": "form/rules-add?pipeline=orders&action=HOLD&expires=24h&rule=stop",
    }


@pytest.mark.slow_because("Chromium draws seven screens, and each is judged")
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
    app: dict[str, str], tab: Tab, name: str
) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    for screen, path in screens(app).items():
        tab.open(path)
        tab.page.screenshot(path=PICTURES / f"{screen}-{name}.png", full_page=True)
        width = tab.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert width <= 0, f"{screen} is {width} pixels too wide"
        # By the DevTools, which the page's policy does not bind.
        tab.page.evaluate(AXE.read_text())
        found = tab.page.evaluate("axe.run().then((done) => done.violations)")
        faults = [(each["id"], [node["html"] for node in each["nodes"]]) for each in found]
        assert faults == [], screen
    assert tab.errors == []
    assert [url for url in tab.asked if not url.startswith(tab.home)] == []


def test_a_message_is_found_edited_and_sent_again_by_clicks(app: dict[str, str], tab: Tab) -> None:
    tab.open()
    tab.page.get_by_placeholder("ID, or tenant=cedar").fill(app["order"])
    tab.page.keyboard.press("Enter")
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


def test_a_circuit_is_closed_by_the_keyboard_alone(app: dict[str, str], tab: Tab, dlq: Any) -> None:
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
    guard: PageGuard, tab: Tab, elsewhere: Callable[[str], str]
) -> None:
    tab.page.goto(
        elsewhere(
            f"""<form id=f method=post action="{tab.home}plan/circuit-open">
            <input name=form value={guard.form}><input name=pipeline value=orders>
            <input name=expires value=2h></form><iframe src="{tab.home}"></iframe>"""
        )
    )
    read = (
        """(url) => fetch(url, {credentials: "include"}).then((a) => a.text(), () => "refused")"""
    )
    assert tab.page.evaluate(read, tab.home) == "refused"
    assert not any(frame.url.startswith(tab.home) for frame in tab.page.frames[1:])
    tab.page.evaluate("document.getElementById('f').submit()")
    tab.page.wait_for_url(f"{tab.home}plan/circuit-open")
    assert tab.page.inner_text("body") == "Another page has asked for this."


def test_the_address_that_was_opened_opens_nothing_more(
    guard: PageGuard, tab: Tab, chromium: Browser
) -> None:
    with chromium.new_context() as context:
        stranger = Tab(context, tab.home)
        stranger.page.goto(guard.address.rpartition("=")[0] + "=secret-3")
        assert "opened before" in stranger.page.inner_text("body")
        stranger.open()
        assert "good for one browser" in stranger.page.inner_text("body")
