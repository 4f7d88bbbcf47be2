"""Each watch has looked once before somebody asks what it has seen."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

from sandbox.__main__ import watch_once

PAGES = (["deadletter-orders-watch", "deadletter-orders-redrive"], ["deadletter-bills-watch"])


class WatchedFunctions:
    """Lambda, as far as this needs it."""

    def __init__(self) -> None:
        self.invoked: list[str] = []

    def get_paginator(self, _operation: str) -> Any:
        pages = [{"Functions": [{"FunctionName": name} for name in page]} for page in PAGES]
        return SimpleNamespace(paginate=lambda: pages)

    def invoke(self, **request: Any) -> dict[str, Any]:
        self.invoked.append(request["FunctionName"])
        return {"Payload": io.BytesIO(b"{}"), "FunctionError": "Unhandled"}


def test_every_watch_and_nothing_else_is_invoked() -> None:
    functions = WatchedFunctions()
    sandbox: Any = SimpleNamespace(client=lambda _service: functions)
    watch_once(sandbox)
    assert functions.invoked == ["deadletter-orders-watch", "deadletter-bills-watch"]
