"""What is shown is what was seen, on a terminal and in a log."""

import io
import json
import re
from dataclasses import replace
from itertools import pairwise

import pytest
from rich.console import Console

from deadletter.circuit.state import Circuit, State
from sandbox.demo.beside import COUNTED, shown
from sandbox.demo.events import HEALTHY, RECOVERING, plan
from sandbox.demo.live import (
    LINE_EVERY,
    MEANINGS,
    account,
    comparison,
    figures,
    screen,
)
from sandbox.demo.look import Look
from sandbox.demo.pipeline import Seated
from sandbox.demo.play import deliveries
from sandbox.demo.receiver import Visit
from sandbox.demo.reconcile import DeliveredEvent, FoundLetters, reconcile
from sandbox.demo.report import Pages
from sandbox.demo.report import figures as report_figures
from tests.sandbox.demo_report import report

EVENTS = plan(seed=1)
LOOK = Look(
    at=1.0,
    dlq=31,
    main=47,
    parked=12,
    seated=[Seated("id", in_bucket=True)] * 3,
    visits=[Visit(HEALTHY, "a", "id", 1, 200), Visit(RECOVERING, "b", "id", 1, 503)],
    reports=[{"decisions": {"PARK:MALFORMED": 12, "REDRIVE": 64}}],
)


def console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=80)


def printed(where: Console) -> str:
    assert isinstance(where.file, io.StringIO)
    return where.file.getvalue()


def test_the_figures_show_every_place_every_decision_and_every_answer():
    where = console(terminal=False)
    where.print(figures(LOOK))
    words = printed(where).split()
    for name, number in (
        ("queue", "47"),
        ("DLQ", "31"),
        ("waiting", "3"),
        ("parked", "12"),
        ("PARK:MALFORMED", "12"),
        ("REDRIVE", "64"),
        ("200:", "1"),
        ("503:", "1"),
    ):
        assert (name, number) in pairwise(words)


@pytest.mark.parametrize("terminal", [True, False])
def test_all_circuits_are_shown_with_the_tenants_role_and_what_holds_letters_back(terminal):
    half_open = {RECOVERING: Circuit("birch/default", State.HALF_OPEN)}
    where = console(terminal=terminal)
    with screen(where, lambda: 0.0, total=331) as display:
        display.show(replace(LOOK, circuits=half_open))
    for text in ("aspen (healthy)", "birch (down)", "cedar (refuses)", "one canary goes first"):
        assert text in printed(where)


def test_every_state_of_a_circuit_is_explained():
    assert MEANINGS.keys() == set(State)


def test_the_comparison_has_a_column_for_each_way():
    where = console(terminal=False)
    way = {"system": "a loop", "how": "modelled", "note": "", **dict.fromkeys(COUNTED, 7)}
    where.print(comparison([way, way | {"broken": 1234}]))
    assert printed(where).count("modelled") == 2
    assert "1,234" in printed(where)


@pytest.mark.slow_because("the first test that needs the report makes it")
def test_the_comparison_fits_a_terminal_and_its_figures_stand_whole():
    where = console(terminal=False)
    where.print(comparison(report()["beside"]))
    lines = printed(where).splitlines()
    assert max(map(len, lines)) <= 80
    rows = {
        cells[0]: cells[1:] for line in lines if len(cells := re.split(r" *│ *", line)[1:-1]) == 5
    }
    for key, (title, _meaning) in COUNTED.items():
        assert rows[title] == [shown(way[key]) for way in report()["beside"]]


def test_a_log_gets_plain_lines_and_figures_only_now_and_then():
    where, now = console(terminal=False), [0.0]
    with screen(where, lambda: now[0], total=331) as display:
        display.note("a passing note")
        display.tell("rule typed")
        for now[0] in (0.0, LINE_EVERY - 1, LINE_EVERY, LINE_EVERY + 1):
            display.show(LOOK)
    lines = printed(where).splitlines()
    assert lines[0] == "   0.0 s  rule typed"
    assert len(lines) == 3
    assert "13 of 331 settled; main queue 47, DLQ 31, waiting 3, parked 12" in lines[1]
    assert "\x1b" not in printed(where)


def test_a_terminal_gets_the_story_the_figures_and_the_progress():
    where = console(terminal=True)
    with screen(where, lambda: 7.0, total=331) as display:
        display.note("[not markup]")
        display.tell("rule typed")
        display.show(LOOK)
    for text in ("rule typed", "PARK:MALFORMED", "13/331"):
        assert text in printed(where)


def test_more_sightings_than_events_do_not_overfill_the_bar():
    where = console(terminal=False)
    with screen(where, lambda: 0.0, total=10) as display:
        display.show(LOOK)
    assert "10 of 10 settled" in printed(where)


def test_the_account_shows_what_is_wrong():
    where = console(terminal=False)
    where.print(account(reconcile(EVENTS, FoundLetters(waiting=[EVENTS[0].digest]))))
    rows = [line.strip("│\n ") for line in printed(where).splitlines()]
    assert [" ".join(row.replace("│", " ").split()) for row in rows if "lost" in row] == [
        "lost 330"
    ]
    assert any("waiting" in row and row.endswith("1") for row in rows)


def test_the_report_has_the_figures_that_were_promised():
    outcome = reconcile(EVENTS, FoundLetters(delivered=[DeliveredEvent(EVENTS[0].digest)]))
    figures = report_figures(outcome, LOOK, Pages(11, ()), seconds=80.04)
    promised = "sent delivered parked_by_reason waiting lost duplicates seconds alarms_that_rang"
    assert set(promised.split()) <= figures.keys()
    assert (figures["sent"], figures["lost"], figures["seconds"]) == (331, 330, 80.0)
    assert json.loads(json.dumps(figures)) == figures


@pytest.mark.parametrize(
    ("webhook_id", "attempt", "recovered", "redriven"),
    [
        ("known", 1, (), False),
        ("known", 2, (), True),
        ("another", 1, (), True),
        ("known", 1, ("known",), True),
    ],
    ids=["first life", "posted before", "re-driven without a stamp", "refused in its first life"],
)
def test_a_delivery_knows_whether_it_was_redriven(webhook_id, attempt, recovered, redriven):
    visits = [Visit(HEALTHY, "a", webhook_id, attempt, 200)]
    delivered = deliveries(visits, {"known": EVENTS[0]}, recovered)
    assert delivered == [DeliveredEvent("a", redriven=redriven)]


def test_what_an_endpoint_refused_is_no_delivery():
    assert deliveries([Visit(HEALTHY, "a", "known", 1, 503)], {"known": EVENTS[0]}, ()) == []
