"""The receiver of all letters: it keeps what it took, in the order in which it took it."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self


@dataclass(frozen=True, slots=True)
class TakenLetter:
    """A letter that the endpoint has taken: its ordering key and place, and the run it names."""

    key: str
    place: int
    run: str


class ReplayEndpoint:
    """Serves `url`; a context manager. While `broken` is true it answers 503."""

    def __init__(self) -> None:
        self.broken = False
        self.refused = 0
        self._taken: list[TakenLetter] = []
        self._lock = threading.Lock()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                status = endpoint._take(body, self.headers.get("webhook-replay", ""))
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Keep the terminal for what is told."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Where it is posted to."""
        return f"http://127.0.0.1:{self._server.server_port}/"

    @property
    def taken(self) -> tuple[TakenLetter, ...]:
        """Everything that was taken so far, oldest first."""
        with self._lock:
            return tuple(self._taken)

    def _take(self, body: dict[str, object], run: str) -> HTTPStatus:
        with self._lock:
            if self.broken:
                self.refused += 1
                return HTTPStatus.SERVICE_UNAVAILABLE
            self._taken.append(TakenLetter(str(body["key"]), int(str(body["place"])), run))
        return HTTPStatus.OK
