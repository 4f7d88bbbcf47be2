"""What a worker of a replay run is given, and what it reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from deadletter.circuit.state import Circuits
from deadletter.message.queue import Queue
from deadletter.redrive.concurrency import InParallel
from deadletter.replay.carriers import DirectCarrier
from deadletter.replay.limiter import Bids
from deadletter.replay.run import ReplayRuns
from deadletter.replay.run_lane import RunSetup


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayWorkerSetup(RunSetup):
    """Everything that a worker is given.

    shards      the shards of this worker, with the letters of each
    carrier     takes letters where the destination is no queue
    trouble     why the dependency is down by its health URL; empty if it is not
    new_token   returns a text that no other grant has
    """

    shards: Mapping[int, int]
    runs: ReplayRuns
    bids: Bids
    circuits: Circuits
    main: Queue
    wait: Callable[[float], None]
    new_token: Callable[[], str]
    in_parallel: InParallel
    carrier: DirectCarrier | None = None
    trouble: Callable[[], str] = lambda: ""


@dataclass(frozen=True, slots=True)
class WorkReport:
    """What a worker did in one step, and how its shards stand.

    sent       letters that it sent, delivered or discarded
    outcomes   letters of its shards by outcome, since the run began
    returned   tries whose letter came back, since the run began
    waiting    letters that it has sent and whose outcome is awaited
    stopped_keys  ordering keys that do not go on behind a failed letter
    stopped    why it ended
    done       whether all letters of its shards are at their end
    ended_well whether it could do its work
    """

    sent: int
    outcomes: Mapping[str, int]
    returned: int
    waiting: int
    stopped_keys: int
    stopped: str
    done: bool
    ended_well: bool = True

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
