"""A deployment synthesizes what has changed, and only that; the CDK CLI is a stand-in here."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sandbox import deploy as deployment
from sandbox import sources, templates
from sandbox.deploy import DeployError, deploy

# Notes what it was called with; `synth` copies the source into its template.
CLI = """#!{python}
import json, os, pathlib, sys
words = [word for word in sys.argv[1:] if word not in ("--ci", "--no-color", "--no-notices")]
said = dict(word[2:].split("=", 1) for word in words if word.startswith("--") and "=" in word)
with open({calls!r}, "a") as calls:
    print(json.dumps([words[0], sorted(os.environ)]), file=calls)
if words[0] == "synth":
    out = pathlib.Path(said["output"])
    out.mkdir()
    (out / "template").write_text(pathlib.Path("infra/stacks.py").read_text())
if words[0] == "deploy":
    text = pathlib.Path(said["app"], "template").read_text()
    pathlib.Path(said["outputs-file"]).write_text(json.dumps({{"Stack": {{"Says": text}}}}))
"""


class DeployedProject:
    """An app, and the sandbox that it is deployed into."""

    def __init__(self, folder: Path) -> None:
        self.root, self.calls = folder / "project", folder / "calls"
        self.stacks = self.root / "infra" / "stacks.py"
        self.function = self.root / "lambdas" / "handler.py"
        for file in (self.root / "app.py", self.stacks, self.function):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("one line\n")
        self.cli = folder / "cdk"
        self.cli.write_text(CLI.format(python=sys.executable, calls=str(self.calls)))
        self.cli.chmod(0o755)
        self.sandbox: Any = SimpleNamespace(
            folder=folder / "sandbox", environment={"AWS_ENDPOINT_URL": "https://127.0.0.1:1"}
        )
        self.sandbox.folder.mkdir()

    def deployed(self, **context: str) -> str:
        outputs = deploy(self.sandbox, context=context, app=self.root / "app.py")
        return outputs["Stack"]["Says"]

    def called(self) -> list[str]:
        words = [json.loads(line)[0] for line in self.calls.read_text().splitlines()]
        self.calls.write_text("")
        return words


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeployedProject:
    made = DeployedProject(tmp_path)
    monkeypatch.setattr(deployment, "CDK", made.cli)
    monkeypatch.setattr(sources, "ROOT", made.root)
    kept: Callable[..., None] = templates.assembly

    def assembly(*arguments: Any) -> None:
        kept(*arguments, folder=tmp_path / "templates")

    monkeypatch.setattr(templates, "assembly", assembly)
    return made


WITH_SYNTH, WITHOUT = ["bootstrap", "synth", "deploy"], ["bootstrap", "deploy"]


def test_nothing_changed_is_no_synthesis(project: DeployedProject) -> None:
    project.deployed()
    assert project.called() == WITH_SYNTH
    project.deployed()
    assert project.called() == WITHOUT


def test_one_line_of_the_stacks_is_a_new_synthesis_and_what_is_deployed(
    project: DeployedProject,
) -> None:
    assert project.deployed() == "one line\n"
    with project.stacks.open("a") as file:
        file.write("one more\n")
    assert project.deployed() == "one line\none more\n"
    assert project.called() == WITH_SYNTH * 2
    project.stacks.write_text("one line\n")
    assert project.deployed() == "one line\n"
    assert project.called() == WITHOUT


@pytest.mark.parametrize("changed", ["a function", "the settings", "the environment"])
def test_whatever_else_is_changed_is_a_new_synthesis(
    project: DeployedProject, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    project.deployed()
    settings = {}
    if changed == "a function":
        project.function.write_text("another line\n")
    elif changed == "the settings":
        settings["app"] = "shop"
    else:
        monkeypatch.setenv("CDK_CONTEXT_JSON", "{}")
    project.deployed(**settings)
    assert project.called() == WITH_SYNTH * 2


def test_the_cli_sees_little_of_the_shell(
    project: DeployedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_PROFILE", "PYTHONPATH", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "x")
    project.deployed()
    for line in project.calls.read_text().splitlines():
        seen = set(json.loads(line)[1])
        assert not seen & {"AWS_PROFILE", "PYTHONPATH", "HTTPS_PROXY"}
        assert "AWS_ENDPOINT_URL" in seen


def test_the_cli_runs_in_the_node_of_the_environment(
    project: DeployedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/of/the/shell")
    given = deployment.environment(project.sandbox, project.sandbox.folder)
    assert given["PATH"] == f"{Path(sys.executable).parent}:/of/the/shell"


def test_a_cli_that_fails_is_reported_with_its_last_words(project: DeployedProject) -> None:
    project.cli.write_text("#!/bin/sh\necho no such stack\nexit 3\n")
    with pytest.raises(DeployError, match="ended with status 3:\nno such stack"):
        project.deployed()
