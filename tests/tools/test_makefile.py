"""What a person finds without reading the Makefile: its help, and an editor's container."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()

COLUMNS = 80

# The first is what a newcomer types, the last is for the day on which all of it has to go.
TYPED = ["demo", "sandbox", "deploy", "test", "check", "nightly", "bench", "docs", "clean"]


def targets() -> set[str]:
    return {*re.findall(r"^([a-z][a-z0-9-]*):", MAKEFILE, re.MULTILINE)}


def test_help_shows_the_nine_targets_that_people_use_on_a_narrow_screen() -> None:
    # Not what the `make` that runs this test hands on.
    environment = {key: text for key, text in os.environ.items() if not key.startswith("MAKE")}
    make = shutil.which("make") or "make"
    shown = subprocess.run(
        [make, "help"], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    ).stdout.splitlines()
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
