"""Synthesized apps, kept by the content of what they were made from, so that none is ever stale.

A key covers every file that a synthesis reads, the context, what the environment says to the CDK,
and the versions of what turns them into templates. One changed byte is another key.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from sandbox.server import ROOT

FOLDER = ROOT / "build" / "templates"

# All that the app reads below this project's root; tests/sandbox/test_templates.py sees to it.
SOURCES = ("app.py", "cdk.json", "infra", "lambdas", "statemachines", "build/wheels")

# What the CDK CLI gives to an app beside cdk.json: what it has looked up, and its user's settings.
LOOKED_UP = ROOT / "cdk.context.json"
USERS = Path.home() / ".cdk.json"
SAID_TO_THE_CDK = ("CDK_", "JSII_")

PACKAGES = ("aws-cdk-lib", "constructs", "jsii", "pydantic")
CLI = ROOT / "node_modules" / "aws-cdk" / "package.json"

# The default's, the demo's, the tests', the drill's: 10 MB each, with its packages.
KEPT = 4

# Bytecode follows from its source.
_PASSED_OVER = "__pycache__"

_MAKING = "making-"


def key(app: Path, context: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Name what a synthesis of *app* would be made from, 32 hexadecimal digits.

    An app outside this project is read with everything beside it.
    """
    digest = hashlib.sha256()
    beside = [*(ROOT / name for name in SOURCES), LOOKED_UP, USERS]
    if app.parent != ROOT:
        beside.append(app.parent)
    for path in _files(beside):
        # Lengths first, so that no two lists of files read the same.
        _add(digest, str(path).encode())
        _add(digest, path.read_bytes())
    said = {name: text for name, text in environment.items() if name.startswith(SAID_TO_THE_CDK)}
    made_by = [sys.version, *(f"{name} {version(name)}" for name in PACKAGES), CLI.read_text()]
    _add(digest, json.dumps([str(app), dict(context), said, made_by], sort_keys=True).encode())
    return digest.hexdigest()[:32]


def assembly(name: str, synthesize: Callable[[Path], None], *, folder: Path = FOLDER) -> Path:
    """Give the folder of the templates called *name*, the synthesis being called if there is none.

    *synthesize* writes them into the folder that it is given; what it leaves behind when it raises
    is removed. Processes that want the same templates at once wait for the first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / name
    with _alone(folder / f"{name}.lock"):
        if not made.exists():
            with tempfile.TemporaryDirectory(dir=folder, prefix=_MAKING) as making:
                synthesize(Path(making, "cdk.out"))
                os.rename(Path(making, "cdk.out"), made)
        os.utime(made)
    _forget(folder, keep=KEPT)
    return made


def _forget(folder: Path, *, keep: int) -> None:
    """Remove the templates that were not used for longest."""
    kept = [path for path in folder.iterdir() if path.is_dir() and _MAKING not in path.name]
    for old in sorted(kept, key=lambda path: path.stat().st_mtime, reverse=True)[keep:]:
        shutil.rmtree(old, ignore_errors=True)
        (folder / f"{old.name}.lock").unlink(missing_ok=True)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from _files(sorted(each for each in path.iterdir() if each.name != _PASSED_OVER))
        elif path.is_file():
            yield path


def _add(digest: hashlib._Hash, content: bytes) -> None:
    digest.update(len(content).to_bytes(8, "big"))
    digest.update(content)
