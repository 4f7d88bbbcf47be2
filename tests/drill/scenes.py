"""What goes wrong in the drill: one scene a pipeline, so that they happen side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deadletter.contract import (
    ANY,
    DEFAULT_APP,
    Alarm,
    Partition,
    lane_partition,
    pipeline_prefix,
)
from tests.e2e.deployed import CHECK_RULES, Deployed, event, rows
from tests.e2e.receiver import Receiver

# Letters in the DLQ when the trouble begins.
LETTERS = 3

# Messages that are enough to open a circuit.
OUTAGE = 8


@dataclass(frozen=True)
class Stage:
    """One pipeline of the deployed app, and the endpoint that its messages go to."""

    deployed: Deployed
    receiver: Receiver

    @property
    def name(self) -> str:
        return self.deployed.name

    def function(self, role: str) -> str:
        return CHECK_RULES if role == "check-rules" else f"deadletter-{self.name}-{role}"

    def throttle(self, role: str) -> None:
        self.deployed.aws("lambda").put_function_concurrency(
            FunctionName=self.function(role), ReservedConcurrentExecutions=0
        )

    def let_run(self, role: str) -> None:
        self.deployed.aws("lambda").delete_function_concurrency(FunctionName=self.function(role))

    def fail_messages(self, count: int) -> None:
        """Send messages to an endpoint that is down."""
        self.receiver.statuses[self.name] = 503
        self.send(count)

    def send(self, count: int, queue: str = "MainQueue") -> None:
        for _ in range(count):
            self.deployed.send(event(self.name), queue)


def nothing(_stage: Stage) -> None:
    """What happens meanwhile in most scenes."""


@dataclass(frozen=True)
class Scene:
    """One trouble: what begins it and what ends it, and the page that it is known by.

    trouble    in the words of the table
    pipeline   where it happens
    alarm      the full name of the alarm
    meanwhile  happens every few seconds while the trouble lasts
    """

    trouble: str
    pipeline: str
    alarm: str
    begin: Callable[[Stage], None]
    end: Callable[[Stage], None]
    meanwhile: Callable[[Stage], None] = field(default=nothing)


def named(pipeline: str, alarm: str) -> str:
    return pipeline_prefix(DEFAULT_APP, pipeline) + alarm


def denied(
    pipeline: str,
    trouble: str,
    role: str,
    statement: Callable[[str], Mapping[str, Any]],
    alarm: str = Alarm.REDRIVE_STALLED,
    meanwhile: Callable[[Stage], None] = nothing,
) -> Scene:
    """A function that is denied something."""
    return Scene(
        trouble,
        pipeline,
        named(pipeline, alarm),
        begin=lambda stage: stage.deployed.deny(role, statement(pipeline)),
        end=lambda stage: stage.deployed.permit(role),
        meanwhile=meanwhile,
    )


def throttled(
    pipeline: str,
    role: str,
    alarm: str,
    *,
    first: Callable[[Stage], None] = nothing,
    meanwhile: Callable[[Stage], None] = nothing,
) -> Scene:
    """A function whose concurrency is set to 0."""

    def begin(stage: Stage) -> None:
        stage.throttle(role)
        first(stage)

    return Scene(
        f"function {role} throttled to 0",
        pipeline,
        alarm if alarm.startswith(DEFAULT_APP) else named(pipeline, alarm),
        begin=begin,
        end=lambda stage: stage.let_run(role),
        meanwhile=meanwhile,
    )


def on(action: str, resource: str = "*") -> Callable[[str], Mapping[str, Any]]:
    return lambda _pipeline: {"Action": action, "Resource": resource}


SCENES = (
    denied("queue", "QueueUnavailable: sqs:ReceiveMessage denied", "redrive",
           on("sqs:ReceiveMessage")),
    denied("journal", "JournalUnavailable: its rows denied", "redrive",
           lambda pipeline: rows(Partition.JOURNAL.of(pipeline))),
    denied("lease", "LeaseUnavailable: its rows denied", "redrive",
           lambda pipeline: rows(Partition.LEASE.of(pipeline))),
    denied("room", "RoomUnavailable: its lanes denied", "redrive",
           lambda pipeline: rows(Partition.LANES.of(pipeline), lane_partition(pipeline, ANY))),
    denied("circuits", "CircuitsUnavailable: the table denied", "redrive",
           on("dynamodb:*", "arn:aws:dynamodb:*:*:table/*Circuits*")),
    denied("router", "RouterUnavailable: lambda:InvokeFunction denied", "redrive",
           on("lambda:InvokeFunction")),
    denied("rules", "RulesUnavailable: the router's Query denied", "route",
           on("dynamodb:Query")),
    throttled("redrive-off", "redrive", Alarm.REDRIVE_STALLED),
    throttled("route-off", "route", Alarm.REDRIVE_STALLED),
    throttled("watch-off", "watch", Alarm.REDRIVE_STALLED),
    throttled("circuit-off", "circuit", Alarm.CIRCUIT_TROUBLE,
              first=lambda stage: stage.fail_messages(OUTAGE)),
    throttled("probe-off", "probe", Alarm.CIRCUIT_TROUBLE,
              first=lambda stage: stage.fail_messages(OUTAGE)),
)  # fmt: skip

OUTAGES = ("circuit-off", "probe-off")
"""Pipelines whose circuit opens."""
