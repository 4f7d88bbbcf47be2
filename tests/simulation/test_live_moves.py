"""A probe that dies at any call loses no live message, and hides no second copy of one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from deadletter.aws.clients import Clients
from deadletter.circuit.transitions import CLOCK_SKEW
from deadletter.failure.failure import Blame
from tests.simulation.pause_simulator import Faulty
from tests.simulation.test_probe import ProbedFunction, bury, lane, refused, stage_for

MOST_CALLS = 200


class Killed(BaseException):
    """The probe's process ends."""


@dataclass
class DyingProbe(ProbedFunction):
    """A probe whose process ends at its call number `dies_at`, before or after its effect."""

    dies_at: int | None = None
    calls: list[str] = field(default_factory=list)

    def strike(self, call: str) -> None:
        self.calls.append(call)
        if len(self.calls) - 1 == self.dies_at:
            raise Killed

    def probe_clients(self) -> tuple[Clients, Any]:
        clients = self.stage.clients
        sqs: Any = Faulty(clients.sqs, self.strike)
        store: Any = Faulty(clients.dynamodb, self.strike)
        dying = replace(clients, sqs=sqs, sending=sqs, dynamodb=store, journal=store)
        return dying, self.client


def die(dies_at: int, *, live: bool) -> tuple[DyingProbe, bool]:
    """A probe of one message that fails, and whether it has died."""
    probe = DyingProbe(stage_for(consumer_library=True), answer=refused, dies_at=dies_at)
    if live:
        probe.stage.put("1")
    else:
        bury(probe, "1", blame=Blame.DEPENDENCY)
    probe.trip()
    try:
        probe()
    except Killed:
        return probe, True
    return probe, False


@pytest.mark.parametrize("live", [True, False])
def test_a_message_is_somewhere_whatever_call_its_probe_dies_at(live: bool) -> None:
    twice = 0
    for dies_at in range(MOST_CALLS):
        probe, died = die(dies_at, live=live)
        stage = probe.stage
        copies = len([*lane(stage), *stage.bodies(stage.main), *stage.bodies(stage.dlq)])
        assert copies >= 1, probe.calls[-1]
        if not died:
            assert copies == 1
            assert dies_at > 10
            break
        # The next probe, once the lease is over, and a run after the outage.
        probe.dies_at = None
        if (permit := probe.circuit().permit) is not None:
            stage.clock.now = permit.until + CLOCK_SKEW + 1
            probe()
        stage.set_circuit("CLOSED")
        stage.clock.advance(1_000)
        counts = stage.run().counts
        counted = counts.get("PossibleDuplicate", 0) + probe.metrics["PossibleDuplicate"]
        left = [*lane(stage), *stage.bodies(stage.main), *stage.bodies(stage.dlq)]
        assert left, probe.calls[-1]
        twice += len(left) > 1
        assert len(left) == 1 or counted, probe.calls[-1]
    else:
        pytest.fail("the probe never ended")
    # A live message that is put into the lane and not yet deleted; the run finds a dead one.
    assert (twice > 0) is live
