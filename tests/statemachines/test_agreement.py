"""What the executed state machine makes of a circuit is what the domain makes of it.

Canaries with random verdicts, persons who open, close and release, and the sweep: every event
that reaches the store is kept, and then told to the pure value again.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from deadletter.aws.breaker import DynamoDBBreaker
from deadletter.circuit.state import Circuit, State
from deadletter.circuit.transitions import Event, OverrideEnded, Refusal, Tripped, transition
from deadletter.outage.executions import START_SECONDS
from tests.statemachines.conftest import Account

MOST_RUNS = 12
CHANCE = 7


class Recorder:
    """Every event, when it came, and what the store made of it."""

    def __init__(self) -> None:
        self.events: list[tuple[Event, float, Circuit | Refusal]] = []

    def listen(self, monkeypatch: pytest.MonkeyPatch, account: Account) -> None:
        original = DynamoDBBreaker.apply_to
        recorder = self

        def kept(breaker: DynamoDBBreaker, circuit: Circuit, event: Event) -> Any:
            # Within one event time stands still, so that both are asked at the same moment.
            now = account.clock()
            moved = original(breaker, circuit, event)
            account.clock.now = now
            recorder.events.append((event, now, moved.refused or moved.circuit))
            return moved

        monkeypatch.setattr(DynamoDBBreaker, "apply_to", kept)


def consumer(account: Account, chances: Random) -> Callable[[dict[str, Any]], Any]:
    """Well, ill or neutral, and sometimes a person speaks while the canary is under way."""

    def answer(event: dict[str, Any]) -> Any:
        said = chances.random()
        if said < 0.1:
            account.force(chances.choice((State.OPEN, State.CLOSED)), 60 + 600 * chances.random())
        elif said < 0.15:
            account.apply(OverrideEnded())
        failed = {"batchItemFailures": [{"itemIdentifier": event["Records"][0]["messageId"]}]}
        if said < 0.4:
            return failed
        if said < 0.55:
            return {**failed, "deadletter": {"circuits": {}}}
        if said < 0.6:
            raise RuntimeError("the consumer dies")
        return {"batchItemFailures": []}

    return answer


def replayed(events: list[tuple[Event, float, Circuit | Refusal]], account: Account) -> Circuit:
    """The same events told to the value; each has to come to the same."""
    policy, chance = account.breaker.policy, Random(CHANCE)
    circuit = Circuit("orders")
    for event, now, stored in events:
        found = transition(circuit, event, policy, now, chance)
        assert agree(found, stored), event
        circuit = circuit if isinstance(found, Refusal) else found
    return circuit


def agree(first: Circuit | Refusal, other: Circuit | Refusal) -> bool:
    """Whether they are the same, but for what the store rounds times by."""
    if isinstance(first, Refusal) or isinstance(other, Refusal):
        return first is other
    return facts(first) == facts(other) and times(first) == pytest.approx(times(other), abs=0.01)


def facts(circuit: Circuit) -> object:
    permit, forced, paused = circuit.permit, circuit.forced, circuit.paused
    return (
        *(
            circuit.state,
            circuit.generation,
            circuit.outage,
            circuit.restart,
            circuit.trips,
            circuit.successes,
        ),
        permit and permit.owner,
        forced and (forced.state, forced.by),
        paused and (paused.mapping, paused.concurrency),
    )


def times(circuit: Circuit) -> list[float]:
    return [
        *(
            circuit.open_until,
            circuit.cooldown,
            circuit.opened_at,
            circuit.closed_at,
            circuit.started,
        ),
        circuit.permit.until if circuit.permit else 0,
        circuit.forced.until if circuit.forced else 0,
    ]


@pytest.mark.parametrize(
    "seed",
    [*range(3), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(3, 100))],
)
def test_random_events_come_to_the_same(
    account: Account, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chances = Random(seed)
    for _ in range(30):
        account.put(account.dlq)
    recorder = Recorder()
    recorder.listen(monkeypatch, account)
    account.answers = consumer(account, chances)
    account.run(account.apply(Tripped()).circuit)
    for _ in range(MOST_RUNS):
        circuit = account.circuit()
        if circuit.is_closed and circuit.paused is None:
            break
        account.clock.advance(START_SECONDS)
        account.sweep()
    stored = account.circuit()
    assert agree(replayed(recorder.events, account), stored)
    assert stored.is_closed
    assert account.consumer_mapping() == ("Enabled", 50)
