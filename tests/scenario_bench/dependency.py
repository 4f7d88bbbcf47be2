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


class ServiceUnavailable(Exception):
    """HTTP 503, as an HTTP client raises it."""

    status_code = 503


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
    `dead` of those that one in trouble did not serve (a slow answer is one).
    """

    scenario: Scenario
    random: Random
    requests: list[float] = field(default_factory=list)
    dead: list[float] = field(default_factory=list)
    _strength: dict[int, int] = field(default_factory=dict)

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
            return well
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
                return (
                    well
                    if self._bears(spell, now)
                    else Answer(ERROR_SECONDS, "", ServiceUnavailable("overloaded"), True)
                )

    def is_well(self, name: str, now: float) -> bool:
        """What the dependency's health URL says."""
        anybody = {"endpoint": "", "tenant": ""}
        return self._spell(name, anybody, now) is None

    def _spell(self, name: str, message: Mapping[str, Any], now: float) -> Spell | None:
        for spell in self.scenario.spells:
            if spell.dependency == name and spell.affects({**message, "needs": (name,)}, now):
                return spell
        return None

    def _bears(self, spell: Spell, now: float) -> bool:
        share = 0.1 + 0.9 * (now - spell.begins) / (spell.ends - spell.begins)
        second = math.floor(now)
        taken = self._strength.get(second, 0)
        self._strength = {second: taken + 1}
        return taken < share * FULL_STRENGTH
