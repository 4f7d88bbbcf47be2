"""What a batch of webhooks takes: `python -m lab.bench.webhooks`.

Ten endpoints on this machine, over TLS, each a server of its own, with the round trip of a network
between: 20 ms for each of look-up, connection, handshake and request, and 20 ms of work. The
production dispatcher and its HTTP client post to them, in real time; queue and tables are in
memory. Two ways: one after the other with a connection for each post, as it was, and side by side
over connections that stay open, as it is.
"""

from __future__ import annotations

import base64
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import socket
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "lambdas"))

from deadletter.contract import Body
from deadletter.message.letter import from_api, to_event
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

PUBLIC = "93.184.215.14"


@dataclass
class Endpoints:
    """The servers of all tenants; the one that hangs answers no request while `hanging`."""

    context: ssl.SSLContext
    hanging: bool = False
    delivered: dict[str, float] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.let_go = threading.Event()
        self._servers = [self._serve(tenant) for tenant in TENANTS]

    def close(self) -> None:
        self.let_go.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def _serve(self, tenant: str) -> ThreadingHTTPServer:
        endpoints = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                if tenant == HANGS and endpoints.hanging:
                    endpoints.let_go.wait()
                time.sleep(ROUND_TRIP + WORK)
                endpoints.delivered[tenant] = time.perf_counter()
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.socket = self.context.wrap_socket(server.socket, server_side=True)
        self.ports[tenant] = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server


class Signing:
    """One secret for all endpoints."""

    def __init__(self) -> None:
        self._secret = read_secret("whsec_" + base64.b64encode(b"0" * 24).decode())

    def read(self, _name: str) -> Secret:
        return self._secret


class BenchRegistry:
    """A registry that has an endpoint for each tenant, at a port of this machine."""

    def __init__(self, ports: Mapping[str, int]) -> None:
        self._ports = ports

    def find(self, tenant: str, endpoint: str) -> Endpoint:
        url = f"https://{tenant}.example.com:{self._ports[tenant]}/in"
        return Endpoint(tenant, endpoint, url, secrets=("one",))

    def disable(self, endpoint: Endpoint, because: str, at: float) -> bool:
        return False

    def throttle(self, endpoint: Endpoint, until: float, status: int, at: float) -> bool:
        return False


@dataclass
class WayToPost:
    """One way to post: `side_by_side` over connections that stay open, or as it was."""

    endpoints: Endpoints
    trust: ssl.SSLContext
    side_by_side: bool
    look_ups: int = 0
    connections: int = 0

    def __post_init__(self) -> None:
        self.box = Letterbox(Pipeline("bench", context={"tenantId": "body.tenantId"}))
        self._kept = KeptConnections(time.monotonic) if self.side_by_side else None
        dispatcher = Dispatcher(
            webhook=Webhook(ports=tuple(self.endpoints.ports.values())),
            registry=BenchRegistry(self.endpoints.ports),
            secrets=Signing(),
            post=HttpsClient(
                REQUEST_TIMEOUT,
                time.monotonic,
                lookup=self._look_up,
                dial=self._dial,
                trust=self.trust,
                kept=self._kept,
            ),
            body=Body.JSON,
            clock=self.box.clock,
        )
        consumer = self.box.runtime.consumer
        assert consumer is not None
        crew = Threads(self.box.clock)
        self.consumer = replace(consumer, handle=dispatcher.deliver, crew=crew)

    def close(self) -> None:
        """Close the connections that were kept."""
        if self._kept is not None:
            self._kept.close()

    def batch(self) -> tuple[float, float]:
        """Seconds until nine endpoints have their message, and until the batch ends."""
        self.endpoints.delivered.clear()
        records = [self._record(tenant) for tenant in TENANTS]
        began = time.perf_counter()
        at_once = POSTS_AT_ONCE if self.side_by_side else 1
        deadline = self.box.clock() + 60
        self.consumer.process(records, deadline=deadline, concurrency=at_once, lane=lane_of)
        ended = time.perf_counter()
        others = [at for tenant, at in self.endpoints.delivered.items() if tenant != HANGS]
        return max(others) - began, ended - began

    def _record(self, tenant: str) -> dict[str, Any]:
        self.box.send({"tenantId": tenant})
        [message] = self.box.sqs.receive_message(
            QueueUrl=self.box.main,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )["Messages"]
        handle, arn = message["ReceiptHandle"], "arn:aws:sqs:eu-west-1:111122223333:bench"
        return to_event(from_api(message), receipt_handle=handle, source_arn=arn)

    def _look_up(self, _host: str, _port: int) -> Sequence[str]:
        self.look_ups += 1
        time.sleep(ROUND_TRIP)
        return [PUBLIC]

    def _dial(self, _address: str, port: int, seconds: float) -> socket:
        self.connections += 1
        # The connection and the handshake.
        time.sleep(2 * ROUND_TRIP)
        return dial("127.0.0.1", port, seconds)


@contextmanager
def endpoints() -> Iterator[tuple[Endpoints, ssl.SSLContext]]:
    """The endpoints, and the trust of a client in them."""
    with tempfile.TemporaryDirectory() as folder:
        issued = certificate.issue(Path(folder), now=datetime.now(UTC))
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        serving.load_cert_chain(issued.trust, issued.key)
        trust = ssl.create_default_context(cafile=str(issued.trust))
        # The certificate is this machine's.
        trust.check_hostname = False
        made = Endpoints(serving)
        try:
            yield made, trust
        finally:
            made.close()


def measure(side_by_side: bool) -> Iterator[tuple[str, str]]:
    """What is measured, and how much it is."""
    with endpoints() as (servers, trust):
        way = WayToPost(servers, trust, side_by_side)
        batches = [way.batch()[1] for _ in range(BATCHES)]
        yield "a batch of ten, all well: the first", f"{batches[0]:.2f} s"
        later = sorted(batches[1:])[len(batches) // 2 - 1]
        yield "a batch of ten, all well: those after it", f"{later:.2f} s"
        yield f"connections and handshakes of {BATCHES} batches", str(way.connections)
        yield f"look-ups of {BATCHES} batches", str(way.look_ups)
        way.close()
    with endpoints() as (servers, trust):
        servers.hanging = True
        way = WayToPost(servers, trust, side_by_side)
        others, whole = way.batch()
        way.close()
        yield "one endpoint hangs: the nine others have theirs after", f"{others:.2f} s"
        yield "one endpoint hangs: the batch ends after", f"{whole:.2f} s"


def main() -> None:
    before, after = dict(measure(False)), dict(measure(True))
    print("| | one after the other | side by side |")
    print("|---|---|---|")
    for what, figure in before.items():
        print(f"| {what} | {figure} | {after[what]} |")


if __name__ == "__main__":
    main()
