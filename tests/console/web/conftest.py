"""The page over an app in memory, and a browser's requests to it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any
from urllib.parse import unquote, urlencode

import pytest

from console.operations import aws
from console.operations.audit_lines import BY_PAGE
from console.operations.session import Session
from console.web.guard import Asgi, PageGuard
from console.web.server import page_of
from tests.console.conftest import REGION, Cloud

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


@pytest.fixture
def opened(cloud: Cloud, ticking: Ticking) -> Callable[..., Browser]:
    """Opens the page, as `dlq ui` and a browser do."""
    numbers = count()

    def open_(
        *, acts: bool = False, enters: bool = True, pause: Callable[[float], None] = time.sleep
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
