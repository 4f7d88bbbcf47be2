"""Pages of Markdown as their tests read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<text>.*?)^```$", re.M | re.S)


def anchors(page: Path) -> set[str]:
    """The anchors that a reader's browser finds in a page."""
    titles = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def leads_somewhere(path: str) -> bool:
    """Whether a path from the root, with its anchor if it has one, exists."""
    name, _, anchor = path.partition("#")
    file = ROOT / name
    return file.exists() and (not anchor or file.suffix != ".md" or anchor in anchors(file))


def sentences(text: str) -> Iterator[str]:
    """The sentences and table rows of a page, each in one line; code is left out."""
    text = FENCE.sub("", text)
    yield from (" ".join(line.split()) for line in text.splitlines() if line.startswith("|"))
    prose = "\n".join(line for line in text.splitlines() if not line.startswith("|"))
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*[-*] |#)", prose):
        yield from re.split(r"(?<=[.:;]) +", " ".join(paragraph.split()))
