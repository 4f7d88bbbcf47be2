"""What is typed in each scene: the fences of the runbook that are named for it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from sandbox.server import ROOT

RUNBOOK = ROOT / "docs" / "runbook.md"

_FENCE = re.compile(r"^```sh drill=([a-z-]+)\n(.*?)^```$", re.M | re.S)

# More is a puzzle, not a runbook.
MOST_COMMANDS = 5


def fences(page: Path = RUNBOOK) -> Mapping[str, Sequence[str]]:
    """The lines of each scene's fence, by the scene's name."""
    return {name: text.splitlines() for name, text in _FENCE.findall(page.read_text())}


def is_act(line: str) -> bool:
    """Whether a line of a fence is something that is done outside `dlq`."""
    return line.startswith("#")


def words(line: str, pipeline: str) -> list[str]:
    """The words of a command behind `dlq`, with the pipeline's name in the place of P."""
    command, *rest = shlex.split(line)
    if command != "dlq":
        raise ValueError(f"not a command of dlq: {line}")
    return [pipeline if word == "P" else word for word in rest]
