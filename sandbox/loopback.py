"""An HTTP endpoint on this machine."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

# How long its end may take.
POLL_SECONDS = 0.05


class LoopbackEndpoint(ABC):
    """Answers POSTs on a free port while it is entered; a context manager.

    `answer` runs in a thread of its own for each connection.
    """

    def __init__(self) -> None:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                self.send_response(endpoint.answer(self.path[1:], body, self.headers))
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Keep the terminal for the display."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(POLL_SECONDS,), name="endpoint", daemon=True
        )

    @abstractmethod
    def answer(self, path: str, body: bytes, headers: Message) -> HTTPStatus:
        """The status for one POST; `path` is without its first slash."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def address(self, path: str = "") -> str:
        """Where it is posted to."""
        return f"http://127.0.0.1:{self._server.server_port}/{path}"
