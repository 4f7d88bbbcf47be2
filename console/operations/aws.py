"""The AWS clients of one profile and region."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .deadline import THREADS
from .errors import Cause, Problem

if TYPE_CHECKING:
    from botocore.config import Config
    from botocore.session import Session
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_logs import CloudWatchLogsClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_secretsmanager import SecretsManagerClient
    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_ssm import SSMClient
    from mypy_boto3_stepfunctions import SFNClient
    from mypy_boto3_sts import STSClient
    from mypy_boto3_sts.type_defs import GetCallerIdentityResponseTypeDef

# Seconds. Short, because a person waits; the one long call has its own setting.
_CONNECT_TIMEOUT = 5
_READ_TIMEOUT = 20

# Lambda ends a function after 900 seconds: no answer comes later.
_INVOKE_TIMEOUT = 910


def _of(service: str) -> Any:
    """The property with the client of a service."""
    return cached_property(lambda aws: aws._client(service))


class Aws:
    """The clients of one profile and region, each made at first use.

    Make a client before handing it to threads: making it is not thread-safe, using it is.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def region(self) -> str:
        return str(self._session.get_config_variable("region"))

    @property
    def account(self) -> str:
        return self._identity["Account"]

    @property
    def caller(self) -> str:
        """The ARN of the caller's identity."""
        return self._identity["Arn"]

    @property
    def user_id(self) -> str:
        """The caller's unique id; for a role its id and the session's name."""
        return self._identity["UserId"]

    @cached_property
    def _identity(self) -> GetCallerIdentityResponseTypeDef:
        return self.sts.get_caller_identity()

    def _client(self, service: str, config: Config | None = None) -> Any:
        return self._session.create_client(service, config=config or _patient())

    cloudwatch: cached_property[CloudWatchClient] = _of("cloudwatch")
    events: cached_property[EventBridgeClient] = _of("events")
    functions: cached_property[LambdaClient] = _of("lambda")
    """For questions about functions; `lambda_` invokes them."""
    ec2: cached_property[Any] = _of("ec2")
    iam: cached_property[Any] = _of("iam")
    kms: cached_property[Any] = _of("kms")
    sns: cached_property[SNSClient] = _of("sns")
    logs: cached_property[CloudWatchLogsClient] = _of("logs")
    s3: cached_property[S3Client] = _of("s3")
    secretsmanager: cached_property[SecretsManagerClient] = _of("secretsmanager")
    sqs: cached_property[SQSClient] = _of("sqs")
    ssm: cached_property[SSMClient] = _of("ssm")
    stepfunctions: cached_property[SFNClient] = _of("stepfunctions")
    sts: cached_property[STSClient] = _of("sts")

    @cached_property
    def dynamodb(self) -> DynamoDBClient:
        """The client of the tables: `list` reads twenty thousand records, for half of the CPU."""
        from deadletter.aws.clients import thin

        client: DynamoDBClient = self._client("dynamodb")
        read = self._session.get_config_variable
        return thin(client, self._session.get_credentials, lambda: read("ca_bundle") or None)

    @cached_property
    def lambda_(self) -> LambdaClient:
        """The client for synchronous invocations: it waits as long as a function may run.

        It never retries: the SDK can't tell a run that never started from a run whose
        answer was lost, and a retry would start a second run.
        """
        from botocore.config import Config

        once = Config(
            connect_timeout=_CONNECT_TIMEOUT,
            read_timeout=_INVOKE_TIMEOUT,
            retries={"total_max_attempts": 1},
            # A NAT gateway drops a connection that is silent for 350 seconds.
            tcp_keepalive=True,
        )
        client: LambdaClient = self._client("lambda", once)
        return client


def rows(client: Any, operation: str, key: str, **asked: Any) -> Iterator[Any]:
    """The rows that all pages of an answer have below a key."""
    for page in client.get_paginator(operation).paginate(**asked):
        yield from page.get(key, ())


def _patient() -> Config:
    from botocore.config import Config

    return Config(
        connect_timeout=_CONNECT_TIMEOUT,
        read_timeout=_READ_TIMEOUT,
        retries={"mode": "standard", "total_max_attempts": 3},
        max_pool_connections=THREADS,
    )


def connect(profile: str | None, region: str | None) -> Aws:
    """The clients for a profile and region, chosen as the AWS CLI does.

    AWS_REGION counts before the profile's own region; the SDK by itself reads only
    AWS_DEFAULT_REGION. A profile named here beats credentials in the environment; a
    profile named by AWS_PROFILE does not, which is why that variable is left to the SDK.

    Raises Problem when no region is set. All clients come from here: tests replace it.
    """
    session = _session(profile, region or os.environ.get("AWS_REGION"))
    if not session.get_config_variable("region"):
        raise Problem("No AWS region is set: pass --region, or set AWS_REGION.", Cause.UNREACHABLE)
    return Aws(session)


def _session(profile: str | None, region: str | None) -> Session:
    # boto3 would bring what copies large objects, for an eighth of a command's CPU time.
    from botocore.session import Session

    session = Session(profile=profile)
    if region:
        session.set_config_variable("region", region)
    return session
