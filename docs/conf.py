"""The pages as a site, as they lie here, the README first: `make site` builds it with Sphinx."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

project = "Deadletter"
root_doc = "README"
extensions = ["myst_parser"]
include_patterns = ["*.md", "docs/*.md", "docs/adr/*.md", "examples/**.md"]
exclude_patterns = [".venv", "build", "cdk.out", "node_modules"]
# Anchors of headings as a repository's host makes them. Examples of code are no promises to parse.
myst_heading_anchors = 6
suppress_warnings = ["misc.highlighting_failure", "myst.header", "toc.not_included"]
html_theme = "furo"
html_title = project
html_copy_source = False

_PAGES = re.compile(r"\]\(((?:docs/)?[\w-]+)\.md\)")
_BADGE = re.compile(r"^\[!\[CI\].*\n", re.M)


def with_contents(_app: Any, name: str, text: list[str]) -> None:
    """The README with its links as the table of contents, and without what its host alone shows."""
    if name == root_doc:
        readme = Path(f"{name}.md").read_text()
        pages = "\n".join(dict.fromkeys(_PAGES.findall(readme)))
        text[0] = f"{_BADGE.sub('', text[0])}\n```{{toctree}}\n:hidden:\n\n{pages}\n```\n"


def setup(app: Any) -> None:
    """Sphinx's entry."""
    app.connect("source-read", with_contents)
