"""`python3 app.py` as the CDK CLI runs it: what was synthesized before is not synthesized again.

Most commands of docs/operate.md begin with a synthesis, and most of these are of the same sources
with the same settings.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

# Where syntheses are kept, given by the shell of the test.
KEPT_VARIABLE = "KEPT_SYNTHESES"


def name() -> str:
    """A name of the sources and of all that the CLI gives to the app."""
    git = shutil.which("git") or "git"
    head = subprocess.run([git, "rev-parse", "HEAD"], capture_output=True, check=True).stdout
    given = [os.environ.get(f"CDK_{key}", "") for key in ("CONTEXT_JSON", "DEFAULT_ACCOUNT")]
    return hashlib.sha256("\0".join([head.decode(), *given]).encode()).hexdigest()


def main() -> int:
    """Fill the folder that the CLI names."""
    kept = Path(os.environ[KEPT_VARIABLE]) / name()
    if not kept.exists():
        made = kept.with_suffix(".making")
        shutil.rmtree(made, ignore_errors=True)
        environment = {**os.environ, "CDK_OUTDIR": str(made)}
        done = subprocess.run([sys.executable, "app.py"], env=environment, check=False)
        if done.returncode:
            return done.returncode
        made.rename(kept)
    target = Path(os.environ["CDK_OUTDIR"])
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(kept, target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
