"""What it costs to empty the waiting room: `python -m tools.bench.waiting_room [letters]`.

The production redriver puts every letter of a queue into the waiting room, and its next runs bring
them back to the main queue: production boto3 clients for SQS, four workers, no pace. SQS is the
stub (`tools.bench.sqs_stub`), DynamoDB and S3 are the strict fakes in memory, each call of which
takes 10 ms. Every call of the runs that empty the room is counted, the router's reads among them,
and each message is audited at the end.

CPU is that of this process without the router and the fakes, but with boto3 for SQS.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from deadletter.aws.wiring.redrive import redriver_for
from deadletter.contract import Metric
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.routing.decision import DUE, Hold
from deadletter.routing.router import Verdict
from tools.bench.redriver import RUN_SECONDS, UNPACED, Bench
from tools.bench.sqs_stub import Audit, Behaviour, SqsStub

LETTERS = 3_000
MOST_RUNS = 5
LATENCY = 0.010
MOST_CALLS = 0.40
FEWEST_A_SECOND = 1_000


class Delayed:
    """A fake client each call of which takes some time, in which other threads go on."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        act = getattr(self._client, name)

        def call(**request: Any) -> Any:
            time.sleep(LATENCY)
            return act(**request)

        return call


class HoldAll:
    """Sends every letter to the lane of delays; they are due at once."""

    def verdicts(self, letters: Sequence[ReceivedLetter], *, served: bool) -> dict[str, Verdict]:
        del served
        ids = [received.letter.message_id for received in letters]
        return {id_: Verdict(id_, Hold(DUE, 1.0, "wait"), Stamp(id_)) for id_ in ids}


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomCosts:
    """What it cost to empty the room; `calls` are those of SQS and DynamoDB a letter."""

    letters: int
    runs: int
    seconds: float
    calls: float
    cpu_ms: float
    sqs: dict[str, int]
    dynamodb: dict[str, int]
    router_reads: dict[str, int]
    s3: dict[str, int]
    audit: Audit

    @property
    def a_second(self) -> float:
        return self.letters / self.seconds


class RoomBench(Bench):
    """A pipeline whose letters all wait."""

    def __init__(self, stub: SqsStub, *, fifo: bool = False) -> None:
        super().__init__(stub, replace(UNPACED, fifo=fifo))
        # Every letter is put in without these pauses.
        self._quick = self._clients
        self._slow = replace(
            self._clients,
            dynamodb=_delayed(self._clients.dynamodb),
            journal=_delayed(self._clients.journal),
            s3=_delayed(self._clients.s3),
        )
        self._bodies: Any = self._clients.s3

    def fill(self, letters: int, **options: Any) -> None:
        self._stub.fill(self.dlq, letters, **options)
        redriver = redriver_for(self._pipeline, self._resources, self._quick, self._world)
        report = redriver.take_all(time.time() + 10 * RUN_SECONDS, HoldAll())
        assert report.counts.get(Metric.HELD) == letters, report

    def empty(self, letters: int) -> RoomCosts:
        self._clients = self._slow
        self._stub.reset_counts()
        for counted in (self._dynamodb, self._router_dynamodb, self._bodies):
            counted.calls.clear()
        began, cpu_before, fakes_before = time.monotonic(), time.process_time(), self._in_fakes
        runs = moved = 0
        counts: Counter[str] = Counter()
        while runs < MOST_RUNS and moved < letters:
            report = self._run(RUN_SECONDS)
            counts.update(report.counts)
            moved, runs = counts[Metric.REDRIVEN], runs + 1
        seconds = time.monotonic() - began
        cpu = time.process_time() - cpu_before - (self._in_fakes - fakes_before)
        sqs = self._stub.counts()
        calls = sqs.total + self._dynamodb.calls.total() + self._router_dynamodb.calls.total()
        return RoomCosts(
            letters=letters,
            runs=runs,
            seconds=seconds,
            calls=calls / letters,
            cpu_ms=cpu * 1e3 / letters,
            sqs=dict(sqs.requests),
            dynamodb=dict(self._dynamodb.calls),
            router_reads=dict(self._router_dynamodb.calls),
            s3=dict(self._bodies.calls),
            audit=self._stub.audit(self.main),
        )


def _delayed(client: Any) -> Any:
    return Delayed(client)


def measure(letters: int, behaviour: Behaviour | None = None) -> RoomCosts:
    """Fill the room and empty it, on a fresh stub and fresh tables."""
    with SqsStub(behaviour) as stub:
        bench = RoomBench(stub)
        bench.fill(letters)
        return bench.empty(letters)


def wrong_with(costs: RoomCosts) -> list[str]:
    """What is wrong with the figures that do not depend on the machine."""
    wrong = []
    if not costs.audit.is_clean or costs.audit.arrived != costs.letters:
        wrong.append(f"audit: {costs.audit}")
    if costs.calls > MOST_CALLS:
        wrong.append(f"{costs.calls:.3f} calls a letter, at most {MOST_CALLS}")
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.waiting_room")
    parser.add_argument("letters", nargs="?", type=int, default=LETTERS)
    costs = measure(parser.parse_args(arguments).letters)
    print(f"waiting room, {costs.letters} letters out in {costs.runs} run(s)")
    print(f"  {costs.a_second:8.0f} letters/s (goal {FEWEST_A_SECOND})")
    print(f"  {costs.calls:8.3f} SQS and DynamoDB calls a letter (goal {MOST_CALLS})")
    print(f"  {costs.cpu_ms:8.2f} ms of CPU a letter")
    for place in ("sqs", "dynamodb", "router_reads", "s3"):
        print(f"  {place}: {getattr(costs, place)}")
    wrong = wrong_with(costs)
    for what in wrong:
        print(f"WRONG: {what}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
