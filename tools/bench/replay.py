"""What the snapshot of a replay run costs: `python -m tools.bench.replay [case ...] [--json]`.

The production snapshot and freeze with their production clients; SQS is the stub of the redriver's
bench (10 ms latency with jitter, in a process of its own), DynamoDB and S3 are the strict fakes
in memory, and the router is a function in memory. Each letter is in the manifest at the end, or
the bench fails.

case      letters, settings                              figure to reach
snapshot  10,000 of a DLQ, one thread and then four      40 s with one thread, freeze included
memory    freezes of 50,000 and of 200,000 letters       50 bytes more a letter

Memory is the peak that tracemalloc sees, without what the fakes hold. Calls are requests to SQS,
writes are items in DynamoDB.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[2] / "lambdas"))

from deadletter.aws.wiring.custody import freeze_for, run_objects_for, snapshot_for
from deadletter.replay.freeze import Freeze
from deadletter.replay.manifest import Manifest
from deadletter.replay.names import Name, key_hash, to_lines
from deadletter.replay.objects import StoredObject
from deadletter.replay.plan import ReplayPlan
from tools.bench.redriver import UNPACED, Bench
from tools.bench.sqs_stub import SqsStub

LETTERS = 10_000
MOST_SECONDS = 40.0

FEW, MANY = 50_000, 200_000
MOST_BYTES = 50.0
"""Bytes of memory a letter, between FEW and MANY letters."""

PAGE = 100
"""Letters of a page: the largest chunk of a worker."""

STEP_SECONDS = 840.0
"""The deadline of one step of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotCosts:
    """What one case cost; memory in bytes a letter."""

    case: str
    letters: int
    seconds: float
    freeze_seconds: float
    sqs_calls: float = 0.0
    writes: float = 0.0
    memory: float | None = None


@dataclass(frozen=True, slots=True)
class CaseFigures:
    """The figures of a case, and what is wrong with them."""

    figures: Sequence[SnapshotCosts]
    wrong: Sequence[str] = ()


class SnapshotBench(Bench):
    """One pipeline with its own queues and tables, and the snapshot of its DLQ."""

    def take(self, case: str, letters: int) -> SnapshotCosts:
        """Fill the DLQ and take all of it into a run's custody."""
        self._stub.fill(self.dlq, letters)
        self._stub.reset_counts()
        plan = ReplayPlan(pipeline=self._pipeline.name)
        parts = (self._pipeline, self._resources, self._clients, self._world)
        began = time.monotonic()
        while not snapshot_for(plan, *parts).run(time.time() + STEP_SECONDS).done:
            pass
        moved = time.monotonic()
        report = freeze_for(plan.run_id, *parts).run(time.time() + STEP_SECONDS)
        frozen = time.monotonic()
        objects = run_objects_for(*parts[:3], plan.run_id)
        names = [] if report.index is None else Manifest(objects).names(report.index)
        found = len({name.copy for name in names})
        if found != letters:
            raise SystemExit(f"{case}: {found} of {letters} letters are in the manifest")
        return SnapshotCosts(
            case=case,
            letters=letters,
            seconds=moved - began,
            freeze_seconds=frozen - moved,
            sqs_calls=self._stub.counts().total / letters,
            writes=self._dynamodb.writes / letters,
        )


def snapshot() -> CaseFigures:
    figures = []
    for workers in (1, 4):
        with SqsStub() as stub:
            bench = SnapshotBench(stub, replace(UNPACED, workers=workers))
            figures.append(bench.take(f"snapshot, {workers} threads", LETTERS))
    seconds = figures[0].seconds + figures[0].freeze_seconds
    wrong = [f"{seconds:.0f} s, at most {MOST_SECONDS:.0f}"] if seconds > MOST_SECONDS else []
    return CaseFigures(figures, wrong)


class Folder:
    """The objects of a run in a folder of this machine: they are in no process's memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, name: str, data: bytes) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def get(self, name: str) -> bytes | None:
        path = self._folder / name
        return path.read_bytes() if path.exists() else None

    def get_part(self, name: str, start: int, length: int) -> bytes:
        with (self._folder / name).open("rb") as file:
            file.seek(start)
            return file.read(length)

    def listed(self, folder: str) -> Sequence[StoredObject]:
        paths = sorted((self._folder / folder).glob("*.jsonl"))
        return [StoredObject(f"{folder}{path.name}", path.stat().st_size) for path in paths]

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            (self._folder / name).unlink(missing_ok=True)


class AllHeld:
    """A waiting room that has every letter that a page names."""

    def __init__(self, shard_of: Callable[[str], int]) -> None:
        self._shard_of = shard_of

    def held(self, lane: str, places: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], int]:
        return {place: self._shard_of(place[0]) for place in places}


def letters_of(number: int) -> Iterator[Name]:
    for at in range(number):
        copy = f"{at * 2_654_435_761 % 2**32:08x}-0000-4000-8000-{at:012x}"
        yield Name(
            copy=copy,
            origin=copy,
            place=(f"orders#letter#{copy}", "letter"),
            key=key_hash(copy),
            tenant=f"tenant-{at % 100}",
            cause="0123456789abcdef",
            category="DEPENDENCY",
            attempt=3,
            size=1_000,
            first_sent=1_790_000_000_000 + at,
        )


def frozen(number: int) -> SnapshotCosts:
    with TemporaryDirectory() as folder:
        objects = Folder(Path(folder))
        page: list[Name] = []
        for at, name in enumerate(letters_of(number)):
            page.append(name)
            if len(page) == PAGE:
                objects.put(f"pages/run1-{at // PAGE:06}.jsonl", to_lines(page))
                page = []
        room = AllHeld(lambda place: int(key_hash(place.rpartition("#")[2])[:2], 16) % 8)
        freeze = Freeze("r", objects=objects, custody=room, clock=time.time)
        tracemalloc.start()
        began = time.monotonic()
        report = freeze.run(time.time() + STEP_SECONDS)
        seconds = time.monotonic() - began
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        if report.index is None or report.index.letters != number:
            raise SystemExit(f"a freeze of {number} letters ended with {report}")
        return SnapshotCosts(
            case="memory of a freeze",
            letters=number,
            seconds=0.0,
            freeze_seconds=seconds,
            memory=peak / number,
        )


def memory() -> CaseFigures:
    few, many = frozen(FEW), frozen(MANY)
    assert few.memory is not None
    assert many.memory is not None
    slope = (many.memory * MANY - few.memory * FEW) / (MANY - FEW)
    wrong = [f"{slope:.0f} bytes a letter, at most {MOST_BYTES:.0f}"] if slope > MOST_BYTES else []
    print(f"a freeze needs {slope:.1f} bytes more for each letter", file=sys.stderr)
    return CaseFigures([few, many], wrong)


CASES: Mapping[str, Callable[[], CaseFigures]] = {
    case.__name__: case for case in (snapshot, memory)
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures of the cases; 1 if one is over its limit."""
    parser = argparse.ArgumentParser(description="what the snapshot of a replay run costs")
    parser.add_argument("cases", nargs="*", metavar="case", help=", ".join(CASES))
    parser.add_argument("--json", action="store_true", help="as JSON")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.cases) - CASES.keys())
    if unknown:
        parser.error(f"unknown case {unknown[0]!r}; there are: {', '.join(CASES)}")
    results: list[SnapshotCosts] = []
    wrong: list[str] = []
    for name in options.cases or CASES:
        found = CASES[name]()
        results += found.figures
        wrong += [f"{name}: {fault}" for fault in found.wrong]
    if options.json:
        print(json.dumps({"figures": [asdict(row) for row in results], "wrong": wrong}, indent=2))
    else:
        print(f"{'case':<22} {'letters':>8} {'move s':>7} {'freeze s':>8} {'SQS':>6} {'writes':>7}")
        for row in results:
            print(
                f"{row.case:<22} {row.letters:>8} {row.seconds:>7.1f} {row.freeze_seconds:>8.1f}"
                f" {row.sqs_calls:>6.3f} {row.writes:>7.3f}"
            )
    for fault in wrong:
        print(fault, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
