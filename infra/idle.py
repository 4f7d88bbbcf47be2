"""What the resources of a template cost in a month with nothing to do, at AWS's list prices.

The requests and units of a run are those of a test that counts them on the clients in memory; a
count that changes fails there. Seconds and bytes of logs are assumed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from deadletter.contract import HOUR, MINUTE

from .first_heartbeat import RESOURCE as HEARTBEAT
from .prices import NOTHING, Price, Usage, function_run

Template = Mapping[str, Any]

MONTH = 30 * 24 * HOUR

# Assumed: no function was timed in a real account.
RUN_SECONDS = 0.3
"""What a run of the redriver, the watch or a circuit step takes beside what it waits for."""
ROUTER_SECONDS = 0.1
RUN_LOG_BYTES = 1_000
"""A run's report and what Lambda writes about it: its JSON of a start and an end, 0.4 KB."""
WATCH_LOG_BYTES = 1_500
"""What Lambda writes about the watch and the router, and the watch's metric."""
POLLERS, POLL_SECONDS = 5, 20
"""Pollers of AWS that wait at the queue of a function, and how long each one waits."""
KEY_SECONDS, TABLES = 300, 3
"""How long DynamoDB keeps a table's key for a caller until it asks KMS again, and the tables of a
function. AWS asks for nothing where the key is its own."""

SMALL, LARGE = 256, 512
"""MB of the watch and the outage's functions; of router and, by default, redriver."""

# Counted.
RUN_REQUESTS, RUN_READS, RUN_WRITES = 2.0, 3.53, 1.0
"""SQS requests, read and write units of a run of the redriver that finds nothing."""
RUN_WAITS = 0.12
"""Seconds of such a run that SQS takes: a long poll of a second, once in ten minutes."""
WATCH_READS, WATCH_WRITES, ROUTER_READS = 9.4, 1.0, 2.0
"""Read and write units of a look of the watch with nothing to see, and of the router it asks.
No test counts them."""
IDLE_METRICS = 1
"""Metrics that a pipeline with nothing to do publishes: RedriveStalled, its heartbeat."""

# The functions that a scheduled start runs, by the last word of the name of the function that is
# started. A watch asks the router, too.
_INVOKED = {"redrive": ("redrive",), "watch": ("watch", "route")}


def redriver_run(*, memory: int = LARGE, fifo: bool = False) -> Usage:
    """What a run of the redriver with so many MB uses that finds nothing."""
    return function_run(seconds=RUN_WAITS + RUN_SECONDS, memory=memory) + Usage(
        {
            _request(fifo): RUN_REQUESTS,
            Price.READ_UNIT: RUN_READS,
            Price.WRITE_UNIT: RUN_WRITES,
            Price.SCHEDULED_START: 1,
            Price.LOG_GB: RUN_LOG_BYTES / 1e9,
        }
    )


def watch_look(*, queues: int = 3, fifo: bool = False) -> Usage:
    """What a look of the watch uses: `queues` are main queue, DLQs and parking queues together."""
    return (
        function_run(seconds=RUN_SECONDS, memory=SMALL)
        + function_run(seconds=ROUTER_SECONDS, memory=LARGE)
        + Usage(
            {
                _request(fifo): queues,
                Price.READ_UNIT: WATCH_READS + ROUTER_READS,
                Price.WRITE_UNIT: WATCH_WRITES,
                Price.SCHEDULED_START: 1,
                Price.LOG_GB: WATCH_LOG_BYTES / 1e9,
            }
        )
    )


def _request(fifo: bool) -> Price:
    return Price.SQS_FIFO_REQUEST if fifo else Price.SQS_REQUEST


def month(template: Template, *, queues: int = 3, fifo: bool = False) -> Usage:
    """What is used in 30 days: alarms, keys, dashboards, heartbeats, pollers, schedules' starts.

    How often what runs, with how much memory, is the template's. The queues are counted by the
    caller, because yours are in no template.
    """
    schedules = of(template, "AWS::Scheduler::Schedule")
    return sum(
        (_starts(template, schedule, queues, fifo) for schedule in schedules),
        Usage(
            {
                Price.METRIC: IDLE_METRICS * len(list(of(template, HEARTBEAT))),
                Price.ALARM: sum(map(_looked_at, of(template, "AWS::CloudWatch::Alarm"))),
                Price.KEY: len(list(of(template, "AWS::KMS::Key"))),
                Price.DASHBOARD: len(list(of(template, "AWS::CloudWatch::Dashboard"))),
            }
        ),
    ) + polls(fifo=fifo) * sum(map(_polls, of(template, "AWS::Lambda::EventSourceMapping")))


def polls(*, fifo: bool = False) -> Usage:
    """What AWS's pollers of a function's queue use in a month without a message."""
    return Usage({_request(fifo): POLLERS * MONTH / POLL_SECONDS})


def key_requests(functions: int, every: int = MINUTE) -> Usage:
    """What so many functions ask KMS in a month that run so often, under a customer's key."""
    return Usage({Price.KEY_REQUEST: functions * TABLES * MONTH / max(every, KEY_SECONDS)})


def _polls(mapping: Mapping[str, Any]) -> bool:
    """Whether a mapping is one of a queue: what reads a table's stream is free."""
    return "StartingPosition" not in mapping


def of(template: Template, kind: str) -> Iterator[Mapping[str, Any]]:
    """The properties of each resource of a kind."""
    for resource in template["Resources"].values():
        if resource["Type"] == kind:
            yield resource.get("Properties", {})


def _starts(template: Template, schedule: Mapping[str, Any], queues: int, fifo: bool) -> Usage:
    """What the runs use that a schedule starts."""
    if schedule["State"] != "ENABLED":
        return NOTHING
    functions = {each["FunctionName"]: each for each in of(template, "AWS::Lambda::Function")}
    key, _ = schedule["Target"]["Arn"]["Fn::GetAtt"]
    name = template["Resources"][key]["Properties"]["FunctionName"]
    prefix, _, role = name.rpartition("-")
    traced = [
        each
        for each in _INVOKED[role]
        if functions[f"{prefix}-{each}"]["TracingConfig"]["Mode"] == "Active"
    ]
    run = (
        redriver_run(memory=functions[name]["MemorySize"], fifo=fifo)
        if role == "redrive"
        else watch_look(queues=queues, fifo=fifo)
    )
    every = _seconds(schedule["ScheduleExpression"])
    has_key = any("KmsKeyId" in group for group in of(template, "AWS::Logs::LogGroup"))
    asks = key_requests(len(_INVOKED[role]), every) if has_key else NOTHING
    return (run + Usage({Price.TRACE: len(traced)})) * (MONTH / every) + asks


def _seconds(rate: str) -> int:
    """The seconds of a rate such as `rate(5 minutes)`."""
    [minutes] = re.findall(r"^rate\((\d+) minutes?\)$", rate)
    return int(minutes) * MINUTE


def _looked_at(alarm: Mapping[str, Any]) -> int:
    """The metrics that an alarm looks at: each is paid for."""
    return sum("MetricStat" in metric for metric in alarm.get("Metrics", [{"MetricStat": {}}]))
