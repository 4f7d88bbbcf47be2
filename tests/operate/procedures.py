"""The procedures of docs/operate.md: the fences of each section, as they are typed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sandbox.server import ROOT

PAGE = ROOT / "docs" / "operate.md"

_SECTION = re.compile(r"^## (?P<title>[^\n]+)\n(?P<text>.*?)(?=^## |\Z)", re.M | re.S)
_FENCE = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<lines>.*?)^```$", re.M | re.S)

# The fences that are typed.
TYPED = "sh operate"


@dataclass(frozen=True, slots=True)
class Fence:
    """Commands that are typed in one go, and the lines that have to stand in what they say."""

    script: str
    expected: tuple[str, ...]


def fences(text: str) -> Iterator[Fence]:
    """The fences of a text that are typed."""
    for fence in _FENCE.finditer(text):
        if fence["kind"] == TYPED:
            lines = fence["lines"].splitlines()
            yield Fence(
                "\n".join(line for line in lines if not line.startswith("> ")),
                tuple(line[2:] for line in lines if line.startswith("> ")),
            )


def procedures(page: str) -> dict[str, list[Fence]]:
    """The fences of each section by its title, in the order of the page."""
    found = {section["title"]: list(fences(section["text"])) for section in _SECTION.finditer(page)}
    return {title: steps for title, steps in found.items() if steps}


def stands_in(expected: str, output: str) -> bool:
    """Whether a line of the page stands in an output; `…` is anything, and spaces are alike."""
    parts = (re.escape(" ".join(part.split())) for part in expected.split("…"))
    return re.search(".*".join(parts), " ".join(output.split())) is not None


def gone(diff: str) -> list[str]:
    """The lines of `cdk diff` by which a resource goes, or is made anew."""
    lines = [line for line in diff.splitlines() if line.startswith(("[-] AWS::", "[~] AWS::"))]
    impact = ("replace", "may be replaced")
    return [line for line in lines if line.startswith("[-]") or line.rstrip().endswith(impact)]


def read(page: Path = PAGE) -> dict[str, list[Fence]]:
    """The procedures of the page."""
    return procedures(page.read_text())
