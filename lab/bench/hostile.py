"""What one hostile message of 1 MiB costs: `python -m lab.bench.hostile`.

From the Lambda event to the decision that a rule makes: the record is read, its stamp,
its body and its context, and a hundred rules are tried on it. Each kind of message is
measured in turns with all others, and the clock counts the time of this process only.
The limit is for the 99th percentile over all kinds except those that consist of tiny values
only: `json.loads` alone takes longer for these, and an ordinary message of many numbers
looks the same. The chunk bounds them: a router request holds four messages of this size.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import quantiles
from time import process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "lambdas"))

from deadletter.failure.redaction import redact
from deadletter.message import stamp
from deadletter.message.letter import MAX_BYTES, from_event
from deadletter.rules.document import DocumentBuilder
from deadletter.rules.rulebook import read_rules
from deadletter.settings.pipeline import Pipeline

TURNS = 30
LIMIT_MS = 5.0
"""Milliseconds a message at the 99th percentile."""

DENSE = {
    "a list of numbers",
    "a list of empty lists",
    "a list of empty objects",
    "one key many times",
    "different keys",
    "floats",
}

NOW = 1_790_000_000.0
PIPELINE = Pipeline("orders", context={"tenantId": "body.tenantId", "messageType": "body.type"})
RULES = [
    {"rule_id": f"r{number}", "action": "HOLD", "pattern": json.dumps(pattern)}
    for number in range(20)
    for pattern in (
        {"context": {"tenantId": [f"tenant-{number}"]}},
        {"context": {"tenantId": [{"wildcard": f"*a*{number}*b*"}]}},
        {"body": {"text": [{"prefix": f"p{number}"}]}},
        {"body": {"text": [{"suffix": f"s{number}"}]}},
        {"body": {"n": [{"numeric": [">", number]}]}},
    )
]


def filled(start: str, unit: str, end: str) -> str:
    """A body of exactly the most bytes that SQS takes, with as many units as fit."""
    room = MAX_BYTES - len((start + end).encode())
    body = start + unit * (room // len(unit.encode()))
    return body + " " * (MAX_BYTES - len((body + end).encode())) + end


def bodies() -> Iterator[tuple[str, str]]:
    yield "one long text", filled('{"tenantId": "a", "text": "', "a", '"}')
    yield "one long tenant", filled('{"tenantId": "', "ab", '"}')
    yield "text beyond ASCII", filled('{"tenantId": "a", "text": "', "é", '"}')
    yield "escapes", filled('{"tenantId": "a", "text": "', "\\u00e9", '"}')
    yield "escaped halves", filled('{"tenantId": "a", "text": "', "\\ud83d\\ude00", '"}')
    yield "opening brackets", filled("", "[", "")
    yield "opening objects", filled("", '{"a":', "")
    yield "closed brackets", "[" * (MAX_BYTES // 2) + "]" * (MAX_BYTES // 2)
    yield "a list of numbers", filled('{"n": [1', ",1", "]}")
    yield "a list of empty lists", filled("[[]", ",[]", "]")
    yield "a list of empty objects", filled("[{}", ",{}", "]")
    yield "one key many times", filled('{"a":1', ',"a":1', "}")
    yield "different keys", keys()
    yield "digits", filled("", "9", "")
    yield "floats", filled("[1.5e300", ",1.5e300", "]")
    yield "not JSON at its end", filled('{"text": "', "a", "")
    yield "spaces", filled("", " ", "")
    yield "control characters", filled('"', "\x1b", '"')


def keys() -> str:
    pairs = (f'"k{number}":{number}' for number in range(MAX_BYTES // 16))
    return "{" + ",".join(pairs) + "}"


def judge(builder: DocumentBuilder, book: Any, record: dict[str, Any]) -> None:
    letter = from_event(record)
    mark = stamp.read(letter, frozenset({"AROAUS"})).stamp
    document = builder.build(letter, mark, None, NOW)
    book.first(document.value, NOW, {})


def main() -> int:
    """Print the table; 1 if a 99th percentile is over its limit."""
    builder, book = DocumentBuilder(PIPELINE), read_rules(RULES, PIPELINE)
    records = {
        name: {"messageId": "m", "body": body, "attributes": {"SentTimestamp": "1789999000000"}}
        for name, body in bodies()
    }
    spent: dict[str, list[float]] = {name: [] for name in records}
    redacting: list[float] = []
    for _ in range(TURNS):
        for name, record in records.items():
            gc.collect()
            start = process_time()
            judge(builder, book, record)
            spent[name].append((process_time() - start) * 1e3)
            if name == "escapes":
                letter = from_event(record)
                start = process_time()
                redact("could not read order", letter)
                redacting.append((process_time() - start) * 1e3)
    print(f"{'message of 1 MiB':<28} {'median ms':>10} {'p99 ms':>8}")
    for name, times in spent.items():
        print(f"{name:<28} {percentile(times, 50):>10.2f} {percentile(times, 99):>8.2f}")
    print(f"{'redacting an error about it':<28} {percentile(redacting, 50):>10.2f}")
    for title, kinds in (("all but tiny values", spent.keys() - DENSE), ("tiny values", DENSE)):
        worst = percentile([cost for name in kinds for cost in spent[name]], 99)
        print(f"99th percentile, {title}: {worst:.2f} ms")
        if kinds != DENSE and worst > LIMIT_MS:
            print(f"over the limit of {LIMIT_MS:.0f} ms", file=sys.stderr)
            return 1
    return 0


def percentile(times: list[float], which: int) -> float:
    return quantiles(times, n=100, method="inclusive")[which - 1]


if __name__ == "__main__":
    sys.exit(main())
