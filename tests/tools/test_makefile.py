"""What a person finds without reading the Makefile: its help, and an editor's container."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import tools.scan.__main__ as scan
from tests.test_architecture import imports

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()

COLUMNS = 80

# The first is what a newcomer types, the last is for the day on which all of it has to go.
TYPED = ["demo", "sandbox", "deploy", "test", "check", "nightly", "bench", "docs", "clean"]


def targets() -> set[str]:
    return {*re.findall(r"^([a-z][a-z0-9-]*):", MAKEFILE, re.MULTILINE)}


def make(*words: str | Path) -> str:
    """What `make` prints."""
    # Not what the `make` that runs this test hands on.
    environment = {
        key: text for key, text in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))
    }
    command = [shutil.which("make") or "make", *map(str, words)]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    ).stdout


def read_by_scanners() -> list[str]:
    """The files that the scanners read, as the Makefile knows them."""
    [files] = re.findall(r"^READ_BY_SCANNERS := (.*)$", make("-pn", "help"), re.MULTILINE)
    return str(files).split()


def test_a_change_of_anything_that_the_scanners_read_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "CLEAN", tmp_path / "clean.sha256")
    monkeypatch.setattr(scan, "scan", lambda: 0)
    files = [tmp_path / name for name in ("a", "b")]
    for file in files:
        file.write_text(file.name)
    names = [*map(str, files)]
    assert scan.main(names) == 0
    assert scan.main(["--clean", *reversed(names)]) == 0
    assert scan.main(["--clean", *names[:1]]) == 1
    files[0].write_text("changed")
    assert scan.main(["--clean", *names]) == 1
    # What is open is not noted.
    monkeypatch.setattr(scan, "scan", lambda: 1)
    assert scan.main(names) == 1
    assert scan.main(["--clean", *names]) == 1


def test_a_day_scans_unless_the_note_is_of_what_is_there() -> None:
    [check] = re.findall(r"^check:.*\n\t(.*)$", MAKEFILE, re.MULTILINE)
    assert "scanned" in check.split()
    [scanned] = re.findall(r"^scanned:.*\n\t(.*)$", MAKEFILE, re.MULTILINE)
    assert "--clean $(READ_BY_SCANNERS) || $(MAKE)" in scanned
    assert scanned.endswith(" scan")


def test_the_note_of_the_scanners_knows_every_module_that_they_import() -> None:
    known = {ROOT / path for path in read_by_scanners()}
    read = {path for folder in ("infra", "tools/scan") for path in (ROOT / folder).rglob("*.py")}
    waiting = [*read]
    while waiting:
        path = waiting.pop()
        for module, _ in imports(ast.parse(path.read_text()), str(path.relative_to(ROOT))):
            place = module.replace(".", "/")
            for above in (ROOT, ROOT / "lambdas"):
                for file in (above / f"{place}.py", above / place / "__init__.py"):
                    if file.is_file() and file not in read:
                        read.add(file)
                        waiting.append(file)
    assert read - known == set()
    assert {ROOT / "cdk.json", ROOT / "statemachines/replay.asl.json"} <= known
    assert {ROOT / "tools/scan/acknowledged.toml", ROOT / "tools/scan/requirements.txt"} <= known


def test_help_shows_the_nine_targets_that_people_use_on_a_narrow_screen() -> None:
    shown = make("help").splitlines()
    assert [line.split()[0] for line in shown] == TYPED
    assert [line for line in shown if len(line) > COLUMNS or len(line.split()) < 3] == []


def test_each_target_that_is_no_file_is_said_to_be_none() -> None:
    [phony] = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert sorted(phony.split()) == sorted(targets())


def test_programs_of_the_set_up_are_named_by_their_path() -> None:
    """make 3.81, which macOS has, does not look on the PATH that a Makefile exports."""
    assert (
        re.findall(r"^\t@?(?:cdk|python3?|pytest|ruff|mypy|dlq) .*$", MAKEFILE, re.MULTILINE) == []
    )


def test_the_container_of_an_editor_is_ready_for_the_demo() -> None:
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    make, target = container["postCreateCommand"].split()
    assert (make, target) == ("make", "ready")
    assert target in targets()
    # A plain Python of a version that we test; Node comes from the set-up.
    image, _, tag = container["image"].rpartition(":")
    assert image.endswith("/python")
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    assert f'"{tag.partition("-")[0]}"' in workflow
    assert container.keys() == {"name", "image", "postCreateCommand"}


def test_the_file_of_times_is_no_argument_of_its_own() -> None:
    """pytest takes a file that exists for the tests to run, and then reads no conftest."""
    assert re.findall(r"--times\S*", MAKEFILE) == ["--times=build/times/$@.jsonl"] * 2
