"""The page of the lab is one page, and names each module of the benches once."""

from __future__ import annotations

import re
from pathlib import Path

LAB = Path(__file__).parents[1]
PAGE = (LAB / "README.md").read_text()


def test_each_module_of_the_benches_has_a_row() -> None:
    section = PAGE.partition("## bench")[2].partition("## mutation")[0]
    named = [
        module
        for row in re.findall(r"^\| (`.+?) \|", section, re.M)
        for module in re.findall(r"`(\w+)`", row)
    ]
    modules = [path.stem for path in (LAB / "bench").glob("*.py") if path.stem != "__init__"]
    assert sorted(named) == sorted({*modules})


def test_each_command_is_a_target() -> None:
    makefile = (LAB.parent / "Makefile").read_text()
    targets = {*re.findall(r"`make ([a-z-]+)", PAGE)}
    assert {"bench", "bench-parts", "mutation"} < targets
    assert [name for name in targets if not re.search(rf"^{name}:", makefile, re.M)] == []


def test_it_is_one_page() -> None:
    assert len(PAGE.split()) <= 550
