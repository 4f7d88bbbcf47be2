"""The mutants that are written. `make mutation` installs what writes them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from lab.mutation.__main__ import GENERATOR
from lab.mutation.targets import ROOT

pytestmark = [pytest.mark.long, pytest.mark.nightly]


def lines(tmp_path: Path, source: str) -> set[str]:
    """What the mutants of `source` look like, each with its lines joined."""
    path = tmp_path / "module.py"
    path.write_text(source)
    answer = subprocess.run(
        [str(GENERATOR), "-m", "lab.mutation.generate", str(path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    edits = json.loads(answer.stdout)[str(path)]
    mutated = {
        source[: edit["at"]] + edit["text"] + source[edit["at"] + edit["length"] :]
        for edit in edits
    }
    assert len(mutated) == len(edits)
    return {" ".join(text.split()) for text in mutated}


@pytest.mark.parametrize(
    ("source", "mutated"),
    [
        ("a = b < c\n", {"a = b <= c", "a = b >= c"}),
        ("a = b + c\n", {"a = b - c"}),
        ("a = b and c\n", {"a = b or c"}),
        ("a = b in c\n", {"a = b not in c"}),
        ("a = b not in c\n", {"a = b in c"}),
        ("a = b if c else d\n", {"a = b if not c else d"}),
        ("a = 7\n", {"a = 8", "a = 6"}),
        ("A = 7\n", {"A = 14"}),
        ("_A, B = 0, 1.5\n", {"_A, B = 1, 1.5", "_A, B = 0, 3.0"}),
        ("def a():\n    A = 7\n", {"def a(): A = 8", "def a(): A = 6"}),
        ("a()\n", {"pass"}),
        ("a += b\n", {"pass"}),
        ("def a():\n    raise B\n", {"def a(): pass"}),
        ("def a():\n    return b\n", {"def a(): return None"}),
        ("for a in b:\n    del c\n", {"for a in []: del c", "for a in b: pass"}),
    ],
)
def test_a_mistake_is_made_once(tmp_path: Path, source: str, mutated: set[str]) -> None:
    assert lines(tmp_path, source) == mutated


@pytest.mark.parametrize(
    "source",
    [
        '"""What it says."""\n',
        "a: int | None = b\n",
        "def a(b: int | None) -> int | None:\n    '''Says.'''\n",
        "from a import b\n",
        "a = zip(b, c, strict=True)\n",
        "class A(Protocol):\n    @property\n    def b(self) -> int: ...\n",
    ],
)
def test_annotations_and_texts_are_left_alone(tmp_path: Path, source: str) -> None:
    assert lines(tmp_path, source) == set()


def test_a_dataclass_keeps_its_decorator(tmp_path: Path) -> None:
    assert lines(tmp_path, "@dataclass(frozen=True, slots=True)\nclass A:\n    b: int\n") == set()
