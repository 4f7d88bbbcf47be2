"""All that a synthesis reads is in the name of its templates: nothing else may be in them."""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from sandbox import sources
from sandbox.server import ROOT
from sandbox.sources import BYTECODE, NOT_NAMED, SOURCES, forget_bytecode, given, read, roots

CONTEXT = {"ephemeral": "true"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small stand-in for each of the things that a synthesis reads."""
    root = tmp_path / "project"
    for name in SOURCES:
        append(root / name / "__init__.py" if (ROOT / name).is_dir() else root / name)
    append(root / "infra" / "stacks.py")
    packages = tmp_path / "packages"
    append(packages / "aws_cdk_lib-2.0.dist-info" / "RECORD")
    monkeypatch.setattr(site, "getsitepackages", lambda: [str(packages)])
    monkeypatch.setattr(sources, "ROOT", root)
    monkeypatch.setattr(sources, "LOOKED_UP", root / "cdk.context.json")
    monkeypatch.setattr(sources, "USERS", tmp_path / "home" / ".cdk.json")
    monkeypatch.setattr(sources, "CLI", root / "node_modules" / ".package-lock.json")
    return root


def append(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write("\n# one line more\n")


def name(
    project: Path, context: dict[str, str] = CONTEXT, environment: dict[str, str] | None = None
) -> str:
    return read(project / "app.py", context, environment or {}).name


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
        "sandbox/deploy.py",
        "node_modules/.package-lock.json",
        "../packages/aws_cdk_lib-2.0.dist-info/RECORD",
        "../packages/jsii-9.dist-info/RECORD",
        "../packages/editable.pth",
    ],
)
def test_one_line_more_in_what_a_synthesis_reads_is_another_name(
    project: Path, change: str
) -> None:
    before = name(project)
    append(project / change)
    assert name(project) != before


def test_a_file_that_is_gone_or_renamed_is_another_name(project: Path) -> None:
    before = name(project)
    (project / "infra" / "app_table.py").write_text("")
    with_it = name(project)
    (project / "infra" / "app_table.py").rename(project / "infra" / "app_table_2.py")
    assert len({before, with_it, name(project)}) == 3


def test_a_linked_source_counts_by_its_content_and_by_where_it_leads(
    project: Path, tmp_path: Path
) -> None:
    outside, same = tmp_path / "outside.py", tmp_path / "same.py"
    for file in (outside, same):
        file.write_text("x = 1\n")
    link = project / "infra" / "linked.py"
    link.symlink_to(outside)
    names = [name(project)]
    append(outside)
    names.append(name(project))
    link.unlink()
    link.symlink_to(same)
    names.append(name(project))
    assert len(set(names)) == 3


def test_settings_and_all_that_the_app_is_told_are_a_part_of_the_name(project: Path) -> None:
    names = [
        name(project),
        name(project, {**CONTEXT, "app": "shop"}),
        name(project, {"ephemeral": "false"}),
        name(project, environment={"CDK_DEFAULT_REGION": "eu-west-1"}),
        name(project, environment={"NODE_OPTIONS": "--require=./more.js"}),
        name(project, environment={"ANYTHING": "1"}),
    ]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("where", ["context", "cdk.json", "relative"])
def test_a_file_that_the_settings_name_is_read_with_them(
    project: Path, tmp_path: Path, where: str
) -> None:
    schema = tmp_path / "order.schema.json"
    schema.write_text('{"type": "object"}')
    said = "../order.schema.json" if where == "relative" else str(schema)
    pipelines = json.dumps([{"name": "orders", "replay": {"schema": said}}])
    context = {"pipelines": pipelines}
    if where == "cdk.json":
        (project / "cdk.json").write_text(json.dumps({"context": {"pipelines": pipelines}}))
        context = {}
    before = name(project, context)
    schema.write_text('{"type": "array"}')
    assert name(project, context) != before


def test_the_node_that_is_found_is_a_part_of_the_name(project: Path, tmp_path: Path) -> None:
    names = []
    for folder in ("old", "new"):
        binary = tmp_path / folder / "node"
        binary.parent.mkdir()
        binary.write_text("#!/bin/sh\n")
        binary.chmod(0o755)
        names.append(name(project, environment={"PATH": str(binary.parent)}))
    assert len({name(project), *names}) == 3


def test_nothing_changed_is_the_same_name_whatever_the_times_and_the_bytecode(
    project: Path,
) -> None:
    before = name(project, environment=dict.fromkeys(NOT_NAMED, "/a"))
    os.utime(project / "app.py", (1, 1))
    append(project / "infra" / BYTECODE / "stacks.cpython-311.pyc")
    assert name(project, environment=dict.fromkeys(NOT_NAMED, "/b")) == before


def test_a_change_that_is_taken_back_has_the_same_name_and_another_stamp(project: Path) -> None:
    file = project / "infra" / "stacks.py"
    text, before = file.read_text(), read(project / "app.py", CONTEXT, {})
    append(file)
    file.write_text(text)
    after = read(project / "app.py", CONTEXT, {})
    assert after.name == before.name
    assert after != before


def test_an_app_elsewhere_is_read_with_all_that_lies_beside_it(
    project: Path, tmp_path: Path
) -> None:
    app = tmp_path / "planted" / "app.py"
    append(app)
    before = read(app, CONTEXT, {}).name
    append(app.parent / "stacks.py")
    assert read(app, CONTEXT, {}).name != before


def test_the_shell_gives_nothing_that_changes_what_python_imports() -> None:
    shell = {"PYTHONPATH": "/elsewhere", "PYTHONSAFEPATH": "1", "AWS_PROFILE": "x", "PATH": "/bin"}
    assert given(shell) == {"PATH": "/bin"}


def test_bytecode_of_another_source_with_the_same_size_and_second_is_not_believed(
    project: Path,
) -> None:
    module = project / "infra" / "planted.py"

    def imported() -> str:
        ran = subprocess.run(
            [sys.executable, "-c", "from infra.planted import answer; print(answer)"],
            cwd=project,
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=True,
        )
        return ran.stdout.strip()

    for number in (1, 2):
        module.write_text(f"answer = {number}\n")
        os.utime(module, (1_000_000_000, 1_000_000_000))
        if number == 1:
            assert imported() == "1"
    assert imported() == "1", "Python checks more than size and second now"
    forget_bytecode(project / "app.py")
    assert imported() == "2"


READS = """
import json, os, runpy, sys
opened = set()
sys.addaudithook(lambda event, about: event in ("open", "os.listdir", "os.scandir")
                 and isinstance(about[0], (str, os.PathLike)) and opened.add(os.fspath(about[0])))
sys.argv = ["app.py"]
runpy.run_path("app.py", run_name="__main__")
print(json.dumps(sorted(opened)))
"""


@pytest.mark.slow_because("it synthesizes an app in a process of its own")
def test_a_synthesis_reads_nothing_that_its_name_does_not_cover(tmp_path: Path) -> None:
    schema, own = tmp_path / "order.schema.json", tmp_path / "own"
    schema.write_text('{"type": "object"}')
    own.mkdir()
    pipelines = [{"name": "orders", "replay": {"schema": str(schema)}}]
    environment = {**given(os.environ), "CDK_OUTDIR": str(own / "cdk.out"), "TMPDIR": str(own)}
    # What fills the asset, build/wheels and lambdas, is covered: Node need not stage it.
    told = {"pipelines": pipelines, "aws:cdk:bundling-stacks": []}
    environment["CDK_CONTEXT_JSON"] = json.dumps(told)
    ran = subprocess.run(
        [sys.executable, "-c", READS],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    opened = {Path(ROOT, path) for path in json.loads(ran.stdout.splitlines()[-1])}
    assert schema in opened
    assert any(path.name.startswith("stacks.") for path in opened)
    # Python and its packages, named by their lists of files; what the synthesis itself writes.
    machine = [sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), "/dev", "/proc", "/etc"]
    jsii = Path.home() / ".cache" / "aws"
    covered = [*roots(ROOT / "app.py", {"pipelines": json.dumps(pipelines)})]
    covered += [Path(path) for path in machine] + [Path(sys.prefix).resolve(), jsii, own]
    stray = {
        path
        for path in opened
        if path.is_file() and not any(path.is_relative_to(each) for each in covered)
    }
    assert stray == set()
