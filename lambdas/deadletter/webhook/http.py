"""One HTTP exchange with a checked address: no redirects, no proxies, one deadline."""

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

# Only the status and the headers are read: an endpoint's body is not needed.
MOST_RESPONSE_BYTES = 64 * 1024

# After this the next address of the host is tried.
_CONNECT_SECONDS = 3.0

# The most addresses of one host that are tried, one after the other.
_MOST_ADDRESSES = 4

_HEADER_NAME = re.compile(r"[A-Za-z0-9-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")

Lookup = Callable[[str, int], Sequence[str]]
"""Returns every address of a host, for a port; raises OSError if it has none."""

Dial = Callable[[str, int, float], socket.socket]
"""Connects to an address and port within a number of seconds; raises OSError."""


class NoAnswer(ConnectionError):
    """The endpoint gave no answer; the text says why, and quotes nothing of the request."""


class AnswerTimeout(NoAnswer):
    """The endpoint gave no answer in time; it may have accepted the request."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The head of an endpoint's answer.

    `retry_after` is that header unchanged; `addresses` are all addresses of the host,
    `address` the one that answered, and `certificate` its certificate in the form of
    `ssl.SSLSocket.getpeercert` (empty without TLS).
    """

    status: int
    retry_after: str | None = None
    address: str = ""
    addresses: tuple[str, ...] = ()
    certificate: Mapping[str, Any] = field(default_factory=dict)


def lookup(host: str, port: int) -> list[str]:
    """Every address of a host, by the system's resolver."""
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in infos))


def dial(address: str, port: int, seconds: float) -> socket.socket:
    """A TCP connection to an address, without a look-up."""
    return socket.create_connection((address, port), seconds)


class HttpsClient:
    """Sends one request and reads the head of the answer, within `timeout` seconds in all.

    The host is looked up once, all its addresses are checked, and the connection goes to one
    of these addresses, with the host's name for SNI, certificate and Host. So a name that
    resolves differently a moment later has no effect. `clock` is in seconds.
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
        """POST the body; raises the errors of `exchange`."""
        return self.exchange("POST", destination, body, headers)

    def exchange(
        self, method: str, destination: Destination, body: bytes, headers: Mapping[str, str]
    ) -> HttpResponse:
        """Send one request; raises UrlRefused (see `url_guard`) or NoAnswer."""
        _refuse_headers(headers)
        time = _TimeLeft(self._clock, self._clock() + self._timeout)
        try:
            addresses = self._look_up(destination, time)
            refuse_addresses(addresses, destination)
            raw, address = self._connect(addresses, destination, time)
            # After the TLS handshake the raw socket is empty; closing it does no harm.
            with raw, self._secure(raw, destination, time) as secured:
                certificate = secured.getpeercert() if isinstance(secured, ssl.SSLSocket) else None
                connection = _TimedConnection(secured, time)
                status, retry_after = _ask(connection, method, destination, body, headers)
                return HttpResponse(
                    status, retry_after, address, tuple(addresses), certificate or {}
                )
        except NoAnswer:
            raise
        except TimeoutError as error:
            raise AnswerTimeout("the endpoint did not answer in time") from error
        except ssl.SSLCertVerificationError as error:
            # The rest of the text quotes the host.
            why = error.verify_message.partition(",")[0]
            raise NoAnswer(f"the endpoint's certificate is not valid: {why}") from error
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(f"no connection: {type(error).__name__}") from error

    def addresses(self, destination: Destination) -> Sequence[str]:
        """All addresses of the host, fit or not, for display; raises NoAnswer."""
        try:
            return self._look_up(destination, _TimeLeft(self._clock, self._clock() + self._timeout))
        except TimeoutError as error:
            raise AnswerTimeout("the endpoint's host was not found in time") from error

    def _look_up(self, destination: Destination, time: _TimeLeft) -> Sequence[str]:
        """All addresses of the host.

        The system's resolver has no deadline, so it runs in a thread that is abandoned when
        the time is over.
        """
        if is_literal(destination.host):
            return [destination.host]
        answers: SimpleQueue[Sequence[str] | Exception] = SimpleQueue()

        def resolve() -> None:
            try:
                answers.put(self._lookup(destination.host, destination.port))
            except Exception as error:
                answers.put(error)

        Thread(target=resolve, name="lookup", daemon=True).start()
        try:
            answer = answers.get(timeout=time.left())
        except Empty:
            raise TimeoutError from None
        if isinstance(answer, OSError | UnicodeError):
            raise NoAnswer("the endpoint's host has no address") from answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _connect(
        self, addresses: Sequence[str], destination: Destination, time: _TimeLeft
    ) -> tuple[socket.socket, str]:
        failure: OSError | None = None
        for address in addresses[:_MOST_ADDRESSES]:
            seconds = min(_CONNECT_SECONDS, time.left())
            try:
                return self._dial(address, destination.port, seconds), address
            except OSError as error:
                failure = error
        assert failure is not None  # refuse_addresses raises for an empty list
        raise failure

    def _secure(
        self, raw: socket.socket, destination: Destination, time: _TimeLeft
    ) -> socket.socket:
        raw.settimeout(time.left())
        if destination.loopback:
            return raw
        if self._trust is None:
            # Loading all authorities takes longer than a request, so it is done once.
            self._trust = ssl.create_default_context()
        # The socket's timeout bounds the whole handshake, not each read.
        return self._trust.wrap_socket(raw, server_hostname=destination.host)


@dataclass(frozen=True, slots=True)
class _TimeLeft:
    """The time until a deadline, in seconds of `clock`."""

    clock: Callable[[], float]
    deadline: float

    def left(self) -> float:
        """The seconds left, more than 0; raises TimeoutError after the deadline."""
        seconds = self.deadline - self.clock()
        if seconds <= 0:
            raise TimeoutError
        return seconds


class _TimedConnection:
    """A connection that ends each step by the deadline, and the answer at the limit of bytes.

    It has the methods of a socket that http.client calls.
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
        if self._received >= MOST_RESPONSE_BYTES:
            raise http.client.HTTPException("the answer is too long")
        self._socket.settimeout(self._time.left())
        count = self._socket.recv_into(buffer[: MOST_RESPONSE_BYTES - self._received])
        self._received += count
        return count

    def makefile(self, _mode: str) -> IO[bytes]:
        return io.BufferedReader(_ResponseStream(self))

    def close(self) -> None:
        """Does nothing: `exchange` closes the socket, also after an error."""


class _ResponseStream(io.RawIOBase):
    """The bytes that a connection receives, as a file."""

    def __init__(self, connection: _TimedConnection) -> None:
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._connection.receive(memoryview(buffer))


class _FinalResponse(http.client.HTTPResponse):
    """The final answer: informational ones before it, such as early hints, are skipped."""

    def _read_status(self) -> tuple[str, int, str]:
        while True:
            version, status, reason = super()._read_status()  # type: ignore[misc]
            if not 102 <= status <= 199:
                return version, status, reason
            http.client.parse_headers(self.fp)


def _ask(
    connection: _TimedConnection,
    method: str,
    destination: Destination,
    body: bytes,
    headers: Mapping[str, str],
) -> tuple[int, str | None]:
    http_connection = http.client.HTTPConnection(destination.host, destination.port)
    http_connection.sock = connection
    http_connection.response_class = _FinalResponse
    fixed = {"host": destination.authority, "connection": "close"}
    http_connection.request(method, destination.target, body, {**headers, **fixed})
    answer = http_connection.getresponse()
    return answer.status, answer.getheader("retry-after")


def _refuse_headers(headers: Mapping[str, str]) -> None:
    """Raise NoAnswer for bad headers: a line break in a value would start a header or request."""
    for name, value in headers.items():
        if _HEADER_NAME.fullmatch(name) is None or _HEADER_VALUE.fullmatch(value) is None:
            raise NoAnswer(
                "a header cannot be sent: its value must be printable ASCII without line breaks"
            )
