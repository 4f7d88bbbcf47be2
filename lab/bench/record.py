"""What was measured of moving letters, as build/bench.json keeps it and as tables show it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from lab.bench.letters import Audited

COLUMNS = (
    *("case", "way", "letters", "letters/s", "CPU s a 1,000", "cores", "SQS calls a letter"),
    *("write requests, units a letter", "lost, twice, changed, left", "memory MB"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """What one way did with one queue. CPU is seconds per 1,000 letters, all processes of a way.

    Counts are those of a letter: of SQS calls and, as `billed`, of 64 KB of them, of DynamoDB's
    requests and units, of invocations and the GB-seconds of both functions. `measured` is when
    and at which commit, on which machine and beside which load.
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
    measured: str = ""


def medians(rows: Sequence[Drained], *figures: str) -> list[float]:
    return [median(float(getattr(row, figure)) for row in rows) for figure in figures]


def cells(rows: Sequence[Drained]) -> list[str]:
    """The turns of one case and way, as one row of a table."""
    first = rows[0]
    rate, cpu, cores, calls = medians(rows, "rate", "cpu", "cores", "sqs_calls")
    requests, units = medians(rows, "write_requests", "write_units")
    # What went wrong in all turns together.
    audits = [(a.lost, a.duplicated, a.changed, a.unfinished) for a in (row.audit for row in rows)]
    wrong = [sum(counts) for counts in zip(*audits, strict=True)]
    peak = max(row.peak_mb for row in rows)
    return [
        first.case, first.way, f"{first.letters:,}", f"{rate:,.0f}", f"{cpu:.2f}", f"{cores:.2f}",
        f"{calls:.3f}", f"{requests:.3f}, {units:.3f}" if first.way == "ours" else "",
        ", ".join(map(str, wrong)) if any(wrong) else "0", f"{peak:.0f}" if peak else "",
    ]  # fmt: skip


def case_of(row: Drained) -> str:
    """The case of `lab.bench.moving` that a row belongs to."""
    return row.case.split()[0]


def write_rows(path: Path, rows: Sequence[Drained]) -> None:
    """Keep these rows instead of those that the file has of the same cases."""
    cases = {case_of(row) for row in rows}
    kept = [row for row in read_rows(path) if case_of(row) not in cases]
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps([asdict(row) for row in (*kept, *rows)], indent=1) + "\n")


def read_rows(path: Path) -> list[Drained]:
    """What the file has; nothing, if there is none or it is an older kind."""
    try:
        found = json.loads(path.read_text())
        return [Drained(**{**row, "audit": Audited(**row["audit"])}) for row in found]
    except (FileNotFoundError, TypeError):
        return []
