"""All pages give the same figure for the same thing."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from deadletter.signals.pages import PIPELINE_ALARMS
from tests.docs.pages import ROOT

PAGES = (
    "README.md",
    "docs/features.toml",
    *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))),
)

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True)
class Figure:
    """A figure that several pages give; `said` finds it, and `is_` is what it is."""

    name: str
    said: str
    is_: Callable[[], str]


def oldest_python() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return str(project["requires-python"]).removeprefix(">=")


FIGURES = (
    Figure("the oldest Python", r"Python (3\.\d+(?:\.\d+)?) or newer", oldest_python),
    Figure(
        "the alarms of a pipeline",
        rf"\b({'|'.join(NUMBERS)}) alarms (?:of )?a(?: pipeline)?\b",
        lambda: NUMBERS[len(PIPELINE_ALARMS)],
    ),
    Figure(
        "messages of a FIFO group", r"at most (\w+) messages of a (?:FIFO )?group", lambda: "ten"
    ),
)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_all_pages_give_the_same_figure(figure: Figure) -> None:
    said = {
        (page, match[1].lower())
        for page in PAGES
        for match in re.finditer(figure.said, " ".join((ROOT / page).read_text().split()), re.I)
    }
    assert said
    assert {number for _, number in said} == {figure.is_()}, said
