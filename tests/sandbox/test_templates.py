"""Templates are used again for the very same source, and never for another."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox import templates
from sandbox.server import ROOT
from sandbox.templates import KEPT, SOURCES, assembly, key

CONTEXT = {"ephemeral": "true"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what a synthesis reads."""
    root = tmp_path / "project"
    for name in SOURCES:
        source, target = ROOT / name, root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    monkeypatch.setattr(templates, "ROOT", root)
    monkeypatch.setattr(templates, "LOOKED_UP", root / "cdk.context.json")
    monkeypatch.setattr(templates, "USERS", tmp_path / "home" / ".cdk.json")
    return root


def append(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write("\n# one line more\n")


@pytest.mark.parametrize(
    "change",
    [
        "app.py",
        "cdk.json",
        "infra/stacks.py",
        "infra/settings/app.py",
        "lambdas/deadletter/contract.py",
        "lambdas/requirements.txt",
        "statemachines/replay.asl.json",
        "infra/not_yet_in_git.py",
        "build/wheels/another.whl",
        "cdk.context.json",
        "../home/.cdk.json",
    ],
)
def test_one_line_more_in_what_a_synthesis_reads_is_another_key(project: Path, change: str) -> None:
    before = key(project / "app.py", CONTEXT, {})
    append(project / change)
    assert key(project / "app.py", CONTEXT, {}) != before


def test_a_file_that_is_gone_or_renamed_is_another_key(project: Path) -> None:
    before = key(project / "app.py", CONTEXT, {})
    (project / "infra" / "app_table.py").write_text("")
    with_it = key(project / "app.py", CONTEXT, {})
    (project / "infra" / "app_table.py").rename(project / "infra" / "app_table_2.py")
    assert len({before, with_it, key(project / "app.py", CONTEXT, {})}) == 3


def test_a_linked_source_counts_by_its_content(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text("x = 1\n")
    (project / "infra" / "linked.py").symlink_to(outside)
    before = key(project / "app.py", CONTEXT, {})
    append(outside)
    assert key(project / "app.py", CONTEXT, {}) != before


def test_settings_and_what_the_cdk_is_told_are_a_part_of_the_key(project: Path) -> None:
    app = project / "app.py"
    keys = [
        key(app, CONTEXT, {}),
        key(app, {**CONTEXT, "app": "shop"}, {}),
        key(app, {"ephemeral": "false"}, {}),
        key(app, CONTEXT, {"CDK_DEFAULT_REGION": "eu-west-1"}),
    ]
    assert len(set(keys)) == len(keys)


def test_nothing_changed_is_the_same_key_whatever_the_times_and_the_bytecode(project: Path) -> None:
    before = key(project / "app.py", CONTEXT, {"HOME": "a"})
    os.utime(project / "app.py", (1, 1))
    append(project / "infra" / "__pycache__" / "stacks.cpython-311.pyc")
    assert key(project / "app.py", CONTEXT, {"HOME": "b"}) == before


def test_an_app_elsewhere_is_read_with_all_that_lies_beside_it(
    project: Path, tmp_path: Path
) -> None:
    app = tmp_path / "planted" / "app.py"
    append(app)
    before = key(app, CONTEXT, {})
    append(app.parent / "stacks.py")
    assert key(app, CONTEXT, {}) != before


READS = """
import json, os, runpy, sys
opened = set()
sys.addaudithook(lambda event, about: event in ("open", "os.listdir", "os.scandir")
                 and isinstance(about[0], (str, os.PathLike)) and opened.add(os.fspath(about[0])))
sys.argv = ["app.py"]
runpy.run_path("app.py", run_name="__main__")
print(json.dumps(sorted(opened)))
"""


def test_a_synthesis_reads_nothing_of_the_project_that_the_key_does_not_cover(
    tmp_path: Path,
) -> None:
    environment = {**os.environ, "CDK_OUTDIR": str(tmp_path / "cdk.out"), "TMPDIR": str(tmp_path)}
    environment["CDK_CONTEXT_JSON"] = '{"pipelines": [{"name": "orders"}]}'
    ran = subprocess.run(
        [sys.executable, "-c", READS],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    opened = [Path(ROOT, path) for path in json.loads(ran.stdout.splitlines()[-1])]
    inside = {path for path in opened if path.is_relative_to(ROOT)}
    own = [ROOT / name for name in (*SOURCES, ".venv", "node_modules")]
    stray = {
        path
        for path in inside
        if path != ROOT and not any(path.is_relative_to(each) for each in own)
    }
    assert any(path.name.startswith("stacks") for path in inside)
    assert {path for path in stray if path.is_file()} == set()


def writing(text: str, calls: list[str]) -> Callable[[Path], None]:
    def synthesize(into: Path) -> None:
        calls.append(text)
        into.mkdir()
        (into / "template.json").write_text(text)

    return synthesize


def test_templates_are_made_once(tmp_path: Path) -> None:
    calls: list[str] = []
    first = assembly("a", writing("one", calls), folder=tmp_path)
    again = assembly("a", writing("two", calls), folder=tmp_path)
    assert first == again
    assert (calls, (again / "template.json").read_text()) == (["one"], "one")


def test_a_synthesis_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    def fails(into: Path) -> None:
        into.mkdir()
        (into / "half.json").write_text("{")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        assembly("a", fails, folder=tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
    calls: list[str] = []
    assembly("a", writing("whole", calls), folder=tmp_path)
    assert calls == ["whole"]


def test_two_at_once_make_them_once(tmp_path: Path) -> None:
    calls: list[str] = []
    both = [
        threading.Thread(
            target=assembly, args=("a", writing(name, calls)), kwargs={"folder": tmp_path}
        )
        for name in ("one", "two")
    ]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert len(calls) == 1


def test_only_the_latest_are_kept(tmp_path: Path) -> None:
    calls: list[str] = []
    for number in range(KEPT):
        made = assembly(f"t{number}", writing("x", calls), folder=tmp_path)
        os.utime(made, (number, number))
    assembly("t0", writing("x", calls), folder=tmp_path)
    assembly("new", writing("x", calls), folder=tmp_path)
    left = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert left == {"t0", "new", *(f"t{number}" for number in range(2, KEPT))}
