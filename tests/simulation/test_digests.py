"""Two commits are compared by what each schedule does: only equal calls have equal hashes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from deadletter.aws.table import (
    OrElse,
    above,
    absent,
    at_least,
    at_most,
    between,
    differs,
    equals,
    one_of,
    present,
)
from tests.simulation.breaker_simulator import BreakerSimulation, schedule
from tests.simulation.digests import Kind, differing, digest, meaning
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


X, Y, Z = equals("x", 1), above("y", 2), equals("z", 1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"When": X & Y}, {"When": Y & X}),
        ({"When": (X | absent("x")) & Y}, {"When": Y & (absent("x") | X)}),
        ({"When": Z & (X & Y)}, {"When": Z & X & Y}),
        ({"Keep": between("y", 1, 2) & X}, {"Keep": X & at_least("y", 1) & at_most("y", 2)}),
        ({"Keep": X | between("y", 1, 2)}, {"Keep": at_most("y", 2) & at_least("y", 1) | X}),
        ({"When": one_of("x", (1, 2))}, {"When": one_of("x", (2, 1))}),
        ({"Sets": {"x": 1, "y": 2}}, {"Sets": {"y": 2, "x": 1}}),
        ({"Sets": {"x": 1}, "Removes": ["d", "e"]}, {"Removes": ["e", "d"], "Sets": {"x": 1}}),
        ({"Only": ["x", "y"]}, {"Only": ["y", "x"]}),
    ],
)
def test_a_request_is_what_it_means(one: Any, other: Any) -> None:
    assert meaning(one) == meaning(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"When": X}, {"When": equals("x", 2)}),
        ({"When": X}, {"When": differs("x", 1)}),
        ({"When": X}, {"Keep": X}),
        ({"When": X & Y}, {"When": X | Y}),
        ({"When": X | Y & Z}, {"When": (X | Y) & Z}),
        ({"When": present("x")}, {"When": absent("x")}),
        ({"When": ~X}, {"When": X}),
        ({"Sets": {"x": 1}}, {"Sets": {"x": OrElse("x", 1)}}),
        ({"Sets": {"x": 1}}, {"Adds": {"x": 1}}),
        ({"Only": ["x"]}, {"Only": ["x", "y"]}),
    ],
)
def test_another_meaning_is_another_text(one: Any, other: Any) -> None:
    assert meaning(one) != meaning(other)


def test_values_have_no_order_where_they_have_none() -> None:
    assert meaning({"b": {"SS": ["y", "x"]}, "a": {2, 1}}) == meaning(
        {"a": {1, 2}, "b": {"SS": ["x", "y"]}}
    )
    assert meaning([1, 2]) != meaning([2, 1])
