"""docs/architecture.md lists every module once, and names no path that is gone."""

from __future__ import annotations

import re

from tools.architecture import BEGIN, END, PAGE, ROOT, page


def test_every_module_is_on_the_page() -> None:
    assert PAGE.read_text() == page(), "run `make docs`"


def test_every_module_says_what_it_is_for() -> None:
    section = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    assert re.findall(r"^\| `\w+` \|  ?\|$", section, re.MULTILINE) == []


def test_every_path_on_the_page_exists() -> None:
    paths = re.findall(r"`((?:tests|lambdas|tools|docs|infra|console)/[\w./-]+)`", PAGE.read_text())
    assert [path for path in paths if not (ROOT / path).exists()] == []
