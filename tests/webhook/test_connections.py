"""Kept connections: what a second request to a host may use of the first, and what it may not."""

from __future__ import annotations

import io
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from deadletter.webhook.connections import CHECKED_SECONDS, Connection, KeptConnections
from deadletter.webhook.http import HttpResponse, HttpsClient, NoAnswer, dial
from deadletter.webhook.url_guard import Destination, UrlRefused, read_url
from tests.webhook.tls_endpoint import PATIENCE, Behaviour, Endpoint, answers, certificate

NAME = "hooks.example.com"
PUBLIC = "93.184.215.14"
MANY = 1_000
OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@dataclass
class Client:
    """A client that keeps connections, and what it did on the network. `now` is its clock."""

    dial: Callable[[str, int, float], socket.socket] = dial
    addresses: Sequence[str] = (PUBLIC,)
    trust: ssl.SSLContext | None = None
    timeout: float = PATIENCE
    now: float = 1_000.0
    looked_up: list[str] = field(default_factory=list)
    dialled: list[socket.socket] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.kept = KeptConnections(lambda: self.now)
        self.http = HttpsClient(
            self.timeout,
            lambda: self.now,
            lookup=self._look,
            dial=self._dial,
            trust=self.trust,
            kept=self.kept,
        )

    def post(self, to: Destination, body: bytes = b"{}") -> HttpResponse:
        return self.http(to, body, {})

    def _look(self, host: str, _port: int) -> Sequence[str]:
        self.looked_up.append(host)
        return self.addresses

    def _dial(self, address: str, port: int, seconds: float) -> socket.socket:
        self.dialled.append(self.dial(address, port, seconds))
        return self.dialled[-1]


def local(endpoint: Endpoint) -> Destination:
    return read_url(f"http://127.0.0.1:{endpoint.port}/in", allow_loopback=True)


@pytest.fixture
def client() -> Iterator[Client]:
    made = Client()
    yield made
    made.kept.close()


def served(behave: Behaviour, client: Client, posts: int = 2) -> list[bytes]:
    """The requests that an endpoint got, over all connections."""
    with Endpoint(behave, most=MANY) as endpoint:
        for _ in range(posts):
            client.post(local(endpoint))
        client.kept.close()
    return endpoint.requests


def test_a_second_post_uses_the_connection_of_the_first(client: Client) -> None:
    requests = served(answers(OK), client, posts=3)
    assert len(client.dialled) == 1
    assert [request.partition(b"\r\n\r\n")[2] for request in requests] == [b"{}"] * 3
    assert b"connection: keep-alive" in requests[0]


@pytest.mark.parametrize(
    "answer",
    [
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\nkeep-alive: timeout=5, max=9\r\n\r\n",
        "HTTP/1.1 307 Moved\r\nlocation: http://127.0.0.1/\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\n\r\n" + OK,
    ],
)
def test_a_connection_is_kept_after_an_answer_with_an_end(client: Client, answer: str) -> None:
    served(answers(answer), client)
    assert len(client.dialled) == 1


@pytest.mark.parametrize(
    "answer",
    [
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\nuntil the end of the connection",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nkeep-alive: timeout=1\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n" + "a" * 100_000,
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nnonsense\r\n",
    ],
)
def test_a_connection_is_not_kept_after_an_answer_without_an_end(
    client: Client, answer: str
) -> None:
    served(answers(answer), client)
    assert len(client.dialled) == 2
    assert [connection.fileno() for connection in client.dialled] == [-1, -1]


def test_bytes_behind_an_answer_are_never_the_next_answer(client: Client) -> None:
    forged = OK + "HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n"
    with Endpoint(answers(forged), most=MANY) as endpoint:
        assert [client.post(local(endpoint)).status for _ in range(2)] == [200, 200]
        client.kept.close()
    assert len(client.dialled) == 2


def test_bytes_that_arrive_between_two_requests_are_never_an_answer(client: Client) -> None:
    """A server that closes an idle connection may say so with a 408 that nobody asked for."""
    done = threading.Event()

    def late(connection: socket.socket, request: bytes) -> None:
        connection.sendall(OK.encode())
        connection.sendall(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")
        done.set()

    with Endpoint(late) as endpoint:
        assert client.post(local(endpoint)).status == 200
        assert done.wait(PATIENCE)
        assert client.post(local(endpoint)).status == 200
        client.kept.close()
    assert len(client.dialled) == 2


def test_the_rest_of_a_slow_answer_is_not_waited_for() -> None:
    until = threading.Event()

    def slow(connection: socket.socket, _request: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
        until.wait(PATIENCE)

    client = Client()
    client.http = HttpsClient(PATIENCE, time.monotonic, kept=KeptConnections(time.monotonic))
    with Endpoint(slow) as endpoint:
        began = time.monotonic()
        assert client.post(local(endpoint)).status == 200
        assert time.monotonic() - began < PATIENCE / 2
        until.set()


def test_an_idle_connection_is_not_used_after_four_seconds(client: Client) -> None:
    with Endpoint(answers(OK), most=MANY) as endpoint:
        client.post(local(endpoint))
        client.now += 3.9
        client.post(local(endpoint))
        assert len(client.dialled) == 1
        client.now += 4.1
        client.post(local(endpoint))
        assert client.dialled[0].fileno() == -1
        client.kept.close()
    assert len(client.dialled) == 2


def test_a_connection_that_the_endpoint_has_closed_is_replaced(client: Client) -> None:
    closed = threading.Event()

    def once(connection: socket.socket, _request: bytes) -> None:
        connection.sendall(OK.encode())
        connection.shutdown(socket.SHUT_RDWR)
        closed.set()

    with Endpoint(once) as endpoint:
        client.post(local(endpoint))
        assert closed.wait(PATIENCE)
        client.post(local(endpoint))
    assert len(client.dialled) == len(endpoint.requests) == 2


class Stale(socket.socket):
    """A connection whose second request fails as the test says."""

    sent = 0
    broken: Callable[[Any], int] | None = None

    def send(self, data: Any, *flags: int) -> int:
        self.sent += 1
        # Head and body of the first request.
        if self.sent > 2 and Stale.broken is not None:
            return Stale.broken(data)
        return super().send(data, *flags)


def stale(address: str, port: int, seconds: float) -> socket.socket:
    return Stale(fileno=dial(address, port, seconds).detach())


def test_a_request_of_which_no_byte_was_sent_goes_out_once_on_a_new_connection(
    client: Client,
) -> None:
    def refuse(_data: Any) -> int:
        Stale.broken = None
        raise BrokenPipeError

    client.dial = stale
    with Endpoint(answers(OK), most=MANY) as endpoint:
        client.post(local(endpoint))
        Stale.broken = refuse
        assert client.post(local(endpoint)).status == 200
        client.kept.close()
    assert len(client.dialled) == len(endpoint.requests) == 2


def test_a_request_of_which_a_byte_was_sent_is_never_sent_again(client: Client) -> None:
    """The endpoint may have processed it: the message comes back, with the same id."""

    def lose(data: Any) -> int:
        raise_next.append(True)
        if len(raise_next) > 1:
            raise ConnectionResetError
        return len(data)

    raise_next: list[bool] = []
    client.dial = stale
    with Endpoint(answers(OK), most=MANY) as endpoint:
        client.post(local(endpoint))
        Stale.broken = lose
        try:
            with pytest.raises(NoAnswer, match="no connection: ConnectionResetError"):
                client.post(local(endpoint))
        finally:
            Stale.broken = None
    assert len(client.dialled) == len(endpoint.requests) == 1


def test_a_request_without_an_answer_on_a_kept_connection_is_not_sent_again(
    client: Client,
) -> None:
    taken = []

    def answers_once(connection: socket.socket, request: bytes) -> None:
        taken.append(request)
        if len(taken) == 1:
            connection.sendall(OK.encode())

    with Endpoint(answers_once, most=2) as endpoint:
        client.post(local(endpoint))
        with pytest.raises(NoAnswer):
            client.post(local(endpoint))
    assert len(client.dialled) == 1
    assert len(endpoint.requests) == 2


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificate(tmp_path_factory.mktemp("tls"), NAME)


def over_tls(endpoint: Endpoint, pem: Path) -> Client:
    return Client(dial=endpoint.dial, trust=ssl.create_default_context(cafile=str(pem)))


def test_one_handshake_serves_several_posts(pem: Path) -> None:
    hooks = read_url(f"https://{NAME}/in")
    with Endpoint(answers(OK), pem, most=MANY) as endpoint:
        client = over_tls(endpoint, pem)
        posted = [client.post(hooks) for _ in range(3)]
        client.kept.close()
    assert endpoint.names == [NAME]
    assert {answer.address for answer in posted} == {PUBLIC}
    assert all(answer.certificate == posted[0].certificate for answer in posted)
    assert posted[0].certificate


def test_bytes_that_tls_has_decrypted_already_are_never_the_next_answer(pem: Path) -> None:
    """They lie in no buffer of ours, and the socket below has nothing to read any more."""
    head = "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n"
    length = io.DEFAULT_BUFFER_SIZE - len(head.format(1_000))
    answer = head.format(length) + "a" * length
    forged = "HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n"
    hooks = read_url(f"https://{NAME}/in")
    with Endpoint(answers(answer + forged), pem, most=MANY) as endpoint:
        client = over_tls(endpoint, pem)
        assert [client.post(hooks).status for _ in range(2)] == [200, 200]
        client.kept.close()
    assert len(client.dialled) == 2


def test_a_host_is_looked_up_and_checked_again_after_thirty_seconds(pem: Path) -> None:
    """A connection is not used any longer either: its address may be another's by then."""
    hooks = read_url(f"https://{NAME}/in")
    with Endpoint(answers(OK), pem, most=MANY) as endpoint:
        client = over_tls(endpoint, pem)
        client.post(hooks)
        for _ in range(8):
            client.now += 3.7
            client.post(hooks)
        assert (len(client.looked_up), len(client.dialled)) == (1, 1)
        client.now += CHECKED_SECONDS - 8 * 3.7
        client.addresses = ["127.0.0.1"]
        with pytest.raises(UrlRefused, match="not a public address"):
            client.post(hooks)
        assert (len(client.looked_up), len(client.dialled)) == (2, 1)
        client.addresses = ["8.8.8.8"]
        assert client.post(hooks).address == "8.8.8.8"
        client.kept.close()
    assert len(client.dialled) == 2


def kept_pair() -> tuple[Connection, socket.socket]:
    """A connection, and its other end."""
    ours, theirs = socket.socketpair()
    return Connection(ours, ours, "127.0.0.1", ("127.0.0.1",)), theirs


def test_a_new_look_up_closes_the_connections_of_the_one_before(client: Client) -> None:
    to = read_url("http://127.0.0.1:80/", allow_loopback=True)
    before = client.kept.remember(to, ["127.0.0.1"])
    (idle, theirs), (in_use, others) = kept_pair(), kept_pair()
    client.kept.give_back(before, idle, 60)
    after = client.kept.remember(to, ["127.0.0.1"])
    assert idle.raw.fileno() == -1
    # One that was in use meanwhile comes back too late.
    client.kept.give_back(before, in_use, 60)
    assert in_use.raw.fileno() == -1
    assert client.kept.take(before) is client.kept.take(after) is None
    theirs.close()
    others.close()


def test_a_host_with_an_unfit_address_is_never_remembered(client: Client) -> None:
    client.addresses = [PUBLIC, "10.0.0.1"]
    for _ in range(2):
        with pytest.raises(UrlRefused):
            client.post(read_url(f"https://{NAME}/in"))
    assert client.looked_up == [NAME, NAME]
    assert client.dialled == []


def test_two_hosts_at_one_address_share_no_connection(client: Client) -> None:
    with Endpoint(answers(OK), most=MANY) as endpoint:
        client.addresses = ["127.0.0.1"]
        client.post(local(endpoint))
        # One connection at a time is served.
        client.dialled[0].close()
        client.post(read_url(f"http://localhost:{endpoint.port}/in", allow_loopback=True))
        client.kept.close()
    assert len(client.dialled) == 2


def test_many_threads_look_a_host_up_once(client: Client) -> None:
    client.addresses = ["127.0.0.1"]
    begun = threading.Barrier(8)

    def post(to: Destination) -> int:
        begun.wait(PATIENCE)
        return client.post(to).status

    # Without keep-alive the endpoint serves one after the other.
    closing = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    with Endpoint(answers(closing), most=MANY) as endpoint, ThreadPoolExecutor(8) as threads:
        to = read_url(f"http://localhost:{endpoint.port}/in", allow_loopback=True)
        assert list(threads.map(post, [to] * 8)) == [200] * 8
    assert client.looked_up == ["localhost"]


def test_idle_connections_are_few(client: Client) -> None:
    """Beyond ten of a host, the one that has been idle the longest is closed."""
    to = read_url("http://127.0.0.1:80/", allow_loopback=True)
    host = client.kept.remember(to, ["127.0.0.1"])
    pairs = [kept_pair() for _ in range(12)]
    for ours, _ in pairs:
        client.kept.give_back(host, ours, 60)
    assert [ours.raw.fileno() == -1 for ours, _ in pairs] == [True] * 2 + [False] * 10
    client.kept.close()
    assert all(ours.raw.fileno() == -1 for ours, _ in pairs)
    for _, theirs in pairs:
        theirs.close()


def test_of_all_hosts_a_limited_number_of_connections_is_idle(client: Client) -> None:
    pairs = []
    for number in range(20):
        to = read_url(f"http://127.0.0.1:{number + 1}/", allow_loopback=True)
        host = client.kept.remember(to, ["127.0.0.1"])
        for _ in range(4):
            pairs.append(kept_pair())
            client.kept.give_back(host, pairs[-1][0], 60)
    assert [ours.raw.fileno() == -1 for ours, _ in pairs] == [True] * 16 + [False] * 64
    client.kept.close()
    for _, theirs in pairs:
        theirs.close()
