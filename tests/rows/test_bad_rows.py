"""One bad row costs one letter: whatever is wrong with a row, all other letters go on.

The rows are those that production writes, as a table in memory has seen them written; each of
their attributes is damaged in every way that a table lets it be.
"""

from __future__ import annotations

import ast
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from zlib import crc32

import pytest
from botocore.exceptions import ClientError

from deadletter.aws.circuits import DynamoDBCircuits
from deadletter.aws.collisions import DynamoDBCollisions
from deadletter.aws.replay_runs import DynamoDBReplayRuns
from deadletter.aws.rows import MOST_BROKEN, MetRows
from deadletter.aws.waiting_room import DynamoDBLanes
from deadletter.aws.watch_store import DynamoDBWatchStore
from deadletter.contract import ROWS_KEPT, Partition
from deadletter.processing.idempotency import BusinessKey
from tests.rows.damage import FAR, HUGE, Damage, damages
from tests.rows.pipeline import WholePipeline, told
from tests.rows.recorded import ADAPTERS, KEYS, Recorded, recording
from tests.simulation.search import FIRST
from tests.tables import CIRCUITS, LETTERS

HOUR = 3_600.0

OF_RULES: Mapping[str, tuple[str, ...]] = {
    "stop": ("held", "large"),
    "free": ("freed",),
    "later": ("delayed",),
    "trickle": ("trickle",),
    "aside": ("aside",),
    "look": ("free", "ten"),
}
"""What the uids of the letters begin with that each rule matches, and acts on."""


@dataclass(frozen=True)
class Scene:
    """A pipeline whose rows were recorded, and where its letters are once all has had its turn."""

    world: WholePipeline
    recorded: Recorded
    fates: Mapping[str, str]


@cache
def scene(fifo: bool = False) -> Scene:
    recorded = Recorded()
    with recording(recorded):
        world = told(fifo=fifo)
    after = world.copied()
    assert play(after) == []
    return Scene(world, recorded, after.places())


def play(world: WholePipeline) -> list[str]:
    """Minutes in which everything that reads rows has its turn, and some more an hour later.

    Returns what any function has raised.
    """
    raised: list[str] = []

    def turn(call: Callable[..., object], *arguments: str) -> None:
        try:
            call(*arguments)
        except Exception as error:
            raised.append(f"{call.__name__}{arguments}: {type(error).__name__}: {error}")

    for pause in (61, 61, HOUR + 100, 61):
        world.pass_seconds(pause)
        turn(world.watch)
        turn(world.redrive)
        turn(world.redrive, "slow")
        turn(world.consume)
        for run in world.runs.values():
            if world.steps[run] not in ("done", "hand over"):
                turn(world.step, run)
    return raised


def own_letters(scene: Scene, damage: Damage) -> set[str]:
    """The letters that a row is about: what may become of them is for the row to say."""
    keys = list(damage.example.key.values())
    partition, sort = keys[0]["S"], keys[1]["S"]
    everything, kind = scene.fates.keys(), damage.kind.partition(" in ")[0]

    def beginning_with(*words: str) -> set[str]:
        return {uid for uid in everything if uid.startswith(words)} if words else set()

    match kind.split(" ")[0]:
        case "message":
            uid = scene.world.uid_in(damage.example.item)
            # Those behind it in its ordering key wait for it.
            return beginning_with("ordered") if uid.startswith("ordered") else {uid}
        case "group":
            # The letters behind it never overtake it.
            uid = scene.world.uid_in(damage.example.item)
            return beginning_with(uid.rstrip("0123456789"), *(["large"] * uid.startswith("held")))
        case "ledger":
            return {scene.world.uid_of(partition.rpartition("#")[2])}
        case "done":
            digest = partition.rpartition("#")[2]
            return {uid for uid in everything if _digest(uid) == digest} | {"well1", "twin1"}
        case "line":
            return beginning_with("ordered")
        case "run" | "runs":
            run = sort if kind == "runs" else partition.split("#")[2]
            return beginning_with(*(name for name, id_ in scene.world.runs.items() if id_ == run))
        case "circuit" if sort.removesuffix("#config") != "orders":
            return beginning_with(sort.removesuffix("#config"))
        case "circuit":
            # The pipeline's own circuit stands for the dependency of all its letters.
            return set(everything)
        case "rules" | "matches":
            return beginning_with(*OF_RULES[sort.partition("#")[0]])
        case "lanes":
            places = scene.world.places()
            return {uid for uid, at in places.items() if at.startswith(f"room orders|{sort}|")}
    return set()


def _digest(uid: str) -> str:
    return BusinessKey(f"key:{uid}", "").digest


def named(world: WholePipeline) -> set[str]:
    """The rows that `dlq status` names: what runs have left, and what it meets itself."""
    rows, dynamodb, clock = MetRows[str](most=MOST_BROKEN), *_client(world)
    watch = DynamoDBWatchStore(dynamodb, LETTERS, "orders", rows.add)
    _, memories = watch.read()
    DynamoDBLanes(dynamodb, LETTERS, "orders", note_bad_row=rows.add).lanes()
    circuits = DynamoDBCircuits(dynamodb, CIRCUITS, "orders", rows.add)
    circuits.find("orders")
    circuits.troubled()
    DynamoDBReplayRuns(dynamodb, LETTERS, "orders", clock, rows.add).all()
    known = DynamoDBCollisions(dynamodb, CIRCUITS, "orders").read()
    met = {row for memory in memories.values() for row in memory.bad_rows}
    return {*rows.take(), *met, *([] if known is None else [known.bad_claim])}


def _client(world: WholePipeline) -> tuple[Any, Callable[[], float]]:
    return world.stage.dynamodb, world.stage.clock


def wrongs(scene: Scene, damage: Damage) -> Iterator[str]:
    """What one damaged row does that it must not do."""
    world = scene.world.copied()
    at_rest = _stored(world, damage) == damage.example.item
    if not at_rest and damage.kind.startswith((Partition.LETTER, Partition.GROUP)):
        # It is in another place by now: as it was, there would be two of it.
        return
    try:
        world.stage.dynamodb.put_item(TableName=damage.example.table, Item=damage.row)
    except ClientError:
        # The table refuses it: an index has a key of another type.
        return
    raised = play(world)
    places, own = world.places(), own_letters(scene, damage)
    is_felt = False
    for uid, fate in scene.fates.items():
        where = places.get(uid)
        # What waits for longer than the test lasts is read by no run meanwhile.
        is_felt |= where != fate and not (where is None and fate.startswith("room"))
        if where != fate and uid not in own:
            yield f"{damage}: {uid} is {where} and not {fate}"
        if where is None and _stored(world, damage) is None:
            yield f"{damage}: {uid} is lost"
    # Step Functions tries a step again, and the watch starts a lost execution anew.
    of_its_run = [text for text in raised if text.startswith("step(") and not _is_defect(text)]
    if not damage.kind.startswith("run"):
        of_its_run = []
    yield from (f"{damage}: {text}" for text in raised if text not in of_its_run)
    if (
        is_felt
        and at_rest
        and not _is_hidden(damage)
        and damage.example.name not in named(world)
        and not _is_told(world, damage)
    ):
        yield f"{damage}: nothing names {damage.example.name}"


AS_GOOD = {("run ticket", "returned")}
"""Texts that may be any, or missing: of a ticket whose letter has not come back, or another has."""


def _stored(world: WholePipeline, damage: Damage) -> Mapping[str, Any] | None:
    """The row as it is now: it is what is left of its letter."""
    key = damage.example.key
    answer = world.stage.dynamodb.get_item(TableName=damage.example.table, Key=key)
    return answer.get("Item")


def _is_hidden(damage: Damage) -> bool:
    """Whether the row of a waiting letter has lost its place in the index of lanes.

    It stays as it is; only a scan of the table would find it, which no role of ours may make.
    """
    is_letter = damage.kind.startswith((Partition.LETTER, Partition.GROUP))
    return is_letter and damage.attribute in ("lane", "due")


def _is_defect(text: str) -> bool:
    """Whether something else was raised than that a run's own row cannot be read."""
    return "RunsUnavailable" not in text and "BadRun" not in text


def _is_told(world: WholePipeline, damage: Damage) -> bool:
    """Whether people learn of a row where they look for others of its kind.

    A rule that matches nothing is named by its id, and a run that is held says why.
    """
    is_read = damage.value is None or "S" in damage.value
    if is_read and (damage.kind, damage.attribute) in AS_GOOD:
        return True
    if damage.value is None and damage.kind == "rules":
        # Without a column it is another rule, and as good.
        return True
    if damage.kind == "rules":
        sort = damage.example.key["rule_id"]["S"]
        return any(sort in report.refused_rules for report in world.reports)
    dynamodb, clock = _client(world)
    runs = DynamoDBReplayRuns(dynamodb, LETTERS, "orders", clock).all()
    key = damage.example.name.partition(" ")[2]
    return any(
        key in run.because or "the stored plan is not the one" in run.because for run in runs
    )


def all_wrongs(scene: Scene, is_wanted: Callable[[Damage, int], bool]) -> list[str]:
    """What goes wrong with the wanted ones of all damages, numbered within their attributes."""
    found: list[str] = []
    for kind in sorted(scene.recorded.kinds):
        numbers: Counter[str] = Counter()
        for damage in damages(scene.recorded, kind):
            numbers[damage.attribute] += 1
            if is_wanted(damage, numbers[damage.attribute]):
                found += wrongs(scene, damage)
    return found


# The tests


# By day one attribute of so many of each kind of row: other ones for another commit.
ONE_OF = 12


def by_day(damage: Damage, number: int) -> bool:
    """One way for each attribute, and the same one in each run of a commit."""
    attributes = {*damage.example.item, damage.attribute}.difference(KEYS[damage.example.table])
    turn = sorted(attributes).index(damage.attribute) + FIRST
    way = crc32(f"{damage.kind} {damage.attribute}".encode()) % 3 + 1
    return number == way and turn % min(ONE_OF, len(attributes)) == 0


@pytest.mark.slow_because("a twelfth of the attributes of all rows, and a pipeline's day for each")
def test_no_bad_row_costs_more_than_its_own_letter() -> None:
    """Attributes of each row, damaged in one way; the test below goes through all in each way."""
    assert all_wrongs(scene(), by_day) == []


@pytest.mark.parametrize(
    "is_wanted",
    [
        pytest.param(by_day, id="in one way"),
        pytest.param(lambda *_: True, id="in any way", marks=pytest.mark.nightly),
    ],
)
def test_no_letter_of_a_group_is_overtaken_because_of_a_bad_row(
    is_wanted: Callable[[Damage, int], bool],
) -> None:
    groups = Recorded({
        kind: rows for kind, rows in scene(fifo=True).recorded.kinds.items()
        if kind.startswith(Partition.GROUP)
    })  # fmt: skip
    assert groups.kinds
    assert all_wrongs(replace(scene(fifo=True), recorded=groups), is_wanted) == []


@pytest.mark.nightly
def test_no_row_that_is_damaged_in_any_way_costs_more_than_its_own_letter() -> None:
    assert all_wrongs(scene(), lambda _damage, _number: True) == []


def test_every_kind_of_row_that_the_contract_names_is_recorded() -> None:
    """A kind that is missing here would be damaged by no test: let `told` write it."""
    recorded = {
        kind.partition(" in ")[0] for fifo in (False, True) for kind in scene(fifo).recorded.kinds
    }
    parts = ("plan", "plan counted", "discard", "approval", "status", "restored", "ticket")
    named = {str(kind) for kind in Partition if kind is not Partition.RUN}
    named |= {f"run {part}" for part in parts}
    named |= {"lease shard", "watch", "circuit", "causes", "collisions"}
    named |= {"rules", "audit", "endpoints"}
    assert recorded == named


def test_every_function_that_writes_rows_has_written_the_recorded_ones() -> None:
    """A row that is written by a function which no scene calls would not be among them."""
    at_work = scene().recorded.writers | scene(fifo=True).recorded.writers
    assert writers() - at_work == ELSEWHERE


# Rows that an enemy or a tired person wrote, with more than one attribute wrong


def edited(table: str, partition: str, sort: str = "", **wrong: Any) -> tuple[WholePipeline, str]:
    """The recorded pipeline with these attributes in the first row of a key; the row's name."""
    world = scene().world.copied()
    dynamodb, names = _client(world)[0], KEYS[table]
    for row in dynamodb.scan(TableName=table)["Items"]:
        key = [row[name]["S"] for name in names]
        if key[0].startswith(partition) and key[1].startswith(sort):
            dynamodb.put_item(TableName=table, Item=row | wrong)
            return world, " ".join((table, *key))
    raise AssertionError("no such row")


def test_an_intent_that_ends_after_every_lock_keeps_no_message() -> None:
    """Its two times agree. Its messages waited for its end until the DLQ dropped them."""
    far = {"expires": FAR, "ttl": {"N": str(2**38 + int(ROWS_KEPT))}}
    world, name = edited(LETTERS, "orders#journal", **far)
    assert play(world) == []
    assert name in named(world)
    for _ in range(3):
        world.pass_seconds(8 * HOUR)
        assert play(world) == []
    where = world.places()
    assert {where[f"free{number}"] for number in (1, 2, 3, 4)} == {"processed"}


def review_at(place: str, due: float = 5.0) -> dict[str, Any]:
    """A review that goes on behind a place: whole, but for what is in its only list."""
    known = {"edition": "x", "since": 0, "began": 1_790_000_000, "finished": [], "at": 0}
    return {"S": json.dumps({**known, "reached": {"0": [place, due]}, "is_done": False})}


A_PLACE = json.dumps(["orders#message#x", "message"])


@pytest.mark.parametrize(
    ("table", "partition", "sort", "wrong"),
    [
        (LETTERS, "orders#lanes", "delay:later", {"review": review_at("garbage")}),
        (LETTERS, "orders#lanes", "delay:later", {"review": review_at('["a"]')}),
        (LETTERS, "orders#lanes", "delay:later", {"review": review_at("[1, 2]")}),
        (LETTERS, "orders#lanes", "delay:later", {"review": review_at('["a", "message"]')}),
        (LETTERS, "orders#lanes", "delay:later", {"review": review_at(A_PLACE, -1e300)}),
        (LETTERS, "orders#lanes", "delay:later", {"review": review_at(A_PLACE, math.nan)}),
        (LETTERS, "orders#lanes", "circuit:erp", {"touched": {"N": f"-{HUGE}"}}),
    ],
)
def test_a_row_that_is_wrong_in_one_part_stops_nothing_and_is_named(
    table: str, partition: str, sort: str, wrong: dict[str, Any]
) -> None:
    world, name = edited(table, partition, sort, **wrong)
    assert name in named(world)
    assert play(world) == []
    assert world.places() == scene().fates


def test_a_fruitless_run_that_is_yet_to_come_keeps_no_message() -> None:
    world, _ = edited(LETTERS, "orders#lease", "dlq", fruitless={"N": "3"}, fruitless_at=FAR)
    assert play(world) == []
    assert world.places() == scene().fates


WRITES = frozenset(
    (
        *("put", "change", "changed", "together", "write_many"),
        *("put_item", "update_item", "batch_write_item", "transact_write_items"),
    )
)
"""The calls of tables and clients that write rows."""

ELSEWHERE = frozenset(
    (
        # They delete rows, or take attributes away.
        *(("ledger", "erase"), ("edits", "forget"), ("waiting_room", "delete")),
        ("outcomes", "_remove_stale"),
        # They write a bad row anew, with the attributes that it had.
        *(("breaker", "_replace"), ("claims", "_whole")),
        # They change the due time, the hold or the fate that others have written.
        *(("waiting_room", "_reschedule"), ("replay_tickets", "settle")),
        # Its row is never read: a write asks whether it has one attribute.
        ("run_letters", "close"),
        # The tests of shared faults damage what it writes.
        *(("shared_look", "__call__"), ("shared_look", "_take")),
        # It puts an intent as `write` does.
        ("journal", "merge"),
        # It writes the pace that the breaker writes.
        ("outcomes", "_set_pace"),
        # The tests of its store damage each part of what it writes.
        ("outcomes", "_write_sick"),
    )
)
"""Functions that no scene needs: what they write is of a kind, and has attributes, as others do."""


def writers() -> set[tuple[str, str]]:
    """The functions of the adapters that call a table or its client to write."""
    found = set()
    for path in ADAPTERS.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and any(map(_writes, ast.walk(node))):
                found.add((path.stem, node.name))
    return {(module, name) for module, name in found if module != "table"}


def _writes(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    of = node.func.value
    name = of.attr if isinstance(of, ast.Attribute) else of.id if isinstance(of, ast.Name) else ""
    return node.func.attr in WRITES and name.strip("_") in ("table", "client", "messages")
