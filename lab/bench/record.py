"""What was measured of moving letters, by case, as build/bench.json keeps it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lab.bench.letters import Audited


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """What one way did with one queue. CPU is seconds per 1,000 letters, all processes of a way.

    Counts are those of a letter: of SQS calls and, as `billed`, of 64 KB of them, of DynamoDB's
    requests and units, of invocations and the GB-seconds of both functions.
    """

    case: str
    way: str
    letters: int
    seconds: float
    rate: float
    cpu: float
    cores: float
    peak_mb: float
    sqs_calls: float
    billed: float
    write_requests: float
    write_units: float
    read_units: float
    invocations: float
    gb_seconds: float
    runs: int
    shards: int
    possible_duplicates: int
    audit: Audited
    trouble: str
    requests: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """When and where a case was measured; `load` is that of the machine before."""

    started: str
    commit: str
    machine: str
    load: float
    turns: int


@dataclass(frozen=True, slots=True)
class Record:
    """The rows of each case, from the last time that it was measured."""

    cases: Mapping[str, Occasion] = field(default_factory=dict)
    rows: Sequence[Drained] = ()

    def with_case(self, name: str, occasion: Occasion, found: Sequence[Drained]) -> Record:
        """The record with this case instead of what it had of it."""
        rows = [row for row in self.rows if case_of(row) != name]
        return Record({**self.cases, name: occasion}, [*rows, *found])


def case_of(row: Drained) -> str:
    """The case of `lab.bench.moving` that a row belongs to."""
    return row.case.split()[0]


def write_record(path: Path, record: Record) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(asdict(record), indent=1) + "\n")


def read_record(path: Path) -> Record:
    """What the file has; nothing, if there is none or it is an older kind."""
    try:
        data: dict[str, Any] = json.loads(path.read_text())
        return Record(
            {name: Occasion(**occasion) for name, occasion in data["cases"].items()},
            [Drained(**{**row, "audit": Audited(**row["audit"])}) for row in data["rows"]],
        )
    except (FileNotFoundError, KeyError, TypeError, ValueError):
        return Record()
