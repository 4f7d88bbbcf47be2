"""`dlq ui` of the deployed app, as its server serves it over the network."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from sandbox.command_line import ENVIRONMENT, ROOT
from sandbox.server import Sandbox
from tests.chromium import Tab
from tests.console.web.hand import Hand
from tests.e2e.deployed import Deployed, event
from tests.e2e.receiver import Receiver

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CLICKS = 80

# `dlq`, by the clock of the deployed app: the audit table compares its times with theirs.
DLQ = (
    "import runpy, sys; from sandbox import fast_clock; fast_clock.install();"
    " sys.argv[0] = 'dlq'; runpy.run_module('console', run_name='__main__', alter_sys=True)"
)


@contextmanager
def served(sandbox: Sandbox, *options: str) -> Iterator[subprocess.Popen[str]]:
    """`dlq ui`, typed by a person who may stop it by Ctrl-C."""
    typed = [sys.executable, "-c", DLQ, "ui", *options]
    environment = {**ENVIRONMENT, **sandbox.clock_environment, **sandbox.environment}
    environment["BROWSER"] = "true"
    with subprocess.Popen(
        typed, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
    ) as started:
        yield started
        started.kill()


@pytest.fixture
def page(orders: Deployed, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """The page of the deployed app; a test may add options."""
    with served(orders.sandbox, *getattr(request, "param", ())) as started:
        yield started


def address_of(page: subprocess.Popen[str]) -> str:
    """The address that it prints."""
    assert page.stderr is not None
    return next(line.strip() for line in page.stderr if line.strip().startswith("http://"))


def fetched(url: str, **headers: str) -> tuple[int, str, str]:
    """Status, text and cookie of an answer."""
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - this machine's
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - as above
            return answer.status, answer.read().decode(), answer.headers.get("set-cookie", "")
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), ""


def test_the_page_of_the_deployed_app_is_served_to_who_was_told_its_address(
    orders: Deployed, page: subprocess.Popen[str]
) -> None:
    address = address_of(page)
    home = address.partition("enter?")[0]
    assert fetched(home)[0] == 403
    status, _, cookie = fetched(address)
    assert status == 200
    assert fetched(address)[0] == 403
    name = cookie.partition(";")[0]
    screens = {"": "orders", "causes": "Causes", "find?in=dlq": "Find", "runs": "Runs"}
    for path, shows in screens.items():
        status, text, _ = fetched(f"{home}{path}", Cookie=name)
        assert (status, shows in text) == (200, True), text
        assert not re.search("secret|AKIA", text)
    page.send_signal(signal.SIGINT)
    assert page.wait(30) in (0, 130)


@dataclass
class Person:
    """Who clicks through the deployed app, and what the audit table has to say of it."""

    hand: Hand
    orders: Deployed
    changed: list[str] = field(default_factory=list)

    @property
    def page(self) -> Page:
        return self.hand.tab.page

    def agree(self, button: str, command: str) -> None:
        self.hand.agree(button)
        self.changed.append(command)

    def look_around(self) -> None:
        """Each screen, and its causes by everything that they can be grouped by."""
        for name in ("Causes", "Find", "Runs", "Now"):
            self.hand.link(name)
        self.hand.link("Causes")
        for by in self.page.get_by_label("By").locator("option").all_inner_texts():
            self.page.get_by_label("By").select_option(by)
            self.hand.button("Show")
            self.page.wait_for_url(f"**by={by}")

    def switch_the_circuit(self) -> None:
        self.hand.tab.open("form/circuit-open?pipeline=orders&expires=2h")
        self.hand.button("Plan it")
        self.agree("Open circuit", "circuit open")
        self.hand.link("Runs")
        self.hand.button("Release")
        self.agree("Release circuit", "circuit release")

        def is_closed() -> bool:
            circuits = self.orders.dlq("circuit", "list", "-p", "orders")["circuits"]
            return all(each["state"] == "CLOSED" for each in circuits)

        # It closes by a canary. Until then a run is held, and waits for a person.
        self.orders.until(is_closed, "the circuit is closed")

    def write_a_rule(self) -> None:
        name = f"page-{uuid.uuid4().hex[:8]}"
        self.hand.link("Runs")
        self.hand.link("Add a rule")
        given = {"rule": name, "pipeline": "orders", "action": "HOLD", "expires": "2h",
                 "terms": f"tenant={name}"}  # fmt: skip
        for field_, text in given.items():
            self.page.locator(f".fields [name={field_}]").fill(text)
        self.hand.button("Plan it")
        self.agree("Add rule", "rules add")
        for does in ("Disable", "Undo"):
            self._change(name, does)
            self.agree(f"{does} rule", f"rules {does.lower()}")

    def _change(self, rule: str, does: str) -> None:
        """Plan a change of a rule; a change that is not on record yet is looked for again."""
        while True:
            self.hand.link("Runs")
            self.hand.button(does, within=f"tr:has(th:text-is('{rule}'))")
            self.page.wait_for_url("**/plan/**")
            if "on record seconds later" not in self.hand.tab.text:
                return

    def choose_parked(self, id_: str, does: str) -> None:
        """Retry or discard one parked message, and wait until its run has ended."""
        self.hand.search(id_)
        self.hand.button(does)
        self.agree(f"{does} 1 message", does.lower())
        self.ended()

    def restore(self, id_: str) -> None:
        self.hand.search(id_)
        self.hand.button("Restore")
        self.agree("Restore 1 message", "restore")
        self.ended()

    def ended(self) -> None:
        self.page.wait_for_url("**/runs/*")
        done = self.page.locator(".chip:text-is('DONE')")
        self.orders.until(lambda: done.count() or None, "the page says that the run has ended")


@pytest.mark.parametrize("page", [("--act",)], indirect=True)
def test_eighty_clicks_do_what_their_commands_do(
    orders: Deployed,
    tenant: str,
    receiver: Receiver,
    page: subprocess.Popen[str],
    chromium: Browser,
) -> None:
    receiver.statuses[tenant] = 422
    ids = [orders.send(event(tenant)) for _ in range(2)]

    def parked() -> bool:
        orders.redrive()
        return len(orders.parked(tenant)) == len(ids)

    orders.until(parked, "both are parked")
    receiver.statuses[tenant] = 200
    before = orders.dlq("audit", "--limit", "1000")["changes"]
    address = address_of(page)
    with chromium.new_context() as context:
        tab = Tab(context, address.partition("enter?")[0])
        # Each screen asks the whole app, and a busy machine takes its time.
        tab.page.set_default_timeout(120_000)
        tab.page.goto(address)
        tab.page.wait_for_url(tab.home)
        person = Person(Hand(tab), orders)
        for _ in range(4):
            person.look_around()
        for _ in range(2):
            person.switch_the_circuit()
            person.write_a_rule()
        sent, thrown_away = ids
        person.choose_parked(sent, "Retry")
        for _ in range(2):
            person.choose_parked(thrown_away, "Discard")
            person.restore(thrown_away)
        assert tab.errors == []
        assert person.hand.clicks >= CLICKS
    assert orders.dlq("show", sent)["message"]["processed"]["answer"] == "yes"
    [place] = orders.dlq("show", thrown_away)["message"]["places"]
    assert place["where"] == "PARKED"
    changes = orders.dlq("audit", "--limit", "1000")["changes"]
    ours = reversed(changes[: len(changes) - len(before)])
    assert [(each["command"], each["via"]) for each in ours] == [
        (command, "dlq ui") for command in person.changed
    ]
