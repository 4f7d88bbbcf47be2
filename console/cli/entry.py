"""Where `dlq` begins: it says how to install what it needs, or runs.

The library installs without a command line's packages, and `dlq` with it. This module imports
none of them.
"""

from __future__ import annotations

import gc
import json
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

from .exit import DISTRIBUTION, Exit

NEEDED = ("boto3", "rich", "typer")
"""The packages of the extra `cli`, as pyproject.toml names them."""

CHECKOUT = Path(__file__).resolve().parents[2]

_WITH_EXTRA = f"{DISTRIBUTION}[cli]"


def requirement(origin: str | None) -> str:
    """What to install to have `dlq`: from the address that this installation came from.

    `origin` is pip's record of that address, direct_url.json (PEP 610), or None.
    """
    record = json.loads(origin or "{}")
    url, control = record.get("url"), record.get("vcs_info")
    if not url:
        return _WITH_EXTRA
    if control is None:
        return f"{_WITH_EXTRA} @ {url}"
    revision = control.get("requested_revision")
    return f"{_WITH_EXTRA} @ {control['vcs']}+{url}" + (f"@{revision}" if revision else "")


def lines(origin: str | None, installer: str | None, python: str) -> tuple[str, str]:
    """The commands that install `dlq`: as a tool of its own, and into this environment.

    `installer` is what wrote this environment, as packages record it; `python` runs in it.
    """
    wanted, here = shlex.quote(requirement(origin)), shlex.quote(python)
    if (installer or "").strip() == "uv":
        return (f"uv tool install --force {wanted}", f"uv pip install --python {here} {wanted}")
    return (f"pipx install --force {wanted}", f"{here} -m pip install {wanted}")


def _missing() -> list[str]:
    """The packages of the extra that are not installed."""
    return [name for name in NEEDED if find_spec(name) is None]


def _recorded() -> tuple[str | None, str | None]:
    """The address that this was installed from, and what installed it; None if not recorded."""
    # Slow to import, and only needed here.
    from importlib import metadata

    try:
        package = metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        # A checkout on the path. An index may hold a stranger's package of that name.
        return json.dumps({"url": CHECKOUT.as_uri()}), None
    return package.read_text("direct_url.json"), package.read_text("INSTALLER")


def main() -> None:
    """Runs `dlq`. Without the extra it prints the lines that install it, and exits with 2."""
    if absent := _missing():
        sys.stderr.write(
            f"Error: dlq needs packages that are not installed ({', '.join(absent)}): "
            "install it with one of these lines.\n"
        )
        for line in lines(*_recorded(), sys.executable):
            sys.stderr.write(f"  {line}\n")
        raise SystemExit(Exit.USAGE)
    # To look for garbage as often as Python does takes a twentieth of a command's CPU.
    gc.set_threshold(50_000)
    from .main import main as run

    run()
