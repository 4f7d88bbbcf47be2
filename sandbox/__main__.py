"""The app in an AWS on this machine: `up` until Ctrl-C; `demo` and `replay` heal dead letters."""

import argparse
import shlex
import signal
import sys
import threading
from pathlib import Path

from sandbox.demo import run as demo
from sandbox.deploy import DeployError, deploy
from sandbox.queue_metrics import QueueMetrics
from sandbox.replay import run as replay
from sandbox.replay.script import Sizes
from sandbox.server import ROOT, Sandbox, SandboxError

# What the shell may already say and what would win over, or contradict, ours.
CONFLICTING = ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m sandbox", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("demo", help="break things in it, and account for every event")
    shown = commands.add_parser("replay", help="replay dead letters, and account for each")
    shown.add_argument("--letters", type=int, default=2_000, help="letters in the DLQ")
    up = commands.add_parser("up", help="start, deploy, and stay until Ctrl-C")
    up.add_argument(
        "--context",
        metavar="KEY=VALUE",
        type=pair,
        action="append",
        default=[],
        help="override the context of cdk.json; may be repeated",
    )
    up.add_argument("--insecure", action="store_true", help="plain HTTP, no IAM")
    up.add_argument(
        "--folder",
        type=Path,
        default=ROOT / "build" / "sandbox",
        help="where logs and outputs go (default: build/sandbox)",
    )
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        if chosen.command == "demo":
            return demo.main(ROOT / "build" / "demo", ROOT / "build" / "demo-report.json")
        if chosen.command == "replay":
            page = ROOT / "build" / "replay-report.html"
            return replay.main(ROOT / "build" / "replay", page, Sizes(letters=chosen.letters))
        stay(Sandbox(chosen.folder, secure=not chosen.insecure), dict(chosen.context))
    except KeyboardInterrupt:
        pass
    except (SandboxError, DeployError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def pair(text: str) -> tuple[str, str]:
    """Read one KEY=VALUE."""
    key, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def stay(sandbox: Sandbox, context: dict[str, str]) -> None:
    """Start and deploy, say how to get in, and wait for a signal."""
    with sandbox:
        print(f"emulator at {sandbox.endpoint}, its log in {sandbox.log}")
        outputs = deploy(sandbox, context=context, show=print)
        with QueueMetrics(sandbox.queues, sandbox.client("cloudwatch")):
            print()
            for stack, values in outputs.items():
                for name, value in values.items():
                    print(f"{stack}.{name} = {value}")
            print("\nUp until Ctrl-C. To point a shell at it:\n")
            print(f"unset {' '.join(CONFLICTING)}")
            for name, value in sandbox.environment.items():
                print(f"export {name}={shlex.quote(value)}")
            sys.stdout.flush()
            threading.Event().wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
