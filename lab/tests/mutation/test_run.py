"""A whole run over a small library: warm and cold tell the same mutants apart."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lab.mutation.targets import ROOT

LIBRARY = """LIMIT = 3

def below(count):
    return count < LIMIT

def countdown(count):
    while count > 0:
        count -= 1
    return count
"""

TESTS = """from deadletter_sample.counter import below, countdown

def test_below():
    assert below(2) and not below(4)

def test_countdown():
    assert countdown(5) == 0
"""

# As our own tests do: what was frozen is in no list of what there is.
CONFTEST = """import gc

def pytest_collection_finish():
    gc.freeze()
"""

# Each mutant: the text, what it becomes, and how it has to end in both ways.
MUTANTS = [
    ("count < LIMIT", "count > LIMIT", "killed"),
    ("count < LIMIT", "count <= LIMIT", "survived"),
    ("count -= 1", "pass", "timeout"),
    ("LIMIT = 3", "LIMIT = 2", "killed"),
    ("LIMIT = 3", "LIMIT = 4", "survived"),
]

RUN = """
import os, pickle, sys
from pathlib import Path
import pytest
from lab.mutation import cold, warm
from lab.mutation.mutant import read_mutants
from lab.mutation.swap import swap_for

warm.SPARE_SECONDS = cold.COLD_SECONDS = 1.0
root, was, becomes = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
path = root / "deadletter_sample/counter.py"
source = path.read_text()
edit = {"operator": "Any", "at": source.index(was), "length": len(was), "text": becomes}
[mutant] = read_mutants("counter.py", source, [edit])
os.chdir(root)
sys.path.insert(0, str(root))
name = "deadletter_sample.counter"
ending = cold.run_cold(name, path, mutant.apply(source), ["tests"], "not long")
swap = swap_for(compile(source, path, "exec"), compile(mutant.apply(source), path, "exec"))
session = warm.WarmSession(
    path.parent, ["counter.py"], [(mutant, swap)] if swap else [], "tests/", lambda result: None
)
session.begin()
pytest.main(warm.options(["tests"], "not long"), plugins=[session])
print("ENDINGS", ending, [str(result.ending) for result in session.outcome.results])
print("FINAL", [session.outcome.is_final(result) for result in session.outcome.results])
print("ERROR", session.outcome.error)
"""


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    (tmp_path / "deadletter_sample").mkdir()
    (tmp_path / "deadletter_sample/__init__.py").touch()
    (tmp_path / "deadletter_sample/counter.py").write_text(LIBRARY)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_counter.py").write_text(TESTS)
    (tmp_path / "tests/conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = long\npythonpath = .\n")
    return tmp_path


def run(sample: Path, was: str, becomes: str) -> str:
    answer = subprocess.run(
        [sys.executable, "-c", RUN, str(sample), was, becomes],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    return answer.stdout


@pytest.mark.parametrize(("was", "becomes", "ending"), MUTANTS)
def test_warm_and_cold_runs_agree(sample: Path, was: str, becomes: str, ending: str) -> None:
    said = run(sample, was, becomes)
    # What runs at import can only be tried cold.
    warm = "[]" if was.startswith("LIMIT") else f"['{ending}']"
    assert f"ENDINGS {ending} {warm}" in said


def test_a_survivor_is_tried_anew_if_its_line_ran_before_the_tests(sample: Path) -> None:
    assert "FINAL [True]" in run(sample, "count < LIMIT", "count <= LIMIT")
    (sample / "tests/test_early.py").write_text(
        "from deadletter_sample.counter import below\nEARLY = below(3)\n"
        "def test_early():\n    assert not EARLY\n"
    )
    said = run(sample, "count < LIMIT", "count <= LIMIT")
    assert "ENDINGS killed ['survived']" in said
    assert "FINAL [False]" in said


def test_tests_that_fail_without_any_mutant_are_an_error(sample: Path) -> None:
    (sample / "tests/test_counter.py").write_text("def test_it():\n    assert False\n")
    assert "without any mutant these fail: tests/test_counter.py::test_it" in run(
        sample, "count < LIMIT", "count > LIMIT"
    )
