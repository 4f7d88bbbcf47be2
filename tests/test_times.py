"""A test of the day that costs too much fails, and what each part takes can be read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import times

ROOT = Path(__file__).parent.parent

CONFTEST = """
from tests import times
from tests.conftest import pytest_addoption, pytest_configure

times.LIMIT = 0.02
# These tests work for a time, not for a number of steps: how fast the machine is says nothing.
times.a_loop = lambda: times.A_LOOP
"""

TESTS = """
import subprocess, sys
from time import process_time

import pytest

WORK = "from time import process_time\\nwhile process_time() < 0.12: pass"


def work():
    until = process_time() + 0.12
    while process_time() < until:
        pass


def work_in_a_child():
    subprocess.run([sys.executable, "-c", WORK], check=True)


@pytest.fixture(scope="module")
def shared():
    work()
    yield
    work()


@pytest.fixture
def own():
    work_in_a_child()


def test_quick(): ...
def test_shares(shared): ...
def test_slow(): work()
def test_slow_by_a_child(): work_in_a_child()
def test_slow_by_its_fixture(own): ...
@pytest.mark.slow_because("it counts to a large number")
def test_marked(): work()
@pytest.mark.sandbox
def test_shares_an_emulator(): work()

def test_wrong(): assert 1 == 2
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a project with these tests, and what pytest prints of them."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_some.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  slow_because(reason)\n  sandbox")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-rfE", "--times", "times.jsonl"),
            *("-n", "1", "--dist", "loadfile"),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'lambdas'}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    return folder, done.stdout


def test_a_slow_test_fails_unless_it_says_why(ran: tuple[Path, str]) -> None:
    _, printed = ran
    failed = [line.split(" - ")[0] for line in printed.splitlines() if line.startswith("FAILED")]
    assert sorted(failed) == [
        "FAILED test_some.py::test_slow",
        "FAILED test_some.py::test_slow_by_a_child",
        "FAILED test_some.py::test_slow_by_its_fixture",
        "FAILED test_some.py::test_wrong",
    ]
    # The summary says them again where it does not cut its lines, as in CI.
    said = [line for line in printed.splitlines() if not line.startswith("FAILED")]
    assert "\n".join(said).count("of CPU, 0.02 are allowed by day: make it cheaper") == 3
    assert "assert 1 == 2" in printed


@pytest.mark.parametrize(
    ("cpu", "slower", "failed"), [(5.9, 1, 0), (6.1, 1, 1), (20, 4, 0), (25, 4, 1)]
)
def test_a_slower_machine_is_allowed_more(cpu: float, slower: float, failed: bool) -> None:
    assert times.too_much(cpu, lambda: slower * times.A_LOOP) == failed


def test_each_test_has_a_line_with_what_it_took_with_and_without_what_others_share(
    ran: tuple[Path, str],
) -> None:
    folder, _ = ran
    lines = {
        line["test"].partition("::")[2]: line
        for line in map(json.loads, (folder / "times.jsonl").read_text().splitlines())
    }
    assert len(lines) == TESTS.count("def test_")
    for name in ("test_slow", "test_slow_by_a_child", "test_slow_by_its_fixture", "test_marked"):
        assert lines[name]["own"] > 0.1
    # The first one of the module, and the last one.
    for name in ("test_shares", "test_wrong"):
        assert lines[name]["cpu"] > 0.1
        assert lines[name]["own"] < 0.1


# A program that is not told to end ends by itself.
NOT_TOLD = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; exit 9"


@pytest.mark.parametrize(
    ("program", "status"),
    [
        ("exit 3", 3),
        ("kill -9 $$", 137),
        ("kill -INT $PPID; exit 5", 5),
        (f"trap 'exit 7' TERM; kill -TERM $PPID; {NOT_TOLD}", 7),
    ],
)
def test_a_part_ends_as_its_program_and_is_noted(program: str, status: int, tmp_path: Path) -> None:
    code = (
        "from tests import times as t; t.FOLDER = t.Path('.'); t.sys.exit(t.main(t.sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "run", "unit", "sh", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == status
    [line] = (tmp_path / "unit.jsonl").read_text().splitlines()
    assert json.loads(line).keys() == {"part", "cases", "cpu", "wall"}


def test_the_table_adds_up_folders_and_parts() -> None:
    def test(name: str, *when: str) -> dict[str, object]:
        return {"test": name, "when": [*when], "cpu": 2.0, "own": 1.5, "wall": 3.0}

    lines = [
        test("tests/aws/wire/test_a.py::test_a"),
        test("tests/aws/test_b.py::test_b[a/b]"),
        test("tests/aws/test_b.py::test_b[c]", "sandbox"),
        test("tests/test_c.py::test_c"),
        {"part": "unit", "cases": 3, "cpu": 9.0, "wall": 10.0},
        {"part": "e2e", "cases": 1, "cpu": 1.0, "wall": 60.0},
    ]
    printed = [line.split() for line in times.table(lines)]
    for row in (
        ["aws", "2", "4.0", "6.0"],
        ["aws", "sandbox", "1", "2.0", "3.0"],
        ["tests", "1", "2.0", "3.0"],
        ["unit", "3", "9.0", "10.0"],
        ["the", "day", "4", "10.0"],
    ):
        assert row in printed


def test_without_a_run_the_table_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(times, "FOLDER", tmp_path)
    assert times.main([]) == 1
    assert "make test" in capsys.readouterr().err
