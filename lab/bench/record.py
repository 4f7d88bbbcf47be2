"""What the benchmark measured, by case, as build/bench.json keeps it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lab.bench.figures import Drained, Started, goals
from lab.bench.lean_queue import Audited


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """When and where a case was measured; `load` is that of the machine before."""

    started: str
    commit: str
    machine: str
    load: float
    seconds: float
    turns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The rows of each case, from the last time that it was measured."""

    cases: Mapping[str, Occasion] = field(default_factory=dict)
    rows: Sequence[Drained] = ()
    starts: Sequence[Started] = ()

    def with_case(self, name: str, stamp: Occasion, found: Sequence[Drained | Started]) -> Record:
        """The record with this case instead of what it had of it."""
        starts = [row for row in found if isinstance(row, Started)]
        rows = [row for row in self.rows if case_of(row) != name]
        return Record(
            cases={**self.cases, name: stamp},
            rows=[*rows, *(row for row in found if isinstance(row, Drained))],
            starts=starts or self.starts,
        )

    def to_json(self) -> str:
        reached = goals(self.rows, self.starts)
        data = {
            "cases": {name: asdict(stamp) for name, stamp in self.cases.items()},
            "rows": [asdict(row) for row in self.rows],
            "starts": [asdict(start) for start in self.starts],
            "goals": [
                {**asdict(goal), "reached": {name: goal.is_reached(name) for name in goal.measured}}
                for goal in reached
            ],
        }
        return json.dumps(data, indent=1) + "\n"


def case_of(row: Drained) -> str:
    """The case of `lab.bench.moving` that a row belongs to."""
    return row.case.split()[0]


def read_record(path: Path) -> Record:
    """What the file has; nothing, if there is none or it is an older kind."""
    try:
        data: dict[str, Any] = json.loads(path.read_text())
        return Record(
            cases={name: Occasion(**stamp) for name, stamp in data["cases"].items()},
            rows=[Drained(**{**row, "audit": Audited(**row["audit"])}) for row in data["rows"]],
            starts=[Started(**start) for start in data["starts"]],
        )
    except (FileNotFoundError, KeyError, TypeError, ValueError):
        return Record()
