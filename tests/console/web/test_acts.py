"""What a person changes by the page: a plan, a reason, once, and a row of the audit table."""

from __future__ import annotations

import html
import json
from collections.abc import Callable

import pytest

from tests.console.conftest import Cloud, Dlq, FakeLambda
from tests.console.web.conftest import Browser
from tests.each_row import each_row

Opened = Callable[..., Browser]


@pytest.fixture
def orders(cloud: Cloud, functions: FakeLambda) -> Cloud:
    """A pipeline whose router and redriver answer."""
    cloud.deploy("orders")
    functions.configure("orders")
    functions.routes = True
    return cloud


def test_an_act_is_planned_agreed_to_and_recorded_as_the_pages(
    cloud: Cloud, opened: Opened, dlq: Dlq
) -> None:
    cloud.deploy("orders")
    browser = opened(acts=True)
    plan = browser.post("plan/circuit-open", pipeline="orders", expires="2h")
    text = html.unescape(plan.text)
    assert "Nothing was changed yet" in text
    assert "dlq circuit open -p orders --expires 2h" in text
    assert json.loads(dlq("circuit", "list", "--json").stdout)["circuits"][0]["state"] == "CLOSED"

    do = browser.planned("circuit-open", pipeline="orders", expires="2h")
    done = browser.post(do, reason="the bank is down")

    assert done.status == 200, done.text
    [row] = json.loads(dlq("circuit", "list", "--json").stdout)["circuits"]
    assert (row["state"], row["forced_reason"]) == ("OPEN", "the bank is down")
    [change] = json.loads(dlq("audit", "--json").stdout)["changes"]
    assert (change["command"], change["via"], change["outcome"]) == (
        "circuit open", "dlq ui", "done",
    )  # fmt: skip
    # A second click finds nothing to do.
    again = browser.post(do, reason="the bank is down")
    assert (again.status, "was carried out" in again.text) == (404, True)


def test_without_a_reason_nothing_is_done_and_the_plan_stays(
    cloud: Cloud, opened: Opened, dlq: Dlq
) -> None:
    cloud.deploy("orders")
    browser = opened(acts=True)
    do = browser.planned("circuit-open", pipeline="orders", expires="2h")
    refused = browser.post(do, reason="  ")
    assert (refused.status, "needs a reason" in refused.text) == (400, True)
    assert json.loads(dlq("audit", "--json").stdout)["changes"] == []
    assert browser.post(do, reason="now with one").status == 200


def test_a_retry_names_its_count_and_leads_to_its_run(orders: Cloud, opened: Opened) -> None:
    ids = [orders.park("orders", "POISON", origin=f"first-{number}") for number in range(3)]
    browser = opened(acts=True)
    plan = browser.post("plan/retry", pipeline="orders", places="parked", everything="on")
    assert plan.status == 200, plan.text
    assert "<button>Retry 3 messages</button>" in plan.text, (ids, plan.text)
    do = browser.planned("retry", pipeline="orders", places="parked", everything="on")
    done = browser.post(do, reason="fixed")
    assert done.status == 303, done.text
    assert browser.get(done.headers["location"].removeprefix(browser.guard.root)).status == 200


def test_a_message_is_edited_before_it_is_sent(orders: Cloud, opened: Opened) -> None:
    orders.park("orders", "POISON", json.dumps({"price": 0}), origin="first-1")
    browser = opened(acts=True)
    choice = {"pipeline": "orders", "places": "parked", "everything": "on", "edit": "on"}
    first = browser.post("plan/retry", **choice)
    text = html.unescape(first.text)
    assert '"price": 0' in text, text
    document = text.partition('spellcheck="false">')[2].partition("</textarea>")[0]
    changed = document.replace('"price": 0', '"price": 7')
    plan = browser.post("plan/retry", **choice, document=changed)
    assert '"price": 7' in html.unescape(plan.text), plan.text
    same = browser.post("plan/retry", **choice, document="no JSON")
    assert same.status == 400


@each_row(
    ("path", "fields", "says"),
    [
        ("retry", {}, "which messages"),
        ("retry", {"ids": "A-4711", "rate": "fast"}, "rate is no number that is allowed"),
        ("retry", {"ids": "A-4711", "rate": "0"}, "rate is no number that is allowed"),
        ("run-hold", {}, "RUN is missing"),
        ("rules-add", {"rule": "r", "action": "HOLD", "pipeline": "orders"}, "which messages"),
    ],
)
def test_a_form_that_is_wrong_is_answered_with_a_sentence(
    cloud: Cloud, opened: Opened, path: str, fields: dict[str, str], says: str
) -> None:
    cloud.deploy("orders")
    answer = opened(acts=True).post(f"plan/{path}", **fields)
    assert 400 <= answer.status < 500, answer.text
    assert says in html.unescape(answer.text)


def test_a_form_asks_for_what_its_verb_asks(cloud: Cloud, opened: Opened) -> None:
    cloud.deploy("orders")
    answer = opened(acts=True).get("form/rules-add?pipeline=orders&terms=tenant%3Dcedar")
    for name in ("rule", "pipeline", "action", "terms", "expires", "max_matches"):
        assert f'name="{name}"' in answer.text
    assert "tenant=cedar</textarea>" in answer.text
