"""Rows are hostile: who may write one row harms no letter but those that the row is about.

Each role that may write the messages table puts hostile rows into every partition that its policy
names, with every attribute that the policy lets it name. Then each reader of the pipeline `theirs`
runs in its own role, as IAM would let it, and sees and does what it does without these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import fields, replace
from random import Random
from typing import Any

import pytest
from botocore.exceptions import ClientError

from deadletter.aws.cause_entries import DynamoDBCauseEntries
from deadletter.aws.clients import Clients
from deadletter.aws.dynamodb import stored
from deadletter.aws.edits import DynamoDBBookVersions
from deadletter.aws.journal import DynamoDBJournal
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.aws.objects import S3StoredBodies
from deadletter.aws.replay_runs import DynamoDBReplayPlans, DynamoDBReplayRuns
from deadletter.aws.waiting_room import DynamoDBLanes, DynamoDBWaitingRoom
from deadletter.aws.watch_store import DynamoDBWatchStore
from deadletter.aws.wiring.judging import router_for
from deadletter.contract import (
    CAUSE_SHARDS,
    ROWS_KEPT,
    Category,
    Partition,
    body_object,
    cause_partition,
    circuit_lane,
    lane_partition,
    run_lane,
)
from deadletter.failure.failure import Failure
from deadletter.message import stamp as stamps
from deadletter.message.confirmation import Confirmation
from deadletter.message.letter import Letter, compact_json, to_json
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.outage.canaries import LaneCanaries
from deadletter.redrive.journal import Intent, Plan, key_of
from deadletter.redrive.order import Order
from deadletter.redrive.orphans import delete_orphans
from deadletter.redrive.waiting_room import FOREVER, SHARDS
from deadletter.replay.plan import DISCARD, ApprovalAnswer, ReplayPlan
from deadletter.replay.run import ReplayRun, RunState
from deadletter.routing.decision import Hold
from deadletter.routing.router import Router, Verdict
from deadletter.settings.pipeline import Pipeline
from deadletter.signals.troubles import Seen, TroubleKind
from deadletter.watch.news import look_at_causes
from deadletter.watch.row import WatchRow
from tests.infra.templates import Synthesis
from tests.infra.test_permissions import (
    GRANTED,
    PEOPLE,
    SHARED,
    functions_statements,
    managed,
    role_of,
    statements,
)
from tests.judge import Judged
from tests.outage.test_canary_sources import canary_setup
from tests.samples import verdict
from tests.simulation.stage import Stage, in_turn, prompt_policy
from tests.tables import BUCKET, LETTERS

VICTIM = "theirs"

Statements = Sequence[Mapping[str, Any]]

# Role -> the partitions of the messages table that it may write. The mover's role of a pipeline is
# that of redriver and replay runs: it moves this pipeline's letters, and so it and the probe are
# hostile to other pipelines only.
WRITES: dict[str, tuple[str, ...]] = {
    "theirs-consumer": ("theirs#ledger#*", "theirs#done#*", "theirs#line#*"),
    "theirs watch": ("theirs#lease", "theirs#runs", "#lease"),
    "theirs route": (),
    "order-events-consumer": ("order-events#ledger#*", "order-events#done#*"),
    "orders consumer": ("orders#ledger#*", "orders#done#*"),
    "orders redrive": ("orders#*",),
    "orders replay": ("orders#*",),
    "orders watch": ("orders#lease", "orders#runs", "#lease"),
    "orders circuit": ("orders#lease", "orders#runs", "#lease"),
    "orders route": (),
    "orders probe": ("orders#journal", "orders#lanes", "orders#message#*", "orders#group#*"),
    "check-rules": ("*#book", "*#matches"),
    "first-heartbeat": (),
    "starter": (),
    "DlqReader": (),
    "BodyReader": (),
    "RuleEditor": (),
    "CircuitOperator": (),
    "EndpointEditor": (),
    "RunOperator": ("*#runs", "*#run#*#plan"),
    "RunApprover": ("*#run#*#approval",),
    "DiscardOperator": ("*#runs", "*#run#*#discard"),
}

WRITING = {"dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:BatchWriteItem"}


def statements_of(app: Synthesis, role: str) -> Statements:
    if role in (policies := managed(app)):
        return policies[role]
    if role in SHARED:
        return statements(role_of(app["Deadletter-Shared"], role))
    pipeline, _, function = role.partition(" ")
    stack = app[f"Deadletter-{pipeline.capitalize()}"]
    said = functions_statements(stack, f"deadletter-{pipeline}-{function}")
    return list(said.values())


def written_patterns(said: Statements) -> set[str]:
    """The partitions of the messages table that statements let a role write."""
    found = set()
    for statement in said:
        actions = statement["Action"]
        if WRITING & set([actions] if isinstance(actions, str) else actions):
            for compared in statement.get("Condition", {}).values():
                found |= {key for key in compared.get("dynamodb:LeadingKeys", []) if "#" in key}
    # Without that of the audit table.
    return {each for each in found if not each.startswith("#by#")}


@pytest.mark.parametrize("role", WRITES)
def test_a_role_writes_the_partitions_of_the_table_and_no_others(app: Synthesis, role: str) -> None:
    assert written_patterns(statements_of(app, role)) == set(WRITES[role])


def test_every_role_that_may_write_is_in_the_table(app: Synthesis) -> None:
    roles = {role.rpartition(" ")[2] for role in WRITES}
    assert roles >= {*GRANTED, *PEOPLE}


# The world of the pipeline that is attacked.


class World(Stage):
    """A pipeline with letters in its DLQ, in its waiting room and in its ledger.

    Its functions run in their own roles. `large` is the letter whose body waits in S3 for an hour.
    """

    def __init__(self, app: Synthesis) -> None:
        functions = ("redrive", "route", "watch", "probe")
        self.roles = {name: statements_of(app, f"{VICTIM} {name}") for name in functions}
        self.roles["people"] = statements_of(app, "DlqReader")
        super().__init__(
            pipeline=Pipeline(
                VICTIM,
                policy=prompt_policy(),
                context={"sender": "system.SenderId"},
                workers=1,
                dedicated=("slow",),
                consumer_library=True,
            )
        )
        self.add_rule("leaked-key", action="QUARANTINE", sender="AIDALEAKED")
        bad = self.sqs.as_sender("AIDALEAKED")
        self.stopped = bad.send_message(QueueUrl=self.dlq, MessageBody='"stopped"')["MessageId"]
        self.dead = self.put('"dead"', url=self.dlq)
        ledger = DynamoDBLedger(self.dynamodb, LETTERS, VICTIM, self.clock, ROWS_KEPT)
        for origin in (self.stopped, self.dead):
            failure = Failure(self.clock(), 0, Category.TRANSIENT, fingerprint="ours", message="o")
            ledger.failed(origin, failure)
        now, later = self.clock() - 1, self.clock() + 3_600
        self.hold("small", '"small"', now)
        self.hold("large-now", '"' + "n" * 9_000 + '"', now)
        self.large = self.hold("large", '"' + "l" * 9_000 + '"', later)
        self.hold("canary", '"canary"', later, circuit_lane(VICTIM))

    def as_role(self, role: str) -> Any:
        return Judged(self.dynamodb, self.roles[role])

    def hold(self, copy: str, body: str, due: float, lane: str = "due") -> str:
        received = ReceivedLetter(Letter(copy, body, {}, {"SenderId": "AIDAPRODUCER"}), "", 0.0)
        stamp = Stamp(copy, 1, decision="HOLD", at=int(self.clock()))
        assert self.room("redrive").admit([Order(received, Hold(lane, due, "waits"), stamp)])
        return copy

    def room(self, role: str) -> DynamoDBWaitingRoom:
        return DynamoDBWaitingRoom(
            client=self.as_role(role),
            table=LETTERS,
            s3=self.s3,  # type: ignore[arg-type]  # a fake
            bucket=BUCKET,
            pipeline=VICTIM,
            fifo=False,
            clock=self.clock,
        )

    @property
    def clients(self) -> Clients:
        mover = self.as_role("redrive")
        return replace(super().clients, dynamodb=mover, journal=mover)

    @property
    def router(self) -> Router:
        clients: Any = replace(super().clients, dynamodb=self.as_role("route"))
        return router_for(self.pipeline, self.resources, clients, self.world)

    def state(self) -> dict[str, Any]:
        """Where each letter is."""
        listed = self.s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])
        honest = {"small", "large-now", "large", "canary"}
        return {
            "main": self.bodies(self.main),
            "stamps": sorted(stamp.origin for stamp in self.stamps(self.main)),
            "dlq": self.bodies(self.dlq),
            "parking": self.bodies(self.parking),
            "slow": self.bodies(self.dedicated),
            "waiting": sorted(
                (item["copy"]["S"], item["lane"]["S"])
                for item in self.waiting()
                if item["pk"]["S"] in {f"{VICTIM}#message#{copy}" for copy in honest}
            ),
            "objects": sorted(entry["Key"] for entry in listed),
        }


def redrives(world: World) -> Any:
    report = world.run()
    world.clock.advance(60)
    world.run()
    return world.state(), report.trouble


def rescues(world: World) -> Any:
    world.rescue()
    return world.state()


def sweeps_orphans(world: World) -> Any:
    client: Any = world.as_role("redrive")
    s3: Any = world.s3
    bodies = S3StoredBodies(client, LETTERS, VICTIM, s3, BUCKET)
    world.clock.advance(ROWS_KEPT + 3_600)
    deleted = delete_orphans(bodies, world.clock, world.clock() + 50)
    return deleted, world.state()


def looks_each_minute(world: World) -> Any:
    """What the watch reads: lanes, their depths and first due times, and the causes."""
    client: Any = world.as_role("watch")
    lanes = DynamoDBLanes(client, LETTERS, VICTIM)
    causes = look_at_causes(DynamoDBCauseEntries(client, LETTERS, VICTIM), in_turn)
    names = sorted(lane.name for lane in lanes.lanes())
    return {name: (lanes.count(name), lanes.first_due(name)) for name in names}, causes.causes


def any_letter(received: ReceivedLetter, key: str) -> Verdict:
    """Every letter may be a canary."""
    return verdict(received.letter.message_id, Hold(circuit_lane(key), 0.0, "open"))


def tries_a_canary(world: World) -> Any:
    client: Any = world.as_role("probe")
    ids = iter(range(1_000))

    taken = set()
    for seed in range(20):
        setup = canary_setup(
            DynamoDBJournal(client, LETTERS, VICTIM, ROWS_KEPT),
            room=world.room("probe"),
            owner=lambda: f"permit-{next(ids)}",
            clock=world.clock,
            random=Random(seed),
        )
        canary = LaneCanaries(setup, any_letter).take(VICTIM, 60)
        if canary is not None:
            taken.add(canary.received.letter.body)
            canary.give_back()
    return taken


def replays(world: World) -> Any:
    """What a run reads of lanes and of the places on its tickets."""
    room = world.room("redrive")
    entries = [
        entry
        for lane in ("due", run_lane("r"))
        for shard in range(SHARDS)
        for entry in room.due(lane, shard, FOREVER, 25)
    ]
    contents = room.read(entries, world.clock() + 60)
    places = [(item["pk"]["S"], item["sk"]["S"]) for item in world.dynamodb.items(LETTERS)]
    letters = {received.letter.message_id: received.letter.body for received in contents.letters}
    return letters, sorted(room.held("due", places))


def people_look(world: World) -> Any:
    """What status, groups and list read in the role of whoever is on call."""
    client: Any = world.as_role("people")
    index = DynamoDBCauseEntries(client, LETTERS, VICTIM)
    lanes = DynamoDBLanes(client, LETTERS, VICTIM)
    pages = [index.page(shard, 25, ("words",)) for shard in range(CAUSE_SHARDS)]
    entries = sorted((entry.origin, entry.words) for page in pages for entry in page.entries)
    waiting = [letter.copy for letter in lanes.look("due", 25) if letter.copy != "None"]
    return entries, lanes.count("due"), lanes.first_due("due"), waiting


# The first three change nothing, so they may see one world.
LOOKS = (looks_each_minute, replays, people_look)
MOVES = (redrives, rescues, sweeps_orphans, tries_a_canary)
READERS: dict[str, Callable[[World], Any]] = {each.__name__: each for each in (*LOOKS, *MOVES)}


# The rows.


def partitions(pattern: str) -> Iterator[str]:
    """Partitions that match a pattern of IAM: the innocent one, and those that look like others."""
    if pattern.endswith("#*") and pattern.count("#") == 1:
        # A mover's: every kind of row.
        pipeline = pattern.partition("#")[0]
        for kind in Partition:
            yield kind.of(pipeline, "x")
        return
    firsts = ("",)
    if pattern.startswith("*"):
        firsts = (VICTIM, "orders", f"{VICTIM}#message#x", f"{VICTIM}#ledger#x", f"{VICTIM}#done#x")
    for first in firsts:
        yield (first + pattern.removeprefix("*")).replace("*", "made-up")


SORTS = {
    Partition.LEDGER: "ledger", Partition.CLAIM: "claim", Partition.LETTER: "message",
    Partition.LEASE: "x", Partition.LANES: "x", Partition.GROUP: f"{'1':0>32}#made-up",
}  # fmt: skip


def sorts(partition: str, number: int) -> Iterator[str]:
    """Sort keys that a row may have: one of its own kind, one of a waiting letter."""
    kind = partition.split("#")[1] if "#" in partition else ""
    yield SORTS.get(kind, "x")  # type: ignore[call-overload]  # a text of the enumeration
    yield from ("message", "ledger", f"x{number}")


# The lanes that hostile rows stand in, each in all its shards.
ATTACKED = ("due", circuit_lane(VICTIM), run_lane("r"))
ROWS = len(ATTACKED) * SHARDS


def hostile(world: World, number: int) -> dict[str, Any]:
    """All that a row could say to harm the pipeline: when it is due, whose letter it is."""
    victim = world.large
    stamp = Stamp(victim, 1, sender="AROAOTHER:x", decision="HOLD", at=int(world.clock()))
    return {
        "lane": lane_partition(VICTIM, ATTACKED[number % len(ATTACKED)], number % SHARDS),
        "due": 1,
        "copy": victim,
        "home": "dlq",
        "because": "words of an enemy",
        "stamp": stamps.attribute(stamp).value,
        "message": compact_json(to_json(Letter(victim, '"body of an enemy"'))),
        "object": body_object(VICTIM, victim),
        "edit": compact_json(to_json(Letter(victim, '"body of an enemy"'))),
        "edit_object": body_object(VICTIM, victim),
        "causes": cause_partition(VICTIM, number % CAUSE_SHARDS),
        "fingerprint": "enemy",
        "seen": int(world.clock()),
        "first_at": int(world.clock()),
        "category": "transient",
        "words": "words of an enemy",
    }


def rows(world: World, partition: str, count: int) -> Iterable[dict[str, Any]]:
    """Hostile rows of a partition; of those with one key the last."""
    return {
        sort: {"pk": partition, "sk": sort, **hostile(world, number)}
        for number in range(count)
        for sort in sorts(partition, number)
    }.values()


def attempts(item: Mapping[str, Any], names: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The calls that write these attributes of an item."""
    said = {name: item[name] for name in ("pk", "sk", *names)}
    yield "put_item", {"Item": stored(said)}
    yield "batch_write_item", {"RequestItems": {LETTERS: [{"PutRequest": {"Item": stored(said)}}]}}
    sets = ", ".join(f"#{name} = :{name}" for name in names)
    yield (
        "update_item",
        {
            "Key": stored({"pk": item["pk"], "sk": item["sk"]}),
            **(
                {
                    "UpdateExpression": f"SET {sets}",
                    "ExpressionAttributeNames": {f"#{name}": name for name in names},
                    "ExpressionAttributeValues": stored({f":{name}": item[name] for name in names}),
                }
                if names
                else {}
            ),
        },
    )


def taken(client: Any, method: str, request: dict[str, Any]) -> bool:
    """Whether a write is let through."""
    table = {} if method == "batch_write_item" else {"TableName": LETTERS}
    try:
        getattr(client, method)(**table, **request)
    except ClientError as error:
        if error.response["Error"]["Code"] != "AccessDeniedException":
            raise
        return False
    return True


def attack(world: World, client: Any, partition: str) -> int:
    """Write rows for each shard in every way that is let through; returns how many were."""
    written = 0
    for way in range(3):
        # What may be named: tried out on a row that is deleted again.
        trial = {"pk": partition, "sk": "trial", **hostile(world, 0)}
        allowed = [
            name for name in hostile(world, 0) if taken(client, *[*attempts(trial, [name])][way])
        ]
        key = stored({"pk": trial["pk"], "sk": trial["sk"]})
        world.dynamodb.delete_item(TableName=LETTERS, Key=key)
        for item in rows(world, partition, ROWS):
            written += taken(client, *[*attempts(item, allowed)][way])
    return written


@pytest.fixture(scope="module")
def honest(app: Synthesis) -> Mapping[str, Any]:
    """What each reader sees where no row is hostile."""
    return {name: reader(World(app)) for name, reader in READERS.items()}


def all_seen(world: World) -> dict[str, Any]:
    """What each reader sees; those that move letters have worlds of their own like this one."""
    looked = {reader.__name__: reader(world) for reader in LOOKS}
    return looked | {reader.__name__: reader(deepcopy(world)) for reader in MOVES}


@pytest.mark.parametrize(
    ("role", "pattern"), [(role, pattern) for role, found in WRITES.items() for pattern in found]
)
def test_hostile_rows_of_a_role_change_nothing_for_letters_of_others(
    app: Synthesis, honest: Mapping[str, Any], role: str, pattern: str
) -> None:
    world = World(app)
    enemy = Judged(world.dynamodb, statements_of(app, role))
    written = sum(attack(world, enemy, partition) for partition in partitions(pattern))
    assert written, "nothing was written, so nothing was shown"
    assert all_seen(world) == honest


@pytest.mark.parametrize("role", ["theirs-consumer", "orders consumer", "RunOperator"])
@pytest.mark.parametrize("names", [["stamp"], ["stamp", "words"]])
def test_who_sent_a_letter_is_not_for_a_consumer_to_say(
    app: Synthesis, role: str, names: list[str]
) -> None:
    """What a stamp in the ledger says of the sender is believed: a rule would miss the letter."""
    world = World(app)
    enemy = Judged(world.dynamodb, statements_of(app, role))
    row = {"pk": Partition.LEDGER.of(VICTIM, world.stopped), "sk": "ledger", **hostile(world, 0)}
    assert not [method for method, request in attempts(row, names) if taken(enemy, method, request)]
    world.run()
    assert world.bodies(world.parking) == ['"stopped"']


# The second layer by itself: IAM lets everything be named.


IGNORED = [
    *(kind.of("other", "x") for kind in Partition),
    *(kind.of(VICTIM, "x") for kind in (Partition.CLAIM, Partition.LEDGER)),
    Partition.RUN.of(VICTIM, "x", "message"),
    f"{VICTIM}#message",
    f"{VICTIM}-too#message#x",
    f"#{VICTIM}#message#x",
]


def flood(world: World, partition: str, count: int) -> None:
    for item in rows(world, partition, count):
        # That is what its consumer may say of this letter.
        if (item["pk"], item["sk"]) != (Partition.LEDGER.of(VICTIM, "x"), "ledger"):
            world.dynamodb.put_item(TableName=LETTERS, Item=stored(item))


@pytest.mark.parametrize("partition", IGNORED)
def test_readers_ignore_rows_that_the_pipeline_did_not_write_whatever_these_say(
    app: Synthesis, honest: Mapping[str, Any], partition: str
) -> None:
    world = World(app)
    flood(world, partition, ROWS)
    assert all_seen(world) == honest


@pytest.mark.parametrize("reader", READERS)
def test_letters_are_found_behind_more_foreign_rows_than_a_page_has(
    app: Synthesis, honest: Mapping[str, Any], reader: str
) -> None:
    world = World(app)
    flood(world, Partition.CLAIM.of("other", "x"), 30 * ROWS)
    flood(world, Partition.CLAIM.of(VICTIM, "x"), 30 * ROWS)
    assert READERS[reader](world) == honest[reader]


# What is granted is enough: each role writes its own rows whole.


def probe_moves_a_letter(world: World, client: Any) -> None:
    room = world.room("probe")
    received = ReceivedLetter(Letter("moved", '"x"'), "", 0.0, "dlq")
    order = Order(received, Hold(circuit_lane(VICTIM), 1.0, "waits"), Stamp("moved"))
    assert room.admit([order])
    [entry] = [
        entry
        for shard in range(SHARDS)
        for entry in room.due(circuit_lane(VICTIM), shard, FOREVER, 25)
        if entry.copy == "moved"
    ]
    [found] = room.read([entry], FOREVER).letters
    room.postpone(replace(order, received=found))
    assert room.delete([(found, Confirmation("moved", "test"))]) == []
    journal = DynamoDBJournal(client, LETTERS, VICTIM, ROWS_KEPT)
    intent = Intent("canary", "me", 1, 1e9, (Plan(key_of("a"), "main", 1),), home="dlq")
    journal.write(intent, None)
    journal.mark(intent.marked(["a"], {"a": "0e7ea9ae-9b17-4a3e-8c5a-4f4e4f1bb1a1"}))
    journal.erase(intent)


def watch_writes_its_row(_: World, client: Any) -> None:
    store = DynamoDBWatchStore(client, LETTERS, VICTIM)
    store.write(WatchRow(first_at=1.0, ran_at=2.0, seen=(Seen(TroubleKind.DEEP),)))
    store.read()
    DynamoDBReplayRuns(client, LETTERS, VICTIM, float).create(RUN)


def rules_are_checked(_: World, client: Any) -> None:
    DynamoDBBookVersions(client, LETTERS).write(VICTIM, "2")
    DynamoDBBookVersions(client, LETTERS).forget([VICTIM], "leaked-key", None)


def a_person_runs_a_replay(_: World, client: Any) -> None:
    made = ReplayPlan(pipeline=VICTIM, who="ann", why="fixed")
    DynamoDBReplayPlans(client, LETTERS, VICTIM, float).store(made, ["a", "b"])
    runs = DynamoDBReplayRuns(client, LETTERS, VICTIM, float)
    run = runs.create(RUN)
    changed = {
        each.name: {"a": 1} if each.name == "counts" else True if each.name == "left" else 1
        for each in fields(run)
        if isinstance(getattr(run, each.name), int | float | Mapping | None)
    }
    runs.change(run, replace(run, **changed, because="b", by="b", approved_by="b", told="b"))


def a_person_throws_letters_away(_: World, client: Any) -> None:
    made = ReplayPlan(pipeline=VICTIM, who="ann", why="fixed", destination=DISCARD)
    DynamoDBReplayPlans(client, LETTERS, VICTIM, float).store(made, ["a", "b"])
    DynamoDBReplayRuns(client, LETTERS, VICTIM, float).create(RUN)


def a_person_approves(_: World, client: Any) -> None:
    plans = DynamoDBReplayPlans(client, LETTERS, VICTIM, float)
    plans.keep_answer("r", ApprovalAnswer(True, "ann", "looks right"))


RUN = ReplayRun(id="0123456789abcdef", pipeline=VICTIM, state=RunState.PLANNED)

OWN_WORK: dict[str, Callable[[World, Any], None]] = {
    "theirs probe": probe_moves_a_letter,
    "theirs watch": watch_writes_its_row,
    "check-rules": rules_are_checked,
    "RunOperator": a_person_runs_a_replay,
    "DiscardOperator": a_person_throws_letters_away,
    "RunApprover": a_person_approves,
}


@pytest.mark.parametrize("role", OWN_WORK)
def test_a_role_may_write_its_own_rows_whole(app: Synthesis, role: str) -> None:
    """The consumer's are in `test_library_permissions`."""
    world = World(app)
    client = Judged(world.dynamodb, statements_of(app, role))
    OWN_WORK[role](world, client)
