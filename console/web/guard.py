"""Who may talk to the page: one browser of one person, at exactly this address.

Any page that a person has open can send requests to 127.0.0.1, cookies of 127.0.0.1 are shared by
all its ports, and a name that an attacker owns can be made to point there. So each request needs
the exact Host, a cookie that is sent below one random path alone, and, where it changes something,
this page as its origin and a word that only this page has been told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from hmac import compare_digest
from threading import Lock
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "deadletter"

TOKEN_SECONDS = 60.0
"""How long the address that `dlq ui` prints may be opened."""

LONGEST_SECONDS, IDLE_SECONDS = 8 * 3600.0, 30 * 60.0
"""The page ends after so long, and after so long without a tab."""

MOST_BYTES = 2 * 1024 * 1024
"""The largest form: a message of SQS, escaped."""

ENTER = "enter"

HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass
class PageGuard:
    """The secrets of one page, and whether they were shown; times are seconds of `clock`.

    `secret` makes a new secret, safe in a URL. `port` is known once the page listens.
    """

    secret: Callable[[], str]
    clock: Callable[[], float]
    port: int = 0
    folder: str = field(init=False)
    form: str = field(init=False)
    """What each form of the page carries."""

    def __post_init__(self) -> None:
        self.folder, self.form = self.secret(), self.secret()
        self._cookie, self._token = self.secret(), self.secret()
        self._lock = Lock()
        self._began = self._seen = self.clock()

    @property
    def root(self) -> str:
        """The path under which everything lies."""
        return f"/{self.folder}/"

    @property
    def address(self) -> str:
        """What a person opens, once and soon."""
        return f"http://127.0.0.1:{self.port}{self.root}{ENTER}?token={self._token}"

    @property
    def hosts(self) -> frozenset[str]:
        """The Host of each address that the page has."""
        return frozenset({f"127.0.0.1:{self.port}", f"[::1]:{self.port}"})

    def entered(self, token: str) -> str | None:
        """The cookie for whom opens the address in time, for the first time; else None."""
        with self._lock:
            is_it = bool(self._token) and compare_digest(token.encode(), self._token.encode())
            if not is_it or self.clock() - self._began > TOKEN_SECONDS:
                return None
            self._token = ""
        return f"{COOKIE}={self._cookie}; Path={self.root}; HttpOnly; SameSite=Strict"

    def is_over(self) -> bool:
        """Whether the page has lived its time, or nobody looks at it any more."""
        now = self.clock()
        return now - self._began > LONGEST_SECONDS or now - self._seen > IDLE_SECONDS

    def refusal(self, method: str, path: str, headers: Mapping[str, str]) -> str | None:
        """Why a request is refused; None if it is this page's own."""
        host = headers.get("host", "")
        if host not in self.hosts:
            return "This page has another address."
        if not path.startswith(self.root):
            return "There is nothing here."
        if method not in ("GET", "POST"):
            return "Only GET and POST are understood."
        if path == f"{self.root}{ENTER}":
            return None if method == "GET" else "Open the address that dlq ui has printed."
        if not self._has_cookie(headers.get("cookie", "")):
            return "Open the address that dlq ui has printed: it is good for one browser, once."
        site = headers.get("sec-fetch-site")
        if site not in (None, "none", "same-origin"):
            return "Another page has asked for this."
        origin, own = headers.get("origin"), f"http://{host}"
        if origin != own and (method == "POST" or origin is not None):
            return "Another page has asked for this."
        if method == "POST":
            if site not in (None, "same-origin"):
                return "Another page has asked for this."
            length = headers.get("content-length", "")
            if not (length.isascii() and length.isdigit() and int(length) <= MOST_BYTES):
                return "The form is too large."
        self._seen = self.clock()
        return None

    def is_own_form(self, word: object) -> bool:
        """Whether a form was written by this page."""
        return isinstance(word, str) and compare_digest(word.encode(), self.form.encode())

    def _has_cookie(self, text: str) -> bool:
        # Another port of this machine may have set one of the same name: that locks nobody out.
        own = f"{COOKIE}={self._cookie}".encode()
        return any(compare_digest(each.strip().encode(), own) for each in text.split(";"))


class Guarded:
    """The page behind its guard: what is refused never reaches it."""

    def __init__(self, page: Asgi, guard: PageGuard) -> None:
        self._page, self._guard = page, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            # The page has no sockets.
            await send({"type": "websocket.close"})
            return
        names: dict[str, str] = {}
        for name, value in scope["headers"]:
            # Two of a kind are joined, so that none of them is believed alone.
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            names[key] = f"{names[key]}, {text}" if key in names else text
        why = self._guard.refusal(scope["method"], scope["path"], names)

        async def sealed(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), text.encode()) for name, text in HEADERS.items()]
                message["headers"] = [*message.get("headers", ()), *own]
            await send(message)

        if why is None:
            await self._page(scope, receive, sealed)
            return
        plain = [(b"content-type", b"text/plain; charset=utf-8")]
        await sealed({"type": "http.response.start", "status": 403, "headers": plain})
        await sealed({"type": "http.response.body", "body": why.encode()})
