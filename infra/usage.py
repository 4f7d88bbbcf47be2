"""What is used of what AWS sells, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from .prices import Price

SERVICES = {
    Price.SQS_REQUEST: "SQS",
    Price.SQS_FIFO_REQUEST: "SQS",
    Price.READ_UNIT: "DynamoDB",
    Price.WRITE_UNIT: "DynamoDB",
    Price.INVOCATION: "Lambda",
    Price.GB_SECOND: "Lambda",
    Price.TRANSITION: "Step Functions",
    Price.SCHEDULED_START: "schedules",
    Price.EVENT: "events",
    Price.PUT_REQUEST: "S3",
    Price.STORED_GB: "S3",
    Price.LOG_GB: "logs",
    Price.METRIC: "metrics",
    Price.ALARM: "alarms",
    Price.DASHBOARD: "dashboard",
    Price.TRACE: "traces",
    Price.KEY: "KMS keys",
    Price.KEY_REQUEST: "KMS requests",
}
"""What the parts of a sum are called."""


@dataclass(frozen=True)
class Usage:
    """So much of each thing that has a price."""

    of: Mapping[Price, float] = field(default_factory=dict)

    def __add__(self, other: Usage) -> Usage:
        prices = dict.fromkeys((*self.of, *other.of))
        return Usage({each: self.of.get(each, 0) + other.of.get(each, 0) for each in prices})

    def __mul__(self, times: float) -> Usage:
        return Usage({price: number * times for price, number in self.of.items()})

    @property
    def dollars(self) -> float:
        return sum(price.dollars * number for price, number in self.of.items())

    @property
    def by_service(self) -> Mapping[str, float]:
        """The dollars by what they are paid for; what costs nothing is left out."""
        sums: dict[str, float] = {}
        for service, dollars in self._parts():
            sums[service] = sums.get(service, 0.0) + dollars
        return {service: dollars for service, dollars in sums.items() if dollars}

    def _parts(self) -> Iterator[tuple[str, float]]:
        for price, service in SERVICES.items():
            yield service, price.dollars * self.of.get(price, 0)


NOTHING = Usage()


def function_run(*, seconds: float, memory: int) -> Usage:
    """One invocation of a function with so many MB that takes so long."""
    return Usage({Price.INVOCATION: 1, Price.GB_SECOND: seconds * memory / 1024})
