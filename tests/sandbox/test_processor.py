"""A clock is as fast as the machine has time for what lives by it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from sandbox.processor import ENOUGH, ProcessorTime, Unhurried, processor_time

SECOND = 1_000_000_000


class Machine:
    """Two threads that have run and waited so far, and the speeds that a clock was given."""

    def __init__(self) -> None:
        self.had = ProcessorTime(SECOND, SECOND)
        self.speeds: list[float] = []

    def look(self) -> dict[str, ProcessorTime]:
        return {"1": self.had, "2": ProcessorTime(SECOND, 0)}

    def spend(self, ran: float, waited: float) -> None:
        self.had = ProcessorTime(
            self.had.ran + int(ran * SECOND), self.had.waited + int(waited * SECOND)
        )


@pytest.mark.parametrize(
    ("ran", "waited", "speed"),
    [
        pytest.param(2.0, 1.0, None, id="a quiet machine"),
        pytest.param(1.0, 1.5, None, id="just enough"),
        pytest.param(1.0, 9.0, 10 * 0.1 / ENOUGH, id="a tenth"),
        pytest.param(0.01, 9.0, 1.0, id="next to nothing: never slower than the machine's clock"),
        pytest.param(1.0, 1.7, None, id="hardly less than enough"),
        pytest.param(0.0, 0.1, None, id="too little to tell"),
    ],
)
def test_the_clock_is_slower_while_its_processes_wait_for_others(
    ran: float, waited: float, speed: float | None
) -> None:
    machine = Machine()
    clock = Unhurried(machine.look, machine.speeds.append, 10.0)
    machine.spend(ran, waited)
    clock.adapt()
    assert machine.speeds == pytest.approx([] if speed is None else [speed])
    machine.spend(5.0, 0.0)
    clock.adapt()
    assert machine.speeds[1:] == ([] if speed is None else [10.0])


def test_a_limit_holds_whatever_the_machine_has_time_for() -> None:
    machine = Machine()
    clock = Unhurried(machine.look, machine.speeds.append, 10.0)
    clock.limit(1.0)
    machine.spend(5.0, 0.0)
    clock.adapt()
    assert machine.speeds == [1.0]


@pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="this kernel keeps no such figures"
)
def test_the_threads_of_a_group_are_seen_with_what_they_have_had() -> None:
    before = processor_time(os.getpgrp())
    mine = str(threading.get_native_id())
    sum(range(1_000_000))
    after = processor_time(os.getpgrp())
    assert after[mine].ran > before[mine].ran
    assert processor_time(2**22 + 1) == {}
