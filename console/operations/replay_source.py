"""Where the letters of a replay run come from: a queue of the pipeline, or a lane."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deadletter.contract import DEFAULT_PARKING, MAIN_DLQ, PARKED_LANE, parking_source, run_lane
from deadletter.replay.plan import DISCARDED_LETTERS, LANE

from .app import DeployedPipeline
from .problem import Cause, Problem

_PARKED = ("parked", "parking")
"""Short for the parking queue of a pipeline that has one."""


@dataclass(frozen=True, slots=True)
class ReplaySource:
    """A source by its id in a plan: a queue with its URL, a lane of the waiting room, or the copies
    of discarded letters.

    A parking queue stands for all its parked letters: those that were moved into lane `parked`
    since, by a rescue or by another run, are its letters too.
    """

    id: str
    url: str | None = None
    lane: str | None = None

    @property
    def is_release(self) -> bool:
        """Whether automation has given its letters up."""
        given_up = (parking_source(""), DISCARDED_LETTERS)
        return self.lane == PARKED_LANE or self.id.startswith(given_up)

    @property
    def is_live(self) -> bool:
        """Whether runs of the schedule receive from it."""
        return self.url is not None and not self.is_release

    @property
    def name(self) -> str:
        """The source in words: "the DLQ", "parking queue default", "lane parked"."""
        if self.lane is not None:
            return f"lane {self.lane}"
        if self.id == MAIN_DLQ:
            return "the DLQ"
        parking = self.id.removeprefix(parking_source(""))
        return f"parking queue {parking}" if parking != self.id else f"dedicated DLQ {self.id}"


def source(pipeline: DeployedPipeline, text: str) -> ReplaySource:
    """The source that a person typed; Problem with the known ones for another."""
    if text.startswith(LANE):
        lane = text.removeprefix(LANE)
        if not lane or lane.startswith(run_lane("")):
            raise Problem(
                f"{text!r} is no source: name a lane that dlq status --pipeline {pipeline.name} "
                "lists, such as lane:parked; the letters of a replay run belong to that run.",
                Cause.INPUT,
            )
        return ReplaySource(text, lane=lane)
    queues = _queues(pipeline)
    if text in _PARKED and len(pipeline.parking) > 1:
        raise Problem(
            f"Pipeline {pipeline.name} has several parking queues: give one of "
            f"{', '.join(map(parking_source, pipeline.parking))}.",
            Cause.INPUT,
        )
    id_ = parking_source(DEFAULT_PARKING) if text in _PARKED else text
    if id_ not in queues:
        raise Problem(
            f"Pipeline {pipeline.name} has no source {text!r}: it has {', '.join(queues)}, "
            f"and its lanes as {LANE}<name>.",
            Cause.ABSENT,
        )
    return ReplaySource(id_, url=queues[id_])


def parked_sources(pipeline: DeployedPipeline) -> tuple[ReplaySource, ...]:
    """All parking queues, each with those of its letters that are in lane `parked`."""
    return tuple(
        ReplaySource(parking_source(id_), url=url) for id_, url in pipeline.parking.items()
    )


def _queues(pipeline: DeployedPipeline) -> Mapping[str, str]:
    parking = {parking_source(id_): url for id_, url in pipeline.parking.items()}
    return {MAIN_DLQ: pipeline.dlq_url, **pipeline.dedicated, **parking}
