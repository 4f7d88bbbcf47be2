"""AWS's list prices, in one table, and what is used: us-east-1, on demand, no free tiers, in USD.

Everything that speaks of dollars takes them from here: the summary of a synthesis, the dashboard's
estimate and docs/cost.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

REGION = "us-east-1"

CHECKED = "24 November 2026"
"""When the table was last compared with copies of the pages that it names: not SQS and X-Ray, of
which no copy was found. It was not compared with a bill."""

MILLION = 1_000_000


class Price(Enum):
    """A price: dollars, the unit that is sold, how many for that, AWS's page, its name in a sum."""

    SQS_REQUEST = (0.40, "requests to standard queues", MILLION, "sqs", "SQS")
    SQS_FIFO_REQUEST = (0.50, "requests to FIFO queues", MILLION, "sqs", "SQS")
    READ_UNIT = (0.125, "read units", MILLION, "dynamodb", "DynamoDB")
    WRITE_UNIT = (0.625, "write units", MILLION, "dynamodb", "DynamoDB")
    INVOCATION = (0.20, "invocations", MILLION, "lambda", "Lambda")
    GB_SECOND = (13.3334, "GB-seconds (arm64)", MILLION, "lambda", "Lambda")
    TRANSITION = (25.00, "state transitions", MILLION, "step-functions", "Step Functions")
    SCHEDULED_START = (1.00, "starts of schedules", MILLION, "eventbridge", "schedules")
    EVENT = (1.00, "events of ours", MILLION, "eventbridge", "events")
    PUT_REQUEST = (5.00, "requests that store in S3", MILLION, "s3", "S3")
    STORED_GB = (0.023, "GB in S3, a month", 1, "s3", "S3")
    LOG_GB = (0.50, "GB of logs taken in", 1, "cloudwatch", "logs")
    METRIC = (0.30, "metric of ours, a month", 1, "cloudwatch", "metrics")
    ALARM = (0.10, "metric that an alarm looks at, a month", 1, "cloudwatch", "alarms")
    DASHBOARD = (3.00, "dashboard, a month", 1, "cloudwatch", "dashboard")
    TRACE = (5.00, "traces", MILLION, "xray", "traces")
    KEY = (1.00, "KMS key, a month", 1, "kms", "KMS keys")
    KEY_REQUEST = (3.00, "requests to KMS", MILLION, "kms", "KMS requests")

    def __init__(self, dollars: float, unit: str, number: int, page: str, service: str) -> None:
        self.listed = dollars
        self.service = service
        self.unit = unit
        self.number = number
        self.page = f"https://aws.amazon.com/{page}/pricing/"

    @property
    def dollars(self) -> float:
        """The price of one."""
        return self.listed / self.number


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
        for price in Price:
            dollars = price.dollars * self.of.get(price, 0)
            sums[price.service] = sums.get(price.service, 0.0) + dollars
        return {service: dollars for service, dollars in sums.items() if dollars}


NOTHING = Usage()


def function_run(*, seconds: float, memory: int) -> Usage:
    """One invocation of a function with so many MB that takes so long."""
    return Usage({Price.INVOCATION: 1, Price.GB_SECOND: seconds * memory / 1024})
