"""A worker that ends at any call leaves each letter where the next worker finds it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from deadletter.aws.journal import DynamoDBJournal
from deadletter.contract import ROWS_KEPT
from deadletter.redrive.journal import GRACE
from deadletter.replay.plan import ReplayPlan
from deadletter.replay.ticket import ReplayOutcome
from deadletter.signals.figures import Figure
from deadletter.testing.fakes import client_error
from tests.replay.bench import ReplayBench
from tests.tables import LETTERS

KEYS = ["a", "a", "b", "", "", ""]
PLAN = replace(ReplayPlan(pipeline="orders", retry_after=0.0), ordered=True)

CRASH_BEFORE, CRASH_AFTER, REFUSED, NO_ANSWER = "before", "after", "refused", "no answer"


class Crash(BaseException):
    """The process ends here."""


@dataclass
class Fault:
    """What happens at the call number `at` while a worker works."""

    kind: str = ""
    at: int = -1
    calls: int = 0
    is_armed: bool = False


class Faulty:
    """A client whose calls a fault may hit."""

    def __init__(self, client: Any, fault: Fault) -> None:
        self._client = client
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        method, fault = getattr(self._client, name), self._fault
        is_call = name.endswith(("item", "items", "_batch")) or name in ("query", "receive_message")
        if not is_call or name == "items":
            return method

        def call(*arguments: Any, **options: Any) -> Any:
            if not fault.is_armed:
                return method(*arguments, **options)
            fault.calls += 1
            if fault.calls != fault.at:
                return method(*arguments, **options)
            if fault.kind == CRASH_BEFORE:
                raise Crash
            if fault.kind == REFUSED:
                raise client_error(name, "ThrottlingException", "slow down", status=400)
            answer = method(*arguments, **options)
            if fault.kind == CRASH_AFTER:
                raise Crash
            if fault.kind == NO_ANSWER:
                raise ReadTimeoutError(endpoint_url="https://aws")
            return answer

        return call


def bench_with(fault: Fault) -> ReplayBench:
    bench = ReplayBench(KEYS, PLAN)
    bench.dynamodb = bench.stage.dynamodb = Faulty(bench.stage.dynamodb, fault)  # type: ignore[assignment]
    bench.stage.redriver_sqs = Faulty(bench.stage.redriver_sqs, fault)  # type: ignore[assignment]
    return bench


def steps(bench: ReplayBench, fault: Fault) -> list[int]:
    """Work until all is done, with the fault in the first rounds; returns what was delivered."""
    delivered: list[int] = []
    for turn in range(40):
        fault.is_armed = turn < 2
        try:
            report = bench.work(8)
            done = report.done
        except Crash:
            done = False
        fault.is_armed = False
        # Letter 2 dies once.
        fails = {2} - set(delivered)
        delivered += bench.consume(partial(_is_not_in, fails))
        bench.bring_back()
        bench.clock.advance(31)
        if done:
            return delivered
    raise AssertionError(f"the run does not end: {bench.outcomes()}")


def _is_not_in(numbers: set[int], number: int) -> bool:
    return number not in numbers


def calls_of_a_run() -> int:
    fault = Fault()
    steps(bench_with(fault), fault)
    return fault.calls


CALLS = calls_of_a_run()


@pytest.mark.parametrize("kind", [CRASH_BEFORE, CRASH_AFTER, REFUSED, NO_ANSWER])
@pytest.mark.parametrize(
    "every",
    [7, pytest.param(1, marks=pytest.mark.nightly)],
)
def test_no_letter_is_lost_doubled_or_overtaken_wherever_a_worker_ends(
    kind: str, every: int
) -> None:
    assert CALLS > 40
    for at in range(1, CALLS + 1, every):
        fault = Fault(kind, at)
        bench = bench_with(fault)
        delivered = steps(bench, fault)
        where = f"{kind} at call {at}"
        assert bench.in_lane() == [], where
        reconciled = bench.reconcile()
        assert reconciled.unaccounted == 0, where
        assert set(bench.outcomes().values()) <= {
            ReplayOutcome.RECOVERED,
            ReplayOutcome.DUPLICATE,
        }, where
        assert set(delivered) == set(range(len(KEYS))), where
        assert delivered.index(0) < delivered.index(1), where
        # Letter 2 has two tries. Everything else goes out twice only after a counted doubt.
        doubles = sum(Counter(delivered).values()) - len(KEYS) - 1
        doubts = bench.tally.count_of(Figure.POSSIBLE_DUPLICATE)
        assert doubles <= doubts, where
        if kind in (CRASH_BEFORE, REFUSED):
            assert doubles == 0 or doubts, where


def test_a_worker_that_claims_a_shard_once_more_gives_no_intent_an_earlier_name() -> None:
    bench = ReplayBench(["a"])
    [name] = bench.names
    claim = bench.claim(name.shard)
    names = set()
    for _ in range(2):
        claimed = claim.take([name.copy], bench.clock())
        assert claimed is not None
        [intent] = DynamoDBJournal(bench.dynamodb, LETTERS, "orders", ROWS_KEPT).read()
        names.add((intent.owner, intent.sequence))
        claim.hold(claimed)
        claim.close()
    assert len(names) == 2


def test_the_shard_of_a_killed_worker_is_free_once_its_intent_and_the_grace_have_ended() -> None:
    bench = ReplayBench(["a"])
    [name] = bench.names
    claimed = bench.claim(name.shard).take([name.copy], bench.clock())
    assert claimed is not None
    bench.clock.now = claimed.expires + GRACE - 1
    assert bench.claim(name.shard).take([name.copy], bench.clock()) is None
    bench.clock.now = claimed.expires + GRACE
    assert bench.claim(name.shard).take([name.copy], bench.clock()) is not None
