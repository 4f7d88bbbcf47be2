"""Causes of failures, each with the many forms in which letters show it.

A cause is a function that fails with a letter's data. The handlers' code, the libraries' real
errors and, for libraries that are not installed, doubles stand side by side.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import enum
import json
import random
import sqlite3
import struct
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
        "redis.exceptions.ReadOnlyError < redis.exceptions.ResponseError < "
        "redis.exceptions.RedisError",
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
