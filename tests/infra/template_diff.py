"""What a change does to the templates: `python -m tests.infra.template_diff OLD NEW`.

OLD and NEW are commits, or folders with a checkout. Each synthesizes its own test apps: those of
`tests.infra.conftest`, and the six of a team's shop. Hashes are masked, for the library is in the
asset; JSON in a text is sorted, because the functions read keys in any order.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

HASH = re.compile(r"[0-9a-f]{64}")


def texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Name and text of each template of a checkout, which is the current folder."""
    from tests.infra.conftest import EACH_SORT, SANDBOXED, synthesized
    from tests.infra.shop import STATES_OF_A_SHOP

    apps = [("each-sort", synthesized(EACH_SORT, folder / "each").stacks)]
    apps.append(("sandboxed", synthesized(SANDBOXED, folder / "boxed").stacks))
    apps += [(make.__name__, dict(make(folder / make.__name__))) for make in STATES_OF_A_SHOP]
    for app, stacks in apps:
        for name, stack in stacks.items():
            text = json.dumps(plain(stack.template), indent=1, sort_keys=True)
            yield f"{app}/{name}", HASH.sub("HASH", text)


def plain(node: Any) -> Any:
    """The node of a template with sorted JSON in its texts, also in parts of such a text."""
    match node:
        case dict():
            return {key: plain(value) for key, value in node.items()}
        case list():
            return [plain(item) for item in node]
        case str() if '":' in node:
            return ",".join(sorted(node.split(",")))
    return node


def of(place: str, folder: Path) -> dict[str, str]:
    """The templates of a commit, or of a folder."""
    checkout = Path(place).resolve()
    if not checkout.is_dir():
        checkout = folder / "checkout"
        _git("worktree", "add", "--detach", str(checkout), place)
    code = "import json, sys; from pathlib import Path; from template_diff import texts;"
    code += "print(json.dumps(dict(texts(Path(sys.argv[1])))))"
    path = [checkout, checkout / "lambdas", Path(__file__).parent]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    command = [sys.executable, "-c", code, str(folder)]
    run = subprocess.run(
        command, cwd=checkout, env=environment, check=True, text=True, stdout=subprocess.PIPE
    )
    if checkout.is_relative_to(folder):
        _git("worktree", "remove", "--force", str(checkout))
    texts_of_it: dict[str, str] = json.loads(run.stdout.splitlines()[-1])
    return texts_of_it


def _git(*words: str) -> None:
    subprocess.run(["git", *words], check=True)  # noqa: S607 - a developer's own git


def main(old: str, new: str) -> int:
    """Print what differs; 1 if anything does."""
    with TemporaryDirectory() as one, TemporaryDirectory() as other:
        before, after = of(old, Path(one)), of(new, Path(other))
    differs = 0
    for name in sorted({*before, *after}):
        pair = (before.get(name, "").splitlines(), after.get(name, "").splitlines())
        for line in unified_diff(*pair, name, name, lineterm="", n=1):
            differs += 1
            sys.stdout.write(f"{line}\n")
    sys.stderr.write(f"{len(after)} templates, {differs} lines of differences\n")
    return min(differs, 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
