"""What it costs to find the first rule that matches a letter: `python -m lab.bench.rules`.

Rules are compiled and the letter's document is built before the clock starts. All sizes and
mixes are measured in turns within one run, and the median of the turns is shown, so that load on
the machine affects all of them. The clock counts the time of this process only.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from time import process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "lambdas"))

from deadletter.rules.pattern import compile_pattern
from deadletter.rules.rulebook import RuleBook, read_rules
from deadletter.settings.pipeline import Pipeline

SIZES = (20, 1_000)
TURNS = 7
LETTERS = 200

MOST = 3.0
"""Milliseconds of CPU a letter with 1,000 rules, at the most."""

CONTEXT = ("tenantId", "messageType", "region", "plan", "address")
ORDERS = Pipeline("orders", context={name: f"body.{name}" for name in CONTEXT})

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


def combinations() -> dict[str, Any]:
    """1,000 combinations of branches that match on their own, and never in one element."""
    return {
        "body": {
            "$or": [{f"l.{name}": [{"exists": True}]} for name in "abcdefghij"],
            "l": {
                "$or": [{name: [{"exists": True}]} for name in "klmnopqrst"],
                "z": {"$or": [{name: [{"exists": True}]} for name in "klmnopqrst"]},
            },
        }
    }


def scattered() -> dict[str, Any]:
    """A body whose every name has many values, each in an element of its own."""
    names = [*"abcdefghijklmnopqrst"]
    lines: list[dict[str, Any]] = [{names[number % 20]: 1} for number in range(4_000)]
    lines += [{"z": {"klmnopqrst"[number % 10]: 1}} for number in range(400)]
    return {"body": {"l": lines}}


HOSTILE_PAIRS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "$or in an array": (combinations(), scattered()),
    "wildcards on an array": (
        {"body": [{"anything-but": {"wildcard": [f"*{n}*b*" for n in range(100)]}}]},
        {"body": [f"{number}-bbb" for number in range(5_000)]},
    ),
    "prefixes in any case on an array": (
        {"body": [{"prefix": {"equals-ignore-case": f"x{n}"}} for n in range(22)]},
        {"body": [f"{number:06}" for number in range(5_200)]},
    ),
}


def _body_of_lines() -> dict[str, Any]:
    lines = [{"sku": f"sku-{n}", "code": f"c{n % 100}", "q": n % 9} for n in range(25_000)]
    return {"context": {"tenantId": "t1"}, "body": {"lines": lines}}


def about_lines(number: int) -> dict[str, Any]:
    """Rules about two fields of the lines of an order."""
    code = ([f"c{number % 100}"], [{"prefix": "c"}], [{"anything-but": ["x"]}])[number % 3]
    return {
        "body": {"lines": {"sku": [f"sku-{number}x", f"sku-{number}"], "code": code, "q": [10]}}
    }


def about_text(number: int) -> dict[str, Any]:
    """Wildcards in the text of a body."""
    return {"body": {"text": [{"wildcard": f"*error {number} *gone*"}]}}


def about_tags(number: int) -> dict[str, Any]:
    """All operators on a long array."""
    return {"body": {"tags": next(iter(with_operators(number * 10).values())).popitem()[1]}}


LARGE: dict[str, tuple[Callable[[int], dict[str, Any]], dict[str, Any]]] = {
    "two or three fields of 25,000 lines": (about_lines, _body_of_lines()),
    "wildcards on a text": (about_text, {"body": {"text": "no error here, 1 of 2; " * 45_000}}),
    "all operators on an array of 100,000 texts": (
        about_tags,
        {"body": {"tags": [f"tag-{n}" for n in range(100_000)]}},
    ),
    "wildcards of 100 pieces on a text": (
        lambda n: {"body": [{"anything-but": {"wildcard": [f"*a{n}{m}*b" for m in range(100)]}}]},
        {"body": MEBIBYTE},
    ),
}


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
        {
            "failure": {"http_status": [{"numeric": [">=", 600, "<", 700 + number]}]},
            "context": {"region": [{"anything-but": ["eu-west-1"]}]},
        },
    )[number // 10 % 8]


def anything_but(number: int) -> dict[str, Any]:
    """Rules that name only what they are not about: some need a comparison of each letter."""
    return (
        {"failure": {"category": [{"anything-but": ["transient", "schema", "business"]}]}},
        {"failure": {"http_status": [{"anything-but": [429, 503, 504, number]}]}},
        {
            "context": {
                "messageType": [
                    {
                        "anything-but": {
                            "wildcard": ["*.created", "*.changed", "*.sent", f"*{number}"]
                        }
                    }
                ]
            }
        },
        {"context": {"region": [{"anything-but": {"prefix": ["eu-", "us-", f"x{number}"]}}]}},
    )[number % 4]


def mixed(number: int) -> dict[str, Any]:
    """Every tenth rule has no exact value, all operators in turn."""
    return with_operators(number) if number % 10 == 0 else exact(number)


def affixes(number: int) -> dict[str, Any]:
    """Prefix, suffix and ignore-case, also of each other."""
    return (
        {"context": {"tenantId": [{"prefix": f"tenant-{number}-"}]}},
        {"context": {"tenantId": [{"suffix": f"-{number}-eu"}]}},
        {"context": {"messageType": [{"suffix": f".v{number}"}]}},
        {"context": {"messageType": [{"equals-ignore-case": f"Order.{number}"}]}},
        {"context": {"tenantId": [{"prefix": {"equals-ignore-case": f"Tenant-{number}-"}}]}},
        {"failure": {"error_type": [{"suffix": {"equals-ignore-case": f"Exception{number}"}}]}},
    )[number % 6]


def wildcards(number: int) -> dict[str, Any]:
    """Wildcards of all shapes: nothing before the first star, nothing after the last."""
    return (
        {"context": {"tenantId": [{"wildcard": f"*-{number}-eu-*"}]}},
        {"context": {"tenantId": [{"wildcard": f"tenant-*{number}-*"}]}},
        {"failure": {"error_type": [{"wildcard": f"java.*.Error{number}"}]}},
        {"failure": {"error_type": [{"wildcard": f"*net*Timeout{number}*Exception"}]}},
    )[number % 4]


def numeric(number: int) -> dict[str, Any]:
    """Ranges of numbers of which no letter has one."""
    return (
        {"redrive": {"age_seconds": [{"numeric": [">", 1e6 + number]}]}},
        {"failure": {"http_status": [{"numeric": [">=", 600, "<", 700 + number]}]}},
        {"redrive": {"attempt": [{"numeric": ["<", -number]}]}},
    )[number % 3]


def cidr(number: int) -> dict[str, Any]:
    """Networks of IPv4 and IPv6."""
    high, low = divmod(number, 256)
    network = f"10.{high}.{low}.0/24" if number % 2 else f"2001:db8:{number:x}::/48"
    return {"context": {"address": [{"cidr": network}]}}


def hot_tenant(number: int) -> dict[str, Any]:
    """Rules that share an exact value, which every letter has, and differ by a prefix."""
    return {"context": {"plan": ["hot"], "messageType": [{"prefix": f"order.{number}."}]}}


MIXES: Mapping[str, Callable[[int], dict[str, Any]]] = {
    "exact values": exact,
    "10 % operators": mixed,
    "prefix, suffix, ignore-case": affixes,
    "wildcards": wildcards,
    "numeric": numeric,
    "cidr": cidr,
    "anything-but": anything_but,
    "one hot tenant, exact + prefix": hot_tenant,
}
"""The rules of each row."""


def letters(random: Random) -> Iterator[dict[str, Any]]:
    """Documents of letters with a body of 30 fields; about one in ten has a rule about it."""
    for _ in range(LETTERS):
        yield {
            "pipeline": "orders",
            "context": {
                "tenantId": f"tenant-{random.randrange(100_000)}",
                "messageType": random.choice(["order.created", "order.changed", "invoice.sent"]),
                "region": random.choice(["eu-west-1", "us-east-1"]),
                "plan": "hot",
                "address": f"192.0.2.{random.randrange(256)}",
            },
            "body": {f"field{number}": random.random() for number in range(30)},
            "attributes": {"traceparent": "00-0", "contentType": "application/json"},
            "system": {"SenderId": "AROAEXAMPLE", "SentTimestamp": "1790000000000"},
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


def measured(tasks: Mapping[Any, Callable[[], object]], turns: int) -> dict[Any, float]:
    """The median of the seconds that each task takes, measured in turns."""
    spent: dict[Any, list[float]] = {name: [] for name in tasks}
    for _ in range(turns):
        for name, task in tasks.items():
            start = process_time()
            task()
            spent[name].append(process_time() - start)
    return {name: median(times) for name, times in spent.items()}


def judged(book: RuleBook, documents: Iterable[dict[str, Any]]) -> None:
    """Try all rules on each document."""
    for document in documents:
        book.first(document, 0.0, {})


def print_costs() -> bool:
    """The table of mixes and sizes; False if a figure is over its limit."""
    documents = list(letters(Random(1)))  # noqa: S311 - reproducible, not secret
    books = {(mix, size): book_of(MIXES[mix], size) for mix in MIXES for size in SIZES}
    seconds = measured(
        {case: partial(judged, book, documents) for case, book in books.items()}, TURNS
    )
    print(f"{'ms of CPU a letter':<34}" + "".join(f"{size:>9,} rules" for size in SIZES))
    costs = {case: taken / LETTERS * 1e3 for case, taken in seconds.items()}
    for mix in MIXES:
        print(f"{mix:<34}" + "".join(f"{costs[mix, size]:>15.3f}" for size in SIZES))
    worst = max(costs.values())
    print(f"most: {worst:.3f}, limit {MOST:g}: {'reached' if worst <= MOST else 'not reached'}")
    return worst <= MOST


def print_hostile() -> None:
    """What rules and letters cost that are made to cost much."""
    print(f"\n{'hostile pattern on a body of 1 MiB':<52} {'ms':>7}")
    for name, accepts in HOSTILE.items():
        pattern = compile_pattern({"body": accepts})
        likeness = pattern.judge({"body": MEBIBYTE})
        seconds = measured({name: partial(pattern.judge, {"body": MEBIBYTE})}, TURNS)[name]
        print(f"{name:<52} {seconds * 1e3:>7.1f}  {likeness.value}")
    for name, (rule, document) in HOSTILE_PAIRS.items():
        pattern = compile_pattern(rule)
        sizes = f"{len(json.dumps(rule)):,} characters on {len(json.dumps(document)) // 1000:,} KB"
        seconds = measured({name: partial(pattern.judge, document)}, 3)[name]
        words = f"{name}: {sizes}"
        print(f"{words:<52} {seconds * 1e3:>7.1f}  {pattern.judge(document).value}")
    print(f"\n{'1,000 rules on a body of 1 MiB':<52} {'ms':>7}")
    for name, (rule_of, document) in LARGE.items():
        seconds = measured({name: partial(judged, book_of(rule_of, 1_000), [document])}, 3)[name]
        print(f"{name:<52} {seconds * 1e3:>7.1f}")


def main() -> None:
    """Print all tables; the exit status is 1 if a figure is over its limit."""
    is_reached = print_costs()
    print_hostile()
    sys.exit(not is_reached)


if __name__ == "__main__":
    main()
