"""Connections to one host, kept open between requests; and one deadline for a whole request.

boto3's own time-out begins anew with every byte: its requests are given the deadline, too.
"""

from __future__ import annotations

import io
import select
import socket
import ssl
import weakref
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from functools import cache, partial
from http.client import HTTPException, HTTPResponse
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
    SSLError,
)

C = TypeVar("C")

_MOST_HEADERS = 100
_MOST_AT_ONCE = 65_536
_OK = b"HTTP/1.1 200 "
_END_OF_HEAD = b"\r\n\r\n"
_BODILESS = frozenset({204, 304})


class Received(NamedTuple):
    """An answer over HTTP; the names of `headers` are in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@cache
def trusting(bundle: str) -> ssl.SSLContext:
    """TLS with the certificates of this file, read once: reading takes 20 ms."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(bundle)
    return context


class RequestDeadline:
    """The end of a request, or of a part, however many calls of its socket that takes."""

    def __init__(self, now: Callable[[], datetime], seconds: float) -> None:
        self._now = now
        self._most = seconds
        self._end = now() + timedelta(seconds=seconds)

    def left(self) -> float:
        """Seconds until then, more than 0. Raises TimeoutError if there are none."""
        left = (self._end - self._now()).total_seconds()
        if left <= 0:
            raise TimeoutError("the time of the request is up")
        # The clock may have been set back.
        return min(left, self._most)


@dataclass(eq=False, repr=False)
class Connections:
    """Open connections to the host of `url`, for several threads; raises botocore's errors.

    Time-outs are in seconds: to have a connection, and from then to the end of the answer, also if
    its bytes come one at a time; `now` gives the time. At most `idle` connections are kept;
    `bundle` is the file of the certificates to trust.

    ConnectTimeoutError and EndpointConnectionError say that no request has left, and so does an
    SSLError of the handshake (`deadletter.aws.errors.never_left`).
    """

    url: str
    _: KW_ONLY
    connect_timeout: float
    read_timeout: float
    idle: int
    bundle: str
    now: Callable[[], datetime]
    # Last in, first out, so that few stay in use; append and pop are atomic.
    _idle: list[_Connection] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        # A client that nobody has any more leaves no open connection behind.
        weakref.finalize(self, _close_all, self._idle)

    def ask(self, request: bytes) -> Received:
        """The answer to a whole request, head and body."""
        connection = self._connection()
        try:
            received, stays = connection.ask(request, RequestDeadline(self.now, self.read_timeout))
        except TimeoutError as error:
            connection.close()
            raise ReadTimeoutError(endpoint_url=self.url, error=error) from error
        except ssl.SSLError as error:
            connection.close()
            raise SSLError(endpoint_url=self.url, error=error) from error
        except (OSError, HTTPException, ValueError) as error:
            connection.close()
            raise ConnectionClosedError(endpoint_url=self.url, error=error) from error
        except BaseException:
            # Its answer may still come, and is no answer to the next request.
            connection.close()
            raise
        if stays and len(self._idle) < self.idle:
            self._idle.append(connection)
        else:
            connection.close()
        return received

    def close(self) -> None:
        """Close the idle connections."""
        _close_all(self._idle)

    def _connection(self) -> _Connection:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return self._open()
            if connection.is_quiet():
                return connection
            connection.close()

    def _open(self) -> _Connection:
        try:
            return _Connection(self._dialled(RequestDeadline(self.now, self.connect_timeout)))
        except TimeoutError as error:
            raise ConnectTimeoutError(endpoint_url=self.url, error=error) from error
        except ssl.SSLError as error:
            raise SSLError(endpoint_url=self.url, error=error) from error
        except OSError as error:
            raise EndpointConnectionError(endpoint_url=self.url, error=error) from error

    def _dialled(self, deadline: RequestDeadline) -> socket.socket:
        """A connection, with TLS if the URL says so. Raises OSError."""
        parts = urlsplit(self.url)
        host, is_tls = parts.hostname or "", parts.scheme == "https"
        connection = _connected(host, parts.port or (443 if is_tls else 80), deadline)
        try:
            # What took too long to find, or to reach, is not written to any more.
            connection.settimeout(deadline.left())
            if is_tls:
                return trusting(self.bundle).wrap_socket(connection, server_hostname=host)
        except BaseException:
            connection.close()
            raise
        return connection


def _connected(host: str, port: int, deadline: RequestDeadline) -> socket.socket:
    """A connection to the first address of a host that takes one. Raises OSError."""
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    refusal = OSError("the host has no address")
    for at, (family, kind, protocol, _, address) in enumerate(addresses, start=1):
        connection = socket.socket(family, kind, protocol)
        try:
            left = deadline.left()
            # One that is silent leaves time for the others.
            connection.settimeout(left if at == len(addresses) else left / 2)
            connection.connect(address)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            connection.close()
            refusal = error
        else:
            return connection
    raise refusal


class _Connection:
    """One connection, of one thread at a time.

    The answer is read here: http.client reads headers as those of a mail, which takes longer than
    all the rest of a request.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)

    def is_quiet(self) -> bool:
        """True if nothing has come since the last answer: an end of the connection would have."""
        return not self._poll.poll(0)

    def ask(self, request: bytes, deadline: RequestDeadline) -> tuple[Received, bool]:
        """The answer, and whether the connection stays open."""
        self._socket.settimeout(deadline.left())
        self._socket.sendall(request)
        # What one answer has too much must not begin the next one.
        self._socket.settimeout(deadline.left())
        incoming = _Incoming(self._socket.recv(_MOST_AT_ONCE), self._socket, deadline)
        return _ordinary_answer(incoming) or _unusual_answer(incoming)

    def close(self) -> None:
        self._socket.close()


class _Incoming(io.RawIOBase):
    """What a socket brings until a deadline, each call of it, after what it has brought already."""

    def __init__(self, first: bytes, connection: socket.socket, deadline: RequestDeadline) -> None:
        self.first = first
        self._socket = connection
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def makefile(self, *_: Any) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readinto(self, buffer: Any) -> int:
        if not self.first:
            self._socket.settimeout(self._deadline.left())
            return self._socket.recv_into(buffer)
        size = min(len(buffer), len(self.first))
        buffer[:size], self.first = self.first[:size], self.first[size:]
        return size


def _ordinary_answer(incoming: _Incoming) -> tuple[Received, bool] | None:
    """An answer as AWS gives nearly all; None, with nothing read, for any other.

    Its head has come whole, and says how long the body is.
    """
    first = incoming.first
    end = first.find(_END_OF_HEAD)
    if end < 0 or not first.startswith(_OK):
        return None
    [_, *lines] = first[:end].decode("latin-1").split("\r\n")
    if len(lines) > _MOST_HEADERS or first.count(b"\n", 0, end) != len(lines):
        return None
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    length = headers.get("content-length", "")
    if not length.isdecimal() or "transfer-encoding" in headers:
        return None
    incoming.first = first[end + len(_END_OF_HEAD) :]
    body = _from(incoming, int(length))
    return Received(200, headers, body), headers.get("connection", "").lower() != "close"


def _unusual_answer(incoming: _Incoming) -> tuple[Received, bool]:
    """Any other answer, and whether its connection stays open."""
    socket_like: Any = incoming
    with HTTPResponse(socket_like, method="POST") as response:
        response.begin()
        headers = {name.lower(): value for name, value in response.getheaders()}
        # Without its length, nothing shows that an answer, or its head, is cut off.
        length = "0" if response.status in _BODILESS else headers.get("content-length", "")
        if not response.chunked and not length.isdecimal():
            raise HTTPException("the answer does not say how long it is")
        return Received(response.status, headers, response.read()), not response.will_close


def _from(incoming: _Incoming, size: int) -> bytes:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        received = incoming.readinto(view)
        if not received:
            raise HTTPException("the answer is cut off")
        view = view[received:]
    return bytes(data)


def _close_all(connections: list[_Connection]) -> None:
    while connections:
        connections.pop().close()


def with_deadline(client: C) -> C:
    """The client, each request of which ends within its read time-out, however its answer drips.

    botocore has no setting for it. A client that is made in another way, such as one of an account
    in memory, or by a botocore that names its parts otherwise, stays as it is.
    """
    session = getattr(getattr(client, "_endpoint", None), "http_session", None)
    pools = getattr(session, "_pool_classes_by_scheme", None)
    if isinstance(pools, dict):
        from botocore import compat

        now = getattr(compat, "get_current_datetime", None)
        if now is not None:
            made: Any = client
            begin = partial(RequestDeadline, now, made.meta.config.read_timeout)
            pools.update({scheme: _deadlined(pool, begin) for scheme, pool in pools.items()})
    return client


def _deadlined(pool: Any, begin: Callable[[], RequestDeadline]) -> Any:
    """A class of connection pools like this one, whose connections have the deadline."""

    class Connection(pool.ConnectionCls):  # type: ignore[misc]
        deadline: RequestDeadline

        def connect(self) -> None:
            super().connect()
            self.sock: Any = _Deadlined(self.sock, self)

        def request(self, *arguments: Any, **options: Any) -> None:
            self.deadline = begin()
            super().request(*arguments, **options)

    return type(pool.__name__, (pool,), {"ConnectionCls": Connection})


class _Deadlined:
    """A socket that waits for what is left of its connection's deadline, and no longer."""

    def __init__(self, real: Any, connection: Any) -> None:
        self._real = real
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def sendall(self, *arguments: Any) -> None:
        self._real.settimeout(self._connection.deadline.left())
        self._real.sendall(*arguments)

    def recv_into(self, *arguments: Any) -> int:
        self._real.settimeout(self._connection.deadline.left())
        return int(self._real.recv_into(*arguments))

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        # As socket.makefile does, with the reads through this object.
        self._real._io_refs += 1
        ours: Any = self
        return io.BufferedReader(socket.SocketIO(ours, "r"))
