"""What the snapshot of a replay run costs: `python -m lab.bench.replay [case ...] [--json]`.

The production snapshot and freeze with their production clients; SQS is the stub
(`lab.bench.lean_stub`: 10 ms latency with jitter, in a process of its own), DynamoDB and S3 are
the strict fakes in memory, and the router is a function in memory. Each letter is in the manifest
at the end, or the bench fails.

case       letters, settings                             figure to reach
snapshot   10,000 of a DLQ, one thread and then four     40 s with one thread, freeze included
originals  3,000 of 2 KB, without originals and with     1.15 times the CPU and the requests, and
           them, by turns                                $0.10 for a million letters
taking     snapshots of 50,000 and of 200,000 letters    50 bytes more a letter
freezing   freezes of 50,000 and of 200,000 letters      50 bytes more a letter

CPU is ours, without that of the fakes; the least of each side counts. Memory is the peak that
tracemalloc sees, without what the fakes hold. Calls are requests to SQS, writes are items in
DynamoDB. What originals cost is reckoned as if nothing could be compressed:

    puts a letter x price of a put  +  bytes a letter x price of a GB-month
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tracemalloc
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "lambdas"))

from deadletter.aws.clients import Clients
from deadletter.aws.replay_runs import packed
from deadletter.aws.wiring.moving import redriver_setup_for
from deadletter.aws.wiring.replaying import freeze_for, snapshot_for
from deadletter.aws.wiring.stores import Stores
from deadletter.aws.wiring.world import World
from deadletter.contract import MAIN_DLQ
from deadletter.message.stamp import Stamp
from deadletter.redrive.report import Tally
from deadletter.redrive.waiting_room import SHARDS, HeldItem
from deadletter.replay.freeze import Freeze
from deadletter.replay.manifest import Manifest
from deadletter.replay.names import CountedOrigins, Name, key_hash, to_lines
from deadletter.replay.objects import StoredObject, lines_in
from deadletter.replay.plan import ReplayPlan
from deadletter.replay.snapshot import Snapshot
from deadletter.routing.router import LaneAnswer, Question, RouterAnswer
from deadletter.routing.selection import Pick, Selection
from deadletter.settings.resources import Resources
from deadletter.testing.fakes import MemoryDynamoDB
from infra.prices import MILLION, Price
from infra.usage import Usage
from lab.bench.lean_queue import LetterSeries
from lab.bench.lean_stub import Conditions, LeanStub
from lab.bench.memory_pipeline import UNPACED, Counted, PipelineInMemory
from lab.bench.tables import create_tables

LETTERS = 10_000
ORIGINALS = 3_000
MOST_SECONDS = 40.0

TURNS = 4
"""Times that each side of a comparison is measured: the machine does other things as well."""

MOST_TIMES = 1.15
"""Times the CPU, and the requests, that originals may make of a snapshot."""

MOST_DOLLARS = 0.10
"""Of a million letters of 2 KB, kept for the 30 days of the setting."""

FREEZES = (50_000, 200_000)
SNAPSHOTS = (50_000, 200_000)
"""Letters of the two cases whose memory is compared. A run remembers 10,000 copies that it moved:
from there on its memory grows by what each letter adds."""

MOST_BYTES = 50.0
"""Bytes of memory that a letter may add."""

PAGE = 100
"""Letters of a page: the largest chunk of a worker."""

LONGEST_PASS = 3 * 3_600.0
"""Seconds within which the pass ends whose memory is measured; traced, it is many times slower."""

STEP_SECONDS = 840.0
"""The deadline of one step of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotCosts:
    """What one case cost; the peak of its memory, and what it keeps in S3
    before it is compressed (`kept`), in bytes.

    `requests` go to SQS, DynamoDB, S3 and the router together, `puts` of them store originals.
    """

    case: str
    letters: int
    seconds: float
    freeze_seconds: float = 0.0
    sqs_calls: float = 0.0
    writes: float = 0.0
    cpu: float = 0.0
    requests: int = 0
    puts: int = 0
    kept: int = 0
    peak: float = 0.0


@dataclass(frozen=True, slots=True)
class CaseFigures:
    """The figures of a case, and what is wrong with them."""

    figures: Sequence[SnapshotCosts]
    wrong: Sequence[str] = ()


class SnapshotBench(PipelineInMemory):
    """One pipeline with its own queues and tables, and the snapshot of its DLQ."""

    def take(self, case: str, letters: int) -> SnapshotCosts:
        """Take all letters of the DLQ into a run's custody."""
        self._stub.reset()
        plan = ReplayPlan(pipeline=self._pipeline.name)
        stores = Stores(self._pipeline, self._resources, self._clients, self._world)
        cpu, calls = self._cpu(), self._calls()
        began = time.monotonic()
        while not snapshot_for(stores, plan).run(time.time() + STEP_SECONDS).done:
            pass
        moved = time.monotonic()
        report = freeze_for(replace(stores), plan).run(time.time() + STEP_SECONDS)
        frozen, ended = time.monotonic(), (self._cpu(), self._calls())
        in_bucket = stores.originals(plan.run_id)
        # As if nothing could be compressed: bodies of this bench are nearly nothing then.
        kept = [
            b"".join(lines_in(in_bucket.get(each.name) or b"")) for each in in_bucket.listed("")
        ]
        objects = stores.objects(plan.run_id)
        names = [] if report.index is None else Manifest(objects).names(report.index)
        found = len({name.copy for name in names})
        if found != letters:
            raise SystemExit(f"{case}: {found} of {letters} letters are in the manifest")
        return SnapshotCosts(
            case=case,
            letters=letters,
            seconds=moved - began,
            freeze_seconds=frozen - moved,
            sqs_calls=self._stub.spent().sqs_calls / letters,
            writes=self._dynamodb.writes / letters,
            cpu=ended[0] - cpu,
            requests=ended[1] - calls + round(self._stub.spent().sqs_calls),
            puts=len(kept),
            kept=sum(map(len, kept)),
        )

    def keep(self, days: int) -> None:
        """Keep originals for so many days."""
        self._resources = replace(self._resources, replay_days=days)

    @property
    def _fakes(self) -> Sequence[Counted]:
        s3: Any = self._clients.s3
        return (self._dynamodb, self._router_dynamodb, self._functions, s3)

    def _cpu(self) -> float:
        """CPU seconds of this process beside those of the fakes."""
        # What the router does is inside the fake that invokes it, on both sides of a comparison.
        return time.process_time() - sum(fake.cpu for fake in self._fakes)

    def _calls(self) -> int:
        return sum(fake.calls.total() for fake in self._fakes)


def snapshot() -> CaseFigures:
    figures = []
    for workers in (1, 4):
        with LeanStub(Conditions(letters=LetterSeries(number=LETTERS))) as stub:
            bench = SnapshotBench(stub, replace(UNPACED, workers=workers))
            figures.append(bench.take(f"snapshot, {workers} threads", LETTERS))
    seconds = figures[0].seconds + figures[0].freeze_seconds
    wrong = [f"{seconds:.0f} s, at most {MOST_SECONDS:.0f}"] if seconds > MOST_SECONDS else []
    return CaseFigures(figures, wrong)


_WORDS = ("order", "shipped", "customer", "address", "total", "price", "item", "4711", "19.90")


class TextSeries(LetterSeries):
    """Letters whose bodies give the compression as much to do as text does."""

    def body(self, number: int) -> str:
        start, _, _ = super().body(number).partition("xx")
        words = Random(number).choices(_WORDS, k=self.body_bytes // 4)  # noqa: S311 - no secret
        return start + " ".join(words)[: self.body_bytes - len(start) - 2] + '"}'


def originals() -> CaseFigures:
    """The same snapshot without and with originals, by turns in one process."""
    series = TextSeries(number=ORIGINALS, body_bytes=2_048)
    sides: dict[int, list[SnapshotCosts]] = {0: [], 30: []}
    for _ in range(TURNS):
        for days, costs in sides.items():
            with LeanStub(Conditions(letters=series)) as stub:
                bench = SnapshotBench(stub, replace(UNPACED, workers=1))
                bench.keep(days)
                costs.append(bench.take(f"originals, {days} days", ORIGINALS))
    without, kept = (min(costs, key=lambda each: each.cpu) for costs in sides.values())
    cpu, requests = kept.cpu / without.cpu, kept.requests / without.requests
    of_million = MILLION / ORIGINALS
    dollars = Usage(
        {
            Price.PUT_REQUEST: kept.puts * of_million,
            Price.STORED_GB: kept.kept * of_million / 1e9,
        }
    ).dollars
    print(
        f"originals: {cpu:.3f} times the CPU, {requests:.3f} times the requests,"
        f" {kept.puts} objects of {kept.kept:,} bytes, ${dollars:.4f} a million",
        file=sys.stderr,
    )
    wrong = [
        f"{times:.2f} times the {of}, at most {MOST_TIMES}"
        for of, times in (("CPU", cpu), ("requests", requests))
        if times > MOST_TIMES
    ]
    if dollars > MOST_DOLLARS:
        wrong.append(f"${dollars:.2f} a million, at most ${MOST_DOLLARS:.2f}")
    return CaseFigures([without, kept], wrong)


class Folder:
    """The objects of a run in a folder of this machine: they are in no process's memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, name: str, data: bytes) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def put_first(self, name: str, data: bytes) -> bool:
        self.put(name, data)
        return True

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


_BODY = b"x" * 1_024


class AllHeld:
    """A waiting room that has every letter that a page names."""

    def __init__(self, shard_of: Callable[[str], int]) -> None:
        self._shard_of = shard_of

    def held(self, lane: str, places: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], int]:
        return {place: self._shard_of(place[0]) for place in places}

    def contents(self, lane: str, places: Sequence[tuple[str, str]]) -> Iterator[HeldItem]:
        for place, shard in self.held(lane, places).items():
            yield HeldItem(place, shard, "dlq", '{"origin":"o"}', b'{"body":"%s"}' % _BODY)


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


class Endless:
    """An SQS client whose queue is full of letters, until so many were received."""

    def __init__(self, letters: int) -> None:
        self._names = letters_of(letters)

    def receive_message(self, *, MaxNumberOfMessages: int, **_: Any) -> Any:  # noqa: N803
        names = islice(self._names, MaxNumberOfMessages)
        return {"Messages": [_message(name) for name in names]}

    def delete_message_batch(self, *, Entries: Sequence[Any], **_: Any) -> Any:  # noqa: N803
        return {"Successful": [{"Id": entry["Id"]} for entry in Entries]}

    def get_queue_attributes(self, **_: Any) -> Any:
        names = ("", "NotVisible", "Delayed")
        depths = {f"ApproximateNumberOfMessages{name}": "0" for name in names}
        return {"Attributes": {"QueueArn": "arn:aws:sqs:us-east-1:111122223333:dlq", **depths}}


def _message(name: Name) -> Any:
    return {
        "MessageId": name.copy,
        "ReceiptHandle": f"handle of {name.copy}",
        "Body": '{"tenantId": "a"}',
        "MD5OfBody": "",
        "Attributes": {"SentTimestamp": str(name.first_sent), "SenderId": "AIDAPRODUCER"},
    }


class Forgetful:
    """A DynamoDB client that keeps everything but the letters that are put in."""

    def __init__(self, real: MemoryDynamoDB) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def batch_write_item(self, **_: Any) -> Any:
        return {}


class TakesAll:
    """A router that lets every letter join."""

    def decide(self, questions: Sequence[Question]) -> RouterAnswer:
        return RouterAnswer(())

    def open_lanes(self, lanes: Sequence[str]) -> LaneAnswer:
        return LaneAnswer(())

    def select(
        self, questions: Sequence[Question], selection: Selection, *, release: bool = False
    ) -> Sequence[Pick]:
        return [
            Pick(message_id=copy, chosen=True, stamp=Stamp(copy, 0, 1_790_000_000_000))
            for copy in (question.letter.message_id for question in questions)
        ]


def taken(number: int, objects: Folder) -> float:
    """The peak of a snapshot of so many letters, in bytes."""
    real = MemoryDynamoDB(time.time)
    create_tables(real)
    sqs: Any = Endless(number)
    dynamodb: Any = Forgetful(real)
    nothing: Any = None
    made = Clients(
        sqs=sqs, sending=sqs, dynamodb=dynamodb, journal=dynamodb, s3=nothing, functions=nothing
    )
    resources = Resources(
        main_url="main",
        dlq_url="dlq",
        parking={"default": "parking"},
        letters_table="letters",
        letters_bucket="bodies",
    )
    world = World(
        clock=time.time,
        wait=time.sleep,
        new_id=lambda: uuid.uuid4().hex,
        random=Random(1),  # noqa: S311 - repeatable, not secret
    )
    pipeline = replace(UNPACED, workers=1)
    tracemalloc.start()
    # As the list of counted letters is read: its rows are all that grows with their number.
    rows = list(packed([name.origin for name in letters_of(number)]))
    tracemalloc.reset_peak()
    counted = CountedOrigins(rows)
    tally = Tally()
    stores = Stores(pipeline, resources, made, world, asks=TakesAll()).telling(tally)
    setup = redriver_setup_for(stores, MAIN_DLQ, tally)
    plan = ReplayPlan(pipeline="orders", counted=number)
    snapshot = Snapshot(setup, plan, objects=objects, counted=counted, token=setup.owner)
    # One pass: what it remembers would begin anew with the next one.
    report = snapshot.run(time.time() + LONGEST_PASS)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    if not report.done or report.named != number:
        raise SystemExit(f"a snapshot of {number} letters ended with {report}")
    return peak


def frozen(number: int, objects: Folder) -> float:
    """The peak of a freeze of so many letters, in bytes."""
    page: list[Name] = []
    for at, name in enumerate(letters_of(number)):
        page.append(name)
        if len(page) == PAGE:
            objects.put(f"pages/run1-{at // PAGE:06}.jsonl", to_lines(page))
            page = []
    room = AllHeld(lambda place: int(key_hash(place.rpartition("#")[2])[:2], 16) % SHARDS)
    freeze = Freeze(
        "r",
        objects=objects,
        originals=objects,
        custody=room,
        token=uuid.uuid4().hex,
        clock=time.time,
    )
    tracemalloc.start()
    report = freeze.run(time.time() + STEP_SECONDS)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    if report.index is None or report.index.letters != number:
        raise SystemExit(f"a freeze of {number} letters ended with {report}")
    return peak


def _slope(
    case: str, numbers: tuple[int, int], peak_of: Callable[[int, Folder], float]
) -> CaseFigures:
    """What each letter adds to the peak of a case."""
    figures: list[SnapshotCosts] = []
    peaks: list[float] = []
    for number in numbers:
        with TemporaryDirectory() as folder:
            began = time.monotonic()
            peaks.append(peak_of(number, Folder(Path(folder))))
            seconds = time.monotonic() - began
        figures.append(SnapshotCosts(case=case, letters=number, seconds=seconds, peak=peaks[-1]))
    slope = (peaks[1] - peaks[0]) / (numbers[1] - numbers[0])
    print(f"{case}: {slope:.1f} bytes more for each letter", file=sys.stderr)
    is_wrong = slope > MOST_BYTES
    wrong = [f"{slope:.0f} bytes a letter, at most {MOST_BYTES:.0f}"] if is_wrong else []
    return CaseFigures(figures, wrong)


def taking() -> CaseFigures:
    return _slope("memory of a snapshot", SNAPSHOTS, taken)


def freezing() -> CaseFigures:
    return _slope("memory of a freeze", FREEZES, frozen)


CASES: Mapping[str, Callable[[], CaseFigures]] = {
    case.__name__: case for case in (snapshot, originals, taking, freezing)
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
