"""`make nightly`: the long runs, each part in at most an hour on two cores.

    make nightly OF="drill policies"     these parts; all of them without OF
    python -m tools.nightly --list       the parts and their commands

A run is of one commit: it refuses a work tree that differs from it, and throws away what ran while
the tree changed. What has ended green at a commit is kept in build/nightly and does not run again,
so a run that was broken off goes on. When a part has ended, its row in docs/proof.md is written.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tools.nightly.page import GREEN, RED, ResultRow, figures, with_row, without_rows
from tools.nightly.parts import ROOT, Command, Parts, parts

PAGE = "docs/proof.md"

# What else is set may make a run another one: how many schedules, which scenes, what pytest skips.
HANDED_ON = re.compile(
    r"HOME|PATH|USER|LOGNAME|SHELL|LANG|LC_\w+|TERM|TMPDIR|CI|CHROMIUM|SSL_CERT_\w+"
    r"|REQUESTS_CA_BUNDLE|NODE_EXTRA_CA_CERTS|(PIP|UV|XDG|JSII|npm_config|NPM_CONFIG)_\w+"
    r"|\w+_(proxy|PROXY)"
)

TAIL_LINES = 30


class NotOneCommit(Exception):
    """The run can't be one of a commit; the message says why, and what to do."""


@dataclass(frozen=True)
class Tree:
    """A checkout."""

    root: Path

    def head(self) -> str:
        return self._git("rev-parse", "HEAD").strip()

    def commit(self) -> str:
        """The commit of which this is a clean checkout, but for the results on the page.

        Raises NotOneCommit.
        """
        commit = self.head()
        changed = [line[3:] for line in self._git("status", "--porcelain").splitlines()]
        if PAGE in changed:
            committed = self._git("show", f"HEAD:{PAGE}")
            if without_rows(committed) == without_rows((self.root / PAGE).read_text()):
                changed.remove(PAGE)
        if changed:
            raise NotOneCommit(
                f"the work tree is not commit {commit[:8]}: {', '.join(changed[:5])}"
                f"{' ...' * (len(changed) > 5)} differ; commit or stash them"
            )
        return commit

    def _git(self, *words: str) -> str:
        try:
            return subprocess.run(
                ["git", "-C", str(self.root), *words],  # noqa: S607 - the git of the path
                capture_output=True, text=True, check=True,
            ).stdout  # fmt: skip
        except (OSError, subprocess.CalledProcessError) as error:
            why = getattr(error, "stderr", "") or error
            raise NotOneCommit(f"git can't say which commit this is: {str(why).strip()}") from error


@dataclass
class Ran:
    """How a command ended: `reds` counts the times that it was red at this commit."""

    status: int
    seconds: float
    ended: str
    reds: int
    figures: Mapping[str, int]


@dataclass
class PartRecord:
    """What has run of a part at one commit, by command."""

    commit: str
    python: str
    ran: dict[str, Ran] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, commit: str, python: str) -> PartRecord | None:
        """The record of this commit and this Python; None if the last run was of another."""
        kept = json.loads(path.read_text()) if path.exists() else {}
        if (kept.get("commit"), kept.get("python")) != (commit, python):
            return None
        return cls(commit, python, {key: Ran(**ran) for key, ran in kept["ran"].items()})

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(json.dumps(asdict(self), indent=1) + "\n")
        os.replace(new, path)

    def is_green(self, command: Command) -> bool:
        ran = self.ran.get(str(command))
        return ran is not None and ran.status == 0

    def row(self, part: str, commands: Sequence[Command]) -> ResultRow:
        """The row of the part, all of whose commands have run."""
        every = {str(command): self.ran[str(command)] for command in commands}
        total: Counter[str] = Counter()
        for ran in every.values():
            total.update(ran.figures)
        said = [", ".join(f"{number:,} {name}" for name, number in total.items())]
        said += [f"red: `{command}`" for command, ran in every.items() if ran.status]
        # What is green at its second try is no less worth a look.
        passed_later = {command for command, ran in every.items() if ran.reds and not ran.status}
        said += [f"red before: `{command}`" for command in every if command in passed_later]
        return ResultRow(
            part,
            RED if any(ran.status for ran in every.values()) else GREEN,
            f"`{self.commit[:8]}`",
            max(ran.ended for ran in every.values()),
            self.python,
            f"{sum(ran.seconds for ran in every.values()) / 60:.1f}",
            "; ".join(filter(None, said)).replace("|", "\\|") or "none",
        )


@dataclass(frozen=True)
class Night:
    """A run of some parts at one commit."""

    tree: Tree
    commit: str
    names: Sequence[str]
    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    @property
    def folder(self) -> Path:
        return self.tree.root / "build" / "nightly"

    def play(self, part: str, commands: Sequence[Command]) -> bool:
        """Run what is not green yet of a part, and write its row; whether all of it is green."""
        path = self.folder / f"{part}.json"
        record = PartRecord.read(path, self.commit, platform.python_version())
        if record is None:
            record = PartRecord(self.commit, platform.python_version())
            shutil.rmtree(self.folder / part, ignore_errors=True)
            for command in commands:
                if command.progress:
                    (self.tree.root / command.progress).unlink(missing_ok=True)
            record.write(path)
        for number, command in enumerate(commands, start=1):
            place = f"{part} {number} of {len(commands)}"
            if record.is_green(command):
                print(f"{place} was green at this commit: {command}")
                continue
            print(f"{place}: {command}", flush=True)
            ran = self._run(command, self.folder / part / f"{number}.log")
            last = record.ran.get(str(command))
            ran.reds = (last.reds if last else 0) + (ran.status != 0)
            record.ran[str(command)] = ran
            record.write(path)
        row = record.row(part, commands)
        page = self.tree.root / PAGE
        page.write_text(with_row(page.read_text(), row, self.names))
        print(row, flush=True)
        return row.result == GREEN

    def _run(self, command: Command, log: Path) -> Ran:
        log.parent.mkdir(parents=True, exist_ok=True)
        began = self.monotonic()
        # What goes on by itself prints only what is new.
        with log.open("a" if command.progress else "w") as output:
            status = _status(command, self.tree.root, output.fileno())
        seconds = self.monotonic() - began
        if self.tree.commit() != self.commit:
            raise NotOneCommit(f"another commit was checked out while this ran: {command}")
        text = log.read_text(errors="replace")
        if status:
            print(*text.splitlines()[-TAIL_LINES:], sep="\n")
        word = f"RED ({status}; {log.relative_to(self.tree.root)})" if status else "green"
        print(f"    {word}, {seconds / 60:.1f} minutes", flush=True)
        found = {name: int(number) for name, number in figures(text, command.of).items()}
        return Ran(status, seconds, f"{self.now():%Y-%m-%d %H:%M}", 0, found)


def _status(command: Command, root: Path, output: int) -> int:
    words = [sys.executable if word == "python" else word for word in command.words]
    environment = {key: text for key, text in os.environ.items() if HANDED_ON.fullmatch(key)}
    with subprocess.Popen(
        words, cwd=root, env={**environment, **command.environment}, stdin=subprocess.DEVNULL,
        stdout=output, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        try:
            return process.wait()
        except KeyboardInterrupt:
            # The terminal has interrupted it too: it ends what it has started.
            process.wait()
            raise


def main(arguments: Sequence[str], root: Path = ROOT, of: Callable[[int], Parts] = parts) -> int:
    """Play the named parts, or all; 0 if all are green."""
    names = list(of(0))
    parser = argparse.ArgumentParser(
        prog="python -m tools.nightly",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(names)}")
    parser.add_argument("--list", action="store_true", help="print the commands of each part")
    options = parser.parse_args(arguments)
    wanted = options.parts or names
    if unknown := [name for name in wanted if name not in names]:
        print(f"there is no part {unknown[0]!r}; allowed: {', '.join(names)}", file=sys.stderr)
        return 2
    tree = Tree(root)
    try:
        # Each commit has schedules of its own, and they can be played again.
        every = of(int(tree.head()[:7], 16))
        if options.list:
            print(*(f"{name}: {one}" for name in wanted for one in every[name]), sep="\n")
            return 0
        commit = tree.commit()
        night = Night(tree, commit, names)
        green = [night.play(name, every[name]) for name in dict.fromkeys(wanted)]
    except NotOneCommit as refused:
        print(refused, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nbroken off; the next call goes on", file=sys.stderr)
        return 130
    return 0 if all(green) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
