"""A whole session over a small library tells mutants that the tests notice from the others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lab.mutation.targets import ROOT

LIBRARY = """from functools import cache

def below(count):
    return count < 3

def countdown(count):
    while count > 0:
        count -= 1
    return count

@cache
def double(number):
    return number * 2

def adder(number):
    return lambda other: number + other

add_one = adder(1)
"""

TESTS = """from sample.counter import add_one, below, countdown, double

EARLY = double(4)

def test_counter():
    assert below(2) and not below(4)
    assert countdown(5) == 0
    assert double(4) == EARLY
    assert add_one(1) == 2
"""

# As our own tests do: what was frozen is in no list of what there is.
CONFTEST = "import gc\ndef pytest_collection_finish():\n    gc.freeze()\n"

RUN = """
import os, sys
from pathlib import Path
from lab.mutation import session
from lab.mutation.mutants import mutants

session.SPARE_SECONDS = 1.0
root = Path.cwd()
sys.path.insert(0, str(root))
module = root / "sample/counter.py"
found = list(mutants("counter.py", module.read_text(), str(module)))
ends = session.run_mutants(module.parent, found, ["tests"], "not long")
for mutant, ending in zip(found, ends, strict=True):
    print(mutant.becomes, "=", ending)
"""


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    (tmp_path / "sample").mkdir()
    (tmp_path / "sample/__init__.py").touch()
    (tmp_path / "sample/counter.py").write_text(LIBRARY)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_counter.py").write_text(TESTS)
    (tmp_path / "tests/conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = long\npythonpath = .\n")
    return tmp_path


def run(sample: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=sample, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_session_says_how_each_mutant_ends(sample: Path) -> None:
    ends = dict(line.rsplit(" = ", 1) for line in run(sample).stdout.splitlines())
    assert ends["return count >= 3"] == "killed"
    assert ends["return count <= 3"] == "survived"
    assert ends["pass"] == "timeout"
    # What the original made while everything was imported stays: its memory, and its closures.
    assert ends["return number // 2"] == "killed"
    assert ends["return number * 3"] == "killed"
    assert ends["return lambda other: number - other"] == "None"


def test_tests_that_fail_without_any_mutant_are_an_error(sample: Path) -> None:
    (sample / "tests/test_counter.py").write_text("def test_it():\n    assert False\n")
    said = run(sample).stderr
    assert "without any mutant these fail: tests/test_counter.py::test_it" in said
