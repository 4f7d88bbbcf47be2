"""Whether a tag may be released: `python -m tools.release v0.2.0`.

The tag is the version of pyproject.toml, and CHANGELOG.md has a section for it that answers what a
team asks before it upgrades. The standard library only, for nothing is installed yet.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

ANSWERED = ("What `cdk diff` shows", "What a person on call sees", "How to go back")
"""The headings of a release in CHANGELOG.md, each with text below it."""


def troubles(tag: str, project: str, changelog: str) -> Iterator[str]:
    """What keeps `tag` from being released, given the texts of pyproject.toml and CHANGELOG.md."""
    version = tomllib.loads(project)["project"]["version"]
    if tag != f"v{version}":
        yield f"the tag is {tag}; allowed: v{version}, the version of pyproject.toml"
    sections = dict(_parts("## ", changelog))
    titles = [title for title in sections if title.split()[:1] == [version]]
    if not titles:
        yield f"CHANGELOG.md has no section {version}"
    for title in titles:
        answers = dict(_parts("### ", sections[title]))
        for heading in ANSWERED:
            if not answers.get(heading, "").strip():
                yield f"section {version} of CHANGELOG.md says nothing under: {heading}"


def _parts(mark: str, text: str) -> Iterator[tuple[str, str]]:
    """The headings of this mark, each with what follows it."""
    for part in re.split(f"^{mark}", text, flags=re.MULTILINE)[1:]:
        title, _, rest = part.partition("\n")
        yield title.strip(), rest


def main() -> None:
    """Exit with 1 and the reasons if the tag may not be released."""
    if len(sys.argv) != 2:
        sys.exit("Name the tag: python -m tools.release v0.2.0")
    found = [
        *troubles(
            sys.argv[1],
            (ROOT / "pyproject.toml").read_text(),
            (ROOT / "CHANGELOG.md").read_text(),
        )
    ]
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
