"""What a person can do about a message, as commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Annotated

from deadletter.contract import DUE_LANE, circuit_lane, delay_lane, rule_lane

from .life_place import Place, Where
from .life_record import LetterRecord
from .places import place_of


@dataclass(frozen=True, slots=True)
class Step:
    """A command that a person may type next."""

    command: Annotated[str, "the command line"]
    effect: Annotated[str, "what it does, or why"]


WHY = '"<why>"'
"""The place of a person's reason in a command, in quotes: a shell redirects at a bare <."""


def steps(record: LetterRecord, places: Sequence[Place]) -> Iterator[Step]:
    """The commands that help with a letter at these places, the likeliest first."""
    name = record.pipeline.name
    for place in places:
        yield from _at(place, record.origin, name)
    if record.row is not None and record.row.failures:
        yield Step(f"dlq show {record.origin} --logs", "shows the consumer's log of each receive:")


def _at(place: Place, origin: str, pipeline: str) -> Iterator[Step]:
    here = f"--pipeline {pipeline}"
    copy = place.current_id or origin
    match place.where:
        case Where.WAITING:
            yield from _in_lane(place, here)
            yield Step(
                f"dlq list {here} --in {quote(place_of(place.waiting_for or DUE_LANE))}",
                "shows what waits with it:",
            )
        case Where.RUN:
            yield Step(f"dlq show {place.run}", "says how far its run is:")
        case Where.PARKED:
            yield Step(f"dlq retry {origin} {here} --reason {WHY}", "sends it again:")
            yield Step(f"dlq discard {copy} {here} --reason {WHY}", "throws it away:")
        case Where.DISCARDED if place.kept:
            yield Step(f"dlq restore {origin} {here} --reason {WHY}", "parks it again:")
        case Where.QUEUE:
            yield Step(f"dlq show {origin} --look", "looks for it in the DLQ and parking queues:")
            yield Step(f"dlq retry --auto {here}", "retries what is due now, without the schedule:")


def _in_lane(place: Place, here: str) -> Iterator[Step]:
    lane = place.waiting_for or ""
    name = lane.partition(":")[2]
    if lane.startswith(circuit_lane("")):
        yield Step(
            f"dlq show circuit:{quote(name)} {here}",
            "says why the circuit is open, and since when:",
        )
        yield Step(
            f"dlq circuit close {quote(name)} {here} --reason {WHY} --expires 1h",
            "closes it by hand, so that its messages leave:",
        )
    elif lane.startswith(delay_lane("")):
        yield Step(
            f"dlq retry --in rule:{name} {here} --reason {WHY}",
            "has the messages decided now that the rule delays:",
        )
    elif lane.startswith(rule_lane("")):
        yield Step(
            f"dlq rules disable {name} {here} --reason {WHY}", "lets go what the rule holds:"
        )
    elif lane.startswith("dedicated:"):
        yield Step(
            f"dlq retry --auto --in dedicated:{name} {here}", "has its dedicated DLQ decided now:"
        )
