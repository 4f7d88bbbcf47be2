"""The deployed pipelines of a replay, as a producer and a person on call reach them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deadletter.contract import (
    DEFAULT_APP,
    DEFAULT_PARKING,
    Partition,
    app_parameter,
    pipeline_parameter,
)
from sandbox.server import Sandbox, parameter

# The settings, compressed in time; the code is the code. No circuit opens here: the run has
# to hold itself when the endpoint fails.
_CONSUMER = {
    "kind": "webhook",
    "timeout": 60,
    "request_timeout": 5,
    "max_concurrency": 2,
}
_SHARED: Mapping[str, Any] = {
    "consumer": _CONSUMER,
    "main_queue": {"max_receive_count": 1},
    "context": {"tenantId": "body.tenantId"},
    "idempotency_key": "body.id",
    "circuit": {"failure_rate": 1.0, "minimum": 100_000, "consecutive": 0},
    "policy": {"backoff": {"base": 1, "cap": 1}, "max_attempts": 20},
    # What fails once is a letter a second later.
    "tuning": {
        "consumer.allow_loopback": True,
        "retry.base": 1,
        "retry.cap": 1,
        "retry.floor": 0,
        "policy.backoff.floor": 0,
        "circuit.ramp": 0,
    },
    "poison_lives": 20,
}
BY_KEY: Mapping[str, Any] = {
    "name": "shipments",
    **_SHARED,
    "ordering_key": "body.key",
    "sequence": "body.place",
}
BY_GROUP: Mapping[str, Any] = {"name": "ledgers", **_SHARED, "fifo": True}

TENANT = "aspen"


class CommandFailed(Exception):
    """A command of the person on call ended badly; the message is what it printed."""


@dataclass(frozen=True)
class ReplayPipeline:
    """One pipeline in the sandbox."""

    sandbox: Sandbox
    aws: Callable[[str], Any]
    name: str

    @property
    def app(self) -> dict[str, Any]:
        return parameter(self.aws("ssm"), app_parameter(DEFAULT_APP))

    @property
    def own(self) -> dict[str, Any]:
        return parameter(self.aws("ssm"), pipeline_parameter(DEFAULT_APP, self.name))

    def register(self, url: str) -> None:
        """Name the endpoint of the one tenant."""
        row = {"tenant": {"S": TENANT}, "endpoint": {"S": "default"}, "url": {"S": url}}
        self.aws("dynamodb").put_item(TableName=self.app["endpoints_table"], Item=row)

    def stop_schedule(self) -> None:
        """Stop the minute's run: `redrive` starts one when a scene needs it."""
        client = self.aws("scheduler")
        schedule = client.get_schedule(Name=f"{DEFAULT_APP}-{self.name}-dlq")
        kept = ("Name", "FlexibleTimeWindow", "ScheduleExpression", "Target")
        client.update_schedule(**{name: schedule[name] for name in kept}, State="DISABLED")

    def put_dead(self, letters: Sequence[tuple[str, int]], *, parked: bool = False) -> None:
        """Put letters, by key and place, into the DLQ or the parking lot, in their order."""
        url = self.own["parking"][DEFAULT_PARKING] if parked else self.own["dlq_url"]
        sqs, fifo = self.aws("sqs"), url.endswith(".fifo")
        for start in range(0, len(letters), 10):
            entries = [
                {
                    "Id": str(number),
                    "MessageBody": body_of(key, place),
                    **(
                        {"MessageGroupId": key, "MessageDeduplicationId": f"{key}-{place}"}
                        if fifo
                        else {}
                    ),
                }
                for number, (key, place) in enumerate(letters[start : start + 10])
            ]
            answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)
            assert not answer.get("Failed"), answer

    def depth(self, queue: str) -> int:
        """Messages of `main`, `dlq` or `parking`, whether visible or not."""
        own = self.own
        url = own["parking"][DEFAULT_PARKING] if queue == "parking" else own[f"{queue}_url"]
        return len(self.sandbox.queues().get(url.rpartition("/")[2], []))

    def redrive(self) -> dict[str, Any]:
        """One run of the redriver, as the schedule starts it each minute."""
        answer = self.aws("lambda").invoke(
            FunctionName=f"{DEFAULT_APP}-{self.name}-redrive",
            Payload=json.dumps({"source": "dlq"}),
        )
        report: dict[str, Any] = json.loads(answer["Payload"].read())
        return report

    def run(self, run: str) -> dict[str, Any]:
        """The item of a run as it is stored: the command line is shown by the script."""
        answer = self.aws("dynamodb").get_item(
            TableName=self.app["messages_table"],
            Key={"pk": {"S": Partition.RUNS.of(self.name)}, "sk": {"S": run}},
            ConsistentRead=True,
        )
        item: dict[str, Any] = answer.get("Item", {})
        return item

    def dlq(self, *words: str) -> Any:
        """What a command says, as JSON. Raises CommandFailed."""
        done = self.command("--json", *words)
        if done.returncode not in (0, 1):
            raise CommandFailed(f"{done.stdout}{done.stderr}dlq {' '.join(words)}")
        return json.loads(done.stdout)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the command line."""
        return self.sandbox.dlq(words)

    def kill_workers(self) -> int:
        """Kill the processes of the function `replay`, in the middle of whatever they do."""
        name = f"AWS_LAMBDA_FUNCTION_NAME={DEFAULT_APP}-{self.name}-replay"
        killed = 0
        for process in _processes_with(name, self.sandbox.endpoint):
            os.kill(process, signal.SIGKILL)
            killed += 1
        return killed


def body_of(key: str, place: int) -> str:
    """The body of a letter."""
    return json.dumps(
        {"tenantId": TENANT, "id": f"{key}-{place}", "key": key, "place": place, "pad": "x" * 200}
    )


def _processes_with(variable: str, endpoint: str) -> Iterator[int]:
    """The processes of this sandbox that have a variable in their environment."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if variable in environment and any(endpoint in value for value in environment):
            yield int(folder.name)
