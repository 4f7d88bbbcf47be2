"""What the console's modules import."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

CONSOLE = Path(__file__).parents[2] / "console"


def absolute_imports(text: str) -> list[str]:
    """The modules of `console` that a source imports by an absolute name."""
    names: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom) and not node.level:
            names.append(node.module or "")
    return [name for name in names if name.partition(".")[0] == "console"]


def test_imports_inside_the_console_are_relative() -> None:
    """The wheel installs the package under another name."""
    absolute = {path: absolute_imports(path.read_text()) for path in CONSOLE.rglob("*.py")}
    assert len(absolute) > 90
    assert {path: names for path, names in absolute.items() if names} == {}


@pytest.mark.parametrize("fault", ["import console.cli", "from console.cli import main"])
def test_an_absolute_import_is_found(fault: str) -> None:
    assert absolute_imports(fault) == [fault.split()[1]]
