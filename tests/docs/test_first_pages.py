"""What a newcomer reads first names what exists: links, commands, settings, figures."""

from __future__ import annotations

import json
import re

import pytest

from infra.context import read
from tests.console.command_lines import parse, takes_options
from tests.docs.pages import FENCE, ROOT, anchors
from tests.each_row import each_row

README = (ROOT / "README.md").read_text()
ADOPT = (ROOT / "docs" / "before-you-adopt.md").read_text()
OPERATE = (ROOT / "docs" / "operate.md").read_text()
PAGES = ("before-you-adopt", "install", "tutorial", "operate")
FIRST = ("README.md", *(f"docs/{name}.md" for name in PAGES))

HOST = "../../actions/"
"""Where the host of a repository shows what its workflows said, from a README of any copy of it."""


def links() -> list[tuple[str, str]]:
    """Each page with what it links to in this repository."""
    found = []
    for page in FIRST:
        for target in re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text()):
            if "://" not in target and not target.startswith(HOST):
                found.append((page, target))
    return found


def typed(page: str) -> set[str]:
    """The command lines of `dlq` in a page, in blocks and in sentences."""
    blocks = [line for match in FENCE.finditer(page) for line in match["text"].splitlines()]
    words = re.findall(r"`(dlq [^`]+)`", FENCE.sub("", page))
    lines = [line.partition("#")[0].strip() for line in blocks if line.startswith("dlq ")]
    return {" ".join(line.split()) for line in [*lines, *words]}


def test_a_link_leads_to_something() -> None:
    for page, target in links():
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), target


@each_row("command", sorted(typed(README) | typed(ADOPT) | typed(OPERATE)))
def test_a_command_is_one_that_dlq_takes(command: str) -> None:
    # Named and not typed: what it takes is left out.
    is_named = re.fullmatch(r"dlq [a-z ]+", command) is not None and takes_options(command)
    if not is_named:
        parse(command)


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"\bmake ([a-z-]+)(?=[\s`])", README + ADOPT):
        assert re.search(rf"^{target}:", makefile, re.M), target


@each_row("page", FIRST)
def test_a_newcomer_is_not_sent_into_the_lab(page: str) -> None:
    assert re.findall(r"\blab[./]\S+", (ROOT / page).read_text()) == []


def entries() -> list[str]:
    """The pipelines that the first pages show as a line of the settings."""
    blocks = [match for page in FIRST for match in FENCE.finditer((ROOT / page).read_text())]
    return [
        match["text"]
        for match in blocks
        if match["kind"] == "json" and '"main_queue"' in match["text"]
    ]


@pytest.mark.parametrize("entry", entries())
def test_an_entry_is_one_that_the_settings_accept(entry: str) -> None:
    settings = read({"pipelines": [json.loads(entry)]})
    assert [pipeline.mode for pipeline in settings.pipelines] == ["observe"]


@pytest.mark.parametrize(
    ("page", "most"), [("README.md", 600), ("CONTRIBUTING.md", 550), ("CHANGELOG.md", 500)]
)
def test_a_page_is_one_page(page: str, most: int) -> None:
    assert len((ROOT / page).read_text().split()) <= most


def test_the_page_before_adopting_is_read_in_two_minutes() -> None:
    prose = [line for line in FENCE.sub("", ADOPT).splitlines() if not line.startswith("|")]
    assert len(" ".join(prose).split()) <= 500


def test_figures_stand_where_they_were_measured() -> None:
    proof = " ".join((ROOT / "docs" / "proof.md").read_text().split())
    figures = re.findall(r"[\d,]+ (?:schedules|planted bugs)", README)
    assert figures
    assert [figure for figure in figures if figure not in proof] == []


@pytest.mark.parametrize(
    "claim",
    [
        "nothing of yours is touched",
        "a typo matches nothing, and says so",
        "in an app of your own:",
    ],
)
def test_what_turned_out_untrue_is_not_said_again(claim: str) -> None:
    assert claim not in " ".join(README.split())
