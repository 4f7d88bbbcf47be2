"""Synthesized apps, kept by the content of what they were made from, so that none is ever stale.

Kept are only those whose sources nobody touched while they were made. They are compared with the
checksum that was taken then, and each deployment gets a copy: what a deployment or an editor writes
never reaches the next one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sandbox.server import ROOT
from sandbox.sources import Sources

FOLDER = ROOT / "build" / "templates"

# The default's, the demo's, the tests', the drill's: 10 MB each, with its packages.
KEPT = 4

# An app that looks something up in its account writes cdk.context.json the first time.
TRIES = 3

_ASSEMBLY, _SEAL, _MAKING = "cdk.out", "seal", "making-"


class SourcesChange(Exception):
    """Sources that somebody writes while they are synthesized, again and again."""


def assembly(
    into: Path,
    read: Callable[[], Sources],
    synthesize: Callable[[Path], None],
    *,
    folder: Path = FOLDER,
) -> None:
    """Fill *into* with the templates of the sources as they are now.

    *read* reads these. *synthesize* is called if there are no templates of them, and writes into
    the folder that it is given; what it leaves behind when it raises is removed. Processes that
    want the same templates at once wait for the first. Raises SourcesChange.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for _ in range(TRIES):
        before = read()
        with _alone(folder, before.name):
            if read() != before:
                continue  # waited, and they were changed meanwhile
            made = folder / before.name
            if not made.exists():
                _make(made, before, read, synthesize)
            if _copied(made, into):
                os.utime(made)
                break
    else:
        raise SourcesChange(
            f"the sources were changed during each of {TRIES} syntheses; try again when they rest"
        )
    _forget(folder, keep=KEPT)


def _make(
    made: Path, before: Sources, read: Callable[[], Sources], synthesize: Callable[[Path], None]
) -> None:
    """Make templates, and keep them unless the sources are others than *before* by now."""
    prefix = f"{_MAKING}{made.name}-"
    with tempfile.TemporaryDirectory(dir=made.parent, prefix=prefix) as making:
        synthesize(Path(making, _ASSEMBLY))
        # Equal names would not do: a change that was taken back is in the templates all the same.
        if read() != before:
            return
        Path(making, _SEAL).write_text(_checksum(Path(making, _ASSEMBLY)))
        # TemporaryDirectory has to find what it made.
        (whole := Path(making, "whole")).mkdir()
        for part in (_ASSEMBLY, _SEAL):
            os.rename(Path(making, part), whole / part)
        os.rename(whole, made)


def _copied(made: Path, into: Path) -> bool:
    """Copy templates; False, and they are removed, if they are not what they were when made."""
    try:
        intact = _checksum(made / _ASSEMBLY) == (made / _SEAL).read_text()
    except FileNotFoundError:
        intact = False
    if not intact:
        shutil.rmtree(made, ignore_errors=True)
        return False
    if into.exists():
        shutil.rmtree(into)
    shutil.copytree(made / _ASSEMBLY, into, symlinks=True)
    return True


def _checksum(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            for part in (str(path.relative_to(folder)).encode(), path.read_bytes()):
                digest.update(len(part).to_bytes(8, "big"))
                digest.update(part)
    return digest.hexdigest()


def _forget(folder: Path, *, keep: int) -> None:
    """Remove the templates that were not used for longest, and what killed processes left."""
    here = [path for path in folder.iterdir() if path.is_dir()]
    left = [path for path in here if path.name.startswith(_MAKING)]
    kept = sorted((path for path in here if path not in left), key=_used, reverse=True)
    for old in [*kept[keep:], *left]:
        name = old.name.removeprefix(_MAKING).partition("-")[0]
        try:
            with _alone(folder, name, wait=False):
                shutil.rmtree(old, ignore_errors=True)
        except BlockingIOError:
            continue  # in use: next time


def _used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


@contextmanager
def _alone(folder: Path, name: str, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of all templates whose names begin alike: so there are sixteen, never removed.

    A lock file that is removed could be held by two at once.
    """
    with (folder / f"{name[0]}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
