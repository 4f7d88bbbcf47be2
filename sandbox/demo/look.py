"""One look at everything that goes on: where the letters are, what was decided, who answers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deadletter.circuit.state import Circuit
from sandbox.demo.events import RECOVERING, TENANTS
from sandbox.demo.pipeline import DemoPipeline, Seated
from sandbox.demo.receiver import Visit

# A circuit that nobody has touched.
CLOSED = Circuit("")


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen *at* seconds after the demo began.

    *reports* has one of each run so far; *circuits* are those of the endpoints, by tenant.
    """

    at: float
    dlq: int = 0
    main: int = 0
    parked: int = 0
    seated: Sequence[Seated] = ()
    visits: Sequence[Visit] = ()
    reports: Sequence[Mapping[str, Any]] = ()
    circuits: Mapping[str, Circuit] = field(default_factory=dict)

    @property
    def circuit(self) -> Circuit:
        """The circuit of the endpoint that is down."""
        return self.circuit_of(RECOVERING)

    @property
    def on_its_way(self) -> int:
        """Letters and messages that have not come to an end yet."""
        return self.dlq + self.main + len(self.seated)

    @property
    def marks(self) -> object:
        """What moves while events are under way; the reports do not count, each run writes one."""
        return self.dlq, self.main, self.parked, self.seated, len(self.visits), self.circuits

    @property
    def delivered(self) -> int:
        """Events that an endpoint has taken."""
        return len({visit.digest for visit in self.visits if visit.accepted})

    @property
    def settled(self) -> int:
        """Events that have; one that is both delivered and parked counts as two."""
        return self.delivered + self.parked

    @property
    def decisions(self) -> Mapping[str, int]:
        """The decisions of all runs by name: REDRIVE, HOLD, PARK:QUARANTINED, …"""
        total: Counter[str] = Counter()
        for report in self.reports:
            total.update(report["decisions"])
        return dict(sorted(total.items()))

    def circuit_of(self, tenant: str) -> Circuit:
        """The circuit of a tenant's endpoint."""
        return self.circuits.get(tenant, CLOSED)

    def answers(self, tenant: str) -> Mapping[int, int]:
        """How often the tenant's endpoint answered with each status."""
        return Counter(visit.status for visit in self.visits if visit.tenant == tenant)


def look(pipeline: DemoPipeline, visits: Sequence[Visit], at: float) -> Look:
    """Take a look, *at* being the time by the watch."""
    # The main queue comes last: a letter that goes back to it meanwhile is then seen
    # twice rather than never.
    seated = pipeline.seated()
    dlq, main, parked = pipeline.depths()
    circuits = pipeline.circuits(TENANTS)
    return Look(at, dlq, main, parked, seated, visits, pipeline.reports(), circuits)
