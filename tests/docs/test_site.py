"""The pages as a site: built anew, it links to nothing that is not there."""

from __future__ import annotations

import re
import subprocess
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.pages import ROOT

SITE = ROOT / "build" / "site"


def missing(page: str, text: str) -> list[str]:
    """What a page links to within the site, or shows, and what is not there."""
    targets = re.findall(r'(?:href|src|srcset)="([^"#]+)', text)
    paths = [unquote(urlsplit(target).path) for target in targets if "://" not in target]
    return [path for path in paths if path and not ((SITE / page).parent / path).exists()]


@pytest.mark.nightly
def test_the_site_is_whole() -> None:
    words = ["make", "site"]
    made = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    pages = ["index.html", *(f"docs/{page.stem}.html" for page in (ROOT / "docs").glob("*.md"))]
    found = {page: missing(page, (SITE / page).read_text()) for page in pages}
    assert {page: paths for page, paths in found.items() if paths} == {}
    assert len(pages) > 20
    assert missing("index.html", '<a href="docs/none.html">') == ["docs/none.html"]
