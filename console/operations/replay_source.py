"""Where the letters of a replay run come from: a queue of the pipeline, or a lane."""

from __future__ import annotations

from dataclasses import dataclass

from deadletter.contract import MAIN_DLQ, PARKED_LANE, parking_source
from deadletter.replay.plan import DISCARDED_LETTERS

from .app import DeployedPipeline


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
            return f"waiting {self.lane}"
        if self.id == MAIN_DLQ:
            return "the DLQ"
        parking = self.id.removeprefix(parking_source(""))
        return f"parking queue {parking}" if parking != self.id else f"dedicated DLQ {self.id}"


def parked_sources(pipeline: DeployedPipeline) -> tuple[ReplaySource, ...]:
    """All parking queues, each with those of its letters that are in lane `parked`."""
    return tuple(
        ReplaySource(parking_source(id_), url=url) for id_, url in pipeline.parking.items()
    )
