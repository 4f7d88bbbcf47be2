"""A lock file of pip, and the wheels in a folder that it names by their hashes.

Needs the standard library only: it also runs where the project's own wheel is built.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

# What pip is told of the functions: their wheels are for other machines than this one.
PLATFORM = (
    *("--platform", "manylinux2014_aarch64", "--python-version", "3.13"),
    "--only-binary=:all:",
)

# A pin begins at the start of a line, its hashes follow it.
_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)==", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")

# The parts of a wheel's data folder that belong beside its packages.
_BESIDE = {"purelib", "platlib"}


class WheelMissing(Exception):
    """No file in the folder has a hash that the lock file allows for a package."""


def pins(lock: Path) -> Mapping[str, frozenset[str]]:
    """The packages of a lock file, each with the SHA-256 hashes that it allows."""
    _, *parts = _PIN.split(lock.read_text(encoding="utf-8"))
    return {
        name: frozenset(_HASH.findall(text))
        for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


def wheels(lock: Path, folder: Path) -> dict[str, Path]:
    """The wheel of each package that the lock file names, by that name.

    Other files in the folder are ignored, as is the name of a file: its content is what counts.
    Raises WheelMissing.
    """
    there = {
        hashlib.sha256(file.read_bytes()).hexdigest(): file for file in sorted(folder.glob("*.whl"))
    }
    chosen = {}
    for name, allowed in pins(lock).items():
        matching = sorted(allowed & there.keys())
        if not matching:
            raise WheelMissing(f"{folder} has no wheel of {name} with a hash of {lock}")
        chosen[name] = there[matching[0]]
    return chosen


def unpack(wheel: Path, target: Path) -> None:
    """Put the packages of a wheel into the folder `target`, without its command line scripts."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            parts = PurePosixPath(entry.filename).parts
            if parts[0].endswith(".data"):
                if parts[1] not in _BESIDE:
                    continue
                parts = parts[2:]
            if entry.is_dir() or not parts:
                continue
            file = target.joinpath(*parts)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(archive.read(entry))
