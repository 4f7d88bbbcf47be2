"""The report of a run, as the file of `dlq show RUN --html` and on the screen of the run."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest

from console.cli.exit import Exit
from console.operations.replay_report import MEANING, GroupAccount, RunMinute
from console.web import page as pages
from tests.console.cli.test_replay_report import RUN, kept, run
from tests.console.conftest import Cloud, Dlq
from tests.console.web.conftest import Browser
from tests.console.web.test_guard import HOSTILE
from tests.e2e.test_replay_page import BEGAN, broken, page


@pytest.fixture
def ended(cloud: Cloud) -> None:
    """A run that has ended, with its account."""
    cloud.deploy("orders")
    cloud.replay(run())
    kept(cloud)


def test_the_screen_of_a_run_has_the_parts_of_its_report(
    ended: None, opened: Callable[..., Browser], dlq: Dlq, tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    dlq(f"show {RUN} --html", str(file), ends=Exit.DONE)
    account = re.findall(r'<p class="lead.*(?=<h2>The run</h2>)', file.read_text(), re.S)
    assert "By cause" in account[0]
    assert account[0] in opened().get(f"runs/{RUN}").text


def test_what_can_not_be_a_file_is_said_in_a_sentence(
    ended: None, dlq: Dlq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "report.html"
    done = dlq("show pipeline:orders --html", str(file), ends=Exit.USAGE)
    assert done.stderr == "Error: Only a run has a page: orders is a pipeline.\n"
    monkeypatch.delitem(sys.modules, "console.web.page")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    done = dlq(f"show {RUN} --html", str(file), ends=Exit.USAGE)
    assert done.stderr == "Error: The page needs more packages: pip install 'deadletter[ui]'.\n"
    assert not file.exists()


def test_what_people_and_messages_say_is_text() -> None:
    account = broken(1)
    group = GroupAccount(HOSTILE, HOSTILE, 1, {HOSTILE: 1})
    html = page(
        replace(
            account, run=replace(account.run, pipeline=HOSTILE, because=HOSTILE, by=HOSTILE),
            who=HOSTILE, why=HOSTILE, says=HOSTILE, missed=HOSTILE, counts={HOSTILE: 1},
            causes=[group], tenants=[group], keys=[group], minutes=[RunMinute(BEGAN, {HOSTILE: 1})],
        )
    )  # fmt: skip
    assert not re.search(r"<script|<img|\x1b|\u202e", html)
    assert html.count(escape("<script>alert(1)</script>")) > 12
    assert "{{ 7*7 }}" in html


def test_counted_messages_that_did_not_join_are_said() -> None:
    assert "<p>9 were counted</p>" in page(replace(broken(1), missed="9 were counted"))


def rectangles(html: str, title: str) -> list[tuple[str, list[float]]]:
    """The outcomes of a drawing, each with its numbers."""
    drawing = html.partition(title)[2].partition("</svg>")[0]
    return [
        (name, [float(number) for number in re.findall(r'"([\d.e-]+)"', rest)])
        for name, rest in re.findall(r'<rect class="o-([a-z]+)"([^>]*)>', drawing)
    ]


def test_a_bar_is_as_long_as_the_messages_and_divided_by_outcome() -> None:
    account = replace(broken(1), messages=8, counts={"RECOVERED": 4, "LEFT": 0, "PARKED": 2})
    [*parts] = rectangles(page(account), 'class="bar"')
    assert parts == [("recovered", [0, 0.5, 1]), ("parked", [0.5, 0.25, 1])]


def test_the_parts_of_a_minute_stand_on_one_another_and_the_busiest_fills_the_height() -> None:
    minutes = [RunMinute(BEGAN, {"PARKED": 1}), RunMinute(None, {"RECOVERED": 3, "PARKED": 1})]
    html = page(replace(broken(1), minutes=minutes))
    assert rectangles(html, "minute by minute") == [
        ("parked", [0, 0.75, 0.48, 0.25]),
        ("recovered", [0.5, 0.25, 0.48, 0.75]),
        ("parked", [0.5, 0, 0.48, 0.25]),
    ]
    assert "at most 4 messages a minute" in html


def test_each_outcome_has_its_colour_but_those_that_must_not_be() -> None:
    style = (Path(pages.__file__).parent / "static" / "page.css").read_text()
    colours = re.findall(r"^(\.o-.*) \{ --is: (#\w+); \}", style, re.M)
    named = {name.upper() for classes, _ in colours for name in re.findall(r"o-(\w+)", classes)}
    assert set(MEANING) - named == {"MISSING", "UNACCOUNTED"}
    assert len({colour for _, colour in colours}) == len(named)
