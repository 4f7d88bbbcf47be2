"""What stands on the page of a demo."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from deadletter.circuit.state import Circuit, State
from sandbox.demo import person
from sandbox.demo.beside import ASSUMPTIONS, COUNTED, measured, shown
from sandbox.demo.chronicle import Chronicle
from sandbox.demo.events import RECOVERING, plan
from sandbox.demo.look import Look
from sandbox.demo.page import page, spells, write
from sandbox.demo.play import Played
from sandbox.demo.reconcile import FoundLetters, reconcile
from sandbox.demo.report import Pages, figures, story
from tests.sandbox.demo_report import report


def text_of(html: str) -> str:
    return re.sub(
        r"\s+", " ", unescape(re.sub(r"<style>.*?</style>|<[^>]+>", " ", html, flags=re.S))
    )


def rows_of(html: str) -> dict[str, list[str]]:
    """The cells of each row by its head."""
    rows = re.findall(r'<tr[^>]*><th scope="row">(.*?)</th>(.*?)</tr>', html, flags=re.S)
    return {
        text_of(re.sub(r"<small>.*", "", head)).strip(): [
            text_of(cell).strip() for cell in re.findall(r"<td[^>]*>(.*?)</td>", cells)
        ]
        for head, cells in rows
    }


def test_it_says_that_all_is_well_if_it_is() -> None:
    text = text_of(page(report()))
    assert "All 331 are accounted for: 279 delivered, 52 parked with a reason, none lost." in text
    assert "No alarm rang" in text
    assert "Not well" not in text


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"lost": 2}, "Not well: 2 lost."),
        ({"waiting": 1, "altered": 3}, "Not well: 1 still on its way; 3 attributes changed."),
    ],
)
def test_it_says_what_is_wrong(changes: dict[str, object], says: str) -> None:
    text = text_of(page(report(**changes)))
    assert says in text
    assert "All 331" not in text


def test_an_alarm_is_told_beside_the_verdict_which_is_the_account() -> None:
    """On a busy machine the age of a letter may page though everything ends well."""
    text = text_of(page(report(alarms_that_rang=["DlqAge"])))
    assert "An alarm rang: DlqAge." in text
    assert "All 331 are accounted for" in text


def test_every_figure_of_the_account_stands_there() -> None:
    rows = rows_of(page(report()))
    assert rows["sent"][0] == "331"
    assert rows["waited outside SQS"][0] == "100"
    assert rows["parked as QUARANTINED"][0] == "40"
    assert rows["lost"][0] == "0"
    assert rows["duplicates"][0] == "0"


def test_each_stage_of_the_flow_adds_up_to_what_was_sent() -> None:
    changed = report(waiting=3, delivered=275, healed=94, lost=1)
    stages = re.findall(r'<div class="column">(.*?)</div>', page(changed), flags=re.S)
    numbers = [[int(box) for box in re.findall(r"<b>([\d,]+)</b>", stage)] for stage in stages]
    assert numbers == [[331], [181, 150], [94, 52, 3, 1]]
    assert sum(numbers[2]) == numbers[1][1]


def test_the_ways_beside_are_counted_and_explained() -> None:
    told = report()
    html = page(told)
    rows = rows_of(html)
    for name, (title, meaning) in COUNTED.items():
        if title not in ("duplicates", "lost"):
            assert rows[title] == [shown(way[name]) for way in told["beside"]]
        assert meaning in text_of(html)
    assert "A minute of this table is 6 seconds of the run" in text_of(html)
    assert "so 15 minutes are 90 seconds" in text_of(html)
    assert "What a person did: 17:00 types a rule; 09:00 looks." in text_of(html)
    for assumed in (*ASSUMPTIONS.values(), person.ASSUMED):
        assert assumed in text_of(html)


def test_what_is_modelled_is_called_so() -> None:
    heads = [
        text_of(head).strip() for head in re.findall(r"<th scope=\"col\".*?</th>", page(report()))
    ]
    for head in ("a shell loop", "native redrive, best case", "native redrive, next morning"):
        assert f"{head} (modelled)" in heads
    assert "Deadletter (measured)" in heads
    assert "modelled, not run" in text_of(page(report()))


def test_a_demo_that_went_wrong_has_a_page_all_the_same() -> None:
    """It was broken off in the outage: no end of it, no healed letter, nothing compared."""
    known = report(outage={"began": 10.0})
    for key in ("letter", "beside", "causes"):
        del known[key]
    html = page(known)
    assert "without an end" in html
    shade = re.search(r'<rect class="p-outage" x="([\d.]+)" width="([\d.]+)"', html)
    assert shade is not None
    assert float(shade[1]) + float(shade[2]) == pytest.approx(1, abs=0.001)
    assert "One letter" not in html


def test_what_the_demo_writes_is_what_the_page_reads() -> None:
    """A demo that lost every event: its own functions write the report."""

    class Nowhere:
        def tell(self, text: str) -> None: ...

        def show(self, look: Look) -> None: ...

    events = plan(1)
    look = Look(4.0, circuits={RECOVERING: Circuit("birch/default", State.OPEN)})
    chronicle = Chronicle(Nowhere(), lambda: 3.0)  # type: ignore[arg-type]  # two of its methods
    chronicle.outage_began()
    chronicle.tell("everything is gone")
    chronicle.saw(replace(look, at=2.0))
    chronicle.saw(look)
    nothing = SimpleNamespace(found=FoundLetters(), last=look, origins={}, failures={})
    way = measured(events, [], nothing.found, reconcile(events, nothing.found), sent_at={}, acts=[])
    played = cast("Played", nothing)
    outcome = reconcile(events, played.found)
    written = {
        **figures(outcome, look, Pages(0, ()), 4.0),
        **story(events, played, chronicle),
        "beside": [way.as_json()],
    }
    assert report().keys() - written.keys() == {"letter"}
    html = page(json.loads(json.dumps(written)))
    assert "Not well: 331 lost." in text_of(html)
    assert "birch (down): circuit open from 2 to 4 seconds" in html
    assert "everything is gone" in html


def test_the_outage_is_shaded_where_it_was() -> None:
    html = page(report(outage={"began": 29.5, "ended": 59.0}))
    shade = re.search(r'<rect class="p-outage" x="([\d.]+)" width="([\d.]+)"', html)
    assert shade is not None
    assert float(shade[1]) == pytest.approx(0.5, abs=0.001)
    assert float(shade[2]) == pytest.approx(0.5, abs=0.001)
    assert "The outage was from 30 to 59 seconds" in html
    assert html.count("<polyline") == 5


@pytest.mark.parametrize("changes", [{}, {"outage": {}}, {"samples": report()["samples"][:3]}])
def test_each_line_of_the_chart_has_its_name_beside_it(changes: dict[str, object]) -> None:
    html = page(report(**changes))
    names = re.findall(r'<li><i class="p-\w+"></i>([\w ]+)</li>', html)
    assert sorted(names) == ["DLQ", "delivered", "main queue", "parked", "waiting"]


def test_each_tenant_has_a_lane_with_its_circuit() -> None:
    html = page(report())
    assert "birch (down): circuit open from 6 to 38 seconds, half open from 38 to 42" in html
    assert "aspen (healthy): circuit closed all the time" in html
    assert "cedar (refuses): circuit closed all the time" in html


def test_a_state_lasts_until_the_next_look() -> None:
    states = [(0.0, "CLOSED"), (1.0, "OPEN"), (2.0, "OPEN"), (4.0, "CLOSED"), (5.0, "OPEN")]
    assert spells(states) == [(0.0, 1.0, "CLOSED"), (1.0, 4.0, "OPEN"), (4.0, 5.0, "CLOSED")]


@pytest.mark.parametrize("seconds", [3, 20, 59, 95, 240, 900])
def test_the_axis_has_a_few_round_seconds(seconds: int) -> None:
    first = report()["samples"][0]
    samples = [first | {"at": 40.0}, first | {"at": 40.0 + seconds}]
    html = page(report(samples=samples))
    ticks = [int(tick) for tick in re.findall(r">(\d+) s</span>", html)]
    assert 2 <= len(ticks) <= 7
    assert all(40 <= tick <= 40 + seconds for tick in ticks)


def test_a_demo_that_was_too_short_to_draw_has_no_chart() -> None:
    assert "<svg" not in page(report(samples=report()["samples"][:1]))


def test_texts_are_escaped() -> None:
    evil = '<script>alert("x")</script>'
    html = page(
        report(
            timeline=[{"at": 1, "text": evil}],
            letter={"id": "x", "command": evil, "output": evil},
            causes=[{"cause": evil, "tenant": evil, "failures": 1, "ended": evil}],
            tenants=[
                {
                    "name": evil,
                    "role": evil,
                    "circuit": evil,
                    "delivered": 1,
                    "parked": 0,
                    "answers": {evil: 1},
                }
            ],
            parked_by_reason={evil: 1},
            alarms_that_rang=[evil],
            beside=[
                report()["beside"][0] | {"system": evil, "how": evil, "did": [evil], "note": evil}
            ],
        )
    )
    assert "<script" not in html


def test_it_is_one_file_that_asks_nobody(tmp_path: Path) -> None:
    file = tmp_path / "demo.html"
    write(report(), file)
    html = file.read_text(encoding="utf-8")
    assert not re.findall(r"(?:src|href)=|url\(|https?://", html)
    assert "default-src 'none'" in html
