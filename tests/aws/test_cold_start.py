"""What redriver and router load before their first event, and at it, as Lambda starts them."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from deadletter.routing.router import Question
from deadletter.routing.wire import question_to_json
from tests.samples import letter

LAMBDA = {
    "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
    "AWS_LAMBDA_FUNCTION_NAME": "redrive",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "256",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_REGION": "eu-west-1",
    "AWS_ACCESS_KEY_ID": "AKID",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_SESSION_TOKEN": "token",
    "APP": "deadletter",
    "PIPELINE": json.dumps({"name": "orders"}),
    "MAIN_URL": "https://sqs.eu-west-1.amazonaws.com/111122223333/orders",
    "MAIN_ARN": "arn:aws:sqs:eu-west-1:111122223333:orders",
    "DLQ_URL": "https://sqs.eu-west-1.amazonaws.com/111122223333/orders-dlq",
    "PARKING": json.dumps({"default": "https://sqs.eu-west-1.amazonaws.com/1/parking"}),
    "LETTERS_TABLE": "letters",
    "LETTERS_BUCKET": "letters",
    "RULES_TABLE": "rules",
    "CIRCUITS_TABLE": "circuits",
    "ROUTER_FUNCTION": "route",
}

FIRST_EVENT = """
import importlib, json, sys
handler = importlib.import_module("handlers." + sys.argv[1]).handler
before = sorted(sys.modules)
class Context:
    function_name = memory_limit_in_mb = invoked_function_arn = aws_request_id = "-"
    def get_remaining_time_in_millis(self):
        return 60_000
answer = handler(json.loads(sys.argv[2]), Context())
print(json.dumps([before, sorted(sys.modules), answer]))
"""

# They take the most time of a start, and a function that has no trouble needs none of them.
SLOW = ("urllib3", "botocore.client", "botocore.config", "botocore.session", "botocore.parsers")

DEPTH = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)
ANSWERS = {"GetQueueAttributes": json.dumps({"Attributes": dict.fromkeys(DEPTH, "1")}).encode()}


@dataclass
class Service:
    """All of AWS, with empty tables, and queues whose one message does not come."""

    url: str = ""
    operations: list[str] = field(default_factory=list)


@pytest.fixture
def service() -> Iterator[Service]:
    state = Service()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            state.operations.append(self.headers.get("X-Amz-Target", self.path).split(".")[-1])
            answer = ANSWERS.get(state.operations[-1], b"{}")
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


def first_event(service: Service, function: str, event: Any) -> tuple[set[str], set[str], Any]:
    """The modules of a fresh process before and after its first event, and the answer."""
    done = subprocess.run(
        [sys.executable, "-c", FIRST_EVENT, function, json.dumps(event)],
        env={
            **LAMBDA,
            "AWS_ENDPOINT_URL": service.url,
            "PYTHONPATH": str(Path(__file__).parents[2] / "lambdas"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    before, after, answer = json.loads(done.stdout.splitlines()[-1])
    return set(before), set(after), answer


@pytest.mark.parametrize(
    ("function", "event", "operation"),
    [
        ("redrive", {}, "ReceiveMessage"),
        ("route", {"letters": [question_to_json(Question(letter()))]}, "BatchGetItem"),
    ],
)
def test_a_function_without_trouble_loads_no_client_of_botocore(
    service: Service, function: str, event: Any, operation: str
) -> None:
    before, after, _ = first_event(service, function, event)
    assert operation in service.operations
    assert not before & set(SLOW)
    assert not after & set(SLOW)
    # What the first event needs has been loaded by then.
    assert "deadletter.aws.wire.quick_client" in before
