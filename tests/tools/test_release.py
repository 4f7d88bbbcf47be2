"""A tag is released only with its version and with what a team asks before it upgrades."""

from __future__ import annotations

from pathlib import Path

from tests.each_row import each_row
from tools.release import ANSWERED, troubles

ROOT = Path(__file__).parents[2]

PROJECT = '[project]\nversion = "1.2.0"\n'
ANSWERS = "".join(f"### {heading}\n\n- Nothing.\n\n" for heading in ANSWERED)
CHANGELOG = f"# Changes\n\n## 1.2.0 (2026-12-01)\n\n{ANSWERS}## 1.1.0\n\n- Old.\n"


def test_a_version_that_answers_what_teams_ask_is_released() -> None:
    assert list(troubles("v1.2.0", PROJECT, CHANGELOG)) == []


@each_row(
    ("tag", "changelog", "said"),
    [
        ("v1.3.0", CHANGELOG, "the tag is v1.3.0; allowed: v1.2.0"),
        ("1.2.0", CHANGELOG, "allowed: v1.2.0"),
        ("v1.2.0", CHANGELOG.replace("## 1.2.0", "## 1.2.1"), "no section 1.2.0"),
        ("v1.2.0", CHANGELOG.replace("## 1.2.0", "## 11.2.0"), "no section 1.2.0"),
        ("v1.2.0", CHANGELOG.replace("- Nothing.", "", 1), f"nothing under: {ANSWERED[0]}"),
        ("v1.2.0", CHANGELOG.replace("How to go back", "Back"), "nothing under: How to go back"),
    ],
)
def test_what_is_missing_is_named(tag: str, changelog: str, said: str) -> None:
    [trouble] = troubles(tag, PROJECT, changelog)
    assert said in trouble


def test_what_comes_next_answers_them_already() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    changelog = (ROOT / "CHANGELOG.md").read_text()
    version = next(line for line in project.splitlines() if line.startswith("version"))
    version = version.split('"')[1]
    assert f"## {version} " not in changelog, "a released section is followed by a new one"
    unreleased = changelog.replace("## Unreleased", f"## {version}", 1)
    assert list(troubles(f"v{version}", project, unreleased)) == []
