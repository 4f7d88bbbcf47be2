"""What remains of the errors of real libraries is enough to recognise them."""

from __future__ import annotations

import json
import os
import sqlite3
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pydantic
import requests
from botocore.exceptions import ClientError

from deadletter.failure.classify import diagnose
from tests.each_row import each_row
from tests.failure.exceptions import caught
from tests.samples import NOW, letter

BODY = json.dumps(
    {
        "orderId": "7",
        "shipping": {"city": "Reading"},
        "note": "please call before the delivery: it is not open, and no one is at home",
    }
)


class Order(pydantic.BaseModel):
    number: int


def aws(code: str, message: str, operation: str = "PutItem") -> Callable[[], object]:
    def call() -> None:
        raise ClientError({"Error": {"Code": code, "Message": message}}, operation)

    return call


def duplicate() -> None:
    shop = sqlite3.connect(":memory:")
    shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    for _ in range(2):
        shop.execute("INSERT INTO orders VALUES (7)")


def refused() -> None:
    response = requests.Response()
    response.status_code, response.reason = 503, "Service Unavailable"
    response.url = "https://shop.example/orders?token=swordfish"
    response.raise_for_status()


@each_row(
    ("throw", "remains"),
    [
        (lambda: json.loads("{x"), "Expecting property name … in double quotes: line …"),
        (lambda: json.loads(""), "Expecting value: …"),
        (lambda: int("swordfish"), "invalid literal for int … with base …"),
        (lambda: {}["orderId"], "orderId"),
        (lambda: [][3], "list index out of range"),
        (lambda: letter().shipping, "Letter object has no attribute shipping"),
        (lambda: os.environ["SHOP_URL"], "SHOP_URL"),
        (lambda: 1 / 0, "division by zero"),
        (lambda: Path("/nope/anna").read_text(), "Errno … No such file or directory: …"),
        (lambda: b"\xff".decode(), "… can't decode byte … in position … invalid start byte"),
        (lambda: Order.model_validate({}), "… validation error for … number Field required …"),
        (duplicate, "UNIQUE constraint failed: …"),
        (refused, "… Server Error: Service Unavailable for url: …"),
        (lambda: urllib.request.urlopen("http://127.0.0.1:1/"), "… error … Connection refused"),
        (
            lambda: requests.get("http://127.0.0.1:1/orders", timeout=1),
            "… Max retries exceeded with url: …",
        ),
        (
            aws("ThrottlingException", "Rate exceeded"),
            "An error occurred ThrottlingException when calling the PutItem operation:"
            " Rate exceeded",
        ),
        (
            aws("NoSuchKey", "The specified key does not exist.", "GetObject"),
            "An error occurred NoSuchKey when calling the GetObject operation: The specified key"
            " does not exist.",
        ),
    ],
)
def test_the_essential_words_of_an_error_remain(throw: Callable[[], object], remains: str) -> None:
    message = diagnose(caught(throw), letter(BODY), now=NOW).message
    assert message.startswith(remains) if remains.endswith("…") else message == remains
