"""The page in Chromium: it is seen, clicked, and attacked from another port."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from console.web.guard import PageGuard
from sandbox.demo.page import page as demo_page
from tests.chromium import Tab
from tests.console.cli.test_replay_report import RUN
from tests.e2e.test_replay_page import broken
from tests.e2e.test_replay_page import page as account_page
from tests.sandbox.demo_report import report

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
    app: dict[str, str], tab: Tab, name: str
) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    for screen, path in screens(app).items():
        tab.open(path)
        tab.page.screenshot(path=PICTURES / f"{screen}-{name}.png", full_page=True)
        width = tab.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert width <= 0, f"{screen} is {width} pixels too wide"
        assert faults(tab.page) == [], screen
    assert tab.errors == []
    assert [url for url in tab.asked if not url.startswith(tab.home)] == []


@pytest.mark.slow_because("Chromium draws two pages, and each is judged")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1200])
def test_a_page_that_is_one_file_fits_and_has_no_fault(
    chromium: Browser, tmp_path: Path, width: int, scheme: Any
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


FOCUS = """() => {
  const style = getComputedStyle(document.activeElement);
  return document.activeElement === document.body
    || (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2);
}"""
"""Whether a person sees where the focus is."""


def reach(tab: Tab, role: Any, name: str) -> None:
    """Press Tab until an element has the focus, which is seen wherever it stops."""
    wanted = tab.page.get_by_role(role, name=name, exact=True).first
    for _ in range(120):
        tab.page.keyboard.press("Tab")
        assert tab.page.evaluate(FOCUS), tab.page.evaluate("document.activeElement.outerHTML")
        if wanted.evaluate("(each) => each === document.activeElement"):
            return
    raise AssertionError(f"{name} is not reached by Tab")


def give_reason(tab: Tab, reason: str) -> None:
    """Type why, where a plan asks for it, and agree."""
    tab.page.wait_for_selector("[name=reason]:focus")
    tab.page.keyboard.type(reason)
    tab.page.keyboard.press("Enter")


def close_a_circuit(tab: Tab, app: dict[str, str]) -> None:
    tab.open("runs")
    reach(tab, "button", "Close for 10m")
    tab.page.keyboard.press("Enter")


def retry_what_was_found(tab: Tab, app: dict[str, str]) -> None:
    tab.open()
    reach(tab, "textbox", "IDs, or terms such as tenant=cedar")
    tab.page.keyboard.type("status=503")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url("**/find?q=*")
    reach(tab, "checkbox", app["down"])
    tab.page.keyboard.press("Space")
    reach(tab, "button", "Retry the chosen")
    tab.page.keyboard.press("Enter")


def discard_a_message(tab: Tab, app: dict[str, str]) -> None:
    tab.open(f"m/{app['order']}")
    reach(tab, "button", "Discard")
    tab.page.keyboard.press("Space")


def stop_a_cause_by_a_rule(tab: Tab, app: dict[str, str]) -> None:
    tab.open("causes/" + "1abc" * 4)
    reach(tab, "link", "Stop by a rule")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url("**/form/rules-add?*")
    reach(tab, "button", "Plan it")
    tab.page.keyboard.press("Space")


@pytest.mark.parametrize(
    ("act", "end", "row"),
    [
        (close_a_circuit, "done", ["circuit close", "circuit orders"]),
        (retry_what_was_found, "Run ", ["retry", "run "]),
        (discard_a_message, "Run ", ["discard", "run "]),
        (stop_a_cause_by_a_rule, "done", ["rules add", "rule stop-1abc1abc"]),
    ],
    ids=["circuit", "retry", "discard", "rule"],
)
def test_each_act_is_done_by_the_keyboard_alone(
    app: dict[str, str], tab: Tab, dlq: Any, act: Any, end: str, row: list[str]
) -> None:
    act(tab, app)
    give_reason(tab, "the bank is back")
    tab.page.wait_for_selector(f"h1:has-text('{end}')")
    changes = json.loads(dlq("audit", "--json").stdout)["changes"]
    [change] = [each for each in changes if each["command"] == row[0]]
    assert (change["via"], change["why"]) == ("dlq ui", "the bank is back")
    assert change["target"].startswith(row[1])
    assert tab.errors == []


@pytest.mark.parametrize("tab", [{"reduced_motion": "reduce"}], indirect=True)
def test_nothing_moves_for_who_wants_no_motion(app: dict[str, str], tab: Tab) -> None:
    moves = """() => [...document.querySelectorAll("*")].filter((each) => {
      const style = getComputedStyle(each);
      return style.animationName !== "none" || parseFloat(style.transitionDuration) > 0;
    }).length"""
    for path in ("", "causes", "runs"):
        tab.open(path)
        assert tab.page.evaluate(moves) == 0, path


def test_a_hidden_tab_asks_for_nothing(app: dict[str, str], tab: Tab) -> None:
    tab.page.clock.install()
    tab.open("runs")
    hide = "(yes) => Object.defineProperty(document, 'hidden', {value: yes, configurable: true})"
    for is_hidden in (False, True, False):
        tab.page.evaluate(hide, is_hidden)
        tab.page.evaluate("document.querySelector('h1').dataset.old = 'yes'")
        tab.asked.clear()
        if is_hidden:
            tab.page.clock.run_for(60_000)
            assert tab.asked == []
        else:
            tab.page.clock.run_for(10_500)
            # The next look is planned once this one is in the page.
            tab.page.wait_for_selector("h1:not([data-old])")
    assert tab.errors == []


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
