"""Where `dlq` begins: it says how to install what it needs, or runs.

The library installs without a command line's packages, and `dlq` with it. This module imports
none of them.
"""

from __future__ import annotations

import json
import shlex
import sys
from importlib.util import find_spec

from .exit import Exit

DISTRIBUTION = "deadletter"
"""The name under which pip installs `dlq`."""

NEEDED = ("boto3", "rich", "typer")
"""The packages of the extra `cli`, as pyproject.toml names them."""

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


def _missing() -> list[str]:
    """The packages of the extra that are not installed."""
    return [name for name in NEEDED if find_spec(name) is None]


def _origin() -> str | None:
    # Slow to import, and only needed here.
    from importlib import metadata

    try:
        return metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        # A checkout on the path.
        return None


def main() -> None:
    """Runs `dlq`. Without the extra it prints the line that installs it, and exits with 2."""
    if absent := _missing():
        wanted = shlex.quote(requirement(_origin()))
        sys.stderr.write(
            f"Error: dlq needs packages that are not installed ({', '.join(absent)}): "
            "install it with one of these lines.\n"
            f"  pipx install --force {wanted}\n"
            f"  {shlex.quote(sys.executable)} -m pip install {wanted}\n"
        )
        raise SystemExit(Exit.USAGE)
    from .main import main as run

    run()
