"""Pairs of failures: two causes that look alike, and one cause in two forms."""

# ruff: noqa: S608 - texts of errors that quote SQL, and no SQL

from __future__ import annotations

import importlib
import json
import os
import socket
from collections.abc import Callable
from subprocess import CalledProcessError
from types import SimpleNamespace
from typing import Any, NamedTuple

import httpx
import pydantic
import requests
from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError

from deadletter.failure.signals import Permanent, Transient
from tests.failure.causes_cases import aws_error
from tests.failure.exceptions import fake

Fail = Callable[[], Any]


class Pair(NamedTuple):
    """Two failures at one place: each is raised by the same function."""

    name: str
    first: Fail
    second: Fail


TWO: list[Pair] = []
ONE: list[Pair] = []


def fail(error: BaseException) -> None:
    """The one place at which errors of libraries are raised."""
    raise error


def two(name: str, make: Callable[[Any], BaseException], first: Any, second: Any) -> None:
    TWO.append(Pair(name, lambda: fail(make(first)), lambda: fail(make(second))))


def one(name: str, make: Callable[[Any], BaseException], first: Any, second: Any) -> None:
    ONE.append(Pair(name, lambda: fail(make(first)), lambda: fail(make(second))))


def both(into: list[Pair], name: str, work: Callable[[Any], Any], first: Any, second: Any) -> None:
    into.append(Pair(name, lambda: work(first), lambda: work(second)))


# Two causes.

two("AWS codes", lambda code: aws_error(code, "refused", "PutItem"), "ThrottlingException", "Slow")
two("AWS codes without text", lambda code: aws_error(code, "", "Put"), "AccessDenied", "NoSuchKey")
two("AWS operations", lambda name: aws_error("AccessDenied", "no", name), "GetItem", "PutItem")
two(
    "AWS endpoints",
    lambda name: EndpointConnectionError(endpoint_url=f"https://{name}.eu-west-1.amazonaws.com/"),
    "sqs",
    "sns",
)
two(
    "endpoints that time out",
    lambda name: ConnectTimeoutError(endpoint_url=f"https://{name}.eu-west-1.amazonaws.com/"),
    "sqs",
    "sns",
)
two(
    "reasons of a transaction",
    lambda code: fake(
        "botocore.errorfactory.TransactionCanceledException < botocore.exceptions.ClientError",
        "Transaction cancelled",
        response={
            "Error": {"Code": "TransactionCanceledException", "Message": "Transaction cancelled"},
            "CancellationReasons": [{"Code": "None"}, {"Code": code}],
        },
    ),
    "ConditionalCheckFailed",
    "TransactionConflict",
)


def rpc(code: str) -> BaseException:
    return fake(
        "grpc._channel._InactiveRpcError < grpc.RpcError",
        "<_InactiveRpcError of RPC that terminated>",
        code=lambda _: SimpleNamespace(name=code),
        details=lambda _: "refused",
    )


two("gRPC codes", rpc, "NOT_FOUND", "PERMISSION_DENIED")
DRIVER = "pymysql.err.OperationalError < pymysql.err.DatabaseError"
two("driver numbers", lambda number: fake(DRIVER, number, "no words"), 1213, 1205)
STATE = "psycopg.errors.Error < psycopg.DatabaseError"
two("SQLSTATEs", lambda state: fake(STATE, "no words", sqlstate=state), "23505", "23503")
two(
    "constraints",
    lambda name: fake(STATE, f'duplicate key violates unique constraint "{name}"'),
    "a_key",
    "b_key",
)
two("tables", lambda name: fake("sqlite3.OperationalError", f"no such table: {name}"), "aa", "bb")
two("columns", lambda name: fake(STATE, f'column "{name}" does not exist'), "total", "subtotal")
CONNECT = 'connection to server at "{}" (10.1.2.3), port {} failed: Connection refused'
two(
    "servers of Postgres",
    lambda name: fake(DRIVER, CONNECT.format(name, 5432)),
    "orders.internal",
    "stock.internal",
)
two("ports", lambda port: fake(DRIVER, CONNECT.format("localhost", port)), 5432, 5433)
two(
    "servers of Redis",
    lambda name: fake(
        "redis.exceptions.ConnectionError < redis.exceptions.RedisError",
        f"Error 111 connecting to {name}:6379. Connection refused.",
    ),
    "cache-a",
    "cache-b",
)
two(
    "servers of MySQL",
    lambda name: fake(DRIVER, 2003, f"Can't connect to MySQL server on '{name}' (timed out)"),
    "orders-db",
    "stock-db",
)
two(
    "servers of MongoDB",
    lambda name: fake(
        "pymongo.errors.ServerSelectionTimeoutError < pymongo.errors.PyMongoError",
        f"{name}:27017: [Errno 111] Connection refused (configured timeouts: 20000.0ms), Timeout: "
        "30s, Topology Description: <TopologyDescription id: 64fa, topology_type: Unknown>",
    ),
    "mongo-a",
    "mongo-b",
)
two(
    "hosts of aiohttp",
    lambda name: fake(
        "aiohttp.client_exceptions.ClientConnectorError < OSError",
        f"Cannot connect to host {name}:443 ssl:default [Connect call failed ('10.0.0.1', 443)]",
    ),
    "bank.example",
    "tax.example",
)


def answered(host: str, status: int) -> BaseException:
    response = requests.Response()
    response.status_code, response.url = status, f"https://{host}/x"
    return requests.HTTPError("refused", response=response)


two("hosts that answer", lambda host: answered(host, 503), "bank.example", "tax.example")
two("statuses of one text", lambda status: answered("bank.example", status), 404, 410)
two("statuses of a team's class", lambda s: fake("shop.ApiError", "no", status=s), 402, 409)
two(
    "hosts of httpx",
    lambda host: httpx.ReadTimeout("", request=httpx.Request("GET", f"https://{host}/")),
    "bank.example",
    "tax.example",
)
two(
    "no name and no connection",
    lambda error: requests.ConnectionError(error),
    ConnectionRefusedError(111, "Connection refused"),
    ConnectionResetError(104, "Connection reset by peer"),
)
two("kinds of Redis", lambda w: fake("redis.exceptions.ResponseError", w), "WRONGTYPE x", "ERR x")
two(
    "codes of a team's class",
    lambda code: fake("shop.Declined", "the card was declined", code=code),
    "insufficient_funds",
    "expired_card",
)
two("errnos", lambda number: OSError(number, os.strerror(number)), 28, 13)
two("texts of Permanent", lambda text: Permanent(text), "no funds", "no stock")
two("texts of Transient", lambda text: Transient(text), "busy", "late")
two("names of timeouts", lambda text: TimeoutError(text), "bank is silent", "stock is silent")
two(
    "SMTP replies",
    lambda code: fake("smtplib.SMTPResponseException", "no words", smtp_code=code),
    451,
    550,
)
two("indexes", IndexError, "list index out of range", "string index out of range")


def environment(name: str) -> None:
    os.environ[name]


both(TWO, "environment variables", environment, "SHOP_TOKEN_URL", "SHOP_BANK_URL")
both(TWO, "attributes", lambda name: getattr(object(), name), "total", "currency")
both(TWO, "modules", importlib.import_module, "no_such_module", "no_other_module")


class Wrapped(Exception):
    """A team's wrapper with one text."""


def wrap(error: BaseException) -> None:
    try:
        raise error
    except BaseException as cause:
        raise Wrapped("the order could not be processed") from cause


both(TWO, "wrapped causes", wrap, KeyError("total"), ZeroDivisionError("division by zero"))
both(TWO, "wrapped keys", wrap, KeyError("total"), KeyError("currency"))
both(TWO, "wrapped AWS codes", wrap, aws_error("A", "x", "Put"), aws_error("B", "x", "Put"))
both(TWO, "wrapped timeouts", wrap, TimeoutError("silent"), ConnectionRefusedError(111, "refused"))


class Item(pydantic.BaseModel):
    """A model of one item."""

    sku: str
    count: int


both(TWO, "fields of pydantic", Item.model_validate, {"sku": "a"}, {"count": 1})
both(TWO, "rules of pydantic", Item.model_validate, {"sku": "a"}, {"sku": "a", "count": "x"})
SCHEMA_ERROR = "jsonschema.exceptions.ValidationError"


def schema_error(field: str, rule: str = "type", value: str = "'x'") -> BaseException:
    return fake(
        SCHEMA_ERROR,
        f"{value} is not of type 'integer'",
        validator=rule,
        absolute_schema_path=["properties", field, rule],
        absolute_path=[field],
    )


two("fields of jsonschema", schema_error, "count", "total")
two(
    "fields of a fast validator",
    lambda field: fake(
        "fastjsonschema.exceptions.JsonSchemaValueException",
        f"data.{field} must be integer",
        rule="type",
        path=["data", field],
    ),
    "count",
    "total",
)
two(
    "fields of msgspec",
    lambda f: fake("msgspec.ValidationError", f"Expected `int` - at `$.{f}`"),
    "a",
    "b",
)
two(
    "fields of marshmallow",
    lambda field: fake(
        "marshmallow.exceptions.ValidationError", "x", messages={field: ["Not a valid integer."]}
    ),
    "count",
    "total",
)
two(
    "rules of marshmallow",
    lambda text: fake("marshmallow.exceptions.ValidationError", "x", messages={"count": [text]}),
    "Not a valid integer.",
    "Missing data for required field.",
)


def required(name: str) -> None:
    raise ValueError(f"missing field {name}")


def required_quoted(name: str) -> None:
    raise ValueError(f"field {name!r} is required")


both(TWO, "fields in a text", required, "currency", "taxes")
both(TWO, "quoted fields in a text", required_quoted, "currency", "taxes")


FOREIGN = "a foreign key constraint fails (`shop`.`lines`, CONSTRAINT `{}` FOREIGN KEY (`sku`))"
two(
    "constraints of MySQL", lambda n: fake(DRIVER, 1452, FOREIGN.format(n)), "lines_sku", "lines_to"
)
ORACLE = "ORA-00001: unique constraint (SHOP.{}) violated"
two(
    "constraints of Oracle",
    lambda name: fake(
        "oracledb.exceptions.IntegrityError < oracledb.DatabaseError", ORACLE.format(name)
    ),
    "ORDERS_PK",
    "ORDERS_UK",
)
two(
    "columns of Oracle",
    lambda name: fake(
        "oracledb.exceptions.IntegrityError < oracledb.DatabaseError",
        f'ORA-01400: cannot insert NULL into ("SHOP"."ORDERS"."{name}")',
    ),
    "TOTAL",
    "CURRENCY",
)
two(
    "words of an answer",
    lambda word: fake("slack_sdk.errors.SlackApiError", "no", response={"error": word}),
    "is_archived",
    "not_in_channel",
)
two(
    "statuses of a bulk",
    lambda status: fake(
        "elasticsearch.helpers.BulkIndexError", "1 failed", errors=[{"index": {"status": status}}]
    ),
    400,
    409,
)
two(
    "errors behind a statement",
    lambda text: RuntimeError(f"INSERT INTO t VALUES (1, 2), (3, 4) failed: {text}"),
    "there is no such table",
    "too many variables",
)

two("words behind a bracket", lambda t: RuntimeError(f"order {{sku: x}} is {t}"), "closed", "late")
two(
    "details behind two words",
    lambda text: RuntimeError(f"not found\n{text}"),
    "the table is closed",
    "the stock is missing",
)
two(
    "fields that are required",
    lambda name: fake(
        "jsonschema.exceptions.ValidationError",
        f"'{name}' is a required property",
        validator="required",
        absolute_schema_path=["required"],
    ),
    "total",
    "price",
)
two(
    "texts about a field",
    lambda text: fake("marshmallow.ValidationError", "no words", messages={"total": text}),
    "not found",
    "is closed",
)
two("codes of a library", lambda code: fake("shop.Failed", "no", code=code), "E12345", "E12346")
two("numbers of a library", lambda code: fake("shop.Failed", "no words", code=code), 99_999, 99_998)
both(TWO, "encodings", lambda name: b"\xff".decode(name), "ascii", "utf-8")


# One cause.

one("long keys", lambda letter: KeyError(61 * letter), "a", "b")
one("codes that are ids", lambda code: fake("shop.Failed", "no", code=code), "E123456", "E123457")
one("large numbers", lambda code: fake("shop.Failed", "no words", code=code), 100_000, 100_001)
one(
    "details behind a headline",
    lambda text: RuntimeError(f"order not found\n{text}"),
    "the table is closed",
    "the stock is missing",
)
one(
    "rows of an INSERT",
    lambda rows: RuntimeError(f"cannot write: INSERT INTO t (a, b) VALUES {rows} now"),
    "(1, open)",
    ", ".join(f"({number}, closed, lost)" for number in range(2_000)),
)
one(
    "members of an IN",
    lambda members: RuntimeError(f"nothing found WHERE state IN ({members}) today"),
    "open",
    "closed, lost, failed, open, order, stock, limit, error",
)
one(
    "a long list",
    lambda ids: RuntimeError(f"orders {ids} are not paid"),
    ["o-1"],
    [f"o-{number}" for number in range(1_000)],
)
one(
    "a page of SQLAlchemy",
    lambda rows: fake(
        "sqlalchemy.exc.IntegrityError < sqlalchemy.exc.DatabaseError",
        f"(x) no\n[SQL: INSERT {'x, ' * rows}]\n(Background on this error at: https://sqlalche.me/e)",
    ),
    1,
    400,
)
one(
    "files of an upload",
    lambda name: fake(
        "boto3.exceptions.S3UploadFailedError",
        f"Failed to upload {name} to b/{name}: An error occurred (SlowDown) when calling the "
        "PutObject operation: Please reduce your request rate.",
    ),
    "/data/x.csv",
    "/data/my failed orders (open).csv",
)
one(
    "items of a transaction",
    lambda reasons: fake(
        "botocore.exceptions.ClientError",
        response={
            "Error": {
                "Code": "TransactionCanceledException",
                "Message": f"no [{', '.join(reasons)}]",
            },
            "CancellationReasons": [{"Code": reason} for reason in reasons],
        },
    ),
    ["ConditionalCheckFailed"],
    ["None", "ConditionalCheckFailed", "None"],
)
one(
    "a part of a statement",
    lambda part: fake(DRIVER, 1064, f"error in your SQL syntax; use near '{part}' at line 1"),
    "'o-1', 'Bo Li', 3",
    "('o-1', 'Wu O'Neil', 3), ('o-2', it is not closed",
)
one(
    "values of a driver",
    lambda values: fake(DRIVER, 1062, f"The duplicate key value is ({values}). (2627)"),
    "o-17, open",
    "o-18, closed order",
)
one("amounts", lambda text: ValueError(f"total {text} is too high"), "1.234,56 €", "12'345.60 CHF")
one("amounts with spaces", lambda t: ValueError(f"total {t} is too high"), "1 234,56 EUR", "$9")
one("durations", lambda text: RuntimeError(f"gave up after {text}"), "3.2s", "1 min 20 s")
one("dates", lambda text: RuntimeError(f"late since {text}"), "2026-01-02T03:04:05Z", "3 March")
one("hex", lambda text: RuntimeError(f"no object {text}"), "0x7f3d", "5f2c-11aa")
one("paths", lambda text: RuntimeError(f"cannot read {text}"), "/data/a b.csv", "s3://b/c.csv")
one("lists", lambda text: RuntimeError(f"unknown tags: {text}"), "['a', 'b']", "[]")
one("sets", lambda text: RuntimeError(f"unknown tags {text}"), "{'a', 'b'}", "{'b', 'a', 'c'}")
one("dicts", lambda text: RuntimeError(f"bad item {text}"), {"a": True}, {"a": None, "b": [1]})
one("e-mails", lambda text: RuntimeError(f"no user {text}"), "a@b.example", "anna.x+y@c.example")
one("retries", lambda text: RuntimeError(f"gave up after {text}"), "1 retry", "12 retries")
one("plurals", lambda text: RuntimeError(text), "1 item is missing", "2 items are missing")
for particle in ("van der Berg", "O'Brien", "de la Cruz", "Anna-Lena Müller", "李小龙", "von Ow"):
    one(f"name {particle}", lambda n: RuntimeError(f"customer {n} is blocked"), "Bo Li", particle)
for word in ("Will Grant", "May Long", "Mark Price", "Rich Stone", "Max Power"):
    one(f"word {word}", lambda n: LookupError(f"customer {n} is blocked"), "Bo Li", word)
one("towns", lambda n: RuntimeError(f"no courier in {n} today"), "Berlin", "New York")
one(
    "IP of a known host",
    lambda a: fake(DRIVER, CONNECT.replace("10.1.2.3", a).format("db.x", 1)),
    "10.0.0.1",
    "fe80::1",
)
one(
    "debug strings of RPC",
    lambda text: fake(
        "grpc._channel._InactiveRpcError < grpc.RpcError",
        f"<_InactiveRpcError {text}>",
        code=lambda _: SimpleNamespace(name="UNAVAILABLE"),
        details=lambda _: f"failed to connect to all addresses; last error: UNKNOWN: {text}",
    ),
    "ipv4:10.0.0.1:443: Failed to connect",
    "ipv4:10.0.0.27:443: Failed to connect",
)
one(
    "types of a value",
    lambda text: TypeError(text),
    "unsupported operand type(s) for +: 'int' and 'str'",
    "unsupported operand type(s) for +: 'int' and 'NoneType'",
)
one("kinds of division", ZeroDivisionError, "division by zero", "float division by zero")
one(
    "words of one rule",
    lambda value: schema_error("count", value=value),
    "'many'",
    "None",
)
both(
    ONE,
    "values of one rule",
    Item.model_validate,
    {"sku": "a", "count": "x"},
    {"sku": "a", "count": None},
)
one(
    "addresses of objects",
    lambda text: RuntimeError(f"<shop.Task object at {text}> failed"),
    "0x7f0011223344",
    "0x7fdeadbeefaa",
)
one("request ids", lambda i: aws_error("X", f"no (RequestId: {i})", "Put"), "4G2", "a1b2-c3d4")


class Strict(pydantic.BaseModel, extra="forbid"):
    """A model that wants no more than it has."""

    sku: str


class Parcel(pydantic.BaseModel):
    """A model with two others."""

    first: Strict
    second: Strict


both(
    TWO,
    "places of a key that no field has",
    Parcel.model_validate,
    {"first": {"sku": "a", "x": 1}, "second": {"sku": "a"}},
    {"first": {"sku": "a"}, "second": {"sku": "a", "x": 1}},
)
both(
    ONE, "keys that no field has", Strict.model_validate, {"sku": "a", "x": 1}, {"sku": "a", "y": 1}
)


def group(name: str) -> None:
    raise ExceptionGroup("two failed", [ValueError(name), ValueError("x")])


both(ONE, "members that are names", group, "Will Smith", "Bo Li")
both(ONE, "members that are words too", group, "May Grant", "Bo Li")


def wrapped_json(text: str) -> None:
    try:
        json.loads(text)
    except ValueError as error:
        raise Wrapped(f"the order cannot be read: {error}") from error


def lacking(names: list[str]) -> None:
    parts = {"total": "without a total", "sku": "without a product"}
    raise ValueError("order " + " and ".join(parts[name] for name in names))


both(ONE, "quoted texts of causes", wrapped_json, "{} {}", '{"a" 1}')
both(ONE, "orders of words", lacking, ["total", "sku"], ["sku", "total"])


both(TWO, "statuses of a command", lambda code: fail(CalledProcessError(code, ["x"])), 1, 137)
both(TWO, "numbers of the system", lambda number: fail(OSError(number, "x")), 28, 122)
both(ONE, "numbers of a name", lambda number: fail(socket.gaierror(number, "x")), -2, -3)
both(
    TWO,
    "a date and a number",
    lambda text: fail(ValueError(text)),
    "time data 'x' does not match",
    "could not convert string to float: 'x'",
)
