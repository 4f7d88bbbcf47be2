"""What a million letters cost on AWS, from what was counted: us-east-1, without the free tier."""

from __future__ import annotations

from dataclasses import dataclass

from deadletter.costs.prices import MILLION, Price

MEMORY_GB = 512 / 1024
"""Of each of our functions, as deployed."""

CPU_SHARE = 512 / 1769
"""The part of a core that Lambda gives a function of this memory (1,769 MB are a whole one)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dollars:
    """Dollars for a million letters, by what is paid for."""

    sqs: float
    reads: float
    writes: float
    invocations: float
    duration: float

    @property
    def total(self) -> float:
        return self.sqs + self.reads + self.writes + self.invocations + self.duration


def billed_seconds(*, cpu: float, waits: float = 0.0, at_least: float = 0.0) -> float:
    """How long a function runs on Lambda: its CPU at its share of a core, and what it waits for.

    Never less than `at_least`: a run that keeps to a pace takes its time.
    """
    return max(at_least, cpu / CPU_SHARE + waits)


def dollars_per_million(
    letters: int,
    *,
    billed: int,
    read_units: float,
    write_units: float,
    invocations: int,
    seconds: float,
    fifo: bool = False,
) -> Dollars:
    """The price of a million letters. `seconds` are those of all functions together."""
    times = MILLION / letters
    request = Price.SQS_FIFO_REQUEST if fifo else Price.SQS_REQUEST
    return Dollars(
        sqs=billed * request.dollars * times,
        reads=read_units * Price.READ_UNIT.dollars * times,
        writes=write_units * Price.WRITE_UNIT.dollars * times,
        invocations=invocations * Price.INVOCATION.dollars * times,
        duration=seconds * MEMORY_GB * Price.GB_SECOND.dollars * times,
    )
