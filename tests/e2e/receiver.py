"""A real HTTP endpoint on loopback that answers as a test tells it to."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.e2e import canaries


@dataclass(frozen=True, slots=True)
class Post:
    """One POST, and how it was answered; the names of `headers` are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class Receiver:
    """Answers requests for /<name> with the status set for that name (200).

    One of `judges` decides by the body instead.

    It keeps every POST, and beside them the bodies of those that it took.
    """

    def __init__(self) -> None:
        self.statuses: defaultdict[str, int] = defaultdict(lambda: 200)
        self.judges: dict[str, Callable[[bytes], int]] = {}
        self.posts: defaultdict[str, list[Post]] = defaultdict(list)
        self.bodies: defaultdict[str, list[str]] = defaultdict(list)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                name = self.path.partition("?")[0].strip("/")
                body = self.rfile.read(int(self.headers["content-length"]))
                judge = receiver.judges.get(name)
                status = judge(body) if judge else receiver.statuses[name]
                headers = {key.lower(): value for key, value in self.headers.items()}
                receiver.posts[name].append(Post(status, headers, body))
                if status < 300:
                    receiver.bodies[name].append(body.decode())
                self._answer(status)

            def do_HEAD(self) -> None:
                self._answer(200)

            def _answer(self, status: int) -> None:
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def url(self, name: str) -> str:
        """Where `name` is posted to; the query is a secret, as in many a webhook's URL."""
        port = self._server.server_address[1]
        return f"http://127.0.0.1:{port}/{name}?token={canaries.URL}"

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
