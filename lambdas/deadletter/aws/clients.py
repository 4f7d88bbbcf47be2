"""The boto3 clients of our functions, made once per process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast

from deadletter.aws.consumer_clients import BRIEF, SENDING, CallLimits, brisk

# The same names in one place for our own functions.
from deadletter.aws.consumer_clients import ConsumerClients as ConsumerClients
from deadletter.aws.consumer_clients import brief_stepfunctions as brief_stepfunctions
from deadletter.aws.consumer_clients import consumer_clients as consumer_clients
from deadletter.aws.consumer_clients import polling as polling
from deadletter.aws.consumer_clients import ssm as ssm

if TYPE_CHECKING:
    # It has the types of the services' clients.
    from boto3 import client as client_of
    from botocore.session import Session
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_secretsmanager import SecretsManagerClient
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_ssm import SSMClient
    from mypy_boto3_stepfunctions import SFNClient

else:

    def client_of(service: str, *, config: Any) -> Any:
        """A client of a service; botocore finds credentials and region as boto3 does."""
        return session().create_client(service, config=config)


C = TypeVar("C")


@cache
def session() -> Session:
    """The session of this process. The first one loads botocore, which takes 0.2 s.

    Of botocore alone: boto3 would bring resources and s3transfer.
    """
    from botocore.session import get_session

    return get_session()


# A call that hangs keeps letters locked: give up early, retry, and leave the rest to the next
# run.
_CONFIG = CallLimits(3, 15, tries=3, connections=64)

# A call ends within 12 seconds.
_TABLES = brisk(tries=3)
# A mark comes directly after its sends, and has to be written before the run's deadline.
_JOURNAL = brisk(tries=2, read_timeout=1.5)
# Bodies that S3 does not take in time leave their letters in the queue.
_BODIES = brisk(tries=2)
# The router may take 20 seconds. The redriver itself asks again, and counts it.
_PATIENT = CallLimits(3, 25, tries=1, connections=64)
# The watch has 30 seconds for everything, and asks again a minute later.
_ONCE = CallLimits(2, 12, tries=1)


@dataclass(frozen=True, slots=True)
class Clients:
    """One client per service and time-out, each safe to share between threads.

    `sending` sends messages, with one try a call; `journal` writes intents and marks.
    """

    sqs: SQSClient
    sending: SQSClient
    dynamodb: DynamoDBClient
    journal: DynamoDBClient
    s3: S3Client
    functions: LambdaClient


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RouterClients:
    """The client of the router, which reads tables and nothing else."""

    dynamodb: DynamoDBClient


@dataclass(frozen=True, slots=True)
class CheckClients:
    """The clients of the rule checker."""

    dynamodb: DynamoDBClient
    ssm: SSMClient
    events: EventBridgeClient


@dataclass(frozen=True, slots=True)
class OutageClients:
    """The clients of an outage's steps, except for sending the canary."""

    dynamodb: DynamoDBClient
    events: EventBridgeClient
    functions: LambdaClient


@dataclass(frozen=True, slots=True)
class WatchClients:
    """The clients of the watch."""

    sqs: SQSClient
    dynamodb: DynamoDBClient
    functions: LambdaClient


@cache
def clients(by_boto3: str = "") -> Clients:
    """The clients of redriver, probe and replay runs.

    `by_boto3` says why boto3 has to make all calls; empty if it need not.
    """
    return Clients(
        sqs=_thin(client_of("sqs", config=_CONFIG.config()), by_boto3),
        sending=_thin(client_of("sqs", config=SENDING.config()), by_boto3),
        dynamodb=_thin(client_of("dynamodb", config=_TABLES.config()), by_boto3),
        journal=_thin(client_of("dynamodb", config=_JOURNAL.config()), by_boto3),
        s3=cast("S3Client", _S3AtFirstCall()),
        functions=_thin(client_of("lambda", config=_PATIENT.config()), by_boto3),
    )


def renew_connections(made: Clients, *others: LambdaClient) -> None:
    """Let the calls of a run that have one try begin on new connections.

    AWS closes a connection that is idle between two runs, and a function that sleeps may not
    notice: a call on it would be one without an answer.
    """
    for client in (made.sending, made.functions, *others):
        client.close()


class _S3AtFirstCall:
    """The client of S3, made at its first call: it takes longest to make, and few runs need it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._client: Any = None

    def __getattr__(self, name: str) -> Any:
        # A session makes one client at a time.
        with self._lock:
            self._client = self._client or client_of("s3", config=_BODIES.config())
        return getattr(self._client, name)


def _whole(client: C) -> C:
    # A function whose calls boto3 does not make loads none of it.
    from deadletter.aws.wire.connections import with_deadline

    return with_deadline(client)


def _thin(client: C, by_boto3: str) -> C:
    """The client for calls that every letter needs."""
    client = _whole(client)
    if by_boto3:
        _say_boto3(by_boto3)
        return client
    return thin(client, session().get_credentials, ca_bundle)


def thin(client: C, credentials: Callable[[], Any], bundle: Callable[[], str | None]) -> C:
    """A boto3 client that makes its hot calls itself, for less CPU time.

    `credentials` are those of its session, `bundle` is the file of the certificates that it
    trusts: both are asked for now. Where botocore is another inside, boto3 makes all calls.
    """
    # With boto3's clients alone, none of it is loaded.
    from botocore.client import BaseClient

    # Accounts in memory have clients of their own.
    if not isinstance(client, BaseClient):
        return client
    try:
        from botocore.compat import get_current_datetime
        from botocore.utils import get_environ_proxies

        from deadletter.aws.wire.thin_client import ThinClient

        if get_environ_proxies(client.meta.endpoint_url):
            _say_boto3("they go through a proxy")
        # The event never comes.
        made = ThinClient(client, credentials(), get_current_datetime, Event().wait, bundle())
    except (ImportError, AttributeError) as error:
        # What is not documented of botocore may be gone in a version of the runtime.
        _say_boto3(f"this botocore is another inside: {error}")
        return client
    return cast(C, made)


@cache
def _say_boto3(why: str) -> None:
    """One line a process, however many clients it makes."""
    import logging

    logging.getLogger("deadletter").warning("All calls go by boto3: %s", why)


@cache
def router_clients(by_boto3: str = "") -> RouterClients:
    """The router's client, with the time-outs of `clients`."""
    return RouterClients(_thin(client_of("dynamodb", config=_TABLES.config()), by_boto3))


@cache
def check_clients() -> CheckClients:
    """The rule checker's clients, with the time-outs of `clients`."""
    return CheckClients(
        dynamodb=client_of("dynamodb", config=_CONFIG.config()),
        ssm=client_of("ssm", config=_CONFIG.config()),
        events=client_of("events", config=_CONFIG.config()),
    )


@cache
def outage_clients() -> OutageClients:
    """The clients of an outage's steps, with the time-outs of `clients`."""
    return OutageClients(
        dynamodb=client_of("dynamodb", config=_CONFIG.config()),
        events=client_of("events", config=_CONFIG.config()),
        functions=client_of("lambda", config=_CONFIG.config()),
    )


@cache
def watch_clients() -> WatchClients:
    """The clients of the watch, which never wait long: what hangs is trouble, and is shown."""
    return WatchClients(
        sqs=client_of("sqs", config=BRIEF.config()),
        dynamodb=client_of("dynamodb", config=BRIEF.config()),
        functions=client_of("lambda", config=_ONCE.config()),
    )


@cache
def brief_events() -> EventBridgeClient:
    """The client for news, of the watch and of replay runs: neither waits long for the bus."""
    return client_of("events", config=BRIEF.config())


@cache
def brief_cloudwatch() -> CloudWatchClient:
    """The watch's client for the main queue's age and recovered letters, made when asked for."""
    return client_of("cloudwatch", config=BRIEF.config())


@cache
def start_client() -> LambdaClient:
    """The client of the redriver that starts further runs of it. Made when one is started."""
    return client_of("lambda", config=BRIEF.config())


@cache
def consumer_call(answer_seconds: int) -> LambdaClient:
    """A client that waits so many seconds for a consumer's answer. No retry: one canary, once."""
    config = CallLimits(3, answer_seconds, tries=1).config()
    return _whole(client_of("lambda", config=config))


@cache
def stepfunctions() -> SFNClient:
    """The redriver's client to start outages. Made only where outages can start."""
    return client_of("stepfunctions", config=_CONFIG.config())


@cache
def secretsmanager() -> SecretsManagerClient:
    """The client that reads signing secrets. Made only where a request is signed."""
    return client_of("secretsmanager", config=BRIEF.config())


@cache
def heartbeat_client() -> CloudWatchClient:
    """The client of the first heartbeat, with the time-outs of `clients`."""
    return client_of("cloudwatch", config=_CONFIG.config())


@cache
def ca_bundle() -> str | None:
    """The file of the certificates that boto3 trusts; None if those of the system."""
    bundle = session().get_config_variable("ca_bundle")
    return str(bundle) if bundle else None
