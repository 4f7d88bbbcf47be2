"""One way to empty a DLQ, in a process of its own: `python -m lab.bench.drain <job as JSON>`.

messages    boto3, one thread: receive ten, then send and delete message by message
batches     boto3, one thread, batches of ten; looks at no answer for a single entry
threads     the same in 16 threads
deadletter  the handlers of `redrive` and `route` as they are deployed, with their clients; the
            router runs in a process of its own behind Lambda's HTTP interface
others      tools that `make bench-peers` has installed (`lab.bench.peers`)

A job prints one line of JSON: CPU seconds, peak of resident memory, runs. The start of a process,
its imports and its clients are not in the CPU seconds; `lab.bench.imports` has those.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "lambdas"))

from lab.bench.lean_stub import FIFO, MAIN, PIPELINE, SOURCE, ask
from lab.bench.peers import PEERS
from lab.bench.share import at_share

ROOT = Path(__file__).parents[2]
NAIVE_THREADS = 16
MOST_RUNS = 60

FRUITLESS_RUNS = 3
"""Runs after which a job ends, if none of them moved anything."""

MINUTE = 60.0
"""Seconds between two runs at a pace."""

SERVE_ROUTER = "router"
_START_RUN = "/2015-03-31/functions/redrive/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a process is to do. `pipeline` and `environment` are for deadletter only.

    `run_seconds` is how long one run may take; with `scheduled` a run begins each minute of the
    stub's clock, otherwise at once. A drain has at most so many `shards`, each in a process of its
    own; `event` is what such a run is started with. Runs go on `until` no letter is "left" in the
    source queue, or "unsent"; `skipped` is how much later than by its pace the stub's clock is. The
    run and its router have a `share` of a core each (0: whole ones).
    """

    way: str
    endpoint: str
    began: float = 0.0
    pace: float = 1.0
    pipeline: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    router: str = ""
    run_seconds: float = 840.0
    scheduled: bool = False
    shards: int = 0
    event: Mapping[str, Any] = field(default_factory=dict)
    most_runs: int = MOST_RUNS
    until: str = "left"
    skipped: float = 0.0
    share: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """What a way took: CPU of its processes, the peak of the first one's memory.

    `busy_seconds` is how long the functions ran by the stub's clock, redrive and route; `shards` is
    how many runs others have started, whose CPU is in that of the router.
    """

    cpu: float
    router_cpu: float = 0.0
    peak_mb: float = 0.0
    runs: int = 1
    invocations: int = 0
    shards: int = 0
    busy_seconds: tuple[float, float] = (0.0, 0.0)
    counts: Mapping[str, int] = field(default_factory=dict)
    trouble: str = ""

    def and_then(self, later: Effort) -> Effort:
        """Both, one after the other."""
        return Effort(
            cpu=self.cpu + later.cpu,
            router_cpu=self.router_cpu + later.router_cpu,
            peak_mb=max(self.peak_mb, later.peak_mb),
            runs=self.runs + later.runs,
            invocations=self.invocations + later.invocations,
            shards=self.shards + later.shards,
            busy_seconds=(
                self.busy_seconds[0] + later.busy_seconds[0],
                self.busy_seconds[1] + later.busy_seconds[1],
            ),
            counts=Counter(self.counts) + Counter(later.counts),
            trouble=self.trouble or later.trouble,
        )


def effort(job: Job) -> Effort:
    """Do the job in a process of its own."""
    if job.way in PEERS:
        return _peer(job)
    if job.way != "deadletter":
        return _in_process(job)
    with RouterProcess(job) as router, at_share(router.pid, job.share):
        before = router.spent()
        made = _in_process(_with(job, router=router.endpoint))
        after = router.spent()
    cpu = after["cpu"] - before["cpu"]
    return Effort(
        **{
            **asdict(made),
            "router_cpu": cpu,
            "invocations": int(after["invocations"]),
            "shards": int(after["shards"]),
            "busy_seconds": (made.busy_seconds[0], after["seconds"] * job.pace),
        }
    )


class RouterProcess:
    """The function `route` behind Lambda's HTTP interface."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.endpoint = ""

    def __enter__(self) -> RouterProcess:
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "lab.bench.drain",
                json.dumps(asdict(self._job)),
                SERVE_ROUTER,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment_of(self._job),
        )
        assert self._process.stdout is not None
        self.endpoint = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        return self

    @property
    def pid(self) -> int:
        return self._process.pid

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def spent(self) -> dict[str, float]:
        """CPU seconds, invocations and their seconds so far."""
        answer: dict[str, float] = ask(self.endpoint, "spent")
        return answer


def environment_of(job: Job) -> dict[str, str]:
    """The environment of our functions, on the stub."""
    url = f"{job.endpoint}/000000000000/"
    fifo = FIFO if job.pipeline.get("fifo") else ""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{ROOT}:{ROOT / 'lambdas'}",
        "AWS_ENDPOINT_URL_SQS": job.endpoint,
        "AWS_ENDPOINT_URL_DYNAMODB": job.endpoint,
        "AWS_ENDPOINT_URL_LAMBDA": job.router or job.endpoint,
        "AWS_ENDPOINT_URL_S3": job.endpoint,
        "AWS_ACCESS_KEY_ID": "AKIABENCH",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_SESSION_TOKEN": "bench",
        # As in Lambda: clients are made while a function starts.
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_LAMBDA_FUNCTION_NAME": "redrive",
        "POWERTOOLS_SERVICE_NAME": "bench",
        "APP": "deadletter",
        "PIPELINE": json.dumps({"name": PIPELINE, **job.pipeline}),
        "MAIN_URL": url + MAIN + fifo,
        "MAIN_ARN": f"arn:aws:sqs:us-east-1:000000000000:{MAIN}{fifo}",
        "DLQ_URL": url + SOURCE + fifo,
        "DLQ_ARN": f"arn:aws:sqs:us-east-1:000000000000:{SOURCE}{fifo}",
        "PARKING": json.dumps({"default": url + "parking" + fifo}),
        "DEDICATED": json.dumps({name: url + name for name in job.pipeline.get("dedicated", ())}),
        "LETTERS_TABLE": "letters",
        "LETTERS_BUCKET": "bodies",
        "RULES_TABLE": "rules",
        "CIRCUITS_TABLE": "circuits",
        "ROUTER_FUNCTION": "router",
        **({"REDRIVE_FUNCTION": "redrive"} if job.shards else {}),
        "TRUSTED_SENDERS": '["AROAREDRIVER"]',
        **job.environment,
    }


def _with(job: Job, **changes: Any) -> Job:
    return Job(**{**asdict(job), **changes})


def _in_process(job: Job) -> Effort:
    command = [sys.executable, "-m", "lab.bench.drain", json.dumps(asdict(job))]
    with (
        subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment_of(job)
        ) as process,
        at_share(process.pid, job.share),
    ):
        output, _ = process.communicate()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    data = json.loads(output.splitlines()[-1])
    return Effort(**{**data, "busy_seconds": tuple(data["busy_seconds"])})


def _peer(job: Job) -> Effort:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        PEERS[job.way].command(job.endpoint, SOURCE, MAIN),
        env=environment_of(job),
        capture_output=True,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Effort(
        cpu=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        trouble="" if done.returncode == 0 else done.stderr[-300:],
    )


# What follows runs in the job's own process.


def _naive(job: Job, threads: int, each: bool) -> None:
    import boto3
    from botocore.config import Config

    sqs = boto3.client(
        "sqs", endpoint_url=job.endpoint, config=Config(max_pool_connections=threads)
    )
    source, main = (f"{job.endpoint}/000000000000/{name}" for name in (SOURCE, MAIN))

    def poll() -> None:
        while messages := sqs.receive_message(
            QueueUrl=source, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
        ).get("Messages"):
            if each:
                for message in messages:
                    sqs.send_message(
                        QueueUrl=main,
                        MessageBody=message["Body"],
                        MessageAttributes=message.get("MessageAttributes", {}),
                    )
                    sqs.delete_message(QueueUrl=source, ReceiptHandle=message["ReceiptHandle"])
                continue
            sqs.send_message_batch(
                QueueUrl=main,
                Entries=[
                    {
                        "Id": message["MessageId"],
                        "MessageBody": message["Body"],
                        "MessageAttributes": message.get("MessageAttributes", {}),
                    }
                    for message in messages
                ],
            )
            sqs.delete_message_batch(
                QueueUrl=source,
                Entries=[
                    {"Id": message["MessageId"], "ReceiptHandle": message["ReceiptHandle"]}
                    for message in messages
                ],
            )

    pollers = [threading.Thread(target=poll) for _ in range(threads)]
    for poller in pollers:
        poller.start()
    for poller in pollers:
        poller.join()


class StubTime:
    """The stub's clock in another process."""

    def __init__(self, began: float, pace: float, skipped: float = 0.0) -> None:
        self._began = began or time.time()
        self._pace = pace
        self._skipped = skipped

    def time(self) -> float:
        return self._began + (time.time() - self._began) * self._pace + self._skipped

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds / self._pace)


class LambdaContext:
    """What the handlers and their decorators ask a Lambda context for."""

    function_name = "redrive"
    function_version = "$LATEST"
    memory_limit_in_mb = 512
    invoked_function_arn = "arn:aws:lambda:us-east-1:000000000000:function:redrive"
    aws_request_id = "44444444-4444-4444-8444-444444444444"
    client_context = None
    identity = None

    def __init__(self, clock: Callable[[], float], ends: float) -> None:
        self._clock = clock
        self._ends = ends

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self._ends - self._clock()) * 1000))


def _deadletter(job: Job) -> dict[str, Any]:
    stub_time = _on_stub_time(job)
    from deadletter.redrive import shards
    from handlers import redrive

    vars(shards)["MOST_SHARDS"] = job.shards
    report: Mapping[str, Any] = {}
    counts: Counter[str] = Counter()
    busy, runs, trouble = 0.0, 0, ""
    event = job.event or ({} if job.scheduled or job.shards else {"asked": True})
    lasting = [_waiting(job)]
    while lasting[-1] and runs < (1 if job.event else job.most_runs):
        began = stub_time.time()
        context: Any = LambdaContext(stub_time.time, began + job.run_seconds)
        report = redrive.handler(dict(event), context)
        runs += 1
        counts.update(
            {name: int(n) for name, n in report.get("counts", {}).items() if isinstance(n, int)}
        )
        trouble = trouble or str(report.get("trouble") or "")
        took = stub_time.time() - began
        busy += took
        lasting.append(_waiting(job))
        if lasting[-1] == lasting[-FRUITLESS_RUNS - 1 :][0] and runs >= FRUITLESS_RUNS:
            break
        if job.scheduled and lasting[-1]:
            stub_time.sleep(max(0.0, MINUTE - took))
    return {"runs": runs, "busy_seconds": (busy, 0.0), "counts": dict(counts), "trouble": trouble}


def _waiting(job: Job) -> int:
    """Letters that the job still has to move."""
    return int(ask(job.endpoint, "left")[job.until])


def _on_stub_time(job: Job) -> StubTime:
    """Let the handlers' world have the stub's clock."""
    from handlers import runtime

    stub_time = StubTime(job.began, job.pace, job.skipped)
    if job.pace != 1.0 or job.skipped:
        vars(runtime)["time"] = SimpleNamespace(time=stub_time.time, sleep=stub_time.sleep)
    return stub_time


def _serve_router(job: Job) -> None:
    stub_time = _on_stub_time(job)
    from handlers import route

    # Its clients belong to the start, which the CPU seconds are without.
    route.router()
    spent = {"invocations": 0, "seconds": 0.0}
    counting = threading.Lock()
    started: list[subprocess.Popen[bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body of an answer go together: the second of two small writes would wait for
        # the acknowledgement of the first, up to 40 ms.
        disable_nagle_algorithm = True
        wbufsize = -1

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.path.startswith("/control/"):
                for run in started:
                    run.wait()
                cpu = _cpu(resource.RUSAGE_SELF) + _cpu(resource.RUSAGE_CHILDREN)
                self._answer(json.dumps({**spent, "cpu": cpu, "shards": len(started)}))
                return
            if self.path.startswith(_START_RUN):
                router = f"http://127.0.0.1:{server.server_address[1]}"
                event = _with(job, router=router, event=json.loads(body))
                started.append(_start(event))
                self._answer("", 202)
                return
            began = time.monotonic()
            context: Any = LambdaContext(stub_time.time, stub_time.time() + 30)
            answer = json.dumps(route.handler(json.loads(body), context), separators=(",", ":"))
            with counting:
                spent["invocations"] += 1
                spent["seconds"] += time.monotonic() - began
            self._answer(answer)

        def _answer(self, text: str, status: int = 200) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Requests are counted, not listed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    # What the functions log does not belong to the answer.
    output = _apart()
    output.write(f"{server.server_address[1]}\n")
    output.flush()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


def _start(job: Job) -> subprocess.Popen[bytes]:
    """One more run of the redriver in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "lab.bench.drain", json.dumps(asdict(job))],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        cwd=ROOT,
        env=environment_of(job),
    )


def _cpu(whose: int) -> float:
    usage = resource.getrusage(whose)
    return usage.ru_utime + usage.ru_stime


def _peak_mb() -> float:
    """The peak of this process's resident memory."""
    # What getrusage reports is at least the memory of the process that started this one.
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _apart() -> Any:
    """A file on the standard output; what anything else prints there goes nowhere from now on."""
    output = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    return output


def _do(job: Job) -> None:
    output = _apart()
    if job.way == "deadletter":
        # Its imports and clients belong to the start.
        _on_stub_time(job)
        import handlers.redrive  # noqa: F401 - loaded before the clock starts

        before = resource.getrusage(resource.RUSAGE_SELF)
        result = _deadletter(job)
    else:
        import boto3

        boto3.client("sqs", endpoint_url=job.endpoint)
        before = resource.getrusage(resource.RUSAGE_SELF)
        _naive(job, NAIVE_THREADS if job.way == "threads" else 1, job.way == "messages")
        result = {}
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    output.write(json.dumps(asdict(Effort(cpu=cpu, peak_mb=_peak_mb(), **result))))
    output.write("\n")
    output.flush()


if __name__ == "__main__":
    asked = Job(**json.loads(sys.argv[1]))
    if sys.argv[2:] == [SERVE_ROUTER]:
        _serve_router(asked)
    else:
        _do(asked)
