"""What it costs to find the rules that match a letter: `python -m tools.bench.rules`.

Rules are compiled before the clock starts. A letter arrives as a document, and all rules
that match it are found, which is more than the router does (it stops at the first). All
sizes and mixes are measured in turns within one run, and the median of the turns is shown, so
that load on the machine affects all of them. The clock counts the time of this process only.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from random import Random
from statistics import median
from time import process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "lambdas"))

from deadletter.rules.index import RuleIndex
from deadletter.rules.pattern import compile_pattern

SIZES = (10, 1_000, 10_000)
TURNS = 15
LETTERS = 2_000

# Microseconds a letter, for the sizes that have a limit.
LIMITS = {("indexable", 1_000): 3.0, ("10 % not", 1_000): 15.0}

MEBIBYTE = "a" * (1 << 20)
HOSTILE: dict[str, list[Any]] = {
    'wildcard "*a*a*a*a*a*a*a*a*b"': [{"wildcard": "*a*a*a*a*a*a*a*a*b"}],
    "wildcard of 2,000 stars": [{"wildcard": "*" + "a*" * 2000 + "b*"}],
    'wildcard "*" + 500 times a + "b*"': [{"wildcard": f"*{'a' * 500}b*"}],
    "anything-but 1,000 strings": [{"anything-but": [f"{number}" for number in range(1000)]}],
    "anything-but 100 wildcards": [
        {"anything-but": {"wildcard": [f"*a*{number}*" for number in range(100)]}}
    ],
}


def indexable(number: int) -> dict[str, Any]:
    """Rules as they are written in an outage: a tenant, a kind of message, a reason."""
    tenant = [f"tenant-{number}"]
    return (
        {"context": {"tenantId": tenant}},
        {"context": {"tenantId": tenant, "messageType": ["order.created", "order.changed"]}},
        {"context": {"tenantId": tenant}, "failure": {"category": ["timeout"]}},
        {"context": {"messageType": [f"type.{number}"]}, "failure": {"http_status": [503]}},
        {"failure": {"fingerprint": [f"{number:016x}"]}},
    )[number % 5]


def only_tried(number: int) -> dict[str, Any]:
    """Rules that name no exact value."""
    return (
        {"context": {"tenantId": [{"prefix": f"trial-{number}-"}]}},
        {"context": {"tenantId": [{"wildcard": f"*-{number}-eu-*"}]}},
        {"context": {"messageType": [{"suffix": f".v{number}"}]}},
        {"context": {"messageType": [{"equals-ignore-case": f"Type.{number}"}]}},
        {"redrive": {"age_seconds": [{"numeric": [">", 1e6 + number]}]}},
        {"failure": {"error_type": [{"wildcard": f"java.*.Error{number}"}]}},
        {"failure": {"category": [{"anything-but": ["timeout", "throttled", "schema"]}]}},
        {
            "failure": {"http_status": [{"numeric": [">=", 600, "<", 700 + number]}]},
            "context": {"region": [{"anything-but": ["eu-west-1"]}]},
        },
    )[number // 10 % 8]


def patterns(mix: str, size: int) -> Iterator[dict[str, Any]]:
    """As many rules as asked for; in the second mix every tenth can't be looked up."""
    for number in range(size):
        yield only_tried(number) if mix != "indexable" and number % 10 == 0 else indexable(number)


def letters(random: Random) -> Iterator[dict[str, Any]]:
    """Documents of letters with a body of 30 fields; about one in ten has a rule about it."""
    for _ in range(LETTERS):
        yield {
            "pipeline": "orders",
            "context": {
                "tenantId": f"tenant-{random.randrange(100_000)}",
                "messageType": random.choice(["order.created", "order.changed", "invoice.sent"]),
                "region": random.choice(["eu-west-1", "us-east-1"]),
            },
            "body": {f"field{number}": random.random() for number in range(30)},
            "attributes": {"traceparent": "00-0", "contentType": "application/json"},
            "system": {"SenderId": "AROAEXAMPLE", "SentTimestamp": "1790000000000"},
            "redrive": {"attempt": random.randrange(1, 6), "age_seconds": random.randrange(90_000)},
            "failure": {
                "category": random.choice(["timeout", "throttled", "schema"]),
                "error_type": "java.net.SocketTimeoutException",
                "http_status": random.choice([429, 503, 504]),
                "fingerprint": f"{random.getrandbits(64):016x}",
            },
        }


def main() -> None:
    """Print both tables."""
    documents = list(letters(Random(1)))  # noqa: S311 - reproducible, not secret
    indexes = {
        (mix, size): RuleIndex(
            [
                (number, compile_pattern(pattern))
                for number, pattern in enumerate(patterns(mix, size))
            ]
        )
        for mix in ("indexable", "10 % not")
        for size in SIZES
    }
    spent: dict[tuple[str, int], list[float]] = {case: [] for case in indexes}
    for _ in range(TURNS):
        for case, index in indexes.items():
            start = process_time()
            for document in documents:
                deque(index.matching(document), maxlen=0)
            spent[case].append((process_time() - start) / LETTERS * 1e6)
    costs = {case: median(times) for case, times in spent.items()}
    print(f"{'rules':>7}  {'mix':<10} {'µs a letter':>12}  {'limit':>5}")
    for (mix, size), cost in costs.items():
        print(f"{size:>7,}  {mix:<10} {cost:>12.2f}  {LIMITS.get((mix, size), ''):>5}")
    ratio = costs["indexable", 10_000] / costs["indexable", 10]
    print(f"\n10,000 indexable rules cost {ratio:.2f} times what 10 cost (limit 2)\n")
    print(f"{'hostile pattern on a body of 1 MiB':<36} {'ms':>7}")
    for name, accepts in HOSTILE.items():
        pattern = compile_pattern({"body": accepts})
        times = []
        for _ in range(TURNS):
            start = process_time()
            pattern.matches({"body": MEBIBYTE})
            times.append((process_time() - start) * 1e3)
        print(f"{name:<36} {median(times):>7.2f}")


if __name__ == "__main__":
    main()
