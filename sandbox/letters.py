"""Letters that failed for known causes, put into a DLQ: something for `dlq` to look at.

Each is sent to the DLQ as a message, and its failures are recorded as the consumer library does it:
a real exception, diagnosed, in the ledger.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random
from typing import Any

from deadletter.aws.ledger import DynamoDBLedger
from deadletter.contract import LedgerKeeps, app_parameter, pipeline_parameter
from deadletter.failure.cause_index import about_letter
from deadletter.failure.classify import diagnose
from deadletter.failure.failure import Failure
from deadletter.message.letter import Letter
from deadletter.message.queue import MAX_BATCH
from sandbox.server import Sandbox, parameter

TENANTS = ("acme", "birch", "cedar", "dune")

# The default of the setting that says how long the ledger remembers.
KEEP_SECONDS = 45 * 86_400

# Failures lie this far back at most, spread evenly.
SPREAD_SECONDS = 1_800

# The emulator has one core to itself; more threads only wait for it.
THREADS = 8


class HttpRefusal(Exception):
    """What an HTTP client raises for an answer that is an error."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status} {reason} for url: https://payments.example/charge")
        self.status_code = status


def _unavailable(order: Mapping[str, Any]) -> None:
    raise HttpRefusal(503, "Service Unavailable")


def _incomplete(order: Mapping[str, Any]) -> None:
    _ = order["amount"]


def _unresolved(order: Mapping[str, Any]) -> None:
    raise socket.gaierror(-2, "Name or service not known")


def _throttled(order: Mapping[str, Any]) -> None:
    raise HttpRefusal(429, "Too Many Requests")


def _slow(order: Mapping[str, Any]) -> None:
    raise TimeoutError("the read operation timed out")


CAUSES: Sequence[Callable[[Mapping[str, Any]], None]] = (
    _unavailable,
    _incomplete,
    _unresolved,
    _throttled,
    _slow,
)
"""What a handler can meet; the first N are used."""


@dataclass(frozen=True, slots=True)
class SampleLetter:
    """The body of a message, and what its handler met."""

    body: Mapping[str, Any]
    error: Exception


def samples(letters: int, causes: int, random: Random) -> list[SampleLetter]:
    """Make letters whose causes come about in turns, the first ones more often.

    Raises ValueError if there are not so many causes.
    """
    if not 1 <= causes <= len(CAUSES):
        raise ValueError(f"{causes} causes; allowed: 1 to {len(CAUSES)}")
    weights = [1 / place for place in range(1, causes + 1)]
    made = []
    for number in range(letters):
        # Each cause at least once, however few letters there are.
        place = number if number < causes else random.choices(range(causes), weights)[0]
        order = {"id": f"order-{number}", "tenantId": random.choice(TENANTS), "type": "order"}
        body = order if CAUSES[place] is _incomplete else {**order, "amount": number}
        made.append(SampleLetter(body, _met(CAUSES[place], body)))
    return made


def _met(handle: Callable[[Mapping[str, Any]], None], body: Mapping[str, Any]) -> Exception:
    try:
        handle(body)
    except Exception as error:
        return error
    raise AssertionError(f"{handle} has to raise")


def fill(
    sandbox: Sandbox, app: str, pipeline: str, letters: Sequence[SampleLetter], now: float
) -> Iterator[int]:
    """Put *letters* into the DLQ of a pipeline of *app*; yields how many are there so far.

    Raises RuntimeError if SQS refuses one.
    """
    ssm, sqs = sandbox.client("ssm"), sandbox.client("sqs")
    url = parameter(ssm, pipeline_parameter(app, pipeline))["dlq_url"]
    table = parameter(ssm, app_parameter(app))["messages_table"]
    ledger = DynamoDBLedger(sandbox.client("dynamodb"), table, pipeline, lambda: now, KEEP_SECONDS)

    def put(chunk: Sequence[tuple[int, SampleLetter]]) -> int:
        bodies = [json.dumps(letter.body) for _, letter in chunk]
        entries = [{"Id": str(at), "MessageBody": body} for at, body in enumerate(bodies)]
        answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)
        if failed := answer.get("Failed"):
            raise RuntimeError(f"SQS refused a sample message: {failed[0]['Code']}")
        ids = {entry["Id"]: entry["MessageId"] for entry in answer["Successful"]}
        for at, (number, letter) in enumerate(chunk):
            when = now - SPREAD_SECONDS * (1 - number / len(letters))
            _record(ledger, ids[str(at)], letter, pipeline, when)
        return len(chunk)

    done = 0
    with ThreadPoolExecutor(THREADS) as threads:
        for sent in threads.map(put, _chunks(list(enumerate(letters)))):
            done += sent
            yield done


def _record(
    ledger: DynamoDBLedger, origin: str, letter: SampleLetter, pipeline: str, when: float
) -> None:
    diagnosis = diagnose(letter.error, Letter(origin, json.dumps(letter.body)), now=when)
    failure = Failure(
        at=when,
        attempt=0,
        category=diagnosis.category,
        error_type=diagnosis.error_type,
        message=diagnosis.message,
        http_status=diagnosis.http_status,
        fingerprint=diagnosis.fingerprint,
        blame=diagnosis.blame,
    )
    context = {"tenantId": letter.body["tenantId"], "messageType": letter.body["type"]}
    size = len(json.dumps(letter.body))
    about = about_letter(context, "", size, LedgerKeeps.PLAIN, pipeline)
    ledger.failed(origin, failure, about)


def _chunks(
    letters: Sequence[tuple[int, SampleLetter]],
) -> list[Sequence[tuple[int, SampleLetter]]]:
    return [letters[start : start + MAX_BATCH] for start in range(0, len(letters), MAX_BATCH)]
