"""Schedules: when a function is started, and what it is told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType

from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from .duration import MINUTE
from .settings import AppDeployment
from .starter import starter_arn


def add_schedule(
    scope: Construct,
    construct_id: str,
    *,
    function: lambda_.IFunction,
    app: AppDeployment,
    name: str,
    description: str,
    every: int,
    enabled: bool = True,
    event: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Have the app's starter start a function every so many seconds, with this event."""
    minutes = every // MINUTE
    scheduler.CfnSchedule(
        scope,
        construct_id,
        name=name,
        description=description,
        schedule_expression=f"rate({minutes} minute{'s' if minutes > 1 else ''})",
        flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
        state="ENABLED" if enabled else "DISABLED",
        target=scheduler.CfnSchedule.TargetProperty(
            arn=function.function_arn,
            role_arn=starter_arn(app),
            input=json.dumps(dict(event)),
            # The next run is the retry; up to 185 late runs would overlap.
            retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                maximum_retry_attempts=0, maximum_event_age_in_seconds=MINUTE
            ),
        ),
    )
