"""What one call costs by transport: `python -m lab.bench.calls`.

CPU time of this process per call: by boto3, and by the thin client that stands for it, against the
stub without latency. Below it the same request and answer without client: by urllib3, by
http.client, and by http.client with our own reading of the answer (`deadletter.aws.wire`). The ways
take turns; a figure is the median of the turns.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import Any

import boto3
import urllib3
from botocore.compat import get_current_datetime
from botocore.config import Config
from botocore.httpsession import where

sys.path.insert(0, str(Path(__file__).parents[2] / "lambdas"))

from deadletter.aws.dynamodb import plain
from deadletter.aws.wire.connections import Connections
from deadletter.aws.wire.thin_client import ThinClient
from deadletter.contract import Partition
from lab.bench.lean_queue import LetterSeries
from lab.bench.lean_stub import MAIN, PIPELINE, SOURCE, Conditions, LeanStub

TURNS = 5
CALLS = 40
ROWS = 100
BATCH = 10

Act = Callable[[], Any]


def microseconds(act: Act, calls: int = CALLS) -> float:
    """CPU time of one call."""
    began = time.process_time()
    for _ in range(calls):
        act()
    return (time.process_time() - began) / calls * 1e6


def medians(acts: Mapping[str, Act]) -> dict[str, float]:
    """CPU time of one call of each, which take turns."""
    for act in acts.values():
        microseconds(act, 3)
    turns = [{name: microseconds(act) for name, act in acts.items()} for _ in range(TURNS)]
    return {name: median(turn[name] for turn in turns) for name in acts}


def calls(stub: LeanStub, letters: LetterSeries) -> dict[str, Act]:
    """Each hot call by each transport, ready to be made again and again."""
    session = boto3.Session("AKID", "secret", region_name="us-east-1")
    config = Config(retries={"total_max_attempts": 1})
    made: dict[str, Act] = {}
    for transport in ("boto3", "thin"):
        sqs, dynamodb = (
            session.client(service, endpoint_url=stub.endpoint, config=config)
            for service in ("sqs", "dynamodb")
        )
        if transport == "thin":
            sqs, dynamodb = (_thin(client, session) for client in (sqs, dynamodb))
        for name, act in _calls_of(sqs, dynamodb, stub, letters).items():
            made[f"{name}, {transport}"] = act
    return dict(sorted(made.items()))


def _thin(client: Any, session: boto3.Session) -> Any:
    credentials = session.get_credentials()
    return ThinClient(client, credentials, get_current_datetime, lambda _: None)


def _calls_of(sqs: Any, dynamodb: Any, stub: LeanStub, letters: LetterSeries) -> dict[str, Act]:
    source, main = stub.url(SOURCE), stub.url(MAIN)
    entries = [{"Id": str(at), "MessageBody": letters.body(at)} for at in range(BATCH)]
    keys = [
        {"pk": {"S": Partition.LEDGER.of(PIPELINE, letters.id(at))}, "sk": {"S": "ledger"}}
        for at in range(ROWS)
    ]
    rows = {"letters": {"Keys": keys, "ConsistentRead": True}}
    receive = {
        "QueueUrl": source,
        "MaxNumberOfMessages": BATCH,
        "VisibilityTimeout": 600,
        "MessageSystemAttributeNames": ["All"],
        "MessageAttributeNames": ["All"],
    }
    assert len(dynamodb.batch_get_item(RequestItems=rows)["Responses"]["letters"]) == ROWS

    def receive_and_delete() -> None:
        messages = sqs.receive_message(**receive)["Messages"]
        handles = [
            {"Id": str(at), "ReceiptHandle": message["ReceiptHandle"]}
            for at, message in enumerate(messages)
        ]
        sqs.delete_message_batch(QueueUrl=source, Entries=handles)

    return {
        "receive and delete 10": receive_and_delete,
        "send 10": lambda: sqs.send_message_batch(QueueUrl=main, Entries=entries),
        "read 100 rows": lambda: [
            plain(item)
            for item in dynamodb.batch_get_item(RequestItems=rows)["Responses"]["letters"]
        ],
    }


def exchanges(stub: LeanStub, letters: LetterSeries) -> dict[str, Act]:
    """One send of ten letters over HTTP, by what carries it."""
    entries = [{"Id": str(at), "MessageBody": letters.body(at)} for at in range(BATCH)]
    body = json.dumps({"QueueUrl": stub.url(MAIN), "Entries": entries}).encode()
    host = stub.endpoint.removeprefix("http://")
    headers = {
        "x-amz-target": "AmazonSQS.SendMessageBatch",
        "content-type": "application/x-amz-json-1.0",
        "x-amz-date": "20261123T193000Z",
        "authorization": "AWS4-HMAC-SHA256 Credential=AKID/20261123/us-east-1/sqs/aws4_request",
    }
    pool: Any = urllib3.connection_from_url(stub.endpoint)
    plain_http = HTTPConnection(host)
    ours = Connections(
        stub.endpoint,
        connect_timeout=5,
        read_timeout=5,
        idle=1,
        bundle=where(),
        now=get_current_datetime,
    )
    known = {"host": host, "content-length": str(len(body)), **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in known.items())
    request = f"POST / HTTP/1.1\r\n{lines}\r\n".encode() + body

    def by_http_client() -> bytes:
        plain_http.request("POST", "/", body, headers)
        return plain_http.getresponse().read()

    return {
        "exchange, urllib3": lambda: pool.urlopen("POST", "/", body, headers, retries=False).data,
        "exchange, http.client": by_http_client,
        "exchange, own reading": lambda: ours.ask(request).body,
    }


def main() -> int:
    letters = LetterSeries(number=2 * (TURNS * CALLS + 3) * BATCH)
    with LeanStub(Conditions(letters=letters, latency=0.0)) as stub:
        figures = medians(calls(stub, letters)) | medians(exchanges(stub, letters))
    print("µs of CPU time a call; medians of", TURNS, "turns of", CALLS)
    for name, figure in figures.items():
        print(f"{name:<30}{figure:>8.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
