"""A send whose answer is lost is one request, in each function that sends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError

import handlers.probe
import handlers.replay
from deadletter.aws import clients as made
from deadletter.aws.queue import SqsQueue
from deadletter.aws.wiring.consuming import consumer_for
from deadletter.aws.wiring.moving import prober_for, redriver_for
from deadletter.aws.wiring.moving import run_clients as clients_of_a_run
from deadletter.aws.wiring.replaying import replay_steps_for
from deadletter.aws.wiring.world import World
from deadletter.message.envelope import QueueTraits, seal
from deadletter.message.letter import Letter
from deadletter.message.queue import SendResult
from deadletter.message.stamp import Stamp
from deadletter.outage.steps import ExecutionStep, Next
from deadletter.redrive.report import Tally, nothing
from deadletter.replay.plan import DELIVER, ReplayPlan
from deadletter.replay.run import ReplayRun
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources
from tests.each_row import each_row
from tests.samples import letter, received

FACTORIES = (made.clients, made.consumer_clients, made.outage_clients, made.consumer_call)
QUEUE = "https://sqs.eu-west-1.amazonaws.com/111122223333/"
RESOURCES = Resources(
    main_url=f"{QUEUE}orders",
    main_arn="arn:aws:sqs:eu-west-1:111122223333:orders",
    dlq_url=f"{QUEUE}orders-dlq",
    parking={"default": f"{QUEUE}orders-parking"},
    dedicated={"slow": f"{QUEUE}orders-slow"},
    messages_table="messages",
    messages_bucket="bodies",
    rules_table="rules",
    circuits_table="circuits",
    router_function="router",
)
OF_FUNCTION = replace(RESOURCES, consumer_function="consumer", trusted_senders=("AROA",))
PIPELINE = Pipeline("orders", consumer_library=True, dedicated=("slow",))
DIRECT = ReplayPlan(pipeline="orders", destination=DELIVER)
RUN = ReplayRun(id="r", pipeline="orders")
BATCH = [seal(Letter("copy", "{}"), Stamp("copy", 1, 5), QueueTraits())]


@pytest.fixture(autouse=True)
def _account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    for factory in FACTORIES:
        factory.cache_clear()
    yield
    for factory in FACTORIES:
        factory.cache_clear()


def world() -> World:
    return World(clock=lambda: 1e9, wait=lambda _: None, new_id=lambda: "run", random=Random(1))


def redriver_queues() -> Sequence[Any]:
    redriver = redriver_for(PIPELINE, RESOURCES, made.clients(), world())
    return list(redriver._setup.mover._targets.values())


def parking_queues() -> Sequence[Any]:
    consumer = consumer_for(
        PIPELINE, RESOURCES, made.consumer_clients(), world(), count_metric=nothing
    )
    return list(consumer.parking.values())


def probe_queues() -> Sequence[Any]:
    prober = prober_for(
        PIPELINE, RESOURCES, made.clients(), made.outage_clients(), world(), nothing
    )
    sender: Any = prober.sender
    return list(sender.sources[0].setup.mover_for(Tally())._targets.values())


def sends_with(queue: SqsQueue, fault: Any) -> tuple[SendResult, int]:
    """The result of a send whose every answer is this fault, and the requests that it made."""
    requests: list[str] = []

    def answer(request: Any, **_: Any) -> Any:
        requests.append(request.url)
        if isinstance(fault, Exception):
            raise fault
        return AWSResponse(request.url, fault, {}, _Body(b"{}"))

    events = queue.sending.meta.events
    events.register("before-send.sqs.SendMessageBatch", answer)
    result = queue.send(BATCH)
    events.unregister("before-send.sqs.SendMessageBatch", answer)
    return result, len(requests)


class _CountsConnections(BaseHTTPRequestHandler):
    """Answers each request, and keeps the connection for the next one."""

    protocol_version = "HTTP/1.1"
    connections = 0

    def setup(self) -> None:
        type(self).connections += 1
        super().setup()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: Any) -> None:
        """Write nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[_CountsConnections]]:
    """All of AWS, which counts the connections that it is called on."""
    monkeypatch.setattr(_CountsConnections, "connections", 0)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _CountsConnections)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    yield _CountsConnections
    server.shutdown()
    server.server_close()
    thread.join()


CONTEXT = SimpleNamespace(
    function_name="probe",
    memory_limit_in_mb=256,
    invoked_function_arn="arn:aws:lambda:eu-west-1:111122223333:function:probe",
    aws_request_id="id",
    get_remaining_time_in_millis=lambda: 55_000,
)
OUTAGE = {"key": "orders", "generation": 1, "restart": 0}


def calls_of(clients: made.Clients) -> list[Callable[[], object]]:
    """A call of each client with one try."""
    return [
        lambda: clients.sending.list_queues(),
        lambda: clients.functions.invoke(FunctionName="router", Payload=b"{}"),
    ]


def redrive_calls(_patch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    return calls_of(clients_of_a_run())


def probe_calls(patch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """The calls of the function's next event, with that to the consumer."""
    step = ExecutionStep(Next.CLOSED, "CLOSED", 0, 0, 0, "")
    patch.setattr(handlers.probe, "settings", lambda: (PIPELINE, OF_FUNCTION))
    patch.setattr(handlers.probe, "prober", lambda: SimpleNamespace(probe=lambda _: step))
    handlers.probe.handler({"outage": OUTAGE}, CONTEXT)
    prober = prober_for(
        PIPELINE, OF_FUNCTION, made.clients(""), made.outage_clients(), world(), nothing
    )
    process = prober.consumer.process
    canary = partial(process, received(letter()), "arn:aws:sqs:::orders", "permit", "orders")
    return [*calls_of(made.clients("")), canary]


def replay_calls(patch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """The calls of a worker's next step, which delivers to the consumer."""
    patch.setattr(handlers.replay, "steps", lambda: SimpleNamespace(take=lambda *_: {}))
    handlers.replay.handler({"run": "r", "step": "work", "execution": "e"}, CONTEXT)
    steps: Any = replay_steps_for(PIPELINE, OF_FUNCTION, made.clients(""), world(), nothing)
    carrier = steps.setup.work.__self__._carrier(RUN, DIRECT, Tally())
    return [
        *calls_of(made.clients("")),
        lambda: carrier.consumer.deliver([Letter("c", "{}")], "r"),
    ]


@pytest.mark.parametrize("calls_of_a_run", [redrive_calls, replay_calls, probe_calls])
def test_a_call_with_one_try_is_not_made_on_a_connection_that_was_idle_since_the_last_run(
    server: type[_CountsConnections], monkeypatch: pytest.MonkeyPatch, calls_of_a_run: Any
) -> None:
    made_in_runs = []
    for _ in range(3):
        before = server.connections
        calls = calls_of_a_run(monkeypatch)
        for _ in range(3):
            for call in calls:
                call()
        made_in_runs.append(server.connections - before)
    # The first run has two of an invocation: one of boto3, which shows how it is made.
    assert made_in_runs[1:] == [len(calls)] * 2
    calls_of_a_run(monkeypatch)


class _Body:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self._content


@each_row("queues", [redriver_queues, parking_queues, probe_queues])
@each_row(
    "fault",
    [
        ReadTimeoutError(endpoint_url=QUEUE),
        ConnectionClosedError(endpoint_url=QUEUE),
        500,
        503,
    ],
)
def test_a_send_without_an_answer_is_one_request(queues: Any, fault: Any) -> None:
    for queue in queues():
        result, requests = sends_with(queue, fault)
        assert requests == 1
        assert result == SendResult(unknown=frozenset({"copy"}))
