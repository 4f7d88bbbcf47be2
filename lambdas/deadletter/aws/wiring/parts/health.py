"""Puts the health check of a dependency together."""

from __future__ import annotations

from deadletter.aws.wiring.world import World
from deadletter.outage.health import HEALTH_SECONDS, HttpHealth
from deadletter.settings.resources import Resources
from deadletter.webhook.http import HttpsClient


def health_for(resources: Resources, world: World) -> HttpHealth | None:
    """The health check of a pipeline's dependency; None if it has none."""
    if not resources.health_url:
        return None
    return HttpHealth(resources.health_url, HttpsClient(HEALTH_SECONDS, world.clock).exchange)
