"""Two commits are compared by what each schedule does: only equal calls have equal hashes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.breaker_simulator import BreakerSimulation, schedule
from tests.simulation.digests import Kind, differing, digest, expression, meaning
from tests.simulation.scheduler import Fault, Process, Scheduler

SEED = 3


class Calls:
    """A schedule of some calls, told as a simulation."""

    def __init__(self, *calls: tuple[str, dict[str, Any]], faults: tuple[Fault, ...] = ()) -> None:
        self._calls = calls
        plan = dict(enumerate(faults))
        self.scheduler = Scheduler(SEED, 0.0, lambda process, name, number: plan.get(number))

    def run(self) -> None:
        def act() -> None:
            process = Process("redriver")
            for name, options in self._calls:
                with suppress(Exception):
                    self.scheduler.call(process, "sqs", name, lambda **_: {}, options)

        self.scheduler.add(act)
        self.scheduler.run()

    def outcome(self) -> dict[str, Any]:
        return {"calls": len(self._calls)}


def calls_of(make: Callable[[], Any]) -> str:
    return digest(Kind(lambda _: make()), SEED).calls


def test_a_call_more_another_option_or_another_fault_has_another_hash() -> None:
    send, receive = ("send", {"Entries": [1, 2]}), ("receive", {})
    first = calls_of(lambda: Calls(send, receive))
    assert first == calls_of(lambda: Calls(send, receive))
    others = {
        calls_of(lambda: Calls(send)),
        calls_of(lambda: Calls(receive, send)),
        calls_of(lambda: Calls(("send", {"Entries": [1, 3]}), receive)),
        calls_of(lambda: Calls(send, receive, faults=(Fault.ERROR,))),
        calls_of(lambda: Calls(send, receive, faults=(Fault.THROTTLED,))),
    }
    assert len(others) == 5
    assert first not in others


def test_the_outcome_is_a_hash_of_its_own() -> None:
    sends = [digest(Kind(lambda _, n=n: Calls(("send", {"n": n}))), SEED) for n in (1, 2)]
    assert sends[0].outcome == sends[1].outcome
    assert sends[0].calls != sends[1].calls


def test_a_schedule_has_the_same_hash_each_time() -> None:
    breaker = Kind(schedule)
    assert digest(breaker, SEED) == digest(breaker, SEED)
    assert digest(Kind(lambda seed: BreakerSimulation(seed + 1)), SEED) != digest(breaker, SEED)


def test_the_first_seed_that_differs_is_named(tmp_path: Path) -> None:
    path = tmp_path / "hashes"
    assert not differing(path, {0: "a", 1: "b", 2: "c"})
    assert not differing(path, {1: "b"})
    assert differing(path, {0: "a", 1: "x", 2: "y"}) == "seed 1: b before, x now"
    assert differing(path, {3: "d"}) == "seed 3: nothing before, d now"


V = {":a": {"N": "1"}, ":b": {"N": "1"}, ":c": {"N": "2"}}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = :a AND y = :c", "#y = :c AND (#x = :b)"),
        (
            "(x = :a OR attribute_not_exists(x)) AND y > :c",
            "y > :c AND (attribute_not_exists(x) OR #x = :a)",
        ),
        ("a = :a AND (x = :a AND y = :c)", "a = :a AND x = :a AND y = :c"),
        ("x = :a OR y BETWEEN :a AND :c", "(y <= :c AND y >= :a) OR x = :a"),
        ("y BETWEEN :a AND :c AND x = :a", "x = :a AND y >= :b AND y <= :c"),
        ("x IN (:a, :c)", "#x IN (:c, :b)"),
        ("x.deep = :a", "#x.#deep = :b"),
        ("SET x = :a, y = :c REMOVE d ADD n :a", "ADD n :b SET #y = :c, #x = :b REMOVE d"),
        ("SET x = #x + :a", "ADD x :b"),
        ("x, y", "#y, #x"),
    ],
)
def test_an_expression_is_what_it_means(one: str, other: str) -> None:
    names = {f"#{name}": name for name in ("x", "y", "deep")}
    assert expression(one, names, V) == expression(other, names, V)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = :a", "x = :c"),
        ("x = :a", "x <> :a"),
        ("x = :a AND y = :a", "x = :a OR y = :a"),
        ("x = :a OR y = :a AND z = :a", "(x = :a OR y = :a) AND z = :a"),
        ("attribute_exists(x)", "attribute_not_exists(x)"),
        ("NOT x = :a", "x = :a"),
        ("SET x = :a", "SET x = if_not_exists(x, :a)"),
        ("SET x = #x - :a", "SET x = #x + :a"),
        ("x", "x, y"),
    ],
)
def test_another_meaning_is_another_text(one: str, other: str) -> None:
    assert expression(one, {"#x": "x"}, V) != expression(other, {"#x": "x"}, V)


def test_values_have_no_order_where_they_have_none() -> None:
    assert meaning({"b": {"SS": ["y", "x"]}, "a": {2, 1}}) == meaning(
        {"a": {1, 2}, "b": {"SS": ["x", "y"]}}
    )
    assert meaning([1, 2]) != meaning([2, 1])
