"""Failures of handlers, each with what it says of the dependency, by its library's documentation.

Written before the judgement was: a case states what the library says that its exception means.
Those that are one class, and what an instance carries, are rows of blame_cases.txt. Those at the
end, here and there, name the page or the file that says it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import decimal
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
from functools import partial
from pathlib import Path
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

BODY = '{"orderId": "o-17", "count": "many", "meta": {}, "due": "2026-01-31"}'
"""The message that the handler was given in every case."""


class Case(NamedTuple):
    """One failure: its name, how it is built, and what it must be judged as.

    `source` is the page or the file of the library that says so, if the case names it.
    """

    name: str
    build: Callable[[], BaseException]
    blame: str
    category: str
    source: str = ""


CASES: list[Case] = []


def case(
    name: str,
    build: Callable[[], BaseException],
    blame: str,
    category: str = "",
    source: str = "",
) -> None:
    category = category or (INTEGRATION if blame == C else TRANSIENT)
    CASES.append(Case(name, build, blame, category, source))


TABLE = Path(__file__).with_suffix(".txt")
"""`blame, and category if it is another | name | class < bases | arguments`.

`.Name` lies in the module of the class before it. Without a name, it is the class's; without
arguments, they are "no words", and `-` are none. `aws` is botocore's own error, `an(...)` an
object with these attributes, and a line in brackets names the source of the rows below it.
"""


def of_table() -> None:
    """The cases of the table."""
    source = ""
    for row in TABLE.read_text().splitlines():
        if row.startswith("["):
            source = row.strip("[]")
        elif row and not row.startswith("#"):
            said, *rest = row.split(" | ", 3)
            blame, _, category = said.partition(" ")
            arguments = rest.pop() if len(rest) == 3 else '"no words"'
            name = rest[0] if len(rest) == 2 else rest[0].partition(" ")[0]
            build = partial(of_row, rest[-1], arguments)
            case(name, build, {"D": D, "N": N, "C": C}[blame], category, source)


def of_row(lineage: str, arguments: str) -> BaseException:
    """The error of a row."""
    names: list[str] = []
    for name in lineage.split(" < "):
        module = names[-1].rpartition(".")[0] if name.startswith(".") else ""
        names.append(module + name)
    make = aws if lineage == "aws" else partial(fake, " < ".join(names))
    call = "make()" if arguments == "-" else f"make({arguments})"
    error = eval(call, {"make": make, "an": SimpleNamespace})  # noqa: S307 - our own table
    assert isinstance(error, BaseException)
    return error


of_table()


class Order(pydantic.BaseModel):
    """A model of a message or of an answer."""

    order_id: str = pydantic.Field(alias="orderId")
    count: int


# Programming and data errors of Python: the code or the data, never the dependency.
for builtin in (
    UnicodeEncodeError("ascii", "ü", 0, 1, "ordinal not in range"),
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

case("asyncio timeout", lambda: raised(TimeoutError(), cause=asyncio.CancelledError()), D)
case("incomplete stream", lambda: asyncio.IncompleteReadError(b"x", 10), D)

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
case(
    "google RetryError",
    lambda: fake(f"{GAPI}RetryError < {GAPI}GoogleAPIError", cause=TimeoutError()),
    D,
)


P2 = "< psycopg2.DatabaseError < psycopg2.Error"


def mysql(kind: str, number: int, module: str = "pymysql.err") -> BaseException:
    return fake(f"{module}.{kind} < {module}.DatabaseError < {module}.Error", number, "no words")


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


MO = "pymongo.errors."


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


LATER: list[tuple[str, Callable[[], BaseException], str, str]] = [
    ("pynamodb", lambda: fake("pynamodb.PutError", cause=aws("ThrottlingException")), D, ""),
    (
        "azure inner",
        lambda: fake("azure.AzureError", inner_exception=ConnectionResetError()),
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
    (
        "aws without a status, from a timeout",
        lambda: raised(aws("validationException", None), cause=TimeoutError()),
        N,
        "",
    ),
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


# With the page or the file of the library's documentation: what each failure looks like in Python.
Row = (
    tuple[str, Callable[[], BaseException], str] | tuple[str, Callable[[], BaseException], str, str]
)


def documented(source: str, *rows: Row) -> None:
    """Cases that one page or file of a library describes."""
    for name, build, blame, *category in rows:
        case(name, build, blame, category[0] if category else "", source)


# Google: a 403 whose body says that there were too many requests.
def google_client(status: int, reason: str, *, old: bool = False) -> BaseException:
    detail = {"domain": "usageLimits", "reason": reason, "message": "no words"}
    body = {"error": {"errors": [detail], "code": status, "message": "no words"}}
    more = {} if old else {"error_details": [detail], "status_code": status, "reason": "no words"}
    return fake(
        "googleapiclient.errors.HttpError < googleapiclient.errors.Error",
        SimpleNamespace(status=str(status) if old else status),
        json.dumps(body).encode(),
        resp=SimpleNamespace(status=str(status) if old else status),
        content=json.dumps(body).encode(),
        **more,
    )


def google_call(kind: str, code: int, reason: str) -> BaseException:
    return fake(
        f"{GAPI}{kind} < {GAPI}ClientError < {GCALL}",
        f"GET https://bigquery.googleapis.com/bigquery/v2/projects/shop/jobs: {reason}",
        code=code,
        errors=[{"reason": reason, "domain": "usageLimits", "message": "no words"}],
        error_details=[],
        grpc_status_code=None,
        response=SimpleNamespace(status_code=code),
    )


documented(
    "developers.google.com/gmail/api/guides/handle-errors",
    ("gmail 403 rateLimitExceeded", lambda: google_client(403, "rateLimitExceeded"), D),
    ("gmail 403 userRateLimitExceeded", lambda: google_client(403, "userRateLimitExceeded"), D),
    ("gmail 403 dailyLimitExceeded", lambda: google_client(403, "dailyLimitExceeded"), D),
    ("gmail 403 domainPolicy", lambda: google_client(403, "domainPolicy"), C),
    ("gmail 401 authError", lambda: google_client(401, "authError"), C),
    ("gmail 400 badRequest", lambda: google_client(400, "badRequest"), N, INTEGRATION),
    ("gmail 429 rateLimitExceeded", lambda: google_client(429, "rateLimitExceeded"), D),
    ("gmail 500 backendError", lambda: google_client(500, "backendError"), D),
)
documented(
    "google-api-python-client googleapiclient/http.py _should_retry_response",
    ("googleapiclient 1 403", lambda: google_client(403, "rateLimitExceeded", old=True), D),
    (
        "googleapiclient 1 403 of a user",
        lambda: google_client(403, "userRateLimitExceeded", old=True),
        D,
    ),
    ("googleapiclient 1 forbidden", lambda: google_client(403, "forbidden", old=True), C),
)
documented(
    "developers.google.com/drive/api/guides/handle-errors",
    ("drive 403 sharing", lambda: google_client(403, "sharingRateLimitExceeded"), D),
    ("drive 403 storage", lambda: google_client(403, "storageQuotaExceeded"), C),
    ("drive 403 app", lambda: google_client(403, "appNotAuthorizedToFile"), C),
    ("drive 404", lambda: google_client(404, "notFound"), N, INTEGRATION),
)
documented(
    "developers.google.com/youtube/v3/docs/errors",
    ("youtube 403 quotaExceeded", lambda: google_client(403, "quotaExceeded"), D),
    ("youtube 403 forbidden", lambda: google_client(403, "forbidden"), C),
)
documented(
    "cloud.google.com/bigquery/docs/error-messages",
    ("bigquery rateLimitExceeded", lambda: google_call("Forbidden", 403, "rateLimitExceeded"), D),
    ("bigquery quotaExceeded", lambda: google_call("Forbidden", 403, "quotaExceeded"), D),
    ("bigquery accessDenied", lambda: google_call("Forbidden", 403, "accessDenied"), C),
    ("bigquery billing", lambda: google_call("Forbidden", 403, "billingNotEnabled"), C),
    ("bigquery invalid", lambda: google_call("BadRequest", 400, "invalidQuery"), N, INTEGRATION),
)


def genai(kind: str, code: int, status: str) -> BaseException:
    body = {"error": {"code": code, "message": "no words", "status": status}}
    return fake(
        f"google.genai.errors.{kind} < google.genai.errors.APIError",
        f"{code} {status}. {body}",
        code=code,
        status=status,
        details=body,
        response=SimpleNamespace(status_code=200),
    )


documented(
    "python-genai google/genai/errors.py",
    ("genai 429", lambda: genai("ClientError", 429, "RESOURCE_EXHAUSTED"), D),
    ("genai 503 in a stream", lambda: genai("ServerError", 503, "UNAVAILABLE"), D),
    ("genai 403", lambda: genai("ClientError", 403, "PERMISSION_DENIED"), C),
    ("genai 400", lambda: genai("ClientError", 400, "INVALID_ARGUMENT"), N, INTEGRATION),
)


# Models that speak in streams: the status is 200, and the error comes in the midst of the answer.
def anthropic(kind: str, status: int = 200, *, old: bool = False) -> BaseException:
    body = {"type": "error", "error": {"details": None, "type": kind, "message": "no words"}}
    more = {} if old else {"type": kind}
    return fake(
        "anthropic.APIStatusError < anthropic.APIError < anthropic.AnthropicError",
        str(body),
        status_code=status,
        body=body,
        message=str(body),
        response=SimpleNamespace(status_code=status, headers={}),
        **more,
    )


documented(
    "platform.claude.com/docs/en/api/errors, anthropic-sdk-python src/anthropic/_streaming.py",
    ("claude stream overloaded", lambda: anthropic("overloaded_error"), D),
    ("claude stream overloaded, old", lambda: anthropic("overloaded_error", old=True), D),
    ("claude stream internal", lambda: anthropic("api_error"), D),
    ("claude stream limit", lambda: anthropic("rate_limit_error"), D),
    ("claude stream limit, old", lambda: anthropic("rate_limit_error", old=True), D),
    ("claude stream timeout", lambda: anthropic("timeout_error"), D),
    ("claude stream invalid", lambda: anthropic("invalid_request_error"), N, INTEGRATION),
    ("claude stream too large", lambda: anthropic("request_too_large"), N, INTEGRATION),
    ("claude stream not found", lambda: anthropic("not_found_error"), N, INTEGRATION),
    ("claude stream key", lambda: anthropic("authentication_error"), C),
    ("claude stream permission", lambda: anthropic("permission_error"), C),
    ("claude 529", lambda: anthropic("overloaded_error", 529), D),
    ("claude 402", lambda: anthropic("billing_error", 402), C),
    ("claude 400", lambda: anthropic("invalid_request_error", 400), N, INTEGRATION),
)


def openai(lineage: str, kind: str | None, code: str | None, **more: Any) -> BaseException:
    body = {"message": "no words", "type": kind, "param": None, "code": code}
    return fake(lineage, "no words", body=body, type=kind, code=code, param=None, **more)


STREAMED = "openai.APIError < openai.OpenAIError"
OPENAI_429 = "openai.RateLimitError < openai.APIStatusError < openai.APIError"
documented(
    "platform.openai.com/docs/guides/error-codes, openai-python src/openai/_streaming.py",
    ("openai stream server", lambda: openai(STREAMED, "server_error", None), D),
    ("openai stream code", lambda: openai(STREAMED, None, "server_error"), D),
    ("openai stream overloaded", lambda: openai(STREAMED, "service_unavailable", None), D),
    ("openai stream limit", lambda: openai(STREAMED, "tokens", "rate_limit_exceeded"), D),
    (
        "openai stream invalid",
        lambda: openai(STREAMED, "invalid_request_error", "invalid_prompt"),
        N,
        INTEGRATION,
    ),
    (
        "openai stream too long",
        lambda: openai(STREAMED, "invalid_request_error", "context_length_exceeded"),
        N,
        INTEGRATION,
    ),
    (
        "openai limit",
        lambda: openai(OPENAI_429, "requests", "rate_limit_exceeded", status_code=429),
        D,
    ),
    (
        "openai no credit",
        lambda: openai(OPENAI_429, "insufficient_quota", "insufficient_quota", status_code=429),
        C,
    ),
    (
        "openai 400 too long",
        lambda: openai(
            "openai.BadRequestError < openai.APIStatusError < openai.APIError",
            "invalid_request_error",
            "context_length_exceeded",
            status_code=400,
        ),
        N,
        INTEGRATION,
    ),
)


def streamed(code: str) -> BaseException:
    answer: Any = {"Error": {"Code": code, "Message": "no words"}, "ResponseMetadata": {}}
    return boto.EventStreamError(answer, "InvokeModelWithResponseStream")


documented(
    "docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ResponseStream.html",
    ("bedrock stream", lambda: streamed("modelStreamErrorException"), D),
    ("bedrock stream throttled", lambda: streamed("throttlingException"), D),
    ("bedrock stream internal", lambda: streamed("internalServerException"), D),
    ("bedrock stream unavailable", lambda: streamed("serviceUnavailableException"), D),
    ("bedrock stream timeout", lambda: streamed("modelTimeoutException"), D),
    ("bedrock stream invalid", lambda: streamed("validationException"), N),
)
documented(
    "docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html",
    ("sagemaker stream", lambda: streamed("InternalStreamFailure"), D),
)


# boto3 keeps the error of S3 as a text only, where nothing links it to the first one.
def upload_failed(code: str, message: str) -> BaseException:
    text = f"An error occurred ({code}) when calling the PutObject operation: {message}"
    return boto3.exceptions.S3UploadFailedError(
        f"Failed to upload /tmp/in (1).csv to shop-orders/in/o-17.csv: {text}"
    )


documented(
    "boto3 boto3/s3/transfer.py S3Transfer.upload_file",
    (
        "boto3 upload, slow, text",
        lambda: upload_failed("SlowDown", "Please reduce your request rate."),
        D,
    ),
    (
        "boto3 upload, retries, text",
        lambda: upload_failed("InternalError", "We encountered an internal error."),
        D,
    ),
    ("boto3 upload, denied, text", lambda: upload_failed("AccessDenied", "Access Denied"), C),
    ("boto3 upload, no bucket, text", lambda: upload_failed("NoSuchBucket", "It is missing"), C),
    (
        "a file named like an error",
        lambda: boto3.exceptions.S3UploadFailedError(
            "Failed to upload An error occurred (SlowDown) when calling the PutObject operation: "
            "to shop/x: An error occurred (AccessDenied) when calling the PutObject operation: no"
        ),
        C,
    ),
)


# OpenSearch and Elasticsearch.
def opensearch(
    kind: str, status: Any, error: str, info: Any, library: str = "opensearchpy"
) -> BaseException:
    base = f"{library}.exceptions."
    lineage = f"{base}TransportError < {base}OpenSearchException"
    if kind in ("ConnectionTimeout", "SSLError"):
        lineage = f"{base}ConnectionError < {lineage}"
    if kind != "TransportError":
        lineage = f"{base}{kind} < {lineage}"
    return fake(lineage, status, error, info, status_code=status, error=error, info=info)


REFUSED_BY_HOST: Any = u3.NewConnectionError(U, "Failed to establish a new connection: refused")
REJECTED = {"error": {"root_cause": [{"type": "rejected_execution_exception", "reason": "full"}]}}
documented(
    "opensearch-py opensearchpy/exceptions.py, connection/http_urllib3.py",
    (
        "opensearch ConnectionError",
        lambda: opensearch("ConnectionError", "N/A", str(REFUSED_BY_HOST), REFUSED_BY_HOST),
        D,
    ),
    (
        "opensearch ConnectionError of a word",
        lambda: opensearch("ConnectionError", "N/A", "closed", OSError("closed")),
        D,
    ),
    (
        "opensearch ConnectionTimeout",
        lambda: opensearch("ConnectionTimeout", "TIMEOUT", "timed out", TimeoutError("timed out")),
        D,
    ),
    ("opensearch SSLError", lambda: opensearch("SSLError", "N/A", "bad", ssl.SSLError(1, "x")), D),
    (
        "opensearch 429",
        lambda: opensearch("TransportError", 429, "rejected_execution_exception", REJECTED),
        D,
    ),
    (
        "opensearch 400",
        lambda: opensearch("RequestError", 400, "mapper_parsing_exception", {}),
        N,
        INTEGRATION,
    ),
    (
        "opensearch 409",
        lambda: opensearch("ConflictError", 409, "version_conflict_engine_exception", {}),
        N,
        INTEGRATION,
    ),
    (
        "elasticsearch 7 429",
        lambda: opensearch(
            "TransportError", 429, "es_rejected_execution_exception", REJECTED, "elasticsearch"
        ),
        D,
    ),
    (
        "elasticsearch 7 ConnectionError",
        lambda: opensearch(
            "ConnectionError", "N/A", str(REFUSED_BY_HOST), REFUSED_BY_HOST, "elasticsearch"
        ),
        D,
    ),
)


def bulk(*items: tuple[Any, Any], library: str = "elasticsearch") -> BaseException:
    """The error of a bulk, by the status and the error of each of its items."""
    errors: list[Any] = [
        {"index": {"_index": "orders", "_id": f"o-{number}", "status": status, "error": error}}
        for number, (status, error) in enumerate(items)
    ]
    for entry, (_, error) in zip(errors, items, strict=True):
        if isinstance(error, BaseException):
            entry["index"] |= {"error": str(error), "exception": error}
    text = f"{len(items)} document(s) failed to index."
    return fake(f"{library}.helpers.errors.BulkIndexError", text, errors, errors=errors)


REJECTED_ITEM = (429, {"type": "es_rejected_execution_exception", "reason": "queue is full"})
UNMAPPED_ITEM = (400, {"type": "mapper_parsing_exception", "reason": "failed to parse"})
documented(
    "elasticsearch-py elasticsearch/helpers/actions.py, errors.py",
    ("bulk 429", lambda: bulk(REJECTED_ITEM), D),
    ("bulk 429 of opensearch", lambda: bulk(REJECTED_ITEM, library="opensearchpy"), D),
    ("bulk 400 and 429", lambda: bulk(UNMAPPED_ITEM, REJECTED_ITEM), D),
    (
        "bulk 503",
        lambda: bulk((503, {"type": "unavailable_shards_exception", "reason": "not active"})),
        D,
    ),
    (
        "bulk lost",
        lambda: bulk(("N/A", opensearch("ConnectionError", "N/A", "refused", REFUSED_BY_HOST))),
        D,
    ),
    ("bulk 400", lambda: bulk(UNMAPPED_ITEM, UNMAPPED_ITEM), N, INTEGRATION),
    (
        "bulk 409",
        lambda: bulk((409, {"type": "version_conflict_engine_exception", "reason": "exists"})),
        N,
        INTEGRATION,
    ),
    ("bulk 403", lambda: bulk((403, {"type": "cluster_block_exception", "reason": "blocked"})), C),
)


# MongoDB.
def mongo(*write: int, concern: tuple[int, ...] = ()) -> BaseException:
    details = {
        "writeErrors": [{"index": 0, "code": code, "errmsg": "no words"} for code in write],
        "writeConcernErrors": [{"code": code, "errmsg": "no words"} for code in concern],
    }
    return fake(
        f"{MO}BulkWriteError < {MO}OperationFailure < {MO}PyMongoError",
        f"batch op errors occurred, full error: {details}",
        code=65,
        details=details,
    )


documented(
    "pymongo.readthedocs.io/en/stable/api/pymongo/errors.html, mongodb.com/docs/manual/reference/"
    "error-codes",
    ("mongo bulk duplicate", lambda: mongo(11000), N),
    ("mongo bulk conflict", lambda: mongo(112), D),
    ("mongo bulk duplicate and conflict", lambda: mongo(11000, 112), D),
    ("mongo bulk shutdown", lambda: mongo(concern=(91,)), D),
    ("mongo bulk wtimeout", lambda: mongo(concern=(64,)), D),
    ("mongo bulk unauthorized", lambda: mongo(13), C),
    ("mongo bulk invalid", lambda: mongo(121), N),
    (
        "mongo encrypted, lost",
        lambda: fake(
            f"{MO}EncryptionError < {MO}PyMongoError",
            "x",
            cause=fake(f"{MO}AutoReconnect < {MO}ConnectionFailure < {MO}PyMongoError", "closed"),
        ),
        D,
    ),
)

# Snowflake: its driver has one number and one SQLSTATE for all failed logins.
SF = "snowflake.connector.errors."


def snowflake(kind: str, number: int, state: str | None, text: str) -> BaseException:
    lineage = f"{SF}{kind} < {SF}DatabaseError < {SF}Error"
    lineage = f"{SF}{kind} < {SF}Error" if kind in ("DatabaseError", "ForbiddenError") else lineage
    shown = f"{number:06d} ({state}): {text}" if state else f"{number:06d}: {number}: {text}"
    return fake(lineage, shown, errno=number, sqlstate=state or "n/a", msg=shown, sfqid=None)


def not_connected(text: str, kind: str = "DatabaseError", sep: str = ": ") -> BaseException:
    where = f"Failed to connect to DB{sep}shop.snowflakecomputing.com:443. "
    return snowflake(kind, 250001, "08001", where + text)


documented(
    "snowflake-connector-python src/snowflake/connector/auth/_auth.py",
    (
        "snowflake password",
        lambda: not_connected("Incorrect username or password was specified."),
        C,
    ),
    (
        "snowflake locked user",
        lambda: not_connected(
            "Your user account has been temporarily locked due to too many "
            "failed attempts. Try again after 15 minutes or contact your account administrator."
        ),
        C,
    ),
    ("snowflake JWT", lambda: not_connected("JWT token is invalid. [0ce9eb56-821d]"), C),
    (
        "snowflake role",
        lambda: not_connected(
            "Role 'LOADER' specified in the connect string does not exist or not authorized."
        ),
        C,
    ),
    (
        "snowflake network policy",
        lambda: not_connected(
            "Incoming request with IP/Token 10.0.0.1 is not allowed to access Snowflake."
        ),
        C,
    ),
    (
        "snowflake account",
        lambda: not_connected(
            "HTTP 403: Forbidden",
            "ForbiddenError",
            ". Verify the account name is correct: ",
        ),
        C,
    ),
    (
        "snowflake unavailable",
        lambda: not_connected(
            "HTTP 503: Service Unavailable",
            "OperationalError",
            ". Service is unavailable: ",
        ),
        D,
    ),
    (
        "snowflake backend",
        lambda: snowflake(
            "OperationalError",
            250001,
            None,
            "Could not connect to Snowflake backend after 2 attempt(s).Aborting",
        ),
        D,
    ),
    (
        "snowflake token expired",
        lambda: snowflake("ProgrammingError", 390114, "08001", "Authentication token has expired."),
        C,
    ),
    (
        "snowflake wrong password, own number",
        lambda: snowflake("DatabaseError", 390100, "08004", "Incorrect username or password."),
        C,
    ),
)
documented(
    "docs.snowflake.com/en/user-guide/python-connector-api, errorcode.py",
    (
        "snowflake closed",
        lambda: snowflake("DatabaseError", 250002, "08003", "Connection is closed"),
        D,
    ),
    (
        "snowflake warehouse missing",
        lambda: snowflake(
            "ProgrammingError",
            606,
            "57P03",
            "No active warehouse selected in the current session.",
        ),
        C,
    ),
    (
        "snowflake statement timeout",
        lambda: snowflake(
            "ProgrammingError", 630, "57014", "Statement reached its statement or warehouse timeout"
        ),
        D,
    ),
    (
        "snowflake compilation",
        lambda: snowflake(
            "ProgrammingError", 904, "42000", "SQL compilation error: invalid identifier 'TOTL'"
        ),
        N,
    ),
    (
        "snowflake table",
        lambda: snowflake(
            "ProgrammingError", 2003, "02000", "Object 'ORDERS' does not exist or not authorized."
        ),
        N,
    ),
    (
        "snowflake privileges",
        lambda: snowflake("ProgrammingError", 3001, "42501", "Insufficient privileges to operate"),
        C,
    ),
    (
        "snowflake number",
        lambda: snowflake(
            "ProgrammingError", 100038, "22018", "Numeric value 'x' is not recognized"
        ),
        N,
    ),
    (
        "sqlalchemy snowflake password",
        lambda: alchemy(
            "DatabaseError", not_connected("Incorrect username or password was specified.")
        ),
        C,
    ),
)

# PostgreSQL: what libpq says of a refused login is text alone.
for said, blame in (
    ('role "app" is not permitted to log in', C),
    ('permission denied for database "shop"', C),
    ('pg_hba.conf rejects connection for host "10.0.0.2", user "app", database "shop"', C),
    ("remaining connection slots are reserved for roles with the SUPERUSER attribute", D),
    ('too many connections for role "app"', D),
    ("sorry, too many clients already", D),
):  # type: ignore[assignment]
    documented(
        "postgresql.org/docs/current/client-authentication-problems.html, backend/utils/init",
        (
            f"libpq: {said[:24]}",
            lambda said=said: fake(  # type: ignore[misc]
                "psycopg.OperationalError < psycopg.DatabaseError < psycopg.Error",
                f"connection failed: {REFUSED_LOGIN}{said}",
                sqlstate=None,
            ),
            blame,
        ),
    )
documented(
    "postgresql.org/docs/current/libpq-connect.html",
    (
        "libpq: no password",
        lambda: fake(
            f"psycopg2.OperationalError {P2}",
            'connection to server at "db" (10.0.0.1), port 5432 failed: fe_sendauth: no password '
            "supplied\n",
            pgcode=None,
        ),
        C,
    ),
)


def peewee(kind: str, cause: BaseException) -> BaseException:
    error = fake(
        f"peewee.{kind} < peewee.DatabaseError < peewee.PeeweeException", cause, *cause.args
    )
    return raised(error, during=cause)


documented(
    "peewee peewee.py ExceptionWrapper, tortoise-orm tortoise/backends/base/client.py",
    ("peewee lock", lambda: peewee("OperationalError", mysql("OperationalError", 1205)), D),
    ("peewee password", lambda: peewee("OperationalError", mysql("OperationalError", 1045)), C),
    ("peewee column", lambda: peewee("OperationalError", mysql("OperationalError", 1054)), N),
    ("peewee duplicate", lambda: peewee("IntegrityError", mysql("IntegrityError", 1062)), N),
    (
        "tortoise column",
        lambda: raised(
            fake(
                "tortoise.exceptions.OperationalError < tortoise.exceptions.BaseORMException",
                pg("ProgrammingError", "42703"),
            ),
            cause=pg("ProgrammingError", "42703"),
        ),
        N,
    ),
)


def clickhouse_http(status: int, number: int) -> BaseException:
    return fake(
        "clickhouse_connect.driver.exceptions.DatabaseError < "
        "clickhouse_connect.driver.exceptions.Error",
        f"HTTPDriver for https://ch:8443 returned response code {status})\n Code: {number}. "
        "DB::Exception: no words. (version 24.8)",
    )


documented(
    "clickhouse-driver clickhouse_driver/errors.py, ClickHouse src/Common/ErrorCodes.cpp",
    ("clickhouse_connect 241", lambda: clickhouse_http(500, 241), D),
    ("clickhouse_connect 516", lambda: clickhouse_http(516, 516), C),
    ("clickhouse_connect 62", lambda: clickhouse_http(400, 62), N),
)

# Cassandra and Neo4j.
CA = "cassandra."


def no_host(error: BaseException) -> BaseException:
    errors = {"10.0.0.1": error, "10.0.0.2": error}
    return fake(f"{CA}cluster.NoHostAvailable", "Unable to connect", errors, errors=errors)


documented(
    "docs.datastax.com/en/developer/python-driver/latest/api/cassandra/cluster",
    ("cassandra no host", lambda: no_host(ConnectionRefusedError(111, "refused")), D),
    ("cassandra no host, login", lambda: no_host(fake(f"{CA}AuthenticationFailed", "bad")), C),
)

documented(
    "docs.python.org/3/library/smtplib.html, RFC 4954, RFC 5321",
    ("smtp 452", lambda: smtplib.SMTPDataError(452, b"4.2.2 mailbox full"), D),
    ("smtp 534", lambda: smtplib.SMTPAuthenticationError(534, b"5.7.9 app password"), C),
    ("smtp 552 of a sender", lambda: smtplib.SMTPSenderRefused(552, b"too big", "a@b"), N),
)
documented(
    "s3fs s3fs/errors.py translate_boto_error",
    (
        "s3fs denied",
        lambda: raised(PermissionError("Access Denied"), cause=aws("AccessDenied", 403)),
        C,
    ),
    (
        "s3fs slow",
        lambda: raised(OSError(errno.EBUSY, "Please reduce"), cause=aws("SlowDown", 503)),
        D,
    ),
)

# Web services whose limits are no 429.
SALES = "simple_salesforce.exceptions."


def salesforce(kind: str, status: int, code: str) -> BaseException:
    content = [{"message": "no words", "errorCode": code}]
    return fake(
        f"{SALES}{kind} < {SALES}SalesforceError",
        "https://shop.my.salesforce.com/services/data/v59.0/sobjects/Order/",
        status,
        "Order",
        content,
        status=status,
        content=content,
    )


documented(
    "developer.salesforce.com/docs/atlas.en-us.api_rest.meta/api_rest/errorcodes.htm",
    (
        "salesforce limit",
        lambda: salesforce("SalesforceRefusedRequest", 403, "REQUEST_LIMIT_EXCEEDED"),
        D,
    ),
    (
        "salesforce lock",
        lambda: salesforce("SalesforceMalformedRequest", 400, "UNABLE_TO_LOCK_ROW"),
        D,
    ),
    (
        "salesforce session",
        lambda: salesforce("SalesforceExpiredSession", 401, "INVALID_SESSION_ID"),
        C,
    ),
    (
        "salesforce access",
        lambda: salesforce("SalesforceRefusedRequest", 403, "API_DISABLED_FOR_ORG"),
        C,
    ),
    (
        "salesforce field",
        lambda: salesforce("SalesforceMalformedRequest", 400, "INVALID_FIELD"),
        N,
        INTEGRATION,
    ),
    ("salesforce down", lambda: salesforce("SalesforceGeneralError", 503, "SERVER_UNAVAILABLE"), D),
)


def refused_by_headers(status: int, **headers: str) -> BaseException:
    response = answered(status)
    response.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return caught(response.raise_for_status)


documented(
    "docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api",
    (
        "github 403, nothing left",
        lambda: refused_by_headers(403, x_ratelimit_remaining="0", x_ratelimit_limit="5000"),
        D,
    ),
    ("github 403, later", lambda: refused_by_headers(403, retry_after="60"), D),
    ("github 403, some left", lambda: refused_by_headers(403, x_ratelimit_remaining="4999"), C),
    ("github 403", lambda: refused_by_headers(403), C),
    ("github 404, later", lambda: refused_by_headers(404, retry_after="60"), N, INTEGRATION),
)
documented(
    "developers.google.com/drive/api/guides/handle-errors, by requests",
    (
        "requests 403 rateLimitExceeded",
        lambda: caught(
            answered(
                403, b'{"error": {"errors": [{"reason": "rateLimitExceeded"}], "code": 403}}'
            ).raise_for_status
        ),
        D,
    ),
    (
        "requests 403 of no JSON",
        lambda: caught(answered(403, b"<html>rateLimitExceeded</html>").raise_for_status),
        C,
    ),
)


def graphql(code: str, *, http: int | None = None) -> BaseException:
    errors = [{"message": "no words", "extensions": {"code": code}}]
    return fake(
        "gql.transport.exceptions.TransportQueryError < gql.transport.exceptions.TransportError",
        str(errors[0]),
        errors=errors,
        **({} if http is None else {"code": http}),
    )


documented(
    "apollographql.com/docs/apollo-server/data/errors, shopify.dev/docs/api/admin-graphql",
    ("graphql THROTTLED", lambda: graphql("THROTTLED"), D),
    ("graphql INTERNAL_SERVER_ERROR", lambda: graphql("INTERNAL_SERVER_ERROR"), D),
    ("graphql UNAUTHENTICATED", lambda: graphql("UNAUTHENTICATED"), C),
    ("graphql FORBIDDEN", lambda: graphql("FORBIDDEN"), C),
    ("graphql BAD_USER_INPUT", lambda: graphql("BAD_USER_INPUT"), N, INTEGRATION),
)


def facebook(code: int, status: int = 400, *, transient: bool = False) -> BaseException:
    body = {"error": {"code": code, "message": "no words", "is_transient": transient}}
    return fake(
        "facebook_business.exceptions.FacebookRequestError < "
        "facebook_business.exceptions.FacebookError",
        "no words",
        http_status=lambda _: status,
        api_error_code=lambda _: code,
        api_transient_error=lambda _: transient,
        body=lambda _: body,
    )


documented(
    "developers.facebook.com/docs/graph-api/guides/error-handling",
    ("facebook 4", lambda: facebook(4), D),
    ("facebook 17", lambda: facebook(17), D),
    ("facebook 2", lambda: facebook(2, 500, transient=True), D),
    ("facebook 190", lambda: facebook(190, 401), C),
    ("facebook 10", lambda: facebook(10, 403), C),
    ("facebook 100", lambda: facebook(100), N),
)


def slack(word: str) -> BaseException:
    return fake(
        "slack_sdk.errors.SlackApiError < slack_sdk.errors.SlackClientError",
        f"The request to the Slack API failed.\nThe server responded with: {word}",
        response={"ok": False, "error": word},
    )


documented(
    "docs.slack.dev/reference/methods/chat.postMessage",
    ("slack fatal_error", lambda: slack("fatal_error"), D),
    ("slack request_timeout", lambda: slack("request_timeout"), D),
    ("slack message_limit_exceeded", lambda: slack("message_limit_exceeded"), D),
    ("slack org_login_required", lambda: slack("org_login_required"), C),
    ("slack team_access_not_granted", lambda: slack("team_access_not_granted"), C),
    ("slack two_factor_setup_required", lambda: slack("two_factor_setup_required"), C),
    ("slack is_archived", lambda: slack("is_archived"), N, INTEGRATION),
    ("slack not_in_channel", lambda: slack("not_in_channel"), N, INTEGRATION),
    ("slack msg_too_long", lambda: slack("msg_too_long"), N, INTEGRATION),
)


# Brokers and caches.
documented(
    "kafka.apache.org/protocol.html#protocol_error_codes",
    ("confluent leader", lambda: confluent("PREFERRED_LEADER_NOT_AVAILABLE"), D),
    ("confluent offset", lambda: confluent("OFFSET_NOT_AVAILABLE"), D),
    ("confluent controller", lambda: confluent("NOT_CONTROLLER"), D),
    ("confluent policy", lambda: confluent("POLICY_VIOLATION"), N),
    ("confluent sasl", lambda: confluent("SASL_AUTHENTICATION_FAILED"), C),
)


# Parked, or tried again: what was refused is the message's, or an answer's that looks like it.
def amount_of(order: dict[str, Any]) -> Any:
    return decimal.Decimal(order["count"])


def amount_of_a_local(order: dict[str, Any]) -> Any:
    amount = order["count"]
    return decimal.Decimal(amount)


def rate_for(order_id: str, answer: dict[str, Any]) -> Any:
    return decimal.Decimal(answer["rate"])


def rate_for_a_text(order_id: str, rate: str) -> Any:
    return decimal.Decimal(rate)


def rate_of_a_call(order_id: str) -> Any:
    return decimal.Decimal(asked_for(order_id))


def asked_for(order_id: str) -> str:
    return f"no rate for {order_id}"


GIVEN = json.loads(BODY)
documented(
    "docs.python.org/3/library/decimal.html, datetime.html, json.html",
    ("decimal of the message", lambda: caught(lambda: amount_of(GIVEN)), N, SCHEMA),
    ("decimal of a local", lambda: caught(lambda: amount_of_a_local(GIVEN)), N, SCHEMA),
    (
        "decimal of an answer, beside the message",
        lambda: caught(lambda: rate_for(GIVEN["orderId"], {"rate": "n/a"})),
        N,
    ),
    (
        "decimal of a text, beside the message",
        lambda: caught(lambda: rate_for_a_text(GIVEN["orderId"], "n/a")),
        N,
    ),
    (
        "decimal of a call, beside the message",
        lambda: caught(lambda: rate_of_a_call(GIVEN["orderId"])),
        N,
    ),
    ("an answer that breaks off", lambda: caught(lambda: json.loads(BODY[:30])), N),
)
documented(
    "python-jsonschema.readthedocs.io/en/stable/errors, fastjsonschema, cattrs, marshmallow",
    (
        "jsonschema: a field of an answer",
        lambda: fake(
            "jsonschema.exceptions.ValidationError < jsonschema.exceptions._Error",
            "'down' is not of type 'integer'",
            instance="down",
            absolute_path=["count"],
            validator="type",
        ),
        N,
    ),
    (
        "fastjsonschema: a field",
        lambda: fake(
            "fastjsonschema.exceptions.JsonSchemaValueException < "
            "fastjsonschema.exceptions.JsonSchemaException < ValueError",
            "data.count must be integer",
            value="many",
            path=["data", "count"],
            rule="type",
        ),
        N,
        SCHEMA,
    ),
    (
        "cattrs: a field",
        lambda: ExceptionGroup("structuring", [caught(lambda: int(GIVEN["count"]))]),  # type: ignore[list-item]
        N,
        SCHEMA,
    ),
    (
        "marshmallow: the message",
        lambda: fake(
            "marshmallow.exceptions.ValidationError < ValueError",
            {"count": ["Not a valid integer."]},
            data=GIVEN,
            messages={"count": ["Not a valid integer."]},
        ),
        N,
        SCHEMA,
    ),
)

# Words of a business that look like a service's.
for said in (b'{"code": "too_many_items"}', b'{"code": "interest_rate_limit_exceeded"}'):  # type: ignore[assignment]
    case(
        f"a business refuses: {said!r}",
        lambda said=said: caught(answered(422, said).raise_for_status),  # type: ignore[misc]
        N,
        INTEGRATION,
    )


def notion(status: int, code: str) -> BaseException:
    base = "notion_client.errors."
    lineage = f"{base}APIResponseError < {base}HTTPResponseError < {base}NotionClientErrorBase"
    return fake(lineage, "no words", status=status, code=code, body="{}", headers={})


documented(
    "notion-sdk-py notion_client/errors.py",
    ("notion 400", lambda: notion(400, "validation_error"), N, INTEGRATION),
)
PC = "prawcore.exceptions."


def praw(kind: str, status: int) -> BaseException:
    return fake(
        f"{PC}{kind} < {PC}ResponseException < {PC}PrawcoreException", response=answered(status)
    )


documented(
    "prawcore prawcore/exceptions.py",
    ("praw 502", lambda: praw("ServerError", 502), D),
    ("praw 401", lambda: praw("InvalidToken", 401), C),
    ("praw 413", lambda: praw("TooLarge", 413), N, INTEGRATION),
    (
        "praw lost",
        lambda: fake(
            f"{PC}RequestException < {PC}PrawcoreException",
            original_exception=R.ConnectionError("refused"),
        ),
        D,
    ),
    (
        "praw oauth",
        lambda: fake(
            f"{PC}OAuthException < {PC}PrawcoreException",
            error="invalid_grant",
            response=answered(200),
        ),
        C,
    ),
)
DX = "dropbox.exceptions."
documented(
    "dropbox-sdk-python dropbox/exceptions.py",
    ("dropbox api", lambda: fake(f"{DX}ApiError < {DX}DropboxException", error=object()), N),
)


documented(
    "amazon-redshift-python-driver redshift_connector/core.py, error.py",
    (
        "redshift communication",
        lambda: raised(
            fake("redshift_connector.error.InterfaceError < redshift_connector.error.Error", "x"),
            cause=ConnectionRefusedError(111, "refused"),
        ),
        D,
    ),
)
