"""What a cold start costs: `python -m lab.bench.imports`.

Of our functions it is the CPU time of a fresh process that does what Lambda does before the first
event: imports the handler, which makes its clients. Files are compiled. The process ends at once:
Lambda keeps it, and what Python tears down at its end took a fifth.

Of the consumer library it is what it adds: CPU time of fresh processes over that of boto3 alone,
for its import, and for its first wiring beside the boto3 clients that it makes. Medians of the
differences, in turns, with and without compiled files. A zip without them is compiled at each cold
start, because a function cannot write into it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[2] / "lambdas"))

TURNS = 15
STARTS = 5
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

GOALS = {"redrive": 350, "route": 300}
"""Milliseconds of CPU before the first event of a function."""

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


def start_ms(function: str) -> float:
    """Milliseconds of CPU of a process that imports a function's handler as Lambda does."""
    code = f"import handlers.{function}, os; os._exit(0)"
    with tempfile.TemporaryDirectory() as compiled:
        environment = {
            **_environment(),
            "PYTHONPYCACHEPREFIX": compiled,
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_LAMBDA_FUNCTION_NAME": function,
            "AWS_REGION": "eu-west-1",
            "PIPELINE": json.dumps({"name": "orders"}),
            "MAIN_URL": "https://sqs.eu-west-1.amazonaws.com/111122223333/orders",
            "LETTERS_TABLE": "letters",
        }
        cpu_ms(code, environment)
        return median(cpu_ms(code, environment) for _ in range(STARTS))


def _environment() -> dict[str, str]:
    account = {
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    environment = {**os.environ, **account, "PYTHONPATH": str(ROOT / "lambdas")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def main() -> None:
    for function, goal in GOALS.items():
        took = start_ms(function)
        print(f"{took:6.1f} ms of CPU until the first event: {function} (≤ {goal})")
    environment = _environment()
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
