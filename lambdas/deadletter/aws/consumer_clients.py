"""The boto3 clients of the consumer library in a team's own function, made once per process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from botocore.config import Config
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_ssm import SSMClient
    from mypy_boto3_stepfunctions import SFNClient


@dataclass(frozen=True, slots=True)
class CallLimits:
    """How long a call may take, in seconds, how often it is tried, and with how many connections.

    Known without botocore, which takes 0.2 s to load.
    """

    connect_timeout: float
    read_timeout: float
    tries: int
    connections: int = 10

    def config(self) -> Config:
        """As botocore's clients are told."""
        from botocore.config import Config

        return Config(
            connect_timeout=self.connect_timeout,
            read_timeout=self.read_timeout,
            retries={"total_max_attempts": self.tries, "mode": "standard"},
            max_pool_connections=self.connections,
        )


def brisk(*, tries: int, read_timeout: float = 3) -> CallLimits:
    """For calls that a run or a decision waits for: it has to end in time, whatever hangs."""
    return CallLimits(1, read_timeout, tries, connections=64)


# Sends have one try: after a lost answer a second one would make a copy that is never counted.
SENDING = brisk(tries=1)
# For a team's own function, whose time a ledger that hangs must not use up; and for secrets,
# because the one read before is good enough.
# As many messages of a batch may be handled at the same time.
BRIEF = CallLimits(1.5, 3, tries=2, connections=64)
_PATIENT_ONCE = CallLimits(3, 25, tries=1, connections=64)


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
    # Our own functions make none of them, and need not load it.
    from deadletter.aws.wire.connections import with_deadline

    return ConsumerClients(
        sqs=with_deadline(_client("sqs", config=BRIEF.config())),
        sending=with_deadline(_client("sqs", config=SENDING.config())),
        dynamodb=with_deadline(_client("dynamodb", config=BRIEF.config())),
    )


@cache
def ssm() -> SSMClient:
    """The client that looks up registrations. Made only where a pipeline is looked up."""
    return _client("ssm", config=BRIEF.config())


@cache
def polling() -> SQSClient:
    """The client of a consumer that polls: a receive waits for messages up to 20 seconds.

    One try a call: after a lost answer a second receive would hide more messages, and the poller
    itself repeats what failed, less and less often.
    """
    return _client("sqs", config=_PATIENT_ONCE.config())


@cache
def brief_stepfunctions() -> SFNClient:
    """The client of consumers and the watch to start outages.

    If it times out, the watch starts them later.
    """
    return _client("stepfunctions", config=BRIEF.config())
