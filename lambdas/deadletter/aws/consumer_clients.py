"""The boto3 clients of the consumer library in a team's own function, made once per process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from botocore.config import Config

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_ssm import SSMClient
    from mypy_boto3_stepfunctions import SFNClient


def brisk(*, tries: int, read_timeout: float = 3) -> Config:
    """For calls that a run or a decision waits for: it has to end in time, whatever hangs."""
    return Config(
        connect_timeout=1,
        read_timeout=read_timeout,
        retries={"total_max_attempts": tries, "mode": "standard"},
        max_pool_connections=32,
    )


# Sends have one try: after a lost answer a second one would make a copy that is never counted.
SENDING = brisk(tries=1)
# For a team's own function, whose time a ledger that hangs must not use up; and for secrets,
# because the one read before is good enough.
BRIEF = Config(
    connect_timeout=1.5,
    read_timeout=3,
    retries={"total_max_attempts": 2, "mode": "standard"},
    # As many messages of a batch may be handled at the same time.
    max_pool_connections=64,
)
_PATIENT_ONCE = Config(
    connect_timeout=3,
    read_timeout=25,
    retries={"total_max_attempts": 1},
    max_pool_connections=32,
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ConsumerClients:
    """The clients of the consumer library, which runs in a team's own function.

    `sending` parks messages, with one try a call.
    """

    sqs: SQSClient
    sending: SQSClient
    dynamodb: DynamoDBClient


if TYPE_CHECKING:
    # It has the types of the services' clients.
    from boto3 import client as _client
else:

    def _client(service: str, *, config: Config) -> Any:
        """A client of the team's own boto3, set up as they have done."""
        # Our own functions have these time-outs too, and no boto3.
        import boto3

        return boto3.client(service, config=config)


@cache
def consumer_clients() -> ConsumerClients:
    """The consumer library's clients, with shorter time-outs than `clients`."""
    return ConsumerClients(
        sqs=_client("sqs", config=BRIEF),
        sending=_client("sqs", config=SENDING),
        dynamodb=_client("dynamodb", config=BRIEF),
    )


@cache
def ssm() -> SSMClient:
    """The client that looks up registrations. Made only where a pipeline is looked up."""
    return _client("ssm", config=BRIEF)


@cache
def polling() -> SQSClient:
    """The client of a consumer that polls: a receive waits for messages up to 20 seconds.

    One try a call: after a lost answer a second receive would hide more messages, and the poller
    itself repeats what failed, less and less often.
    """
    return _client("sqs", config=_PATIENT_ONCE)


@cache
def brief_stepfunctions() -> SFNClient:
    """The client of consumers and the watch to start outages.

    If it times out, the watch starts them later.
    """
    return _client("stepfunctions", config=BRIEF)
