"""The page in Chromium: it is seen, clicked, and attacked from another port."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from console.web.guard import PageGuard
from tests.chromium import Tab

ROOT = Path(__file__).parents[3]

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"

PICTURES = ROOT / "build" / "ui"


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
