"""Operations are usable without the libraries of the command line."""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

from console import operations

ROOT = Path(__file__).parents[3]

MODULES = [f"{operations.__name__}.{row.name}" for row in pkgutil.iter_modules(operations.__path__)]

BLOCKED = ("typer", "click", "rich")

# A None in sys.modules makes an import of that name fail.
IMPORTS = f"""
import importlib, sys
sys.modules.update(dict.fromkeys({BLOCKED}))
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def fresh_interpreter(*modules: str) -> subprocess.CompletedProcess[str]:
    """Imports the modules in a new interpreter in which the blocked libraries are missing."""
    return subprocess.run(
        [sys.executable, "-c", IMPORTS, *modules],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "lambdas")])},
        capture_output=True,
        text=True,
        check=False,
    )


def test_operations_import_neither_typer_nor_click_nor_rich() -> None:
    assert len(MODULES) > 20
    done = fresh_interpreter(*MODULES)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("module", [*BLOCKED, "console.cli.status"])
def test_an_import_of_the_command_line_is_noticed(module: str) -> None:
    assert fresh_interpreter(module).returncode != 0
