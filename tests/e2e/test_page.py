"""`dlq ui` of the deployed app, as its server serves it over the network."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from sandbox.command_line import ENVIRONMENT, ROOT
from tests.e2e.deployed import Deployed


@pytest.fixture
def page(orders: Deployed) -> Iterator[subprocess.Popen[str]]:
    """`dlq ui`, typed by a person who stops it by Ctrl-C."""
    typed = [sys.executable, "-m", "console.cli", "ui", "--no-browser"]
    environment = {**ENVIRONMENT, **orders.sandbox.environment}
    with subprocess.Popen(
        typed, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
    ) as started:
        yield started
        started.kill()


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
    assert page.stderr is not None
    address = next(line.strip() for line in page.stderr if line.strip().startswith("http://"))
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
