"""docs/architecture.md lists every module once, and says truly which files a change touches."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from tools.architecture import BEGIN, END, PAGE, ROOT, page


@dataclass(frozen=True)
class Change:
    """A task, and an example of what it adds: each file that mentions it is to be touched.

    `example` is a regular expression; `folders` are where it is looked for.
    """

    task: str
    example: str
    folders: tuple[str, ...] = ("lambdas", "infra", "console", "docs", "statemachines")
    # Pages of records, and those that show a newcomer one example of many.
    leaving_out: tuple[str, ...] = (
        *("docs/architecture.md", "docs/adr", "docs/proof.md"),
        *("docs/tutorial.md", "docs/before-you-adopt.md", "docs/install.md"),
    )

    def files(self) -> set[str]:
        """The files that mention the example."""
        return {
            name
            for folder in self.folders
            for path in sorted((ROOT / folder).rglob("*"))
            if path.suffix in (".py", ".md", ".json") and path.is_file()
            if not (name := str(path.relative_to(ROOT))).startswith(self.leaving_out)
            if re.search(self.example, path.read_text())
        }


CHANGES = (
    Change("an alarm (as `DlqDepth`)", r"\bDLQ_DEPTH\b|\bDlqDepth(Alarm)?\b|\bdlq_depth\b"),
    Change("a failure category (as `BUSINESS`)", r"\bBUSINESS\b"),
    Change("a decision (as `Divert`)", r"\bDivert\b|\bDIVERT\b"),
    Change("a `dlq` command (as `dlq redrive`)", r"dlq redrive\b|\.redrive\"", ("console", "docs")),
    Change("a reason to park (as `EXHAUSTED`)", r"\bEXHAUSTED\b"),
    Change("a rule's action (as `QUARANTINE`)", r"\bQUARANTINE\b"),
    Change("a function (as `probe`)", r"handlers\.probe\b|\bprober_for\b"),
)


def listed() -> dict[str, set[str]]:
    """The files of each task on the page."""
    section = PAGE.read_text().partition("<!-- changes: begin -->")[2]
    section = section.partition("<!-- changes: end -->")[0]
    rows = re.findall(r"^\| (?!task|---)(.+?) \| (.+?) \|$", section, re.MULTILINE)
    return {task: set(re.findall(r"`([\w./-]+\.\w+)`", files)) for task, files in rows}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.task)
def test_the_page_names_the_files_that_a_change_touches(change: Change) -> None:
    assert listed()[change.task] == change.files()


def test_the_page_answers_nothing_that_is_not_checked() -> None:
    assert set(listed()) == {change.task for change in CHANGES}


def test_every_module_is_on_the_page() -> None:
    assert PAGE.read_text() == page(), "run `make docs`"


def test_every_module_says_what_it_is_for() -> None:
    section = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    assert re.findall(r"^\| `\w+` \|  ?\|$", section, re.MULTILINE) == []


def test_every_path_on_the_page_exists() -> None:
    paths = re.findall(r"`((?:tests|lambdas|tools|docs|infra|console)/[\w./-]+)`", PAGE.read_text())
    assert [path for path in paths if not (ROOT / path).exists()] == []
