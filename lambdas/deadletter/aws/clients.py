"""The boto3 clients that a function needs, made once a process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_secretsmanager import SecretsManagerClient
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_ssm import SSMClient
    from mypy_boto3_stepfunctions import SFNClient

# A call that hangs holds letters under lock: give up early, try a second time, leave
# the rest to the next run.
_CONFIG = Config(
    connect_timeout=3,
    read_timeout=15,
    retries={"total_max_attempts": 3, "mode": "standard"},
    max_pool_connections=32,
)
# The router may take 20 seconds; asking again is the redriver's business, and counted.
_PATIENT = Config(connect_timeout=3, read_timeout=25, retries={"total_max_attempts": 1})
# A secret that was read before is good enough, and a ledger that hangs must not use up the
# time of somebody else's function: nobody waits long.
_BRIEF = Config(
    connect_timeout=2, read_timeout=3, retries={"total_max_attempts": 2, "mode": "standard"}
)


@dataclass(frozen=True, slots=True)
class Clients:
    """One client a service, each safe to share between threads."""

    sqs: SQSClient
    dynamodb: DynamoDBClient
    s3: S3Client
    functions: LambdaClient


@dataclass(frozen=True, slots=True)
class ConsumerClients:
    """What the consumer library talks to, in a function of somebody else's."""

    sqs: SQSClient
    dynamodb: DynamoDBClient


@dataclass(frozen=True, slots=True)
class CheckClients:
    """What the rule checker talks to, and nobody else."""

    dynamodb: DynamoDBClient
    ssm: SSMClient
    events: EventBridgeClient


@dataclass(frozen=True, slots=True)
class OutageClients:
    """What the steps of an outage talk to, the canary aside."""

    dynamodb: DynamoDBClient
    events: EventBridgeClient
    functions: LambdaClient


@cache
def clients() -> Clients:
    """The process's clients, with credentials and region as boto3 finds them."""
    return Clients(
        sqs=boto3.client("sqs", config=_CONFIG),
        dynamodb=boto3.client("dynamodb", config=_CONFIG),
        s3=boto3.client("s3", config=_CONFIG),
        functions=boto3.client("lambda", config=_PATIENT),
    )


@cache
def consumer_clients() -> ConsumerClients:
    """The consumer library's clients, with less patience than `clients`."""
    return ConsumerClients(
        sqs=boto3.client("sqs", config=_BRIEF),
        dynamodb=boto3.client("dynamodb", config=_BRIEF),
    )


@cache
def ssm() -> SSMClient:
    """The client of those who look up where a pipeline is; made only where one is."""
    return boto3.client("ssm", config=_BRIEF)


@cache
def check_clients() -> CheckClients:
    """The rule checker's clients, as `clients`."""
    return CheckClients(
        dynamodb=boto3.client("dynamodb", config=_CONFIG),
        ssm=boto3.client("ssm", config=_CONFIG),
        events=boto3.client("events", config=_CONFIG),
    )


@cache
def outage_clients() -> OutageClients:
    """The clients of whoever runs outages, as `clients`."""
    return OutageClients(
        dynamodb=boto3.client("dynamodb", config=_CONFIG),
        events=boto3.client("events", config=_CONFIG),
        functions=boto3.client("lambda", config=_CONFIG),
    )


@cache
def consumer_call(answer_seconds: int) -> LambdaClient:
    """A client that waits so long for a consumer's answer, and asks once: see `canary`."""
    config = Config(
        connect_timeout=3, read_timeout=answer_seconds, retries={"total_max_attempts": 1}
    )
    return boto3.client("lambda", config=config)


@cache
def stepfunctions() -> SFNClient:
    """The client of those who start outages; made only where one is started."""
    return boto3.client("stepfunctions", config=_CONFIG)


@cache
def brief_stepfunctions() -> SFNClient:
    """The client of a consumer that starts outages: if it has to wait, the sweep does it."""
    return boto3.client("stepfunctions", config=_BRIEF)


@cache
def secretsmanager() -> SecretsManagerClient:
    """The client of those who sign; made only where there is something to sign."""
    return boto3.client("secretsmanager", config=_BRIEF)
