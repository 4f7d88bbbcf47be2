"""A stage whose circuit trips and is probed, one call of the probe's function at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from deadletter.aws.clients import Clients, OutageClients
from deadletter.aws.wiring.moving import prober_for
from deadletter.aws.wiring.world import World
from deadletter.circuit.state import Circuit
from deadletter.outage.steps import Execution, ExecutionStep
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources
from tests.outages import OutageHarness
from tests.simulation.stage import Stage

CONSUMER_SECONDS = 20
"""Seconds that the consumer's function may take."""


class SilentBus:
    """An event bus without subscribers."""

    def put_events(self, **_: Any) -> dict[str, Any]:
        return {"FailedEntryCount": 0, "Entries": [{}]}


@dataclass
class ProbedStage(OutageHarness):
    """A stage with an outage."""

    stage: Stage
    key: str = "orders"
    metrics: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.execution: Execution | None = None
        self.stage.resources = replace(
            self.stage.resources,
            dlq_arn=self.stage.arn(self.stage.dlq),
            consumer_timeout=CONSUMER_SECONDS,
            **self.changes(),
        )

    def changes(self) -> dict[str, Any]:
        """What the pipeline's resources have of their own."""
        return {}

    def wiring(self) -> tuple[Pipeline, Resources, Clients, World]:
        stage = self.stage
        return stage.pipeline, stage.resources, stage.clients, stage.world

    def trip(self, key: str | None = None) -> Circuit:
        """Open the circuit, and begin the execution that probes it."""
        opened = super().trip(key)
        self.execution = Execution(opened.key, opened.outage, opened.restart, said="OPEN")
        return opened

    @abstractmethod
    def probe_clients(self) -> tuple[Clients, Any]:
        """The clients of the probe's function, and the one that calls the consumer."""

    def probe(self) -> ExecutionStep:
        """One call of the probe's function, the cooldown being over."""
        stage = self.stage
        if self.execution is None:
            self.trip()
        assert self.execution is not None
        stage.clock.now = max(stage.clock.now, self.circuit().open_until)
        clients, functions = self.probe_clients()
        bus: Any = SilentBus()
        prober = prober_for(
            stage.pipeline,
            stage.resources,
            clients,
            OutageClients(dynamodb=clients.dynamodb, events=bus, functions=functions),
            stage.world,
            lambda name, number: self.metrics.update({name: number}),
            router=stage.router,
            consumer=functions,
        )
        step = prober.probe(self.execution)
        self.execution = replace(
            self.execution, probes=step.probes, empty=step.empty, said=step.said
        )
        return step
