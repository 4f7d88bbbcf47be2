"""What a batch of webhooks takes: `python -m lab.bench.webhooks`.

Ten endpoints on this machine, over TLS, each a host of its own, with the round trip of a network
between: 20 ms for each of look-up, connection, handshake and request, and 20 ms of work. The
production dispatcher and its HTTP client post to them, in real time; queue and tables are in
memory.
"""

from __future__ import annotations

import base64
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import socket
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "lambdas"))

from deadletter.contract import Body
from deadletter.processing.crew import Threads
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.webhook import Webhook
from deadletter.testing.letterbox import Letterbox
from deadletter.webhook.connections import KeptConnections
from deadletter.webhook.dispatcher import POSTS_AT_ONCE, Dispatcher, lane_of
from deadletter.webhook.endpoint import Endpoint
from deadletter.webhook.http import HttpsClient, dial
from deadletter.webhook.signing import Secret, read_secret
from sandbox import certificate

TENANTS = [f"t{number}" for number in range(POSTS_AT_ONCE)]
HANGS = TENANTS[0]
BATCHES = 10

ROUND_TRIP = 0.02
"""Seconds that each exchange with an endpoint or the resolver takes on the way."""

WORK = 0.02
"""Seconds that an endpoint takes to answer."""

REQUEST_TIMEOUT = 5.0
"""Seconds that one POST may take: the setting's default."""

SECRET = read_secret("whsec_" + base64.b64encode(b"0" * 24).decode())


class Endpoints:
    """A registry of endpoints, all on one server; one may hang, without an answer until the end."""

    def __init__(self, serving: ssl.SSLContext, *, is_one_hanging: bool) -> None:
        self.delivered: dict[str, float] = {}
        let_go = self._let_go = threading.Event()
        delivered = self.delivered
        if not is_one_hanging:
            let_go.set()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                tenant = self.headers["host"].partition(".")[0]
                self.rfile.read(int(self.headers["content-length"]))
                if tenant == HANGS:
                    let_go.wait()
                time.sleep(ROUND_TRIP + WORK)
                delivered[tenant] = time.perf_counter()
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        # The handshake belongs to the thread of its connection.
        self._server.socket = serving.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._let_go.set()
        self._server.shutdown()
        self._server.server_close()

    def find(self, tenant: str, endpoint: str) -> Endpoint:
        url = f"https://{tenant}.example.com:{self.port}/in"
        return Endpoint(tenant, endpoint, url, secrets=("one",))

    def read(self, _name: str) -> Secret:
        return SECRET

    def disable(self, endpoint: Endpoint, because: str, at: float) -> bool:
        return False

    def throttle(self, endpoint: Endpoint, until: float, status: int, at: float) -> bool:
        return False


class Posting:
    """The dispatcher at work, over connections that stay open; it counts those and look-ups."""

    def __init__(self, endpoints: Endpoints, trust: ssl.SSLContext) -> None:
        self.look_ups = self.connections = 0
        self._endpoints = endpoints
        self._box = Letterbox(Pipeline("bench", context={"tenantId": "body.tenantId"}))
        self._kept = KeptConnections(time.monotonic)
        self._dispatcher = Dispatcher(
            webhook=Webhook(ports=(endpoints.port,)),
            registry=endpoints,
            secrets=endpoints,
            post=HttpsClient(
                REQUEST_TIMEOUT,
                time.monotonic,
                lookup=self._look_up,
                dial=self._dial,
                trust=trust,
                kept=self._kept,
            ),
            body=Body.JSON,
            clock=self._box.clock,
        )

    def close(self) -> None:
        self._kept.close()

    def batch(self) -> tuple[float, float]:
        """Seconds until the endpoints that don't hang have their message, and until the end."""
        self._endpoints.delivered.clear()
        for tenant in TENANTS:
            self._box.send({"tenantId": tenant})
        began = time.perf_counter()
        self._box.run(self._handler)
        ended = time.perf_counter()
        delivered = self._endpoints.delivered.items()
        return max(at for tenant, at in delivered if tenant != HANGS) - began, ended - began

    def _handler(self, event: Any, _: Any) -> None:
        made = self._box.runtime.consumer
        assert made is not None
        crew = Threads(self._box.clock)
        consumer = replace(made, handle=self._dispatcher.deliver, crew=crew)
        deadline = self._box.clock() + 60
        consumer.process(
            event["Records"], deadline=deadline, concurrency=POSTS_AT_ONCE, lane=lane_of
        )

    def _look_up(self, _host: str, _port: int) -> Sequence[str]:
        self.look_ups += 1
        time.sleep(ROUND_TRIP)
        return ["93.184.215.14"]

    def _dial(self, _address: str, port: int, seconds: float) -> socket:
        self.connections += 1
        # The connection and the handshake.
        time.sleep(2 * ROUND_TRIP)
        return dial("127.0.0.1", port, seconds)


@contextmanager
def posting(*, is_one_hanging: bool = False) -> Iterator[Posting]:
    """A dispatcher whose client trusts the endpoints."""
    with ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory()))
        issued = certificate.issue(folder, now=datetime.now(UTC))
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        serving.load_cert_chain(issued.trust, issued.key)
        trust = ssl.create_default_context(cafile=str(issued.trust))
        # The certificate is this machine's.
        trust.check_hostname = False
        endpoints = Endpoints(serving, is_one_hanging=is_one_hanging)
        ends.callback(endpoints.close)
        made = Posting(endpoints, trust)
        ends.callback(made.close)
        yield made


def main() -> None:
    with posting() as well:
        first, *later = (well.batch()[1] for _ in range(BATCHES))
        print(f"a batch of ten, all well: {first:.2f} s, later ones {median(later):.2f} s")
        print(f"of {BATCHES} batches: {well.connections} connections, {well.look_ups} look-ups")
    with posting(is_one_hanging=True) as one_hangs:
        others, whole = one_hangs.batch()
        print(f"one endpoint hangs: the others {others:.2f} s, the batch {whole:.2f} s")


if __name__ == "__main__":
    main()
