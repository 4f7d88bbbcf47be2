"""A person reads one word for each thing: commands, answers, cards and alarms hold no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.cli.help import TERMS
from deadletter.contract import EventType
from deadletter.events.schema import SCHEMAS
from infra.on_call import ATTACH
from tests.docs.pages import ROOT
from tools import commands_page

OLD = {
    "message": r"letters?",
    "attempt": r"life|lives",
    "parked": r"parking lots?",
    "waiting": r"waiting rooms?|lanes?",
    "failure record": r"ledgers?",
    "monitor": r"the watch|(?:its|a) watch",
    "automatic retry": r"redrivers?",
    "cause": r"fingerprints?|sudden causes?",
    "message ID": r"origins?|origin ids?",
    "decided": r"judged?|judgements?",
    "retry": r"replays?|replay runs?|recall(?:ed)?",
    "expiry": r"rescued?|rescues",
    "run": r"snapshots?|custody|shards?",
    "circuit": r"generations?|trips|circuit keys?",
    "each person": r"whoever|nobody|somebody",
}
"""What is said, and the old words for it."""

MEANT = re.compile(
    r"dead.letters?|letters, digits|with a letter|random letters|messages table|use ledger"
    r"|replay (?:function|starts)|replay\.schema|deadletter",
    re.I,
)
"""Where one of the words is meant as everybody means it."""


WORDS_THAT_ARE_TYPED = "did_you_mean.py"
"""It holds the words that a person may come with, old ones too."""


def hits(text: str) -> list[str]:
    """The old words in a text for people."""
    return [match[0] for match in _WORD.finditer(MEANT.sub("", text))]


_WORD = re.compile(
    rf"(?<![-\w./`:{{])(?:{'|'.join(f'(?:{each})' for each in OLD.values())})(?![-\w/:(}}=])", re.I
)
"""An old word in a sentence; in a name, a path, a permission or an option it is a name."""


def sentences_of(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a module for people: its literals with a space that are no docstrings."""
    tree = ast.parse(path.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in docstrings:
            continue
        if isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value


FOLDERS = ["console", "infra", "lambdas/deadletter/signals", "sandbox"]

OF_THE_CODE = {"architecture.md", "performance.md", "proof.md"}
"""Pages about the code: a letter there is what the code calls one."""

NAME_ALONE = re.compile(r"\|[ :]*(?:redriver|replay(?:, monitor)?|letters) \||letters, \"into")
"""A function's name in a cell of its own, and a column of the scenarios."""


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_sentence_has_no_old_word(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {word} in {text!r}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.name != WORDS_THAT_ARE_TYPED
        for number, text in sentences_of(path)
        for word in hits(text)
    ]
    assert found == []


def test_a_page_has_no_old_word() -> None:
    found = []
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        text = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)|<!--.*?-->", "", page.read_text(), flags=re.S)
        if page.name not in OF_THE_CODE:
            found += [f"{page.name}: {word}" for word in hits(NAME_ALONE.sub("", text))]
    assert found == []


def test_a_template_of_a_page_has_no_old_word() -> None:
    # Between tags, and in quotation marks within the template's own code.
    shown = re.compile(r'>([^<{]+)<|"([^"\n<>{}]* [^"\n<>{}]*)"')
    templates = sorted((ROOT / "console" / "web" / "templates").glob("*.html"))
    texts = [(path.name, "".join(found)) for path in templates
             for found in shown.findall(path.read_text())]  # fmt: skip
    assert len(texts) > 100
    assert [(name, text) for name, text in texts if hits(text)] == []


def keys() -> Iterator[tuple[str, str]]:
    """The keys of all answers, each with what it means."""
    for definition in commands_page.answers()["$defs"].values():
        for key, shape in definition["properties"].items():
            yield key, shape["description"]


def test_help_and_keys_have_no_old_word() -> None:
    texts = [*commands_page.help_pages(), *(says for _, says in keys())]
    found = [line for text in texts for line in text.splitlines() if hits(line)]
    assert found == []


def test_a_key_of_json_is_no_old_word() -> None:
    names = {key for key, _ in keys()}
    assert len(names) > 200
    assert [key for key in names if hits(key.replace("_", " "))] == []


def test_what_others_match_by_name_has_no_old_word() -> None:
    names = [*ATTACH, *EventType, *(field.name for event in SCHEMAS for field in event.fields)]
    words = {name: re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name) for name in names}
    assert [name for name, text in words.items() if hits(text)] == []
    assert hits(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", "LettersParked"))


@pytest.mark.parametrize("word", ["a letter", "in its lanes", "the watch runs", "Nobody", "lives"])
def test_an_old_word_is_found(word: str) -> None:
    assert hits(f"It is said: {word} is here")


@pytest.mark.parametrize("text", ["the dead-letter queue", "`lane`", "/letters", "watch it"])
def test_a_name_is_no_old_word(text: str) -> None:
    assert hits(text) == []


def test_the_glossary_is_short_and_its_page_is_made_from_it() -> None:
    assert len(TERMS) <= 20
    page = (ROOT / "docs" / "words.md").read_text()
    assert page == commands_page.words_page(), "run `make docs`"


@pytest.mark.parametrize("term", TERMS)
def test_a_term_is_used(term: str) -> None:
    texts = [*commands_page.help_pages(), *(says for _, says in keys())]
    assert re.search(rf"\b{term}", "\n".join(texts), re.I)
