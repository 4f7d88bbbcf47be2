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
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_ssm import SSMClient

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


@dataclass(frozen=True, slots=True)
class Clients:
    """One client a service, each safe to share between threads."""

    sqs: SQSClient
    dynamodb: DynamoDBClient
    s3: S3Client
    functions: LambdaClient


@dataclass(frozen=True, slots=True)
class CheckClients:
    """What the rule checker talks to, and nobody else."""

    dynamodb: DynamoDBClient
    ssm: SSMClient
    events: EventBridgeClient


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
def check_clients() -> CheckClients:
    """The rule checker's clients, as `clients`."""
    return CheckClients(
        dynamodb=boto3.client("dynamodb", config=_CONFIG),
        ssm=boto3.client("ssm", config=_CONFIG),
        events=boto3.client("events", config=_CONFIG),
    )
