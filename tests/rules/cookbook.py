"""Reads docs/rules.md: its settings, its comparisons and its recipes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAGE = (Path(__file__).parents[2] / "docs" / "rules.md").read_text()

_BLOCK = re.compile(r"^```(\w+) ?(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_RECIPE = re.compile(r"^### (.*?)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Recipe:
    """One recipe: the command line, the rules that it writes, and letters with their outcome."""

    title: str
    commands: tuple[str, ...]
    rules: tuple[Mapping[str, Any], ...]
    letters: tuple[tuple[Mapping[str, Any], str], ...]


def recipes() -> tuple[Recipe, ...]:
    """The recipes of the cookbook, in its order."""
    _, _, cookbook = PAGE.partition("## Cookbook\n")
    return tuple(_recipe(*match) for match in _RECIPE.findall(cookbook))


def settings() -> dict[str, Any]:
    """The pipeline that the examples are written for, as cdk.json has it."""
    (block,) = _blocks(PAGE, "settings")
    data: dict[str, Any] = json.loads(block)
    return data


def comparisons() -> Iterator[tuple[str, Any, str, str]]:
    """Each row of the table of comparisons: name, pattern, what matches and what does not."""
    _, _, table = PAGE.partition("| comparison |")
    for row in table.partition("\n\n")[0].splitlines()[2:]:
        name, pattern, yes, no = (cell.strip(" `") for cell in row.split("|")[1:-1])
        yield name, json.loads(pattern), yes, no


def commands() -> tuple[str, ...]:
    """Every `dlq` command line of the page."""
    lines = (line for block in _blocks(PAGE, "", "sh") for line in block.splitlines())
    return tuple(line for line in lines if line.startswith("dlq "))


def _recipe(title: str, text: str) -> Recipe:
    (rule,) = _blocks(text, "rule")
    (letters,) = _blocks(text, "letters")
    stored = json.loads(rule)
    shells = [line for block in _blocks(text, "", "sh") for line in block.splitlines()]
    return Recipe(
        title,
        tuple(shells),
        tuple(stored if isinstance(stored, list) else [stored]),
        tuple(_letter(line) for line in letters.splitlines()),
    )


def _letter(line: str) -> tuple[Mapping[str, Any], str]:
    letter, arrow, outcome = line.rpartition(" -> ")
    assert arrow, line
    return json.loads(letter), outcome


def _blocks(text: str, label: str, language: str = "") -> list[str]:
    return [
        body
        for kind, named, body in _BLOCK.findall(text)
        if named == label and kind == (language or kind)
    ]
