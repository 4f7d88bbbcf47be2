"""AWS's list prices, in one table: us-east-1, on demand, without free tiers, in USD.

Everything that speaks of dollars takes them from here: the summary of a synthesis, the dashboard's
estimate and docs/cost.md.
"""

from __future__ import annotations

from enum import Enum

REGION = "us-east-1"

CHECKED = "24 November 2026"
"""When the table was last compared with copies of the pages that it names: not SQS and X-Ray, of
which no copy was found. It was not compared with a bill."""

MILLION = 1_000_000


class Price(Enum):
    """A price: dollars, the unit that is sold, how many are sold for that, and AWS's page."""

    SQS_REQUEST = (0.40, "requests to standard queues", MILLION, "sqs")
    SQS_FIFO_REQUEST = (0.50, "requests to FIFO queues", MILLION, "sqs")
    READ_UNIT = (0.125, "read units", MILLION, "dynamodb")
    WRITE_UNIT = (0.625, "write units", MILLION, "dynamodb")
    INVOCATION = (0.20, "invocations", MILLION, "lambda")
    GB_SECOND = (13.3334, "GB-seconds (arm64)", MILLION, "lambda")
    TRANSITION = (25.00, "state transitions", MILLION, "step-functions")
    SCHEDULED_START = (1.00, "starts of schedules", MILLION, "eventbridge")
    EVENT = (1.00, "events of ours", MILLION, "eventbridge")
    PUT_REQUEST = (5.00, "requests that store in S3", MILLION, "s3")
    STORED_GB = (0.023, "GB in S3, a month", 1, "s3")
    LOG_GB = (0.50, "GB of logs taken in", 1, "cloudwatch")
    METRIC = (0.30, "metric of ours, a month", 1, "cloudwatch")
    ALARM = (0.10, "metric that an alarm looks at, a month", 1, "cloudwatch")
    DASHBOARD = (3.00, "dashboard, a month", 1, "cloudwatch")
    TRACE = (5.00, "traces", MILLION, "xray")
    KEY = (1.00, "KMS key, a month", 1, "kms")
    KEY_REQUEST = (3.00, "requests to KMS", MILLION, "kms")

    def __init__(self, dollars: float, unit: str, number: int, page: str) -> None:
        self.listed = dollars
        self.unit = unit
        self.number = number
        self.page = f"https://aws.amazon.com/{page}/pricing/"

    @property
    def dollars(self) -> float:
        """The price of one."""
        return self.listed / self.number
