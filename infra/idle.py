"""What the resources of a template cost in a month with nothing to do, at AWS's list prices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from deadletter.contract import MAIN_DLQ, MINUTE
from deadletter.costs.estimates import IDLE_METRICS, MONTH, PipelineShape, idle_month
from deadletter.costs.prices import Price
from deadletter.costs.usage import NOTHING, Usage

from .first_heartbeat import RESOURCE as HEARTBEAT

Template = Mapping[str, Any]

# What a scheduled start of each function is part of, by the last word of the function's name. A
# watch asks the router, too.
_PARTS = {"redrive": "redriver", "watch": "watch"}
_INVOKED = {"redrive": ("redrive",), "watch": ("watch", "route")}


def month(template: Template, shape: PipelineShape) -> Usage:
    """What is used in 30 days: alarms, keys, dashboards, heartbeats, and each schedule's starts.

    How often what runs, with how much memory, is the template's; of `shape` only the queues count.
    """
    schedules = of(template, "AWS::Scheduler::Schedule")
    return sum(
        (_starts(template, schedule, shape) for schedule in schedules),
        Usage(
            {
                Price.METRIC: IDLE_METRICS * len(list(of(template, HEARTBEAT))),
                Price.ALARM: sum(map(_looked_at, of(template, "AWS::CloudWatch::Alarm"))),
                Price.KEY: len(list(of(template, "AWS::KMS::Key"))),
                Price.DASHBOARD: len(list(of(template, "AWS::CloudWatch::Dashboard"))),
            }
        ),
    )


def of(template: Template, kind: str) -> Iterator[Mapping[str, Any]]:
    """The properties of each resource of a kind."""
    for resource in template["Resources"].values():
        if resource["Type"] == kind:
            yield resource.get("Properties", {})


def _starts(template: Template, schedule: Mapping[str, Any], shape: PipelineShape) -> Usage:
    """What the runs use that a schedule starts."""
    if schedule["State"] != "ENABLED":
        return NOTHING
    functions = {each["FunctionName"]: each for each in of(template, "AWS::Lambda::Function")}
    key, _ = schedule["Target"]["Arn"]["Fn::GetAtt"]
    name = template["Resources"][key]["Properties"]["FunctionName"]
    prefix, _, role = name.rpartition("-")
    minutely = replace(shape, every={MAIN_DLQ: MINUTE}, memory=functions[name]["MemorySize"])
    traced = [
        each
        for each in _INVOKED[role]
        if functions[f"{prefix}-{each}"]["TracingConfig"]["Mode"] == "Active"
    ]
    run = idle_month(minutely)[_PARTS[role]] * (MINUTE / MONTH) + Usage({Price.TRACE: len(traced)})
    return run * (MONTH / _seconds(schedule["ScheduleExpression"]))


def _seconds(rate: str) -> int:
    """The seconds of a rate such as `rate(5 minutes)`."""
    [minutes] = re.findall(r"^rate\((\d+) minutes?\)$", rate)
    return int(minutes) * MINUTE


def _looked_at(alarm: Mapping[str, Any]) -> int:
    """The metrics that an alarm looks at: each is paid for."""
    return sum("MetricStat" in metric for metric in alarm.get("Metrics", [{"MetricStat": {}}]))
