"""The page in Chromium: it is seen, clicked, and attacked from another port.

By day once, for what only a browser decides; what an answer shows is tested without one.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page

from console.web.guard import PageGuard
from deadletter.circuit.state import State
from deadletter.failure.ledger import AboutLetter
from deadletter.replay.run import ReplayRun
from deadletter.replay.ticket import ReplayOutcome
from sandbox.demo.page import page as demo_page
from tests.chromium import Tab
from tests.console.cli.test_replay_report import RUN
from tests.console.conftest import Cloud
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
        ({"color_scheme": "dark", "viewport": {"width": 390, "height": 800}}, "narrow"),
        pytest.param({"color_scheme": "light"}, "wide", marks=pytest.mark.nightly),
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
@pytest.mark.parametrize(
    ("scheme", "width"), [("light", 390), pytest.param("dark", 1200, marks=pytest.mark.nightly)]
)
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


def test_what_was_found_is_retried_by_the_keyboard_alone(
    app: dict[str, str], tab: Tab, dlq: Any
) -> None:
    press = tab.page.keyboard.press
    tab.open()
    reach(tab, "textbox", "IDs, or terms such as tenant=cedar")
    tab.page.keyboard.type("status=503")
    press("Enter")
    tab.page.wait_for_url("**/find?q=*")
    reach(tab, "checkbox", app["down"])
    press("Space")
    reach(tab, "button", "Retry the chosen")
    press("Enter")
    # A plan has the focus where it asks why.
    tab.page.wait_for_selector("[name=reason]:focus")
    tab.page.keyboard.type("the bank is back")
    press("Enter")
    tab.page.wait_for_selector("h1:has-text('Run ')")
    [change] = json.loads(dlq("audit --json").stdout)["changes"]
    said = (change["command"], change["via"], change["why"], change["target"][:4])
    assert said == ("retry", "dlq ui", "the bank is back", "run ")
    assert tab.errors == []


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("path", "role", "name", "leads"),
    [
        ("runs", "button", "Close for 10m", "**/plan/*"),
        ("m/{order}", "button", "Discard", "**/plan/*"),
        ("causes/" + "1abc" * 4, "link", "Stop by a rule", "**/form/rules-add?*"),
    ],
)
def test_each_act_is_reached_by_the_keyboard(
    app: dict[str, str], tab: Tab, path: str, role: str, name: str, leads: str
) -> None:
    tab.open(path.format(**app))
    reach(tab, role, name)
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url(leads)


@pytest.mark.nightly
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


GETS = """{
  fetch: (url) => fetch(url, {credentials: "include"}).then((a) => a.text()).then(() => true),
  blind: (url) => fetch(url, {credentials: "include", mode: "no-cors"}).then((a) => a.ok),
  image: (url) => loaded("img", "src", url + "static/icon.svg"),
  script: (url) => loaded("script", "src", url + "static/page.js"),
  style: (url) => loaded("link", "href", url + "static/page.css", {rel: "stylesheet"}),
  object: (url) => loaded("object", "data", url, {type: "text/html"}),
  socket: (url) => new Promise((done) => {
    const socket = new WebSocket(url.replace("http", "ws"));
    socket.onopen = () => done(true);
    socket.onerror = () => done(false);
  }),
  beacon: async (url) => navigator.sendBeacon(url + "plan/circuit-open", FORM) && false,
  post: (url) => fetch(url + "plan/circuit-open", {
    method: "POST", credentials: "include", mode: "no-cors", body: FORM,
  }).then((a) => a.ok),
}"""
"""How a page tries to get something of another; each gives whether it did."""


def test_a_page_of_another_port_gets_nothing_whatever_it_tries(
    guard: PageGuard, tab: Tab, elsewhere: Callable[[str], str], dlq: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    home = tab.home
    asked: dict[str, bool] = {}
    refusal = guard.refusal

    def judged(method: str, path: str, headers: Mapping[str, str]) -> str | None:
        why = refusal(method, path, headers)
        if path != "/favicon.ico":
            asked[path.removeprefix(guard.root)] = why == "Another page has asked for this."
        return why

    monkeypatch.setattr(guard, "refusal", judged)
    tab.page.goto(
        elsewhere(
            f"""<form id=f method=post action="{home}plan/circuit-open">
            <input name=form value={guard.form}><input name=pipeline value=orders>
            <input name=expires value=2h></form><iframe src="{home}"></iframe>
            <script>
            const FORM = new URLSearchParams(
              {{form: "{guard.form}", pipeline: "orders", expires: "2h"}});
            const loaded = (name, source, url, more = {{}}) => new Promise((done) => {{
              const each = Object.assign(document.createElement(name), more);
              each.onload = () => done(true);
              each.onerror = () => done(false);
              each[source] = url;
              document.body.append(each);
            }});
            const GETS = {GETS};
            </script>
            <a id=a href="{home}runs">a link</a><a id=w target=_blank href="{home}">a window</a>"""
        )
    )
    kinds = tab.page.evaluate("Object.keys(GETS)")
    assert len(kinds) == 9
    for kind in kinds:
        got = "([kind, url]) => GETS[kind](url).then((yes) => yes, () => false)"
        assert tab.page.evaluate(got, [kind, home]) is False, kind
    assert not any(frame.url.startswith(home) for frame in tab.page.frames[1:])
    with tab.page.context.expect_page() as opened:
        tab.page.click("#w")
    assert opened.value.inner_text("body") == "Another page has asked for this."
    tab.page.evaluate("document.getElementById('f').submit()")
    tab.page.wait_for_url(f"{tab.home}plan/circuit-open")
    assert tab.page.inner_text("body") == "Another page has asked for this."
    tab.page.go_back()
    tab.page.click("#a")
    assert tab.page.inner_text("body") == "Another page has asked for this."
    # The browser sent its cookie along, and each was refused as another page's.
    assert asked == dict.fromkeys(["", "plan/circuit-open", "runs", "static/icon.svg",
                                   "static/page.js", "static/page.css"], True)  # fmt: skip
    assert json.loads(dlq("audit --json").stdout)["changes"] == []


HOSTILE = (
    "<script>window.hacked = 1</script>\"'><img src=x onerror=window.hacked=1>"
    "<a href='javascript:window.hacked=1'>{{ 7*7 }}\u202e\u2066\x00\x1b[2J"
)
LARGE = 200 * 1024


@pytest.fixture
def hostile(app: dict[str, str], cloud: Cloud, dlq: Any) -> str:
    """A message with such text in each of its fields, and 200 KB of it; its ID."""
    body = json.dumps({"tenant": HOSTILE, "price": 0, "x": HOSTILE}, ensure_ascii=False)
    body = body[:-2] + HOSTILE[:90].replace('"', "'") * (LARGE // 90) + '"}'
    shown = HOSTILE.replace("\x00", "").replace("\x1b", "")
    id_ = cloud.letter(body, note=shown, **{"customer.name": shown})
    about = AboutLetter({"tenantId": HOSTILE, "messageType": HOSTILE}, endpoint=HOSTILE)
    facts = {
        "error_type": HOSTILE, "message": HOSTILE, "place": HOSTILE, "request_id": HOSTILE,
        "queue": HOSTILE, "circuit": HOSTILE, "version": HOSTILE, "sent_at": int(time.time()) - 90,
        "sent_because": HOSTILE, "sent_rule": HOSTILE, "attempt": 1,
    }  # fmt: skip
    cloud.failed("orders", id_, about, at=time.time() - 60, fingerprint="9abc" * 4, **facts)
    cloud.failed("orders", f"x{HOSTILE}", about, fingerprint="<img src=x onerror=1>", **facts)
    cloud.park("orders", "POISON", body, because=HOSTILE, sender=HOSTILE, rule=HOSTILE)
    cloud.circuit("orders", HOSTILE, State.OPEN)
    cloud.waiting("orders", f"circuit:{HOSTILE}", 2)
    cloud.rule("r", pattern={"x": [HOSTILE]}, action="HOLD", reason=HOSTILE, created_by=HOSTILE)
    run = ReplayRun(id="fedcba9876543210", pipeline="orders", because=HOSTILE, by=HOSTILE)
    cloud.replay(run, who=HOSTILE, why=HOSTILE)
    cloud.ticket(run.id, id_, "a copy", ReplayOutcome.UNKNOWN)
    dlq("circuit open orders --expires 2h --reason", HOSTILE, "--yes", ends=0)
    return id_


def is_harmless(tab: Tab, screen: str) -> None:
    """What a message says is text on this screen, and fits it."""
    # Without its style, which comes last on a busy machine, no screen fits.
    tab.page.wait_for_load_state()
    foreign = "body script, img, iframe, [onerror], [href^=javascript]"
    assert tab.page.locator(foreign).count() == 0, screen
    assert tab.page.evaluate("window.hacked") is None, screen
    width = tab.page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert width <= 0, f"{screen} is {width} pixels too wide"
    text = tab.page.evaluate("document.documentElement.textContent + document.title")
    assert [each for each in "\u202e\u2066\x00\x1b" if each in text] == [], screen
    # That a screen is refused with a sentence is no fault of it.
    faults = [each for each in tab.errors if not each.startswith("Failed to load resource")]
    assert faults == [], screen


@pytest.mark.nightly
def test_hostile_text_in_each_field_is_text_on_each_screen(
    app: dict[str, str], hostile: str, tab: Tab
) -> None:
    tab.page.on("dialog", lambda dialog: tab.errors.append(dialog.message))
    typed = quote(HOSTILE)
    paths = {
        "now": "", "causes": "causes", "by type": "causes?by=type", "by tenant": "causes?by=tenant",
        "by endpoint": "causes?by=endpoint", "cause": "causes/" + "9abc" * 4,
        "find": "find?q=cause%3D9abc", "find parked": "find?in=parked", "message": f"m/{hostile}",
        "runs": "runs", "run": "runs/fedcba9876543210", "not found": f"m/{typed}",
        "form": f"form/rules-add?rule={typed}&pipeline={typed}&terms={typed}",
        "typed": f"find?q={typed}&in={typed}",
    }  # fmt: skip
    for screen, path in paths.items():
        tab.open(path)
        is_harmless(tab, screen)
        if screen == "causes":
            assert tab.page.locator(".heat th[title*='hacked']").count() == 1
            assert tab.page.locator(".heat td[data-label*='hacked']").count() > 0
    # A name that is in the address is no address of a script's.
    tab.open("causes")
    tab.page.get_by_role("link", name="<img src", exact=False).first.click()
    is_harmless(tab, "a cause of that name")
    tab.open(f"m/{hostile}")
    tab.page.get_by_role("checkbox").check()
    tab.click("Show the body")
    tab.page.wait_for_selector("main pre")
    is_harmless(tab, "body")
    assert len(tab.page.inner_text("pre >> nth=0")) > LARGE
    tab.open(f"m/{hostile}")
    tab.click("Edit and send")
    editor = tab.page.get_by_label("The message")
    is_harmless(tab, "editor")
    assert len(editor.input_value()) > LARGE
    editor.fill(editor.input_value().replace('"price": 0', '"price": 7'))
    tab.click("Plan it")
    is_harmless(tab, "plan")
    assert '"price": 7' in tab.text
    assert [url for url in tab.asked if not url.startswith(tab.home)] == []
