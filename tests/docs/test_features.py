"""Each claim is a row of docs/features.toml, and no page says otherwise."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from tests.docs.pages import ROOT, leads_somewhere, sentences
from tools.features_page import (
    BUILT,
    FILE,
    MISSING,
    NEVER_RUN,
    PAGE,
    Feature,
    FeatureFile,
    page,
    read,
)

LISTED = read(FILE.read_text())
README = ROOT / "README.md"
PAGES = (
    README,
    ROOT / "SECURITY.md",
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path != PAGE),
    *sorted((ROOT / "examples").glob("**/*.md")),
)

DENIES = re.compile(
    r"\bnot (?:yet )?(?:offered|built|supported|available|implemented|included|possible)\b"
    r"|(?:\b(?:not|no|none|nothing|nobody|never|cannot)\b|n't\b)[^.;:|]*?\byet\b"
    r"|\byet to (?:be|come)\b"
    r"|\b(?:is|are|still) planned\b|\bplanned for\b|\bcoming soon\b"
    r"|\b(?:a|the) (?:later|future|next) (?:version|release)\b"
    r"|\bin a clone only\b",
    re.IGNORECASE,
)
"""The words of a sentence about something that is missing."""

NAMES_THE_ROADMAP = re.compile(r"\[[^\]]*\]\((?:docs/)?roadmap\.md\)")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def wrong(feature: Feature) -> Iterator[str]:
    """What is wrong with a row."""
    if feature.state not in {BUILT, MISSING, NEVER_RUN}:
        yield f"state {feature.state!r}"
    if not re.fullmatch(r"[A-Z`].*\.", feature.claim) or len(feature.claim.split()) > 25:
        yield "the claim is no sentence of at most 25 words"
    if not leads_somewhere(feature.page):
        yield f"no page {feature.page}"
    if (feature.state == MISSING) == bool(feature.test):
        yield "what is missing has no test, and all else has one"
    if feature.test and not holds_a_test(feature.test):
        yield f"no test in {feature.test}"
    if feature.state == BUILT and feature.says:
        yield "what is built is not denied"


def holds_a_test(path: str) -> bool:
    """Whether a file of tests has a test function, or the one that is named behind `::`."""
    name, _, function = path.partition("::")
    file = ROOT / name
    if not (name.startswith("tests/") and file.name.startswith("test_") and file.is_file()):
        return False
    tests = [
        node.name
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    ]
    return function in tests if function else bool(tests)


def denials(text: str, listed: FeatureFile) -> Iterator[str]:
    """The sentences that deny a feature with other words than a row that is not built allows."""
    allowed = [words for row in listed.features if row.state != BUILT for words in row.says]
    for sentence in sentences(NAMES_THE_ROADMAP.sub("", text)):
        left = sentence
        for words in (*allowed, *listed.said_of_no_feature):
            left = left.replace(words, "")
        if DENIES.search(left):
            yield sentence


def plain(text: str) -> str:
    """A sentence without its mark-up and its full stop."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"[*_`]", "", text).strip().removesuffix(".").casefold()


def untied(text: str, features: Iterable[Feature]) -> Iterator[str]:
    """The rows of a table headed `it never` without a claim that links its page or its test."""
    shown = {plain(row.claim): {row.page, row.test.partition("::")[0]} for row in features}
    for table in re.findall(r"^\| it never \|.*\n\|[-:| ]+\|\n((?:\|.*\n)+)", text, re.M | re.I):
        for line in table.splitlines():
            cell, *others = line.strip("|").split("|")
            links = set(LINK.findall(" ".join(others)))
            if not links & shown.get(plain(f"it never {cell.strip()}"), set()):
                yield line


def test_a_row_has_a_page_and_a_test() -> None:
    assert {row.id: found for row in LISTED.features if (found := [*wrong(row)])} == {}


def test_a_wrong_row_is_found() -> None:
    right = next(row for row in LISTED.features if row.id == "no-purge")
    assert [*wrong(right)] == []
    for mistake in (
        {"state": "planned"},
        {"claim": "never purges"},
        {"page": "docs/no-such-page.md"},
        {"page": "docs/security.md#no-such-title"},
        {"test": "tests/e2e/canaries.py"},
        {"test": "tests/infra/test_permissions.py::test_no_such_test"},
        {"test": ""},
        {"says": ("it is not offered yet",)},
    ):
        assert len([*wrong(replace(right, **mistake))]) == 1, mistake  # type: ignore[arg-type]


def test_the_roadmap_is_made_of_the_rows_and_is_short() -> None:
    assert PAGE.read_text() == page(LISTED.features), "python -m tools.features_page writes it"
    assert len(PAGE.read_text().split()) <= 400


def test_no_page_denies_what_is_built() -> None:
    found = {path: [*denials(path.read_text(), LISTED)] for path in PAGES}
    assert {path: sentences for path, sentences in found.items() if sentences} == {}


@pytest.mark.parametrize(
    "sentence",
    [
        "As a construct in a CDK app of your own it is not offered yet.",
        "| the construct `RedrivePipeline` | an install does not hold it yet: in a clone only |",
        "The layer is planned.",
        "A batch processor comes with a later release.",
    ],
)
def test_a_denial_is_found_until_a_row_says_it(sentence: str) -> None:
    """The first two stood in README and roadmap while install.md offered the construct."""
    assert [*denials(sentence, LISTED)] == [sentence]
    row = Feature(id="x", claim="X.", state=MISSING, page="README.md", says=(sentence,))
    assert [*denials(sentence, FeatureFile((row,)))] == []
    assert [*denials(sentence, FeatureFile((replace(row, state=BUILT),)))] == [sentence]


def test_what_may_be_said_stands_on_a_page_and_denies_something() -> None:
    pages = " ".join(" ".join(sentences(path.read_text())) for path in PAGES)
    phrases = [words for row in LISTED.features for words in row.says]
    for words in (*phrases, *LISTED.said_of_no_feature):
        assert words in pages, words
        assert DENIES.search(words), words


def test_what_the_readme_says_it_never_does_are_claims() -> None:
    readme = README.read_text()
    assert "| it never |" in readme
    assert [*untied(readme, LISTED.features)] == []


def test_a_row_of_the_readme_that_is_no_claim_is_found() -> None:
    table = "| it never | shown by |\n|---|---|\n"
    right = (
        "| **purges** a queue: no role may | [roles](docs/security.md#what-each-role-can-do) |\n"
    )
    by_test = "| purges a queue: no role may. | [a test](tests/infra/test_permissions.py) |\n"
    elsewhere = "| purges a queue: no role may | [roles](docs/rules.md) |\n"
    other = "| sleeps | [roles](docs/security.md#what-each-role-can-do) |\n"
    found = [*untied(table + right + by_test + elsewhere + other, LISTED.features)]
    assert found == [elsewhere.strip(), other.strip()]


def unexplained(text: str, features: Iterable[Feature]) -> Iterator[str]:
    """The rows of a page's first table whose last cell links the page or the test of no claim."""
    shown = {link for row in features for link in (row.page, row.test.partition("::")[0])}
    _, _, *rows = text[text.index("\n|") :].strip().partition("\n\n")[0].splitlines()
    for line in rows:
        links = {f"docs/{link}" for link in LINK.findall(line.strip("|").split("|")[-1])}
        if not links or links - shown:
            yield line


def test_what_we_claim_beside_other_ways_is_a_row() -> None:
    compared = (ROOT / "docs" / "compare.md").read_text()
    assert [*unexplained(compared, LISTED.features)] == []
    claim = "| [follows the consumer](scenarios.md#a-drain-that-finds-its-rate) |"
    assert claim in compared
    for other in ("| always |", "| [always](scenarios.md) |"):
        assert len([*unexplained(compared.replace(claim, other), LISTED.features)]) == 1
