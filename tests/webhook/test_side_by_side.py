"""The endpoints of one batch are posted to side by side, over connections that stay open."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from deadletter.aws.wiring import posting
from deadletter.settings.pipeline import Pipeline
from deadletter.testing import Letterbox
from deadletter.webhook.connections import KeptConnections
from deadletter.webhook.dispatcher import POSTS_AT_ONCE
from handlers import dispatch
from tests.webhook import dispatcher_at_work
from tests.webhook.dispatcher_at_work import PIPELINE

PATIENCE = 60.0
TENANTS = [f"t{number}" for number in range(POSTS_AT_ONCE)]
SLOW = TENANTS[0]


@dataclass
class Tenants:
    """One server for the endpoints of all tenants; it answers the slow one last of all.

    `together` is the most posts to each tenant that it had at the same time.
    """

    others: int
    posts: list[tuple[str, int]] = field(default_factory=list)
    connections: set[Any] = field(default_factory=set)
    together: Counter[str] = field(default_factory=Counter)
    all_others: threading.Event = field(default_factory=threading.Event)
    waited_in_vain: bool = False

    def __post_init__(self) -> None:
        lock, now = threading.Lock(), Counter[str]()
        tenants = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                name = self.path.strip("/")
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with lock:
                    now[name] += 1
                    tenants.together[name] = max(tenants.together[name], now[name])
                    tenants.connections.add(self.client_address)
                if name == SLOW and not tenants.all_others.wait(PATIENCE):
                    tenants.waited_in_vain = True
                with lock:
                    now[name] -= 1
                    tenants.posts.append((name, body["n"]))
                    others = [each for each, _ in tenants.posts if each != SLOW]
                    if len(others) >= tenants.others:
                        tenants.all_others.set()
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self._thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self._thread.start()

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/{name}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def letterbox_settings() -> Pipeline:
    return PIPELINE


@pytest.fixture
def deployed(letterbox: Letterbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[Letterbox]:
    """The dispatcher's function, whose connections end with the test."""
    settings = {"allow_loopback": True, "timeout": PATIENCE}
    with dispatcher_at_work.deployed(letterbox, monkeypatch, **settings) as box:
        kept = KeptConnections(box.clock)
        monkeypatch.setattr(posting, "KeptConnections", lambda _: kept)
        yield box
        kept.close()


def register(box: Letterbox, tenants: Tenants) -> None:
    for name in TENANTS:
        row = {"tenant": {"S": name}, "endpoint": {"S": "default"}, "url": {"S": tenants.url(name)}}
        box.dynamodb.put_item(TableName="endpoints", Item=row)


@pytest.fixture
def tenants(deployed: Letterbox) -> Iterator[Tenants]:
    made = Tenants(others=len(TENANTS) - 1)
    register(deployed, made)
    yield made
    made.all_others.set()
    made.close()


def test_a_slow_endpoint_delays_none_of_nine_others(deployed: Letterbox, tenants: Tenants) -> None:
    """It answers only once the nine others have been posted to: one after the other, never."""
    for name in TENANTS:
        deployed.send({"tenantId": name, "n": 1})
    ran = deployed.run(dispatch.handler)
    assert not tenants.waited_in_vain
    assert len(ran.acknowledged) == 10
    assert tenants.posts[-1] == (SLOW, 1)


def test_the_messages_of_one_endpoint_are_posted_one_after_the_other(
    deployed: Letterbox, tenants: Tenants
) -> None:
    tenants.others = 6
    for number in range(2):
        for name in [SLOW, *TENANTS[1:4]]:
            deployed.send({"tenantId": name, "n": number})
    assert len(deployed.run(dispatch.handler).acknowledged) == 8
    for name in [SLOW, *TENANTS[1:4]]:
        assert [number for each, number in tenants.posts if each == name] == [0, 1]
    assert set(tenants.together.values()) == {1}


def test_the_next_batch_uses_the_connections_of_the_one_before(
    deployed: Letterbox, tenants: Tenants
) -> None:
    for batch in range(3):
        for name in TENANTS:
            deployed.send({"tenantId": name, "n": batch})
        deployed.run(dispatch.handler)
    assert len(tenants.posts) == 30
    assert len(tenants.connections) <= len(TENANTS)
