"""The receiver of all letters: it keeps what it took, in the order in which it took it."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus

from sandbox.loopback import LoopbackEndpoint


@dataclass(frozen=True, slots=True)
class TakenLetter:
    """A letter that the endpoint has taken: its ordering key and place, and the run it names."""

    key: str
    place: int
    run: str


class ReplayEndpoint(LoopbackEndpoint):
    """Serves `url`; a context manager. While `broken` is true it answers 503."""

    def __init__(self) -> None:
        self.broken = False
        self.refused = 0
        self._taken: list[TakenLetter] = []
        self._lock = threading.Lock()
        super().__init__()

    @property
    def url(self) -> str:
        """Where it is posted to."""
        return self.address()

    @property
    def taken(self) -> tuple[TakenLetter, ...]:
        """Everything that was taken so far, oldest first."""
        with self._lock:
            return tuple(self._taken)

    def answer(self, path: str, body: bytes, headers: Message) -> HTTPStatus:
        return self._take(json.loads(body), headers.get("webhook-replay", ""))

    def _take(self, body: dict[str, object], run: str) -> HTTPStatus:
        with self._lock:
            if self.broken:
                self.refused += 1
                return HTTPStatus.SERVICE_UNAVAILABLE
            self._taken.append(TakenLetter(str(body["key"]), int(str(body["place"])), run))
        return HTTPStatus.OK
