"""A real HTTP endpoint on loopback that answers as a test tells it to."""

from __future__ import annotations

import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.e2e import canaries


class Receiver:
    """Answers POSTs to /<name> with the status set for that name (200), and keeps the bodies."""

    def __init__(self) -> None:
        self.statuses: defaultdict[str, int] = defaultdict(lambda: 200)
        self.bodies: defaultdict[str, list[str]] = defaultdict(list)
        self.headers: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                name = self.path.partition("?")[0].strip("/")
                body = self.rfile.read(int(self.headers["content-length"]))
                status = receiver.statuses[name]
                if status < 300:
                    receiver.bodies[name].append(body.decode())
                    receiver.headers[name].append(dict(self.headers))
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
