"""CloudFormation gets its answer, and nobody else learns where it goes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any, ClassVar

import pytest

from deadletter.aws.stack_request import (
    BETWEEN_TRIES,
    TRIES,
    AnswerNotTaken,
    give_answer,
    put_over_https,
    stack_request,
)

ADDRESS = "https://cloudformation.example/answer?signature=secret"
EVENT = {
    "RequestType": "Create",
    "StackId": "arn:stack",
    "RequestId": "request",
    "LogicalResourceId": "Heartbeat",
    "ResourceProperties": {"Pipeline": "orders"},
    "ResponseURL": ADDRESS,
}


class Door:
    """Takes what is put to it, after so many refusals."""

    def __init__(self, refusals: int = 0, error: type[Exception] = OSError) -> None:
        self.refusals, self.error = refusals, error
        self.taken: list[tuple[str, bytes]] = []
        self.waits: list[float] = []

    def put(self, address: str, body: bytes) -> None:
        if self.refusals:
            self.refusals -= 1
            raise self.error(address)
        self.taken.append((address, body))


def test_the_answer_repeats_the_request_and_says_success() -> None:
    request = stack_request(EVENT)
    assert json.loads(request.success("first-heartbeat-orders", "shown")) == {
        "Status": "SUCCESS",
        "Reason": "shown",
        "PhysicalResourceId": "first-heartbeat-orders",
        "StackId": "arn:stack",
        "RequestId": "request",
        "LogicalResourceId": "Heartbeat",
    }
    # CloudFormation takes 4 KB in all.
    assert len(request.success("id", "x" * 5000)) < 1024


def test_the_address_is_in_no_text_of_the_request() -> None:
    request = stack_request(EVENT)
    assert "secret" not in f"{request} {request!r} {request.success('id', 'shown')!r}"


@pytest.mark.parametrize("error", [OSError, ValueError])
def test_an_answer_that_is_not_taken_is_given_again(error: type[Exception]) -> None:
    door = Door(TRIES - 1, error)
    give_answer(ADDRESS, b"{}", put=door.put, wait=door.waits.append)
    assert door.taken == [(ADDRESS, b"{}")]
    assert door.waits == [BETWEEN_TRIES] * (TRIES - 1)


def test_an_answer_that_is_never_taken_is_an_error_without_the_address() -> None:
    door = Door(1000)
    with pytest.raises(AnswerNotTaken) as refused:
        give_answer(ADDRESS, b"{}", put=door.put, wait=door.waits.append)
    assert str(refused.value) == "CloudFormation did not take the answer: OSError"
    # What a traceback would print before it.
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None
    assert len(door.waits) == TRIES - 1


class Listener(BaseHTTPRequestHandler):
    """Records each request that is put to it."""

    heard: ClassVar[list[tuple[str, str, dict[str, str], bytes]]]

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.heard.append(("PUT", self.path, dict(self.headers), body))
        self.send_response(500 if self.path == "/broken" else 200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@contextmanager
def listening() -> Iterator[tuple[str, type[Listener]]]:
    class Recording(Listener):
        heard: ClassVar[list[tuple[str, str, dict[str, str], bytes]]] = []

    server = HTTPServer(("127.0.0.1", 0), Recording)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", Recording
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_it_is_put_with_an_empty_content_type_as_the_signature_wants(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with listening() as (address, listener):
        put_over_https()(f"{address}/answer?signature=x", b'{"Status":"SUCCESS"}')
        with pytest.raises(OSError, match="500"):
            put_over_https()(f"{address}/broken", b"{}")
    [(method, path, headers, body), _] = listener.heard
    assert (method, path, body) == ("PUT", "/answer?signature=x", b'{"Status":"SUCCESS"}')
    assert headers["Content-Type"] == ""


@pytest.mark.parametrize(
    "address",
    [
        "http://cloudformation.example/answer",
        "file:///etc/hosts",
        "ftp://localhost/answer",
        "http://localhost.example/answer",
    ],
)
def test_an_address_that_is_not_https_gets_no_answer(address: str) -> None:
    with pytest.raises(ValueError, match=r"^the address of an answer is not https$"):
        put_over_https()(address, b"{}")
