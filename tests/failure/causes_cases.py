"""Causes of failures, each with the many forms in which letters show it.

A cause is a function that fails with a letter's data. The handlers' code, the libraries' real
errors and, for libraries that are not installed, doubles stand side by side.
"""

# ruff: noqa: S608 - texts of errors that quote SQL, and no SQL

from __future__ import annotations

import base64
import datetime
import decimal
import enum
import json
import random
import sqlite3
import struct
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import jmespath
import pydantic
import requests
import urllib3.exceptions as u3
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ParamValidationError,
    ReadTimeoutError,
)

from deadletter.failure.signals import Permanent, Transient
from tests.failure.exceptions import fake

Data = dict[str, Any]
CAUSES: dict[str, Callable[[Data], Any]] = {}

# Some of them are words of error texts too.
FIRST = ["Anna", "Bo", "Long", "Closed", "María", "Grant", "Order", "Jürgen", "Open", "李", "Will"]
LAST = ["Schmidt", "Stock", "Null", "Error", "O'Neil", "Wu", "de_Boer", "Field", "Timeout", "Key"]
CITIES = ["Berlin", "New York", "Out of Stock", "São Paulo", "not found", "Reading", "Nice"]
SKUS = ["apple", "pear", "winter-jacket", "SKU-77", "shoe", "error", "a1b2", "limit", "none", "🎈"]
STATUSES = ["closed", "open", "failed", "lost", "paid", "in transit", "unknown", "x-ray"]


def data_of(number: random.Random) -> Data:
    """The data of one letter."""
    return {
        "orderId": f"o-{number.randrange(10**6)}",
        "name": f"{number.choice(FIRST)} {number.choice(LAST)}",
        "city": number.choice(CITIES),
        "sku": number.choice(SKUS),
        "status": number.choice(STATUSES),
        "amount": number.choice([1, 12.5, 1_000_000, 0.1]) * number.randrange(1, 99),
        "count": number.choice(["many", "", "12 pieces", "1,5", "NaN!", "two", "0x1"]),
        "email": f"{number.choice(FIRST).lower()}{number.randrange(99)}@shop.example",
        "uuid": f"{number.getrandbits(128):032x}",
        "busy": number.choice(["busy", "declined", "blocked", "customer"]),
        "note": number.choice(
            ["the card was refused", "busy", "not here", 'call before, the "bell" is broken ø']
        ),
        "n": number.randrange(3, 30),
        "address": f"0x7f{number.getrandbits(40):010x}",
        "seed": number.random(),
    }


def cause(fail: Callable[[Data], Any]) -> Callable[[Data], Any]:
    """Registers a function as a cause."""
    CAUSES[fail.__name__] = fail
    return fail


# Python's own errors.


def read_order(body: Data) -> None:
    body["customer"], body["lines"]


@cause
def key_customer_is_missing(data: Data) -> None:
    read_order({"lines": []})


@cause
def key_lines_is_missing(data: Data) -> None:
    read_order({"customer": data["name"]})


PRICES = {"cherry": 1}


@cause
def price_of_a_product_is_missing(data: Data) -> None:
    PRICES[data["sku"]]


REQUIRED = ("billing_address", "tax_number")


def check_required(body: Data) -> None:
    for name in REQUIRED:
        body[name]


@cause
def a_key_from_a_list_is_missing(data: Data) -> None:
    check_required({"billing_address": 1})


@cause
def another_key_from_the_list_is_missing(data: Data) -> None:
    check_required({"tax_number": 1})


@cause
def count_is_no_number(data: Data) -> None:
    int(data["count"])


@cause
def weight_is_no_number(data: Data) -> None:
    float(data["name"])


@cause
def decimal_is_no_number(data: Data) -> None:
    decimal.Decimal(data["name"])


@cause
def date_is_none(data: Data) -> None:
    texts = ["2026-13-01", "2026-02-30", "soon", "", "2026-1-1T", "20261301"]
    datetime.datetime.fromisoformat(texts[data["n"] % 6])


@cause
def time_is_none(data: Data) -> None:
    texts = ["2026-13-01", "2026-02-30", "soon", "", "2026-01-01T10:00"]
    datetime.datetime.strptime(texts[data["n"] % 5], "%Y-%m-%d")  # noqa: DTZ007 - as handlers do


@cause
def division_by_zero(data: Data) -> None:
    data["amount"] / (data["n"] * 0)


@cause
def nothing_has_no_name(data: Data) -> None:
    customer: Any = None
    customer.first_name.title()


@cause
def too_few_parts(data: Data) -> None:
    _, _, _, _ = data["name"].split()[: 1 + data["n"] % 3]


@cause
def unexpected_argument(data: Data) -> None:
    order_of(**{data["city"].split()[0].lower(): 1})


def order_of(order_id: str = "") -> str:
    return order_id


class Colour(enum.Enum):
    """A choice of two."""

    CYAN = "cyan"


@cause
def no_such_choice(data: Data) -> None:
    Colour(data["status"])


@cause
def file_is_missing(data: Data) -> None:
    Path(f"/none/{data['uuid']}/{data['name']}.json").read_text()


@cause
def nested_too_deep(data: Data) -> None:
    def down(number: int) -> int:
        return up(number + 1) if number % data["n"] else down(number + 1)

    def up(number: int) -> int:
        return down(number + 1)

    down(0)


@cause
def an_assertion(data: Data) -> None:
    assert data["amount"] < 0, f"amount {data['amount']} of {data['name']} must be negative"


@cause
def members_of_a_set(data: Data) -> None:
    parts = {data["name"], data["city"], data["sku"], data["uuid"]}
    raise ValueError(f"unknown parts {parts} and fields: {', '.join(parts)}")


@cause
def an_object_at_an_address(data: Data) -> None:
    raise RuntimeError(
        f"<worker.Task object at {data['address']}> gave up after {data['n']} retries, "
        f"{data['seed']:.3f} seconds"
    )


# The parsers.

BROKEN = ['{"a": }', "{oops", "[1, 2", '{"a" 1}', '"open', "[1,]", "{} {}", "", '{"a": "\x01"}']


@cause
def body_is_no_json(data: Data) -> None:
    text = " " * data["n"] + BROKEN[data["n"] % len(BROKEN)]
    json.loads(text)


@cause
def bytes_are_no_text(data: Data) -> None:
    (b"a" * data["n"] + [b"\xff", b"\xe9", b"\xc3("][data["n"] % 3]).decode()


@cause
def no_base64(data: Data) -> None:
    base64.b64decode(["abc", "a", "YQ=a=", "abcde"][data["n"] % 4], validate=True)


@cause
def a_short_buffer(data: Data) -> None:
    struct.unpack(f"{data['n']}i", b"123")


@cause
def body_is_no_xml(data: Data) -> None:
    ET.fromstring(["<a>", "a", "", "<a></b>", "<a b=c/>"][data["n"] % 5])  # noqa: S314 - as handlers do


class Line(pydantic.BaseModel):
    """A line of an order."""

    sku: str
    count: int


class Order(pydantic.BaseModel):
    """A model of the message."""

    order_id: str
    lines: list[Line]
    note: str


@cause
def model_misses_the_note(data: Data) -> None:
    Order.model_validate({"order_id": data["orderId"], "lines": []})


@cause
def model_has_a_bad_count(data: Data) -> None:
    line = {"sku": data["sku"], "count": data["name"]}
    good = {"sku": data["sku"], "count": 1}
    lines = [good] * (data["n"] % 5) + [line] * (1 + data["n"] % 3)
    Order.model_validate({"order_id": data["orderId"], "lines": lines, "note": data["note"]})


@cause
def a_bad_expression(data: Data) -> None:
    jmespath.search("[" * (1 + data["n"] % 3) + "a", {})


@cause
def schema_wants_a_property(data: Data) -> None:
    raise fake(
        "jsonschema.exceptions.ValidationError < jsonschema.exceptions._Error",
        f"'lines' is a required property\n\nOn instance:\n    {data!r}",
        validator="required",
        absolute_schema_path=["required"],
        absolute_path=[],
        instance=data,
    )


# AWS.


def aws_error(code: str, message: str, operation: str, status: int = 400) -> ClientError:
    response: Any = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status, "RequestId": "r"},
    }
    return ClientError(response, operation)


def put_item(error: Exception) -> None:
    raise error


@cause
def condition_failed(data: Data) -> None:
    put_item(aws_error("ConditionalCheckFailedException", "The conditional request failed", "Put"))


@cause
def throughput_exceeded(data: Data) -> None:
    texts = ["Rate exceeded", "Throughput exceeds the current capacity of your table or index"]
    put_item(aws_error("ThrottlingException", texts[0], "PutItem"))


@cause
def access_denied(data: Data) -> None:
    text = (
        f"User: arn:aws:sts::{data['n']:012d}:assumed-role/r/{data['uuid']} is not authorized to "
        f"perform: dynamodb:PutItem on resource: arn:aws:dynamodb:eu-west-1:1:table/orders because "
        "no identity-based policy allows the dynamodb:PutItem action"
    )
    put_item(aws_error("AccessDeniedException", text, "PutItem"))


@cause
def item_too_large(data: Data) -> None:
    text = "Item size has exceeded the maximum allowed size"
    put_item(aws_error("ValidationException", text, "PutItem"))


@cause
def key_of_an_item_is_missing(data: Data) -> None:
    text = "One or more parameter values were invalid: Missing the key id in the item"
    put_item(aws_error("ValidationException", text, "PutItem"))


@cause
def no_such_object(data: Data) -> None:
    put_item(aws_error("NoSuchKey", "The specified key does not exist.", "GetObject", 404))


@cause
def parameters_are_invalid(data: Data) -> None:
    value = data["name"]
    raise ParamValidationError(
        report=f"Invalid type for parameter Item.amount, value: {value}, type: <class 'str'>, "
        "valid types: <class 'dict'>"
    )


@cause
def endpoint_of_aws_is_unreachable(data: Data) -> None:
    raise EndpointConnectionError(endpoint_url="https://sqs.eu-west-1.amazonaws.com/")


@cause
def aws_does_not_answer(data: Data) -> None:
    raise ReadTimeoutError(
        endpoint_url="https://dynamodb.eu-west-1.amazonaws.com/", error=TimeoutError()
    )


@cause
def aws_does_not_connect(data: Data) -> None:
    raise ConnectTimeoutError(endpoint_url="https://s3.eu-west-1.amazonaws.com/", error="timeout")


# HTTP.


def get(host: str, path: str, error: type[Exception], number: int) -> None:
    text = (
        f"HTTPSConnectionPool(host='{host}', port=443): Max retries exceeded with url: {path} "
        f"(Caused by NewConnectionError('<urllib3.connection.HTTPSConnection object at 0x{number:x}"
        ">: Failed to establish a new connection: [Errno 111] Connection refused'))"
    )
    pool: Any = SimpleNamespace(host=host, port=443)
    try:
        raise u3.MaxRetryError(pool, path, u3.NewConnectionError(pool, text))
    except u3.MaxRetryError as reason:
        raise error(reason, request=requests.Request("GET", f"https://{host}{path}").prepare())  # noqa: B904


@cause
def bank_refuses_connections(data: Data) -> None:
    get("bank.example", f"/p/{data['orderId']}", requests.ConnectionError, data["n"])


@cause
def warehouse_refuses_connections(data: Data) -> None:
    get("warehouse.example", f"/w/{data['sku']}", requests.ConnectionError, data["n"])


def read(host: str, path: str) -> None:
    raise requests.ReadTimeout(
        f"HTTPSConnectionPool(host='{host}', port=443): Read timed out. (read timeout={len(path)})",
        request=requests.Request("GET", f"https://{host}{path}").prepare(),
    )


@cause
def bank_times_out(data: Data) -> None:
    read("bank.example", "/" + data["uuid"][: data["n"]])


@cause
def warehouse_times_out(data: Data) -> None:
    read("warehouse.example", "/" + data["uuid"][: data["n"]])


def answered(status: int, host: str, data: Data) -> None:
    response = requests.Response()
    response.status_code = status
    response.url = f"https://{host}/orders/{data['orderId']}?q={data['name']}"
    response.reason = {404: "Not Found", 422: "Unprocessable Entity", 503: "Unavailable"}[status]
    response.raise_for_status()


@cause
def bank_has_no_such_order(data: Data) -> None:
    answered(404, "bank.example", data)


@cause
def bank_refuses_the_order(data: Data) -> None:
    answered(422, "bank.example", data)


@cause
def bank_is_down(data: Data) -> None:
    answered(503, "bank.example", data)


@cause
def warehouse_is_down(data: Data) -> None:
    answered(503, "warehouse.example", data)


@cause
def httpx_times_out(data: Data) -> None:
    request = httpx.Request("POST", f"https://tax.example/v1/{data['uuid']}")
    raise httpx.ReadTimeout("The read operation timed out", request=request)


@cause
def endpoint_of_a_tenant_times_out(data: Data) -> None:
    host = f"{data['uuid']}.hooks.example"
    data["endpoint"] = f"https://{host}/in"
    raise httpx.ConnectTimeout("timed out", request=httpx.Request("POST", f"https://{host}/in"))


@cause
def httpx_answers_409(data: Data) -> None:
    request = httpx.Request("POST", f"https://tax.example/v1/{data['uuid']}")
    httpx.Response(409, request=request).raise_for_status()


# Databases.


def table() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE orders (id TEXT PRIMARY KEY, total INT NOT NULL)")
    return connection


@cause
def order_exists(data: Data) -> None:
    with table() as connection:
        for _ in range(2):
            connection.execute("INSERT INTO orders VALUES (?, 1)", (data["orderId"],))


@cause
def order_has_no_total(data: Data) -> None:
    table().execute("INSERT INTO orders VALUES (?, NULL)", (data["orderId"],))


@cause
def no_such_table(data: Data) -> None:
    table().execute("SELECT * FROM invoices")


UNIQUE = "psycopg.errors.UniqueViolation < psycopg.IntegrityError < psycopg.DatabaseError"


@cause
def email_is_taken(data: Data) -> None:
    raise fake(
        UNIQUE,
        'duplicate key value violates unique constraint "customers_email_key"\n'
        f"DETAIL:  Key (email, name)=({data['email']}, {data['name']}) already exists.",
        sqlstate="23505",
    )


@cause
def number_is_taken(data: Data) -> None:
    raise fake(
        UNIQUE,
        'duplicate key value violates unique constraint "invoices_number_key"\n'
        f"DETAIL:  Key (number)=({data['n']}) already exists.",
        sqlstate="23505",
    )


@cause
def mysql_has_a_duplicate(data: Data) -> None:
    raise fake(
        "pymysql.err.IntegrityError < pymysql.err.DatabaseError < pymysql.err.MySQLError",
        1062,
        f"Duplicate entry '{data['name']}' for key 'orders.PRIMARY'",
    )


@cause
def mysql_has_a_deadlock(data: Data) -> None:
    raise fake(
        "pymysql.err.OperationalError < pymysql.err.DatabaseError < pymysql.err.MySQLError",
        1213,
        "Deadlock found when trying to get lock; try restarting transaction",
    )


@cause
def redis_is_read_only(data: Data) -> None:
    raise fake(
        "redis.exceptions.ReadOnlyError < redis.exceptions.ResponseError "
        "< redis.exceptions.RedisError",
        "You can't write against a read only replica.",
    )


@cause
def redis_has_another_type(data: Data) -> None:
    raise fake(
        "redis.exceptions.ResponseError < redis.exceptions.RedisError",
        "WRONGTYPE Operation against a key holding the wrong kind of value",
    )


@cause
def rpc_is_unavailable(data: Data) -> None:
    raise fake(
        "grpc._channel._InactiveRpcError < grpc.RpcError",
        f'<_InactiveRpcError of RPC with:\n\tdetails = "x"\n\tdebug = "{data["seed"]}"',
        code=lambda _: SimpleNamespace(name="UNAVAILABLE"),
        details=lambda _: f"failed to connect to all addresses; last error: {data['uuid']}",
    )


@cause
def rpc_has_a_bad_argument(data: Data) -> None:
    raise fake(
        "grpc._channel._InactiveRpcError < grpc.RpcError",
        f'<_InactiveRpcError of RPC with:\n\tdetails = "x"\n\tdebug = "{data["seed"]}"',
        code=lambda _: SimpleNamespace(name="INVALID_ARGUMENT"),
        details=lambda _: f"customer {data['orderId']} has no address {data['email']}",
    )


@cause
def stripe_declines_the_card(data: Data) -> None:
    raise fake(
        "stripe.error.CardError < stripe.error.StripeError",
        f"Your card ending in {data['n']:04d} was declined.",
        code="card_declined",
        http_status=402,
    )


@cause
def stripe_finds_the_card_expired(data: Data) -> None:
    raise fake(
        "stripe.error.CardError < stripe.error.StripeError",
        f"Your card ending in {data['n']:04d} has expired.",
        code="expired_card",
        http_status=402,
    )


# The team's own errors.


class OrderFailed(Exception):
    """A team's wrapper."""


class OutOfStock(Exception):
    """An error that makes its own text."""

    def __init__(self, sku: str, city: str) -> None:
        super().__init__(f"product {sku} is sold out in {city}")


class Unfit(Exception):
    """An error with a template in its class."""

    template = "customer {} of {} is not fit for credit"

    def __init__(self, name: str, city: str) -> None:
        self.name, self.city = name, city

    def __str__(self) -> str:
        return self.template.format(self.name, self.city)


@cause
def customer_is_blocked(data: Data) -> None:
    raise ValueError(f"customer {data['name']} of {data['city']} is blocked")


@cause
def status_is_unknown(data: Data) -> None:
    raise ValueError(f"unknown status {data['status']}")


@cause
def busy(data: Data) -> None:
    raise Transient("busy")


@cause
def declined(data: Data) -> None:
    raise Permanent("declined")


@cause
def refused_with_data(data: Data) -> None:
    raise Permanent(
        "order {} of {!r} is refused: {:.2f} is too much".format(
            data["orderId"], data["name"], data["amount"]
        )
    )


@cause
def sold_out(data: Data) -> None:
    raise OutOfStock(data["sku"], data["city"])


@cause
def unfit(data: Data) -> None:
    raise Unfit(data["name"], data["city"])


def charge(data: Data, call: Callable[[Data], Any]) -> None:
    try:
        call(data)
    except Exception as error:
        raise OrderFailed(f"order {data['orderId']} failed: {error}") from error


@cause
def wrapped_timeout(data: Data) -> None:
    charge(data, bank_times_out)


@cause
def wrapped_key(data: Data) -> None:
    charge(data, key_customer_is_missing)


@cause
def wrapped_refusal(data: Data) -> None:
    charge(data, customer_is_blocked)


def charge_silently(data: Data, call: Callable[[Data], Any]) -> None:
    try:
        call(data)
    except Exception:
        raise OrderFailed(f"order {data['orderId']} failed")  # noqa: B904


@cause
def silently_wrapped_number(data: Data) -> None:
    charge_silently(data, count_is_no_number)


@cause
def silently_wrapped_timeout(data: Data) -> None:
    charge_silently(data, bank_times_out)


@cause
def some_of_a_group(data: Data) -> None:
    errors = []
    for _ in range(1 + data["n"] % 4):
        try:
            customer_is_blocked(data)
        except ValueError as error:
            errors.append(error)
    raise ExceptionGroup("unhandled errors in a TaskGroup", errors)


@dataclass
class Answer:
    """What an API says."""

    code: int
    text: str


@cause
def an_answer_in_the_text(data: Data) -> None:
    raise RuntimeError(f"unexpected answer {Answer(data['n'], data['note'])} to {data}")


@cause
def a_text_from_elsewhere(data: Data) -> None:
    text = "".join(["the parcel for ", data["name"], " is lost since ", str(data["n"]), " days"])
    raise LookupError(text)


@cause
def name_is_too_long(data: Data) -> None:
    names = data["name"].split()
    raise ValueError(f"{names[0]} {names[1]}: too long by {data['n']} characters")


PROBLEMS = ["price is missing", "unknown product", "the count is negative", "too long"]


@cause
def an_import_has_bad_lines(data: Data) -> None:
    number = random.Random(data["seed"])
    bad = [f"line {at}: {number.choice(PROBLEMS)}" for at in range(2, number.randrange(3, 9))]
    raise ValueError(f"the import of {data['name']} has invalid lines:\n" + "\n".join(bad))


@cause
def an_answer_tells_of_a_customer(data: Data) -> None:
    answer = {"message": f"Customer {data['name']} was not found"}
    raise LookupError(f"the API says: {answer['message']}")


CACHE = {"apple": "x"}


@cause
def the_bank_is_asked_where_the_cache_has_nothing(data: Data) -> None:
    try:
        CACHE[data["sku"]]
    except KeyError:
        read("cards.example", f"/{data['uuid']}")
    read("cards.example", f"/{data['uuid']}")


def described(data: Data) -> str:
    return f"parcel for {data['name']} in {data['city']}"


@cause
def a_text_of_another_function(data: Data) -> None:
    raise RuntimeError("cannot send " + described(data))


REFUSAL = "the credit of {name} in {city} is used up"


@cause
def a_text_of_the_module(data: Data) -> None:
    raise RuntimeError(REFUSAL.format(**data))


@cause
def a_list_of_tags(data: Data) -> None:
    raise ValueError(f"too many tags: {', '.join([data['sku'], data['status'], data['city']])}")


@cause
def the_letters_own_text_is_quoted(data: Data) -> None:
    raise ValueError(f"the note is not allowed: {data['note']}")


# Nasty causes: what a library says of one cause has as many forms as there are messages. Those of
# libraries are raised by one function, so that the place tells none from another.

NASTY: dict[str, Callable[[Data], BaseException]] = {}


def nasty(make: Callable[[Data], BaseException]) -> Callable[[Data], BaseException]:
    """Registers a cause by what it raises."""
    NASTY[make.__name__] = make
    return make


def throw(name: str, data: Data) -> None:
    """The one place at which the nasty causes of libraries fail."""
    raise NASTY[name](data)


def many(data: Data, most: int = 60) -> list[Data]:
    """The data of so many other letters, as a batch of one letter's rows has them."""
    number = random.Random(data["seed"])
    return [data_of(number) for _ in range(number.choice([1, 2, 3, number.randrange(4, most)]))]


def rows_of(data: Data) -> str:
    """The rows of a bulk INSERT, as SQL."""
    return ", ".join(f"('{row['orderId']}', '{row['name']}', {row['n']})" for row in many(data))


def ids_of(data: Data) -> str:
    """The members of an IN, as SQL."""
    return ", ".join(f"'{row['orderId']}'" for row in many(data, 200))


# SQL whose length varies: dev.mysql.com, docs.sqlalchemy.org/en/20/errors.html, the drivers' pages.
ALCHEMY = "< sqlalchemy.exc.DatabaseError < sqlalchemy.exc.DBAPIError"


def sqlalchemy(kind: str, orig: BaseException, statement: str, data: Data) -> BaseException:
    kind_of_driver = f"{type(orig).__module__}.{type(orig).__name__}"
    rows = [{"id": row["orderId"], "name": row["name"]} for row in many(data)]
    text = (
        f"({kind_of_driver}) {orig}\n[SQL: {statement}]\n[parameters: {rows}]\n"
        "(Background on this error at: https://sqlalche.me/e/20/gkpj)"
    )
    error = fake(f"sqlalchemy.exc.{kind} {ALCHEMY}", text, orig=orig, statement=statement)
    error.__cause__ = orig
    return error


@nasty
def mysql_dislikes_a_bulk_insert(data: Data) -> BaseException:
    return fake(
        "pymysql.err.ProgrammingError < pymysql.err.DatabaseError < pymysql.err.MySQLError",
        1064,
        "You have an error in your SQL syntax; check the manual that corresponds to your MySQL "
        f"server version for the right syntax to use near '{rows_of(data)[:80]}' at line "
        f"{data['n']}",
    )


@nasty
def alchemy_mysql_dislikes_a_bulk_insert(data: Data) -> BaseException:
    statement = f"INSERT INTO orders (id, name, n) VALUES {rows_of(data)}"
    return sqlalchemy("ProgrammingError", mysql_dislikes_a_bulk_insert(data), statement, data)


@nasty
def mysql_does_not_know_a_column(data: Data) -> BaseException:
    return fake(
        "pymysql.err.OperationalError < pymysql.err.DatabaseError < pymysql.err.MySQLError",
        1054,
        "Unknown column 'totl' in 'field list'",
    )


@nasty
def mysql_truncates_a_column(data: Data) -> BaseException:
    return fake(
        "pymysql.err.DataError < pymysql.err.DatabaseError < pymysql.err.MySQLError",
        1406,
        f"Data too long for column 'city' at row {data['n']}",
    )


@nasty
def mysql_truncates_another_column(data: Data) -> BaseException:
    return fake(
        "pymysql.err.DataError < pymysql.err.DatabaseError < pymysql.err.MySQLError",
        1406,
        f"Data too long for column 'note' at row {data['n']}",
    )


def duplicate(constraint: str, data: Data) -> BaseException:
    return fake(
        UNIQUE,
        f'duplicate key value violates unique constraint "{constraint}"\n'
        f"DETAIL:  Key (id, name)=({data['orderId']}, {data['name']}) already exists.",
        sqlstate="23505",
    )


@nasty
def alchemy_bulk_has_a_duplicate(data: Data) -> BaseException:
    values = ", ".join(f"(%(id_{at})s, %(name_{at})s)" for at in range(len(many(data))))
    statement = f"INSERT INTO orders (id, name) VALUES {values} RETURNING orders.id"
    return sqlalchemy("IntegrityError", duplicate("orders_pkey", data), statement, data)


@nasty
def alchemy_bulk_has_another_duplicate(data: Data) -> BaseException:
    values = ", ".join(f"(%(id_{at})s, %(name_{at})s)" for at in range(len(many(data))))
    statement = f"INSERT INTO orders (id, name) VALUES {values} RETURNING orders.id"
    return sqlalchemy("IntegrityError", duplicate("orders_name_key", data), statement, data)


@nasty
def pandas_quotes_a_bulk_insert(data: Data) -> BaseException:
    return fake(
        "pandas.errors.DatabaseError < OSError",
        f"Execution failed on sql 'INSERT INTO orders (id, name, n) VALUES {rows_of(data)}': "
        "no such table: orders",
    )


@nasty
def pandas_quotes_an_in_list(data: Data) -> BaseException:
    return fake(
        "pandas.errors.DatabaseError < OSError",
        f"Execution failed on sql 'SELECT id, total FROM orders WHERE id IN ({ids_of(data)})': "
        "too many SQL variables",
    )


@nasty
def clickhouse_quotes_a_bulk_insert(data: Data) -> BaseException:
    return fake(
        "clickhouse_driver.errors.ServerException < clickhouse_driver.errors.Error",
        f"Code: 62.\nDB::Exception: Syntax error: failed at position {data['n']} (line 1, col "
        f"{data['n']}): INSERT INTO orders VALUES {rows_of(data)}. Expected one of: token, comma. "
        "Stack trace:\n\n0. DB::Exception::Exception()",
        code=62,
    )


@nasty
def sqlite_quotes_nothing_but_a_token(data: Data) -> BaseException:
    token = rows_of(data).split()[-1]
    return fake("sqlite3.OperationalError < sqlite3.DatabaseError", f'near "{token}": syntax error')


@nasty
def odbc_dislikes_a_bulk_insert(data: Data) -> BaseException:
    return fake(
        "pyodbc.ProgrammingError < pyodbc.DatabaseError < pyodbc.Error",
        "42000",
        "[42000] [Microsoft][ODBC Driver 18 for SQL Server][SQL Server]Incorrect syntax near "
        f"'{data['name']}'. (102) (SQLExecDirectW); [42000] [Microsoft][ODBC Driver 18 for SQL "
        f"Server][SQL Server]Unclosed quotation mark after the character string '{rows_of(data)}'. "
        "(105)",
    )


@nasty
def odbc_has_a_duplicate(data: Data) -> BaseException:
    return fake(
        "pyodbc.IntegrityError < pyodbc.DatabaseError < pyodbc.Error",
        "23000",
        "[23000] [Microsoft][ODBC Driver 18 for SQL Server][SQL Server]Violation of PRIMARY KEY "
        "constraint 'PK_orders'. Cannot insert duplicate key in object 'dbo.orders'. The duplicate "
        f"key value is ({data['orderId']}, {data['name']}). (2627) (SQLExecDirectW)",
    )


def oracle_duplicate(constraint: str, data: Data) -> BaseException:
    return fake(
        "oracledb.exceptions.IntegrityError < oracledb.exceptions.DatabaseError",
        f"ORA-00001: unique constraint (SHOP.{constraint}) violated on table SHOP.ORDERS columns "
        f"(ID, NAME)\nORA-03301: (ORA-00001 details) row with values (ID:'{data['orderId']}', "
        f"NAME:'{data['name']}') already exists\nHelp: https://docs.oracle.com/error-help/db/ora-1/",
    )


@nasty
def oracle_has_a_duplicate(data: Data) -> BaseException:
    return oracle_duplicate("ORDERS_PK", data)


@nasty
def oracle_has_another_duplicate(data: Data) -> BaseException:
    return oracle_duplicate("ORDERS_UK", data)


def mysql_reference(name: str, data: Data) -> BaseException:
    return fake(
        "pymysql.err.IntegrityError < pymysql.err.DatabaseError < pymysql.err.MySQLError",
        1452,
        "Cannot add or update a child row: a foreign key constraint fails (`shop`.`lines`, "
        f"CONSTRAINT `{name}` FOREIGN KEY (`sku`) REFERENCES `skus` (`id`))",
    )


@nasty
def mysql_misses_a_reference(data: Data) -> BaseException:
    return mysql_reference("lines_fk_sku", data)


@nasty
def mysql_misses_another_reference(data: Data) -> BaseException:
    return mysql_reference("lines_fk_order", data)


@nasty
def snowflake_dislikes_a_number(data: Data) -> BaseException:
    return fake(
        "snowflake.connector.errors.ProgrammingError < snowflake.connector.errors.DatabaseError",
        f"100038 (22018): {data['uuid'][:8]}-0000-1234-0000-{data['uuid'][8:20]}: Numeric value "
        f"'{data['count']}' is not recognized",
        errno=100038,
        sqlstate="22018",
    )


@nasty
def snowflake_dislikes_a_bulk_insert(data: Data) -> BaseException:
    return fake(
        "snowflake.connector.errors.ProgrammingError < snowflake.connector.errors.DatabaseError",
        "001003 (42000): SQL compilation error:\nsyntax error line 1 at position "
        f"{len(rows_of(data))} unexpected '{data['sku']}'.\nsyntax error line {data['n']} at "
        f"position 7 unexpected ','.",
        errno=1003,
        sqlstate="42000",
    )


@nasty
def postgres_dislikes_a_number(data: Data) -> BaseException:
    return fake(
        "psycopg.errors.InvalidTextRepresentation < psycopg.DataError < psycopg.DatabaseError",
        f'invalid input syntax for type integer: "{data["note"]}"\nLINE 1: ...VALUES '
        f"{rows_of(data)[:60]}\n{' ' * data['n']}^\nCONTEXT:  COPY orders, line "
        f"{data['n']}, column n",
        sqlstate="22P02",
    )


@nasty
def postgres_has_a_deadlock(data: Data) -> BaseException:
    return fake(
        "psycopg.errors.DeadlockDetected < psycopg.OperationalError < psycopg.DatabaseError",
        f"deadlock detected\nDETAIL:  Process {data['n']}17 waits for ShareLock on transaction "
        f"4711; blocked by process 18.\nHINT:  See server log for query details.\nCONTEXT:  "
        f'while updating tuple ({data["n"]},12) in relation "orders"',
        sqlstate="40P01",
    )


@nasty
def a_team_quotes_a_bulk_insert(data: Data) -> BaseException:
    raise RuntimeError(
        f"cannot write the orders: INSERT INTO orders (id, name, n) VALUES {rows_of(data)}"
    )


@nasty
def a_team_quotes_an_in_list(data: Data) -> BaseException:
    raise RuntimeError(f"nothing found by: SELECT * FROM orders WHERE id IN ({ids_of(data)})")


@nasty
def a_team_quotes_an_in_list_of_words(data: Data) -> BaseException:
    states = ", ".join(row["status"] for row in many(data, 20))
    raise RuntimeError(f"nothing found by: DELETE FROM parcels WHERE status IN ({states})")


@nasty
def athena_dislikes_an_in_list(data: Data) -> BaseException:
    return fake(
        "pyathena.error.OperationalError < pyathena.error.DatabaseError < pyathena.error.Error",
        f"SYNTAX_ERROR: line 1:{len(ids_of(data))}: mismatched input '{data['sku']}'. "
        "Expecting: ')'",
    )


# Search engines: opensearch-py, elasticsearch-py.
OPEN = "opensearchpy.exceptions."


def unreachable(host: str, data: Data) -> BaseException:
    inner = (
        f"<urllib3.connection.HTTPSConnection object at {data['address']}>: Failed to establish a "
        "new connection: [Errno 111] Connection refused"
    )
    pool: Any = SimpleNamespace(host=host, port=9200)
    info = u3.NewConnectionError(pool, "Failed to establish a new connection: refused")
    return fake(
        f"{OPEN}ConnectionError < {OPEN}TransportError < {OPEN}OpenSearchException",
        f"ConnectionError({inner}) caused by: NewConnectionError({inner})",
        status_code="N/A",
        error=inner,
        info=info,
    )


@nasty
def opensearch_is_unreachable(data: Data) -> BaseException:
    return unreachable("search.example", data)


def bulk_error(kind: str, status: int, reason: Callable[[Data], str], data: Data) -> BaseException:
    errors = [
        {
            "index": {
                "_index": "orders",
                "_id": row["orderId"],
                "status": status,
                "error": {"type": kind, "reason": reason(row)},
                "data": row,
            }
        }
        for row in many(data, 20)
    ]
    return fake(
        "opensearchpy.helpers.errors.BulkIndexError < opensearchpy.exceptions.OpenSearchException",
        f"{len(errors)} document(s) failed to index.",
        errors,
        errors=errors,
    )


@nasty
def bulk_is_not_mapped(data: Data) -> BaseException:
    return bulk_error(
        "mapper_parsing_exception",
        400,
        lambda row: (
            f"failed to parse field [n] of type [integer] in document with id '{row['sku']}'"
        ),
        data,
    )


@nasty
def bulk_is_rejected(data: Data) -> BaseException:
    return bulk_error(
        "rejected_execution_exception",
        429,
        lambda row: f"rejected execution of coordinating operation [all_bytes={row['n']}]",
        data,
    )


@nasty
def bulk_exists(data: Data) -> BaseException:
    return bulk_error(
        "version_conflict_engine_exception",
        409,
        lambda row: f"[{row['orderId']}]: version conflict, document already exists",
        data,
    )


@nasty
def elastic_dislikes_a_field(data: Data) -> BaseException:
    return fake(
        "elasticsearch.BadRequestError < elasticsearch.ApiError",
        "BadRequestError(400, 'document_parsing_exception', \"[1:{}] failed to parse field [price] "
        "of type [float] in document with id '{}'. Preview of field's value: '{}'\")".format(
            data["n"], data["orderId"], data["note"]
        ),
        status_code=400,
        meta=SimpleNamespace(status=400),
    )


# S3: boto3 boto3/s3/transfer.py.
def upload_error(code: str, message: str, data: Data) -> BaseException:
    text = f"An error occurred ({code}) when calling the PutObject operation: {message}"
    return fake(
        "boto3.exceptions.S3UploadFailedError < boto3.exceptions.Boto3Error",
        f"Failed to upload /tmp/{data['uuid']}/{data['city']} of {data['name']}.csv to "
        f"shop-orders/{data['city']}/{data['status']} {data['sku']}.csv: {text}",
    )


@nasty
def upload_is_denied(data: Data) -> BaseException:
    return upload_error("AccessDenied", "Access Denied", data)


@nasty
def upload_is_slow(data: Data) -> BaseException:
    return upload_error("SlowDown", "Please reduce your request rate.", data)


@nasty
def upload_has_no_bucket(data: Data) -> BaseException:
    return upload_error("NoSuchBucket", "The specified bucket does not exist", data)


# DynamoDB and botocore.
def canceled(reason: str, data: Data) -> BaseException:
    number = random.Random(data["seed"])
    reasons = [number.choice(["None", reason]) for _ in range(number.randrange(1, 20))] + [reason]
    return ClientError(
        {
            "Error": {
                "Code": "TransactionCanceledException",
                "Message": "Transaction cancelled, please refer cancellation reasons for specific "
                f"reasons [{', '.join(reasons)}]",
            },
            "CancellationReasons": [{"Code": each} for each in reasons],
            "ResponseMetadata": {"HTTPStatusCode": 400},
        },
        "TransactWriteItems",
    )


@nasty
def transaction_has_a_condition(data: Data) -> BaseException:
    return canceled("ConditionalCheckFailed", data)


@nasty
def transaction_has_a_conflict(data: Data) -> BaseException:
    return canceled("TransactionConflict", data)


@nasty
def botocore_dislikes_some_items(data: Data) -> BaseException:
    reports = [
        f"Invalid type for parameter Items[{at}].price, value: {row['note']}, type: <class 'str'>, "
        "valid types: <class 'decimal.Decimal'>"
        for at, row in enumerate(many(data, 20))
    ]
    return ParamValidationError(report="\n".join(reports))


# MongoDB: pymongo/errors.py.
def mongo_bulk(index: str, data: Data) -> BaseException:
    errors = [
        {
            "index": at,
            "code": 11000,
            "errmsg": f"E11000 duplicate key error collection: shop.orders index: {index} dup key: "
            f'{{ email: "{row["email"]}" }}',
            "op": row,
        }
        for at, row in enumerate(many(data, 20))
    ]
    details = {"writeErrors": errors, "writeConcernErrors": [], "nInserted": data["n"]}
    return fake(
        "pymongo.errors.BulkWriteError < pymongo.errors.OperationFailure < "
        "pymongo.errors.PyMongoError",
        f"batch op errors occurred, full error: {details}",
        code=65,
        details=details,
    )


@nasty
def mongo_bulk_has_a_duplicate(data: Data) -> BaseException:
    return mongo_bulk("email_1", data)


@nasty
def mongo_has_a_duplicate(data: Data) -> BaseException:
    return fake(
        "pymongo.errors.DuplicateKeyError < pymongo.errors.WriteError < "
        "pymongo.errors.OperationFailure < pymongo.errors.PyMongoError",
        "E11000 duplicate key error collection: shop.orders index: email_1 dup key: "
        f"{{ email: \"{data['email']}\" }}, full error: {{'index': 0, 'code': 11000, 'keyValue': "
        f"{{'email': '{data['email']}'}}}}",
        code=11000,
    )


# Models: anthropic src/anthropic/_streaming.py, openai-python.
def anthropic(kind: str, message: str, data: Data) -> BaseException:
    body = {
        "type": "error",
        "error": {"details": None, "type": kind, "message": message},
        "request_id": f"req_{data['uuid'][:20]}",
    }
    return fake(
        "anthropic.APIStatusError < anthropic.APIError < anthropic.AnthropicError",
        str(body),
        status_code=200,
        body=body,
        type=kind,
        response=SimpleNamespace(status_code=200),
    )


@nasty
def claude_is_overloaded(data: Data) -> BaseException:
    return anthropic("overloaded_error", "Overloaded", data)


@nasty
def claude_has_an_error(data: Data) -> BaseException:
    return anthropic("api_error", "Internal server error", data)


@nasty
def claude_dislikes_a_message(data: Data) -> BaseException:
    message = f"messages.{data['n']}.content.{data['n'] % 4}.text.text: Field required"
    return anthropic("invalid_request_error", message, data)


@nasty
def openai_has_too_many_tokens(data: Data) -> BaseException:
    return fake(
        "openai.BadRequestError < openai.APIStatusError < openai.APIError",
        "Error code: 400 - {'error': {'message': \"This model's maximum context length is 8192 "
        f"tokens. However, your messages resulted in 9{data['n']} tokens. Please reduce the "
        "length of the messages.\", 'type': 'invalid_request_error', 'param': 'messages', 'code': "
        "'context_length_exceeded'}}",
        status_code=400,
        code="context_length_exceeded",
        type="invalid_request_error",
    )


@nasty
def openai_dislikes_the_content(data: Data) -> BaseException:
    return fake(
        "openai.BadRequestError < openai.APIStatusError < openai.APIError",
        f"Error code: 400 - {{'error': {{'message': \"Invalid prompt: {data['note']}\", 'type': "
        "'invalid_request_error', 'param': None, 'code': 'invalid_prompt'}}",
        status_code=400,
        code="invalid_prompt",
        type="invalid_request_error",
    )


# Google: googleapiclient/errors.py.
def google(status: int, reason: str, message: str, data: Data) -> BaseException:
    detail = {"message": message, "domain": "usageLimits", "reason": reason}
    return fake(
        "googleapiclient.errors.HttpError < googleapiclient.errors.Error",
        f"<HttpError {status} when requesting https://www.googleapis.com/drive/v3/files/"
        f'{data["uuid"]}?alt=json returned "{message}". Details: "[{detail}]">',
        resp=SimpleNamespace(status=status),
        error_details=[detail],
        content=json.dumps({"error": {"errors": [detail], "code": status}}).encode(),
        uri=f"https://www.googleapis.com/drive/v3/files/{data['uuid']}?alt=json",
    )


@nasty
def google_limits_the_rate(data: Data) -> BaseException:
    return google(403, "rateLimitExceeded", "Rate Limit Exceeded", data)


@nasty
def google_has_no_storage(data: Data) -> BaseException:
    return google(403, "storageQuotaExceeded", "The user has exceeded their Drive storage", data)


@nasty
def google_has_no_file(data: Data) -> BaseException:
    return google(404, "notFound", f"File not found: {data['uuid']}.", data)


# Brokers, caches and other databases.
@nasty
def kafka_batch_expires(data: Data) -> BaseException:
    return fake(
        "kafka.errors.KafkaTimeoutError < kafka.errors.KafkaError < RuntimeError",
        f"KafkaTimeoutError: Batch for TopicPartition(topic='orders', partition={data['n'] % 7}) "
        f"containing {data['n']} record(s) expired: {data['n']} seconds have passed since batch "
        "creation plus linger time",
    )


@nasty
def cassandra_has_no_host(data: Data) -> BaseException:
    hosts = ", ".join(
        f'<Host: 10.0.0.{at}:9042 eu>: ConnectionRefusedError(111, "Tried connecting to '
        f"[('10.0.0.{at}', 9042)]. Last error: Connection refused\")"
        for at in range(1, 2 + data["n"] % 4)
    )
    return fake(
        "cassandra.cluster.NoHostAvailable",
        f"('Unable to complete the operation against any hosts', {{{hosts}}})",
    )


@nasty
def cassandra_times_out(data: Data) -> BaseException:
    return fake(
        "cassandra.WriteTimeout < cassandra.Timeout < cassandra.RequestExecutionException",
        "Error from server: code=1100 [Coordinator node timed out waiting for replica nodes' "
        'responses] message="Operation timed out - received only '
        f"{data['n'] % 3} responses.\" info={{'consistency': 'QUORUM', 'required_responses': 2, "
        f"'received_responses': {data['n'] % 3}, 'write_type': 'SIMPLE'}}",
    )


@nasty
def neo4j_has_a_duplicate(data: Data) -> BaseException:
    code = "Neo.ClientError.Schema.ConstraintValidationFailed"
    return fake(
        "neo4j.exceptions.ConstraintError < neo4j.exceptions.ClientError < "
        "neo4j.exceptions.Neo4jError",
        f"{{code: {code}}} {{message: Node({data['n']}) already exists with label `Order` and "
        f"property `id` = '{data['orderId']}'}}",
        code=code,
    )


@nasty
def ldap_entry_exists(data: Data) -> BaseException:
    return fake(
        "ldap3.core.exceptions.LDAPEntryAlreadyExistsResult < "
        "ldap3.core.exceptions.LDAPOperationResult < ldap3.core.exceptions.LDAPException",
        f"LDAPEntryAlreadyExistsResult - 68 - entryAlreadyExists - cn={data['name']},ou="
        f"{data['city']},dc=shop - 00000562: UpdErr: DSID-{data['uuid'][:8]}, problem 6005 "
        "(ENTRY_EXISTS), data 0 - addResponse - None",
        result=68,
        description="entryAlreadyExists",
    )


# Web services.
def slack(word: str, data: Data) -> BaseException:
    answer = {"ok": False, "error": word, "trace": data["uuid"]}
    return fake(
        "slack_sdk.errors.SlackApiError < slack_sdk.errors.SlackClientError",
        "The request to the Slack API failed. (url: https://slack.com/api/chat.postMessage)\nThe "
        f"server responded with: {answer}",
        response=answer,
    )


@nasty
def slack_has_no_channel(data: Data) -> BaseException:
    return slack("channel_not_found", data)


@nasty
def slack_has_an_old_channel(data: Data) -> BaseException:
    return slack("is_archived", data)


def stripe(kind: str, data: Data) -> BaseException:
    return fake(
        "stripe.error.InvalidRequestError < stripe.error.StripeError",
        f"Request req_{data['uuid'][:14]}: No such {kind}: '{kind}_{data['uuid'][:12]}'",
        http_status=400,
        code="resource_missing",
    )


@nasty
def stripe_has_no_customer(data: Data) -> BaseException:
    return stripe("customer", data)


@nasty
def stripe_has_no_coupon(data: Data) -> BaseException:
    return stripe("coupon", data)


@nasty
def twilio_dislikes_a_number(data: Data) -> BaseException:
    return fake(
        "twilio.base.exceptions.TwilioRestException < twilio.base.exceptions.TwilioException",
        f"HTTP 400 error: Unable to create record: The 'To' number +49{data['n']}0{data['n']} is "
        "not a valid phone number.",
        status=400,
        code=21211,
        uri=f"/Accounts/AC{data['uuid']}/Messages.json",
    )


@nasty
def mail_knows_no_recipient(data: Data) -> BaseException:
    refused = {
        row["email"]: (
            550,
            f"5.1.1 <{row['email']}>: Recipient address rejected: User unknown".encode(),
        )
        for row in many(data, 6)
    }
    return fake(
        "smtplib.SMTPRecipientsRefused < smtplib.SMTPException < OSError",
        refused,
        recipients=refused,
    )


@nasty
def an_answer_is_cut(data: Data) -> BaseException:
    read, more = data["n"] * 17, data["n"]
    text = f"IncompleteRead({read} bytes read, {more} more expected)"
    return requests.exceptions.ChunkedEncodingError(f"('Connection broken: {text}', {text})")


@nasty
def an_answer_is_a_page(data: Data) -> BaseException:
    return fake(
        "aiohttp.client_exceptions.ContentTypeError < aiohttp.client_exceptions.ClientError",
        "200, message='Attempt to decode JSON with unexpected mimetype: text/html', "
        f"url='https://bank.example/orders/{data['orderId']}?name={data['sku']}'",
        status=200,
    )


@nasty
def a_host_has_no_file(data: Data) -> BaseException:
    return OSError(2, f"No such file: '/in/{data['city']}/{data['name']}.csv'")


@nasty
def a_command_fails(data: Data) -> BaseException:
    command = ["convert", *(f"/data/{row['orderId']}-{row['name']}.pdf" for row in many(data, 20))]
    return subprocess.CalledProcessError(1, command)


# A team's own texts.
@nasty
def orders_are_not_paid(data: Data) -> BaseException:
    raise ValueError(f"orders {[row['orderId'] for row in many(data, 200)]} are not paid")


@nasty
def customers_are_blocked(data: Data) -> BaseException:
    raise ValueError(f"customers {', '.join(row['name'] for row in many(data))} are blocked")


def bank_answers(code: str, data: Data) -> BaseException:
    answer = {"error": {"code": code, "message": data["note"]}, "id": data["uuid"]}
    raise RuntimeError(f"the bank answered 422: {json.dumps(answer)}")


@nasty
def a_bank_refuses(data: Data) -> BaseException:
    return bank_answers("INSUFFICIENT_FUNDS", data)


@nasty
def a_bank_closes_an_account(data: Data) -> BaseException:
    return bank_answers("ACCOUNT_CLOSED", data)


@nasty
def a_ledger_does_not_balance(data: Data) -> BaseException:
    number = random.Random(data["seed"])
    left, right = number.random() * 10**6, number.randrange(10**7)
    raise ValueError(
        f"debit {left:,.2f} EUR and credit {right:,} EUR differ by {left - right:+.2f}"
    )


@nasty
def all_tries_fail(data: Data) -> BaseException:
    tries = [
        f"try {at + 1} after {row['n'] / 7:.2f}s: timeout" for at, row in enumerate(many(data, 9))
    ]
    raise RuntimeError("the carrier gave no answer; " + "; ".join(tries))


# What a last reading added, after the grouping was written: two of its 17 were one group.


def sql_server_null(column: str, data: Data) -> BaseException:
    return fake(
        "pyodbc.IntegrityError < pyodbc.DatabaseError < pyodbc.Error",
        "23000",
        "[23000] [Microsoft][ODBC Driver 18 for SQL Server][SQL Server]Cannot insert the value "
        f"NULL into column '{column}', table 'shop.dbo.orders'; column does not allow nulls. "
        "INSERT fails. (515) (SQLExecDirectW)",
    )


@nasty
def sql_server_has_no_total(data: Data) -> BaseException:
    return sql_server_null("total", data)


@nasty
def sql_server_has_no_currency(data: Data) -> BaseException:
    return sql_server_null("currency", data)


def oracle_null(column: str, data: Data) -> BaseException:
    return fake(
        "oracledb.exceptions.IntegrityError < oracledb.exceptions.DatabaseError",
        f'ORA-01400: cannot insert NULL into ("SHOP"."ORDERS"."{column}")\nHelp: https://docs.oracle'
        ".com/error-help/db/ora-01400/",
    )


@nasty
def oracle_has_no_total(data: Data) -> BaseException:
    return oracle_null("TOTAL", data)


@nasty
def oracle_has_no_currency(data: Data) -> BaseException:
    return oracle_null("CURRENCY", data)


@nasty
def mysql_dislikes_an_integer(data: Data) -> BaseException:
    return fake(
        "pymysql.err.DataError < pymysql.err.DatabaseError < pymysql.err.MySQLError",
        1366,
        f"Incorrect integer value: '{data['name']}' for column 'n' at row {data['n']}",
    )


def postgres_check(constraint: str, data: Data) -> BaseException:
    return fake(
        "psycopg.errors.CheckViolation < psycopg.IntegrityError < psycopg.DatabaseError",
        f'new row for relation "orders" violates check constraint "{constraint}"\nDETAIL:  Failing '
        f"row contains ({data['orderId']}, {data['name']}, {data['status']}, null).",
        sqlstate="23514",
    )


@nasty
def postgres_checks_the_total(data: Data) -> BaseException:
    return postgres_check("orders_total_check", data)


@nasty
def postgres_checks_the_state(data: Data) -> BaseException:
    return postgres_check("orders_state_check", data)


def azure(code: str, text: str, data: Data) -> BaseException:
    return fake(
        "azure.core.exceptions.HttpResponseError < azure.core.exceptions.AzureError",
        f"({code}) {text}\nRequestId:{data['uuid'][:8]}-601e-0042\nTime:2026-01-"
        f"{1 + data['n'] % 28:02d}T10:00:{data['n']:02d}.0000000Z\nErrorCode:{code}",
        status_code=404,
        error_code=code,
    )


@nasty
def azure_has_no_blob(data: Data) -> BaseException:
    return azure("BlobNotFound", "The specified blob does not exist.", data)


@nasty
def azure_has_no_container(data: Data) -> BaseException:
    return azure("ContainerNotFound", "The specified container does not exist.", data)


@nasty
def kubernetes_has_a_conflict(data: Data) -> BaseException:
    body = {
        "kind": "Status",
        "message": f'Operation cannot be fulfilled on jobs.batch "{data["orderId"]}": the object '
        "has been modified",
        "reason": "Conflict",
        "code": 409,
    }
    return fake(
        "kubernetes.client.exceptions.ApiException < kubernetes.client.exceptions.OpenApiException",
        f"(409)\nReason: Conflict\nHTTP response headers: HTTPHeaderDict({{'Audit-Id': "
        f"'{data['uuid']}', 'Date': 'Mon, {data['n']:02d} Jan 2026 10:00:00 GMT'}})\nHTTP response "
        f"body: {json.dumps(body)}\n",
        status=409,
        reason="Conflict",
        body=json.dumps(body),
    )


@nasty
def dynamodb_dislikes_a_number(data: Data) -> BaseException:
    return aws_error(
        "ValidationException",
        "The parameter cannot be converted to a numeric value: " + data["name"],
        "PutItem",
    )


@nasty
def kinesis_dislikes_a_name(data: Data) -> BaseException:
    return aws_error(
        "ValidationException",
        f"1 validation error detected: Value '{data['name']}' at 'partitionKey' failed to satisfy "
        "constraint: Member must have length less than or equal to 256",
        "PutRecord",
    )


@nasty
def bigquery_dislikes_rows(data: Data) -> BaseException:
    errors = [
        {
            "index": at,
            "errors": [
                {"reason": "invalid", "location": "n", "message": f"Cannot convert {row['name']}"}
            ],
        }
        for at, row in enumerate(many(data, 20))
    ]
    raise RuntimeError(f"rows were not inserted: {errors}")


@nasty
def httpx_has_no_order(data: Data) -> BaseException:
    request = httpx.Request("GET", f"https://bank.example/orders/{data['orderId']}/{data['sku']}")
    httpx.Response(404, request=request).raise_for_status()
    raise AssertionError


@nasty
def lines_fail(data: Data) -> BaseException:
    number = data["n"]
    raise ValueError(
        f"{number % 7} of {number} lines of {data['orderId']} have no price: {data['sku']}"
    )


@nasty
def redis_moves_a_slot(data: Data) -> BaseException:
    return fake(
        "redis.exceptions.MovedError < redis.exceptions.AskError < redis.exceptions.ResponseError "
        "< redis.exceptions.RedisError",
        f"{data['n'] * 97} 10.0.0.{data['n']}:6379",
    )


@nasty
def a_model_answers_no_json(data: Data) -> BaseException:
    raise ValueError(
        f"the model's answer is no JSON: Sure, {data['note']}! Here is the order: {data['sku']}"
    )
