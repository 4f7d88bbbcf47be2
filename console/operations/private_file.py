"""Files with customers' data: new, and readable by their owner alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from .errors import Cause, Problem


@contextmanager
def new_private_file(path: Path) -> Iterator[IO[str]]:
    """A new file for text. Problem if it exists, or cannot be written."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise Problem(f"{path} is there already: name another file.", Cause.INPUT) from error
    except OSError as error:
        raise Problem(f"Can't write {path}: {error.strerror}.", Cause.INPUT) from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        yield file
