"""Connections against a server that writes what a test tells it to."""

from __future__ import annotations

import gc
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from botocore.exceptions import (
    ConnectionClosedError,
    EndpointConnectionError,
    ReadTimeoutError,
    SSLError,
)
from botocore.httpsession import where

from deadletter.aws.wire.connections import Connections, Received, trusting
from sandbox import certificate

HANG = b"hang"
"""Instead of an answer: the server keeps the connection and says nothing."""


class Server:
    """Answers the requests of each connection by the next of `answers`, then closes it."""

    def __init__(self, *connections: list[bytes], tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._connections = connections
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.requests: list[bytes] = []
        self.clients: list[Connections] = []
        self._open: list[socket.socket] = []
        self._ended = Event()
        Thread(target=self._serve, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def _serve(self) -> None:
        for answers in self._connections:
            try:
                connection, _ = self._listener.accept()
                if self._tls:
                    connection = self._tls.wrap_socket(connection, server_side=True)
            except OSError:
                return
            self._open.append(connection)
            for answer in answers:
                self.requests.append(connection.recv(65_536))
                if answer == HANG:
                    return
                connection.sendall(answer)
            connection.close()
            self._ended.set()

    def first_ended(self) -> None:
        """Wait until the first connection is closed."""
        assert self._ended.wait(5)

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self._listener.close()
        for connection in self._open:
            connection.close()


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    made: list[Server] = []
    yield made
    for server in made:
        server.close()


def connections(server: Server, scheme: str = "http", **options: Any) -> Connections:
    arguments: dict[str, Any] = {
        "connect_timeout": 2,
        "read_timeout": 2,
        "idle": 4,
        "bundle": where(),
        "now": lambda: datetime.now(UTC),
        **options,
    }
    server.clients.append(Connections(f"{scheme}://{server.address}", **arguments))
    return server.clients[-1]


OK = b"HTTP/1.1 200 OK\r\nX-Amzn-RequestId: 7\r\nContent-Length: 2\r\n\r\n{}"

ANSWERS = {
    "length": (OK, Received(200, {"x-amzn-requestid": "7", "content-length": "2"}, b"{}")),
    "chunked": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;a=b\r\n}\r\n0\r\n\r\n",
        Received(200, {"transfer-encoding": "chunked"}, b"{}"),
    ),
    "more than comes at once": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 200_000,
        Received(200, {"content-length": "200000"}, b"x" * 200_000),
    ),
    "a long head": (
        b"HTTP/1.1 200 OK\r\na: %b\r\nb: %b\r\nContent-Length: 2\r\n\r\n{}"
        % (b"x" * 60_000, b"y" * 60_000),
        Received(200, {"a": "x" * 60_000, "b": "y" * 60_000, "content-length": "2"}, b"{}"),
    ),
    "no content": (b"HTTP/1.1 204 None\r\n\r\n", Received(204, {}, b"")),
    "continue": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 400 No\r\ncontent-length:0\r\n\r\n",
        Received(400, {"content-length": "0"}, b""),
    ),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_an_answer_is_read_to_its_end(servers: list[Server], kind: str) -> None:
    answer, expected = ANSWERS[kind]
    servers.append(Server([answer]))
    assert connections(servers[0]).ask(b"request") == expected
    assert servers[0].requests == [b"request"]


BROKEN = {
    "nothing": b"",
    "not http": b"SMTP ready\r\n\r\n",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n",
    "half a body": b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}",
    "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}",
    "half a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{",
    "no last chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
    "a wrong length": b"HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\n{}",
    "no length": b"HTTP/1.1 200 OK\r\n\r\n{}",
    "half a head without its length": b"HTTP/1.1 200 OK\r\n",
    "endless headers": b"HTTP/1.1 200 OK\r\n" + b"".join(b"a%d: b\r\n" % n for n in range(101)),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_an_answer_that_is_cut_off_is_a_lost_one(servers: list[Server], kind: str) -> None:
    servers.append(Server([BROKEN[kind]], [OK]))
    ours = connections(servers[0])
    with pytest.raises(ConnectionClosedError):
        ours.ask(b"one")
    assert ours.ask(b"two").status == 200
    assert servers[0].requests == [b"one", b"two"]


def test_a_connection_is_used_again(servers: list[Server]) -> None:
    servers.append(Server([OK, OK, OK]))
    ours = connections(servers[0])
    assert [ours.ask(b"x").status for _ in range(3)] == [200, 200, 200]


@pytest.mark.parametrize(
    "last",
    [
        OK,
        OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
        OK.replace(b"HTTP/1.1", b"HTTP/1.0"),
    ],
)
def test_a_connection_that_has_ended_is_not_used_again(servers: list[Server], last: bytes) -> None:
    """A request on it would be one without an answer."""
    servers.append(Server([last], [OK]))
    ours = connections(servers[0])
    ours.ask(b"one")
    servers[0].first_ended()
    assert ours.ask(b"two").status == 200
    assert servers[0].requests == [b"one", b"two"]


def test_a_connection_that_is_announced_to_end_is_not_used_again(servers: list[Server]) -> None:
    ending = OK.replace(b"\r\n\r\n", b"\r\nConnection: Close\r\n\r\n")
    servers.append(Server([ending, OK], [OK]))
    ours = connections(servers[0])
    ours.ask(b"one")
    assert ours.ask(b"two").status == 200
    assert servers[0].requests == [b"one", b"", b"two"]


def test_a_request_that_is_broken_off_ends_its_connection(
    servers: list[Server],
) -> None:
    """Its answer may still come, and is no answer to the next request."""
    servers.append(Server([OK]))
    ours = connections(servers[0])
    ended = []

    class BreaksOff:
        def is_quiet(self) -> bool:
            return True

        def ask(self, request: bytes, deadline: object) -> None:
            raise KeyboardInterrupt

        def close(self) -> None:
            ended.append(True)

    broken: Any = BreaksOff()
    ours._idle.append(broken)
    with pytest.raises(KeyboardInterrupt):
        ours.ask(b"one")
    assert ended
    assert ours.ask(b"two").status == 200


def test_what_comes_after_an_answer_is_no_answer_to_the_next_request(
    servers: list[Server],
) -> None:
    """A confirmation must belong to what was sent."""
    servers.append(Server([OK + OK.replace(b"{}", b"[]"), OK]))
    ours = connections(servers[0])
    assert ours.ask(b"one").body == b"{}"
    assert ours.ask(b"two").body == b"{}"


def test_closed_connections_are_made_anew(servers: list[Server]) -> None:
    servers.append(Server([OK], [OK]))
    ours = connections(servers[0])
    ours.ask(b"one")
    ours.close()
    assert ours.ask(b"two").status == 200


def test_a_client_that_nobody_has_any_more_closes_its_connections(servers: list[Server]) -> None:
    servers.append(Server([OK]))
    ours = connections(servers[0])
    ours.ask(b"one")
    [kept] = ours._idle
    servers[0].clients.clear()
    del ours
    gc.collect()
    assert kept._socket.fileno() == -1


def test_no_more_connections_are_kept_than_allowed(servers: list[Server]) -> None:
    servers.append(Server([OK], [OK]))
    ours = connections(servers[0], idle=0)
    assert [ours.ask(b"x").status for _ in range(2)] == [200, 200]


def test_a_server_that_is_silent_is_a_time_out(servers: list[Server]) -> None:
    servers.append(Server([HANG]))
    with pytest.raises(ReadTimeoutError):
        connections(servers[0], read_timeout=0.05).ask(b"x")


def test_a_port_that_nothing_listens_at_is_an_error_of_the_connection(
    servers: list[Server],
) -> None:
    servers.append(Server())
    ours = connections(servers[0])
    servers[0].close()
    with pytest.raises(EndpointConnectionError):
        ours.ask(b"x")


def test_a_server_without_a_certificate_is_refused(servers: list[Server]) -> None:
    servers.append(Server([b"HTTP/1.1 400 No\r\n\r\n"]))
    with pytest.raises(SSLError):
        connections(servers[0], "https").ask(b"x")


def test_a_server_whose_certificate_is_trusted_is_asked(
    servers: list[Server], tmp_path: Path
) -> None:
    issued = certificate.issue(tmp_path, now=datetime.now(UTC))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(issued.trust, issued.key)
    servers.append(Server([OK, OK], [OK], tls=tls))
    ours = connections(servers[0], "https", bundle=str(issued.trust))
    assert [ours.ask(b"x").body for _ in range(2)] == [b"{}", b"{}"]
    # What TLS itself sends after its handshake does not look like an end.
    assert len(servers[0]._open) == 1
    with pytest.raises(SSLError):
        connections(servers[0], "https").ask(b"x")


def test_certificates_and_names_are_checked() -> None:
    context = trusting(where())
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context is trusting(where())
