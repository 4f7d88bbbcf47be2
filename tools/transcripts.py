"""Puts what commands really printed into a page: `python -m tools.transcripts`.

A transcript is a text of `build/transcripts/NAME.txt`: each command behind `$ `, then its output.
`make drill` writes them. In the page it stands between two markers, as a block of text:

    <!-- transcript: NAME -->
    <!-- end -->

Without such a text, the page keeps what stands between its markers.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE, FOLDER = ROOT / "docs" / "runbook.md", ROOT / "build" / "transcripts"

MARKED = re.compile(r"<!-- transcript: (?P<name>[a-z-]+) -->\n(?P<text>.*?)<!-- end -->", re.DOTALL)
BLOCK = re.compile(r"\A\n```text\n(?P<text>.*?)\n```\n\n\Z", re.DOTALL)

MACHINE = re.compile(
    r"/(?:tmp|home|root|work|Users|private|var)/\S*|\b(?:localhost|127\.0\.0\.1)\b\S*"
)
"""What is only on the machine on which a transcript was made."""


class NotFit(Exception):
    """A transcript can't stand in the page."""


def filled(page: str, transcripts: Mapping[str, str]) -> str:
    """The page with these transcripts between its markers.

    Raises NotFit for a transcript that names the machine, would end its block early, or has no
    marker.
    """
    names = {match["name"] for match in MARKED.finditer(page)}
    if unknown := sorted(transcripts.keys() - names):
        raise NotFit(f"the page has no marker for {', '.join(unknown)}")

    def block(match: re.Match[str]) -> str:
        name = match["name"]
        text = transcripts.get(name)
        if text is None:
            return match[0]
        return f"<!-- transcript: {name} -->\n\n```text\n{_fit(name, text)}\n```\n\n<!-- end -->"

    return MARKED.sub(block, page)


def transcripts_of(page: str) -> dict[str, str]:
    """The transcripts that stand in the page, by name; empty where there is none yet."""
    found = {}
    for match in MARKED.finditer(page):
        block = BLOCK.match(match["text"])
        found[match["name"]] = "" if block is None else block["text"]
    return found


def commands_of(transcript: str) -> list[str]:
    """The commands that were typed."""
    return [line[2:] for line in transcript.splitlines() if line.startswith("$ ")]


def _fit(name: str, text: str) -> str:
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    fit = "\n".join(lines)
    if machine := MACHINE.search(fit):
        raise NotFit(f"transcript {name} names the machine it was made on: {machine[0]}")
    if "```" in fit:
        raise NotFit(f"transcript {name} has three back-ticks, which would end its block")
    if not commands_of(fit):
        raise NotFit(f"transcript {name} has no command")
    return fit


def main() -> int:
    """Fill the page with the texts of the folder; the exit status is 1 if one does not fit."""
    texts = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.txt"))}
    try:
        page = filled(PAGE.read_text(), texts)
    except NotFit as problem:
        print(problem, file=sys.stderr)
        return 1
    PAGE.write_text(page)
    print(f"{PAGE.relative_to(ROOT)}: {len(texts)} transcripts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
