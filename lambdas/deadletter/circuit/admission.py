"""How many messages a circuit that has closed admits, until its ramp is over.

A dependency that comes back would meet the whole backlog at once. So it is given the rate that it
bore before the trip, in RAMP_STEPS steps: a fifth of it in the first fifth of the ramp, and so on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

from deadletter.circuit.state import RAMP_STEPS, Circuit, CircuitPolicy

BURST_SECONDS = 2.0
"""What may be admitted at once, in seconds of the full rate: whole batches, and well below twice
the rate in any ten seconds."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """How many messages may be processed now, and the circuit with them counted."""

    count: int
    circuit: Circuit


class Admission(Protocol):
    """The counters of what the circuits of a pipeline have admitted since they closed."""

    def admit(self, circuit: Circuit, wanted: int) -> Admitted:
        """Count up to `wanted` messages as admitted, by a circuit that was just read.

        Never more than `granted` allows, however many processes ask: what is granted and not
        used is lost. Grants none if the circuit has opened since. Raises CircuitsUnavailable.
        """


def is_coming_back(circuit: Circuit, policy: CircuitPolicy, now: float) -> bool:
    """True while a closed circuit admits a limited rate."""
    ramp = policy.of(circuit.key).ramp
    return circuit.is_closed and circuit.rate > 0 and now < circuit.closed_at + ramp


def granted(circuit: Circuit, wanted: int, policy: CircuitPolicy, now: float) -> Admitted:
    """As many of `wanted` messages as the circuit has left to admit.

    A token bucket: it holds BURST_SECONDS of the full rate, at least one message, and is filled
    at the present step's rate. What was not asked for in time is not kept for later.
    """
    if not is_coming_back(circuit, policy, now):
        return Admitted(wanted if circuit.is_closed else 0, circuit)
    burst = max(1.0, BURST_SECONDS * circuit.rate)
    so_far = burst + _filled(circuit, policy, now)
    used = max(circuit.admitted, so_far - burst)
    count = max(0, min(wanted, math.floor(so_far - used + _ROUNDING)))
    return Admitted(count, replace(circuit, admitted=used + count) if count else circuit)


_ROUNDING = 0.001
"""A counter is stored in thousandths."""


def _filled(circuit: Circuit, policy: CircuitPolicy, now: float) -> float:
    """What has flowed into the bucket since the circuit closed: the rate, step by step."""
    # This machine's clock may be behind the clock of the one that closed it.
    step, within = divmod(
        max(0.0, now - circuit.closed_at), policy.of(circuit.key).ramp / RAMP_STEPS
    )
    length = policy.of(circuit.key).ramp / RAMP_STEPS
    whole_steps = step * (step + 1) / 2 * length
    return circuit.rate * (whole_steps + (step + 1) * within) / RAMP_STEPS
