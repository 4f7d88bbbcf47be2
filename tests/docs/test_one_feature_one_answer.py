"""The pages say the same of one feature: what one offers, no other denies, in words or figures."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deadletter.contract import PIPELINE_ALARMS

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))))

DENIES = re.compile(
    r"\bnot (?:yet )?(?:offered|possible|built|there|supported)\b"
    r"|\b(?:does|do) not (?:yet )?exist\b|\bnot (?:\w+ )*yet\b|\bno such\b|\bin a clone only\b",
    re.IGNORECASE,
)
"""What a sentence says of a feature that is missing."""

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True)
class Feature:
    """Something that several pages speak of.

    `named` finds it in a sentence, `is_there` says whether it exists, and `pages` must name it.
    """

    name: str
    named: str
    is_there: Callable[[], bool]
    pages: tuple[str, ...]


def packaged(*members: str) -> Callable[[], bool]:
    """Whether these are in the wheel's table of packages."""
    return lambda: all(f'"{member}"' in (ROOT / "pyproject.toml").read_text() for member in members)


def holds(path: str, text: str) -> Callable[[], bool]:
    return lambda: text in (ROOT / path).read_text()


FEATURES = (
    Feature(
        "the construct",
        r"RedrivePipeline|deadletter_cdk|construct in a CDK app",
        packaged("deadletter_cdk", "deadletter_cdk/packaged/handlers"),
        ("README.md", "docs/install.md", "docs/roadmap.md"),
    ),
    Feature(
        "the consumer library as a layer",
        r"ConsumerLayer",
        holds("infra/__init__.py", "ConsumerLayer"),
        ("docs/install.md",),
    ),
    Feature(
        "the command line alone",
        r"`dlq` alone|deadletter\[cli\]",
        holds("pyproject.toml", 'dlq = "'),
        ("docs/install.md", "docs/roadmap.md"),
    ),
    Feature(
        "replay runs",
        r"[Rr]eplay runs?\b",
        holds("console/cli/replay.py", "group("),
        ("docs/replay.md", "docs/roadmap.md"),
    ),
    Feature(
        "the webhook dispatcher",
        r"webhook dispatcher",
        lambda: (ROOT / "lambdas/handlers/dispatch.py").exists(),
        ("README.md", "docs/roadmap.md"),
    ),
)


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
    Figure("letters of a FIFO group", r"at most (\w+) letters of a (?:FIFO )?group", lambda: "ten"),
)


def sentences(page: str) -> Iterator[str]:
    """The sentences and table rows of a page, each in one line; code is left out."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(), flags=re.M | re.S)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    prose = "\n".join(line for line in text.splitlines() if not line.startswith("|"))
    yield from rows
    for paragraph in re.split(r"\n\s*\n|\n(?=[-*] )", prose):
        yield from re.split(r"(?<=[.:;]) +", " ".join(paragraph.split()))


def contradicts(feature: Feature, sentence: str) -> bool:
    return bool(re.search(feature.named, sentence) and DENIES.search(sentence))


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_no_page_denies_what_is_there(feature: Feature) -> None:
    assert feature.is_there()
    denied = [
        (page, sentence)
        for page in PAGES
        for sentence in sentences(page)
        if contradicts(feature, sentence)
    ]
    assert denied == []


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_each_page_that_has_to_names_it(feature: Feature) -> None:
    for page in feature.pages:
        assert re.search(feature.named, (ROOT / page).read_text()), page


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_all_pages_give_the_same_figure(figure: Figure) -> None:
    said = {
        (page, match[1].lower())
        for page in PAGES
        for match in re.finditer(figure.said, " ".join((ROOT / page).read_text().split()), re.I)
    }
    assert said
    assert {number for _, number in said} == {figure.is_()}, said


@pytest.mark.parametrize(
    "sentence",
    [
        "As a construct in a CDK app of your own it is not offered yet.",
        "| the construct `RedrivePipeline` | an install does not hold it yet: in a clone only |",
    ],
)
def test_a_denial_is_seen(sentence: str) -> None:
    """As README and roadmap said it while install.md offered the construct."""
    assert contradicts(FEATURES[0], sentence)
