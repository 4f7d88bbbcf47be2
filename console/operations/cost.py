"""What the deployed pipelines cost at AWS's list prices: an estimate, and no bill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from deadletter.costs.estimates import (
    PipelineShape,
    app_month,
    idle_month,
    million_letters,
    outage,
    together,
)
from deadletter.costs.prices import CHECKED, REGION
from deadletter.costs.usage import Usage

from .answer import Answer
from .app import DeployedPipeline
from .session import Session


@dataclass(frozen=True, slots=True)
class PipelineCost:
    """What a pipeline with nothing to do costs."""

    name: Annotated[str, "name of the pipeline"]
    month: Annotated[float, "dollars for 30 days in which nothing happens"]
    parts: Annotated[Mapping[str, float], "the same by what costs it"]
    services: Annotated[Mapping[str, float], "the same by what AWS is paid for"]


@dataclass(frozen=True, slots=True)
class AppCost(Answer):
    """What `dlq cost` answers; all figures are US dollars."""

    pipelines: Annotated[Sequence[PipelineCost], "the pipelines, by name"]
    shared: Annotated[
        Mapping[str, float],
        "what the app costs a month beside them, by what costs it, at most: with a key of its own "
        "and a dashboard; empty if pipelines were named",
    ]
    month: Annotated[float, "the sum of all of that"]
    million_letters: Annotated[
        Mapping[str, float], "dollars for a million letters, by what happens to them"
    ]
    outage_hour: Annotated[float, "dollars for an hour of an outage, beside the idle pipeline"]
    prices: Annotated[str, "the region of the list prices, and when they were compared"]


def estimate(session: Session, names: Sequence[str] = ()) -> AppCost:
    """The estimate for the pipelines with these names; without names, for the app."""
    app = session.app()
    pipelines = tuple(map(_cost, app.select(names)))
    shared = {} if names else {what: _cents(part) for what, part in app_month().items()}
    return AppCost(
        **session.place,
        pipelines=pipelines,
        shared=shared,
        month=round(sum(each.month for each in pipelines) + sum(shared.values()), 4),
        million_letters={what: _cents(usage) for what, usage in million_letters().items()},
        outage_hour=_cents(together(outage(1))),
        prices=f"{REGION}, {CHECKED}",
    )


def _cost(pipeline: DeployedPipeline) -> PipelineCost:
    shape = PipelineShape(
        fifo=pipeline.fifo,
        # Main queue and DLQ, and those with an id.
        queues=2 + len(pipeline.parking) + len(pipeline.dedicated),
        every=pipeline.every,
        memory=pipeline.memory,
    )
    parts = idle_month(shape)
    whole = together(parts)
    return PipelineCost(
        name=pipeline.name,
        month=_cents(whole),
        parts={what: _cents(usage) for what, usage in parts.items()},
        services={what: round(dollars, 4) for what, dollars in whole.by_service.items()},
    )


def _cents(usage: Usage) -> float:
    """Dollars, to a hundredth of a cent: more digits would look like a measurement."""
    return round(usage.dollars, 4)
