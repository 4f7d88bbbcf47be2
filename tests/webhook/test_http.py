"""One HTTP exchange, with hostile endpoints on this machine."""

from __future__ import annotations

import itertools
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from deadletter.webhook.http import (
    MOST_RESPONSE_BYTES,
    AnswerTimeout,
    HttpsClient,
    NoAnswer,
    dial,
    lookup,
)
from deadletter.webhook.url_guard import Destination, UrlRefused, read_url
from tests.each_row import each_row
from tests.webhook.tls_endpoint import PATIENCE, Behaviour, Endpoint, answers, certificate

NAME = "hooks.example.com"
HOOKS = read_url(f"https://{NAME}/in?a=b")
PUBLIC = "93.184.215.14"
OK = answers("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificate(tmp_path_factory.mktemp("tls"), NAME)


@pytest.fixture(scope="module")
def trust(pem: Path) -> ssl.SSLContext:
    """A TLS context that trusts only the endpoint's certificate."""
    return ssl.create_default_context(cafile=str(pem))


def local(port: int) -> Destination:
    return read_url(f"http://127.0.0.1:{port}/in", allow_loopback=True)


def post(
    behave: Behaviour,
    *,
    timeout: float = PATIENCE,
    clock: Callable[[], float] = time.monotonic,
    body: bytes = b"{}",
) -> int:
    """The status of a plain HTTP POST to an endpoint with this behaviour."""
    with Endpoint(behave) as endpoint:
        return HttpsClient(timeout, clock)(local(endpoint.port), body, {}).status


def test_a_post_reaches_the_checked_address_with_the_hosts_name(
    pem: Path, trust: ssl.SSLContext
) -> None:
    looked_up, dialled = [], []

    def look(host: str, port: int) -> Sequence[str]:
        looked_up.append((host, port))
        return [PUBLIC, "8.8.8.8"]

    with Endpoint(answers("HTTP/1.1 202 Accepted\r\nretry-after: 7\r\n\r\n"), pem) as endpoint:

        def connect(address: str, port: int, seconds: float) -> socket.socket:
            dialled.append((address, port))
            return endpoint.dial(address, port, seconds)

        poster = HttpsClient(PATIENCE, time.monotonic, lookup=look, dial=connect, trust=trust)
        answer = poster(HOOKS, b'{"a": 1}', {"webhook-id": "m1"})
    assert (answer.status, answer.retry_after) == (202, "7")
    assert (answer.address, answer.addresses) == (PUBLIC, (PUBLIC, "8.8.8.8"))
    assert answer.certificate["subject"] == ((("commonName", NAME),),)
    assert looked_up == [(NAME, 443)]
    assert dialled == [(PUBLIC, 443)]
    assert endpoint.names == [NAME]
    [request] = endpoint.requests
    head, _, body = request.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /in?a=b HTTP/1.1"
    assert f"host: {NAME}" in lines
    assert "webhook-id: m1" in lines
    assert body == b'{"a": 1}'


def test_a_name_that_is_rebound_after_the_check_has_no_effect(
    pem: Path, trust: ssl.SSLContext
) -> None:
    """The first look-up gives a public address, any later one loopback: there is no later one."""
    later = itertools.chain([[PUBLIC]], itertools.repeat(["127.0.0.1"]))
    dialled = []

    with Endpoint(OK, pem) as endpoint:

        def connect(address: str, port: int, seconds: float) -> socket.socket:
            dialled.append(address)
            return endpoint.dial(address, port, seconds)

        poster = HttpsClient(
            PATIENCE, time.monotonic, lookup=lambda *_: next(later), dial=connect, trust=trust
        )
        assert poster(HOOKS, b"", {}).status == 200
        with pytest.raises(UrlRefused, match="not a public address"):
            poster(HOOKS, b"", {})
    assert dialled == [PUBLIC]


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], [PUBLIC, "169.254.169.254"], ["::ffff:10.0.0.1"], []]
)
def test_no_connection_is_made_to_a_host_with_an_unfit_address(addresses: list[str]) -> None:
    def never(*_: object) -> socket.socket:
        raise AssertionError("dialled")

    with pytest.raises(UrlRefused):
        HttpsClient(1, time.monotonic, lookup=lambda *_: addresses, dial=never)(HOOKS, b"", {})


def test_an_address_in_the_url_is_not_looked_up() -> None:
    def never(*_: object) -> list[str]:
        raise AssertionError("looked up")

    with Endpoint(OK) as endpoint:
        poster = HttpsClient(PATIENCE, time.monotonic, lookup=never)
        assert poster(local(endpoint.port), b"", {}).status == 200


@each_row("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_an_answer_and_is_not_followed(status: int) -> None:
    with Endpoint(OK) as inside:
        where = f"HTTP/1.1 {status} Moved\r\nlocation: http://127.0.0.1:{inside.port}/\r\n\r\n"
        assert post(answers(where)) == status
    assert inside.requests == []


def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    with Endpoint(OK) as proxy:
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        assert post(OK) == 200
    assert proxy.requests == []


def drips(start: str) -> Behaviour:
    """Sends byte after byte until the connection is closed."""

    def drip(connection: socket.socket, _request: bytes) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(start.encode())
        while True:
            connection.sendall(b"a")

    return drip


@pytest.mark.parametrize("start", ["", "HTTP/1.1 200 ", "HTTP/1.1 200 OK\r\nx: "])
def test_a_slow_answer_ends_at_the_total_deadline(start: str) -> None:
    """Each byte arrives in time, but all of them together take too long."""
    ticks = itertools.count(0, 1.0)
    with pytest.raises(AnswerTimeout, match="did not answer in time"):
        post(drips(start), timeout=10, clock=lambda: next(ticks))
    assert next(ticks) < 20


def test_a_slow_body_does_not_delay_the_answer() -> None:
    ticks = itertools.count(0, 0.1)
    assert post(drips("HTTP/1.1 200 OK\r\n\r\n"), timeout=10, clock=lambda: next(ticks)) == 200


def test_a_silent_endpoint_ends_at_the_deadline() -> None:
    until = threading.Event()

    def silent(_connection: socket.socket, _request: bytes) -> None:
        until.wait(PATIENCE)

    with Endpoint(silent) as endpoint:
        try:
            with pytest.raises(AnswerTimeout):
                HttpsClient(0.05, time.monotonic)(local(endpoint.port), b"", {})
        finally:
            until.set()


def test_an_endpoint_that_does_not_read_ends_at_the_deadline() -> None:
    ticks = itertools.count(0, 1.0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        to = local(int(listener.getsockname()[1]))
        with pytest.raises(AnswerTimeout):
            # The deadline passes two calls of the clock later, when the socket's buffer is full.
            HttpsClient(5.05, lambda: next(ticks))(to, b"a" * 32_000_000, {})


def test_an_endpoint_without_a_tls_handshake_ends_at_the_deadline(trust: ssl.SSLContext) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
        poster = HttpsClient(
            0.05,
            time.monotonic,
            lookup=lambda *_: [PUBLIC],
            dial=lambda _address, _port, seconds: dial("127.0.0.1", port, seconds),
            trust=trust,
        )
        with pytest.raises(AnswerTimeout):
            poster(HOOKS, b"", {})


def test_a_resolver_that_hangs_is_abandoned() -> None:
    """Its thread is a daemon, so the process can end without it."""
    until = threading.Event()
    daemons = []

    def hang(*_: object) -> list[str]:
        daemons.append(threading.current_thread().daemon)
        until.wait(PATIENCE)
        return []

    poster = HttpsClient(0.05, time.monotonic, lookup=hang)
    try:
        with pytest.raises(AnswerTimeout):
            poster(HOOKS, b"", {})
        with pytest.raises(AnswerTimeout, match="host was not found in time"):
            poster.addresses(HOOKS)
    finally:
        until.set()
    assert daemons == [True, True]


@pytest.mark.parametrize("addresses", [[PUBLIC, "8.8.8.8"], ["127.0.0.1"]])
def test_a_person_is_shown_every_address_of_a_host_fit_or_not(addresses: list[str]) -> None:
    poster = HttpsClient(PATIENCE, time.monotonic, lookup=lambda *_: addresses)
    assert poster.addresses(HOOKS) == addresses


def test_connecting_has_a_deadline_of_its_own() -> None:
    asked = []

    def connect(_address: str, _port: int, seconds: float) -> socket.socket:
        asked.append(seconds)
        raise TimeoutError

    poster = HttpsClient(60, lambda: 0.0, lookup=lambda *_: [PUBLIC, "8.8.8.8"], dial=connect)
    with pytest.raises(AnswerTimeout):
        poster(HOOKS, b"", {})
    assert asked == [3.0, 3.0]


@pytest.mark.parametrize(("now", "asked_for"), [(9.0, [1.0]), (9.5, [0.5]), (10.0, [])])
def test_connecting_ends_at_the_total_deadline_too(now: float, asked_for: list[float]) -> None:
    asked = []

    def connect(_address: str, _port: int, seconds: float) -> socket.socket:
        asked.append(seconds)
        raise TimeoutError

    times = iter([0.0, now])
    with pytest.raises(AnswerTimeout):
        HttpsClient(10, lambda: next(times), dial=connect)(local(80), b"", {})
    assert asked == asked_for


def test_the_tls_handshake_has_the_time_that_connecting_left() -> None:
    now = [0.0]

    def connect(_address: str, _port: int, _seconds: float) -> socket.socket:
        now[0] += 2.5
        return socket.socket()

    class Trust:
        def wrap_socket(self, raw: socket.socket, *, server_hostname: str) -> socket.socket:
            asked.append((server_hostname, raw.gettimeout()))
            raise TimeoutError

    asked: list[tuple[str, float | None]] = []
    poster = HttpsClient(
        10,
        lambda: now[0],
        lookup=lambda *_: [PUBLIC],
        dial=connect,
        trust=cast(ssl.SSLContext, Trust()),
    )
    with pytest.raises(AnswerTimeout):
        poster(HOOKS, b"", {})
    assert asked == [(NAME, 7.5)]


def test_another_checked_address_is_tried_if_one_does_not_answer() -> None:
    tried = []
    with Endpoint(OK) as endpoint:

        def connect(address: str, port: int, seconds: float) -> socket.socket:
            tried.append(address)
            if address == "127.0.0.2":
                raise ConnectionRefusedError
            return endpoint.dial(address, port, seconds)

        to = read_url("http://localhost", allow_loopback=True)
        addresses = ["127.0.0.2", "127.0.0.1"]
        poster = HttpsClient(PATIENCE, time.monotonic, lookup=lambda *_: addresses, dial=connect)
        assert poster(to, b"", {}).status == 200
    assert tried == addresses


def test_a_post_whose_answer_is_lost_is_not_sent_to_another_address() -> None:
    """The endpoint may have accepted it: the next receive tries again, with the same id."""
    requests = []

    def hang_up(_connection: socket.socket, request: bytes) -> None:
        requests.append(request)

    with Endpoint(hang_up) as endpoint:
        to = read_url("http://localhost", allow_loopback=True)
        addresses = ["127.0.0.1", "127.0.0.2"]
        poster = HttpsClient(
            PATIENCE, time.monotonic, lookup=lambda *_: addresses, dial=endpoint.dial
        )
        with pytest.raises(NoAnswer):
            poster(to, b"", {})
    assert len(requests) == 1


@pytest.mark.parametrize("answer", ["HTTP/1.1 200 OK\r\n\r\n", "nonsense\r\n\r\n", ""])
def test_the_connection_is_closed_after_an_answer_and_without_one(answer: str) -> None:
    dialled = []

    def connect(address: str, port: int, seconds: float) -> socket.socket:
        dialled.append(dial(address, port, seconds))
        return dialled[-1]

    with Endpoint(answers(answer)) as endpoint:
        poster = HttpsClient(PATIENCE, time.monotonic, dial=connect)
        with suppress(NoAnswer):
            poster(local(endpoint.port), b"", {})
    assert [connection.fileno() for connection in dialled] == [-1]


def test_of_many_addresses_only_a_few_are_tried() -> None:
    tried = []

    def connect(address: str, _port: int, _seconds: float) -> socket.socket:
        tried.append(address)
        raise ConnectionRefusedError

    many = [f"93.184.215.{number}" for number in range(200)]
    with pytest.raises(NoAnswer, match="no connection: ConnectionRefusedError"):
        HttpsClient(1, time.monotonic, lookup=lambda *_: many, dial=connect)(HOOKS, b"", {})
    assert len(tried) == 4


def flood(start: str) -> Behaviour:
    return answers(start + "x: " + "a" * MOST_RESPONSE_BYTES)


def header_by_header(connection: socket.socket, _request: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"x: " + b"a" * 1000 + b"\r\n")


@each_row(
    "behave",
    [
        flood("HTTP/1.1 200 OK\r\n"),
        flood("HTTP/1.1 100 Continue\r\n"),
        header_by_header,
        answers("HTTP/1.1 100 Continue\r\n\r\n" * 10_000),
        answers("HTTP/1.1 103 Early Hints\r\n\r\n" * 10_000),
        answers("a" * MOST_RESPONSE_BYTES * 2),
        answers("SSH-2.0-OpenSSH_9.6\r\n"),
        answers("HTTP/1.1 two hundred\r\n\r\n"),
        answers("HTTP/1.1 20"),
        answers(""),
    ],
)
def test_an_answer_that_is_malformed_or_too_long_is_no_answer(behave: Behaviour) -> None:
    with pytest.raises(NoAnswer) as raised:
        post(behave)
    assert not isinstance(raised.value, AnswerTimeout)


@pytest.mark.parametrize(
    "early", ["100 Continue", "102 Processing", "103 Early Hints", "199 Unknown"]
)
def test_an_informational_answer_is_skipped(early: str) -> None:
    """If it were read as the answer, an accepted message would be posted again."""
    hints = f"HTTP/1.1 {early}\r\nlink: </a>\r\nretry-after: 9\r\n\r\n"
    assert post(answers(f"{hints}{hints}HTTP/1.1 204 No Content\r\n\r\n")) == 204


def test_an_endpoint_that_switches_protocols_has_answered() -> None:
    """No answer follows a status 101."""
    assert post(answers("HTTP/1.1 101 Switching Protocols\r\n\r\n")) == 101


class Narrow(socket.socket):
    """A connection that carries 1,000 bytes at a time."""

    def send(self, data: Any, *flags: int) -> int:
        return super().send(data[:1000], *flags)

    def recv_into(self, buffer: Any, *more: int) -> int:
        return super().recv_into(buffer[:1000], *more)


def narrow(address: str, port: int, seconds: float) -> socket.socket:
    return Narrow(fileno=dial(address, port, seconds).detach())


def head_of(length: int) -> str:
    """The head of an answer, of so many bytes."""
    lines = "HTTP/1.1 200 OK\r\n" + ("x: " + "a" * 995 + "\r\n") * 65
    return lines + "x: " + "a" * (length - len(lines) - 7) + "\r\n\r\n"


def test_the_head_of_an_answer_may_have_64_kib_and_no_more() -> None:
    with Endpoint(answers(head_of(65_536))) as endpoint:
        poster = HttpsClient(PATIENCE, time.monotonic, dial=narrow)
        assert poster(local(endpoint.port), b"", {}).status == 200
    with Endpoint(answers(head_of(65_537))) as endpoint:
        poster = HttpsClient(PATIENCE, time.monotonic, dial=narrow)
        with pytest.raises(NoAnswer, match="no connection: HTTPException"):
            poster(local(endpoint.port), b"", {})


def test_a_body_that_is_sent_in_pieces_arrives_whole() -> None:
    body = bytes(range(256)) * 100
    with Endpoint(OK) as endpoint:
        poster = HttpsClient(PATIENCE, time.monotonic, dial=narrow)
        answer = poster(local(endpoint.port), body, {})
    assert (answer.status, answer.certificate) == (200, {})
    [request] = endpoint.requests
    assert request.partition(b"\r\n\r\n")[2] == body


def test_an_endpoint_that_reads_slowly_ends_at_the_total_deadline() -> None:
    """Each piece is sent in time, but all of them together take too long."""
    ticks = itertools.count(0, 1.0)
    with Endpoint(OK) as endpoint:
        poster = HttpsClient(50, lambda: next(ticks), dial=narrow)
        with pytest.raises(AnswerTimeout):
            poster(local(endpoint.port), b"a" * 100_000, {})
    assert next(ticks) < 60


def test_the_answers_body_is_not_read() -> None:
    ticks = itertools.count(0, 0.1)
    endless = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + "5\r\nhello\r\n" * 100_000
    assert post(answers(endless), timeout=10, clock=lambda: next(ticks)) == 200


@each_row(
    "headers",
    [
        {"webhook-id": "m1\r\nhost: evil"},
        {"webhook-id": "m1\nx: y"},
        {"webhook-id": "m1\r\n x"},
        {"webhook-id": "m1\x00"},
        {"webhook-id": "Žofie"},
        {"webhook id": "m1"},
        {"webhook-id\r\nx": "m1"},
        {"": "m1"},
    ],
)
def test_a_header_with_a_line_break_is_not_sent(headers: dict[str, str]) -> None:
    def never(*_: object) -> list[str]:
        raise AssertionError("looked up")

    with pytest.raises(NoAnswer, match="without line breaks"):
        HttpsClient(1, time.monotonic, lookup=never)(HOOKS, b"", headers)


def over_tls(pem: Path, trust: ssl.SSLContext | None) -> int:
    with Endpoint(OK, pem) as endpoint:
        poster = HttpsClient(
            PATIENCE,
            time.monotonic,
            lookup=lambda *_: [PUBLIC],
            dial=endpoint.dial,
            trust=trust,
        )
        return poster(HOOKS, b"", {}).status


def test_an_untrusted_certificate_is_no_answer(pem: Path) -> None:
    with pytest.raises(NoAnswer, match="certificate is not valid: self-signed certificate"):
        over_tls(pem, None)


def test_an_expired_certificate_is_no_answer(tmp_path: Path) -> None:
    old = certificate(tmp_path, NAME, valid=timedelta(days=-1))
    with pytest.raises(NoAnswer, match="certificate is not valid: certificate has expired"):
        over_tls(old, ssl.create_default_context(cafile=str(old)))


def test_a_certificate_of_another_host_is_no_answer_and_no_host_is_quoted(tmp_path: Path) -> None:
    other = certificate(tmp_path, "evil.example.com")
    with pytest.raises(NoAnswer, match="certificate is not valid: Hostname mismatch") as raised:
        over_tls(other, ssl.create_default_context(cafile=str(other)))
    assert NAME not in str(raised.value)


@pytest.fixture
def nowhere() -> int:
    """A port without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_a_refused_connection_is_no_answer(nowhere: int) -> None:
    with pytest.raises(NoAnswer, match="no connection: ConnectionRefusedError"):
        HttpsClient(PATIENCE, time.monotonic)(local(nowhere), b"", {})


def test_a_name_without_an_address_is_no_answer() -> None:
    def unknown(*_: object) -> list[str]:
        raise socket.gaierror(-2, "Name or service not known")

    with pytest.raises(NoAnswer, match="host has no address"):
        HttpsClient(PATIENCE, time.monotonic, lookup=unknown)(HOOKS, b"", {})


def test_a_bug_in_a_resolver_is_raised() -> None:
    def broken(*_: object) -> list[str]:
        raise KeyError("bug")

    with pytest.raises(KeyError):
        HttpsClient(PATIENCE, time.monotonic, lookup=broken)(HOOKS, b"", {})


def test_the_systems_resolver_gives_each_address_once() -> None:
    addresses = lookup("localhost", 443)
    assert "127.0.0.1" in addresses or "::1" in addresses
    assert len(addresses) == len(set(addresses))
