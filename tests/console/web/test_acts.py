"""What a person changes by the page: a plan, a reason, once, and a row of the audit table."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Event

import pytest

from deadletter.replay.edits import EditRefused
from deadletter.replay.run import RunState
from tests.console.cli.test_retry import BODIES, Held
from tests.console.conftest import Cloud, Dlq, FakeLambda, routed
from tests.console.test_every_change_is_recorded import refusing
from tests.console.web.conftest import Browser
from tests.each_row import each_row

Opened = Callable[..., Browser]


@pytest.fixture
def orders(cloud: Cloud, functions: FakeLambda) -> Cloud:
    return routed(cloud, functions)


def test_an_act_is_planned_agreed_to_and_recorded_as_the_pages(
    cloud: Cloud, opened: Opened, dlq: Dlq
) -> None:
    cloud.deploy("orders")
    browser = opened(acts=True)
    plan = browser.post("plan/circuit-open", pipeline="orders", expires="2h")
    text = html.unescape(plan.text)
    assert "Nothing was changed yet" in text
    assert "dlq circuit open -p orders --expires 2h" in text
    assert json.loads(dlq("circuit list --json").stdout)["circuits"][0]["state"] == "CLOSED"

    do = browser.planned("circuit-open", pipeline="orders", expires="2h")
    done = browser.post(do, reason="the bank is down")

    assert done.status == 200, done.text
    [row] = json.loads(dlq("circuit list --json").stdout)["circuits"]
    assert (row["state"], row["forced_reason"]) == ("OPEN", "the bank is down")
    [change] = json.loads(dlq("audit --json").stdout)["changes"]
    said = (change["command"], change["via"], change["outcome"])
    assert said == ("circuit open", "dlq ui", "done")
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
    assert json.loads(dlq("audit --json").stdout)["changes"] == []
    assert browser.post(do, reason="now with one").status == 200


def test_a_retry_names_its_count_and_leads_to_its_run(orders: Cloud, opened: Opened) -> None:
    for number in range(3):
        orders.park("orders", "POISON", origin=f"first-{number}")
    browser = opened(acts=True)
    choice = {"pipeline": "orders", "places": "parked", "everything": "on"}
    assert "<button>Retry 3 messages</button>" in browser.post("plan/retry", **choice).text
    done = browser.post(browser.planned("retry", **choice), reason="fixed")
    assert done.status == 303, done.text
    assert browser.get(done.headers["location"].removeprefix(browser.guard.root)).status == 200


def test_a_page_names_the_run_that_was_started_before_another_could_not_be(
    orders: Cloud, functions: FakeLambda, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.letter("{}")
    orders.park("orders", "POISON")
    refusing(monkeypatch, allowed=2)
    browser = opened(acts=True)
    do = browser.planned("discard", pipeline="orders", places="dlq\nparked", everything="on")
    answer = browser.post(do, reason="not wanted").text
    [run] = (json.loads(each["input"])["run"] for each in functions.machine.started)
    assert f"Changes made: discard: run {run}. Nothing more was done" in answer


EDIT = {"pipeline": "orders", "places": "parked", "everything": "on", "edit": "on"}


def edited(browser: Browser) -> str:
    """The parked message, as the page has a person edit it."""
    page = html.unescape(browser.post("plan/retry", **EDIT).text)
    return page.partition('spellcheck="false">')[2].partition("</textarea>")[0]


def test_a_message_is_edited_before_it_is_sent(orders: Cloud, opened: Opened) -> None:
    orders.park("orders", "POISON", json.dumps({"price": 0}), origin="first-1")
    browser = opened(acts=True)
    document = edited(browser)
    assert '"price": 0' in document
    changed = document.replace('"price": 0', '"price": 7')
    plan = browser.post("plan/retry", **EDIT, document=changed)
    assert '"price": 7' in html.unescape(plan.text), plan.text
    assert browser.post("plan/retry", **EDIT, document="no JSON").status == 400


@dataclass
class EditedRetry:
    """A retry of a message that was edited in the page; its run takes it when the test says so."""

    cloud: Cloud
    browser: Browser
    worker: ThreadPoolExecutor
    taken: Event = field(default_factory=Event)
    run: str = ""
    held: Held | None = None

    def begin(self) -> str:
        """What the page shows at once."""
        self.cloud.park("orders", "POISON", BODIES[0], origin="origin-0")
        document = edited(self.browser).replace("1.10", "13")
        do = self.browser.planned("retry", **EDIT, document=document)
        done = self.browser.post(do, reason="the price was wrong")
        assert done.status == 303, done.text
        self.run = done.headers["location"].removeprefix(self.browser.guard.root)
        return self.page()

    def page(self) -> str:
        return html.unescape(self.browser.get(self.run).text)

    def end(self) -> str:
        """Lets the run take its message, and waits for the edit; what the page shows then."""
        self.taken.set()
        self.worker.shutdown()
        return self.page()


@pytest.fixture
def retry(
    orders: Cloud, opened: Opened, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> EditedRetry:
    is_taken = getattr(request, "param", True)

    def pause(_seconds: float) -> None:
        assert edited.taken.wait(60)
        replays = orders.replays("orders")
        [before] = replays.all()
        after = replace(before, generation=before.generation + 1, state=RunState.HELD)
        if is_taken:
            edited.held = Held(orders, BODIES[:1], before)
            after = replace(after, resume_to=RunState.CANARY, messages=1)
        replays.change(before, after)

    worker = ThreadPoolExecutor()
    monkeypatch.setattr("console.web.acts.ThreadPoolExecutor", lambda **_: worker)
    edited = EditedRetry(orders, opened(acts=True, pause=pause), worker)
    return edited


def test_an_edited_retry_leads_to_its_run_at_once_and_sends_what_was_edited(
    retry: EditedRetry, dlq: Dlq
) -> None:
    begun = retry.begin()
    assert "Its messages are edited first. Nothing is sent before." in begun
    assert ">Resume<" not in begun
    # The run is on record, and nothing of the message was changed yet.
    [row] = json.loads(dlq("audit --json").stdout)["changes"]
    assert (row["command"], row["via"], row["why"]) == ("retry", "dlq ui", "the price was wrong")
    assert retry.held is None

    after = retry.end()

    assert retry.held is not None
    assert json.loads(retry.held.sent(0).body)["price"] == 13
    assert "edited first" not in after
    assert "CANARY" in after
    commands = [row["command"] for row in json.loads(dlq("audit --json").stdout)["changes"]]
    assert commands == ["run resume", "retry", "retry"]


@pytest.mark.parametrize("retry", [False], indirect=True)
def test_an_edit_that_fails_is_said_on_the_page_of_its_run(retry: EditedRetry) -> None:
    retry.begin()
    after = retry.end()
    assert "so it was ended: nothing was edited or sent" in after
    assert "ABORTED" in after


def test_a_message_that_refuses_its_edit_stays_held_and_the_page_says_why(
    retry: EditedRetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise EditRefused("the pipeline would not take it")

    retry.begin()
    monkeypatch.setattr("console.operations.edits._checked", refuses)
    after = retry.end()
    assert "1 could not be edited: the pipeline would not take it." in after
    assert "HELD" in after
    # What a person resumed now would be the message as it was.
    assert ">Resume<" not in after


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
