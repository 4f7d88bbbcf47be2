"""What it costs to find the first rule that matches a message: `python -m lab.bench.rules`.

Rules are compiled and a message's document is built before the clock starts, which counts the time
of this process only. Below that what one hostile message of 1 MiB costs, from the Lambda event to
the decision.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from random import Random
from typing import Any

from deadletter.message import stamp
from deadletter.message.letter import MAX_BYTES, from_event
from deadletter.rules.document import DocumentBuilder
from deadletter.rules.rulebook import RuleBook, read_rules
from deadletter.settings.pipeline import Pipeline
from lab.bench.timing import medians

SIZES = (20, 1_000)
TURNS = 7
LETTERS = 200

# Milliseconds of CPU a letter with 1,000 rules, at the most.
MOST = 3.0

# Milliseconds of CPU a hostile message, unless it consists of tiny values only: `json.loads` alone
# takes longer for these, and an ordinary message of many numbers looks the same.
MOST_HOSTILE = 5.0

NOW = 1_790_000_000.0
ORDERS = Pipeline("orders", context={name: f"body.{name}" for name in ("tenantId", "messageType")})


def exact(number: int) -> dict[str, Any]:
    """Rules as they are written in an outage: a tenant, a kind of message, a reason."""
    tenant = [f"tenant-{number}"]
    return (
        {"context": {"tenantId": tenant}},
        {"context": {"tenantId": tenant, "messageType": ["order.created", "order.changed"]}},
        {"context": {"tenantId": tenant}, "failure": {"category": ["transient"]}},
        {"context": {"messageType": [f"type.{number}"]}, "failure": {"http_status": [503]}},
        {"failure": {"fingerprint": [f"{number:016x}"]}},
    )[number % 5]


def with_operators(number: int) -> dict[str, Any]:
    """Rules that name no exact value."""
    return (
        {"context": {"tenantId": [{"prefix": f"trial-{number}-"}]}},
        {"context": {"tenantId": [{"wildcard": f"*-{number}-eu-*"}]}},
        {"context": {"messageType": [{"suffix": f".v{number}"}]}},
        {"context": {"messageType": [{"equals-ignore-case": f"Type.{number}"}]}},
        {"redrive": {"age_seconds": [{"numeric": [">", 1e6 + number]}]}},
        {"failure": {"error_type": [{"wildcard": f"java.*.Error{number}"}]}},
        {"failure": {"category": [{"anything-but": ["transient", "schema", "business"]}]}},
    )[number // 10 % 7]


# The rules of each row.
MIXES: Mapping[str, Callable[[int], dict[str, Any]]] = {
    "exact values": exact,
    "10 % operators": lambda n: exact(n) if n % 10 else with_operators(n),
}


def hostile_bodies() -> Iterator[tuple[str, str, bool]]:
    """Bodies of the most bytes that SQS takes, and whether they consist of tiny values only."""
    for name, start, unit, end, is_dense in (
        ("one long text", '{"tenantId": "a", "text": "', "a", '"}', False),
        ("escaped halves", '{"tenantId": "a", "text": "', "\\ud83d\\ude00", '"}', False),
        ("not JSON at its end", '{"text": "', "a", "", False),
        ("a list of numbers", '{"n": [1', ",1", "]}", True),
        ("a list of empty objects", "[{}", ",{}", "]", True),
    ):
        room = MAX_BYTES - len((start + end).encode())
        yield name, start + unit * (room // len(unit.encode())) + end, is_dense


def letters(random: Random) -> Iterator[dict[str, Any]]:
    """Documents of letters with a body of 30 fields; about one in ten has a rule about it."""
    for _ in range(LETTERS):
        yield {
            "pipeline": "orders",
            "context": {
                "tenantId": f"tenant-{random.randrange(100_000)}",
                "messageType": random.choice(["order.created", "order.changed", "invoice.sent"]),
            },
            "body": {f"field{number}": random.random() for number in range(30)},
            "redrive": {"attempt": random.randrange(1, 6), "age_seconds": random.randrange(90_000)},
            "failure": {
                "category": random.choice(["transient", "schema", "business"]),
                "error_type": "java.net.SocketTimeoutException",
                "http_status": random.choice([429, 503, 504]),
                "fingerprint": f"{random.getrandbits(64):016x}",
            },
        }


def book_of(rule: Callable[[int], dict[str, Any]], size: int) -> RuleBook:
    """A book of so many rules that only count, so that all of them are tried on each letter."""
    keys = {"pipeline": ORDERS.name, "action": "DEFAULT", "mode": "shadow"}
    rows = [{**keys, "rule_id": str(n), "pattern": rule(n)} for n in range(size)]
    book = read_rules(rows, ORDERS)
    assert not book.refused, book.refused[0]
    return book


def judged(book: RuleBook, documents: Iterable[Mapping[str, Any]]) -> None:
    """Try all rules on each document."""
    for document in documents:
        book.first(document, NOW, {})


def decided(builder: DocumentBuilder, book: RuleBook, record: dict[str, Any]) -> None:
    """From the Lambda event to the decision that a rule makes."""
    letter = from_event(record)
    mark = stamp.read(letter, frozenset({"AROAUS"})).stamp
    judged(book, [builder.build(letter, mark, None, NOW).value])


def main() -> int:
    """Print all tables; the exit status is 1 if a figure is over its limit."""
    documents = list(letters(Random(1)))  # noqa: S311 - reproducible, not secret
    costs = medians(
        {
            (mix, size): partial(judged, book_of(rule, size), documents)
            for mix, rule in MIXES.items()
            for size in SIZES
        },
        TURNS,
    )
    print(f"{'ms of CPU a letter':<40}" + "".join(f"{size:>9,} rules" for size in SIZES))
    for mix in MIXES:
        cells = (costs[mix, size] / LETTERS * 1e3 for size in SIZES)
        print(f"{mix:<40}" + "".join(f"{cell:>15.3f}" for cell in cells))
    builder, book = DocumentBuilder(ORDERS), book_of(MIXES["10 % operators"], 100)
    attributes, tasks, dense = {"SentTimestamp": "1789999000000"}, {}, set()
    for name, body, is_dense in hostile_bodies():
        record = {"messageId": "m", "body": body, "attributes": attributes}
        tasks[name] = partial(decided, builder, book, record)
        dense |= {name} if is_dense else set()
    hostile = medians(tasks, TURNS)
    print(f"\n{'1 MiB':<40} {'ms of CPU':>14}")
    for name, seconds in hostile.items():
        print(f"{name:<40} {seconds * 1e3:>14.2f}")
    worst = max(costs.values()) / LETTERS * 1e3
    slowest = max(hostile[name] * 1e3 for name in hostile.keys() - dense)
    is_reached = worst <= MOST and slowest <= MOST_HOSTILE
    said = "reached" if is_reached else "not reached"
    print(f"most: {worst:.3f} (≤ {MOST:g}) and {slowest:.2f} (≤ {MOST_HOSTILE:g}): {said}")
    return 0 if is_reached else 1


if __name__ == "__main__":
    sys.exit(main())
