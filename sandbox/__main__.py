"""The app in an AWS on this machine: `up` until Ctrl-C; `demo` heals dead letters."""

import argparse
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TextIO

from deadletter.contract import pipeline_parameter
from sandbox.demo import run as demo
from sandbox.deploy import DeployError, deploy
from sandbox.letters import CAUSES, fill, samples
from sandbox.queue_metrics import QueueMetrics
from sandbox.server import ROOT, Sandbox, SandboxError
from sandbox.stay import ENV_FILE, page_beside, stay, wanted

# The app that is deployed unless another one is named.
OURS = ROOT / "app.py"

# What each pipeline registers itself as.
PIPELINE = re.compile(pipeline_parameter("(?P<app>[^/]+)", "(?P<pipeline>[^/]+)"))

# Seconds between two lines where none can be drawn again.
LINE_EVERY = 5.0

# What a shell says of a program that Ctrl-C ended: `up` ends by it as it should.
INTERRUPTED = 130

# AWS CLI v1 has an endpoint of its own for SQS, whatever the environment says.
V1 = '--endpoint-url "$AWS_ENDPOINT_URL"'


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m sandbox", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("demo", help="break things in it, and account for every event")
    up = commands.add_parser("up", help="start, deploy, and stay until Ctrl-C")
    up.add_argument(
        "--app",
        metavar="FILE",
        type=app_file,
        default=OURS,
        help="deploy a CDK app of your own instead: the Python file that makes it",
    )
    up.add_argument(
        "--context",
        metavar="KEY=VALUE",
        type=pair,
        action="append",
        default=[],
        help="override the context of cdk.json; may be repeated",
    )
    up.add_argument(
        "--with-messages",
        metavar="N",
        type=int,
        default=0,
        help="put so many failed messages into the first pipeline's DLQ",
    )
    up.add_argument(
        "--mode",
        choices=("observe", "enforce"),
        default="observe",
        help="that pipeline's mode with such messages (default: observe, so that they stay there)",
    )
    up.add_argument(
        "--env-file",
        type=Path,
        default=ENV_FILE,
        help="what a shell may source while it is up (default: build/sandbox.env)",
    )
    up.add_argument(
        "--causes",
        metavar="N",
        type=int,
        default=3,
        choices=range(1, len(CAUSES) + 1),
        help=f"causes that they failed for, 1 to {len(CAUSES)} (default: 3)",
    )
    up.add_argument("--insecure", action="store_true", help="plain HTTP, no IAM")
    up.add_argument(
        "--folder",
        type=Path,
        default=ROOT / "build" / "sandbox",
        help="where logs and outputs go (default: build/sandbox)",
    )
    chosen = parser.parse_args(arguments)
    status = 0 if chosen.command == "up" else INTERRUPTED
    # A closed terminal ends it, too, unless nohup says otherwise: nothing is left running.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(ending) != signal.SIG_IGN:
            signal.signal(ending, lambda *_: sys.exit(status))
    try:
        if chosen.command == "demo":
            return demo.main(ROOT / "build" / "demo", ROOT / "build" / "demo-report.json")
        up_until_interrupted(
            Sandbox(chosen.folder, secure=not chosen.insecure),
            chosen.app,
            dict(chosen.context),
            letters=chosen.with_messages,
            causes=chosen.causes,
            mode=chosen.mode,
            env_file=chosen.env_file,
        )
    except KeyboardInterrupt:
        return status
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


def app_file(text: str) -> Path:
    """Read the path of a CDK app."""
    if not (path := Path(text).absolute()).is_file():
        raise argparse.ArgumentTypeError(f"{text} is no file")
    return path


def up_until_interrupted(
    sandbox: Sandbox,
    app: Path,
    context: dict[str, str],
    *,
    letters: int,
    causes: int,
    mode: str,
    env_file: Path,
) -> None:
    """Start, deploy, fill, say how to get in, and wait for Ctrl-C."""
    began = time.monotonic()
    filled = ""
    if letters and app == OURS:
        pipelines = pipelines_of(context)
        filled = str(pipelines[0]["name"])
        pipelines[0]["mode"] = mode
        # For endpoints that somebody starts on this machine.
        pipelines[0]["tuning"] = {"consumer.allow_loopback": True}
        context = {**context, "pipelines": json.dumps(pipelines)}
    with passing(sys.stdout) as tell, sandbox:
        tell(f"an AWS is up at {sandbox.endpoint}")
        deploy(sandbox, context=context, app=app, show=tell)
        with QueueMetrics(sandbox.queues, sandbox.client("cloudwatch")):
            name, names = registered(sandbox)
            filled = filled or names[0]
            sandbox.environment = {**sandbox.environment, "DLQ_APP": name}
            random = Random(1)  # noqa: S311 - the same letters each time, not secret
            made = samples(letters, causes, random) if letters else []
            for done in fill(sandbox, name, filled, made, time.time()):
                tell(f"{done} of {letters} messages are in the DLQ of {filled}")
            tell("the monitor looks for the first time")
            watch_once(sandbox)
            tell("")
            seconds = time.monotonic() - began
            print(f"The app is deployed into an AWS at {sandbox.endpoint} ({seconds:.0f} s).")
            print(f"Pipelines: {', '.join(names)}.", end=" ")
            if letters:
                print(f"{letters} messages failed in {filled}, for {causes} causes.", end=" ")
            print(f"Logs: {shortest(sandbox.folder)}")
            print("For dlq, boto3, AWS CLI v2; v1: aws sqs … " + V1)
            looked_at = wanted(sys.stdin, sys.stdout, os.environ)
            with page_beside(sandbox) if looked_at else nullcontext():
                show = partial(print, flush=True)
                stay(sandbox, tries(filled, letters=letters), file=env_file, show=show)


def watch_once(sandbox: Sandbox) -> None:
    """Let each watch look now, as its schedule does within seconds: `dlq status` tells what it saw.

    A watch that fails has written no record: `dlq status` says so.
    """
    functions = sandbox.client("lambda")
    for page in functions.get_paginator("list_functions").paginate():
        for function in page["Functions"]:
            if (name := function["FunctionName"]).endswith("-watch"):
                functions.invoke(FunctionName=name, Payload=b"{}")["Payload"].read()


def pipelines_of(context: Mapping[str, str]) -> list[dict[str, Any]]:
    """The settings of our own app's pipelines: the context's, else those of cdk.json."""
    written = context.get("pipelines")
    own = json.loads((ROOT / "cdk.json").read_text())["context"]["pipelines"]
    pipelines: list[dict[str, Any]] = json.loads(written) if written else own
    return pipelines


def registered(sandbox: Sandbox) -> tuple[str, list[str]]:
    """The name of the deployed app and those of its pipelines, as its parameters say.

    Raises SandboxError if it has no pipeline.
    """
    asked = sandbox.client("ssm").get_paginator("get_parameters_by_path")
    named = [
        parameter["Name"]
        for page in asked.paginate(Path="/", Recursive=True)
        for parameter in page["Parameters"]
    ]
    found = [match for name in named if (match := PIPELINE.fullmatch(name))]
    if not found:
        raise SandboxError("the app has no RedrivePipeline: docs/install.md shows the statement")
    name = found[0]["app"]
    return name, [match["pipeline"] for match in found if match["app"] == name]


def tries(pipeline: str, *, letters: int) -> list[str]:
    """Three commands that show something."""
    page = "dlq ui --act               # a page: what needs a person, and why"
    if letters:
        return [
            page,
            f"dlq groups {pipeline:<16}# why the messages failed, and what to type",
            "dlq retry --auto --dry-run  # which would go where, when and why",
        ]
    return [
        page,
        f"dlq show {pipeline:<18}# the policy in force",
        "make sandbox APP=my/app.py  # a CDK app of your own instead",
    ]


@contextmanager
def passing(
    stream: TextIO, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[str], None]]:
    """Give a function that shows what goes on: on one line of a terminal, else in few lines."""
    said = clock()

    def tell(text: str) -> None:
        nonlocal said
        if stream.isatty():
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\033[K{text.strip()[:width]}", end="", file=stream, flush=True)
        elif text.strip() and clock() - said >= LINE_EVERY:
            said = clock()
            print(text.strip(), file=stream, flush=True)

    try:
        yield tell
    finally:
        tell("")


def shortest(path: Path) -> Path:
    """A path as one would type it here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
