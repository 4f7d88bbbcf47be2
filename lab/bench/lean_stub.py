"""SQS and DynamoDB over HTTP in one cheap process: `python -m lab.bench.lean_stub`.

It is fast rather than strict: on two shared cores a stub that is slow measures itself. SQS is one
source queue of numbered letters (`lab.bench.lean_queue`) and any other queues, whose messages are
only checked and counted. DynamoDB is the strict fake in memory, and before it a ledger that has a
row for each letter without keeping one.

latency   each answer takes `latency` seconds times 0.5 to 1.5, drawn from a seeded random
receives  ten from a full queue; with `uneven` 1 to 10, drawn evenly
faults    by action: `failing_entries` of a batch, each alone (not carried out); `throttles` of a
          call as a whole (ThrottlingException, not carried out)
pace      the stub's clock runs `pace` times as fast as ours, and its latency shrinks with it: a
          run that waits for a rate takes a part of its time. Counts stay what they are
time      can be skipped, for letters that wait for it
counts    requests by action; SQS requests as billed, by 64 KB; DynamoDB requests and units
audit     of each letter: lost, duplicated, changed, unfinished, out of order

Nothing checks signatures.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import math
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "lambdas"))

from botocore.exceptions import ClientError

from deadletter.aws.ledger import DynamoDBLedger
from deadletter.contract import ROWS_KEPT, Partition
from deadletter.failure.failure import Category, Failure
from deadletter.testing.fakes import Consumed, MemoryDynamoDB
from lab.bench.lean_queue import Audited, LeanQueue, LetterSeries, OverLimit, number_of
from lab.bench.tables import create_tables

PIPELINE = "orders"
"""The pipeline whose ledger the stub has."""

SOURCE, MAIN = "source", "main"
"""The names of the queue with the letters, and of the one where they belong."""

FIFO = ".fifo"
"""What the names of both end in, if the letters have groups."""

LONG_POLL_PAUSE = 0.01
"""Seconds between two looks of a long poll into its queue."""

BILLED_BYTES = 64 * 1024
"""SQS bills a request for each 64 KB of what it carries."""

_READS = ("BatchGetItem", "GetItem", "Query", "Scan", "DescribeTable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What the stub is asked to be; rates are shares from 0 to 1, by action."""

    letters: LetterSeries
    latency: float = 0.010
    uneven: bool = False
    failing_entries: Mapping[str, float] = field(default_factory=dict)
    throttles: Mapping[str, float] = field(default_factory=dict)
    pace: float = 1.0
    ledger: bool = True
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What was asked of the stub. Seconds are those of its clock.

    `sqs` and `dynamodb` are requests by action, `billed` SQS requests by 64 KB; `seconds` are
    those from the first receive to the last send or delete.
    """

    sqs: Mapping[str, int]
    billed: int
    empty: int
    dynamodb: Mapping[str, int]
    read_units: float
    write_requests: int
    write_units: int
    seconds: float
    stub_cpu: float

    @property
    def sqs_calls(self) -> int:
        return sum(self.sqs.values())


class LeanStub:
    """The stub in a process of its own, for as long as the `with` block lasts."""

    def __init__(self, conditions: Conditions) -> None:
        self._conditions = conditions
        self._process: subprocess.Popen[str] | None = None
        self._port = 0
        self.began = 0.0

    def __enter__(self) -> LeanStub:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lab.bench.lean_stub", json.dumps(asdict(self._conditions))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert self._process.stdout is not None
        port, began = self._process.stdout.readline().split()
        self._port, self.began = int(port), float(began)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.communicate()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def url(self, queue: str) -> str:
        return f"{self.endpoint}/000000000000/{queue}"

    def spent(self) -> Spent:
        return Spent(**self._ask("spent"))

    def audit(self) -> Audited:
        return Audited(**self._ask("audit"))

    def left(self) -> int:
        """Letters that are still in the source queue."""
        return int(self._ask("left")["left"])

    def skip(self, seconds: float) -> None:
        """Let the stub's clock be so much later; the time does not count as spent."""
        self._ask("skip", seconds=seconds)

    def reset(self) -> None:
        """Count from now on; the time begins with the next request, whatever it is."""
        self._ask("reset")

    def put_items(self, table: str, items: Sequence[Mapping[str, Any]]) -> None:
        """Store items (attribute values as JSON); they are not counted."""
        self._ask("put_items", table=table, items=items)

    def count_items(self, table: str, attribute: str) -> int:
        """Items of a table that have the attribute."""
        return int(self._ask("count_items", table=table, attribute=attribute)["items"])

    def _ask(self, command: str, **options: Any) -> dict[str, Any]:
        return ask(self.endpoint, command, **options)


def ask(endpoint: str, command: str, **options: Any) -> dict[str, Any]:
    """What the stub at this endpoint answers to one of its own commands."""
    connection = HTTPConnection(endpoint.removeprefix("http://"), timeout=120)
    try:
        connection.request("POST", f"/control/{command}", json.dumps(options))
        response = connection.getresponse()
        answer: dict[str, Any] = json.loads(response.read())
        if response.status != 200:
            raise RuntimeError(f"the stub could not {command}: {answer}")
        return answer
    finally:
        connection.close()


class _LetterLedger:
    """A row for each letter, made when it is read; a row that is written becomes a stored one."""

    def __init__(self, letters: LetterSeries, began: float) -> None:
        store = MemoryDynamoDB(lambda: began)
        create_tables(store)
        client: Any = store
        origin = letters.id(0)
        failure = Failure(
            at=began - 3600,
            attempt=0,
            category=Category.TRANSIENT,
            error_type="TimeoutError",
            message="no answer from inventory within <number> s",
            fingerprint="0123456789abcdef",
            receive=3,
            queue=MAIN,
        )
        rows = DynamoDBLedger(client, "letters", PIPELINE, lambda: began, ROWS_KEPT)
        rows.failed(origin, failure)
        (row,) = store.items("letters")
        self._row = json.dumps(to_wire(row))
        self._origin = origin
        self._prefix = Partition.LEDGER.of(PIPELINE, "")
        self._letters = letters
        self._stored: set[str] = set()

    def row(self, key: Mapping[str, Any]) -> str | None:
        """The row with this key as JSON; None if the ledger has none of its own."""
        partition = key.get("pk", {}).get("S", "")
        origin = partition.removeprefix(self._prefix)
        if origin == partition or number_of(origin) is None or origin in self._stored:
            return None
        return self._row.replace(self._origin, origin)

    def store(self, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """The row as an item, when it is about to be written for the first time."""
        row = self.row(key)
        if row is None:
            return None
        self._stored.add(key["pk"]["S"].removeprefix(self._prefix))
        item: dict[str, Any] = _from_wire(json.loads(row))
        return item


class _LeanServer:
    """The stub's state, and its answers."""

    def __init__(self, conditions: Conditions) -> None:
        self._conditions = conditions
        self.began = time.time()
        self.endpoint = ""
        self._monotonic = time.monotonic()
        self._random = Random(conditions.seed)  # noqa: S311 - repeatable, not secret
        fifo = FIFO if conditions.letters.groups else ""
        arn = f"arn:aws:sqs:us-east-1:000000000000:{MAIN}{fifo}"
        self._queue = LeanQueue(conditions.letters, arn, self.began)
        self._others: Counter[str] = Counter()
        self._sqs: Counter[str] = Counter()
        self._dynamodb: Counter[str] = Counter()
        self._billed = self._empty = 0
        self._ledger_units = 0.0
        self._first: float | None = None
        self._begins_with_any = False
        self._last = self._skipped = 0.0
        self._store = MemoryDynamoDB(self.now)
        create_tables(self._store)
        self._ledger = _LetterLedger(conditions.letters, self.began) if conditions.ledger else None
        self._consumed = self._store.consumed
        self._sent = 0
        self.latency = conditions.latency / conditions.pace

    def now(self) -> float:
        """The stub's clock: epoch seconds."""
        return self._unskipped() + self._skipped

    def _unskipped(self) -> float:
        return self.began + (time.monotonic() - self._monotonic) * self._conditions.pace

    def half_way(self) -> float:
        """Half of a request's latency."""
        return self.latency / 2 * (0.5 + self._random.random())

    async def answer(self, target: str, path: str, body: bytes) -> bytes:
        """The response to one request."""
        if path.startswith("/control/"):
            try:
                command = path.removeprefix("/control/")
                return _response(200, self._command(command, json.loads(body or b"{}")))
            except Exception as error:
                return _response(400, json.dumps({"message": repr(error)}))
        service, _, action = target.partition(".")
        await asyncio.sleep(self.half_way())
        counter = self._sqs if service == "AmazonSQS" else self._dynamodb
        counter[action] += 1
        if self._first is None and (self._begins_with_any or action == "ReceiveMessage"):
            self._first = self._unskipped()
        if self._random.random() < self._conditions.throttles.get(action, 0.0):
            text = _error("ThrottlingException", "Rate exceeded")
            status = 400
        else:
            try:
                request = json.loads(body or b"{}")
                status = 200
                if service == "AmazonSQS":
                    text = await self._act(action, request)
                else:
                    text = self._table(action, request)
            except OverLimit:
                status, text = 403, _error("OverLimit", "too many messages in flight")
            except ClientError as error:
                status, text = 400, _table_error(error)
        if service == "AmazonSQS":
            self._billed += max(1, math.ceil(max(len(body), len(text)) / BILLED_BYTES))
        await asyncio.sleep(self.half_way())
        return _response(status, text)

    async def _act(self, action: str, request: dict[str, Any]) -> str:
        entries = request.get("Entries", [request])
        name = str(request.get("QueueUrl", "")).rpartition("/")[2]
        if action == "ReceiveMessage":
            return await self._receive(name, request)
        if action in ("SendMessageBatch", "SendMessage"):
            return self._each(action, "Entries" in request, entries, self._send)
        if action in ("DeleteMessageBatch", "DeleteMessage"):
            return self._each(action, "Entries" in request, entries, self._delete)
        if action in ("ChangeMessageVisibilityBatch", "ChangeMessageVisibility"):
            return self._each(action, "Entries" in request, entries, self._hide)
        if action == "GetQueueAttributes":
            return json.dumps({"Attributes": self._attributes(name)})
        if action == "GetQueueUrl":
            return json.dumps({"QueueUrl": self._url(request["QueueName"])})
        if action == "ListQueues":
            return json.dumps({"QueueUrls": [self._url(SOURCE), self._url(MAIN)]})
        raise ValueError(f"the stub has no {action}")

    def _url(self, queue: str) -> str:
        return f"{self.endpoint}/000000000000/{queue}"

    def _each(
        self,
        action: str,
        is_batch: bool,
        entries: Sequence[dict[str, Any]],
        act: Callable[[dict[str, Any]], dict[str, Any]],
    ) -> str:
        """Carry out the entries that are not to fail."""
        failing = self._conditions.failing_entries.get(action, 0.0)
        successful, failed = [], []
        for entry in entries:
            if failing and self._random.random() < failing:
                failed.append({"Id": entry["Id"], "SenderFault": False, "Code": "InternalError"})
            else:
                successful.append({"Id": entry.get("Id"), **act(entry)})
        if not is_batch:
            return json.dumps({key: value for key, value in successful[0].items() if key != "Id"})
        return json.dumps({"Successful": successful, "Failed": failed})

    def _send(self, entry: dict[str, Any]) -> dict[str, Any]:
        body = entry["MessageBody"]
        self._sent += 1
        group = entry.get("MessageGroupId")
        self._queue.sent(body, entry.get("MessageAttributes", {}), group)
        self._last = self._unskipped()
        return {
            "MessageId": f"{self._sent:08x}-2222-4222-8222-222222222222",
            "MD5OfMessageBody": hashlib.md5(body.encode(), usedforsecurity=False).hexdigest(),
        }

    def _delete(self, entry: dict[str, Any]) -> dict[str, Any]:
        self._queue.delete(entry["ReceiptHandle"])
        self._last = self._unskipped()
        return {}

    def _hide(self, entry: dict[str, Any]) -> dict[str, Any]:
        self._queue.hide(entry["ReceiptHandle"], float(entry["VisibilityTimeout"]), self.now())
        return {}

    def _attributes(self, name: str) -> dict[str, str]:
        is_source = name.removesuffix(FIFO) == SOURCE
        visible = self._queue.visible(self.now()) if is_source else 0
        return {
            "ApproximateNumberOfMessages": str(visible),
            "ApproximateNumberOfMessagesNotVisible": str(self._queue.in_flight * is_source),
            "ApproximateNumberOfMessagesDelayed": "0",
            "VisibilityTimeout": "30",
            "MessageRetentionPeriod": "1209600",
            "MaximumMessageSize": "1048576",
            "QueueArn": f"arn:aws:sqs:us-east-1:000000000000:{name}",
        }

    async def _receive(self, name: str, request: dict[str, Any]) -> str:
        if name.removesuffix(FIFO) != SOURCE:
            return "{}"
        wanted = int(request.get("MaxNumberOfMessages", 1))
        if self._conditions.uneven:
            wanted = self._random.randint(1, wanted)
        ends = self.now() + float(request.get("WaitTimeSeconds", 0))
        visibility = float(request.get("VisibilityTimeout", 30))
        while True:
            received = self._queue.receive(wanted, visibility, self.now())
            if received or self.now() >= ends:
                break
            await asyncio.sleep(LONG_POLL_PAUSE)
        self._empty += not received
        attributes = bool(request.get("MessageAttributeNames"))
        system = bool(request.get("AttributeNames") or request.get("MessageSystemAttributeNames"))
        messages = (
            self._queue.message(number, handle, attributes=attributes, system=system)
            for number, handle in received
        )
        return '{"Messages": [' + ", ".join(messages) + "]}" if received else "{}"

    def _table(self, action: str, request: dict[str, Any]) -> str:
        if action == "BatchGetItem" and self._ledger is not None:
            return self._batch_get(request, self._ledger)
        if action not in _READS and self._ledger is not None:
            self._store_rows(request, self._ledger)
        call = getattr(self._store, _snake(action))
        answer: dict[str, Any] = call(**_from_wire(request))
        answer.pop("ResponseMetadata", None)
        return json.dumps(to_wire(answer))

    def _batch_get(self, request: dict[str, Any], ledger: _LetterLedger) -> str:
        found: dict[str, list[str]] = {}
        rest: dict[str, Any] = {}
        for table, wanted in request["RequestItems"].items():
            rows = [(key, ledger.row(key)) for key in wanted["Keys"]]
            found[table] = [row for _, row in rows if row is not None]
            consistent = 1.0 if wanted.get("ConsistentRead") else 0.5
            self._ledger_units += consistent * len(found[table])
            keys = [key for key, row in rows if row is None]
            if keys:
                rest[table] = {**wanted, "Keys": keys}
        if rest:
            answer = self._store.batch_get_item(RequestItems=_from_wire(rest))
            for table, items in answer["Responses"].items():
                found[table] += [json.dumps(to_wire(item)) for item in items]
        responses = ", ".join(f'"{table}": [{", ".join(rows)}]' for table, rows in found.items())
        return '{"Responses": {' + responses + '}, "UnprocessedKeys": {}}'

    def _store_rows(self, request: Any, ledger: _LetterLedger) -> None:
        """Store the rows of the ledger that a request is about to change."""
        if isinstance(request, dict):
            key = request.get("Key", request.get("Item"))
            item = ledger.store(key) if isinstance(key, dict) else None
            if item is not None:
                before = self._store.consumed
                self._store.put_item(TableName="letters", Item=item)
                cost = self._store.consumed - before
                self._not_counted(cost)
            for value in request.values():
                self._store_rows(value, ledger)
        elif isinstance(request, list):
            for value in request:
                self._store_rows(value, ledger)

    def _not_counted(self, cost: Consumed) -> None:
        earlier = self._consumed
        self._consumed = Consumed(
            *(was + now for was, now in zip(astuple(earlier), astuple(cost), strict=True))
        )

    # The benchmark's own commands.

    def _command(self, name: str, options: dict[str, Any]) -> str:
        return json.dumps(getattr(self, f"_control_{name}")(**options))

    def _control_spent(self) -> dict[str, Any]:
        consumed = self._store.consumed - self._consumed
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return asdict(
            Spent(
                sqs=dict(self._sqs),
                billed=self._billed,
                empty=self._empty,
                dynamodb=dict(self._dynamodb),
                read_units=consumed.read_units + self._ledger_units,
                write_requests=consumed.write_requests,
                write_units=consumed.write_units,
                seconds=max(0.0, self._last - self._first) if self._first is not None else 0.0,
                stub_cpu=usage.ru_utime + usage.ru_stime,
            )
        )

    def _control_audit(self) -> dict[str, Any]:
        return self._queue.audit()

    def _control_left(self) -> dict[str, Any]:
        return {"left": self._queue.left, "unsent": self._queue.unsent}

    def _control_skip(self, seconds: float) -> dict[str, Any]:
        self._skipped += seconds
        return {}

    def _control_reset(self) -> dict[str, Any]:
        self._sqs.clear()
        self._dynamodb.clear()
        self._billed = self._empty = 0
        self._ledger_units = 0.0
        self._consumed = self._store.consumed
        self._first, self._begins_with_any = None, True
        return {}

    def _control_put_items(self, table: str, items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        before = self._store.consumed
        for item in items:
            self._store.put_item(TableName=table, Item=_from_wire(item))
        self._not_counted(self._store.consumed - before)
        return {}

    def _control_count_items(self, table: str, attribute: str) -> dict[str, Any]:
        return {"items": sum(attribute in item for item in self._store.items(table))}


class _LeanConnection(asyncio.Protocol):
    """One connection: requests are answered one after the other."""

    def __init__(self, server: _LeanServer) -> None:
        self._server = server
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._answering: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._received[:end]).decode("latin-1")
        first, *lines = head.split("\r\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        length = int(headers.get("content-length", "0"))
        if len(self._received) < end + 4 + length:
            return
        body = bytes(self._received[end + 4 : end + 4 + length])
        del self._received[: end + 4 + length]
        path = first.split(" ", 2)[1]
        target = headers.get("x-amz-target", "")
        self._answering = asyncio.ensure_future(self._answer(target, path, body))

    async def _answer(self, target: str, path: str, body: bytes) -> None:
        answer = await self._server.answer(target, path, body)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(answer)


def _response(status: int, text: str) -> bytes:
    body = text.encode()
    return (
        f"HTTP/1.1 {status} {'OK' if status == 200 else 'Error'}\r\n"
        "Content-Type: application/x-amz-json-1.0\r\n"
        f"x-amzn-RequestId: 33333333-3333-4333-8333-333333333333\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


def _error(code: str, message: str) -> str:
    return json.dumps({"__type": f"com.amazonaws#{code}", "message": message})


def _table_error(error: ClientError) -> str:
    response: Any = error.response
    details = response["Error"]
    extra = {
        key: to_wire(response[key]) for key in ("Item", "CancellationReasons") if key in response
    }
    code = f"com.amazonaws.dynamodb.v20120810#{details['Code']}"
    return json.dumps({"__type": code, "message": details["Message"], **extra})


def _snake(action: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in action)[1:]


def _from_wire(value: Any) -> Any:
    """Attribute values as boto3's caller wrote them: bytes, where JSON has base64."""
    if isinstance(value, dict):
        if len(value) == 1 and isinstance(value.get("B"), str):
            return {"B": base64.b64decode(value["B"])}
        return {key: _from_wire(item) for key, item in value.items()}
    return [_from_wire(item) for item in value] if isinstance(value, list) else value


def to_wire(value: Any) -> Any:
    """The fake's answer as JSON-ready data."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {key: to_wire(item) for key, item in value.items()}
    return [to_wire(item) for item in value] if isinstance(value, list | tuple) else value


async def _serve(options: dict[str, Any]) -> None:
    letters = LetterSeries(**options.pop("letters"))
    server = _LeanServer(Conditions(letters=letters, **options))
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(lambda: _LeanConnection(server), "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    server.endpoint = f"http://127.0.0.1:{port}"
    print(port, server.began, flush=True)
    # The stub ends with the process that started it: its input is closed then.
    await asyncio.to_thread(sys.stdin.read)


def main(arguments: Sequence[str]) -> int:
    """Serve until the standard input is closed; port and clock are on the first line of output."""
    asyncio.run(_serve(json.loads(arguments[0])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
