"""What an app of many pipelines is made of, and what CPU time its synthesis takes.

    python -m tools.many_pipelines 100

The pipelines are those of cdk.json, numbered, without dashboards. No zip is made: that is the same
for one pipeline.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

# IAM's limit in a new account.
MOST_ROLES = 1000


@dataclass(frozen=True, slots=True)
class Synthesized:
    """What was synthesized: resources by type in all stacks, the largest stack, and CPU seconds.

    The CPU time is that of Python and of the CDK's Node, from start to end.
    """

    pipelines: int
    stacks: int
    largest: int
    types: Counter[str]
    seconds: float


def context(pipelines: int) -> dict[str, Any]:
    """The context of the app: the pipeline of cdk.json, so many times."""
    default: dict[str, Any] = json.loads((ROOT / "cdk.json").read_text())["context"]
    [pipeline] = default["pipelines"]
    many = [{**pipeline, "name": f"p{number}"} for number in range(pipelines)]
    return {**default, "dashboard": False, "pipelines": many, "aws:cdk:bundling-stacks": []}


def measure(pipelines: int) -> Synthesized:
    """Synthesize as `cdk synth` does, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, str(ROOT / "app.py")],
            env={
                **os.environ,
                "CDK_CONTEXT_JSON": json.dumps(context(pipelines)),
                "CDK_OUTDIR": folder,
                "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'lambdas'}",
            },
            check=True,
            stderr=subprocess.DEVNULL,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        stacks = [
            Counter(each["Type"] for each in json.loads(file.read_text())["Resources"].values())
            for file in Path(folder).glob("*.template.json")
        ]
    return Synthesized(
        pipelines=pipelines,
        stacks=len(stacks),
        largest=max(stack.total() for stack in stacks),
        types=sum(stacks, Counter()),
        seconds=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    )


def lines(size: Synthesized) -> list[str]:
    """The figures, a line each."""
    roles = size.types["AWS::IAM::Role"]
    return [
        f"{size.pipelines} pipelines: {size.stacks} stacks, {size.types.total()} resources, at most"
        f" {size.largest} in a stack",
        f"{roles} roles of the {MOST_ROLES:,} of an account,"
        f" {size.types['AWS::IAM::ManagedPolicy']} managed policies",
        f"{size.seconds:.1f} s of CPU time for the synthesis",
    ]


def main() -> None:
    """Print the figures for as many pipelines as the command line says."""
    print("\n".join(lines(measure(int(sys.argv[1])))))


if __name__ == "__main__":
    main()
