"""lumigo-cli, the fastest other tool that we know: `python -m lab.bench.lumigo` installs it.

From npm into build/peers, in the version below, without install scripts. It is no part of this
project, and nothing of it is copied.
"""

from __future__ import annotations

import subprocess
import sys

from lab.bench.server import ROOT

BUILD = ROOT / "build" / "peers"
FOLDER = BUILD / "node_modules" / "lumigo-cli"
VERSION = "lumigo-cli@0.48.4"
POLLERS = 32

# The command would send its maker what it is used for, and look for a newer version of itself.
_RUN = """
const path = require("path");
const [root, endpoint, source, target, pollers] = process.argv.slice(1);
const replace = (file, names) => {
  const full = require.resolve(path.join(root, "src/lib", file));
  require.cache[full] = {id: full, filename: full, loaded: true, exports: names};
};
replace("version-check", {checkVersion: () => {}});
replace("analytics", {track: () => {}});
require(require.resolve("aws-sdk", {paths: [root]})).config.update({endpoint, sslEnabled: false});
const Command = require(path.join(root, "src/commands/replay-sqs-dlq.js"));
Command.run(["-d", source, "-n", target, "-r", "us-east-1", "-c", pollers]).then(
  () => process.exit(0), error => { console.error(error); process.exit(1); });
"""


def is_installed() -> bool:
    return FOLDER.exists()


def command(endpoint: str, source: str, target: str) -> list[str]:
    """What moves all messages of one queue to another."""
    return ["node", "-e", _RUN, str(FOLDER), endpoint, source, target, str(POLLERS)]


def main() -> int:
    BUILD.mkdir(parents=True, exist_ok=True)
    npm = ("npm", "install", "--prefix", str(BUILD), "--ignore-scripts", "--no-audit", "--no-fund")
    return subprocess.run([*npm, VERSION], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
