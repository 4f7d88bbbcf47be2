"""Three endpoints on this machine: one healthy, one down until it is mended, one that refuses."""

import threading
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from sandbox.demo.events import HEALTHY, RECOVERING, REFUSING, TENANTS, digest

# How long its end may take.
POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Visit:
    """One POST and its answer; *attempt* is 1 in a message's first life."""

    tenant: str
    digest: str
    webhook_id: str
    attempt: int
    status: int

    @property
    def accepted(self) -> bool:
        return self.status == HTTPStatus.OK


class Receiver:
    """Serves `url(tenant)` and keeps a record of every visit; a context manager."""

    def __init__(self) -> None:
        self._visits: list[Visit] = []
        self._statuses = {
            HEALTHY: HTTPStatus.OK,
            RECOVERING: HTTPStatus.SERVICE_UNAVAILABLE,
            REFUSING: HTTPStatus.UNPROCESSABLE_ENTITY,
        }
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                self.send_response(receiver._visit(self.path[1:], body, self.headers))
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Keep the terminal for the display."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(POLL_SECONDS,), name="receiver", daemon=True
        )

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
    def visits(self) -> tuple[Visit, ...]:
        """Every visit so far, oldest first."""
        return tuple(self._visits)

    def url(self, tenant: str) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/{tenant}"

    def mend(self) -> None:
        """End the outage."""
        self._statuses[RECOVERING] = HTTPStatus.OK

    def _visit(self, tenant: str, body: bytes, headers: Message) -> HTTPStatus:
        status = self._statuses[tenant] if tenant in TENANTS else HTTPStatus.NOT_FOUND
        # Recorded before it is answered: what the sender does not hear of was still received.
        self._visits.append(
            Visit(
                tenant=tenant,
                digest=digest(body),
                webhook_id=headers["webhook-id"],
                attempt=int(headers["webhook-attempt"]),
                status=status,
            )
        )
        return status
