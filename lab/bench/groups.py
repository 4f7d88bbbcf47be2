"""How long `dlq groups` takes: `python -m lab.bench.groups [letters ...]`.

Fresh processes of `dlq` at a pseudo-terminal, and screens of a page that runs already, against a
stub of AWS over HTTP on this machine, in a process of its own. Its index of causes has so many
letters, of three causes, in the shards and in the bytes that the library writes: a page ends after
a megabyte or at its limit, as in DynamoDB.
Each answer takes 10 ms, times 0.5 to 1.5, and 100 ms more for each megabyte that was read.

Medians of the time on the clock to the first character and to the end, and of the CPU time. The
answer is checked: it names all three causes, and all letters unless it says "at least".
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate, takewhile
from operator import itemgetter
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, ClassVar
from uuid import UUID

sys.path.insert(0, str(Path(__file__).parents[2] / "lambdas"))

from console.operations.app import App, DeployedPipeline
from deadletter.aws.dynamodb import stored
from deadletter.aws.table import Joined, stored_number
from deadletter.contract import CAUSE_SHARDS, CAUSES, Partition, cause_partition
from deadletter.failure.cause_index import entry_change, shard_of
from deadletter.failure.failure import Category, Failure
from deadletter.failure.ledger import AboutLetter
from deadletter.testing.fakes.words import valued
from lab.bench.command_line import Timing, served, timed

ROOT = Path(__file__).parents[2]

LETTERS = (4_000, 19_000, 100_000)
TURNS = 3
MOST_SECONDS = 5.0

SCREENS = {"causes": 5.0, "find?q=tenant%3Dtenant-7": 1.0}
"""Screens of `dlq ui` that read the index as well, and the seconds that each may take. The page
runs already; its first screen is not measured."""

LATENCY = 0.010
"""Seconds of an answer, times 0.5 to 1.5."""

SECONDS_A_MEGABYTE = 0.100
MEGABYTE = 1_024 * 1_024

CAUSE_OF = (("f0000000000000a1", "HTTPError", 503), ("f0000000000000b2", "KeyError", None),
            ("f0000000000000c3", "Timeout", None))  # fmt: skip
"""Fingerprint, error and status of each cause: of eight letters five, two and one have it."""

_SERVE = "--serve"
_QUEUE = "https://sqs.eu-west-1.amazonaws.com/111122223333/deadletter-orders"


def index_of(letters: int) -> dict[str, list[tuple[str, dict[str, Any], int]]]:
    """The rows of each partition of the index: fingerprint, item and bytes, in order."""
    random, now = Random(1), time.time()  # noqa: S311 - repeatable, not secret
    shards: dict[str, list[tuple[str, dict[str, Any], int]]] = {
        cause_partition("orders", shard): [] for shard in range(CAUSE_SHARDS)
    }
    for number in range(letters):
        origin = str(UUID(int=random.getrandbits(128)))
        fingerprint, error, status = CAUSE_OF[(0, 0, 0, 0, 0, 1, 1, 2)[number % 8]]
        failure = Failure(
            at=now - random.uniform(0, 3_600),
            attempt=2,
            category=Category.TRANSIENT,
            error_type=error,
            message="the payment service answered … and the order … was not booked",
            http_status=status,
            fingerprint=fingerprint,
        )
        about = AboutLetter(
            {"tenantId": f"tenant-{number % 200}", "messageType": "order.created"},
            f"tenant-{number % 200}/default",
            1_800,
        )
        change = entry_change("orders", origin, failure, about)
        data = {**change.sets, **change.keeps}
        data = {name: data[name] for name in data if name in (*CAUSES.projected, *CAUSES[1:3])}
        data |= {name: stored_number(v) for name, v in data.items() if isinstance(v, float)}
        item = stored({**data, "pk": Partition.LEDGER.of("orders", origin), "sk": "ledger"})
        # Nearly what DynamoDB counts: names and values.
        size = sum(len(name) + len(str(next(iter(v.values())))) for name, v in item.items())
        shards[cause_partition("orders", shard_of(origin))].append((fingerprint, item, size))
    for rows in shards.values():
        rows.sort(key=lambda row: (row[0], row[1]["pk"]["S"]))
    return shards


class _Aws(BaseHTTPRequestHandler):
    """As much of AWS as `dlq groups` asks."""

    protocol_version = "HTTP/1.1"
    index: Mapping[str, Sequence[tuple[str, dict[str, Any], int]]] = {}
    texts: ClassVar[dict[tuple[str, frozenset[str]], str]] = {}
    random = Random(2)  # noqa: S311 - repeatable, not secret

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        action = self.headers.get("X-Amz-Target", "").rpartition(".")[2]
        answer, read = self._answer(action, json.loads(body) if action else {})
        time.sleep(LATENCY * self.random.uniform(0.5, 1.5) + SECONDS_A_MEGABYTE * read / MEGABYTE)
        kind = "application/x-amz-json-1.0" if action else "text/xml"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _answer(self, action: str, request: Mapping[str, Any]) -> tuple[bytes, int]:
        if action == "Query" and request.get("IndexName") == CAUSES.name:
            return self._page(request)
        answers: Mapping[str, Any] = {
            "Query": {"Items": [], "Count": 0, "ScannedCount": 0},
            "BatchGetItem": {"Responses": {}},
            "GetParametersByPath": {"Parameters": parameters()},
            "GetQueueAttributes": {
                "Attributes": {
                    **dict.fromkeys(
                        (
                            "ApproximateNumberOfMessages",
                            "ApproximateNumberOfMessagesNotVisible",
                            "ApproximateNumberOfMessagesDelayed",
                        ),
                        "0",
                    ),
                    "MessageRetentionPeriod": "1209600",
                }
            },
        }
        return (json.dumps(answers[action]).encode() if action else CALLER), 0

    def _page(self, request: Mapping[str, Any]) -> tuple[bytes, int]:
        where = valued(request)["Where"]
        asked: Any = where.parts if isinstance(where, Joined) else [where]
        # The partition, and where it is not asked for as a whole a fingerprint.
        [partition, fingerprint] = [*(each.values[0] for each in asked), ""][:2]
        sign = asked[-1].sign if len(asked) > 1 else ""
        rows = self.index[partition]
        if sign == "=":
            rows = [row for row in rows if row[0] == fingerprint]
        start, after = 0, request.get("ExclusiveStartKey")
        if after is not None:
            place = (after["fingerprint"]["S"], after["pk"]["S"])
            start = bisect_right(rows, place, key=lambda row: (row[0], row[1]["pk"]["S"]))
        elif sign == ">":
            start = bisect_right(rows, fingerprint, key=itemgetter(0))
        ends = list(takewhile(MEGABYTE.__ge__, accumulate(row[2] for row in rows[start:])))
        page = rows[start : start + min(len(ends), request.get("Limit", len(rows)))]
        shown = frozenset(request["ExpressionAttributeNames"].values())
        items = ",".join(self._text(row[1], shown) for row in page)
        last = ""
        if page and (start + len(page) < len(rows) or len(page) == request.get("Limit")):
            keys = ("pk", "sk", "causes", "fingerprint")
            key = {name: page[-1][1][name] for name in keys}
            last = f', "LastEvaluatedKey": {json.dumps(key)}'
        counts = f'"Count": {len(page)}, "ScannedCount": {len(page)}'
        # What is read costs time, also where less is shown.
        read = ends[len(page) - 1] if page else 0
        return f'{{"Items": [{items}], {counts}{last}}}'.encode(), read

    def _text(self, item: Mapping[str, Any], shown: frozenset[str]) -> str:
        """An item with what is shown of it; made once, because the stub is not what is measured."""
        place = (item["pk"]["S"], shown)
        if place not in self.texts:
            slim = {name: value for name, value in item.items() if name in shown}
            self.texts[place] = json.dumps(slim)
        return self.texts[place]

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


CALLER = b"""<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<GetCallerIdentityResult><Arn>arn:aws:iam::111122223333:user/ann</Arn><UserId>A</UserId>
<Account>111122223333</Account></GetCallerIdentityResult></GetCallerIdentityResponse>"""


def parameters() -> list[dict[str, str]]:
    """The app as its stacks describe it."""
    shared = App(
        name="deadletter",
        letters_table="letters",
        circuits_table="circuits",
        rules_table="rules",
        audit_table="audit",
        audit_days=400,
        endpoints_table="endpoints",
        letters_bucket="bodies",
        alarm_topic="alarms",
    )
    pipeline = DeployedPipeline(
        name="orders",
        main_url=f"{_QUEUE}-main",
        dlq_url=f"{_QUEUE}-dlq",
        parking={"default": f"{_QUEUE}-parking"},
        redrive_function="redrive",
        mode="enforce",
        dedicated={},
        router_function="route",
        fifo=False,
        terms={},
        pipeline={},
        replay_machine="replay",
        stacks={},
        keys=(),
        trusted_senders=(),
    )
    names = {
        "/deadletter/app": asdict(shared),
        "/deadletter/pipelines/orders": asdict(pipeline),
    }
    return [{"Name": name, "Value": json.dumps(data)} for name, data in names.items()]


def serve(letters: int) -> None:
    """Answer until this process is ended; its port is the first line of its output."""
    _Aws.index = index_of(letters)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Aws)
    print(server.server_address[1], flush=True)
    server.serve_forever()


@contextmanager
def aws_with(letters: int) -> Iterator[str]:
    """The address of a stub whose index has so many letters."""
    command = [sys.executable, "-m", "lab.bench.groups", _SERVE, str(letters)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()


def check(letters: int, environment: Mapping[str, str]) -> str:
    """The first line of the answer, which has to name all causes."""
    command = [sys.executable, "-m", "console", "groups"]
    done = subprocess.run(
        command, cwd=ROOT, env=dict(environment), capture_output=True, text=True, check=True
    )
    first = done.stdout.splitlines()[0]
    assert "3 causes" in first, first
    assert first.startswith((f"{letters:,} messages, ", "At least ")), first
    return first


def main(sizes: Sequence[int]) -> None:
    environment = {
        **os.environ,
        "AWS_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'lambdas'}",
        "TERM": "xterm",
    }
    # Installed packages are compiled.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as compiled:
        environment["PYTHONPYCACHEPREFIX"] = compiled
        for letters in sizes:
            with aws_with(letters) as address:
                variables = {**environment, "AWS_ENDPOINT_URL": address}
                says = check(letters, variables)
                timings = [timed(["groups"], variables) for _ in range(TURNS)]
                with served(variables) as seconds:
                    turns = [[seconds(screen) for screen in SCREENS] for _ in range(TURNS + 1)]
            report(letters, timings, says)
            for screen, took in zip(SCREENS, zip(*turns[1:], strict=True), strict=True):
                within = "ok" if median(took) <= SCREENS[screen] else "TOO SLOW"
                print(f"{letters:7,} messages: {median(took):5.2f} s for {screen}; "
                      f"{SCREENS[screen]:g} s are allowed: {within}")  # fmt: skip


def report(letters: int, timings: Sequence[Timing], says: str) -> None:
    """Prints the figures of one size, and whether they reach what they have to."""
    first, end, cpu = (median(values) for values in zip(*timings, strict=True))
    verdict = "ok" if end <= MOST_SECONDS else f"TOO SLOW, {MOST_SECONDS:g} s are allowed"
    print(f"{letters:7,} messages: {first:5.2f} s to the first character, {end:5.2f} s in all, "
          f"{cpu:5.2f} s CPU; {verdict}: {says}")  # fmt: skip


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments[:1] == [_SERVE]:
        serve(int(arguments[1]))
    else:
        main([int(text) for text in arguments] or LETTERS)
