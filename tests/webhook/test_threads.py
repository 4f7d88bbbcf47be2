"""The threads of one batch share the webhook's memory."""

from __future__ import annotations

import base64
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from deadletter.aws.dynamodb import stored
from deadletter.aws.endpoints import DynamoDBEndpoints, SecretsManagerSecrets
from deadletter.webhook.dispatcher import Paused
from deadletter.webhook.endpoint import Endpoint
from deadletter.webhook.http import HttpResponse
from deadletter.webhook.signing import read_secret
from tests.samples import NOW, letter
from tests.webhook.test_dispatcher import HOOKS, Registry, Wire, dispatcher, message

PATIENCE = 60.0
KEY = "whsec_" + base64.b64encode(b"0" * 24).decode()
NAME = "app/webhooks/acme"


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
def test_no_pause_is_lost_while_many_threads_pause_endpoints() -> None:
    names = [f"e{number}" for number in range(400)]
    registry = Registry([Endpoint("a", name, HOOKS.url, secrets=("new!",)) for name in names])
    busy = dispatcher(Busy(), registry)

    def deliver(name: str) -> str:
        try:
            busy.deliver(message(letter(body=f'{{"tenantId": "a", "endpointId": "{name}"}}')))
        except Exception as error:
            return type(error).__name__
        return "delivered"

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(deliver, names)) == {"EndpointBusy"}
        # 200 pauses are kept at least.
        assert set(threads.map(deliver, names[-8:])) == {Paused.__name__}


class Busy(Wire):
    def __call__(self, *_: Any) -> HttpResponse:
        return HttpResponse(429, "60")


@dataclass
class Manager:
    """Secrets that take their time: each read waits until the test lets it go."""

    asked: list[str] = field(default_factory=list)
    begun: threading.Event = field(default_factory=threading.Event)
    let_go: threading.Event = field(default_factory=threading.Event)

    def get_secret_value(self, SecretId: str) -> dict[str, str]:  # noqa: N803
        self.asked.append(SecretId)
        self.begun.set()
        if SecretId == NAME:
            assert self.let_go.wait(PATIENCE)
        return {"SecretString": KEY}


def test_a_secret_that_several_threads_need_is_read_once_and_delays_no_other() -> None:
    manager: Any = Manager()
    store = SecretsManagerSecrets(lambda: manager, "app/webhooks/", lambda: NOW)
    with ThreadPoolExecutor(4) as threads:
        try:
            waiting = [threads.submit(store.read, NAME) for _ in range(3)]
            assert manager.begun.wait(PATIENCE)
            other = threads.submit(store.read, "app/webhooks/other")
            assert other.result(PATIENCE) == read_secret(KEY)
        finally:
            manager.let_go.set()
        assert [each.result(PATIENCE) for each in waiting] == [read_secret(KEY)] * 3
    assert sorted(manager.asked) == [NAME, "app/webhooks/other"]


@pytest.mark.usefixtures("restless")
def test_the_client_of_the_secrets_is_made_by_one_thread_at_a_time() -> None:
    """boto3's default session is not safe to make two clients of at once."""
    manager: Any = Manager(let_go=threading.Event())
    manager.let_go.set()
    most = []
    lock = threading.Lock()
    inside = [0]

    def make() -> Any:
        with lock:
            inside[0] += 1
            most.append(inside[0])
        # Long enough for another thread to come in.
        for _ in range(20_000):
            pass
        with lock:
            inside[0] -= 1
        return manager

    store = SecretsManagerSecrets(make, "app/webhooks/", lambda: NOW)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(store.read, [f"app/webhooks/{number}" for number in range(8)]))
    assert max(most) == 1


def test_a_row_that_was_read_before_a_change_does_not_replace_the_changed_one() -> None:
    reading, changed = threading.Event(), threading.Event()
    row = {"tenant": "acme", "endpoint": "default", "url": HOOKS.url}

    class Table:
        def get_item(self, **_: Any) -> dict[str, Any]:
            reading.set()
            assert changed.wait(PATIENCE)
            return {"Item": stored(row)}

        def update_item(self, **_: Any) -> dict[str, Any]:
            return {}

    table: Any = Table()
    registry = DynamoDBEndpoints(table, "endpoints", lambda: NOW)
    with ThreadPoolExecutor(1) as threads:
        found = threads.submit(registry.find, "acme", "default")
        assert reading.wait(PATIENCE)
        registry.disable(Endpoint("acme", "default", HOOKS.url), "it answered 410", NOW)
        changed.set()
        found.result(PATIENCE)
    now = registry.find("acme", "default")
    assert now is not None
    assert not now.enabled
