"""A fault at any call of a probe loses no live message, and hides no second copy of one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from deadletter.aws.clients import Clients
from deadletter.circuit.transitions import CLOCK_SKEW
from deadletter.contract import Blame
from deadletter.testing.fakes import client_error
from tests.simulation.pause_simulator import Faulty
from tests.simulation.stage import Stage
from tests.simulation.test_probe import ProbedFunction, bury, lane, refused, stage_for

MOST_CALLS = 200


class Killed(BaseException):
    """The probe's process ends."""


@dataclass
class DyingProbe(ProbedFunction):
    """A probe in which a fault strikes at call number `dies_at`, before or after its effect.

    A call without an answer stays so, and its process lives on; else it ends there.
    """

    dies_at: int | None = None
    no_answer: bool = False
    silent: str = ""
    calls: list[str] = field(default_factory=list)

    def strike(self, call: str) -> None:
        self.calls.append(call)
        is_struck = len(self.calls) - 1 == self.dies_at
        if is_struck and not self.no_answer:
            raise Killed
        if is_struck:
            self.silent = call
        if call == self.silent:
            raise client_error(call, "InternalError", "no answer", status=500)

    def probe_clients(self) -> tuple[Clients, Any]:
        clients = self.stage.clients
        sqs: Any = Faulty(clients.sqs, self.strike)
        store: Any = Faulty(clients.dynamodb, self.strike)
        dying = replace(clients, sqs=sqs, sending=sqs, dynamodb=store, journal=store)
        return dying, self.client


def die(dies_at: int, *, live: bool, no_answer: bool) -> DyingProbe:
    """A probe of one message that fails, with a fault at that call if it gets so far."""
    probe = DyingProbe(
        stage_for(consumer_library=True), answer=refused, dies_at=dies_at, no_answer=no_answer
    )
    if live:
        probe.stage.put("1")
    else:
        bury(probe, "1", blame=Blame.DEPENDENCY)
    probe.trip()
    try:
        probe()
    except (Killed, Exception):
        # A state that failed is entered again.
        return probe
    return probe


def copies(stage: Stage) -> list[str]:
    return [*lane(stage), *stage.bodies(stage.main), *stage.bodies(stage.dlq)]


@pytest.mark.parametrize("no_answer", [False, True])
@pytest.mark.parametrize("live", [True, False])
def test_a_message_is_somewhere_whatever_call_of_its_probe_a_fault_strikes(
    live: bool, no_answer: bool
) -> None:
    twice = 0
    for dies_at in range(MOST_CALLS):
        probe = die(dies_at, live=live, no_answer=no_answer)
        stage = probe.stage
        assert copies(stage), probe.calls[-1]
        if len(probe.calls) <= dies_at:
            assert len(copies(stage)) == 1
            assert dies_at > 10
            break
        # The next probe, once the lease is over, and a run after the outage.
        where, probe.dies_at, probe.silent = probe.calls[dies_at], None, ""
        if (permit := probe.circuit().permit) is not None:
            stage.clock.now = permit.until + CLOCK_SKEW + 1
            probe()
        stage.set_circuit("CLOSED")
        stage.clock.advance(1_000)
        counts = stage.run().counts
        counted = counts.get("PossibleDuplicate", 0) + probe.metrics["PossibleDuplicate"]
        left = copies(stage)
        assert left, where
        twice += len(left) > 1
        assert len(left) == 1 or counted, where
    else:
        pytest.fail("the probe never ended")
    # A live message that is put into the lane and not yet deleted; the run finds a dead one.
    assert (twice > 0) is live
