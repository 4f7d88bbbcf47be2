"""The page over an app in memory, and a browser's requests to it."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlencode

import pytest
import uvicorn

from console.operations import aws
from console.operations.audit_trail import BY_PAGE
from console.operations.session import Session
from console.web.guard import Asgi, PageGuard
from console.web.server import page_of
from deadletter.circuit.state import State
from deadletter.contract import Blame
from deadletter.failure.ledger import AboutLetter
from deadletter.message.letter import Letter
from deadletter.message.stamp import Stamp
from deadletter.replay.run import ReplayRun, RunState
from deadletter.replay.ticket import ReplayOutcome
from tests.chromium import Tab
from tests.console.cli.test_replay_report import kept, run
from tests.console.conftest import REGION, Cloud, FakeLambda, routed

if TYPE_CHECKING:
    from playwright.sync_api import Browser as Chromium

PORT = 50_123
HOST = f"127.0.0.1:{PORT}"
ORIGIN = f"http://{HOST}"


@dataclass(frozen=True)
class Answered:
    """An answer of the page."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


def asked(page: Asgi, method: str, target: str, headers: dict[str, str], body: bytes) -> Answered:
    """One request to the page, as the server hands it on."""
    path, _, query = target.partition("?")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http",
        "method": method, "path": unquote(path), "raw_path": path.encode(), "root_path": "",
        "query_string": query.encode(), "client": ("127.0.0.1", 1), "server": ("127.0.0.1", PORT),
        "headers": [(name.encode(), text.encode()) for name, text in headers.items()],
    }  # fmt: skip
    sent: list[Any] = []
    received: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        return received.pop() if received else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(page(scope, receive, send))
    start, *rest = sent
    named = {name.decode(): text.decode() for name, text in start["headers"]}
    return Answered(start["status"], named, b"".join(each.get("body", b"") for each in rest))


@dataclass
class Browser:
    """A browser that has opened the page."""

    guard: PageGuard
    page: Asgi
    session: Session
    headers: dict[str, str] = field(default_factory=dict)

    def get(self, path: str = "", **headers: str) -> Answered:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        sent = {"host": HOST, "sec-fetch-site": "same-origin", **self.headers, **named}
        return asked(self.page, "GET", f"{self.guard.root}{path}", sent, b"")

    def post(self, path: str, /, **fields: Any) -> Answered:
        """Send a form of the page; lists repeat."""
        body = urlencode({"form": self.guard.form, **fields}, doseq=True).encode()
        sent = {
            "host": HOST, "origin": ORIGIN, "sec-fetch-site": "same-origin",
            "content-type": "application/x-www-form-urlencoded",
            "content-length": str(len(body)), **self.headers,
        }  # fmt: skip
        return asked(self.page, "POST", f"{self.guard.root}{path}", sent, body)

    def planned(self, path: str, /, **fields: Any) -> str:
        """Plan an act; the path of the button that does it."""
        answer = self.post(f"plan/{path}", **fields)
        assert answer.status == 200, answer.text
        return str(re.findall(r'action="[^"]*/(do/[^"]+)"', answer.text)[0])


@dataclass
class Ticking:
    """A clock that a test sets."""

    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def ticking() -> Ticking:
    return Ticking()


def no_pause(_seconds: float) -> None:
    raise AssertionError("a request waits for nothing")


@pytest.fixture
def opened(cloud: Cloud, ticking: Ticking) -> Callable[..., Browser]:
    """Opens the page, as `dlq ui` and a browser do."""
    numbers = count()

    def open_(
        *, acts: bool = False, enters: bool = True, pause: Callable[[float], None] = no_pause
    ) -> Browser:
        guard = PageGuard(secret=lambda: f"secret-{next(numbers)}", clock=ticking, port=PORT)
        connect = partial(aws.connect, None, REGION)
        session = Session(connect, "deadletter", time.time, pause=pause, via=BY_PAGE)
        browser = Browser(guard, page_of(session, guard, acts=acts), session)
        if enters:
            answer = browser.get(guard.address.partition(guard.root)[2])
            assert answer.status == 200, answer.text
            browser.headers["cookie"] = answer.headers["set-cookie"].partition(";")[0]
        return browser

    return open_


LONG = "cedar-" + "x" * 180
"""A name that fits nowhere."""


@pytest.fixture
def app(cloud: Cloud, functions: FakeLambda) -> dict[str, str]:
    """A pipeline in trouble, with names too long for any screen; IDs of its messages."""
    settings = {"consumer_library": True, "context": {"tenantId": "body.tenant"}}
    routed(cloud, functions, settings, parking=("default", "fix"), context=("tenantId",))
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
    cloud.replay(ReplayRun(id="", pipeline="orders", state=RunState.RUNNING))
    cloud.replay(run(because=LONG, counts={"RECOVERED": 3, "PARKED": 1}), why=LONG)
    kept(cloud)
    thrown = cloud.replay(
        ReplayRun(id="", pipeline="orders", state=RunState.DONE, counts={"DISCARDED": 1}),
        source="parking:default", destination="discard",
    )  # fmt: skip
    cloud.ticket(thrown.id, "thrown-away", "copy", ReplayOutcome.DISCARDED)
    copy, stamp = Letter("copy", "{}"), Stamp("thrown-away")
    cloud.discarded(thrown.id, copy, stamp, at=now, because="a wrong line")
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
def tab(guard: PageGuard, chromium: Chromium, request: pytest.FixtureRequest) -> Iterator[Tab]:
    """The page, opened by its address; a test may ask for another scheme and width."""
    options: dict[str, Any] = getattr(request, "param", {})
    with chromium.new_context(**{"viewport": {"width": 1200, "height": 800}, **options}) as context:
        opened = Tab(context, f"http://127.0.0.1:{guard.port}{guard.root}")
        opened.page.goto(guard.address)
        opened.page.wait_for_url(opened.home)
        yield opened
