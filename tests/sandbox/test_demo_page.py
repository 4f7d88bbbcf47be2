"""What stands on the page of a demo."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from sandbox.demo.page import page, write
from tests.sandbox.demo_report import report


def text_of(html: str) -> str:
    return unescape(re.sub(r"<[^>]+>", " ", html))


def test_it_says_that_all_is_well_if_it_is() -> None:
    text = text_of(page(report()))
    assert "All 331 are accounted for: 279 delivered, 52 parked with a reason, none lost." in text
    assert "Not well" not in text


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"lost": 2}, "Not well: 2 lost."),
        ({"waiting": 1, "altered": 3}, "Not well: 1 still on its way; 3 attributes changed."),
        ({"alarms_that_rang": ["DlqAge"]}, "Not well: 1 alarms rang."),
    ],
)
def test_it_says_what_is_wrong(changes: dict[str, object], says: str) -> None:
    text = text_of(page(report(**changes)))
    assert says in text
    assert "All 331" not in text


def test_every_figure_of_the_account_stands_there() -> None:
    rows = dict(re.findall(r'<tr><td>([^<]+)</td><td class="n">([\d,]+)</td></tr>', page(report())))
    assert rows["sent"] == "331"
    assert rows["of them through the waiting room"] == "100"
    assert rows["parked as QUARANTINED"] == "40"
    assert rows["lost"] == "0"
    assert rows["duplicates"] == "0"


def test_what_is_modelled_is_called_so() -> None:
    text = text_of(page(report()))
    assert "a shell loop (modelled)" in re.sub(r"\s+", " ", text)
    assert "native redrive (modelled)" in re.sub(r"\s+", " ", text)
    assert "Deadletter (measured in this run)" in re.sub(r"\s+", " ", text)


def test_the_outage_is_shaded_where_it_was_and_the_circuit_marked() -> None:
    html = page(report(outage={"began": 29.5, "ended": 59.0}))
    shade = re.search(r'<rect x="([\d.]+)" y="0" width="([\d.]+)"', html)
    assert shade is not None
    assert float(shade[1]) == pytest.approx(360, abs=1)
    assert float(shade[2]) == pytest.approx(360, abs=1)
    assert len(re.findall(r'fill="#7048e8"', html)) == 1
    assert html.count("<polyline") == 4


def test_a_demo_that_was_too_short_to_draw_has_no_chart() -> None:
    assert "<svg" not in page(report(samples=report()["samples"][:1]))


def test_texts_are_escaped() -> None:
    evil = '<script>alert("x")</script>'
    html = page(
        report(
            timeline=[{"at": 1, "text": evil}],
            letter={"id": "x", "command": evil, "output": evil},
            causes=[{"cause": evil, "tenant": evil, "failures": 1, "ended": evil}],
        )
    )
    assert "<script" not in html


def test_it_is_one_file_that_asks_nobody(tmp_path: Path) -> None:
    file = tmp_path / "demo.html"
    write(report(), file)
    html = file.read_text(encoding="utf-8")
    assert not re.findall(r"(?:src|href)=|url\(|https?://", html)
    assert "default-src 'none'" in html
