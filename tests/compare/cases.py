"""The cases of docs/compare.md: each is played with both systems, and says what came of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from deadletter.contract import NOTHING
from deadletter.failure.signals import Permanent
from tests.compare.systems import Deadletter, Killed, Powertools, System

ORDER = {"orderId": "7", "amount": 1}
DAY = 86_400.0

Play = Callable[[System], str]


@dataclass(frozen=True)
class Case:
    """One case. `remark` says what the reader should know of the difference."""

    title: str
    play: Play
    remark: str
    powertools: Callable[[], System] = Powertools
    deadletter: Callable[[], System] = Deadletter


def effects(system: System) -> str:
    """What happened, in words."""
    count = len(system.effects)
    return f"{count} effect{'' if count == 1 else 's'}, {system.end}"


def sent_twice(system: System) -> str:
    system.send(ORDER)
    system.run()
    system.send(ORDER)
    system.run()
    return effects(system)


def redriven(system: System) -> str:
    """Processed, but never deleted; it dies, and comes back from the DLQ in a new message."""
    origin = system.send(ORDER)
    system.run()
    system.redrive(ORDER, origin)
    system.run()
    return effects(system)


def redriven_after_two_days(system: System) -> str:
    origin = system.send(ORDER)
    system.run()
    system.clock.advance(2 * DAY)
    system.redrive(ORDER, origin)
    system.run()
    return effects(system)


def killed_before_its_effect(system: System) -> str:
    def die(_: Any) -> None:
        raise Killed

    system.send(ORDER)
    system.work = die
    system.run()
    system.work = system.do
    system.settle()
    return effects(system)


def killed_after_its_effect(system: System) -> str:
    def act_and_die(order: dict[str, Any]) -> None:
        system.do(order)
        raise Killed

    system.send(ORDER)
    system.work = act_and_die
    system.run()
    system.clock.advance(200)
    system.work = system.do
    system.settle()
    return effects(system)


def late_failure_of_an_old_owner(system: System) -> str:
    """A hangs past its lease. B takes over. A fails while B works, and then C comes."""
    reached, go_on = [threading.Event() for _ in "AB"], [threading.Event() for _ in "AB"]
    order = iter(range(9))

    def work(message: dict[str, Any]) -> None:
        number = next(order)
        if number < 2:
            reached[number].set()
            go_on[number].wait(30)
        if number == 0:
            raise TimeoutError("hung")
        system.do(message)

    system.work = work
    threads = []
    for number in range(2):
        system.send(ORDER)
        threads.append(threading.Thread(target=system.run))
        threads[-1].start()
        assert reached[number].wait(30)
        if number == 0:
            system.clock.advance(60)
    go_on[0].set()
    threads[0].join(30)
    system.send(ORDER)
    with system.patched():
        system.run()
    during = len(system.effects)
    go_on[1].set()
    threads[1].join(30)
    system.settle()
    return f"{effects(system)}; C {'ran beside B' if during else 'waited for B'}"


def two_copies_at_once(system: System) -> str:
    """The second copy comes while the first one is in work."""
    order = iter(range(9))

    def work(message: dict[str, Any]) -> None:
        if next(order) == 0:
            system.send(ORDER)
            system.run()
        system.do(message)

    system.send(ORDER)
    system.work = work
    system.run()
    system.clock.advance(200)
    system.settle()
    return effects(system)


def another_payload(system: System) -> str:
    system.send(ORDER)
    system.run()
    system.send({**ORDER, "amount": 2})
    system.settle()
    return effects(system)


def published_again(system: System) -> str:
    """The producer publishes an order again, later: its body has another time."""
    system.send({**ORDER, "sentAt": "10:00"})
    system.run()
    system.send({**ORDER, "sentAt": "10:05"})
    system.settle()
    return effects(system)


def by_sns(number: int) -> dict[str, Any]:
    """The order as SNS delivers it; each publish has an id, a time and a signature of its own."""
    return {
        "Type": "Notification",
        "MessageId": f"id {number}",
        "TopicArn": "arn:aws:sns:eu-west-1:111122223333:orders",
        "Message": json.dumps(ORDER),
        "Timestamp": f"2026-01-01T00:00:0{number}.000Z",
        "SignatureVersion": "1",
        "Signature": f"signature {number}",
    }


def by_eventbridge(number: int) -> dict[str, Any]:
    """The order as EventBridge delivers it."""
    return {
        "version": "0",
        "id": f"id {number}",
        "detail-type": "OrderPlaced",
        "source": "shop",
        "account": "111122223333",
        "time": f"2026-01-01T00:00:0{number}Z",
        "region": "eu-west-1",
        "resources": [],
        "detail": ORDER,
    }


def published_twice(wrap: Callable[[int], dict[str, Any]]) -> Play:
    def play(system: System) -> str:
        for number in range(2):
            system.send(wrap(number))
            system.run()
        system.settle()
        return effects(system)

    return play


def first_raw_then_by_sns(system: System) -> str:
    system.send(ORDER)
    system.run()
    system.send(by_sns(1))
    system.settle()
    return effects(system)


def store_down_before(system: System) -> str:
    system.send(ORDER)
    system.table.fails = True
    system.run()
    during = len(system.effects)
    system.table.fails = False
    system.clock.advance(200)
    system.settle()
    return f"{effects(system)}; {during} while the table was down"


def store_down_after_the_effect(system: System) -> str:
    def act(order: dict[str, Any]) -> None:
        system.do(order)
        system.table.fails = True

    system.send(ORDER)
    system.work = act
    system.run()
    system.table.fails = False
    system.work = system.do
    system.clock.advance(200)
    system.settle()
    return effects(system)


def lost_answer(system: System) -> str:
    system.send(ORDER)
    system.table.loses_answers = True
    system.run()
    at_once = len(system.effects)
    system.table.loses_answers = False
    system.clock.advance(200)
    system.settle()
    return f"{effects(system)}; {'at once' if at_once else 'at a later receive'}"


def fifo_with_a_failure(system: System) -> str:
    """Of 1, 2, 3 in one group, 2 fails once."""
    failures = iter([True])

    def work(order: dict[str, Any]) -> None:
        if order["orderId"] == "2" and next(failures, False):
            raise ValueError("once")
        system.do(order)

    system.work = work
    for number in "123":
        system.send({"orderId": number}, group="g")
    system.settle()
    return f"order of effects {', '.join(system.effects)}; {system.end}"


def never_possible(system: System) -> str:
    """The handler refuses the order for good; a person corrects the cause and sends it on."""
    receives = 0

    def refuse(_: dict[str, Any]) -> None:
        nonlocal receives
        receives += 1
        raise Permanent("no such product")

    origin = system.send(ORDER)
    system.work = refuse
    system.settle()
    end = system.end
    system.work = system.do
    system.redrive(ORDER, origin)
    system.run()
    count = len(system.effects)
    return f"{receives} receive{'s' if receives > 1 else ''}, then {end}; released: {count} effect"


def result_of_a_repetition(system: System) -> str:
    """What the code around the handler gets when the order comes a second time."""
    system.work = lambda _: {"receipt": "r1"}
    for _ in range(2):
        system.send(ORDER)
        system.run()
    first, second = (system.results * 2)[:2] if len(system.results) > 1 else (1, 2)
    return "the first result" if first == second else "no result"


def called_by_an_api(system: System) -> str:
    try:
        for _ in range(2):
            system.call_directly(ORDER)
    except (KeyError, TypeError, ValueError):
        return "not possible"
    return f"{len(system.effects)} effect"


def cost_of_ten(system: System) -> str:
    # The first batch of a process also makes what the later ones need.
    for _ in range(2):
        for number in range(10):
            system.send({"orderId": f"{system.clock()} {number}"})
        system.table.calls = 0
        system.run()
        system.clock.advance(60)
    return f"{system.table.calls} calls of DynamoDB"


def plain(**options: Any) -> Callable[[], System]:
    return lambda: Powertools(**options)


def ours(**options: Any) -> Callable[[], System]:
    return lambda: Deadletter(**options)


CASES = [
    Case("The producer sends an order twice, with one body", sent_twice, "Equal."),
    Case(
        "A message that was processed is re-driven; its message id is the key",
        redriven,
        "A re-driven message has a new `messageId`, the key of Powertools' own SQS example."
        " Deadletter's key without a setting is the message ID.",
        plain(key=False),
        ours(key=False),
    ),
    Case(
        "The same with a business key",
        redriven,
        "Equal, within the expiry.",
    ),
    Case(
        "The same, two days later",
        redriven_after_two_days,
        "Powertools remembers for an hour unless `expires_after_seconds` says more, Deadletter for"
        " 45 days.",
    ),
    Case(
        "The process dies after the claim, before the effect",
        killed_before_its_effect,
        "Equal. Powertools needs the Lambda context registered; else the message is refused until"
        " the record expires.",
    ),
    Case(
        "The process dies between the effect and its record",
        killed_after_its_effect,
        "Equal: neither can exclude it. [A guard in your own"
        " database](consumer.md#guards-in-your-own-database) does.",
    ),
    Case(
        "A hangs past its lease, B takes over, A fails while B works, C comes",
        late_failure_of_an_old_owner,
        "Powertools' record has no owner: A deletes B's row, and C runs beside B. Deadletter's"
        " writes are conditional on the owner.",
    ),
    Case(
        "Two copies at once",
        two_copies_at_once,
        "Equal. The second copy of Powertools fails and uses up a receive each time; Deadletter's"
        " is hidden.",
    ),
    Case(
        "The same key with another payload, nothing set",
        another_payload,
        "Without `payload_validation_jmespath` Powertools takes the second message for the first,"
        " and its payload is lost. Deadletter parks it, but for a pipeline's first day: next row.",
        plain(),
    ),
    Case(
        "The same, validated; Deadletter in a pipeline's first day",
        another_payload,
        "Powertools raises an error at each receive.",
        plain(validates=True),
        ours(in_first_day=True),
    ),
    Case(
        "The producer publishes again with a new time in the body, nothing set",
        published_again,
        "**Powertools is simpler:** its key alone decides. Deadletter asks a person whether the new"
        " body matters.",
        plain(),
    ),
    Case(
        "The same with `idempotency_payload: none`",
        published_again,
        "Equal: the key alone decides.",
        plain(),
        ours(idempotency_payload=NOTHING),
    ),
    Case(
        "Published twice by SNS",
        published_twice(by_sns),
        "Equal. Powertools' path has to open the wrapper:"
        " `powertools_json(Message).orderId`; Deadletter opens it itself.",
        plain(path="powertools_json(order.Message).orderId"),
    ),
    Case(
        "Published twice by EventBridge",
        published_twice(by_eventbridge),
        "Equal. Powertools' path is `detail.orderId`, Deadletter's stays `body.orderId`.",
        plain(path="order.detail.orderId"),
    ),
    Case(
        "First sent to the queue, then published by SNS",
        first_raw_then_by_sns,
        "Equal. Powertools' path has to name both forms:"
        " `orderId || powertools_json(Message).orderId`.",
        plain(path="order.orderId || powertools_json(order.Message).orderId"),
    ),
    Case(
        "The table is down before the handler",
        store_down_before,
        "Equal: no effect without a guard.",
    ),
    Case(
        "The table is down after the effect",
        store_down_after_the_effect,
        "Powertools raises an error, so the message comes back and is processed again. Deadletter"
        " acknowledges it: its effect has happened.",
    ),
    Case(
        "The answer to a write is lost and the SDK tries again",
        lost_answer,
        "Powertools takes its own row for another process's.",
    ),
    Case(
        "FIFO: the second of three fails once",
        fifo_with_a_failure,
        "Equal, with `SqsFifoPartialProcessor`.",
        plain(fifo=True),
        ours(fifo=True),
    ),
    Case(
        "A message that can never succeed",
        never_possible,
        "Powertools has no verdict for it: it uses up its receives.",
    ),
    Case(
        "A repeated call wants the result of the first one",
        result_of_a_repetition,
        "**Powertools is better:** it stores results and returns them.",
    ),
    Case(
        "The handler is called by an API, not by a queue",
        called_by_an_api,
        "**Powertools is better:** it guards any function. Deadletter reads SQS messages only.",
    ),
    Case(
        "What a batch of ten costs",
        cost_of_ten,
        "**Powertools is cheaper:** Deadletter also reads the circuit and counts causes.",
    ),
]
