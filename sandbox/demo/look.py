"""One look at everything that goes on: where the letters are, what was decided, who answers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deadletter.circuit.state import Circuit
from sandbox.demo.events import RECOVERING
from sandbox.demo.pipeline import DemoPipeline, Seated
from sandbox.demo.receiver import Visit

# A circuit that nobody has touched.
CLOSED = Circuit("")


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen *at* seconds after the watch began.

    *reports* has one of each run so far; *circuit* is that of the endpoint that is down.
    """

    at: float
    dlq: int = 0
    main: int = 0
    parked: int = 0
    seated: Sequence[Seated] = ()
    visits: Sequence[Visit] = ()
    reports: Sequence[Mapping[str, Any]] = ()
    circuit: Circuit = CLOSED

    @property
    def on_its_way(self) -> int:
        """Letters and messages that have not come to an end yet."""
        return self.dlq + self.main + len(self.seated)

    @property
    def marks(self) -> object:
        """What moves while events are under way; the reports do not count, each run writes one."""
        return self.dlq, self.main, self.parked, self.seated, len(self.visits), self.circuit

    @property
    def settled(self) -> int:
        """Events that have; one that is both delivered and parked counts as two."""
        return len({visit.digest for visit in self.visits if visit.accepted}) + self.parked

    @property
    def decisions(self) -> Mapping[str, int]:
        """The decisions of all runs by name: REDRIVE, HOLD, PARK:QUARANTINED, …"""
        total: Counter[str] = Counter()
        for report in self.reports:
            total.update(report["decisions"])
        return dict(sorted(total.items()))

    def answers(self, tenant: str) -> Mapping[int, int]:
        """How often the tenant's endpoint answered with each status."""
        return Counter(visit.status for visit in self.visits if visit.tenant == tenant)


def look(pipeline: DemoPipeline, visits: Sequence[Visit], at: float) -> Look:
    """Take a look, *at* being the time by the watch."""
    # The main queue comes last: a letter that goes back to it meanwhile is then seen
    # twice rather than never.
    seated = pipeline.seated()
    dlq, main, parked = pipeline.depths()
    circuit = pipeline.circuit(RECOVERING)
    return Look(at, dlq, main, parked, seated, visits, pipeline.reports(), circuit)
