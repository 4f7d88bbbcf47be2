"""A call that may not happen twice reaches the service once, counted where requests arrive."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from deadletter.aws import clients as made
from deadletter.aws.consumer_function import LambdaConsumer
from deadletter.aws.queue import SqsQueue
from deadletter.circuit.transitions import CanaryVerdict
from deadletter.message.envelope import QueueTraits, seal
from deadletter.message.stamp import Stamp
from deadletter.outage.prober import ConsumerUnavailable
from tests.samples import letter, received

FACTORIES = (made.clients, made.consumer_clients, made.consumer_call)
HANG_UP = 0
"""Instead of a status: the service reads the request, and the answer is lost."""


@dataclass
class Service:
    """An AWS service on the loopback that answers each request with one status."""

    status: int = HANG_UP
    requests: list[str] = field(default_factory=list)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    state = Service()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            state.requests.append(self.path)
            self.close_connection = True
            if state.status != HANG_UP:
                self.send_response(state.status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    # What a team sets for its own calls changes none of ours.
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "7")
    monkeypatch.setenv("AWS_RETRY_MODE", "standard")
    for factory in FACTORIES:
        factory.cache_clear()
    yield state
    for factory in FACTORIES:
        factory.cache_clear()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("status", [HANG_UP, 500, 503])
def test_a_consumer_is_invoked_once_whatever_becomes_of_the_answer(
    service: Service, status: int
) -> None:
    service.status = status
    consumer = LambdaConsumer(made.consumer_call(5), "consumer")
    result = consumer.process(
        received(letter()), "arn:aws:sqs:eu-west-1:1:orders", "permit", "orders"
    )
    assert result.verdict is CanaryVerdict.NO_ANSWER
    assert len(service.requests) == 1


def test_a_consumer_that_is_throttled_is_invoked_once(service: Service) -> None:
    service.status = 429
    consumer = LambdaConsumer(made.consumer_call(5), "consumer")
    with pytest.raises(ConsumerUnavailable):
        consumer.process(received(letter()), "arn:aws:sqs:eu-west-1:1:orders", "permit", "orders")
    assert len(service.requests) == 1


@pytest.mark.parametrize("status", [HANG_UP, 500, 503])
@pytest.mark.parametrize("factory", [made.clients, made.consumer_clients])
def test_a_batch_is_sent_once_and_its_end_is_unknown(
    service: Service, factory: Any, status: int
) -> None:
    """By redriver and probe, and by the consumer library when it parks."""
    service.status = status
    url = "https://sqs.eu-west-1.amazonaws.com/111122223333/orders"
    queue = SqsQueue(factory().sqs, url, lambda: 0.0, sending=factory().sending)
    result = queue.send([seal(letter(), Stamp("m1", 1, 1), QueueTraits())])
    assert result.unknown == {"m1"}
    assert len(service.requests) == 1
