"""What is fetched from others is named by its content: packages by hash, actions by commit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.each_row import each_row

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
LOCKS = (
    "requirements.txt",
    "lambdas/requirements.txt",
    "tools/node/requirements.txt",
    "tools/scan/requirements.txt",
    "tools/site/requirements.txt",
)

PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+(\.\d+)*")


def unpinned(workflow: str) -> list[str]:
    """What a workflow uses that is not pinned by commit, with its version for people beside it."""
    used = re.findall(r"\buses:\s*(.*)", workflow)
    return [action for action in used if not PINNED.fullmatch(action.strip())]


def unhashed(lock: str) -> list[str]:
    """The requirements of a lock file without an exact version and a hash."""
    requirements = re.sub(r"\s*\\\n\s*", " ", lock)
    lines = [line.split("#")[0].strip() for line in requirements.splitlines()]
    pinned = re.compile(r"[\w.\[\],-]+==\S+( ;[^-]*)?( --hash=sha256:[0-9a-f]{64})+")
    return [line for line in lines if line and not pinned.fullmatch(line)]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_each_action_is_pinned_by_its_commit(path: Path) -> None:
    text = path.read_text()
    assert "uses:" in text
    assert unpinned(text) == []


@each_row(
    "line",
    [
        "- uses: actions/checkout@v4",
        "- uses: actions/checkout@main",
        "- uses: actions/checkout@11bd719 # v4.2.2",
        "- uses: actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683",
        "- uses: ./actions/of-ours",
        "- uses: docker://alpine:3",
    ],
)
def test_an_action_that_is_not_pinned_is_found(line: str) -> None:
    assert unpinned(f"steps:\n  {line}\n") != []


def test_the_set_up_brings_node_to_a_workflow_as_to_anybody() -> None:
    assert [path.name for path in WORKFLOWS if "setup-node" in path.read_text()] == []


def test_one_action_has_one_version_everywhere() -> None:
    used = {
        action for path in WORKFLOWS for action in re.findall(r"uses:\s*(\S+)", path.read_text())
    }
    assert len({action.partition("@")[0] for action in used}) == len(used)


# A job that attests or publishes says who it is, and one writes a release; they run nothing of this
# checkout.
MORE = {
    "release.yml": {
        "attest": {"id-token": "write", "attestations": "write"},
        "attach": {"contents": "write"},
        "publish": {"id-token": "write"},
    },
    "site.yml": {"publish": {"id-token": "write", "pages": "write"}},
}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_read_and_nothing_else(path: Path) -> None:
    workflow: dict[Any, Any] = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    jobs = workflow["jobs"]
    more = {name: job["permissions"] for name, job in jobs.items() if "permissions" in job}
    assert more == MORE.get(path.name, {})
    for name in more:
        steps = jobs[name]["steps"]
        assert not any("checkout" in step.get("uses", "") for step in steps)
        # The program of the machine, which the action before has given files alone.
        assert all(step["run"].startswith("gh release create ") for step in steps if "run" in step)
    # Called by the words of a pull request, a workflow would run them with our token.
    assert "pull_request_target" not in path.read_text()


def test_every_supported_python_is_tested_with_the_command_of_the_readme() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())
    job = workflow["jobs"]["test"]
    matrix = job["strategy"]["matrix"]
    assert matrix["python"] == ["3.11", "3.12", "3.13"]
    assert job["runs-on"] == "${{ matrix.os }}"
    [macos] = matrix["include"]
    assert macos["os"].startswith("macos-")
    assert macos["python"] == matrix["python"][-1]
    assert [step["run"] for step in job["steps"] if "run" in step] == ["bash .ci/run"]
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == "make test"


def test_a_release_is_tested_and_attested_and_published_only_where_somebody_says_so() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]
    commands = [step["run"] for step in jobs["build"]["steps"] if "run" in step]
    assert commands[:2] == ['python -m tools.release "$GITHUB_REF_NAME"', "bash .ci/run"]
    assert commands[2].endswith(" -m nightly tests/test_install.py tests/test_packaging.py")
    assert " -m build --no-isolation " in commands[3]
    after = {name: jobs[name]["needs"] for name in ("attest", "attach", "publish")}
    assert after == {"attest": "build", "attach": "attest", "publish": "attest"}
    [attach] = [step["run"] for step in jobs["attach"]["steps"] if "run" in step]
    create = 'gh release create "$GITHUB_REF_NAME" dist/* --verify-tag --title "$GITHUB_REF_NAME"'
    assert attach == f'{create} --notes "CHANGELOG.md says what changes."'
    assert jobs["publish"]["if"] == "vars.PUBLISH == 'true'"


@each_row("name", LOCKS)
def test_each_package_is_pinned_by_its_hash_and_no_index_is_named(name: str) -> None:
    text = (ROOT / name).read_text()
    assert unhashed(text) == []
    assert "://" not in text


@pytest.mark.parametrize("line", ["boto3", "boto3==1.0", "boto3>=1 --hash=sha256:" + "0" * 64])
def test_a_package_without_a_hash_is_found(line: str) -> None:
    assert unhashed(line) == [line]


def test_the_command_line_interface_of_the_cdk_is_pinned_by_its_hash() -> None:
    packages = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    others = {key: one for key, one in packages.items() if key}
    assert others
    assert all(other["integrity"].startswith("sha512-") for other in others.values())


def test_everything_that_is_asked_for_has_an_exact_version() -> None:
    for name in LOCKS:
        asked = (ROOT / name).with_suffix(".in").read_text()
        for line in (asked_for.split("#")[0].strip() for asked_for in asked.splitlines()):
            assert not line or line.startswith("-r ") or "==" in line, f"{name}: {line}"
