"""Causes: how many messages of which tenant, and in which version of the consumer."""

from __future__ import annotations

import html
import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from console.operations import groups
from console.web.page import heat
from deadletter.failure.ledger import AboutLetter
from tests.console.conftest import Cloud, Dlq
from tests.console.web.conftest import Browser
from tests.each_row import each_row

Opened = Callable[..., Browser]

DOWN = {"error_type": "HTTPError", "http_status": 503, "fingerprint": "f503" * 4}
BUG = {"error_type": "KeyError", "fingerprint": "0b06" * 4}


@pytest.fixture
def orders(cloud: Cloud) -> Cloud:
    cloud.deploy("orders", settings={"consumer_library": True}, context=("tenantId",))
    return cloud


def fail(cloud: Cloud, tenant: str, messages: int, **facts: Any) -> None:
    """Messages of a tenant that fail; without a name they do not say whose they are."""
    about = AboutLetter({"tenantId": tenant} if tenant else {})
    for number in range(messages):
        name = f"{facts['fingerprint']}-{tenant}-{number}"
        cloud.failed("orders", name, about, **facts)


def told(dlq: Dlq, *typed: str) -> Any:
    answer = dlq(*typed, "--json", ends=0)
    return json.loads(answer.stdout)


def heat_rows(text: str) -> list[list[str]]:
    """The cells of the table of heat, headings first; a step of colour stands before its number."""
    table = text.partition('<table class="heat"')[2].partition("</table>")[0]
    cells = re.compile(r'<t[hd][^>]*?(?:class="n h(\d)"[^>]*)?>([^<]*)</t[hd]>')
    rows = [cells.findall(row) for row in table.split("</tr>")]
    return [[f"{step} {cell}".strip() for step, cell in row] for row in rows if row]


def test_causes_and_tenants_are_a_table_of_the_numbers_of_the_command(
    orders: Cloud, opened: Opened, dlq: Dlq
) -> None:
    fail(orders, "cedar", 30, **DOWN)
    fail(orders, "acme", 4, **DOWN)
    fail(orders, "", 2, **DOWN)
    fail(orders, "acme", 1, **BUG)

    answer = told(dlq, "groups", "orders")
    rows = heat_rows(opened().get("causes").text)

    assert answer["tenants"] == ["cedar", "acme"]
    assert [group["by_tenant"] for group in answer["groups"]] == [
        {"cedar": 30, "acme": 4}, {"acme": 1},
    ]  # fmt: skip
    assert rows == [
        ["cause", "cedar", "acme", "others"],
        ["f503f503", "5 30", "3 4", "2 2"],
        ["0b060b06", "0 0", "2 1", "0 0"],
    ]


def test_eight_tenants_have_a_column_and_the_rest_are_others(
    orders: Cloud, opened: Opened, dlq: Dlq
) -> None:
    for number in range(10):
        fail(orders, f"t-{number}", 20 - number, **DOWN)
    answer = told(dlq, "groups", "orders")
    assert answer["tenants"] == [f"t-{number}" for number in range(8)]
    [_, row] = heat_rows(opened().get("causes").text)
    assert row[-1].partition(" ")[2] == str(11 + 12)
    assert told(dlq, "show", "cause:f503f503")["causes"][0]["group"] == answer["groups"][0]


def test_where_not_all_was_read_each_number_is_at_least_so_large(
    orders: Cloud, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "MOST_ROWS", 0)
    monkeypatch.setattr(groups, "A_FEW", 1)
    fail(orders, "cedar", 30, **DOWN)
    [_, row] = heat_rows(opened().get("causes").text)
    assert row[1].startswith("5 ≥ ")
    assert row[2] == "0 0"


def test_without_tenants_there_is_no_such_table(orders: Cloud, opened: Opened) -> None:
    fail(orders, "", 2, **DOWN)
    assert 'class="heat"' not in opened().get("causes").text
    fail(orders, "cedar", 2, **DOWN)
    assert 'class="heat"' in opened().get("causes").text
    # A tenant fails in its own column alone.
    assert 'class="heat"' not in opened().get("causes?by=tenant").text


@each_row(
    ("number", "most", "step"),
    [
        *((0, 1, 0), (1, 1, 5), (0, 9, 0)),
        *((1, 1_000, 1), (10, 1_000, 2), (30, 1_000, 3), (100, 1_000, 4), (1_000, 1_000, 5)),
    ],
)
def test_a_step_of_colour_stands_for_as_many_times_the_one_before(
    number: int, most: int, step: int
) -> None:
    assert heat(number, most) == step


@each_row(
    ("versions", "first", "last"),
    [
        (("4.1", "4.2"), "4.1", "4.2"),
        (("4.2", "4.2"), "4.2", "4.2"),
        (("4.2", ""), "4.2", ""),
        (("", "4.2"), "", "4.2"),
        (("", ""), "", ""),
    ],
)
def test_a_cause_says_in_which_versions_it_failed_first_and_last(
    orders: Cloud, opened: Opened, dlq: Dlq, versions: tuple[str, str], first: str, last: str
) -> None:
    now = time.time()
    for number, version in enumerate(versions):
        at = now - 900 + 300 * number
        orders.failed("orders", f"m{number}", at=at, version=version, **DOWN)
    # Another message of the same cause, and the same message with another cause before.
    orders.failed("orders", "between", at=now - 800, version="9.9", **DOWN)
    orders.failed("orders", "m0", at=now - 1_000, receive=2, version="3.0", **BUG)
    orders.failed("orders", "m0", at=now - 900, version=versions[0], **DOWN)

    [group] = told(dlq, "groups", "orders")["groups"]
    assert (group["version"], group["last_version"]) == (first, last)
    assert group["version_at"] is not None
    page = " ".join(html.unescape(opened().get("causes/f503f503").text).split())
    said = f"<dt>versions</dt><dd>{first or 'unknown'} in the first failure on record, 15 min ago"
    assert f"{said}; {last or 'unknown'} in the last</dd>" in page
    typed = dlq("show cause:f503f503").stdout
    says = f"on record first in version {first or 'unknown'}, last in {last or 'unknown'}"
    assert (says in " ".join(typed.split())) is bool(first or last)
    assert ("since version" in opened().get("causes").text) is bool(first)


def test_a_version_is_no_matter_of_a_tenant(orders: Cloud, dlq: Dlq) -> None:
    orders.failed("orders", "m0", AboutLetter({"tenantId": "cedar"}), version="4.2", **DOWN)
    [group] = told(dlq, "groups", "orders", "--by", "tenant")["groups"]
    assert (group["version"], group["version_at"], group["last_version"]) == ("", None, "")
