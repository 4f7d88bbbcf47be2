"""The dispatcher's function, in memory but for its posts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from deadletter.aws.clients import ConsumerClients
from deadletter.settings.pipeline import Pipeline
from deadletter.testing import Letterbox
from handlers import dispatch, runtime

PIPELINE = Pipeline("test", context={"tenantId": "body.tenantId"})

CACHES: list[Any] = [
    *(runtime.settings, runtime.resources, runtime.world),
    *(dispatch.post_all, dispatch.webhook),
]


@contextmanager
def deployed(box: Any, patch: pytest.MonkeyPatch, **webhook: Any) -> Iterator[Letterbox]:
    """The function's environment, with these settings of its posts, and its clients."""
    keys = {"tenant": "HASH", "endpoint": "RANGE"}
    box.dynamodb.create_table(
        TableName="endpoints",
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys.items()],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in keys],
        BillingMode="PAY_PER_REQUEST",
    )
    for name, value in {
        "APP": "shop",
        "PIPELINE": json.dumps({"name": "test", "context": {"tenantId": "body.tenantId"}}),
        "WEBHOOK": json.dumps(webhook),
        "MAIN_URL": box.main,
        "PARKING": json.dumps({"default": box.lot}),
        "MESSAGES_TABLE": "messages",
        "CIRCUITS_TABLE": "circuits",
        "ENDPOINTS_TABLE": "endpoints",
        "TRUSTED_SENDERS": "[]",
    }.items():
        patch.setenv(name, value)
    for cached in CACHES:
        cached.cache_clear()
    clients = ConsumerClients(sqs=box.sqs, sending=box.sqs, dynamodb=box.dynamodb)
    patch.setattr(dispatch, "consumer_clients", lambda: clients)
    world = runtime.World(box.clock, box.clock.advance, box.new_id, runtime.SystemRandom())
    patch.setattr(dispatch, "world", lambda: world)
    yield box
    for cached in CACHES:
        cached.cache_clear()
