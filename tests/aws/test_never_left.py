"""What no request has left for is sent again, and what one may have left for is not."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any

import boto3
import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    ReadTimeoutError,
    SSLError,
)

from deadletter.aws import clients as made
from deadletter.aws.clients import CallLimits
from deadletter.aws.consumer_function import THROTTLED_PAUSE, LambdaConsumer, LambdaDelivery
from deadletter.aws.errors import never_left
from deadletter.aws.queue import SqsQueue
from deadletter.aws.wire.connections import Connections, with_deadline
from deadletter.circuit.transitions import CanaryVerdict
from deadletter.message.envelope import QueueTraits, seal
from deadletter.message.letter import Letter
from deadletter.message.queue import SendResult
from deadletter.message.stamp import Stamp
from deadletter.outage.prober import ConsumerUnavailable
from deadletter.replay.carriers import DirectAnswer, DirectFate
from sandbox import certificate
from tests.each_row import each_row
from tests.samples import letter, received

BATCH = [seal(Letter("copy", "{}"), Stamp("copy", 1, 5), QueueTraits())]
UNKNOWN = SendResult(unknown=frozenset({"copy"}))
CONNECT, READ = 0.4, 0.6
LIMITS = CallLimits(CONNECT, READ, tries=1)
SLACK = 30.0
"""Seconds beyond its deadline that a request may take on a machine that stands still for a while.

Without the deadline, each of them would take minutes.
"""

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)

ENOUGH = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Loopback:
    """A server that gives each connection to `serve`, and closes it after that; counts requests."""

    def __init__(
        self,
        serve: Callable[[Loopback, socket.socket], None],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._serve = serve
        self._tls = tls
        self.ended = Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads = [Thread(target=self._accept, daemon=True)]
        self._threads[0].start()
        self.port = self._listener.getsockname()[1]
        self.requests = 0

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            self._threads.append(Thread(target=self._answer, args=[connection], daemon=True))
            self._threads[-1].start()

    def _answer(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.callback(lambda: connection.close())
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
                self._open.append(connection)
            self._serve(self, connection)

    def close(self) -> None:
        self.ended.set()
        # A listener that another thread waits at is closed once that one has ended.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for connection in self._open:
            connection.close()


def answers(server: Loopback, connection: socket.socket) -> None:
    """Answer each request, and keep the connection."""
    while read_request(connection):
        server.requests += 1
        connection.sendall(ENOUGH)


def read_request(connection: socket.socket) -> bytes:
    """A whole request; empty if the connection has ended."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65_536)
        if not more:
            return b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    [length] = [
        int(line.split(b":")[1])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length")
    ]
    while len(body) < length:
        body += connection.recv(65_536)
    return head + body


def thin() -> Any:
    return made._thin(made.client_of("sqs", config=LIMITS.config()), "")


def all_by_boto3() -> Any:
    return with_deadline(made.client_of("sqs", config=LIMITS.config()))


def of_a_team() -> Any:
    return with_deadline(_theirs().client("sqs", config=LIMITS.config()))


@cache
def _theirs() -> boto3.Session:
    return boto3.Session()


CLIENTS = [thin, all_by_boto3, of_a_team]


@pytest.fixture(scope="module")
def _session() -> Iterator[None]:
    """One for all tests: to make it takes longer than they do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        made.session.cache_clear()
        yield
        made.session.cache_clear()


@pytest.fixture
def account(_session: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    made.ca_bundle.cache_clear()
    yield monkeypatch
    made.ca_bundle.cache_clear()


@pytest.fixture
def servers() -> Iterator[list[Loopback]]:
    started: list[Loopback] = []
    yield started
    for server in started:
        server.close()


Make = Callable[[], Any]


def queue_at(
    account: pytest.MonkeyPatch, make: Make, port: int, scheme: str = "http", bundle: str = ""
) -> SqsQueue:
    url = f"{scheme}://127.0.0.1:{port}"
    account.setenv("AWS_ENDPOINT_URL", url)
    if bundle:
        account.setenv("AWS_CA_BUNDLE", bundle)
    client = make()
    return SqsQueue(client, f"{url}/111122223333/orders", lambda: 0.0, sending=client)


def failed(result: SendResult) -> bool:
    return set(result.failed) == {"copy"} and not (
        result.unknown or result.refused or result.confirmed
    )


@pytest.mark.parametrize("make", CLIENTS)
def test_a_refused_connection_has_sent_nothing(
    account: pytest.MonkeyPatch, servers: list[Loopback], make: Make
) -> None:
    servers.append(Loopback(answers))
    queue = queue_at(account, make, servers[0].port)
    # What the first request has taught is used for the second one.
    assert queue.send(BATCH) == UNKNOWN
    servers.pop().close()
    assert failed(queue.send(BATCH))
    assert failed(queue.send(BATCH))


@pytest.mark.parametrize("make", CLIENTS)
def test_a_connection_that_times_out_has_sent_nothing(
    account: pytest.MonkeyPatch, make: Make
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        # Linux takes one connection more than it is told, and leaves the others without an answer.
        with socket.create_connection(address), _Filled(address):
            queue = queue_at(account, make, address[1])
            began = monotonic()
            assert failed(queue.send(BATCH))
            assert monotonic() - began < CONNECT + SLACK


class _Filled:
    """Connections that are being made, until no more are taken."""

    def __init__(self, address: Any) -> None:
        self._address = address
        self._made: list[socket.socket] = []

    def __enter__(self) -> None:
        for _ in range(4):
            connection = socket.socket()
            connection.setblocking(False)
            connection.connect_ex(self._address)
            self._made.append(connection)

    def __exit__(self, *_: object) -> None:
        for connection in self._made:
            connection.close()


def speaks_no_tls(server: Loopback, connection: socket.socket) -> None:
    connection.recv(65_536)
    connection.sendall(b"HTTP/1.1 400 No\r\n\r\n")
    connection.close()


def ends_in_the_handshake(server: Loopback, connection: socket.socket) -> None:
    connection.recv(65_536)
    connection.close()


def resets_in_the_handshake(server: Loopback, connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.recv(10)
    connection.close()


def is_silent(server: Loopback, connection: socket.socket) -> None:
    while connection.recv(65_536):
        continue


def localhost(folder: Path) -> ssl.SSLContext:
    """TLS with a certificate that only those trust who are given it."""
    issued = certificate.issue(folder, now=datetime.now(UTC))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(issued.trust, issued.key)
    return tls


@pytest.mark.parametrize("make", CLIENTS)
@pytest.mark.parametrize(
    "serve", [speaks_no_tls, ends_in_the_handshake, resets_in_the_handshake, is_silent, answers]
)
def test_a_refusal_of_tls_has_sent_nothing(
    account: pytest.MonkeyPatch, servers: list[Loopback], tmp_path: Path, make: Make, serve: Any
) -> None:
    servers.append(Loopback(serve, localhost(tmp_path) if serve is answers else None))
    queue = queue_at(account, make, servers[0].port, "https")
    assert failed(queue.send(BATCH))
    assert servers[0].requests == 0


@pytest.mark.parametrize("make", CLIENTS)
def test_a_server_whose_certificate_is_trusted_takes_the_request(
    account: pytest.MonkeyPatch, servers: list[Loopback], tmp_path: Path, make: Make
) -> None:
    servers.append(Loopback(answers, localhost(tmp_path)))
    bundle = str(tmp_path / "localhost.pem")
    queue = queue_at(account, make, servers[0].port, "https", bundle)
    for requests in (1, 2):
        assert queue.send(BATCH) == UNKNOWN
        assert servers[0].requests == requests


def closes_at_once(server: Loopback, connection: socket.socket) -> None:
    """Take the connection, and close it before a request is read: one may be in its buffer."""
    connection.close()


def closes_after_the_request(server: Loopback, connection: socket.socket) -> None:
    read_request(connection)
    server.requests += 1
    connection.close()


def resets_after_the_request(server: Loopback, connection: socket.socket) -> None:
    read_request(connection)
    server.requests += 1
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def closes_the_second(server: Loopback, connection: socket.socket) -> None:
    """Answer one request, and close the kept connection while the next one is under way."""
    read_request(connection)
    server.requests += 1
    connection.sendall(ENOUGH)
    connection.recv(1)
    connection.close()


@pytest.mark.parametrize("make", CLIENTS)
@pytest.mark.parametrize(
    "serve",
    [closes_at_once, closes_after_the_request, resets_after_the_request, closes_the_second],
)
def test_a_connection_that_ends_under_a_request_may_have_sent_it(
    account: pytest.MonkeyPatch, servers: list[Loopback], make: Make, serve: Any
) -> None:
    servers.append(Loopback(serve))
    queue = queue_at(account, make, servers[0].port)
    for _ in range(3):
        assert queue.send(BATCH) == UNKNOWN


@pytest.mark.parametrize("make", CLIENTS)
def test_a_tls_connection_that_breaks_under_a_request_may_have_sent_it(
    account: pytest.MonkeyPatch, servers: list[Loopback], tmp_path: Path, make: Make
) -> None:
    """Its error has the name of one whose handshake failed."""
    tls = localhost(tmp_path)

    def serve(server: Loopback, connection: socket.socket) -> None:
        read_request(connection)
        server.requests += 1
        # No record of TLS.
        with socket.socket(fileno=os.dup(connection.fileno())) as raw:
            raw.sendall(ENOUGH)

    servers.append(Loopback(serve, tls))
    queue = queue_at(account, make, servers[0].port, "https", str(tmp_path / "localhost.pem"))
    for requests in (1, 2):
        assert queue.send(BATCH) == UNKNOWN
        assert servers[0].requests == requests


MOST_TICKS = 400
"""Bytes that come one at a time at most: for a minute, where a request may take half of one."""


def drips(server: Loopback, connection: socket.socket) -> None:
    """Answer a byte at a time, each well within the time-out of a read."""
    read_request(connection)
    server.requests += 1
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n"
    for byte in (head + b"x" * 2_000)[:MOST_TICKS]:
        connection.sendall(bytes([byte]))
        if server.ended.wait(READ / 4):
            return


def drips_its_body(server: Loopback, connection: socket.socket) -> None:
    read_request(connection)
    server.requests += 1
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n")
    for _ in range(MOST_TICKS):
        connection.sendall(b"x")
        if server.ended.wait(READ / 4):
            return


@pytest.mark.parametrize("make", CLIENTS)
@pytest.mark.parametrize("serve", [drips, drips_its_body])
def test_a_request_has_one_deadline_however_its_answer_drips(
    account: pytest.MonkeyPatch, servers: list[Loopback], make: Make, serve: Any
) -> None:
    servers.append(Loopback(serve))
    queue = queue_at(account, make, servers[0].port)
    for requests in (1, 2):
        began = monotonic()
        assert queue.send(BATCH) == UNKNOWN
        assert monotonic() - began < CONNECT + READ + SLACK
        assert servers[0].requests == requests


def test_a_delivery_or_a_canary_that_never_left_is_tried_again(
    account: pytest.MonkeyPatch, servers: list[Loopback]
) -> None:
    servers.append(Loopback(closes_after_the_request))
    account.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{servers[0].port}")
    made.consumer_call.cache_clear()
    client = made.consumer_call(5)
    made.consumer_call.cache_clear()
    delivery = LambdaDelivery(
        client, "consumer", source_arn="arn:aws:sqs:::orders", sender="us", timeout=5
    )
    canary = partial(
        LambdaConsumer(client, "consumer").process,
        *(received(letter()), "arn:aws:sqs:::orders", "permit", "orders"),
    )
    assert delivery.deliver([Letter("copy", "{}")], "run") == DirectAnswer()
    assert canary().verdict is CanaryVerdict.NO_ANSWER
    assert servers[0].requests == 2
    servers.pop().close()
    untried = DirectAnswer({"copy": DirectFate.UNTRIED}, THROTTLED_PAUSE)
    assert delivery.deliver([Letter("copy", "{}")], "run") == untried
    with pytest.raises(ConsumerUnavailable, match="EndpointConnectionError"):
        canary()


def test_a_client_that_tries_by_itself_is_not_believed() -> None:
    """Its last try had no connection; the one before may have been read."""

    class Retries:
        def send_message_batch(self, **_: Any) -> Any:
            raise EndpointConnectionError(endpoint_url="sqs")

    client: Any = Retries()
    assert SqsQueue(client, "https://sqs/orders", lambda: 0.0).send(BATCH) == UNKNOWN
    once = SqsQueue(client, "https://sqs/orders", lambda: 0.0, sending=client)
    assert once.send(BATCH) == SendResult(failed={"copy": "EndpointConnectionError"})


def test_a_handshake_that_failed_before_is_not_that_of_the_present_call() -> None:
    """The error of another call was being handled when this one lost its answer."""

    def do_handshake() -> None:
        raise ssl.SSLError("the certificate is not trusted")

    def fails() -> Any:
        try:
            do_handshake()
        except ssl.SSLError as error:
            return SSLError(endpoint_url="dynamodb", error=error)

    earlier = fails()
    assert never_left(earlier)
    lost = ReadTimeoutError(endpoint_url="sqs")
    lost.__context__ = earlier
    assert not never_left(lost)


@each_row(
    ("error", "expected"),
    [
        (EndpointConnectionError(endpoint_url="sqs"), True),
        (NoCredentialsError(), True),
        (ReadTimeoutError(endpoint_url="sqs"), False),
        (ConnectionClosedError(endpoint_url="sqs"), False),
        (SSLError(endpoint_url="sqs", error=ssl.SSLError("a record is broken")), False),
        (HTTPClientError(error=ValueError("no JSON")), False),
        (ClientError({"Error": {"Code": "ThrottlingException"}}, "SendMessageBatch"), False),
    ],
)
def test_what_is_known_of_an_error(error: Any, expected: bool) -> None:
    assert never_left(error) is expected


def connections_at(server: Loopback, now: Callable[[], datetime]) -> Connections:
    return Connections(
        f"http://127.0.0.1:{server.port}",
        connect_timeout=CONNECT,
        read_timeout=READ,
        idle=1,
        bundle="",
        now=now,
    )


def test_what_took_too_long_to_connect_is_not_written_to(
    account: pytest.MonkeyPatch, servers: list[Loopback]
) -> None:
    """No time-out ends a look-up: a request that leaves after it would leave too late."""
    servers.append(Loopback(answers))
    passed = 0.0
    looked_up = socket.getaddrinfo

    def slow(*arguments: Any, **options: Any) -> Any:
        nonlocal passed
        passed += 30.0
        return looked_up(*arguments, **options)

    account.setattr(socket, "getaddrinfo", slow)
    connections = connections_at(servers[0], lambda: NOON + timedelta(seconds=passed))
    with pytest.raises(ConnectTimeoutError):
        connections.ask(b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n")
    assert servers[0].requests == 0


def test_a_connection_that_came_too_late_is_not_written_to(servers: list[Loopback]) -> None:
    servers.append(Loopback(answers))
    # The request begins, and asks for a connection; then all of its time is over.
    moments = iter([NOON, NOON])
    connections = connections_at(servers[0], lambda: next(moments, NOON + timedelta(seconds=30)))
    with pytest.raises(ConnectTimeoutError):
        connections.ask(b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n")
    assert servers[0].requests == 0


def test_a_clock_that_is_set_back_lengthens_no_wait(
    account: pytest.MonkeyPatch, servers: list[Loopback]
) -> None:
    servers.append(Loopback(is_silent))
    moments = iter([NOON, NOON])
    connections = connections_at(servers[0], lambda: next(moments, NOON - timedelta(hours=12)))
    began = monotonic()
    with pytest.raises(ReadTimeoutError):
        connections.ask(b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n")
    assert monotonic() - began < READ + SLACK
