"""Files and standard input as text."""

from __future__ import annotations

import sys
from pathlib import Path

from ..operations.problem import Cause, Problem


def read_text(path: str) -> str:
    """The text of a file, or of standard input for "-"; Problem if it can't be read."""
    try:
        if path == "-":
            return sys.stdin.read()
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Problem(f"Can't read {path}: {why}.", Cause.INPUT) from error
