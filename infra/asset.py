"""The Lambda asset: library, handlers and their dependencies, one zip for all functions.

Everything it holds is on this machine: no pip runs, and nothing is fetched.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from weakref import WeakKeyDictionary

import aws_cdk as cdk
import jsii
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from . import files, lock
from .refusal import Refused

# The wheels are chosen for it (see lock.PLATFORM), and have nothing of a processor in them.
RUNTIME = lambda_.Runtime.PYTHON_3_13

# Compiled files of this machine contain times and paths: the hash would differ for the same source.
COMPILED = "__pycache__"

# Where Lambda unpacks the zip: tracebacks name files by it.
IN_LAMBDA = "/var/task"

# Fakes and pytest fixtures for the tests of teams: no function imports them.
TESTING = "deadletter/testing/"


@jsii.implements(cdk.ILocalBundling)
class Bundle:
    """Fills the folder of a zip on this machine, without Docker.

    `contents` maps paths in the zip to files; `wheels` are unpacked beside them. With a `prefix`
    all of it lies below that folder of the zip. `compiled`: Python's compiled files are added.
    """

    def __init__(
        self,
        contents: Mapping[str, Path],
        wheels: Iterable[Path],
        prefix: str = "",
        *,
        compiled: bool = False,
    ) -> None:
        self._contents = contents
        self._wheels = wheels
        self._prefix = prefix
        self._compiled = compiled

    def try_bundle(self, output_dir: str, *_: object, **__: object) -> bool:
        """Fill `output_dir`. Always True: False would send the CDK to Docker."""
        target = Path(output_dir) / self._prefix
        for wheel in self._wheels:
            lock.unpack(wheel, target)
        for path, file in self._contents.items():
            copy = target / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
        if self._compiled:
            compile_all(target)
        return True


def compile_all(folder: Path) -> None:
    """Compile the modules in a folder, for a function that starts there.

    A function cannot keep what it compiles: without these files each cold start compiles anew.
    """
    options = ("-q", "--invalidation-mode", "unchecked-hash", "-s", str(folder), "-p", IN_LAMBDA)
    command = [sys.executable, "-m", "compileall", *options, str(folder)]
    shell = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    # The order of sets in a file depends on the seed: the same source is to be the same zip.
    subprocess.run(command, env={**shell, "PYTHONHASHSEED": "0"}, check=True)


def compiles() -> bool:
    """True if this Python compiles for the functions': another version's files are not read."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}" == RUNTIME.name


@cache
def contents(*packages: Path) -> Mapping[str, Path]:
    """The files of these packages that go into a zip, by their paths there."""
    listed = {}
    for package in packages:
        for file in sorted(package.rglob("*")):
            path = file.relative_to(package.parent).as_posix()
            left_out = COMPILED in file.parts or path.startswith(TESTING)
            if file.is_file() and not left_out:
                listed[path] = file
    return listed


@cache
def fingerprint(*packages: Path) -> str:
    """A hash of these packages and of the lock file: it names the zip that is made of them.

    Read once in a process: a hundred pipelines are a thousand functions.
    """
    return digest_of(contents(*packages))


def digest_of(listed: Mapping[str, Path]) -> str:
    """A hash of these files and of the lock file."""
    digest = hashlib.sha256(files.LOCK.read_bytes())
    for path, file in sorted(listed.items()):
        content = file.read_bytes()
        digest.update(f"\n{path} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def wheels() -> dict[str, Path]:
    """The wheels of the functions' dependencies. Raises Refused if one has not been fetched."""
    try:
        return lock.wheels(files.LOCK, files.WHEELS)
    except lock.WheelMissing as missing:
        raise Refused(f"{missing}; allowed: the wheels that `make synth` puts there.") from missing


def code(scope: Construct) -> lambda_.Code:
    """The asset, for the functions in the stack of `scope`; named by a hash of its source.

    Raises Refused if the wheels have not been fetched.
    """
    stack = cdk.Stack.of(scope)
    # The CDK wants one asset a stack, and looks through it once.
    if (made := _CODES.get(stack)) is None:
        made = _CODES[stack] = _code(bundled=stack.bundling_required)
    return made


_CODES: WeakKeyDictionary[cdk.Stack, lambda_.Code] = WeakKeyDictionary()


def _code(*, bundled: bool) -> lambda_.Code:
    packages = (files.LIBRARY, files.HANDLERS)
    source = fingerprint(*packages)
    return lambda_.Code.from_asset(
        # The CDK wants a folder that exists; the bundle copies from others, too.
        str(files.HANDLERS),
        asset_hash_type=cdk.AssetHashType.CUSTOM,
        asset_hash=f"{source}-compiled" if compiles() else source,
        bundling=cdk.BundlingOptions(
            image=RUNTIME.bundling_image,
            local=Bundle(
                contents(*packages), wheels().values() if bundled else (), compiled=compiles()
            ),
        ),
    )
