"""A pipeline whose SQS is the stub, and whose other services are strict fakes in memory.

For what is measured in the process that does it: its calls and writes are counted where they
are made.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[2] / "lambdas"))

from deadletter.aws.clients import Clients, clients
from deadletter.aws.wiring.judging import router_for
from deadletter.aws.wiring.world import World
from deadletter.routing.wire import answer_event
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources
from deadletter.testing.fakes import MemoryDynamoDB, MemoryLambda, MemoryS3
from lab.bench.lean_stub import MAIN, SOURCE, LeanStub
from lab.bench.tables import create_tables

REDRIVER = "AROAREDRIVER"

# The main queue has no consumer here: its backlog grows with each letter.
UNPACED = replace(Pipeline("orders"), rate=1e6, backlog_limit=1_000_000)

# DynamoDB operations that write, and the items of one request.
_WRITES: Mapping[str, Callable[[Mapping[str, Any]], int]] = {
    "put_item": lambda _: 1,
    "update_item": lambda _: 1,
    "delete_item": lambda _: 1,
    "batch_write_item": lambda request: sum(map(len, request["RequestItems"].values())),
    "transact_write_items": lambda request: 2 * len(request["TransactItems"]),
}


class Counted:
    """A fake client that counts its calls and the CPU time inside them; one thread at a time."""

    def __init__(self, fake: Any, lock: AbstractContextManager[Any]) -> None:
        self._fake = fake
        self._lock = lock
        self.calls: Counter[str] = Counter()
        self.writes = 0
        self.cpu = 0.0

    def __getattr__(self, name: str) -> Any:
        act: Callable[..., Any] = getattr(self._fake, name)

        def call(**request: Any) -> Any:
            with self._lock:
                began = time.thread_time()
                self.calls[name] += 1
                self.writes += _WRITES[name](request) if name in _WRITES else 0
                try:
                    return act(**request)
                finally:
                    self.cpu += time.thread_time() - began

        return call


class PipelineInMemory:
    """One pipeline with its own tables, and the queues of a stub."""

    def __init__(self, stub: LeanStub, pipeline: Pipeline) -> None:
        self._stub = stub
        self._pipeline = pipeline
        lock = threading.RLock()
        self._table = table = MemoryDynamoDB(time.time)
        create_tables(table)
        self._dynamodb = Counted(table, lock)
        self._router_dynamodb = Counted(table, lock)
        bucket = MemoryS3(time.time)
        bucket.create_bucket(Bucket="bodies")
        functions = MemoryLambda(time.time, lambda: uuid.uuid4().hex)
        functions.register("router", self._route)
        # Several invocations at once, and their reads one at a time.
        self._functions = Counted(functions, contextlib.nullcontext())
        real = _clients(stub.endpoint)
        dynamodb: Any = self._dynamodb
        s3: Any = Counted(bucket, lock)
        lambda_: Any = self._functions
        self._clients = replace(real, dynamodb=dynamodb, journal=dynamodb, s3=s3, functions=lambda_)
        self.dlq, self.main = stub.url(SOURCE), stub.url(MAIN)
        self._resources = Resources(
            main_url=self.main,
            dlq_url=self.dlq,
            parking={"default": stub.url("parking")},
            letters_table="letters",
            letters_bucket="bodies",
            rules_table="rules",
            circuits_table="circuits",
            router_function="router",
            trusted_senders=(REDRIVER,),
        )
        self._world = World(
            clock=time.time,
            wait=time.sleep,
            new_id=lambda: uuid.uuid4().hex,
            random=Random(1),  # noqa: S311 - repeatable, not secret
        )
        in_router: Any = self._router_dynamodb
        router_clients: Clients = replace(self._clients, dynamodb=in_router)
        self._router = router_for(pipeline, self._resources, router_clients, self._world)

    def _route(self, event: Any, _: Any) -> Any:
        return answer_event(self._router, event)


def _clients(endpoint: str) -> Clients:
    """The production clients, with the stub for SQS."""
    environment = {
        "AWS_ENDPOINT_URL_SQS": endpoint,
        "AWS_ACCESS_KEY_ID": REDRIVER,
        "AWS_SECRET_ACCESS_KEY": "unused",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    # The clients keep what they find here; others in this process must not find it.
    with patch.dict(os.environ, environment):
        clients.cache_clear()
        made = clients()
        clients.cache_clear()
        return made
