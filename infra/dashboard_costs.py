"""What a pipeline costs, estimated from the metrics of AWS: no bill, and no prediction.

Prices are the list prices of `prices`: us-east-1, without a free tier.

What it does not count: the start of an execution environment, retries of calls, storage, logs,
traces, metrics, alarms, and the dashboard itself. SQS publishes messages, not requests: a request
with ten messages is counted as ten, so its figure is the most that it can be. Step Functions
publishes the transitions of the whole account.
"""

from __future__ import annotations

from collections.abc import Iterator

from aws_cdk import aws_cloudwatch as cloudwatch

from deadletter.contract import CAUSES, CHANGES, LANES, TROUBLED

from .dashboard_functions import functions
from .dashboard_metrics import (
    SUM,
    of_function,
    of_queue,
    of_table,
    state_transitions,
    weighted_sum,
)
from .duration import HOUR
from .prices import Price
from .queues import Addresses
from .settings import AppDeployment, PipelineDeployment
from .storage import Storage

# What SQS counts of a queue, each of which takes a request, or a part of one.
_OF_QUEUES = (
    *("NumberOfMessagesSent", "NumberOfMessagesReceived"),
    *("NumberOfEmptyReceives", "NumberOfMessagesDeleted"),
)

# Seconds of a point: an hour's costs are readable, a minute's are not.
_PERIOD = HOUR

Terms = Iterator[tuple[float, cloudwatch.IMetric]]


def pipeline_costs(
    app: AppDeployment, settings: PipelineDeployment, queues: Addresses
) -> list[cloudwatch.IMetric]:
    """USD an hour of a pipeline's functions and queues."""
    return [
        weighted_sum(_of_functions(app, settings), "Lambda", first_id="l", period=_PERIOD),
        weighted_sum(
            _of_queues(queues, fifo=settings.fifo), "SQS, at most", first_id="q", period=_PERIOD
        ),
    ]


def shared_costs(storage: Storage) -> list[cloudwatch.IMetric]:
    """USD an hour of what all pipelines of an app share, and of the account's transitions."""
    transitions = [(Price.TRANSITION.dollars, state_transitions("transitions"))]
    return [
        weighted_sum(_of_tables(storage), "DynamoDB", first_id="d", period=_PERIOD),
        weighted_sum(
            transitions, "Step Functions, the whole account", first_id="s", period=_PERIOD
        ),
    ]


def tables(storage: Storage) -> Iterator[tuple[str, str, str | None]]:
    """The tables and their indexes that DynamoDB counts units of: label, table and index."""
    for label, table, indexes in (
        ("letters", storage.letters, (LANES, CAUSES)),
        ("rules", storage.rules, ()),
        ("audit", storage.audit, (CHANGES,)),
        ("circuits", storage.circuits, (TROUBLED,)),
        ("endpoints", storage.endpoints, ()),
    ):
        yield label, table.table_name, None
        for index in indexes:
            yield f"{label}, {index.name}", table.table_name, index.name


def _of_functions(app: AppDeployment, settings: PipelineDeployment) -> Terms:
    for function in functions(app, settings):
        if function.memory is None:
            continue
        # Lambda publishes milliseconds.
        milliseconds = of_function(function.name, "Duration", SUM)
        yield Price.GB_SECOND.dollars * function.memory / 1024 / 1000, milliseconds
        yield Price.INVOCATION.dollars, of_function(function.name, "Invocations", SUM)


def _of_queues(queues: Addresses, *, fifo: bool) -> Terms:
    price = (Price.SQS_FIFO_REQUEST if fifo else Price.SQS_REQUEST).dollars
    ours = (queues.main, queues.dlq, *queues.dedicated.values(), *queues.parking.values())
    for queue in ours:
        for metric in _OF_QUEUES:
            yield price, of_queue(queue.name, metric, SUM)


def _of_tables(storage: Storage) -> Terms:
    for label, table, index in tables(storage):
        for metric, price in (
            ("ConsumedReadCapacityUnits", Price.READ_UNIT.dollars),
            ("ConsumedWriteCapacityUnits", Price.WRITE_UNIT.dollars),
        ):
            yield price, of_table(table, metric, label, index)
