"""`make scenarios`: what each system makes of outages and poisonings, in figures.

Example: python -m tests.scenario_bench outage-3m bad-replies --seeds 5
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.loopback_only import loopback_only
from tests.scenario_bench.catalogue import BY_NAME, SCENARIOS
from tests.scenario_bench.chart import chart
from tests.scenario_bench.goals import YES, judged, met
from tests.scenario_bench.measure import Figures, run
from tests.scenario_bench.page import write_page
from tests.scenario_bench.summary import COLUMNS, Row, rows_of
from tests.scenario_bench.systems import SYSTEMS

BUILD = Path("build")
DATA, CHART = BUILD / "scenarios.json", BUILD / "scenarios.svg"


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    scenarios = [BY_NAME[name] for name in options.scenarios] or list(SCENARIOS)
    runs = _kept() if options.add else []
    known = {(figures.scenario, figures.system, figures.seed) for figures in runs}
    wanted = [
        (scenario, system, seed)
        for seed in range(1, options.seeds + 1)
        for scenario in scenarios
        for system in options.systems
        if (scenario.name, system, seed) not in known
    ]
    note = Console(stderr=True)
    began = time.process_time()
    try:
        for at, (scenario, system, seed) in enumerate(wanted, 1):
            spent = time.process_time() - began
            note.print(
                f"[{at}/{len(wanted)}] {scenario.name}, {system}, seed {seed} ({spent:.0f} s CPU)",
                markup=False,
                highlight=False,
            )
            runs.append(run(scenario, system, seed))
            _save(runs)
    except KeyboardInterrupt:
        note.print("Interrupted. What was run is kept; go on with --add.", markup=False)
    if not runs:
        return 1
    rows = _save(runs)
    if options.json:
        sys.stdout.write(DATA.read_text())
    else:
        _print(rows)
    if options.page:
        write_page(rows, _commit(), _today())
    return 1 if any(figures.lost for figures in runs) else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.scenario_bench",
        description="Plays outages and poisonings with the production code on the in-memory AWS,"
        f" beside three baselines. Writes {DATA} and {CHART}.",
        epilog="example: python -m tests.scenario_bench outage-3m bad-replies --seeds 5",
    )
    parser.add_argument(
        "scenarios",
        nargs="*",
        metavar="scenario",
        help=f"default: all. Known: {', '.join(BY_NAME)}",
    )
    parser.add_argument("--seeds", type=int, default=1, help="runs of each row (default: 1)")
    parser.add_argument(
        "--systems",
        nargs="+",
        choices=list(SYSTEMS),
        default=list(SYSTEMS),
        help="default: all four",
    )
    parser.add_argument("--json", action="store_true", help="print the data instead of the table")
    parser.add_argument(
        "--add", action="store_true", help=f"keep the runs of this commit in {DATA}"
    )
    parser.add_argument(
        "--page", action="store_true", help="write docs/scenarios.md and its files anew"
    )
    options = parser.parse_args(arguments)
    unknown = [name for name in options.scenarios if name not in BY_NAME]
    if unknown:
        parser.error(f"unknown scenario {unknown[0]!r}; known are {', '.join(BY_NAME)}")
    if options.seeds < 1:
        parser.error(f"--seeds is {options.seeds}; allowed: 1 or more")
    return options


def _kept() -> list[Figures]:
    """The runs of this commit that were made before."""
    data = json.loads(DATA.read_text()) if DATA.exists() else {}
    if data.get("commit") != _commit():
        return []
    return [Figures(**figures) for figures in data["runs"]]


def _rows(runs: Sequence[Figures]) -> list[Row]:
    # Runs that were added later stand at their system's place all the same.
    order = list(SYSTEMS)
    return rows_of(SCENARIOS, sorted(runs, key=lambda figures: order.index(figures.system)))


def _save(runs: Sequence[Figures]) -> list[Row]:
    """Write data and chart of all runs so far; returns the rows of the table."""
    rows = _rows(runs)
    data = {
        "date": _today(),
        "commit": _commit(),
        "rows": [_summary(row) for row in rows],
        "runs": [figures.to_json() for figures in runs],
    }
    BUILD.mkdir(exist_ok=True)
    DATA.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    CHART.write_text(chart(rows, f"Scenarios, {data['date']}, commit {data['commit']}"))
    return rows


def _print(rows: Sequence[Row]) -> None:
    """Print the table of the figures and the table of the goals."""
    console = Console(width=max(Console().width, 200))
    console.print(table(rows))
    if judged(rows):
        console.print(goals(rows))
    sys.stderr.write(f"written: {DATA}, {CHART}\n")


def _summary(row: Row) -> dict[str, Any]:
    return {
        "scenario": row.scenario.name,
        "system": row.system,
        "seeds": row.seeds,
        "median": {name: row.cell(name) for name in COLUMNS},
    }


def table(rows: Iterable[Row]) -> Table:
    """The table of the medians."""
    result = Table(title="Medians over the seeds", show_lines=False)
    for heading in ("scenario", "rate", "seeds", "system", *COLUMNS.values()):
        left = heading in ("scenario", "system")
        width = 34 if heading == "scenario" else 10 if heading == "system" else None
        result.add_column(heading, justify="left" if left else "right", min_width=width)
    last = ""
    for row in rows:
        is_first = row.scenario.name != last
        if is_first and last:
            result.add_section()
        last = row.scenario.name
        result.add_row(
            row.scenario.title if is_first else "",
            f"{row.scenario.rate:g}/s" if is_first else "",
            str(row.seeds) if is_first else "",
            row.system,
            *(row.cell(name) for name in COLUMNS),
        )
    return result


def goals(rows: Sequence[Row]) -> Table:
    """What the product is to reach, and what was measured."""
    reached, measured = met(rows)
    result = Table(title=f"Goals of the product: {reached} of {measured} reached")
    for heading in ("goal", "limit", "measured", "met"):
        result.add_column(heading, justify="left" if heading == "goal" else "right")
    for cells in judged(rows):
        result.add_row(*cells, style=None if cells[-1] == YES else "red")
    return result


@cache
def _commit() -> str:
    """The commit at which the command began."""
    answer = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],  # noqa: S607 - whichever git the developer uses
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.stdout.strip() or "unknown"


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


if __name__ == "__main__":
    with loopback_only():
        sys.exit(main(sys.argv[1:]))
