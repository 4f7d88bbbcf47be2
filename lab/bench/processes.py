"""What fresh processes of ours take: `python -m lab.bench.processes`.

A cold start is the CPU time of a process that does what Lambda does before the first event: it
imports the handler, which makes its clients. It ends at once: Lambda keeps it, and what Python
tears down at its end took a fifth. Then `dlq --help`, and looks into an account of a sandbox where
nothing is deployed and a queue has a hundred messages. Files are compiled.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from lab.bench.drain import Job, environment_of
from lab.bench.timing import compiled, process_cost
from sandbox.server import Sandbox

TURNS = 5

# Milliseconds of CPU before the first event of a function, at most.
STARTS = {"redrive": 350, "route": 300}

MESSAGES = 100
COMMANDS = (
    ("--help",),
    ("status",),
    ("groups", "--look", "--in", "queue:dlq"),
    ("doctor", "queue:dlq"),
)


def measure_starts(environment: Mapping[str, str]) -> None:
    for function, most in STARTS.items():
        code = f"import handlers.{function}, os; os._exit(0)"
        settings = environment_of(Job(way="ours", endpoint="http://127.0.0.1:1"))
        deployed = {**environment, **settings, "AWS_LAMBDA_FUNCTION_NAME": function}
        _, cpu = process_cost(("-c", code), deployed, TURNS)
        print(f"{cpu:5.0f} ms CPU until the first event: {function} (≤ {most})", flush=True)


def measure_commands(environment: Mapping[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder, Sandbox(Path(folder), secure=False) as sandbox:
        sqs = sandbox.client("sqs")
        url = sqs.create_queue(QueueName="dlq")["QueueUrl"]
        for number in range(MESSAGES):
            sqs.send_message(QueueUrl=url, MessageBody=f'{{"orderId": {number}}}')
        variables = {**environment, **sandbox.environment}
        for command in COMMANDS:
            took, cpu = process_cost(("-m", "console", *command), variables, TURNS)
            print(f"{cpu:5.0f} ms CPU, {took:5.0f} ms in all: dlq {' '.join(command)}", flush=True)


def main() -> None:
    with compiled() as environment:
        measure_starts(environment)
        measure_commands(environment)


if __name__ == "__main__":
    main()
