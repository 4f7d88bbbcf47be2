"""A security rule of the linter that is switched off somewhere says why, there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.each_row import each_row
from tests.test_architecture import our_files

ROOT = Path(__file__).parents[3]

# `noqa` for a rule of flake8-bandit; other rules may come with it.
_SILENCED = re.compile(r"#\s*noqa:\s*(?:[A-Z]+\d+[, ]+)*S\d{3}\b([^#]*)")
_REASON = re.compile(r"(?:[, ]+[A-Z]+\d+)* - \S+(?: \S+)+\s*")


def unexplained(text: str) -> Iterator[str]:
    """The lines that silence a security rule without a reason."""
    for line in text.splitlines():
        found = _SILENCED.search(line)
        if found and not _REASON.fullmatch(found[1]):
            yield line.strip()


def test_every_silenced_line_says_why() -> None:
    assert {
        str(path.relative_to(ROOT)): lines
        for path in our_files()
        # This file plants some.
        if path != Path(__file__) and (lines := list(unexplained(path.read_text())))
    } == {}


@each_row(
    ("line", "fine"),
    [
        ("x = f()  # noqa: S311 - reproducible, not secret", True),
        ("x = f()  # noqa: B1, S311 - reproducible, not secret", True),
        ("x = f()  # noqa: S311, E501 - reproducible, not secret", True),
        ("x = f()  # noqa: S311", False),
        ("x = f()  # noqa: S311 - yes", False),
        ("x = f()  # noqa: E501", True),
    ],
)
def test_a_silenced_line_without_a_reason_is_found(line: str, fine: bool) -> None:
    assert (list(unexplained(line)) == []) is fine


def test_every_rule_that_is_off_for_many_files_says_why() -> None:
    off = [
        line
        for line in (ROOT / "pyproject.toml").read_text().splitlines()
        if re.search(r'"S\d{3}"', line)
    ]
    assert off
    assert all(len(line.partition("#")[2].split()) >= 4 for line in off), off
