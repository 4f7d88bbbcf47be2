"""SQS and DynamoDB over HTTP in a process of its own: the strict fakes, with latency and counts.

letters   numbered ones wait in the source queue, as died in the main queue an hour ago, each with
          its failure record
latency   each answer takes `latency` seconds times 0.5 to 1.5, drawn from a seeded random
receives  ten from a full queue; with `uneven` 1 to 10, drawn evenly
failing   a part of all entries of batches, each alone (not carried out)
time      can be skipped, for letters that wait for it
counts    requests by action; SQS requests as billed, by 64 KB; DynamoDB requests and units
audit     of each letter: lost, duplicated, changed, unfinished, out of order

The main queue has no consumer here, and looks empty. Nothing checks signatures.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import math
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import count
from random import Random
from typing import Any

from botocore.exceptions import ClientError

from deadletter.aws.journal import DynamoDBJournal
from deadletter.aws.lease import DynamoDBLease
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.contract import MAIN_DLQ, ROWS_KEPT, Partition, circuit_lane
from deadletter.redrive.journal import Intent, Plan
from deadletter.redrive.source_memory import PAST, SourceMemory
from deadletter.testing.fakes import MemoryDynamoDB, MemorySqs
from lab.bench.letters import MAIN, PIPELINE, SOURCE, Audited, Books, LetterSeries
from lab.bench.server import ask, serve, started
from tests.samples import failed
from tests.tables import LETTERS, RULES, create_tables

# The SenderId of all letters.
PRODUCER = "AIDAPRODUCER"

# Receives of a letter before it died.
RECEIVES = 1

# Letters of 200 KB that one batch holds.
BATCH = 5

# Seconds ago at which everything happened that the stub begins with.
OLD_SECONDS = 3_600.0

# Seconds between two looks of a long poll into its queue.
LONG_POLL_PAUSE = 0.01

# SQS bills a request for each 64 KB of what it carries.
BILLED_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What the stub is asked to be, and what its tables have at first.

    `rules` are rows of the rules table. `intents` are those of runs that were killed; `lanes` are
    empty ones of the waiting room that had a letter an hour ago.
    """

    letters: LetterSeries
    latency: float = 0.010
    uneven: bool = False
    failing: float = 0.0
    seed: int = 1
    dedicated: Sequence[str] = ()
    rules: Sequence[Mapping[str, Any]] = ()
    intents: int = 0
    lanes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What was asked of the stub: requests by action, and what AWS bills for them.

    `seconds` are those from the first request to the last send or delete.
    """

    sqs: Mapping[str, int]
    dynamodb: Mapping[str, int]
    billed: int
    read_units: float
    write_requests: int
    write_units: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Stub:
    """The stub from another process."""

    endpoint: str

    def url(self, queue: str) -> str:
        return f"{self.endpoint}/000000000000/{queue}"

    def spent(self) -> Spent:
        return Spent(**ask(self.endpoint, "spent"))

    def audit(self) -> Audited:
        return Audited(**ask(self.endpoint, "audit"))

    def skip(self, seconds: float, *, recount: bool) -> None:
        """Let so much time pass, which does not count as spent; perhaps count from now on."""
        ask(self.endpoint, "skip", seconds=seconds, recount=recount)


@contextmanager
def stub(conditions: Conditions) -> Iterator[Stub]:
    """The stub in a process of its own, for as long as the block lasts."""
    with started("lab.bench.stub", json.dumps(asdict(conditions))) as (_, endpoint):
        yield Stub(endpoint)


class StubServer:
    """The stub's state, and its answers."""

    def __init__(self, conditions: Conditions) -> None:
        self._conditions = conditions
        self._age = OLD_SECONDS
        self._random = Random(conditions.seed)  # noqa: S311 - repeatable, not secret
        ids = (f"{number:08x}-1111-4111-8111-111111111111" for number in count(1))
        self._sqs = MemorySqs(self.now, lambda: next(ids))
        self._tables = MemoryDynamoDB(self.now)
        self._books = Books(conditions.letters)
        self._create_queues()
        create_tables(self._tables)
        self._fill()
        self._age = 0.0
        # Letters and rows stay: looking for garbage among them would only cost time.
        gc.collect()
        gc.freeze()
        self._recount()

    def now(self) -> float:
        return time.time() - self._age

    def control_skip(self, seconds: float, recount: bool) -> None:
        self._age -= seconds
        if recount:
            self._recount()

    def _recount(self) -> None:
        self._calls: dict[str, Counter[str]] = {"AmazonSQS": Counter(), "DynamoDB": Counter()}
        self._consumed = self._tables.consumed
        self._billed = 0
        self._first = self._last = 0.0

    # What is there at first.

    def _create_queues(self) -> None:
        fifo = {"FifoQueue": "true"} if self._conditions.letters.groups else {}
        end = ".fifo" if fifo else ""
        names = (SOURCE, MAIN, "parking", *self._conditions.dedicated)
        self._urls = {
            name + end: self._sqs.create_queue(QueueName=name + end, Attributes=fifo)["QueueUrl"]
            for name in names
        }
        self._source, self._main = SOURCE + end, MAIN + end

    def _fill(self) -> None:
        tables: Any = self._tables
        # Ten minutes before the bench: what is older is swept.
        just_now = self.now() + OLD_SECONDS - 600
        ledger = DynamoDBLedger(tables, LETTERS, PIPELINE, self.now, ROWS_KEPT)
        failure = failed(
            at=self.now(), fingerprint="0123456789abcdef", receive=RECEIVES, queue=MAIN,
            message="no answer from inventory within <number> s",
        )  # fmt: skip
        for origin in self._dead_letters(self._conditions.letters):
            ledger.failed(origin, failure)
        lease = DynamoDBLease(tables, LETTERS, PIPELINE, MAIN_DLQ, first_rate=1.0)
        # The first runs of the queue are over.
        lease.record(SourceMemory(first_step=PAST))
        journal = DynamoDBJournal(tables, LETTERS, PIPELINE, ROWS_KEPT)
        for at in range(self._conditions.intents):
            name, plan = f"{at:08x}", Plan(at.to_bytes(16, "big"), "main", 1)
            journal.write(Intent(f"{name}.0", name, 1, just_now, [plan], 0, home=MAIN_DLQ), None)
        for at in range(self._conditions.lanes):
            key = {"pk": {"S": Partition.LANES.of(PIPELINE)}, "sk": {"S": circuit_lane(f"c{at}")}}
            # A run has looked into it since.
            look = {"S": json.dumps([just_now, None])}
            touched = {"N": str(int(self.now()))}
            tables.put_item(TableName=LETTERS, Item={**key, "touched": touched, "look": look})
        for row in self._conditions.rules:
            item = {
                name: {"N": str(value)} if isinstance(value, int) else {"S": value}
                for name, value in row.items()
            }
            tables.put_item(TableName=RULES, Item={"pipeline": {"S": PIPELINE}, **item})

    def _dead_letters(self, letters: LetterSeries) -> list[str]:
        """Send all letters to the main queue, and let them die there; their ids."""
        main, producer = self._urls[self._main], self._sqs.as_sender(PRODUCER)
        arn = f"arn:aws:sqs:us-east-1:123456789012:{self._source}"
        policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": RECEIVES})
        self._sqs.set_queue_attributes(QueueUrl=main, Attributes={"RedrivePolicy": policy})
        origins: list[str] = []
        for first in range(0, letters.number, BATCH):
            numbers = range(first, min(first + BATCH, letters.number))
            entries = [_entry(letters, number) for number in numbers]
            sent = producer.send_message_batch(QueueUrl=main, Entries=entries)["Successful"]
            origins += [entry["MessageId"] for entry in sent]
            for _ in range(RECEIVES + 1):
                self._sqs.receive_message(
                    QueueUrl=main, MaxNumberOfMessages=10, VisibilityTimeout=0
                )
        return origins

    # Requests.

    async def answer(self, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        """The answer to one request."""
        if path.startswith("/control/"):
            command = getattr(self, f"control_{path.removeprefix('/control/')}")
            return 200, json.dumps(command(**json.loads(body)))
        service, _, action = headers["x-amz-target"].partition(".")
        service = service.partition("_")[0]
        half_way = self._conditions.latency / 2
        await asyncio.sleep(half_way * (0.5 + self._random.random()))
        self._calls[service][action] += 1
        self._first = self._first or time.time()
        try:
            request = from_wire(body)
            if service == "AmazonSQS":
                text = await self._queues(action, request, f"http://{headers['host']}")
            else:
                text = self._called(self._tables, action, request)
            status = 200
        except ClientError as error:
            status, text = 400, _error(error)
        if service == "AmazonSQS":
            self._billed += max(1, math.ceil(max(len(body), len(text)) / BILLED_BYTES))
        await asyncio.sleep(half_way * (0.5 + self._random.random()))
        return status, text

    def _called(self, fake: Any, action: str, request: Mapping[str, Any]) -> str:
        method = re.sub(r"(?<!^)(?=[A-Z])", "_", action).lower()
        answer = getattr(fake, method)(**request)
        answer.pop("ResponseMetadata", None)
        return to_wire(answer)

    async def _queues(self, action: str, request: dict[str, Any], endpoint: str) -> str:
        if action == "ListQueues":
            urls = [f"{endpoint}/000000000000/{name}" for name in self._urls]
            return json.dumps({"QueueUrls": urls})
        if action == "GetQueueUrl":
            return json.dumps({"QueueUrl": f"{endpoint}/000000000000/{request['QueueName']}"})
        name = request["QueueUrl"].rpartition("/")[2]
        request["QueueUrl"] = self._urls[name]
        if action == "ReceiveMessage":
            return await self._received(name, request)
        if action == "GetQueueAttributes" and name != self._source:
            answer = json.loads(self._called(self._sqs, action, request))
            answer["Attributes"]["ApproximateNumberOfMessages"] = "0"
            return json.dumps(answer)
        failed = self._failing(request) if "Entries" in request else []
        if request.get("Entries") == []:
            return json.dumps({"Successful": [], "Failed": failed})
        text = self._called(self._sqs, action, request)
        if action.startswith(("SendMessage", "DeleteMessage")):
            self._last = time.time()
        if action.startswith("SendMessage"):
            for entry in request.get("Entries", [request]):
                attributes = entry.get("MessageAttributes", {})
                self._books.note(entry["MessageBody"], attributes, entry.get("MessageGroupId"))
        return to_wire({**json.loads(text), "Failed": failed}) if failed else text

    def _failing(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """Take the entries that are to fail out of a batch."""
        dice, chance = self._random.random, self._conditions.failing
        failing = [entry["Id"] for entry in request["Entries"] if dice() < chance]
        request["Entries"] = [each for each in request["Entries"] if each["Id"] not in failing]
        return [{"Id": name, "SenderFault": False, "Code": "InternalError"} for name in failing]

    async def _received(self, name: str, request: dict[str, Any]) -> str:
        ends = time.time() + request.pop("WaitTimeSeconds", 0)
        if name != self._source:
            return "{}"
        if self._conditions.uneven:
            most = request["MaxNumberOfMessages"]
            request["MaxNumberOfMessages"] = self._random.randint(1, most)
        while True:
            text = self._called(self._sqs, "ReceiveMessage", request)
            if text != "{}" or time.time() >= ends:
                return text
            await asyncio.sleep(LONG_POLL_PAUSE)

    # The benches' own commands.

    def control_spent(self) -> dict[str, Any]:
        consumed = self._tables.consumed - self._consumed
        return {
            "sqs": self._calls["AmazonSQS"], "dynamodb": self._calls["DynamoDB"],
            "billed": self._billed, "read_units": consumed.read_units,
            "write_requests": consumed.write_requests, "write_units": consumed.write_units,
            "seconds": max(0.0, self._last - self._first),
        }  # fmt: skip

    def control_audit(self) -> dict[str, Any]:
        messages = [each for each in self._sqs.snapshot() if each.queue == self._source]
        numbers = (self._conditions.letters.number_in(message.body) for message in messages)
        return asdict(self._books.audit({number for number in numbers if number is not None}))

    def control_left(self) -> dict[str, int]:
        """Letters that are in the source queue, and those that no other queue has got."""
        measure = self._sqs.measures()[self._source]
        return {"left": measure.visible + measure.not_visible, "unsent": self._books.unsent}


def _entry(letters: LetterSeries, number: int) -> dict[str, Any]:
    group = letters.group(number)
    fifo = {"MessageGroupId": group, "MessageDeduplicationId": f"d{number}"} if group else {}
    return {
        "Id": str(number),
        "MessageBody": letters.body(number),
        "MessageAttributes": letters.attributes(number),
        **fifo,
    }


def to_wire(value: Any) -> str:
    """Attribute values as JSON: bytes are base64."""
    return json.dumps(value, default=lambda data: base64.b64encode(data).decode())


def from_wire(text: str | bytes) -> Any:
    """Attribute values as boto3's caller wrote them."""
    return json.loads(text, object_hook=lambda found: (
        {"B": base64.b64decode(found["B"])} if found.keys() == {"B"} else found
    ))  # fmt: skip


def _error(error: ClientError) -> str:
    response: Any = error.response
    more = {name: response[name] for name in ("Item", "CancellationReasons") if name in response}
    code, message = response["Error"]["Code"], response["Error"]["Message"]
    return to_wire({"__type": f"com.amazonaws#{code}", "message": message, **more})


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    server = StubServer(Conditions(**{**given, "letters": LetterSeries(**given["letters"])}))
    serve(server.answer, sys.stdout)
