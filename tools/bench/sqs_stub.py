"""SQS over HTTP on this machine, slow and faulty as asked: `python -m tools.bench.sqs_stub`.

A benchmark measures the real boto3 clients against it. It speaks the AWS JSON 1.0 protocol on
one loopback port, in a process of its own, so that its CPU time and memory are not those of
what is measured. What a queue does with messages (locks, receipt handles, delays, FIFO, MD5
digests, limits) is the strict fake's business (`deadletter.testing.fakes.MemorySqs`). The stub
adds what a fake in memory does not have:

latency   each answer takes `latency` seconds times 0.5 to 1.5, drawn from a seeded random
receives  a long poll asks all hosts of a queue and returns as many messages as were asked for,
          if there are so many. A short poll asks some hosts: each visible message is seen with
          the probability `SEEN`, so that it returns ten from a full queue and fewer from a
          sparse one. With `uneven`, each receive returns at most 1 to 10 messages, drawn evenly.
faults    by action: `failing_entries` of a batch, each alone (code InternalError, no fault of
          the sender, not carried out); `failing_calls` as a whole (503, not carried out);
          `lost_answers` (carried out, then the connection is closed)
counts    requests and batch entries by action, empty receives, faults
audit     each message that was put into a queue, by its body and attributes: how often it was
          sent since, whether it is still there, whether anything of it has changed

Nothing checks signatures. The access key id of a request is the SenderId of its messages.

    with SqsStub(Behaviour(failing_entries={"SendMessageBatch": 0.02})) as stub:
        url = stub.create_queue("orders-dlq")
        stub.fill(url, letters=3000)
        client = boto3.client("sqs", endpoint_url=stub.endpoint, ...)
        ...
        print(stub.counts().requests, stub.audit(main_url))
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import re
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "lambdas"))

from botocore.exceptions import ClientError, ParamValidationError

from deadletter.message.stamp import NAME as OUR_ATTRIBUTE
from deadletter.testing.fakes import MemorySqs

SEEN = 0.75
"""The share of a queue's hosts that a short poll asks."""

LONG_POLL_PAUSE = 0.01
"""Seconds between two looks of a long poll into its queue."""

PRODUCER = "AIDAPRODUCER"
"""The SenderId of messages that `fill` puts into a queue."""

_TARGET = "AmazonSQS."
_CONTROL = "/control/"
_ACCESS_KEY = re.compile(r"Credential=([^/,\s]+)/")
_FIRST_CAPITALS = re.compile(r"(?<!^)(?=[A-Z])")
_OK, _BAD_REQUEST, _UNAVAILABLE = 200, 400, 503


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How the stub answers; rates are shares from 0 to 1, by action ("SendMessageBatch", …)."""

    latency: float = 0.010
    uneven: bool = False
    failing_entries: Mapping[str, float] = field(default_factory=dict)
    failing_calls: Mapping[str, float] = field(default_factory=dict)
    lost_answers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Counts:
    """What was asked of the stub since it began or was reset.

    requests    by action
    entries     of batch requests, and messages of receives, by action
    empty       receives without a message
    faults      entries and calls that failed by request of the benchmark, by action
    """

    requests: Mapping[str, int]
    entries: Mapping[str, int]
    empty: int
    faults: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.requests.values())


@dataclass(frozen=True, slots=True)
class Audit:
    """What became of the messages that were put into queues.

    arrived     are in the queue that was asked about, once or more often
    unfinished  are still in a queue that they were put into
    lost        are in no queue
    duplicated  sends of one message after its first: SQS accepted it more than once
    changed     messages in queues whose body nobody put there, or whose attributes are others;
                our own attribute does not count
    """

    arrived: int
    unfinished: int
    lost: int
    duplicated: int
    changed: int

    @property
    def is_clean(self) -> bool:
        return not (self.unfinished or self.lost or self.duplicated or self.changed)


class SqsStub:
    """The stub in a process of its own, for as long as the `with` block lasts."""

    def __init__(self, behaviour: Behaviour | None = None, seed: int = 1) -> None:
        self._behaviour = behaviour or Behaviour()
        self._seed = seed
        self._process: subprocess.Popen[str] | None = None
        self._port = 0

    def __enter__(self) -> SqsStub:
        options = json.dumps({"seed": self._seed, "behaviour": asdict(self._behaviour)})
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tools.bench.sqs_stub", options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert self._process.stdout is not None
        self._port = int(self._process.stdout.readline())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.communicate()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def create_queue(self, name: str, **attributes: str) -> str:
        """Create a queue; returns its URL."""
        return str(self._ask("create_queue", name=name, attributes=attributes)["url"])

    def fill(
        self, url: str, letters: int, *, body_bytes: int = 300, attributes: int = 2, groups: int = 0
    ) -> None:
        """Put so many different messages into a queue; `groups` of them in a FIFO queue."""
        self._ask(
            "fill",
            url=url,
            letters=letters,
            body_bytes=body_bytes,
            attributes=attributes,
            groups=groups,
        )

    def behave(self, behaviour: Behaviour) -> None:
        """Answer differently from now on."""
        self._ask("behave", **asdict(behaviour))

    def counts(self) -> Counts:
        return Counts(**self._ask("counts"))

    def reset_counts(self) -> None:
        self._ask("reset_counts")

    def reset(self) -> None:
        """Forget all queues, messages and counts."""
        self._ask("reset")

    def audit(self, url: str) -> Audit:
        """What became of all messages that were put into queues; `url` is where they belong."""
        return Audit(**self._ask("audit", url=url))

    def _ask(self, command: str, **options: Any) -> dict[str, Any]:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request("POST", _CONTROL + command, json.dumps(options))
            response = connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read())
            if response.status != _OK:
                raise RuntimeError(f"the stub could not {command}: {answer['message']}")
            return answer
        finally:
            connection.close()


@dataclass(slots=True)
class _Letter:
    """A message that was put into a queue, and the ids that it was sent under since."""

    attributes: str
    home: str
    sent_as: set[str] = field(default_factory=set)


class _Books:
    """The stub's own record of each message, by a digest of its body."""

    def __init__(self) -> None:
        self._letters: dict[str, _Letter] = {}

    def put(self, body: str, attributes: Mapping[str, Any], home: str) -> None:
        self._letters[_digest(body)] = _Letter(_canonical(attributes), home)

    def sent(self, body: str, message_id: str) -> None:
        letter = self._letters.get(_digest(body))
        if letter is not None:
            letter.sent_as.add(message_id)

    def audit(self, sqs: MemorySqs, where: str) -> Audit:
        unseen, arrived, unfinished = set(self._letters), set(), set()
        changed = 0
        for message in sqs.snapshot():
            digest = _digest(message.body)
            letter = self._letters.get(digest)
            if letter is None or letter.attributes != _canonical(message.attributes):
                changed += 1
                continue
            unseen.discard(digest)
            if message.queue == letter.home:
                unfinished.add(digest)
            if message.queue == where:
                arrived.add(digest)
        return Audit(
            arrived=len(arrived),
            unfinished=len(unfinished),
            lost=len(unseen),
            duplicated=sum(max(0, len(letter.sent_as) - 1) for letter in self._letters.values()),
            changed=changed,
        )


class _Server:
    """One event loop, all queues, all counts."""

    def __init__(self, behaviour: Behaviour, seed: int) -> None:
        self._ids = Random(seed)  # noqa: S311 - repeatable, not secret
        self._random = Random(seed + 1)  # noqa: S311 - repeatable, not secret
        self._behaviour = behaviour
        self._requests: Counter[str] = Counter()
        self._entries: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()
        self._reset()
        self._commands: Mapping[str, Callable[..., dict[str, Any]]] = {
            "create_queue": self._create_queue,
            "fill": self._fill,
            "behave": self._behave,
            "counts": self._counts,
            "reset_counts": self._reset_counts,
            "reset": self._reset,
            "audit": self._audit,
        }

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection, one after the other."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                headers = _headers(head)
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                path = head.split(" ", 2)[1]
                answer = await self._answer(path, headers, json.loads(body or b"{}"))
                if answer is None:
                    break
                writer.write(answer)
                await writer.drain()
        writer.close()

    async def _answer(
        self, path: str, headers: Mapping[str, str], request: dict[str, Any]
    ) -> bytes | None:
        """The response to one request; None if its answer is to be lost."""
        if path.startswith(_CONTROL):
            try:
                return _response(_OK, self._commands[path.removeprefix(_CONTROL)](**request))
            except (ClientError, KeyError, TypeError) as error:
                return _response(_BAD_REQUEST, {"message": repr(error)})
        action = headers.get("x-amz-target", "").removeprefix(_TARGET)
        key = _ACCESS_KEY.search(headers.get("authorization", ""))
        sqs = self._as_sender(key.group(1) if key else PRODUCER)
        self._requests[action] += 1
        await self._travel()
        if self._happens(self._behaviour.failing_calls, action):
            return _error(_UNAVAILABLE, "ServiceUnavailable", "The stub was told to fail.")
        is_lost = self._happens(self._behaviour.lost_answers, action)
        try:
            answer = await self._act(action, request, sqs)
        except ClientError as error:
            return _client_error(error)
        except (ParamValidationError, TypeError, AttributeError) as error:
            return _error(_BAD_REQUEST, "InvalidParameterValue", repr(error))
        await self._travel()
        return None if is_lost else _response(_OK, answer)

    async def _travel(self) -> None:
        """Half of a request's latency."""
        await asyncio.sleep(self._behaviour.latency / 2 * (0.5 + self._random.random()))

    def _happens(self, rates: Mapping[str, float], action: str) -> bool:
        happens = self._random.random() < rates.get(action, 0.0)
        self._faults[action] += happens
        return happens

    def _as_sender(self, sender: str) -> MemorySqs:
        if sender not in self._senders:
            self._senders[sender] = self._sqs.as_sender(f"{sender}:bench")
        return self._senders[sender]

    async def _act(self, action: str, request: dict[str, Any], sqs: MemorySqs) -> dict[str, Any]:
        if action == "ReceiveMessage":
            return await self._receive(request, sqs)
        call = getattr(sqs, _FIRST_CAPITALS.sub("_", action).lower())
        if "Entries" not in request:
            if "MessageBody" in request:
                request["MessageAttributes"] = _from_wire(request.get("MessageAttributes", {}))
            answer = call(**request)
            if "MessageBody" in request:
                self._books.sent(request["MessageBody"], answer["MessageId"])
            return _to_wire(answer)
        return self._batch(action, request, call)

    def _batch(
        self, action: str, request: dict[str, Any], call: Callable[..., dict[str, Any]]
    ) -> dict[str, Any]:
        """Carry out the entries that are not to fail."""
        entries: list[dict[str, Any]] = request.pop("Entries")
        self._entries[action] += len(entries)
        for entry in entries:
            if "MessageAttributes" in entry:
                entry["MessageAttributes"] = _from_wire(entry["MessageAttributes"])
        good = [
            entry for entry in entries if not self._happens(self._behaviour.failing_entries, action)
        ]
        answer = call(Entries=good, **request) if good or not entries else {}
        bodies = {entry["Id"]: entry["MessageBody"] for entry in good if "MessageBody" in entry}
        for success in answer.get("Successful", []):
            if success["Id"] in bodies:
                self._books.sent(bodies[success["Id"]], success["MessageId"])
        carried_out = {entry["Id"] for entry in good}
        failed = [
            {
                "Id": entry["Id"],
                "SenderFault": False,
                "Code": "InternalError",
                "Message": "The stub was told to fail.",
            }
            for entry in entries
            if entry["Id"] not in carried_out
        ]
        if failed:
            answer["Failed"] = [*answer.get("Failed", []), *failed]
        return _to_wire(answer)

    async def _receive(self, request: dict[str, Any], sqs: MemorySqs) -> dict[str, Any]:
        wanted = int(request.pop("MaxNumberOfMessages", 1))
        ends = time.monotonic() + float(request.pop("WaitTimeSeconds", 0))
        is_long = ends > time.monotonic()
        if self._behaviour.uneven:
            wanted = self._random.randint(1, wanted)
        if not is_long:
            wanted = self._seen(sqs, request["QueueUrl"], wanted)
        answer: dict[str, Any] = {}
        while wanted:
            answer = sqs.receive_message(MaxNumberOfMessages=wanted, WaitTimeSeconds=0, **request)
            if answer.get("Messages") or time.monotonic() >= ends:
                break
            await asyncio.sleep(LONG_POLL_PAUSE)
        messages = answer.get("Messages", [])
        self._entries["ReceiveMessage"] += len(messages)
        self._empty += not messages
        return _to_wire(answer)

    def _seen(self, sqs: MemorySqs, url: str, wanted: int) -> int:
        """How many of the wanted messages a short poll sees."""
        attributes = sqs.get_queue_attributes(
            QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"]
        )["Attributes"]
        # More than enough for ten: the draw of each single message would change nothing.
        visible = min(int(attributes["ApproximateNumberOfMessages"]), 100)
        return min(wanted, sum(self._random.random() < SEEN for _ in range(visible)))

    # The benchmark's own commands.

    def _reset(self) -> dict[str, Any]:
        self._sqs = MemorySqs(
            time.time, lambda: str(uuid.UUID(int=self._ids.getrandbits(128), version=4))
        )
        self._senders: dict[str, MemorySqs] = {}
        self._books = _Books()
        self._filled = 0
        return self._reset_counts()

    def _create_queue(self, name: str, attributes: Mapping[str, str]) -> dict[str, Any]:
        return {"url": self._sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]}

    def _fill(
        self, url: str, letters: int, body_bytes: int, attributes: int, groups: int
    ) -> dict[str, Any]:
        sqs = self._as_sender(PRODUCER)
        for _ in range(letters):
            self._filled += 1
            order = f"{self._filled:08d}"
            body = json.dumps({"order": order, "tenantId": f"t{self._filled % 7}", "text": "ü"})
            body = body[:-1] + ', "pad": "' + "x" * max(0, body_bytes - len(body) - 10) + '"}'
            sent: dict[str, Any] = {
                f"a{number}": {"DataType": "String", "StringValue": f"{order}.{number}"}
                for number in range(attributes)
            }
            if attributes:
                sent["bytes"] = {"DataType": "Binary.md5", "BinaryValue": order.encode()}
            fifo: dict[str, Any] = (
                {
                    "MessageGroupId": f"g{self._filled % groups}",
                    "MessageDeduplicationId": order,
                }
                if groups
                else {}
            )
            sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=sent, **fifo)
            self._books.put(body, sent, url.rpartition("/")[2])
        return {}

    def _behave(self, **options: Any) -> dict[str, Any]:
        self._behaviour = Behaviour(**options)
        return {}

    def _counts(self) -> dict[str, Any]:
        return asdict(
            Counts(dict(self._requests), dict(self._entries), self._empty, dict(+self._faults))
        )

    def _reset_counts(self) -> dict[str, Any]:
        for counter in (self._requests, self._entries, self._faults):
            counter.clear()
        self._empty = 0
        return {}

    def _audit(self, url: str) -> dict[str, Any]:
        return asdict(self._books.audit(self._sqs, url.rpartition("/")[2]))


def _headers(head: str) -> dict[str, str]:
    """The headers of a request by their names in small letters."""
    pairs = (line.partition(":") for line in head.split("\r\n")[1:] if line)
    return {name.lower(): value.strip() for name, _, value in pairs}


def _response(status: int, answer: Mapping[str, Any], *headers: str) -> bytes:
    body = json.dumps(answer).encode()
    head = (
        f"HTTP/1.1 {status} {'OK' if status == _OK else 'Error'}",
        "Content-Type: application/x-amz-json-1.0",
        f"Content-Length: {len(body)}",
        *headers,
    )
    return "\r\n".join((*head, "", "")).encode() + body


def _error(status: int, shape: str, message: str, code: str | None = None) -> bytes:
    side = "Sender" if status < _UNAVAILABLE else "Receiver"
    return _response(
        status,
        {"__type": f"com.amazonaws.sqs#{shape}", "message": message},
        f"x-amzn-query-error: {code or shape};{side}",
    )


def _client_error(error: ClientError) -> bytes:
    """The error of the fake as SQS sends it: a shape in the body, the older code in a header."""
    details: Any = error.response["Error"]
    status = error.response["ResponseMetadata"]["HTTPStatusCode"]
    code = details["Code"]
    return _error(status, details.get("QueryErrorCode", code), details["Message"], code)


def _from_wire(attributes: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Message attributes as boto3's caller wrote them: bytes, where JSON has base64."""
    return {
        name: {
            key: base64.b64decode(item) if key == "BinaryValue" else item
            for key, item in value.items()
        }
        for name, value in attributes.items()
    }


def _to_wire(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The fake's answer as JSON-ready data."""
    wire = {key: value for key, value in answer.items() if key != "ResponseMetadata"}
    for message in wire.get("Messages", []):
        for value in message.get("MessageAttributes", {}).values():
            if "BinaryValue" in value:
                value["BinaryValue"] = base64.b64encode(value["BinaryValue"]).decode()
    return wire


def _digest(body: str) -> str:
    return hashlib.blake2b(body.encode(), digest_size=16).hexdigest()


def _canonical(attributes: Mapping[str, Mapping[str, Any]]) -> str:
    """Attributes as text that is equal for equal attributes; without our own."""
    return repr(
        sorted(
            (name, sorted(value.items()))
            for name, value in attributes.items()
            if name != OUR_ATTRIBUTE
        )
    )


async def _serve(options: Mapping[str, Any]) -> None:
    server = _Server(Behaviour(**options["behaviour"]), options["seed"])
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=2**16)
    print(listener.sockets[0].getsockname()[1], flush=True)
    # The stub ends with the process that started it: its input is closed then.
    await asyncio.to_thread(sys.stdin.read)


def main(arguments: Sequence[str]) -> int:
    """Serve until the standard input is closed; the port is on the first line of the output."""
    options = json.loads(arguments[0]) if arguments else {}
    asyncio.run(_serve({"seed": 1, "behaviour": {}, **options}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
