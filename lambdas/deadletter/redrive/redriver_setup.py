"""What a redriver is made of: settings, queues, stores, and what differs from run to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from deadletter.circuit.state import Circuits, Outcomes
from deadletter.message.queue import Queue
from deadletter.redrive.concurrency import InParallel
from deadletter.redrive.draining import DrainSetup
from deadletter.redrive.journal import Journal
from deadletter.redrive.lease import Lease
from deadletter.redrive.waiting_room import WaitingRoom

if TYPE_CHECKING:
    from deadletter.redrive.observed import Observations


class RunNotStarted(Exception):
    """Another run could not be started, or gave no answer to its start."""


class RunStarter(Protocol):
    """Starts runs of the redriver beside this one."""

    def start(self, event: Mapping[str, Any]) -> None:
        """Start a run with this event; its end is not waited for. Raises RunNotStarted.

        A start may be repeated, late, or lost.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriverSetup(DrainSetup):
    """Everything that a redriver is given; what differs from run to run is an argument too.

    home         the id of the queue that is drained: "dlq", a dedicated DLQ's, or "parking:<id>"
    main_arn     the main queue's ARN; letters from other queues stay in a shared DLQ
    trusted_senders  the roles whose stamps a rescue believes
    owner        a text that no other run has
    wait         lets seconds pass
    in_parallel  runs the workers at the same time
    outcomes     are told of letters that came back, where the consumer reports none itself
    observed     keeps what mode observe would have done with each letter
    starter      starts runs beside this one; without it a run works alone, until its time is up
    """

    home: str
    dlq: Queue
    main: Queue
    main_arn: str
    journal: Journal
    room: WaitingRoom
    circuits: Circuits
    lease: Lease
    owner: str
    wait: Callable[[float], None]
    in_parallel: InParallel
    trusted_senders: frozenset[str] = frozenset()
    outcomes: Outcomes | None = None
    observed: Observations | None = None
    starter: RunStarter | None = None
