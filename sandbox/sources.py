"""All that a synthesis of the app reads, named by its content: one changed byte is another name.

The name covers every file, the settings and the files that these name, all environment variables
that the app is given but for those of `NOT_NAMED`, and what turns them into templates: Python, its
packages, Node and the CDK CLI.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import site
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.server import ROOT

# All that the app reads below this project's root, and how it is synthesized.
# tests/sandbox/test_sources.py listens to what a synthesis opens.
SOURCES = (
    "app.py",
    "cdk.json",
    "infra",
    "lambdas",
    "statemachines",
    "build/wheels",
    "sandbox/deploy.py",
    "sandbox/sources.py",
    "sandbox/templates.py",
)

# What the CDK CLI gives to an app beside cdk.json: what it has looked up, and its user's settings.
LOOKED_UP = ROOT / "cdk.context.json"
USERS = Path.home() / ".cdk.json"

# Each file that the CLI was installed from, with its checksum.
CLI = ROOT / "node_modules" / ".package-lock.json"

# Variables of the shell that a synthesis is given. The app sees no other, so that none can matter.
GIVEN = ("HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ")
GIVEN_BEGIN = ("CDK_", "DYLD_", "JSII_", "LC_", "NODE_")

# Where this shell and this sandbox lie; templates do not depend on it. Node, which PATH leads to,
# is named apart.
NOT_NAMED = (
    "AWS_CA_BUNDLE",
    "AWS_ENDPOINT_URL",
    "CDK_HOME",
    "NODE_EXTRA_CA_CERTS",
    "PATH",
    "TMPDIR",
)

BYTECODE = "__pycache__"


@dataclass(frozen=True, slots=True)
class Sources:
    """What a synthesis would read now.

    name    32 hexadecimal digits, the same for the same content
    stamps  what the file system says of each file: equal ones mean that none was written meanwhile,
            not even there and back
    """

    name: str
    stamps: tuple[tuple[int, ...], ...]


def given(shell: Mapping[str, str]) -> dict[str, str]:
    """Choose the variables of a shell that a synthesis is given."""
    return {
        name: text for name, text in shell.items() if name in GIVEN or name.startswith(GIVEN_BEGIN)
    }


def read(app: Path, context: Mapping[str, str], environment: Mapping[str, str]) -> Sources:
    """Read all that a synthesis of *app* would, in this environment and no other.

    An app outside this project is read with everything beside it.
    """
    digest = hashlib.sha256()
    stamps = []
    for path in _files(roots(app, context)):
        # Lengths first, so that no two lists of files read the same.
        _add(digest, str(path).encode())
        _add(digest, str(path.readlink()).encode() if path.is_symlink() else b"")
        _add(digest, path.read_bytes())
        seen = path.stat()
        stamps.append((seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns))
    named = {name: text for name, text in environment.items() if name not in NOT_NAMED}
    said = [str(app), dict(context), named, sys.version, sys.prefix, _node(environment)]
    _add(digest, json.dumps(said, sort_keys=True).encode())
    return Sources(digest.hexdigest()[:32], tuple(stamps))


def roots(app: Path, context: Mapping[str, str]) -> list[Path]:
    """The files and folders that are read, below the project and elsewhere."""
    settings = [app.parent / "cdk.json", app.parent / "cdk.context.json", LOOKED_UP, USERS]
    beside = [] if app.parent == ROOT else [app.parent]
    named = [path for words in _texts(context, settings) if (path := _file(app.parent, words))]
    own = [ROOT / name for name in SOURCES]
    return [*own, *settings, *beside, CLI, *_installed(), *sorted(named)]


def forget_bytecode(app: Path) -> None:
    """Remove the compiled modules of the app.

    Python believes one whose source has the size and the second that it was compiled from: an edit
    of one digit within that second would stay unseen, and its templates would be kept.
    """
    beside = [] if app.parent == ROOT else [app.parent]
    for folder in (ROOT / "infra", ROOT / "lambdas", *beside):
        for compiled in folder.rglob(BYTECODE):
            shutil.rmtree(compiled, ignore_errors=True)


def _texts(context: Mapping[str, str], files: Iterable[Path]) -> set[str]:
    """Every text in the settings: some of them name files."""
    texts: set[str] = set()

    def walk(value: Any) -> None:
        match value:
            case str():
                texts.add(value)
                # `--context key=value` carries text only, which the app reads as JSON.
                if value[:1] in ("{", "["):
                    walk(_unpacked(value))
            case dict():
                for item in value.values():
                    walk(item)
            case list():
                for item in value:
                    walk(item)

    walk(dict(context))
    for file in files:
        if file.is_file():
            walk(_unpacked(file.read_text(errors="replace")))
    return texts


def _unpacked(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _file(folder: Path, text: str) -> Path | None:
    """The file that a text names, seen from *folder*."""
    try:
        return folder / text if (folder / text).is_file() else None
    except (OSError, ValueError):
        return None


def _installed() -> list[Path]:
    """What says which packages Python has: the list of each one's files with their checksums."""
    return [
        file
        for folder in map(Path, site.getsitepackages())
        for pattern in ("*.dist-info/RECORD", "*.pth")
        for file in sorted(folder.glob(pattern))
    ]


def _node(environment: Mapping[str, str]) -> list[str]:
    """Which Node runs the CLI: its content is too large to be read each time."""
    found = shutil.which("node", path=environment.get("PATH"))
    if found is None:
        return []
    binary = Path(found).resolve()
    return [str(binary), str(binary.stat().st_size), str(binary.stat().st_mtime_ns)]


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            inside = sorted(each for each in path.iterdir() if each.name != BYTECODE)
            yield from _files(inside)
        elif path.is_file():
            yield path


def _add(digest: hashlib._Hash, content: bytes) -> None:
    digest.update(len(content).to_bytes(8, "big"))
    digest.update(content)
