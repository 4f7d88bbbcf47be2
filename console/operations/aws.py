"""The AWS clients of one profile and region, and AWS errors as sentences."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from .deadline import Deadline, DeadlineMissed
from .problem import Cause, Denied, Problem

if TYPE_CHECKING:
    from concurrent.futures import Future

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

# One screen of status for thirty pipelines is some 200 calls; more threads than
# this only queue up in front of Python's own lock.
_THREADS = 16

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


def _patient() -> Config:
    from botocore.config import Config

    return Config(
        connect_timeout=_CONNECT_TIMEOUT,
        read_timeout=_READ_TIMEOUT,
        retries={"mode": "standard", "total_max_attempts": 3},
        max_pool_connections=_THREADS,
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


V = TypeVar("V")


class Read(Generic[V]):
    """A read that runs beside others, and is waited for until the deadline, if it has one."""

    def __init__(self, future: Future[V], deadline: Deadline | None = None) -> None:
        self._future = future
        self._deadline = deadline

    def result(self, lost: Callable[[Problem], object]) -> V | None:
        """What was read; None if AWS refused it, and `lost` is called with the reason."""
        try:
            return self._wait()
        except Exception as error:
            problem = explain(error)
            if problem is None:
                raise
            lost(problem)
            return None

    def answer(self, what: str) -> V:
        """What was read; raises its error, or Problem that names `what` after the deadline."""
        try:
            return self._wait()
        except DeadlineMissed as missed:
            raise Problem(f"{what}: {missed.says}", missed.cause) from None

    def _wait(self) -> V:
        if self._deadline is None:
            return self._future.result()
        try:
            return self._future.result(self._deadline.left())
        except TimeoutError:
            if self._future.done():
                # The read's own error.
                raise
            raise self._deadline.missed() from None


class Start(Protocol):
    def __call__(self, read: Callable[[], V], /) -> Read[V]: ...


@contextmanager
def side_by_side() -> Iterator[Start]:
    """Runs reads in threads. A failed read spares the others. A read must not start a read."""
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(_THREADS)

    def start(read: Callable[[], V], /) -> Read[V]:
        return Read(pool.submit(read))

    try:
        yield start
    finally:
        # After Ctrl-C, reads that have not begun are dropped.
        pool.shutdown(cancel_futures=True)


_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"}
_NOT_ACCEPTED = {
    "AuthFailure",
    "IncompleteSignature",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
REFUSED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}
_GONE = {
    "AWS.SimpleQueueService.NonExistentQueue",
    "QueueDoesNotExist",
    "ResourceNotFoundException",
}
_THROTTLED = {
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
}

_SIGN_IN = "sign in again (with SSO: aws sso login), or pass another --profile"


def error_code(error: Exception) -> str:
    """The error code from AWS; "" for any other error."""
    response = getattr(error, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""


# Characters of a function's own error that are shown: enough for a sentence.
_MAX_ERROR = 300


def failure(payload: Any) -> str:
    """Why a Lambda function failed, from its decoded payload."""
    error = payload if isinstance(payload, dict) else {}
    kind, message = str(error.get("errorType", "")), str(error.get("errorMessage", ""))
    return ": ".join(part for part in (kind, message[:_MAX_ERROR]) if part) or "it did not say why"


def read_json(text: str | bytes) -> Any:
    """What others wrote as JSON; None if it is malformed."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def explain(error: Exception) -> Problem | None:
    """An error of AWS, or of reaching it, in a sentence; None for any other error."""
    from botocore import exceptions

    if isinstance(error, Problem):
        return error
    if isinstance(error, exceptions.ClientError):
        kind = Denied if error_code(error) in REFUSED else Problem
        return kind(_answered(error), _ending(error_code(error)))
    says: str
    match error:
        case exceptions.ProfileNotFound():
            says = f"{error}: pass another --profile, or see `aws configure list-profiles`."
        case exceptions.NoCredentialsError() | exceptions.PartialCredentialsError():
            says = "No AWS credentials found: pass --profile, or set AWS_PROFILE."
        case exceptions.NoRegionError():
            says = "No AWS region is set: pass --region, or set AWS_REGION."
        case (
            exceptions.SSOError()
            | exceptions.TokenRetrievalError()
            | exceptions.CredentialRetrievalError()
        ):
            says = f"The AWS credentials can't be renewed: {_SIGN_IN}."
        case exceptions.HTTPClientError() | exceptions.ConnectionError():
            says = (
                f"Can't reach AWS ({type(error).__name__}): check the network, VPN or proxy, "
                "--region, and AWS_ENDPOINT_URL if it is set."
            )
        case exceptions.BotoCoreError():
            says = f"The AWS SDK gave up: {error}."
        case _:
            return None
    return Problem(says, Cause.UNREACHABLE)


def _answered(error: Any) -> str:
    code = error_code(error)
    operation = error.operation_name
    message = str(error.response.get("Error", {}).get("Message", "")).rstrip(".")
    if code in _EXPIRED:
        return f"The AWS credentials have expired: {_SIGN_IN}."
    if code in _NOT_ACCEPTED:
        return f"AWS does not accept these credentials ({code}): {_SIGN_IN}."
    if code in REFUSED:
        return f"AWS refuses {operation}: {message or code}; pass a --profile that is allowed to."
    if code in _THROTTLED:
        return f"AWS is throttling {operation}: try again in a minute."
    if code in _GONE:
        return (
            f"{operation} finds nothing there any more ({message or code}): "
            "was it deleted after the last deployment?"
        )
    return f"AWS answered {operation} with {code}: {message}; --debug shows where."


def _ending(code: str) -> Cause:
    return Cause.ABSENT if code in _GONE else Cause.UNREACHABLE
