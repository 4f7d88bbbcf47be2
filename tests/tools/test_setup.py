"""What a set-up installs, what it says, and how it ends."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from sandbox.server import ROOT
from tools import setup
from tools.setup import (
    OLDEST_PYTHON,
    SetupFailed,
    SetupStep,
    check,
    install,
    main,
    oldest,
    pins,
    version_of,
    weight,
)

WHOLE = ROOT / "requirements.txt"
DEMO = ROOT / "sandbox" / "requirements.txt"

# For checking, testing and scanning: nobody who watches the demo waits for them.
NOT_FOR_THE_DEMO = {"mypy", "moto", "hypothesis", "pytest", "ruff", "cfn-lint", "sympy", "checkov"}


def locked(path: Path) -> dict[str, frozenset[str]]:
    """The hashes of each pin of a lock file."""
    blocks = re.split(r"\n(?=[a-z])", path.read_text())
    return {block.split()[0]: frozenset(re.findall(r"--hash=(\S+)", block)) for block in blocks}


@pytest.fixture
def clock() -> Iterator[float]:
    return (float(number) for number in count())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(setup, "ROOT", tmp_path)
    (tmp_path / "build").mkdir()
    return tmp_path


def test_the_list_of_the_demo_is_a_part_of_the_lock_hash_by_hash() -> None:
    whole, demo = locked(WHOLE), locked(DEMO)
    assert {pin: hashes for pin, hashes in demo.items() if whole.get(pin) != hashes} == {}
    assert 40 < len(demo) < len(whole) / 1.8


def test_the_demo_installs_nothing_that_only_tests_need() -> None:
    assert NOT_FOR_THE_DEMO.isdisjoint(pin.split("==")[0] for pin in locked(DEMO))


def test_what_the_functions_carry_is_a_part_of_the_lock_too() -> None:
    functions = locked(ROOT / "lambdas" / "requirements.txt")
    assert functions.items() <= locked(DEMO).items()


def test_pins_are_counted(tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text("# a\nboto3==1 \\\n    --hash=sha256:0==\nruff==2 \\\n    # via x==y\n")
    assert pins(lock) == 2
    assert pins(DEMO) == len(locked(DEMO))


def said(text: str) -> list[str]:
    """A command that prints *text*."""
    return [sys.executable, "-c", f"print({text!r})"]


def test_a_step_counts_what_pip_says(folder: Path, clock: Iterator[float]) -> None:
    text = (
        "Collecting a==1 (from -r x)\n  Downloading a-1.whl (2.5 MB)\n"
        "Requirement already satisfied: b==2 in y\nCollecting c==3\n"
        "  Downloading c-3.whl (500 kB)\nInstalling collected packages: a, c"
    )
    step = SetupStep("packages", [said(text)], total=4)
    step.run(clock.__next__)
    assert (step.state, step.status, step.fetched) == ("packages 3 of 4", 0, 3_000_000)
    assert step.fetching > 0
    assert "Collecting a==1" in (folder / "build" / "setup-packages.log").read_text()


def test_a_step_that_waits_is_not_shown_and_does_not_run_after_a_failure(
    folder: Path, clock: Iterator[float]
) -> None:
    first = SetupStep("first", [[sys.executable, "-c", "raise SystemExit(3)"]])
    second = SetupStep("second", [[sys.executable, "-c", "open('ran', 'w')"]], after=first)
    assert not second.runs
    first.run(clock.__next__)
    second.run(clock.__next__)
    assert (first.status, second.status) == (3, 0)
    assert not (folder / "ran").exists()


def test_commands_of_a_step_end_with_the_first_that_fails(
    folder: Path, clock: Iterator[float]
) -> None:
    step = SetupStep("two", [[sys.executable, "-c", "raise SystemExit(2)"], said("unreached")])
    step.run(clock.__next__)
    assert step.status == 2
    assert step.log.read_text() == ""


def test_a_set_up_that_fails_shows_the_last_words(
    folder: Path, clock: Iterator[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [sys.executable, "-c", "print('no route to the index'); raise SystemExit(1)"]
    steps = [SetupStep("fine", [said("x")]), SetupStep("packages", [words])]
    monkeypatch.setattr(setup, "TARGETS", {"demo": lambda: steps})
    with pytest.raises(SetupFailed, match=r"packages failed; .*setup-packages.log:\nno route"):
        install("demo", clock.__next__)


def test_a_command_that_is_not_there_is_a_failure(folder: Path, clock: Iterator[float]) -> None:
    step = SetupStep("npm", [["no-such-program"]])
    step.run(clock.__next__)
    assert step.status == 1
    assert "no-such-program" in step.log.read_text()


def test_a_set_up_says_what_it_does_how_long_it_took_and_what_it_takes(
    folder: Path,
    clock: Iterator[float],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    steps = [SetupStep("Python packages", [said("  Downloading a-1.whl (7 MB)")], total=1)]
    monkeypatch.setattr(setup, "TARGETS", {"demo": lambda: steps})
    install("demo", clock.__next__)
    printed = capsys.readouterr().out
    assert "Set-up for `make demo`, once: 1 Python packages." in printed
    assert re.search(r"Set up in \d+ s: Python packages \d+ s\.", printed)
    assert "to fetch 7 MB" in printed
    assert re.search(r"In this folder \d+ MB .*caches outside it \d+ MB", printed)


@pytest.mark.parametrize(
    ("python", "tools", "wanted"),
    [((3, 11, 1), {"npm"}, "3.11.2"), ((3, 13, 0), set[str](), "Node 20")],
)
def test_what_the_machine_lacks_is_said(
    python: tuple[int, ...], tools: set[str], wanted: str
) -> None:
    with pytest.raises(SetupFailed, match=wanted):
        check(python, tools.__contains__)


def test_an_unknown_target_is_refused_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["nightly"]) == 2
    assert "demo|test|sizes|oldest" in capsys.readouterr().err


def test_links_are_not_weighed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 10_000)
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert 10_000 <= weight(tmp_path) < 11_000


def test_set_up_needs_nothing_but_python_itself() -> None:
    text = (ROOT / "tools" / "setup.py").read_text()
    imported = re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE)
    assert set(imported) <= sys.stdlib_module_names


@pytest.mark.parametrize("target", ["demo", "sandbox", "deploy", "synth", "demo-replay"])
def test_what_a_user_calls_first_waits_for_the_demos_set_up_alone(target: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(rf"^{target}: \$\(DEMO\)", makefile, re.MULTILINE)


def test_ci_runs_on_the_oldest_python_of_the_machine_that_we_support() -> None:
    versions = {"first": (3, 13, 0), "system": (3, 11, 2), "ancient": (3, 9, 2)}
    assert oldest(["first", "gone", "system", "ancient"], versions.get) == "system"
    assert oldest(["first", "gone"], versions.get) == "first"
    assert oldest(["ancient"], versions.get) == "python3"


def test_a_python_that_is_missing_has_no_version(tmp_path: Path) -> None:
    assert version_of(sys.executable) == sys.version_info[:3]
    assert version_of(str(tmp_path / "python3")) is None


def test_the_oldest_python_is_the_one_that_the_package_and_the_readme_name() -> None:
    version = ".".join(map(str, OLDEST_PYTHON))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={version}"
    assert f"Python ≥ {version} " in (ROOT / "README.md").read_text()
