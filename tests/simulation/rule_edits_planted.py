"""Bugs planted in how edits of rules reach the letters that wait."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from deadletter.aws.waiting_room import DynamoDBWaitingRoom
from deadletter.redrive import lane_review, openings
from deadletter.rules.rulebook import RuleBook
from tests.simulation.planting import Bugs, replaced

BUGS = Bugs()
bug = BUGS.plant


@bug("no letter is judged again")
def _() -> Iterator[None]:
    with patch.object(openings, "review_lanes", lambda setup, lanes, answer, deadline: None):
        yield


@bug("rules are known by their ids, whatever they say")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def edition(self: Any, now: float, matches: Any) -> str:
            return ",".join(rule.rule_id for rule in self._in_force(now, matches)) or "none"

        return edition

    with replaced(RuleBook, "edition", make):
        yield


@bug("a pass that is cut off counts as a whole one")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def end_review(review: Any, stands: Any, now: float) -> Any:
            return original(review, dict.fromkeys(stands), now)

        return end_review

    with replaced(lane_review, "end_review", make):
        yield


@bug("a pass ends in all shards when it ends in one")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def end_review(review: Any, stands: Any, now: float) -> Any:
            is_over = None in stands.values()
            return original(review, dict.fromkeys(stands) if is_over else stands, now)

        return end_review

    with replaced(lane_review, "end_review", make):
        yield


@bug("a delay begins anew when it is judged anew")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def question_about(
            received: Any, *, served: bool, now: Any = None, admitted: Any = None
        ) -> Any:
            made = original(received, served=served, now=now, admitted=admitted)
            return replace(made, waited=0.0)

        return question_about

    with replaced(lane_review, "question_about", make):
        yield


@bug("lanes of delays are not looked at again")
def _() -> Iterator[None]:
    with patch.object(lane_review, "REVIEWED_LANES", ("rule:",)):
        yield


@bug("lanes of holds are not looked at again")
def _() -> Iterator[None]:
    with patch.object(lane_review, "REVIEWED_LANES", ("delay:",)):
        yield


@bug("of a FIFO group only the first letter is due")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def keys(self: Any, partition: str, lane: str) -> Any:
            return original(self, partition, lane)[:1]

        return keys

    with replaced(DynamoDBWaitingRoom, "_keys_of_group", make):
        yield
