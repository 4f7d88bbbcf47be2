"""docs/architecture.md shows the floors that imports keep to, and names no path that is gone."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT
from tests.test_architecture import FLOORS

PAGE = (ROOT / "docs" / "architecture.md").read_text()


def test_the_floors_of_the_page_are_those_that_imports_keep_to() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", PAGE, re.M)
    shown = {int(floor): set(re.findall(r"`([\w.]+)`", packages)) for floor, packages in rows}
    assert shown == dict(enumerate(FLOORS, 1))


def test_every_path_on_the_page_exists() -> None:
    paths = re.findall(r"`((?:tests|lambdas|tools|docs|infra|console)/[\w./-]+)`", PAGE)
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_page_is_read_in_a_quarter_of_an_hour() -> None:
    assert len(PAGE.split()) <= 3_500
