"""What the consumer library adds to a cold start: `python -m tools.bench.imports`.

CPU time (user and system) of fresh processes, over that of boto3 alone: the library's import, and
its first wiring beside the boto3 clients that it makes. Medians of the differences, in turns, with
and without compiled files. A zip without them is compiled at
each cold start, because a function cannot write into it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from statistics import median

TURNS = 15
ROOT = Path(__file__).parents[2]

BOTO3 = "import boto3\n"
CLIENTS = """
for service in ("ssm", "sqs", "sqs", "dynamodb"):
    boto3.client(service)
"""
IMPORT = "import deadletter.consumer\n"
WIRING = """
from deadletter.consumer import runtime
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources
resources = Resources(
    main_url="https://sqs/orders", parking={"default": "https://sqs/parking"},
    letters_table="letters", circuits_table="circuits", trusted_senders=("AROA",),
)
runtime.look_up = lambda *_: (Pipeline("orders", idempotency_key="body.orderId"), resources)
current = runtime.runtime_from("deadletter/orders")
"""

CASES = {
    "import": (BOTO3, BOTO3 + IMPORT),
    "import and first wiring": (BOTO3 + CLIENTS, BOTO3 + IMPORT + WIRING),
}


def cpu_ms(code: str, environment: dict[str, str]) -> float:
    """Milliseconds of CPU that a fresh process takes for the code."""
    command = [sys.executable, "-c", code]
    process = os.posix_spawn(sys.executable, command, environment)
    _, status, usage = os.wait4(process, 0)
    assert status == 0, code
    return (usage.ru_utime + usage.ru_stime) * 1000


def added(before: str, after: str, environment: dict[str, str]) -> float:
    """What `after` takes more than `before`."""
    for code in (before, after):
        cpu_ms(code, environment)
    return median(cpu_ms(after, environment) - cpu_ms(before, environment) for _ in range(TURNS))


def main() -> None:
    account = {
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    environment = {**os.environ, **account, "PYTHONPATH": str(ROOT / "lambdas")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as compiled:
        ways = {
            "without compiled files": {**environment, "PYTHONDONTWRITEBYTECODE": "1"},
            "with compiled files": {**environment, "PYTHONPYCACHEPREFIX": compiled},
        }
        for way, variables in ways.items():
            for name, (before, after) in CASES.items():
                print(f"{added(before, after, variables):6.1f} ms of CPU over boto3: {name}, {way}")


if __name__ == "__main__":
    main()
