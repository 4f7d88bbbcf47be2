"""Connections to one host, kept open between requests."""

from __future__ import annotations

import io
import select
import socket
import ssl
import weakref
from collections.abc import Mapping
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import IO, Any, NamedTuple
from urllib.parse import urlsplit

from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
    SSLError,
)

_LONGEST_LINE = 65_536
_MOST_HEADERS = 100
_MOST_AT_ONCE = 65_536
_OK = b"HTTP/1.1 200 "
_END_OF_HEAD = b"\r\n\r\n"
_FIRST_FINAL = 200
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


class Connections:
    """Open connections to the host of `url`, for several threads; raises botocore's errors.

    Time-outs are in seconds. At most `idle` connections are kept; `bundle` is the file of the
    certificates to trust.
    """

    def __init__(
        self, url: str, *, connect_timeout: float, read_timeout: float, idle: int, bundle: str
    ) -> None:
        self._url = url
        self._connect_timeout = connect_timeout
        self._read_timeout = read_timeout
        self._most_idle = idle
        self._bundle = bundle
        # Last in, first out, so that few stay in use; append and pop are atomic.
        self._idle: list[_Connection] = []
        # A client that nobody has any more leaves no open connection behind.
        weakref.finalize(self, _close_all, self._idle)

    def ask(self, request: bytes) -> Received:
        """The answer to a whole request, head and body."""
        connection = self._connection()
        try:
            received, stays = connection.ask(request)
        except TimeoutError as error:
            connection.close()
            raise ReadTimeoutError(endpoint_url=self._url, error=error) from error
        except ssl.SSLError as error:
            connection.close()
            raise SSLError(endpoint_url=self._url, error=error) from error
        except (OSError, HTTPException, ValueError) as error:
            connection.close()
            raise ConnectionClosedError(endpoint_url=self._url, error=error) from error
        except BaseException:
            # Its answer may still come, and is no answer to the next request.
            connection.close()
            raise
        if stays and len(self._idle) < self._most_idle:
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
        parts = urlsplit(self._url)
        host, timeout = parts.hostname or "", self._connect_timeout
        connection = (
            HTTPSConnection(host, parts.port, timeout=timeout, context=trusting(self._bundle))
            if parts.scheme == "https"
            else HTTPConnection(host, parts.port, timeout=timeout)
        )
        try:
            connection.connect()
            return _Connection(connection, self._read_timeout)
        except TimeoutError as error:
            raise ConnectTimeoutError(endpoint_url=self._url, error=error) from error
        except ssl.SSLError as error:
            raise SSLError(endpoint_url=self._url, error=error) from error
        except OSError as error:
            raise EndpointConnectionError(endpoint_url=self._url, error=error) from error


class _Connection:
    """One connection, of one thread at a time.

    http.client connects and ends it. The answer is read here: http.client reads headers as those
    of a mail, which takes longer than all the rest of a request.
    """

    def __init__(self, connection: HTTPConnection, read_timeout: float) -> None:
        self._connection = connection
        self._socket: socket.socket = connection.sock
        self._socket.settimeout(read_timeout)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def is_quiet(self) -> bool:
        """True if nothing has come since the last answer: an end of the connection would have."""
        return not self._poll.poll(0)

    def ask(self, request: bytes) -> tuple[Received, bool]:
        """The answer, and whether the connection stays open."""
        self._socket.sendall(request)
        # What one answer has too much must not begin the next one.
        first = self._socket.recv(_MOST_AT_ONCE)
        ordinary = _ordinary_answer(first, self._socket)
        if ordinary is not None:
            return ordinary
        with io.BufferedReader(_Begun(first, self._socket)) as reader:
            return _answer(reader)

    def close(self) -> None:
        self._connection.close()


class _Begun(io.RawIOBase):
    """What a socket brings, after what it has brought already."""

    def __init__(self, first: bytes, rest: socket.socket) -> None:
        self._first = first
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._first:
            return self._rest.recv_into(buffer)
        size = min(len(buffer), len(self._first))
        buffer[:size] = self._first[:size]
        self._first = self._first[size:]
        return size


def _ordinary_answer(first: bytes, rest: socket.socket) -> tuple[Received, bool] | None:
    """An answer as AWS gives nearly all, which begins with `first`; None for any other.

    Its head has come whole, and says how long the body is. Nothing is taken from `rest` for
    another one.
    """
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
    start = end + len(_END_OF_HEAD)
    body = first[start : start + int(length)]
    missing = int(length) - len(body)
    if missing:
        body += _from(rest, missing)
    return Received(200, headers, body), headers.get("connection", "").lower() != "close"


def _from(connection: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        received = connection.recv_into(view)
        if not received:
            raise HTTPException("the answer is cut off")
        view = view[received:]
    return bytes(data)


def _close_all(connections: list[_Connection]) -> None:
    while connections:
        connections.pop().close()


def _answer(reader: IO[bytes]) -> tuple[Received, bool]:
    """An answer, and whether its connection stays open."""
    status = 0
    while status < _FIRST_FINAL:
        version, status = _status(reader)
        headers = _headers(reader)
    stays = version == b"HTTP/1.1" and headers.get("connection", "").lower() != "close"
    if status in _BODILESS:
        body = b""
    elif headers.get("transfer-encoding", "").lower() == "chunked":
        body = _chunks(reader)
    elif "content-length" in headers:
        body = _exactly(reader, int(headers["content-length"]))
    else:
        body, stays = reader.read(), False
    return Received(status, headers, body), stays


def _status(reader: IO[bytes]) -> tuple[bytes, int]:
    version, status, *_ = _line(reader).split(None, 2)
    if not version.startswith(b"HTTP/"):
        raise HTTPException("the answer is not HTTP")
    return version, int(status)


def _headers(reader: IO[bytes]) -> dict[str, str]:
    headers: dict[str, str] = {}
    while line := _line(reader):
        if len(headers) == _MOST_HEADERS:
            raise HTTPException("the answer has too many headers")
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    return headers


def _chunks(reader: IO[bytes]) -> bytes:
    chunks = []
    while size := int(_line(reader).partition(b";")[0], 16):
        chunks.append(_exactly(reader, size))
        _line(reader)
    _headers(reader)
    return b"".join(chunks)


def _exactly(reader: IO[bytes], size: int) -> bytes:
    data = reader.read(size)
    if len(data) != size:
        raise HTTPException("the answer is cut off")
    return data


def _line(reader: IO[bytes]) -> bytes:
    line = reader.readline(_LONGEST_LINE)
    if not line.endswith(b"\n"):
        raise HTTPException("the answer is cut off, or has a line that is too long")
    return line.rstrip(b"\r\n")
