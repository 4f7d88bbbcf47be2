"""Failures of handlers, each with what it says of the dependency, by its library's documentation.

Written before the judgement was: a case states what the library says that its exception means.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import http.client
import json
import smtplib
import socket
import ssl
import subprocess
import urllib.error
from collections.abc import Callable
from email.message import Message
from types import SimpleNamespace
from typing import Any, NamedTuple

import boto3.exceptions
import botocore.exceptions as boto
import httpx
import pydantic
import requests
import s3transfer.exceptions
import urllib3.exceptions as u3

from deadletter.failure.signals import Permanent, Transient
from tests.failure.exceptions import aws, caught, fake, from_none, raised

D, N, C = "dependency", "neither", "configuration"
TRANSIENT, INTEGRATION, SCHEMA, BUSINESS = "transient", "integration", "schema", "business"

BODY = '{"orderId": "o-17", "count": "many", "meta": {}}'
"""The message that the handler was given in every case."""


class Case(NamedTuple):
    """One failure: its name, how it is built, and what it must be judged as."""

    name: str
    build: Callable[[], BaseException]
    blame: str
    category: str


CASES: list[Case] = []


def case(name: str, build: Callable[[], BaseException], blame: str, category: str = "") -> None:
    CASES.append(Case(name, build, blame, category or (INTEGRATION if blame == C else TRANSIENT)))


def simple(blame: str, *lineages: str, category: str = "") -> None:
    """Cases of classes whose name alone speaks."""
    for lineage in lineages:
        name = lineage.partition(" ")[0]
        case(name, lambda lineage=lineage: fake(lineage, "no words"), blame, category)  # type: ignore[misc]


class Order(pydantic.BaseModel):
    """A model of a message or of an answer."""

    order_id: str = pydantic.Field(alias="orderId")
    count: int


# Programming and data errors of Python: the code or the data, never the dependency.
for builtin in (
    KeyError("customer"),
    IndexError("list index out of range"),
    LookupError("no such codec"),
    TypeError("unsupported operand"),
    ValueError("not a number"),
    AttributeError("'NoneType' has no attribute 'id'"),
    NameError("name 'x' is not defined"),
    UnboundLocalError("x"),
    ImportError("cannot import name"),
    ModuleNotFoundError("No module named 'x'"),
    AssertionError("total > 0"),
    ZeroDivisionError("division by zero"),
    OverflowError("too large"),
    FloatingPointError("x"),
    RecursionError("maximum recursion depth exceeded"),
    MemoryError(),
    NotImplementedError("this carrier takes no parcels"),
    RuntimeError("dictionary changed size during iteration"),
    StopIteration(),
    EOFError("EOF when reading a line"),
    BufferError("Local: Queue full"),
    ReferenceError("x"),
    SystemError("x"),
    UnicodeEncodeError("ascii", "ü", 0, 1, "ordinal not in range"),
    SystemExit(2),
    Exception("something"),
    FileNotFoundError(errno.ENOENT, "no such file", "orders.csv"),
    PermissionError(errno.EACCES, "Permission denied", "orders.csv"),
    IsADirectoryError(errno.EISDIR, "is a directory"),
    asyncio.CancelledError(),
    asyncio.InvalidStateError(),
    concurrent.futures.BrokenExecutor("a process died"),
    subprocess.CalledProcessError(1, ["convert"]),
    subprocess.TimeoutExpired(["convert"], 30),
    json.JSONDecodeError("Expecting value", "<html>", 0),
):
    case(f"builtin {type(builtin).__name__}", lambda error=builtin: error, N)  # type: ignore[misc]

# What the operating system says: of the network, or of this machine.
for number, blame in {
    errno.ECONNREFUSED: D,
    errno.ECONNRESET: D,
    errno.ECONNABORTED: D,
    errno.EPIPE: D,
    errno.ETIMEDOUT: D,
    errno.EHOSTUNREACH: D,
    errno.ENETUNREACH: D,
    errno.EHOSTDOWN: D,
    errno.ENETDOWN: D,
    errno.ENETRESET: D,
    errno.ENOTCONN: D,
    errno.ENOSPC: N,
    errno.EDQUOT: N,
    errno.EMFILE: N,
    errno.ENFILE: N,
    errno.ENOMEM: N,
    errno.EACCES: N,
    errno.EROFS: N,
    errno.EIO: N,
    errno.EADDRINUSE: N,
}.items():
    case(
        f"errno {errno.errorcode[number]}",
        lambda number=number: OSError(number, "no words"),  # type: ignore[misc]
        blame,
    )

# Names and certificates: a name that stopped resolving, or a certificate that ran out, are the
# outages of a dependency that worked yesterday.
case("gaierror again", lambda: socket.gaierror(socket.EAI_AGAIN, "try again"), D)
case("gaierror no name", lambda: socket.gaierror(socket.EAI_NONAME, "not known"), D)
case("herror", lambda: socket.herror(2, "Host name lookup failure"), D)
case("ssl error", lambda: ssl.SSLError(1, "TLSV1_ALERT_INTERNAL_ERROR"), D)
case("ssl eof", lambda: ssl.SSLEOFError(8, "EOF occurred in violation of protocol"), D)
case("ssl certificate", lambda: ssl.SSLCertVerificationError(1, "certificate has expired"), D)
simple(D, "dns.resolver.LifetimeTimeout < dns.exception.Timeout < dns.exception.DNSException")

# Time-outs.
case("builtin timeout", lambda: TimeoutError("timed out"), D)
case("futures timeout", lambda: concurrent.futures.TimeoutError(), D)
case("asyncio timeout", lambda: raised(TimeoutError(), cause=asyncio.CancelledError()), D)
case("incomplete stream", lambda: asyncio.IncompleteReadError(b"x", 10), D)
simple(N, "celery.exceptions.SoftTimeLimitExceeded", "billiard.exceptions.TimeLimitExceeded")
simple(D, "celery.exceptions.TimeoutError < celery.exceptions.CeleryError")

# http.client and urllib.
case("remote disconnected", lambda: http.client.RemoteDisconnected("closed"), D)
case("bad status line", lambda: http.client.BadStatusLine("x"), D)
case("incomplete read", lambda: http.client.IncompleteRead(b"x", 7), D)
case("cannot send request", lambda: http.client.CannotSendRequest("Request-sent"), N)
case("http.client bad url", lambda: http.client.InvalidURL("nonnumeric port: 'x'"), N)
case("urllib refused", lambda: urllib.error.URLError(ConnectionRefusedError(111, "refused")), D)
case("urllib timeout", lambda: urllib.error.URLError(TimeoutError("timed out")), D)
case("urllib disk full", lambda: urllib.error.URLError(OSError(errno.ENOSPC, "full")), N)
case(
    "urllib cut short", lambda: urllib.error.ContentTooShortError("cut short", (b"", Message())), D
)
for status, blame, category in (
    (400, N, INTEGRATION),
    (401, C, INTEGRATION),
    (402, N, INTEGRATION),
    (403, C, INTEGRATION),
    (404, N, INTEGRATION),
    (405, N, INTEGRATION),
    (407, C, INTEGRATION),
    (408, D, TRANSIENT),
    (409, N, INTEGRATION),
    (410, N, INTEGRATION),
    (412, N, INTEGRATION),
    (413, N, INTEGRATION),
    (422, N, INTEGRATION),
    (425, D, TRANSIENT),
    (429, D, TRANSIENT),
    (500, D, TRANSIENT),
    (502, D, TRANSIENT),
    (503, D, TRANSIENT),
    (504, D, TRANSIENT),
    (529, D, TRANSIENT),
):
    case(
        f"urllib {status}",
        lambda status=status: urllib.error.HTTPError("u", status, "m", Message(), None),  # type: ignore[misc]
        blame,
        category,
    )


# requests, urllib3, httpx: the real ones.
def answered(status: int, body: bytes = b"") -> requests.Response:
    response = requests.Response()
    response.status_code, response._content = status, body
    return response


def requests_status(status: int) -> BaseException:
    return caught(answered(status).raise_for_status)


def httpx_status(status: int) -> BaseException:
    request = httpx.Request("GET", "https://api.example.com")
    return caught(httpx.Response(status, request=request).raise_for_status)


for status, blame, category in (
    (401, C, INTEGRATION),
    (404, N, INTEGRATION),
    (422, N, INTEGRATION),
    (429, D, TRANSIENT),
    (500, D, TRANSIENT),
    (503, D, TRANSIENT),
):
    case(f"requests {status}", lambda s=status: requests_status(s), blame, category)  # type: ignore[misc]
    case(f"httpx {status}", lambda s=status: httpx_status(s), blame, category)  # type: ignore[misc]

R = requests.exceptions
case("requests connection", lambda: R.ConnectionError("refused"), D)
case("requests read timeout", lambda: R.ReadTimeout("timed out"), D)
case("requests connect timeout", lambda: R.ConnectTimeout("timed out"), D)
case("requests proxy", lambda: R.ProxyError("cannot connect to proxy"), D)
case("requests tls", lambda: R.SSLError("certificate verify failed"), D)
case("requests chunked", lambda: R.ChunkedEncodingError("connection broken"), D)
case("requests retries", lambda: R.RetryError("too many 503 error responses"), D)
case("requests bad url", lambda: R.InvalidURL("no host supplied"), N)
case("requests no scheme", lambda: R.MissingSchema("perhaps you meant https://"), N)
case("requests bad header", lambda: R.InvalidHeader("x"), N)
case("requests 200 with a page", lambda: caught(answered(200, b"<html>").json), N)
case("requests 200 with nothing", lambda: caught(answered(200, b"").json), N)
case("requests undecodable", lambda: R.ContentDecodingError("not gzip"), N)
U: Any = SimpleNamespace(host="h", port=443, scheme="https")
case("urllib3 max retries", lambda: u3.MaxRetryError(U, "/", u3.ProtocolError("reset")), D)
case("urllib3 too many 5xx", lambda: u3.MaxRetryError(U, "/", u3.ResponseError("too many 503")), D)
case("urllib3 new connection", lambda: u3.NewConnectionError(U, "refused"), D)
case("urllib3 name", lambda: u3.NameResolutionError("h", U, socket.gaierror(-3, "again")), D)
case("urllib3 read timeout", lambda: u3.ReadTimeoutError(U, "/", "timed out"), D)
case("urllib3 protocol", lambda: u3.ProtocolError("connection aborted"), D)
case("urllib3 incomplete", lambda: u3.IncompleteRead(1, 7), D)
case("urllib3 tls", lambda: u3.SSLError("handshake failure"), D)
case("urllib3 location", lambda: u3.LocationParseError("x"), N)
H = httpx
for kind, blame in (
    (H.ConnectError, D),
    (H.ConnectTimeout, D),
    (H.ReadTimeout, D),
    (H.WriteTimeout, D),
    (H.PoolTimeout, D),
    (H.ReadError, D),
    (H.WriteError, D),
    (H.CloseError, D),
    (H.RemoteProtocolError, D),
    (H.ProxyError, D),
    (H.LocalProtocolError, N),
    (H.UnsupportedProtocol, N),
    (H.DecodingError, N),
    (H.InvalidURL, N),
):
    case(f"httpx {kind.__name__}", lambda kind=kind: kind("no words"), blame)  # type: ignore[misc]

AIO = "aiohttp.client_exceptions."
CLIENT = f"< {AIO}ClientError"
simple(
    D,
    f"{AIO}ClientConnectorError < {AIO}ClientOSError < OSError",
    f"{AIO}ClientOSError < OSError",
    f"{AIO}ServerDisconnectedError {CLIENT}",
    f"{AIO}ServerTimeoutError {CLIENT}",
    f"{AIO}ClientPayloadError {CLIENT}",
    f"{AIO}ClientConnectorCertificateError < {AIO}ClientSSLError < {AIO}ClientConnectorError",
    f"{AIO}ClientConnectionResetError {CLIENT}",
)
simple(N, f"{AIO}InvalidURL < ValueError")
for status, blame, category in ((500, D, ""), (404, N, INTEGRATION), (403, C, "")):
    case(
        f"aiohttp {status}",
        lambda s=status: fake(f"{AIO}ClientResponseError {CLIENT}", status=s, code=s),  # type: ignore[misc]
        blame,
        category,
    )
case("aiohttp 200 not json", lambda: fake(f"{AIO}ContentTypeError {CLIENT}", status=200), N)

# AWS: botocore's own errors.
for code, http_status, blame in (
    ("ThrottlingException", 400, D),
    ("Throttling", 400, D),
    ("ProvisionedThroughputExceededException", 400, D),
    ("RequestLimitExceeded", 503, D),
    ("SlowDown", 503, D),
    ("TooManyRequestsException", 429, D),
    ("RequestThrottled", 403, D),
    ("PriorRequestNotComplete", 400, D),
    ("TransactionInProgressException", 400, D),
    ("LimitExceededException", 400, D),
    ("EC2ThrottledException", 502, D),
    ("RequestTimeout", 400, D),
    ("RequestTimeoutException", 408, D),
    ("InternalServerError", 500, D),
    ("InternalFailure", 500, D),
    ("ServiceUnavailable", 503, D),
    ("ServiceException", 500, D),
    ("IDPCommunicationError", 400, D),
    ("ReplicatedWriteConflictException", 409, D),
    ("ModelNotReadyException", 429, D),
    ("KMSThrottlingException", 400, D),
    ("StatementTimeoutException", 400, D),
    ("DatabaseResumingException", 400, D),
    ("AccessDenied", 403, C),
    ("AccessDeniedException", 400, C),
    ("ExpiredToken", 400, C),
    ("ExpiredTokenException", 400, C),
    ("InvalidClientTokenId", 403, C),
    ("UnrecognizedClientException", 400, C),
    ("SignatureDoesNotMatch", 403, C),
    ("InvalidAccessKeyId", 403, C),
    ("MissingAuthenticationToken", 403, C),
    ("AuthFailure", 401, C),
    ("UnauthorizedOperation", 403, C),
    ("RequestTimeTooSkewed", 403, C),
    ("ResourceNotFoundException", 400, C),
    ("AWS.SimpleQueueService.NonExistentQueue", 400, C),
    ("NoSuchBucket", 404, C),
    ("StateMachineDoesNotExist", 400, C),
    ("ConditionalCheckFailedException", 400, N),
    ("ValidationException", 400, N),
    ("ItemCollectionSizeLimitExceededException", 400, N),
    ("NoSuchKey", 404, N),
    ("404", 404, N),
    ("PreconditionFailed", 412, N),
    ("ExecutionAlreadyExists", 400, N),
    ("InvalidParameterValue", 400, N),
    ("MessageRejected", 400, N),
    ("ResourceInUseException", 400, N),
    ("DuplicateItemException", 400, N),
):
    case(
        f"aws {code}",
        lambda code=code, http_status=http_status: aws(code, http_status),  # type: ignore[misc]
        blame,
        TRANSIENT if blame == D else INTEGRATION,
    )


def canceled(*codes: str) -> BaseException:
    reasons = [{"Code": code} for code in codes]
    return aws("TransactionCanceledException", 400, CancellationReasons=reasons)


case("transaction: condition", lambda: canceled("None", "ConditionalCheckFailed"), N, INTEGRATION)
case("transaction: throttled", lambda: canceled("None", "ThrottlingError"), D)
case("transaction: conflict", lambda: canceled("TransactionConflict"), D)
case("transaction without reasons", lambda: aws("TransactionCanceledException"), N, INTEGRATION)
case("event stream throttled", lambda: aws("throttlingException", None, "InvokeModel"), D)
case("event stream validation", lambda: aws("validationException", None), N)
E_URL = {"endpoint_url": "https://sqs.eu-central-1.amazonaws.com"}
case("boto endpoint", lambda: boto.EndpointConnectionError(**E_URL), D)
case("boto read timeout", lambda: boto.ReadTimeoutError(**E_URL), D)
case("boto connect timeout", lambda: boto.ConnectTimeoutError(**E_URL), D)
case("boto closed", lambda: boto.ConnectionClosedError(**E_URL), D)
case("boto http client", lambda: boto.HTTPClientError(error="x"), D)
case("boto streaming", lambda: boto.ResponseStreamingError(error="x"), D)
case("boto tls", lambda: boto.SSLError(endpoint_url="u", error="x"), D)
case("boto proxy", lambda: boto.ProxyConnectionError(proxy_url="u"), D)
case("boto incomplete", lambda: boto.IncompleteReadError(actual_bytes=1, expected_bytes=7), D)
case("boto no credentials", lambda: boto.NoCredentialsError(), C)
case(
    "boto partial credentials",
    lambda: boto.PartialCredentialsError(provider="env", cred_var="secret"),
    C,
)
case("boto no region", lambda: boto.NoRegionError(), C)
case(
    "boto unknown endpoint",
    lambda: boto.UnknownEndpointError(service_name="s3", region_name="x"),
    C,
)
case("boto sso", lambda: boto.UnauthorizedSSOTokenError(), C)
case("boto parameters", lambda: boto.ParamValidationError(report="Missing Key"), N)
case("boto waiter", lambda: boto.WaiterError(name="x", reason="timeout?", last_response={}), N)
B3 = boto3.exceptions
case(
    "boto3 upload, slow",
    lambda: raised(B3.S3UploadFailedError("x"), during=aws("SlowDown", 503)),
    D,
)
case(
    "boto3 upload, denied",
    lambda: raised(B3.S3UploadFailedError("x"), during=aws("AccessDenied", 403)),
    C,
)
case(
    "boto3 upload, missing",
    lambda: raised(B3.S3UploadFailedError("x"), during=aws("NoSuchKey", 404)),
    N,
    INTEGRATION,
)
case(
    "s3transfer retries",
    lambda: s3transfer.exceptions.RetriesExceededError(ConnectionResetError(104, "reset")),
    D,
)

# gRPC and Google.
GRPC = "grpc._channel._InactiveRpcError < grpc.RpcError"


def rpc(code: str, lineage: str = GRPC) -> BaseException:
    return fake(lineage, code=lambda *_: SimpleNamespace(name=code, value=(0, code.lower())))


for code, blame in {
    "UNAVAILABLE": D,
    "DEADLINE_EXCEEDED": D,
    "RESOURCE_EXHAUSTED": D,
    "INTERNAL": D,
    "UNKNOWN": D,
    "DATA_LOSS": D,
    "UNAUTHENTICATED": C,
    "PERMISSION_DENIED": C,
    "UNIMPLEMENTED": C,
    "INVALID_ARGUMENT": N,
    "NOT_FOUND": N,
    "ALREADY_EXISTS": N,
    "FAILED_PRECONDITION": N,
    "OUT_OF_RANGE": N,
    "ABORTED": N,
    "CANCELLED": N,
}.items():
    case(f"grpc {code}", lambda code=code: rpc(code), blame)  # type: ignore[misc]
case("grpc.aio", lambda: rpc("UNAVAILABLE", "grpc.aio._call.AioRpcError < grpc.RpcError"), D)
GAPI = "google.api_core.exceptions."
GCALL = f"{GAPI}GoogleAPICallError < {GAPI}GoogleAPIError"
for kind, code, blame in (
    ("ServiceUnavailable", 503, D),
    ("TooManyRequests", 429, D),
    ("DeadlineExceeded", 504, D),
    ("NotFound", 404, N),
    ("InvalidArgument", 400, N),
    ("Forbidden", 403, C),
    ("Unauthenticated", 401, C),
):  # type: ignore[assignment]
    case(
        f"google {kind}",
        lambda kind=kind, code=code: fake(f"{GAPI}{kind} < {GCALL}", code=code),  # type: ignore[misc]
        blame,
        "" if blame != N else INTEGRATION,
    )
case(
    "google RetryError",
    lambda: fake(f"{GAPI}RetryError < {GAPI}GoogleAPIError", cause=TimeoutError()),
    D,
)
simple(D, "google.auth.exceptions.TransportError < google.auth.exceptions.GoogleAuthError")
simple(C, "google.auth.exceptions.DefaultCredentialsError < google.auth.exceptions.GoogleAuthError")
simple(C, "google.auth.exceptions.RefreshError < google.auth.exceptions.GoogleAuthError")

# Azure, Elasticsearch, Twilio, Kubernetes and others with a status.
AZ = "azure.core.exceptions."
AZ_HTTP = f"{AZ}HttpResponseError < {AZ}AzureError"
STATUS: list[tuple[str, str, dict[str, Any], str]] = [
    ("azure 503", AZ_HTTP, {"status_code": 503}, D),
    ("azure 404", f"{AZ}ResourceNotFoundError < {AZ_HTTP}", {"status_code": 404}, N),
    ("azure 401", f"{AZ}ClientAuthenticationError < {AZ_HTTP}", {"status_code": 401}, C),
    (
        "elastic 429",
        "elasticsearch.ApiError",
        {"meta": SimpleNamespace(status=429), "status_code": 429},
        D,
    ),
    (
        "elastic 409",
        "elasticsearch.ConflictError < elasticsearch.ApiError",
        {"meta": SimpleNamespace(status=409)},
        N,
    ),
    ("opensearch 503", "opensearchpy.exceptions.TransportError", {"status_code": 503}, D),
    ("opensearch 403", "opensearchpy.exceptions.AuthorizationException", {"status_code": 403}, C),
    ("twilio 400", "twilio.base.exceptions.TwilioRestException", {"status": 400, "code": 21211}, N),
    ("twilio 503", "twilio.base.exceptions.TwilioRestException", {"status": 503, "code": 20503}, D),
    ("twilio 401", "twilio.base.exceptions.TwilioRestException", {"status": 401, "code": 20003}, C),
    ("kubernetes 500", "kubernetes.client.exceptions.ApiException", {"status": 500}, D),
    ("openai 429", "openai.RateLimitError < openai.APIStatusError", {"status_code": 429}, D),
    (
        "anthropic 529",
        "anthropic.InternalServerError < anthropic.APIStatusError",
        {"status_code": 529},
        D,
    ),
    (
        "github limit",
        "github.RateLimitExceededException < github.GithubException",
        {"status": 403},
        D,
    ),
    (
        "google client 503",
        "googleapiclient.errors.HttpError",
        {"resp": SimpleNamespace(status="503")},
        D,
    ),
    (
        "zeep transport 502",
        "zeep.exceptions.TransportError < zeep.exceptions.Error",
        {"status_code": 502},
        D,
    ),
    (
        "zeep transport 404",
        "zeep.exceptions.TransportError < zeep.exceptions.Error",
        {"status_code": 404},
        N,
    ),
    (
        "zeep fault of the server",
        "zeep.exceptions.Fault < zeep.exceptions.Error",
        {"code": "soap:Server"},
        D,
    ),
    (
        "zeep fault of the client",
        "zeep.exceptions.Fault < zeep.exceptions.Error",
        {"code": "soap:Client"},
        N,
    ),
    (
        "stripe 402",
        "stripe.error.CardError < stripe.error.StripeError",
        {"http_status": 402, "code": "card_declined"},
        N,
    ),
    (
        "stripe 400",
        "stripe.error.InvalidRequestError < stripe.error.StripeError",
        {"http_status": 400},
        N,
    ),
    (
        "stripe 429",
        "stripe.error.RateLimitError < stripe.error.StripeError",
        {"http_status": 429},
        D,
    ),
    ("stripe 500", "stripe.error.APIError < stripe.error.StripeError", {"http_status": 500}, D),
    (
        "stripe 401",
        "stripe.error.AuthenticationError < stripe.error.StripeError",
        {"http_status": 401},
        C,
    ),
    (
        "stripe 403",
        "stripe.error.PermissionError < stripe.error.StripeError",
        {"http_status": 403},
        C,
    ),
]
for name, lineage, attributes, blame in STATUS:
    statused = blame == N and "fault" not in name
    case(
        name,
        lambda lineage=lineage, attributes=attributes: fake(lineage, "no words", **attributes),  # type: ignore[misc]
        blame,
        INTEGRATION if statused else "",
    )
simple(D, "stripe.error.APIConnectionError < stripe.error.StripeError")
simple(N, "stripe.error.SignatureVerificationError < stripe.error.StripeError")
simple(
    D,
    f"{AZ}ServiceRequestError < {AZ}AzureError",
    f"{AZ}ServiceResponseError < {AZ}AzureError",
    "elastic_transport.ConnectionTimeout < elastic_transport.TransportError",
    "elastic_transport.ConnectionError < elastic_transport.TransportError",
    "openai.APIConnectionError < openai.APIError",
    "openai.APITimeoutError < openai.APIConnectionError",
    "azure.servicebus.exceptions.ServiceBusServerBusyError",
    "azure.servicebus.exceptions.ServiceBusConnectionError",
)
case(
    "opensearch refused",
    lambda: fake("opensearchpy.exceptions.ConnectionError", "N/A", "refused", status_code="N/A"),
    D,
)
simple(C, "azure.servicebus.exceptions.ServiceBusAuthenticationError")

# Databases.
PG = "psycopg.errors."
for kind, base, state, blame in (
    ("ConnectionFailure", "OperationalError", "08006", D),
    ("TooManyConnections", "OperationalError", "53300", D),
    ("DiskFull", "OperationalError", "53100", D),
    ("AdminShutdown", "OperationalError", "57P01", D),
    ("CannotConnectNow", "OperationalError", "57P03", D),
    ("QueryCanceled", "OperationalError", "57014", D),
    ("SerializationFailure", "OperationalError", "40001", D),
    ("DeadlockDetected", "OperationalError", "40P01", D),
    ("ReadOnlySqlTransaction", "InternalError", "25006", D),
    ("InvalidPassword", "OperationalError", "28P01", C),
    ("InvalidAuthorizationSpecification", "OperationalError", "28000", C),
    ("InvalidCatalogName", "OperationalError", "3D000", C),
    ("UniqueViolation", "IntegrityError", "23505", N),
    ("ForeignKeyViolation", "IntegrityError", "23503", N),
    ("NumericValueOutOfRange", "DataError", "22003", N),
    ("InvalidTextRepresentation", "DataError", "22P02", N),
    ("UndefinedTable", "ProgrammingError", "42P01", N),
    ("SyntaxError", "ProgrammingError", "42601", N),
    ("InFailedSqlTransaction", "InternalError", "25P02", N),
    ("RaiseException", "InternalError", "P0001", N),
):
    case(
        f"psycopg {state}",
        lambda kind=kind, base=base, state=state: fake(  # type: ignore[misc]
            f"{PG}{kind} < psycopg.{base} < psycopg.DatabaseError < psycopg.Error",
            "no words",
            sqlstate=state,
        ),
        blame,
    )
P2 = "< psycopg2.DatabaseError < psycopg2.Error"
case("psycopg2 pgcode", lambda: fake(f"psycopg2.OperationalError {P2}", "x", pgcode="57P01"), D)
case("psycopg2 refused", lambda: fake(f"psycopg2.OperationalError {P2}", "refused", pgcode=None), D)
case("psycopg2 unique", lambda: fake(f"psycopg2.IntegrityError {P2}", "x", pgcode="23505"), N)
case("psycopg2 programming", lambda: fake(f"psycopg2.ProgrammingError {P2}", "x", pgcode=None), N)
case(
    "psycopg2 closed",
    lambda: fake("psycopg2.InterfaceError < psycopg2.Error", "connection already closed"),
    D,
)
simple(D, "psycopg_pool.PoolTimeout < psycopg.OperationalError < psycopg.Error")
ASY = "asyncpg.exceptions."
case(
    "asyncpg 08",
    lambda: fake(f"{ASY}ConnectionDoesNotExistError < {ASY}PostgresError", sqlstate="08003"),
    D,
)
case(
    "asyncpg 53300",
    lambda: fake(f"{ASY}TooManyConnectionsError < {ASY}PostgresError", sqlstate="53300"),
    D,
)
case(
    "asyncpg 23505",
    lambda: fake(f"{ASY}UniqueViolationError < {ASY}PostgresError", sqlstate="23505"),
    N,
)
case(
    "asyncpg 28P01",
    lambda: fake(f"{ASY}InvalidPasswordError < {ASY}PostgresError", sqlstate="28P01"),
    C,
)


def mysql(kind: str, number: int, module: str = "pymysql.err") -> BaseException:
    return fake(f"{module}.{kind} < {module}.DatabaseError < {module}.Error", number, "no words")


for kind, number, blame in (
    ("OperationalError", 2003, D),
    ("OperationalError", 2006, D),
    ("OperationalError", 2013, D),
    ("OperationalError", 1040, D),
    ("OperationalError", 1053, D),
    ("OperationalError", 1205, D),
    ("OperationalError", 1213, D),
    ("OperationalError", 1290, D),
    ("OperationalError", 1045, C),
    ("OperationalError", 1044, C),
    ("OperationalError", 1049, C),
    ("OperationalError", 1142, C),
    ("OperationalError", 1054, N),
    ("OperationalError", 1048, N),
    ("IntegrityError", 1062, N),
    ("IntegrityError", 1452, N),
    ("DataError", 1406, N),
    ("ProgrammingError", 1064, N),
    ("ProgrammingError", 1146, N),
):
    case(f"pymysql {number}", lambda kind=kind, number=number: mysql(kind, number), blame)  # type: ignore[misc]
case("MySQLdb 2006", lambda: mysql("OperationalError", 2006, "MySQLdb._exceptions"), D)
MC = "mysql.connector.errors."
case(
    "mysql.connector 2055",
    lambda: fake(
        f"{MC}OperationalError < {MC}DatabaseError < {MC}Error", errno=2055, sqlstate=None
    ),
    D,
)
case(
    "mysql.connector 1062",
    lambda: fake(
        f"{MC}IntegrityError < {MC}DatabaseError < {MC}Error", errno=1062, sqlstate="23000"
    ),
    N,
)
case(
    "mysql.connector 1045",
    lambda: fake(
        f"{MC}ProgrammingError < {MC}DatabaseError < {MC}Error", errno=1045, sqlstate="28000"
    ),
    C,
)
case(
    "pyodbc link failure",
    lambda: fake("pyodbc.OperationalError < pyodbc.DatabaseError < pyodbc.Error", "08S01", "x"),
    D,
)
case(
    "pyodbc timeout",
    lambda: fake("pyodbc.OperationalError < pyodbc.DatabaseError < pyodbc.Error", "HYT00", "x"),
    D,
)
case("pyodbc login", lambda: fake("pyodbc.InterfaceError < pyodbc.Error", "28000", "x"), C)
case(
    "pyodbc constraint",
    lambda: fake("pyodbc.IntegrityError < pyodbc.DatabaseError < pyodbc.Error", "23000", "x"),
    N,
)
case(
    "sqlite locked",
    lambda: fake(
        "sqlite3.OperationalError < sqlite3.DatabaseError < sqlite3.Error", "database is locked"
    ),
    N,
)
case(
    "oracle no listener",
    lambda: fake(
        "oracledb.exceptions.OperationalError < oracledb.exceptions.DatabaseError",
        "ORA-12541: no listener",
    ),
    D,
)
case(
    "oracle unique",
    lambda: fake(
        "oracledb.exceptions.IntegrityError < oracledb.exceptions.DatabaseError",
        "ORA-00001: unique constraint",
    ),
    N,
)
case(
    "oracle login",
    lambda: fake("oracledb.exceptions.DatabaseError", "ORA-01017: invalid username/password"),
    C,
)

SA = "sqlalchemy.exc."
SADB = f"< {SA}DatabaseError < {SA}DBAPIError < {SA}SQLAlchemyError"


def alchemy(kind: str, orig: BaseException, *, invalidated: bool = False) -> BaseException:
    error = fake(f"{SA}{kind} {SADB}", "x", orig=orig, connection_invalidated=invalidated)
    return raised(error, cause=orig)


def pg(kind: str, state: str | None) -> BaseException:
    return fake(f"psycopg.{kind} < psycopg.DatabaseError < psycopg.Error", "x", sqlstate=state)


case("sqlalchemy down", lambda: alchemy("OperationalError", pg("OperationalError", "57P01")), D)
case("sqlalchemy refused", lambda: alchemy("OperationalError", pg("OperationalError", None)), D)
case("sqlalchemy password", lambda: alchemy("OperationalError", pg("OperationalError", "28P01")), C)
case("sqlalchemy unique", lambda: alchemy("IntegrityError", pg("IntegrityError", "23505")), N)
case("sqlalchemy data", lambda: alchemy("DataError", pg("DataError", "22001")), N)
case(
    "sqlalchemy mysql no column",
    lambda: alchemy("OperationalError", mysql("OperationalError", 1054)),
    N,
)
case(
    "sqlalchemy invalidated",
    lambda: alchemy("DBAPIError", pg("DatabaseError", None), invalidated=True),
    D,
)
case(
    "sqlalchemy sqlite",
    lambda: alchemy(
        "OperationalError", fake("sqlite3.OperationalError < sqlite3.Error", "no such table")
    ),
    N,
)
simple(D, f"{SA}TimeoutError < {SA}SQLAlchemyError")
simple(
    N,
    f"{SA}NoResultFound < {SA}InvalidRequestError < {SA}SQLAlchemyError",
    f"{SA}StatementError < {SA}SQLAlchemyError",
)
case(
    "django unique",
    lambda: raised(
        fake("django.db.utils.IntegrityError < django.db.utils.DatabaseError"),
        cause=pg("IntegrityError", "23505"),
    ),
    N,
)
case(
    "django down",
    lambda: raised(
        fake("django.db.utils.OperationalError < django.db.utils.DatabaseError"),
        cause=pg("OperationalError", "08006"),
    ),
    D,
)
case(
    "django password",
    lambda: raised(
        fake("django.db.utils.OperationalError < django.db.utils.DatabaseError"),
        cause=pg("OperationalError", "28P01"),
    ),
    C,
)

RE = "redis.exceptions."
simple(
    D,
    f"{RE}ConnectionError < {RE}RedisError",
    f"{RE}TimeoutError < {RE}RedisError",
    f"{RE}BusyLoadingError < {RE}ConnectionError < {RE}RedisError",
    f"{RE}ReadOnlyError < {RE}ResponseError < {RE}RedisError",
    f"{RE}ClusterDownError < {RE}ResponseError < {RE}RedisError",
    f"{RE}OutOfMemoryError < {RE}ResponseError < {RE}RedisError",
    f"{RE}MasterDownError < {RE}ResponseError < {RE}RedisError",
)
simple(
    C,
    f"{RE}AuthenticationError < {RE}ConnectionError < {RE}RedisError",
    f"{RE}AuthorizationError < {RE}ConnectionError < {RE}RedisError",
    f"{RE}NoPermissionError < {RE}ResponseError < {RE}RedisError",
)
simple(
    N,
    f"{RE}WatchError < {RE}RedisError",
    f"{RE}DataError < {RE}RedisError",
    f"{RE}LockError < {RE}RedisError",
)
case(
    "redis wrong type",
    lambda: fake(f"{RE}ResponseError < {RE}RedisError", "WRONGTYPE Operation against a key"),
    N,
)
case(
    "redis misconfigured",
    lambda: fake(f"{RE}ResponseError < {RE}RedisError", "MISCONF Redis is configured to save RDB"),
    D,
)

MO = "pymongo.errors."
simple(
    D,
    f"{MO}AutoReconnect < {MO}ConnectionFailure < {MO}PyMongoError",
    f"{MO}ServerSelectionTimeoutError < {MO}AutoReconnect < {MO}PyMongoError",
    f"{MO}NetworkTimeout < {MO}AutoReconnect < {MO}PyMongoError",
    f"{MO}NotPrimaryError < {MO}AutoReconnect < {MO}PyMongoError",
    f"{MO}ExecutionTimeout < {MO}OperationFailure < {MO}PyMongoError",
)
simple(C, f"{MO}ConfigurationError < {MO}PyMongoError")
simple(N, f"{MO}DocumentTooLarge < {MO}InvalidDocument < {MO}PyMongoError")
for name, code, blame in (
    ("duplicate", 11000, N),
    ("auth", 18, C),
    ("unauthorized", 13, C),
    ("not primary", 10107, D),
    ("shutdown", 91, D),
    ("validation", 121, N),
    ("bad value", 2, N),
):  # type: ignore[assignment]
    case(
        f"pymongo {name}",
        lambda code=code: fake(f"{MO}OperationFailure < {MO}PyMongoError", "x", code=code),
        blame,
    )  # type: ignore[misc]

# Brokers.
K = "kafka.errors."
simple(
    D,
    f"{K}NoBrokersAvailable < {K}KafkaError < RuntimeError",
    f"{K}KafkaTimeoutError < {K}KafkaError < RuntimeError",
    f"{K}KafkaConnectionError < {K}KafkaError < RuntimeError",
    f"{K}NotLeaderForPartitionError < {K}BrokerResponseError < {K}KafkaError",
    f"{K}RequestTimedOutError < {K}BrokerResponseError < {K}KafkaError",
    f"{K}NodeNotReadyError < {K}KafkaError < RuntimeError",
)
simple(
    C,
    f"{K}TopicAuthorizationFailedError < {K}BrokerResponseError < {K}KafkaError",
    f"{K}AuthenticationFailedError < {K}KafkaError",
)
simple(N, f"{K}MessageSizeTooLargeError < {K}BrokerResponseError < {K}KafkaError")


def confluent(name: str) -> BaseException:
    inner = SimpleNamespace(code=lambda: -195, name=lambda: name, str=lambda: "x")
    return fake("cimpl.KafkaException", inner)


for code, blame in {
    "_TRANSPORT": D,
    "_ALL_BROKERS_DOWN": D,
    "_MSG_TIMED_OUT": D,
    "NOT_ENOUGH_REPLICAS": D,
    "_AUTHENTICATION": C,
    "TOPIC_AUTHORIZATION_FAILED": C,
    "UNKNOWN_TOPIC_OR_PART": C,
    "MSG_SIZE_TOO_LARGE": N,
}.items():
    case(f"confluent {code}", lambda code=code: confluent(code), blame)  # type: ignore[misc]
simple(
    D,
    "kombu.exceptions.OperationalError < kombu.exceptions.KombuError",
    "pika.exceptions.AMQPConnectionError < pika.exceptions.AMQPError",
    "pika.exceptions.StreamLostError < pika.exceptions.AMQPConnectionError",
    "celery.exceptions.OperationalError",
)
simple(
    C,
    "pika.exceptions.ProbableAuthenticationError < pika.exceptions.AMQPConnectionError",
    "pika.exceptions.ProbableAccessDeniedError < pika.exceptions.AMQPConnectionError",
)
simple(
    N,
    "kombu.exceptions.EncodeError < kombu.exceptions.SerializationError",
    "celery.exceptions.Retry",
    "celery.exceptions.MaxRetriesExceededError",
)
case(
    "pika forced",
    lambda: fake(
        "pika.exceptions.ConnectionClosedByBroker < pika.exceptions.AMQPConnectionError",
        reply_code=320,
    ),
    D,
)
case(
    "pika refused",
    lambda: fake(
        "pika.exceptions.ChannelClosedByBroker < pika.exceptions.ChannelClosed", reply_code=403
    ),
    C,
)
case(
    "amqp no queue",
    lambda: fake(
        "amqp.exceptions.NotFound < amqp.exceptions.AMQPError",
        reply_code=404,
        code=404,
    ),
    C,
)

# Mail, files, shells, sockets.
case("smtp 421", lambda: smtplib.SMTPDataError(421, b"try later"), D)
case("smtp 450", lambda: smtplib.SMTPDataError(450, b"busy"), D)
case("smtp 552", lambda: smtplib.SMTPDataError(552, b"mailbox full"), N)
case("smtp 554", lambda: smtplib.SMTPDataError(554, b"spam"), N)
case("smtp 535", lambda: smtplib.SMTPAuthenticationError(535, b"bad credentials"), C)
case("smtp 454", lambda: smtplib.SMTPAuthenticationError(454, b"temporary failure"), D)
case(
    "smtp sender 530", lambda: smtplib.SMTPSenderRefused(530, b"authentication required", "a@b"), C
)
case("smtp recipients 550", lambda: smtplib.SMTPRecipientsRefused({"a@b": (550, b"unknown")}), N)
case("smtp recipients 451", lambda: smtplib.SMTPRecipientsRefused({"a@b": (451, b"try later")}), D)
case("smtp disconnected", lambda: smtplib.SMTPServerDisconnected("closed"), D)
case("smtp connect", lambda: smtplib.SMTPConnectError(554, b"no service"), D)
case(
    "aiosmtplib 450",
    lambda: fake(
        "aiosmtplib.errors.SMTPResponseException < aiosmtplib.errors.SMTPException", code=450
    ),
    D,
)
case(
    "aiosmtplib 550",
    lambda: fake(
        "aiosmtplib.errors.SMTPDataError < aiosmtplib.errors.SMTPResponseException",
        code=550,
    ),
    N,
)
case("ftp 421", lambda: fake("ftplib.error_temp < ftplib.Error", "421 too many connections"), D)
case("ftp 530", lambda: fake("ftplib.error_perm < ftplib.Error", "530 Login incorrect"), C)
case("ftp 550", lambda: fake("ftplib.error_perm < ftplib.Error", "550 no such file"), N)
PK = "paramiko.ssh_exception."
simple(
    C,
    f"{PK}AuthenticationException < {PK}SSHException",
    f"{PK}BadHostKeyException < {PK}SSHException",
)
simple(D, f"{PK}SSHException", f"{PK}NoValidConnectionsError < OSError")
simple(D, "imaplib.abort < imaplib.error")
WS = "websockets.exceptions."
for code, blame in {
    1001: D,
    1006: D,
    1011: D,
    1012: D,
    1013: D,
    1003: N,
    1007: N,
    1009: N,
    4001: N,
}.items():  # type: ignore[assignment]
    case(
        f"websocket {code}",
        lambda code=code: fake(
            f"{WS}ConnectionClosedError < {WS}ConnectionClosed",
            rcvd=SimpleNamespace(code=code),
            code=code,
        ),  # type: ignore[misc]
        blame,
    )
case(
    "websocket closed",
    lambda: fake(
        f"{WS}ConnectionClosedOK < {WS}ConnectionClosed", rcvd=SimpleNamespace(code=1000), code=1000
    ),
    N,
)
case(
    "websocket 503",
    lambda: fake(
        f"{WS}InvalidStatus < {WS}InvalidHandshake", response=SimpleNamespace(status_code=503)
    ),
    D,
)

# Wrapped failures.
LAST = SimpleNamespace(exception=lambda: R.ReadTimeout("x"))
case(
    "tenacity with its cause",
    lambda: raised(fake("tenacity.RetryError", LAST, last_attempt=LAST), cause=R.ReadTimeout("x")),
    D,
)
case("tenacity without a cause", lambda: fake("tenacity.RetryError", last_attempt=LAST), D)
case("tenacity of a bug", lambda: raised(fake("tenacity.RetryError"), cause=KeyError("x")), N)
OWN = "shop.errors.OrderFailed"
case("own, from a timeout", lambda: raised(fake(OWN), cause=R.ReadTimeout("x")), D)
case("own, during a timeout", lambda: raised(fake(OWN), during=R.ReadTimeout("x")), D)
case("own, from none", lambda: from_none(fake(OWN), R.ReadTimeout("x")), N)
case("own, from a bug", lambda: raised(fake(OWN), cause=KeyError("x")), N)
case("own, from a 401", lambda: raised(fake(OWN), cause=requests_status(401)), C)
case("own, from a 404", lambda: raised(fake(OWN), cause=requests_status(404)), N, INTEGRATION)
case("own, with nothing", lambda: fake(OWN, "the card was declined"), N)
case("a bug during a timeout", lambda: raised(KeyError("x"), during=httpx.ReadTimeout("x")), D)
case("a timeout during a bug", lambda: raised(httpx.ReadTimeout("x"), during=KeyError("x")), D)
case(
    "a 404 from a timeout",
    lambda: raised(requests_status(404), cause=TimeoutError()),
    N,
    INTEGRATION,
)
case(
    "a 503 from a duplicate",
    lambda: raised(httpx_status(503), during=pg("IntegrityError", "23505")),
    D,
)
case(
    "twice wrapped",
    lambda: raised(fake(OWN), cause=raised(RuntimeError("x"), during=rpc("UNAVAILABLE"))),
    D,
)
case("a group with a timeout", lambda: ExceptionGroup("g", [KeyError("x"), TimeoutError()]), D)
case("a group of bugs", lambda: ExceptionGroup("g", [KeyError("x"), ValueError("y")]), N)

# The library's own words.
case("Transient", lambda: Transient("busy"), D)
case("Transient 404", lambda: Transient("x", status=404), N)
case("Transient 403", lambda: Transient("x", status=403), C, TRANSIENT)
case("Permanent", lambda: Permanent("no"), N, BUSINESS)
case("Permanent from 503", lambda: raised(Permanent("no"), cause=requests_status(503)), N, BUSINESS)


# Validation: of the message, or of something else.
case("pydantic: the message", lambda: caught(lambda: Order.model_validate_json(BODY)), N, SCHEMA)
case(
    "pydantic: a part",
    lambda: caught(lambda: Order.model_validate({"orderId": "o-17", "count": "many"})),
    N,
    SCHEMA,
)
case(
    "pydantic: an answer", lambda: caught(lambda: Order.model_validate({"error": "overloaded"})), N
)
case("pydantic: an empty answer", lambda: caught(lambda: Order.model_validate({})), N)
case("json: an empty answer", lambda: caught(lambda: json.loads("")), N)
case(
    "jsonschema: the message",
    lambda: fake(
        "jsonschema.exceptions.ValidationError", "x", instance=json.loads(BODY), absolute_path=[]
    ),
    N,
    SCHEMA,
)
case("jsonschema: unknown", lambda: fake("jsonschema.exceptions.ValidationError", "x"), N)
case(
    "marshmallow: an answer",
    lambda: fake(
        "marshmallow.exceptions.ValidationError < ValueError", "x", data={"state": "down"}
    ),
    N,
)

# Local rate limits and breakers: no request was made.
simple(N, "pybreaker.CircuitBreakerError", "circuitbreaker.CircuitBreakerError")
# Unknown classes of teams.
simple(
    N,
    "shop.errors.InsufficientFunds",
    "shop.errors.CardDeclined",
    "shop.errors.OutOfStock",
    "shop.errors.OrderNotFound",
    category="",
)
simple(
    D,
    "shop.errors.PaymentGatewayTimeout",
    "shop.errors.ServiceUnavailable",
    "shop.errors.RateLimitExceeded",
)
simple(C, "shop.errors.AuthenticationFailed", "django.core.exceptions.ImproperlyConfigured")


# What a second reading of the libraries' documentation added.
def tornado(code: int) -> BaseException:
    return fake("tornado.httpclient.HTTPClientError", code=code)


LATER: list[tuple[str, Callable[[], BaseException], str, str]] = [
    ("elastic 7", lambda: fake("elasticsearch.TransportError", 503, "busy"), D, ""),
    ("elastic 7, missing", lambda: fake("elasticsearch.NotFoundError", 404), N, INTEGRATION),
    ("firebase", lambda: fake("firebase_admin.FirebaseError", code="UNAVAILABLE"), D, ""),
    (
        "grpclib",
        lambda: fake("grpclib.GRPCError", status=SimpleNamespace(name="UNAUTHENTICATED")),
        C,
        "",
    ),
    ("gitlab", lambda: fake("gitlab.GitlabHttpError", response_code=502), D, ""),
    ("pynamodb", lambda: fake("pynamodb.PutError", cause=aws("ThrottlingException")), D, ""),
    (
        "azure inner",
        lambda: fake("azure.AzureError", inner_exception=ConnectionResetError()),
        D,
        "",
    ),
    ("tornado 404", lambda: tornado(404), N, INTEGRATION),
    ("tornado 599", lambda: tornado(599), D, ""),
    ("pymssql", lambda: fake("pymssql.OperationalError", (20009, b"x")), D, ""),
    ("pymysql without a number", lambda: fake("pymysql.err.InterfaceError", 0, ""), D, ""),
    ("mysql.connector -1", lambda: fake("mysql.OperationalError", errno=-1), D, ""),
    (
        "redis full",
        lambda: fake("redis.ResponseError < redis.RedisError", "ERR max number of clients reached"),
        D,
        "",
    ),
    (
        "kafka retriable",
        lambda: fake("kafka.OffsetOutOfSync < kafka.KafkaError", retriable=True),
        D,
        "",
    ),
    (
        "a driver's error during a duplicate",
        lambda: raised(pg("OperationalError", None), during=pg("IntegrityError", "23505")),
        D,
        "",
    ),
    (
        "smtp: one recipient later, one never",
        lambda: smtplib.SMTPRecipientsRefused({"a@b": (451, b"later"), "c@d": (550, b"no")}),
        N,
        "",
    ),
    ("ftp 532", lambda: fake("ftplib.error_perm < ftplib.Error", "532 need an account"), C, ""),
    (
        "aws without a status, from a timeout",
        lambda: raised(aws("validationException", None), cause=TimeoutError()),
        N,
        "",
    ),
    ("aws parameter", lambda: aws("ParameterNotFound"), C, ""),
    ("aws key disabled", lambda: aws("DisabledException"), C, ""),
    (
        "pymssql login",
        lambda: fake("pymssql.OperationalError", (18456, b"Login failed for user 'shop'.")),
        C,
        "",
    ),
    (
        "pymysql 1",
        lambda: fake("pymysql.err.OperationalError", 1, "Can't create/write to file"),
        N,
        "",
    ),
    (
        "asyncpg in use",
        lambda: fake("asyncpg.exceptions.InterfaceError", "another operation is in progress"),
        N,
        "",
    ),
    (
        "cx_Oracle no listener",
        lambda: fake("cx_Oracle.DatabaseError", "ORA-12541: TNS:no listener"),
        D,
        "",
    ),
    (
        "oracledb not connected",
        lambda: fake("oracledb.exceptions.InterfaceError", "DPY-1001: not connected to database"),
        D,
        "",
    ),
    (
        "oracledb bind",
        lambda: fake("oracledb.exceptions.DatabaseError", "DPY-4010: a bind variable is missing"),
        N,
        "",
    ),
    ("starlette 1006", lambda: fake("starlette.websockets.WebSocketDisconnect", code=1006), D, ""),
    ("zeep fault without a code", lambda: fake("zeep.exceptions.Fault", "x", code=None), N, ""),
    (
        "openai 500",
        lambda: fake("openai.APIStatusError", status_code=500, code="server_error"),
        D,
        "",
    ),
    ("pycurl timeout", lambda: fake("pycurl.error", 28, "Operation timed out"), D, ""),
    ("pycurl bad url", lambda: fake("pycurl.error", 3, "URL malformed"), N, ""),
    ("pycurl without a number", lambda: fake("pycurl.error", ["x"]), N, ""),
    (
        "aiosmtplib recipients",
        lambda: fake(
            "aiosmtplib.errors.SMTPRecipientsRefused < aiosmtplib.errors.SMTPException",
            recipients=[fake("aiosmtplib.errors.SMTPRecipientRefused", code=550)],
        ),
        N,
        "",
    ),
    (
        "smtp 554 during a timeout",
        lambda: raised(smtplib.SMTPDataError(554, b"spam"), during=TimeoutError()),
        N,
        "",
    ),
    ("retriable, not Kafka's", lambda: fake("shop.OrderHeld", retriable=True), N, ""),
    ("elastic 7 without a status", lambda: fake("elasticsearch.ElasticsearchException"), N, ""),
    ("a missing key 503", lambda: KeyError(503), N, ""),
    (
        "a group: a duplicate and a timeout",
        lambda: ExceptionGroup("g", [pg("IntegrityError", "23505"), TimeoutError()]),
        D,
        "",
    ),
    (
        "a group: a timeout behind a duplicate",
        lambda: ExceptionGroup("g", [raised(pg("IntegrityError", "23505"), cause=TimeoutError())]),
        N,
        "",
    ),
]
for name, build, blame, category in LATER:
    case(name, build, blame, category)
simple(
    D,
    "sqlalchemy.exc.DisconnectionError",
    "hvac.exceptions.VaultDown",
    "kazoo.exceptions.ConnectionLoss",
    "pysftp.exceptions.ConnectionException",
    "anyio.BrokenResourceError",
    "stripe.APIError",
    "zeep.exceptions.TransportError",
    "dns.resolver.NXDOMAIN",
    "cassandra.OverloadedErrorMessage",
)
simple(C, "azure.identity.CredentialUnavailableError", "hvac.exceptions.Forbidden")
simple(N, "tarfile.ReadError", "cryptography.fernet.InvalidToken", "shop.ProductUnavailable")

# The server's answer to a login is text alone in libpq, and fields by letters in pg8000.
REFUSED_LOGIN = 'connection to server at "db" (10.0.0.1), port 5432 failed: FATAL:  '
for said, blame in (
    ('password authentication failed for user "app"', C),
    ('no pg_hba.conf entry for host "10.0.0.2", user "app", database "shop"', C),
    ('role "app" does not exist', C),
    ('database "shop" does not exist', C),
    ("the database system is starting up", D),
):  # type: ignore[assignment]
    case(
        f"psycopg2 login: {said[:16]}",
        lambda said=said: fake(  # type: ignore[misc]
            f"psycopg2.OperationalError {P2}", REFUSED_LOGIN + said, pgcode=None
        ),
        blame,
    )
case(
    "a missing database in words of a statement",
    lambda: fake("shop.errors.OrderError", 'database "shop" does not exist'),
    N,
)
for state, blame in (("28P01", C), ("3D000", C), ("57P03", D), ("08006", D), ("23505", N)):  # type: ignore[assignment]
    case(
        f"pg8000 {state}",
        lambda state=state: fake(  # type: ignore[misc]
            "pg8000.exceptions.DatabaseError < pg8000.exceptions.Error",
            {"S": "FATAL", "V": "FATAL", "C": state, "M": "said by the server"},
        ),
        blame,
    )
for operation, blame, category in (("Publish", C, ""), ("AdminGetUser", N, INTEGRATION)):
    case(
        f"aws NotFound of {operation}",
        lambda operation=operation: boto.ClientError(  # type: ignore[misc]
            {"Error": {"Code": "NotFound"}, "ResponseMetadata": {"HTTPStatusCode": 404}}, operation
        ),
        blame,
        category,
    )


# Answers with status 200, whose error is a word: Slack's API, and OAuth.
for word, blame in (
    ("ratelimited", D),
    ("internal_error", D),
    ("service_unavailable", D),
    ("invalid_auth", C),
    ("token_expired", C),
    ("missing_scope", C),
    ("channel_not_found", N),
):
    case(
        f"slack {word}",
        lambda word=word: fake(  # type: ignore[misc]
            "slack_sdk.errors.SlackApiError < slack_sdk.errors.SlackClientError",
            f"The request to the Slack API failed. The server responded with: {word}",
            response={"ok": False, "error": word},
        ),
        blame,
        TRANSIENT if blame == D else INTEGRATION,
    )
for word, blame in (("temporarily_unavailable", D), ("invalid_client", C), ("invalid_scope", C)):
    case(
        f"oauth {word}",
        lambda word=word: fake("oauthlib.oauth2.rfc6749.errors.OAuth2Error", word, error=word),  # type: ignore[misc]
        blame,
    )
