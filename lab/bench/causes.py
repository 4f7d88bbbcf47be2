"""How long `dlq groups` takes: `python -m lab.bench.causes [letters ...]`.

Fresh processes, against the strict fakes over HTTP in a process of their own, where an index of
causes has so many letters of three causes: each answer takes 10 ms, and 100 ms more for each
megabyte that was read. The answer is checked: it names all three causes, and all letters unless it
says "at least".
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "lambdas"))

from deadletter.aws.ledger import DynamoDBLedger
from deadletter.contract import ROWS_KEPT
from deadletter.failure.failure import Category, Failure
from deadletter.failure.ledger import AboutLetter
from deadletter.testing.fakes import MemoryDynamoDB
from lab.bench.server import ROOT, serve, started
from lab.bench.stub import from_wire, to_wire
from lab.bench.timing import compiled, process_cost
from tests.tables import CIRCUITS, LETTERS, create_tables

TURNS = 3
SERVE = "--serve"
SIZES = (4_000, 100_000)

MOST_SECONDS = 5.0
"""Seconds that `dlq groups` may take."""

LATENCY = 0.010
SECONDS_A_UNIT = 0.100 / 128
"""Seconds that a read unit takes: a megabyte has 128 of those that are not consistent."""

CAUSE_OF = (("f0000000000000a1", "HTTPError", 503), ("f0000000000000b2", "KeyError", None),
            ("f0000000000000c3", "Timeout", None))  # fmt: skip
"""Fingerprint, error and status of each cause: of eight letters five, two and one have it."""

QUEUE = "https://sqs.eu-west-1.amazonaws.com/111122223333/orders"

DEPTHS = [f"ApproximateNumberOfMessages{end}" for end in ("", "NotVisible", "Delayed")]

CALLER = """<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<GetCallerIdentityResult><Arn>arn:aws:iam::111122223333:user/ann</Arn><UserId>A</UserId>
<Account>111122223333</Account></GetCallerIdentityResult></GetCallerIdentityResponse>"""


def parameters() -> list[dict[str, str]]:
    """The app as its stacks describe it."""
    app = {
        "name": "deadletter",
        "letters_table": LETTERS,
        "circuits_table": CIRCUITS,
        "audit_days": 400,
        **dict.fromkeys(("rules_table", "audit_table", "endpoints_table"), "none"),
        **dict.fromkeys(("letters_bucket", "alarm_topic"), "none"),
    }
    pipeline = {
        "name": "orders",
        "mode": "enforce",
        "fifo": False,
        **dict.fromkeys(("main_url", "dlq_url"), QUEUE),
        **dict.fromkeys(("redrive_function", "router_function", "replay_machine"), "none"),
        **{name: {} for name in ("parking", "dedicated", "terms", "pipeline", "stacks")},
        **{name: [] for name in ("keys", "trusted_senders")},
    }
    described = {"/deadletter/app": app, "/deadletter/pipelines/orders": pipeline}
    return [{"Name": name, "Value": json.dumps(data)} for name, data in described.items()]


class AccountOfCauses:
    """As much of AWS as `dlq groups` asks, with an index of so many letters."""

    def __init__(self, letters: int) -> None:
        self._tables = MemoryDynamoDB(time.time)
        create_tables(self._tables)
        client: Any = self._tables
        ledger = DynamoDBLedger(client, LETTERS, "orders", time.time, ROWS_KEPT)
        random, now = Random(1), time.time()  # noqa: S311 - repeatable, not secret
        for number in range(letters):
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
            tenant = f"tenant-{number % 200}"
            about = AboutLetter({"tenantId": tenant}, f"{tenant}/default", 1_800)
            ledger.failed(f"{random.getrandbits(128):032x}", failure, about)

    async def answer(self, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        action = headers.get("x-amz-target", "").rpartition(".")[2]
        before = self._tables.consumed
        text = self._answered(action, body)
        read = (self._tables.consumed - before).read_units
        await asyncio.sleep(LATENCY + read * SECONDS_A_UNIT)
        return 200, text

    def _answered(self, action: str, body: bytes) -> str:
        if action == "Query":
            return to_wire(self._tables.query(**from_wire(body)))
        if action == "BatchGetItem":
            return to_wire(self._tables.batch_get_item(**from_wire(body)))
        depths = dict.fromkeys(DEPTHS, "0")
        answers: Mapping[str, Any] = {
            "GetParametersByPath": {"Parameters": parameters()},
            "GetQueueAttributes": {"Attributes": {**depths, "MessageRetentionPeriod": "1209600"}},
        }
        return json.dumps(answers[action]) if action else CALLER


def is_quick(letters: int, environment: Mapping[str, str]) -> bool:
    """Prints what grouping takes; True if that is quick enough."""
    groups = ("-m", "console", "groups")
    with started("lab.bench.causes", SERVE, str(letters)) as (_, address):
        variables = {**environment, "AWS_ENDPOINT_URL": address}
        done = subprocess.run(
            [sys.executable, *groups],
            cwd=ROOT, env=variables, capture_output=True, text=True, check=True,
        )  # fmt: skip
        said = done.stdout.splitlines()[0]
        assert "3 causes" in said, said
        assert said.startswith((f"{letters:,} messages, ", "At least ")), said
        took, cpu = process_cost(groups, variables, TURNS)
    quick = took <= MOST_SECONDS * 1_000
    verdict = "ok" if quick else f"TOO SLOW, {MOST_SECONDS:g} s are allowed"
    print(f"{took:7.0f} ms in all, {cpu:5.0f} ms CPU: dlq groups, {verdict}: {said}", flush=True)
    return quick


def main(sizes: Sequence[int]) -> int:
    """Print the figures of each size; 1 if grouping takes too long."""
    with compiled() as environment:
        quick = [is_quick(letters, environment) for letters in sizes]
    return 0 if all(quick) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == [SERVE]:
        serve(AccountOfCauses(int(sys.argv[2])).answer, sys.stdout)
    else:
        sys.exit(main([int(text) for text in sys.argv[1:]] or SIZES))
