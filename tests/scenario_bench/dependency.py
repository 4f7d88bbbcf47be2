"""The dependencies that a handler calls: well, or in the trouble of a scenario."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from pydantic import BaseModel

from tests.scenario_bench.scenario import Scenario, Spell, Trouble

ANSWER_SECONDS = 0.2
"""A healthy call takes half to one and a half times this, evenly drawn."""

ERROR_SECONDS = 0.05
"""A refused connection or an error comes back quickly."""

CLIENT_TIMEOUT = 3.0
"""Seconds after which the handler's client gives a call up."""

SLOW_SECONDS = 8.0
"""A slow call; its client waits longer than usual."""

FULL_STRENGTH = 20.0
"""Requests a second that a dependency bears when it recovers; it begins with a tenth."""


RETRY_AFTER = 1
"""Seconds that a rate limit tells its caller to wait: it counts by the second."""


class ServiceUnavailable(Exception):
    """HTTP 503, as an HTTP client raises it."""

    status_code = 503


class TooManyRequests(Exception):
    """HTTP 429, as an HTTP client raises it."""

    status_code = 429

    def __init__(self) -> None:
        super().__init__("429")
        self.headers = {"Retry-After": str(RETRY_AFTER)}


class NotFound(Exception):
    """HTTP 404, as an HTTP client raises it."""

    status_code = 404


class Unauthorized(Exception):
    """HTTP 401, as an HTTP client raises it."""

    status_code = 401


class Reply(BaseModel):
    """What the handler expects of a dependency."""

    ok: bool


@dataclass(frozen=True)
class Answer:
    """What the caller gets after `seconds`: a text, or an error."""

    seconds: float
    text: str = ""
    error: Exception | None = None
    counts_as_dead: bool = False
    plain: bool = False

    def parsed(self) -> object:
        """The reply as the handler reads it: with pydantic, or, if `plain`, with json."""
        return json.loads(self.text) if self.plain else Reply.model_validate_json(self.text)


@dataclass
class Dependencies:
    """All dependencies of a scenario.

    `requests` are the times of all requests to dependencies that are in trouble at some time,
    `dead` of those that one in trouble or over its capacity did not serve (a slow answer is
    served), `accepted` of those that one served while it had a rate limit.
    """

    scenario: Scenario
    random: Random
    requests: list[float] = field(default_factory=list)
    dead: list[float] = field(default_factory=list)
    accepted: list[float] = field(default_factory=list)
    _second: dict[str, tuple[int, int]] = field(default_factory=dict)

    def request(self, name: str, message: Mapping[str, Any], now: float) -> Answer:
        """One request, `now` seconds after the first message."""
        if any(spell.dependency == name for spell in self.scenario.spells):
            self.requests.append(now)
        answer = self._answer(name, message, now)
        if answer.counts_as_dead:
            self.dead.append(now)
        return answer

    def _answer(self, name: str, message: Mapping[str, Any], now: float) -> Answer:
        well = Answer(ANSWER_SECONDS * (0.5 + self.random.random()), '{"ok": true}')
        spell = self._spell(name, message, now)
        if spell is None or self.random.random() >= spell.share:
            return self._within_capacity(name, well, now)
        match spell.trouble:
            case Trouble.REFUSED:
                return Answer(ERROR_SECONDS, "", ConnectionRefusedError("refused"), True)
            case Trouble.ERROR:
                return Answer(ERROR_SECONDS, "", ServiceUnavailable("503"), True)
            case Trouble.TIMEOUT:
                return Answer(CLIENT_TIMEOUT, "", TimeoutError("timed out"), True)
            case Trouble.UNAUTHORIZED:
                return Answer(ERROR_SECONDS, "", Unauthorized("the key has expired"), True)
            case Trouble.NOT_FOUND:
                return Answer(ERROR_SECONDS, "", NotFound("no such address"), True)
            case Trouble.EMPTY:
                return Answer(well.seconds, "", None, True)
            case Trouble.HTML:
                return Answer(well.seconds, "<html>Sorry</html>", None, True, plain=True)
            case Trouble.SLOW:
                return Answer(SLOW_SECONDS * (0.9 + 0.2 * self.random.random()), well.text)
            case Trouble.BUG:
                return well
            case Trouble.OVERLOAD:
                share = 0.1 + 0.9 * (now - spell.begins) / (spell.ends - spell.begins)
                return well if self._bears(name, share * FULL_STRENGTH, now) else _overloaded()
            case Trouble.THROTTLED:
                if not self._bears(name, spell.limit, now):
                    return Answer(ERROR_SECONDS, "", TooManyRequests(), True)
                self.accepted.append(now)
                return well

    def is_well(self, name: str, now: float) -> bool:
        """What the dependency's health URL says."""
        anybody = {"id": 0, "endpoint": "", "tenant": ""}
        return self.scenario.health_lies or self._spell(name, anybody, now) is None

    def _spell(self, name: str, message: Mapping[str, Any], now: float) -> Spell | None:
        for spell in self.scenario.spells:
            if spell.dependency == name and spell.affects({**message, "needs": (name,)}, now):
                return spell
        return None

    def _within_capacity(self, name: str, well: Answer, now: float) -> Answer:
        capacity = self.scenario.capacity
        return well if capacity is None or self._bears(name, capacity, now) else _overloaded()

    def _bears(self, name: str, most: float, now: float) -> bool:
        """Whether a dependency that serves so many requests in each whole second serves this."""
        second = math.floor(now)
        counted, taken = self._second.get(name, (second, 0))
        taken = taken if counted == second else 0
        self._second[name] = second, taken + 1
        return taken < most


def _overloaded() -> Answer:
    return Answer(ERROR_SECONDS, "", ServiceUnavailable("overloaded"), True)
