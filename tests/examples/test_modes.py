"""What a reader copies moves nothing: an example over queues of a team begins in mode observe."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENFORCES = re.compile(r"^[^#\n]*\bmode\"?\s*[=:]\s*\"enforce\"", re.MULTILINE)


def enforcing(files: dict[str, str]) -> list[str]:
    """The files with a setting, not only a comment, that moves messages."""
    return [name for name, text in files.items() if ENFORCES.search(text)]


def test_no_example_moves_messages_before_a_person_says_so() -> None:
    files = [file for kind in ("py", "json") for file in (ROOT / "examples").rglob(f"*.{kind}")]
    assert len(files) > 5
    assert enforcing({str(file): file.read_text() for file in files}) == []


def test_an_example_that_enforces_is_found() -> None:
    planted = {
        "app.py": 'RedrivePipeline(self, "P", settings=PipelineSettings(mode="enforce"))',
        "cdk.json": '{"name": "orders", "mode": "enforce"}',
        "fine.py": '# until this says mode="enforce"\nsettings=PipelineSettings(name="orders")',
    }
    assert enforcing(planted) == ["app.py", "cdk.json"]
