"""Other tools that move messages from one queue to another: `python -m lab.bench.peers`.

Installs them from npm and PyPI into build/peers, in the versions below, without their install
scripts. They are not part of this project, and nothing of them is copied into it. Two more were
looked for: sqsmover and dlqctl are in neither registry.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

BUILD = Path(__file__).parents[2] / "build" / "peers"
NODE = BUILD / "node_modules"
PYTHON = BUILD / "python"

NPM = ("lumigo-cli@0.48.4", "replay-aws-dlq@1.0.1")
PYPI = ("phoenix-letter==0.3.7",)

POLLERS = 32

# The command would send its maker what it is used for, and look for a newer version of itself.
_LUMIGO = """
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

_REPLAY = """
const [root, endpoint, source, target] = process.argv.slice(1);
const SQS = require(require.resolve("aws-sdk/clients/sqs", {paths: [root]}));
const sqs = new SQS({endpoint, region: "us-east-1"});
const url = name => `${endpoint}/000000000000/${name}`;
require(root).redrive({from: url(source), to: url(target), options: {sqs}}).then(
  () => process.exit(0), error => { console.error(error); process.exit(1); });
"""

_PHOENIX = """
import sys
sys.path.insert(0, sys.argv[1])
from phoenix_letter.main import main
main(["--src", sys.argv[3], "--dst", sys.argv[4], "--region", "us-east-1", "--empty-receive", "1"])
"""


@dataclass(frozen=True, slots=True)
class Peer:
    """A tool: what runs it, the folder it is installed in, and further arguments."""

    runs: Sequence[str]
    folder: Path
    more: Sequence[str] = ()

    def is_installed(self) -> bool:
        return self.folder.exists()

    def command(self, endpoint: str, source: str, target: str) -> list[str]:
        """The command that moves all messages of one queue to another."""
        root = PYTHON if self.folder.parent == PYTHON else self.folder
        return [*self.runs, str(root), endpoint, source, target, *self.more]


PEERS = {
    "lumigo": Peer(("node", "-e", _LUMIGO), NODE / "lumigo-cli", (str(POLLERS),)),
    "replay-aws-dlq": Peer(("node", "-e", _REPLAY), NODE / "replay-aws-dlq"),
    "phoenix-letter": Peer((sys.executable, "-c", _PHOENIX), PYTHON / "phoenix_letter"),
}


def main() -> int:
    """Install what is missing; 1 if a registry does not answer."""
    BUILD.mkdir(parents=True, exist_ok=True)
    npm = ("npm", "install", "--prefix", str(BUILD), "--ignore-scripts", "--no-audit", "--no-fund")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(PYTHON))
    failed = 0
    for command in ((*npm, *NPM), (*pip, *PYPI)):
        failed |= subprocess.run(command, check=False).returncode != 0
    for name, peer in PEERS.items():
        print(f"{name}: {'installed' if peer.is_installed() else 'not installed'}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
