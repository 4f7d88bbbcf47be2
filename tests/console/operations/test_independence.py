"""Operations are usable without the libraries of the command line."""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
from pathlib import Path

from console import operations

ROOT = Path(__file__).parents[3]

MODULES = [f"{operations.__name__}.{row.name}" for row in pkgutil.iter_modules(operations.__path__)]

BLOCKED = ("typer", "click", "rich")

# A None in sys.modules makes an import of that name fail.
IMPORTS = f"""
import importlib, sys
sys.modules.update(dict.fromkeys({BLOCKED}))
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError:
        print(name)
"""


def not_imported(*modules: str) -> list[str]:
    """Which of the modules a new interpreter can't import in which the blocked ones are missing."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS, *modules],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "lambdas")])},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_operations_import_neither_typer_nor_click_nor_rich() -> None:
    assert len(MODULES) > 20
    assert not_imported(*MODULES) == []


def test_an_import_of_the_command_line_is_noticed() -> None:
    noticed = [*BLOCKED, "console.cli.status"]
    assert not_imported(*noticed) == noticed
