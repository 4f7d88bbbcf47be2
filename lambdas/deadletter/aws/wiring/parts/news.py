"""Puts the newsroom of the watch together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from deadletter.aws.cause_entries import DynamoDBCauseEntries
from deadletter.aws.clients import Clients, WatchClients
from deadletter.aws.events import EventBus
from deadletter.aws.recovered_letters import recovered_letters
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources
from deadletter.signals.figures import Count
from deadletter.watch.newsroom import Newsroom
from deadletter.watch.watch import InParallel
from deadletter.watch.watch_settings import WatchSettings

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient


def newsroom_for(
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients | WatchClients,
    bus: EventBus,
    *,
    settings: WatchSettings,
    in_parallel: InParallel,
    count_metric: Callable[[str, int], None],
    cloudwatch: Callable[[], CloudWatchClient],
) -> Newsroom:
    """Announces what the watch sees."""
    index = DynamoDBCauseEntries(
        clients.dynamodb,
        resources.letters_table,
        pipeline.name,
        note_foreign=lambda key: count_metric(Count.FOREIGN_ROW, 1),
    )

    def recovered(since: float, until: float) -> int:
        return recovered_letters(cloudwatch(), resources.app, pipeline.name, since, until)

    return Newsroom(
        settings=settings,
        bus=bus,
        recovered=recovered,
        in_parallel=in_parallel,
        count_metric=count_metric,
        causes=index if pipeline.consumer_library else None,
    )
