"""One HTTP exchange with an address that was checked: no redirects, no proxies, a deadline."""

from __future__ import annotations

import http.client
import io
import re
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO, Any

from deadletter.webhook.url_guard import Destination, is_literal, refuse_addresses

# Bytes. Only the status and the headers are read: nobody needs an endpoint's body.
MOST_RESPONSE = 64 * 1024

# Seconds. A connection that takes longer is not coming, and another address may be tried.
_CONNECT_SECONDS = 3.0

# Addresses of one host that are tried one after the other.
_MOST_TRIED = 4

_HEADER_NAME = re.compile(r"[A-Za-z0-9-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")

Lookup = Callable[[str, int], Sequence[str]]
"""Every address of a host, for a port; raises OSError if it has none."""

Dial = Callable[[str, int, float], socket.socket]
"""A connection to an address and port, within so many seconds; raises OSError."""


class NoAnswer(ConnectionError):
    """The endpoint gave no answer; the text says why, without a word of what was sent."""


class AnswerTimeout(NoAnswer):
    """The endpoint gave no answer in time: what was sent may have been taken all the same."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """How an endpoint answered.

    `retry_after` is that header as it came; `addresses` are all that the host stands
    for, `address` the one that was asked, and `certificate` what it showed, as
    `ssl.SSLSocket.getpeercert` has it (empty without TLS).
    """

    status: int
    retry_after: str | None = None
    address: str = ""
    addresses: tuple[str, ...] = ()
    certificate: Mapping[str, Any] = field(default_factory=dict)


def lookup(host: str, port: int) -> list[str]:
    """Every address that the system's resolver gives for a host."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def dial(address: str, port: int, seconds: float) -> socket.socket:
    """A TCP connection to an address, which needs no look-up."""
    return socket.create_connection((address, port), seconds)


class HttpsClient:
    """Exchanges one request for the head of one answer, within `timeout` seconds in all.

    The host is looked up once, all its addresses are checked, and one of those very
    addresses is connected to, with the host's name for SNI, certificate and Host: a name
    that means something else a moment later leads nowhere. `clock` is in seconds.
    """

    def __init__(
        self,
        timeout: float,
        clock: Callable[[], float],
        *,
        lookup: Lookup = lookup,
        dial: Dial = dial,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self._timeout = timeout
        self._clock = clock
        self._lookup = lookup
        self._dial = dial
        self._trust = trust

    def __call__(
        self, destination: Destination, body: bytes, headers: Mapping[str, str]
    ) -> HttpResponse:
        """POST the body; raises as `exchange` does."""
        return self.exchange("POST", destination, body, headers)

    def exchange(
        self, method: str, destination: Destination, body: bytes, headers: Mapping[str, str]
    ) -> HttpResponse:
        """Send one request; raises Refused (see `address`) or NoAnswer."""
        _refuse_headers(headers)
        time = _TimeLeft(self._clock, self._clock() + self._timeout)
        try:
            addresses = self._looked_up(destination, time)
            refuse_addresses(addresses, destination)
            raw, address = self._connected(addresses, destination, time)
            # Once it is secured, the raw socket is an empty shell.
            with raw, self._secured(raw, destination, time) as line:
                certificate = line.getpeercert() if isinstance(line, ssl.SSLSocket) else None
                status, retry_after = _asked(_Line(line, time), method, destination, body, headers)
                return HttpResponse(
                    status, retry_after, address, tuple(addresses), certificate or {}
                )
        except NoAnswer:
            raise
        except TimeoutError as error:
            raise AnswerTimeout("the endpoint did not answer in time") from error
        except ssl.SSLCertVerificationError as error:
            # The rest of the sentence quotes the host.
            why = error.verify_message.partition(",")[0]
            raise NoAnswer(f"the endpoint's certificate is not valid: {why}") from error
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(f"no connection: {type(error).__name__}") from error

    def addresses(self, destination: Destination) -> Sequence[str]:
        """All addresses of the host, fit or not, for people to see; raises NoAnswer."""
        try:
            return self._looked_up(
                destination, _TimeLeft(self._clock, self._clock() + self._timeout)
            )
        except TimeoutError as error:
            raise AnswerTimeout("the endpoint's host was not found in time") from error

    def _looked_up(self, destination: Destination, time: _TimeLeft) -> Sequence[str]:
        """All addresses of the host. The system's resolver knows no deadline: it is left behind."""
        if is_literal(destination.host):
            return [destination.host]
        found: SimpleQueue[Sequence[str] | Exception] = SimpleQueue()

        def look() -> None:
            try:
                found.put(self._lookup(destination.host, destination.port))
            except Exception as error:
                found.put(error)

        Thread(target=look, name="lookup", daemon=True).start()
        try:
            answer = found.get(timeout=time.left())
        except Empty:
            raise TimeoutError from None
        if isinstance(answer, OSError | UnicodeError):
            raise NoAnswer("the endpoint's host has no address") from answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _connected(
        self, addresses: Sequence[str], destination: Destination, time: _TimeLeft
    ) -> tuple[socket.socket, str]:
        failure: OSError | None = None
        for address in addresses[:_MOST_TRIED]:
            seconds = min(_CONNECT_SECONDS, time.left())
            try:
                return self._dial(address, destination.port, seconds), address
            except OSError as error:
                failure = error
        assert failure is not None  # refuse_addresses wants at least one
        raise failure

    def _secured(
        self, raw: socket.socket, destination: Destination, time: _TimeLeft
    ) -> socket.socket:
        raw.settimeout(time.left())
        if destination.loopback:
            return raw
        if self._trust is None:
            # Reading every authority there is takes longer than a request.
            self._trust = ssl.create_default_context()
        # The handshake takes the socket's timeout for all of it, not for each read.
        return self._trust.wrap_socket(raw, server_hostname=destination.host)


@dataclass(frozen=True, slots=True)
class _TimeLeft:
    """The time until a deadline, both as `clock` has them."""

    clock: Callable[[], float]
    deadline: float

    def left(self) -> float:
        """Seconds, always more than none; raises TimeoutError when they are over."""
        seconds = self.deadline - self.clock()
        if seconds <= 0:
            raise TimeoutError
        return seconds


class _Line:
    """A connection whose every step ends by the deadline, and whose answer ends at the limit.

    http.client takes it for a socket.
    """

    def __init__(self, connected: socket.socket, time: _TimeLeft) -> None:
        self._socket = connected
        self._time = time
        self._received = 0

    def sendall(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            self._socket.settimeout(self._time.left())
            rest = rest[self._socket.send(rest) :]

    def receive(self, buffer: memoryview) -> int:
        if self._received >= MOST_RESPONSE:
            raise http.client.HTTPException("the answer is too long")
        self._socket.settimeout(self._time.left())
        count = self._socket.recv_into(buffer[: MOST_RESPONSE - self._received])
        self._received += count
        return count

    def makefile(self, _mode: str) -> IO[bytes]:
        return io.BufferedReader(_Received(self))

    def close(self) -> None:
        self._socket.close()


class _Received(io.RawIOBase):
    """What comes over a line, for whoever wants to read it as a file."""

    def __init__(self, line: _Line) -> None:
        self._line = line

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._line.receive(memoryview(buffer))


class _Final(http.client.HTTPResponse):
    """The answer itself: early hints and the like, which may come before it, are passed over."""

    def _read_status(self) -> tuple[str, int, str]:
        while True:
            version, status, reason = super()._read_status()  # type: ignore[misc]
            if not 102 <= status <= 199:
                return version, status, reason
            http.client.parse_headers(self.fp)


def _asked(
    line: _Line, method: str, destination: Destination, body: bytes, headers: Mapping[str, str]
) -> tuple[int, str | None]:
    connection = http.client.HTTPConnection(destination.host, destination.port)
    connection.sock = line
    connection.response_class = _Final
    try:
        fixed = {"host": destination.authority, "connection": "close"}
        connection.request(method, destination.target, body, {**headers, **fixed})
        answer = connection.getresponse()
        return answer.status, answer.getheader("retry-after")
    finally:
        connection.close()


def _refuse_headers(headers: Mapping[str, str]) -> None:
    """A line break in a value would be a header, or a request, that nobody meant to send."""
    for name, value in headers.items():
        if _HEADER_NAME.fullmatch(name) is None or _HEADER_VALUE.fullmatch(value) is None:
            raise NoAnswer("a header that cannot be sent: letters of ASCII only, no line break")
