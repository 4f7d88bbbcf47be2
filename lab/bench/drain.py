"""One way to empty a DLQ, in a process of its own: `python -m lab.bench.drain <job as JSON>`.

threads  boto3 in 16 threads, batches of ten; looks at no answer for a single entry
lumigo   lumigo-cli, if `make bench-peers` has installed it
ours     the handlers of `redrive` and `route` as they are deployed, with their clients; the router
         runs in a process of its own behind Lambda's HTTP interface

A job prints one line of JSON: CPU seconds, peak of resident memory, runs. The start of a process,
its imports and its clients are not in the CPU seconds; `lab.bench.imports` has those.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from types import SimpleNamespace
from typing import Any, TextIO

from lab.bench import lumigo
from lab.bench.letters import MAIN, PIPELINE, SOURCE
from lab.bench.server import ROOT, ask, serve, started
from lab.bench.share import at_share

NAIVE_THREADS = 16
MOST_RUNS = 60

# Runs after which a job ends, if none of them moved anything.
FRUITLESS_RUNS = 3

# Seconds that one run may take.
RUN_SECONDS = 840.0

SERVE_ROUTER = "router"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a process is to do. `pipeline` is for ours only.

    With `scheduled` a run is one that begins each minute, otherwise one that a person asks for. A
    drain has at most so many `shards`, each in a process of its own; `event` is what such a run is
    started with. Runs go on `until` no letter is "left" in the source queue, or "unsent"; `skipped`
    is how many seconds their clock is ahead. The run and its router have a `share` of a core each
    (0: whole ones).
    """

    way: str
    endpoint: str
    pipeline: Mapping[str, Any] = field(default_factory=dict)
    router: str = ""
    scheduled: bool = False
    shards: int = 0
    event: Mapping[str, Any] = field(default_factory=dict)
    most_runs: int = MOST_RUNS
    until: str = "left"
    skipped: float = 0.0
    share: float = 0.0

    def waiting(self) -> int:
        """Letters that the job still has to move."""
        return int(ask(self.endpoint, "left")[self.until])


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """What a way took: CPU of its processes, the peak of the first one's memory.

    `busy_seconds` is how long the runs took; `shards` is how many runs others have started, whose
    CPU is in that of the router.
    """

    cpu: float = 0.0
    router_cpu: float = 0.0
    peak_mb: float = 0.0
    runs: int = 0
    invocations: int = 0
    shards: int = 0
    busy_seconds: float = 0.0
    possible_duplicates: int = 0
    trouble: str = ""

    def __add__(self, later: Effort) -> Effort:
        both = {
            each.name: (getattr(self, each.name), getattr(later, each.name))
            for each in fields(self)
        }
        sums = {name: first + second for name, (first, second) in both.items()}
        return Effort(**{**sums, "peak_mb": max(both["peak_mb"])})


def effort(job: Job) -> Effort:
    """Do the job in a process of its own."""
    if job.way == "lumigo":
        return _of_lumigo(job)
    if job.way != "ours":
        return _in_process(job)
    arguments = (json.dumps(asdict(job)), SERVE_ROUTER)
    serving = started("lab.bench.drain", *arguments, environment=environment_of(job))
    with serving as (process, router), at_share(process.pid, job.share):
        before = ask(router, "spent")
        made = _in_process(replace(job, router=router))
        after = ask(router, "spent")
    return replace(
        made,
        router_cpu=after["cpu"] - before["cpu"],
        invocations=after["invocations"],
        shards=after["shards"],
    )


def _in_process(job: Job) -> Effort:
    with _process(job, subprocess.PIPE) as process, at_share(process.pid, job.share):
        output, _ = process.communicate()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, job.way)
    return Effort(**json.loads(output.splitlines()[-1]))


def _process(job: Job, output: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "lab.bench.drain", json.dumps(asdict(job))],
        stdin=subprocess.DEVNULL, stdout=output, text=True, cwd=ROOT, env=environment_of(job),
    )  # fmt: skip


def _of_lumigo(job: Job) -> Effort:
    before = cpu_seconds(RUSAGE_CHILDREN)
    done = subprocess.run(
        lumigo.command(job.endpoint, SOURCE, MAIN),
        env=environment_of(job), capture_output=True, text=True, check=False,
    )  # fmt: skip
    cpu = cpu_seconds(RUSAGE_CHILDREN) - before
    return Effort(cpu=cpu, runs=1, trouble=done.stderr[-300:] if done.returncode else "")


def environment_of(job: Job) -> dict[str, str]:
    """The environment of our functions, on the stub."""
    url = f"{job.endpoint}/000000000000/"
    fifo = ".fifo" if job.pipeline.get("fifo") else ""
    arn = "arn:aws:sqs:us-east-1:123456789012:"
    return {
        "PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}:{ROOT / 'lambdas'}",
        "AWS_ENDPOINT_URL": job.endpoint, "AWS_ENDPOINT_URL_LAMBDA": job.router or job.endpoint,
        "AWS_ACCESS_KEY_ID": "AKIABENCH", "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_SESSION_TOKEN": "bench", "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_REGION": "us-east-1",
        # As in Lambda: clients are made while a function starts.
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand", "AWS_LAMBDA_FUNCTION_NAME": "redrive",
        "POWERTOOLS_SERVICE_NAME": "bench", "APP": "deadletter",
        "PIPELINE": json.dumps({"name": PIPELINE, **job.pipeline}),
        "MAIN_URL": url + MAIN + fifo, "MAIN_ARN": arn + MAIN + fifo,
        "DLQ_URL": url + SOURCE + fifo, "DLQ_ARN": arn + SOURCE + fifo,
        "PARKING": json.dumps({"default": url + "parking" + fifo}),
        "DEDICATED": json.dumps({name: url + name for name in job.pipeline.get("dedicated", ())}),
        "MESSAGES_TABLE": "messages", "MESSAGES_BUCKET": "bodies", "RULES_TABLE": "rules",
        "CIRCUITS_TABLE": "circuits", "ROUTER_FUNCTION": "router",
        **({"REDRIVE_FUNCTION": "redrive"} if job.shards else {}),
        "TRUSTED_SENDERS": '["AROAREDRIVER"]',
    }  # fmt: skip


def cpu_seconds(whose: int) -> float:
    usage = getrusage(whose)
    return usage.ru_utime + usage.ru_stime


# What follows runs in the job's own process.


def _naive(job: Job) -> Effort:
    import boto3
    from botocore.config import Config

    config = Config(max_pool_connections=NAIVE_THREADS)
    sqs = boto3.client("sqs", endpoint_url=job.endpoint, config=config)
    source, main = (f"{job.endpoint}/000000000000/{name}" for name in (SOURCE, MAIN))

    def poll() -> None:
        while messages := sqs.receive_message(
            QueueUrl=source, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
        ).get("Messages"):
            copies: Any = [
                {"Id": message["MessageId"], "MessageBody": message["Body"],
                 "MessageAttributes": message.get("MessageAttributes", {})}
                for message in messages
            ]  # fmt: skip
            sqs.send_message_batch(QueueUrl=main, Entries=copies)
            received: Any = [
                {"Id": message["MessageId"], "ReceiptHandle": message["ReceiptHandle"]}
                for message in messages
            ]
            sqs.delete_message_batch(QueueUrl=source, Entries=received)

    pollers = [threading.Thread(target=poll) for _ in range(NAIVE_THREADS)]
    for poller in pollers:
        poller.start()
    for poller in pollers:
        poller.join()
    return Effort(runs=1)


def _skip_time(job: Job) -> None:
    """Let the handlers' world have the stub's clock."""
    from handlers import runtime

    clock = SimpleNamespace(time=lambda: time.time() + job.skipped, sleep=time.sleep)
    vars(runtime)["time"] = clock


def lambda_context(seconds: float) -> Any:
    """What the handlers and their decorators ask a Lambda context for."""
    ends = time.time() + seconds
    return SimpleNamespace(
        function_name="redrive", function_version="$LATEST", memory_limit_in_mb=512,
        invoked_function_arn="arn:aws:lambda:us-east-1:000000000000:function:redrive",
        aws_request_id="44444444-4444-4444-8444-444444444444", client_context=None,
        get_remaining_time_in_millis=lambda: max(0, int((ends - time.time()) * 1000)),
    )  # fmt: skip


def _ours(job: Job) -> Effort:
    from deadletter.redrive import shards
    from deadletter.signals.figures import Figure
    from handlers import redrive

    vars(shards)["MOST_SHARDS"] = job.shards
    made = Effort()
    event = job.event or ({} if job.scheduled or job.shards else {"asked": True})
    left = [job.waiting()]
    while left[-1] and made.runs < (1 if job.event else job.most_runs):
        began = time.time()
        report = redrive.handler(dict(event), lambda_context(RUN_SECONDS))
        made += Effort(
            runs=1,
            busy_seconds=time.time() - began,
            possible_duplicates=report.get("counts", {}).get(Figure.POSSIBLE_DUPLICATE, 0),
            trouble=str(report.get("trouble") or ""),
        )
        left.append(job.waiting())
        if left[-1:] * FRUITLESS_RUNS == left[-FRUITLESS_RUNS - 1 : -1]:
            break
    return made


def _serve_router(job: Job, output: TextIO) -> None:
    _skip_time(job)
    from handlers import route

    # Its clients belong to the start, which the CPU seconds are without.
    route.router()
    invocations = 0
    runs: list[subprocess.Popen[str]] = []

    async def answer(path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        nonlocal invocations
        if path.startswith("/control/"):
            for run in runs:
                await asyncio.to_thread(run.wait)
            cpu = cpu_seconds(RUSAGE_SELF) + cpu_seconds(RUSAGE_CHILDREN)
            return 200, json.dumps({"cpu": cpu, "invocations": invocations, "shards": len(runs)})
        if "/functions/redrive/" in path:
            router = f"http://{headers['host']}"
            shard = replace(job, router=router, event=json.loads(body))
            runs.append(_process(shard, subprocess.DEVNULL))
            return 202, ""
        invocations += 1
        context = lambda_context(30)
        decided = await asyncio.to_thread(route.handler, json.loads(body), context)
        return 200, json.dumps(decided, separators=(",", ":"))

    serve(answer, output)


def _peak_mb() -> float:
    """The peak of this process's resident memory."""
    # What getrusage reports is at least the memory of the process that started this one.
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _do(job: Job) -> Effort:
    # Imports and clients belong to the start.
    if job.way == "ours":
        _skip_time(job)
        importlib.import_module("handlers.redrive")
        work = _ours
    else:
        boto3 = importlib.import_module("boto3")
        boto3.client("sqs", endpoint_url=job.endpoint)
        work = _naive
    before = cpu_seconds(RUSAGE_SELF)
    made = work(job)
    return replace(made, cpu=cpu_seconds(RUSAGE_SELF) - before, peak_mb=_peak_mb())


def main() -> None:
    job = Job(**json.loads(sys.argv[1]))
    # What the functions log does not belong to the answer.
    with os.fdopen(os.dup(1), "w") as output:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if sys.argv[2:] == [SERVE_ROUTER]:
            _serve_router(job, output)
        else:
            output.write(json.dumps(asdict(_do(job))) + "\n")


if __name__ == "__main__":
    main()
