"""What a batch of webhooks takes: `python -m lab.bench.webhooks`.

Ten endpoints on this machine, over TLS, each a host of its own, with the round trip of a network
between: 20 ms for each of look-up, connection, handshake and request, and 20 ms of work. The
production dispatcher and its HTTP client post to them, in real time; queue and tables are in
memory.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from socket import socket
from statistics import median
from types import SimpleNamespace
from typing import Any

from deadletter.contract import Body
from deadletter.processing.crew import Threads
from deadletter.processing.delivery import Delivery
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.webhook import Webhook
from deadletter.testing.letterbox import Letterbox
from deadletter.webhook.connections import KeptConnections
from deadletter.webhook.dispatcher import POSTS_AT_ONCE, Dispatcher, lane_of
from deadletter.webhook.endpoint import Endpoint
from deadletter.webhook.http import HttpsClient, dial
from deadletter.webhook.signing import read_secret
from lab.bench.server import serve, started
from sandbox import certificate

TENANTS = [f"t{number}" for number in range(POSTS_AT_ONCE)]
BATCHES = 10

# Seconds that each exchange with an endpoint or the resolver takes on the way.
ROUND_TRIP = 0.02

# Seconds that an endpoint takes to answer.
WORK = 0.02

# Seconds that one POST may take: the setting's default.
REQUEST_TIMEOUT = 5.0


class Posting:
    """The dispatcher at work, over connections that stay open; it counts those and look-ups."""

    def __init__(self, port: int, trust: ssl.SSLContext) -> None:
        self.look_ups = self.connections = 0
        self._port = port
        self._delivered: dict[str, float] = {}
        self._box = Letterbox(Pipeline("bench", context={"tenantId": "body.tenantId"}))
        self._kept = KeptConnections(time.monotonic)
        secret = read_secret("whsec_" + base64.b64encode(b"0" * 24).decode())
        registry: Any = SimpleNamespace(find=self._find, disable=_no_change, throttle=_no_change)
        self._dispatcher = Dispatcher(
            webhook=Webhook(ports=(port,)),
            registry=registry,
            secrets=SimpleNamespace(read=lambda _: secret),
            post=HttpsClient(
                REQUEST_TIMEOUT, time.monotonic,
                lookup=self._look_up, dial=self._dial, trust=trust, kept=self._kept,
            ),
            body=Body.JSON, clock=self._box.clock,
        )  # fmt: skip

    def close(self) -> None:
        self._kept.close()

    def batch(self) -> tuple[float, float]:
        """Seconds until the last endpoint that answers has its message, and until the end."""
        self._delivered.clear()
        for tenant in TENANTS:
            self._box.send({"tenantId": tenant})
        began = time.perf_counter()
        self._box.run(self._handler)
        ended = time.perf_counter()
        assert len(self._delivered) >= POSTS_AT_ONCE - 1
        return max(self._delivered.values()) - began, ended - began

    def _handler(self, event: Any, _: Any) -> None:
        made = self._box.runtime.consumer
        assert made is not None
        consumer = replace(made, handle=self._deliver, crew=Threads(self._box.clock))
        deadline = self._box.clock() + 60
        consumer.process(
            event["Records"], deadline=deadline, concurrency=POSTS_AT_ONCE, lane=lane_of
        )

    def _deliver(self, delivery: Delivery) -> None:
        self._dispatcher.deliver(delivery)
        self._delivered[delivery.record["body"]] = time.perf_counter()

    def _find(self, tenant: str, endpoint: str) -> Endpoint:
        url = f"https://{tenant}.example.com:{self._port}/in"
        return Endpoint(tenant, endpoint, url, secrets=("one",))

    def _look_up(self, _host: str, _port: int) -> Sequence[str]:
        self.look_ups += 1
        time.sleep(ROUND_TRIP)
        return ["93.184.215.14"]

    def _dial(self, _address: str, port: int, seconds: float) -> socket:
        self.connections += 1
        # The connection and the handshake.
        time.sleep(2 * ROUND_TRIP)
        return dial("127.0.0.1", port, seconds)


def _no_change(*_: object) -> bool:
    return False


@contextmanager
def posting(hangs: str = "") -> Iterator[Posting]:
    """A dispatcher, and endpoints that it trusts; the one of the tenant `hangs` never answers."""
    with ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory()))
        issued = certificate.issue(folder, now=datetime.now(UTC))
        trust = ssl.create_default_context(cafile=str(issued.trust))
        # The certificate is this machine's.
        trust.check_hostname = False
        arguments = (str(issued.trust), str(issued.key), hangs)
        _, address = ends.enter_context(started("lab.bench.webhooks", *arguments))
        made = Posting(int(address.rpartition(":")[2]), trust)
        ends.callback(made.close)
        yield made


def serve_endpoints(trust: str, key: str, hangs: str) -> None:
    """Answer for all endpoints until this process is ended."""

    async def answer(_path: str, headers: Mapping[str, str], _body: bytes) -> tuple[int, str]:
        if headers["host"].partition(".")[0] == hangs:
            await asyncio.Event().wait()
        await asyncio.sleep(ROUND_TRIP + WORK)
        return 200, ""

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(trust, key)
    serve(answer, sys.stdout, tls=tls)


def main() -> None:
    with posting() as well:
        first, *later = (well.batch()[1] for _ in range(BATCHES))
        print(f"a batch of ten, all well: {first:.2f} s, later ones {median(later):.2f} s")
        print(f"of {BATCHES} batches: {well.connections} connections, {well.look_ups} look-ups")
    with posting(hangs=TENANTS[0]) as one_hangs:
        others, whole = one_hangs.batch()
        print(f"one endpoint hangs: the others {others:.2f} s, the batch {whole:.2f} s")


if __name__ == "__main__":
    if sys.argv[1:]:
        serve_endpoints(*sys.argv[1:])
    else:
        main()
