"""Bugs of replay runs, planted on purpose: a proof that does not catch them proves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from deadletter.aws import replay_runs
from deadletter.replay import limiter
from tests.simulation.planting import Bugs, replaced

PACE_BUGS = Bugs()
"""Bugs of the limiter and of the kill switch, which the schedules of `replay_pace` catch."""

pace_bug = PACE_BUGS.plant


@pace_bug("a grant is used late")
def _() -> Iterator[None]:
    with patch.object(limiter, "GRANT_SECONDS", 60.0):
        yield


@pace_bug("a grant begins when its answer arrives")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def take(self: Any, letters: int, until: float) -> Any:
            grant = original(self, letters, until)
            if grant is None:
                return None
            return replace(grant, until=self._clock() + limiter.GRANT_SECONDS)

        return take

    with replaced(limiter.RunLimiter, "take", make):
        yield


def without_conditions(*parts: str) -> Any:
    """The bug in which a grant is written without some of its conditions."""

    def make(original: Any) -> Any:
        def granting(bid: Any) -> dict[str, Any]:
            options: dict[str, Any] = original(bid)
            conditions = options["ConditionExpression"].split(" AND ")
            kept = [each for each in conditions if not each.startswith(parts)] or ["#tat > :zero"]
            options["ConditionExpression"] = " AND ".join(kept)
            text = options["ConditionExpression"] + options["UpdateExpression"]
            for kind in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
                options[kind] = {
                    name: value for name, value in options[kind].items() if name in text
                }
            return options

        return granting

    return replaced(replay_runs, "_granting", make)


@pace_bug("a grant does not look at the state of the run")
def _() -> Iterator[None]:
    with without_conditions("#generation", "#state"):
        yield


@pace_bug("two grants are paid for once")
def _() -> Iterator[None]:
    with without_conditions("#tat"):
        yield


@pace_bug("canaries are not counted off")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def bid_for(run: Any, letters: int, now: float, token: str) -> Any:
            return replace(original(run, letters, now, token), allowance=0)

        return bid_for

    with replaced(limiter, "bid_for", make):
        yield


@pace_bug("each worker has the whole rate")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def bid_for(run: Any, letters: int, now: float, token: str) -> Any:
            bid = original(run, letters, now, token)
            return replace(bid, cost=bid.cost / 5, latest=bid.latest + bid.cost)

        return bid_for

    with replaced(limiter, "bid_for", make):
        yield
