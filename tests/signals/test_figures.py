"""The catalogue of figures: few, each with a reason to be one, and none that no code counts."""

from __future__ import annotations

import re
from pathlib import Path

from deadletter.failure.fate import Fate
from deadletter.processing.result import Trouble
from deadletter.signals.counts import meaning
from deadletter.signals.figures import COUNTED, Count, Figure
from deadletter.signals.pages import APP_PAGES, PIPELINE_PAGES, Alarm

LAMBDAS = Path(__file__).parents[2] / "lambdas"

FIXED = {"MessageMovedToParkingLot", "RedriveSuccess", "RedriveFailure", "dedup.skip"}


def test_the_names_that_are_fixed_stay() -> None:
    assert set(Figure) >= FIXED


def test_each_says_what_it_counts_in_a_sentence() -> None:
    for counted in COUNTED.values():
        text = meaning(counted)
        assert text[0].isupper(), counted
        assert text.endswith("."), counted
        assert "letter" not in f"{counted} {text}".lower(), counted


def test_everything_that_a_batch_counts_is_in_the_catalogue() -> None:
    for counted in (*Fate, *Trouble):
        assert counted in COUNTED


def test_each_is_counted_by_some_code() -> None:
    """A graph of a figure that is no longer published stays empty."""
    library = "".join(
        path.read_text()
        for path in LAMBDAS.rglob("*.py")
        if path.name not in ("figures.py", "counts.py") and "testing" not in path.parts
    )
    for kind in (Figure, Count):
        names = set(re.findall(rf"\b{kind.__name__}\.([A-Z_]+)\b", library))
        summed = {count.of.name for count in Count if count.of} if kind is Figure else set()
        assert set(kind.__members__) - names - summed == set()


def test_each_alarm_has_one_page_and_a_pipeline_has_nine() -> None:
    assert len(PIPELINE_PAGES) == 9
    assert {page.alarm for page in (*PIPELINE_PAGES, *APP_PAGES)} == set(Alarm)
