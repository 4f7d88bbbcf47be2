"""Adapters that are made at their first use."""

from __future__ import annotations

import threading

from deadletter.aws.lazily import lazily


class Adapter:
    """Counts how often it is made."""

    made = 0

    def __init__(self) -> None:
        type(self).made += 1

    def answer(self) -> int:
        return 42


def test_an_adapter_is_made_once_and_at_its_first_use() -> None:
    Adapter.made = 0
    adapter = lazily(Adapter)
    assert Adapter.made == 0
    threads = [threading.Thread(target=adapter.answer) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert adapter.answer() == 42
    assert Adapter.made == 1
