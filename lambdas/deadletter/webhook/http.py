"""HTTP exchanges with checked addresses: no redirects, no proxies, one deadline each."""

from __future__ import annotations

import http.client
import io
import re
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import IO, Any

from deadletter.webhook.connections import CheckedHost, Connection, KeptConnections
from deadletter.webhook.url_guard import Destination, is_literal, refuse_addresses

# Only the status and the headers are read: an endpoint's body is not needed.
MOST_RESPONSE_BYTES = 64 * 1024

# After this the next address of the host is tried.
_CONNECT_SECONDS = 3.0

# The most addresses of one host that are tried, one after the other.
_MOST_ADDRESSES = 4

# The body of an answer has to be read before its connection can carry another request. One that
# takes longer is not waited for: its connection is closed.
_DRAIN_SECONDS = 0.25

# How long a connection is kept if the endpoint does not say; `connections` has a shorter limit.
_KEEP_SECONDS = 60.0

_KEEP_ALIVE_TIMEOUT = re.compile(r"\btimeout\s*=\s*([0-9]{1,6})", re.IGNORECASE)

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
    connected = socket.create_connection((address, port), seconds)
    # Head and body are two writes: on a kept connection the second would wait for an
    # acknowledgement of the first.
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


class HttpsClient:
    """Sends one request and reads the head of the answer, within `timeout` seconds in all.

    The host is looked up, all its addresses are checked, and the connection goes to one
    of these addresses, with the host's name for SNI, certificate and Host. So a name that
    resolves differently a moment later has no effect. `clock` is in seconds.

    With `kept`, connections stay open for the next request to the same host, and its checked
    addresses are used for `connections.CHECKED_SECONDS`; without it, each request has its own
    look-up and its own connection.
    """

    def __init__(
        self,
        timeout: float,
        clock: Callable[[], float],
        *,
        lookup: Lookup = lookup,
        dial: Dial = dial,
        trust: ssl.SSLContext | None = None,
        kept: KeptConnections | None = None,
    ) -> None:
        self._timeout = timeout
        self._clock = clock
        self._lookup = lookup
        self._dial = dial
        self._trust = trust
        self._kept = kept
        self._loading_trust = Lock()

    def __call__(
        self, destination: Destination, body: bytes, headers: Mapping[str, str]
    ) -> HttpResponse:
        """POST the body; raises the errors of `exchange`."""
        return self.exchange("POST", destination, body, headers)

    def exchange(
        self, method: str, destination: Destination, body: bytes, headers: Mapping[str, str]
    ) -> HttpResponse:
        """Send one request; raises UrlRefused (see `url_guard`) or NoAnswer.

        A request is sent a second time only if its kept connection turned out to be closed
        before a byte of it was sent.
        """
        _refuse_headers(headers)
        time = _TimeLeft(self._clock, self._clock() + self._timeout)
        request = _Request(method, destination, body, headers)
        try:
            if self._kept is None:
                addresses = self._checked(destination, time)
                connection = self._connect(addresses, destination, time)
                return self._ask_and_close(connection, request, time)
            return self._ask_on_kept(self._kept, request, time)
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

    def _checked(self, destination: Destination, time: _TimeLeft) -> Sequence[str]:
        addresses = self._look_up(destination, time)
        refuse_addresses(addresses, destination)
        return addresses

    def _ask_on_kept(
        self, kept: KeptConnections, request: _Request, time: _TimeLeft
    ) -> HttpResponse:
        host = self._known_host(kept, request.destination, time)
        connection = kept.take(host)
        if connection is not None:
            try:
                return self._ask(kept, host, connection, request, time)
            except _NothingSent:
                # It was closed between two requests. The request goes out once, on a new one.
                pass
        connection = self._connect(host.addresses, request.destination, time)
        return self._ask(kept, host, connection, request, time)

    def _known_host(
        self, kept: KeptConnections, destination: Destination, time: _TimeLeft
    ) -> CheckedHost:
        """The host with its checked addresses, looked up by one thread at a time."""
        host = kept.known(destination)
        if host is not None:
            return host
        looking_up = kept.looking_up(destination)
        if not looking_up.acquire(timeout=time.left()):
            raise TimeoutError
        try:
            return kept.known(destination) or kept.remember(
                destination, self._checked(destination, time)
            )
        finally:
            looking_up.release()

    def _connect(
        self, addresses: Sequence[str], destination: Destination, time: _TimeLeft
    ) -> Connection:
        raw, address = self._dial_one(addresses, destination, time)
        try:
            secured = self._secure(raw, destination, time)
        except BaseException:
            raw.close()
            raise
        certificate = secured.getpeercert() if isinstance(secured, ssl.SSLSocket) else None
        return Connection(raw, secured, address, tuple(addresses), certificate or {})

    def _dial_one(
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
        with self._loading_trust:
            if self._trust is None:
                # Loading all authorities takes longer than a request, so it is done once.
                self._trust = ssl.create_default_context()
        # The socket's timeout bounds the whole handshake, not each read.
        return self._trust.wrap_socket(raw, server_hostname=destination.host)

    def _ask(
        self,
        kept: KeptConnections,
        host: CheckedHost,
        connection: Connection,
        request: _Request,
        time: _TimeLeft,
    ) -> HttpResponse:
        """Send a request, and keep its connection if the endpoint keeps it too.

        Raises _NothingSent if a connection that was used before is closed by now.
        """
        timed = _TimedConnection(connection.secured, time)
        keep_seconds = 0.0
        try:
            answer = _send(timed, request, connection_header="keep-alive")
            keep_seconds = self._kept_by(answer, timed)
            return _response(connection, answer)
        except OSError as error:
            was_open = not connection.sent_before or timed.sent or isinstance(error, TimeoutError)
            if was_open:
                raise
            raise _NothingSent from error
        finally:
            if keep_seconds > 0:
                kept.give_back(host, connection, keep_seconds)
            else:
                connection.close()

    def _ask_and_close(
        self, connection: Connection, request: _Request, time: _TimeLeft
    ) -> HttpResponse:
        try:
            timed = _TimedConnection(connection.secured, time)
            return _response(connection, _send(timed, request, connection_header="close"))
        finally:
            connection.close()

    def _kept_by(self, answer: http.client.HTTPResponse, timed: _TimedConnection) -> float:
        """For how many seconds the endpoint keeps the connection; 0 if it cannot be used again.

        The rest of the answer is read, but not waited for.
        """
        if answer.will_close or answer.status < 200:
            return 0.0
        try:
            timed.limit(self._clock() + _DRAIN_SECONDS)
            answer.read()
        except (OSError, http.client.HTTPException, ValueError):
            return 0.0
        if timed.has_unread_bytes:
            # They belong to no request: the next one must not take them for its answer.
            return 0.0
        said = _KEEP_ALIVE_TIMEOUT.search(answer.getheader("keep-alive") or "")
        # A second less than it says: a request is on its way for some time.
        return float(said[1]) - 1.0 if said else _KEEP_SECONDS


class _NothingSent(Exception):
    """No byte of the request was sent, because its connection was closed before."""


@dataclass(frozen=True, slots=True)
class _Request:
    """One request, and where it goes."""

    method: str
    destination: Destination
    body: bytes
    headers: Mapping[str, str]


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
        self._reader: _ResponseReader | None = None
        self.sent = 0

    def limit(self, deadline: float) -> None:
        """End each further step by this time, if that is earlier."""
        self._time = replace(self._time, deadline=min(self._time.deadline, deadline))

    @property
    def has_unread_bytes(self) -> bool:
        """Whether more was received than the answer that was read."""
        return self._reader is not None and self._reader.has_more

    def sendall(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            self._socket.settimeout(self._time.left())
            sent = self._socket.send(rest)
            self.sent += sent
            rest = rest[sent:]

    def receive(self, buffer: memoryview) -> int:
        if self._received >= MOST_RESPONSE_BYTES:
            raise http.client.HTTPException("the answer is too long")
        self._socket.settimeout(self._time.left())
        count = self._socket.recv_into(buffer[: MOST_RESPONSE_BYTES - self._received])
        self._received += count
        return count

    def makefile(self, _mode: str) -> IO[bytes]:
        self._reader = _ResponseReader(_ResponseStream(self))
        return self._reader

    def close(self) -> None:
        """Does nothing: the client closes the socket or keeps it."""


class _ResponseStream(io.RawIOBase):
    """The bytes that a connection receives, as a file."""

    def __init__(self, connection: _TimedConnection) -> None:
        self._connection = connection
        self.ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return 0 if self.ended else self._connection.receive(memoryview(buffer))


class _ResponseReader(io.BufferedReader):
    """A buffer over the stream that can say what is left in it after the answer was read."""

    def __init__(self, stream: _ResponseStream) -> None:
        super().__init__(stream)
        self._stream = stream

    def close(self) -> None:
        """Does nothing: http.client closes it with the answer, before `has_more` is asked."""

    @property
    def has_more(self) -> bool:
        """Whether bytes are left over; no further ones are received."""
        self._stream.ended = True
        return bool(self.peek(1))


class _FinalResponse(http.client.HTTPResponse):
    """The final answer: informational ones before it, such as early hints, are skipped."""

    def _read_status(self) -> tuple[str, int, str]:
        while True:
            version, status, reason = super()._read_status()  # type: ignore[misc]
            if not 102 <= status <= 199:
                return version, status, reason
            http.client.parse_headers(self.fp)


def _send(
    timed: _TimedConnection, request: _Request, *, connection_header: str
) -> http.client.HTTPResponse:
    """Send a request; returns the answer, of which the head has been read."""
    to = request.destination
    http_connection = http.client.HTTPConnection(to.host, to.port)
    http_connection.sock = timed
    http_connection.response_class = _FinalResponse
    fixed = {"host": to.authority, "connection": connection_header}
    http_connection.request(request.method, to.target, request.body, {**request.headers, **fixed})
    return http_connection.getresponse()


def _response(connection: Connection, answer: http.client.HTTPResponse) -> HttpResponse:
    return HttpResponse(
        answer.status,
        answer.getheader("retry-after"),
        connection.address,
        connection.addresses,
        connection.certificate,
    )


def _refuse_headers(headers: Mapping[str, str]) -> None:
    """Raise NoAnswer for bad headers: a line break in a value would start a header or request."""
    for name, value in headers.items():
        if _HEADER_NAME.fullmatch(name) is None or _HEADER_VALUE.fullmatch(value) is None:
            raise NoAnswer(
                "a header cannot be sent: its value must be printable ASCII without line breaks"
            )
