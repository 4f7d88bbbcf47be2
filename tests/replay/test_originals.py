"""Originals: each letter that a run takes is kept as it was, until it is forgotten."""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.aws.objects import S3RunObjects
from deadletter.aws.replay_runs import DynamoDBReplayPlans, DynamoDBReplayRuns
from deadletter.aws.wiring.replaying import freeze_for
from deadletter.aws.wiring.stores import Stores
from deadletter.contract import Category, Reason, originals_object
from deadletter.failure.failure import Failure
from deadletter.message import stamp as stamps
from deadletter.message.letter import Attribute, Letter, compact_json, to_json
from deadletter.message.stamp import Stamp
from deadletter.redrive.waiting_room import HeldItem
from deadletter.replay import objects as run_objects
from deadletter.replay.forgetting import ForgetSetup, find_by_key, forget
from deadletter.replay.manifest import Manifest
from deadletter.replay.objects import (
    NotAnOriginal,
    Original,
    OriginalsOfBatch,
    line_of,
    lines_in,
    original_in,
    originals_in,
    packed,
    without,
)
from deadletter.replay.plan import DISCARD, RESTORE, ReplayPlan
from deadletter.replay.run import ReplayRun, RunState
from deadletter.routing.selection import Selection
from tests.each_row import each_row
from tests.replay.test_forgetting import FORGETS, execute
from tests.replay.test_names import name
from tests.replay.test_snapshot import Run
from tests.simulation.stage import Stage, with_
from tests.tables import BUCKET, LETTERS

texts = st.text(max_size=20)
attributes = st.dictionaries(
    texts,
    st.builds(Attribute, st.just("String"), texts)
    | st.builds(Attribute, st.just("Binary"), st.binary(max_size=9)),
)


def held(letter: Letter, origin: str = "o-a", home: str = "dlq", **changes: Any) -> HeldItem:
    stamp = stamps.attribute(Stamp(origin)).value
    made = HeldItem(("p", "s"), 0, home, str(stamp), compact_json(to_json(letter)))
    return replace(made, **changes)


def named(copy: str) -> bytes:
    return name(copy).to_line().encode()


def line(copy: str, body: str = "{}", **changes: Any) -> bytes:
    made = line_of(named(copy), held(Letter(copy, body), f"o-{copy}", **changes))
    assert made is not None
    return made


def put(stage: Stage, *bodies: str) -> list[str]:
    """Letters that are dead."""
    ids = [
        stage.put(body, MessageAttributes={"shop": {"DataType": "String.code", "StringValue": "ß"}})
        for body in bodies
    ]
    stage.fail()
    return ids


def kept(
    stage: Stage, run: str, note_damage: Callable[[int], object] = lambda _: pytest.fail("damaged")
) -> dict[str, Original]:
    """The originals of a run by their copies."""
    client: Any = stage.s3
    objects = S3RunObjects(client, BUCKET, "orders", run, originals_object)
    found: dict[str, Original] = {}
    for stored in objects.listed(""):
        data = objects.get(stored.name)
        assert data is not None
        for each in originals_in(data, note_damage):
            assert found.setdefault(each.name.copy, each) == each
    return found


# An object and its lines


@given(st.text(max_size=200), attributes, texts)
def test_a_letter_comes_back_from_its_line(
    body: str, some: Mapping[str, Attribute], home: str
) -> None:
    letter = Letter("a", body, some, {"SentTimestamp": "1", "MessageGroupId": body})
    made = line_of(named("a"), held(letter, home=home))
    assert made is not None
    assert made.count(b"\n") == 1
    assert lines_in(packed([made])) == [made]
    assert original_in(made) == Original(name("a"), home, Stamp("o-a"), letter)


def test_an_object_can_be_read_with_gunzip() -> None:
    import gzip

    assert gzip.decompress(packed([line("a"), line("b")])) == line("a") + line("b")


@pytest.mark.parametrize("part", ["letter", "stamp"])
def test_a_text_that_would_end_the_line_is_not_kept(part: str) -> None:
    """It could pose as the line of another letter."""
    own = held(Letter("a", "{}"))
    hostile = line("b", "mine").decode()
    text = f"{{}}}}\n{hostile}"
    changed = replace(own, **{part: text.encode() if part == "letter" else text})
    assert line_of(named("a"), changed) is None


def test_an_item_without_a_letter_is_not_kept() -> None:
    assert line_of(named("a"), HeldItem(("p", "s"), 0)) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no gzip",
        packed([line("a")])[:-1],
        zlib.compress(line("a")),
        packed([line("a")[:-1]]),
        packed([b"x" * 1_000_000] * 9),
    ],
    ids=["empty", "text", "cut off", "another container", "half a line", "a bomb"],
)
def test_an_object_that_we_have_not_written_is_none(data: bytes) -> None:
    with pytest.raises(NotAnOriginal):
        lines_in(data)


@each_row(
    ("what", "broken"),
    [
        ("no JSON", b"{\n"),
        ("no object", b"[]\n"),
        ("half a message", b'{"name":{},"home":"dlq","stamp":{},"message":{}}\n'),
        ("no text of a home", line("a").replace(b'"home":"dlq"', b'"home":7')),
        ("a stamp of another letter", line("a").replace(b'{"origin":"o-a"', b'{"origin":"o-b"')),
        ("a copy that is a number", line("a").replace(b'"c":"a"', b'"c":7')),
        ("a tenant that is a list", line("a").replace(b'"t":""', b'"t":[]')),
        ("an attempt that is a boolean", line("a").replace(b'"a":0', b'"a":true')),
        ("nesting without end", b"[" * 100_000 + b"\n"),
    ],
)
def test_a_line_that_cannot_be_understood_is_named_and_the_others_are_read(
    what: str, broken: bytes
) -> None:
    assert broken != line("a"), what
    damaged: list[int] = []
    lines = [line("b"), broken, line("c")]
    assert [each.name.copy for each in originals_in(packed(lines), damaged.append)] == ["b", "c"]
    assert damaged == [2]


class Kept:
    """Objects in memory; `names` are their names in the order of their stores."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}

    def put_first(self, name: str, data: bytes) -> bool:
        if name in self.data:
            return False
        self.data[name] = data
        return True


def of_batch(objects: Kept, *lines: str, body: str = "{}") -> None:
    client: Any = objects
    batch = OriginalsOfBatch(client, "batch", lambda: None)
    for copy in lines:
        batch.add(named(copy), held(Letter(copy, body), f"o-{copy}"))
    batch.flush()


def test_an_object_has_at_most_500_letters() -> None:
    objects = Kept()
    of_batch(objects, *map(str, range(1_001)))
    assert [len(lines_in(data)) for data in objects.data.values()] == [500, 500, 1]


def test_an_object_has_at_most_eight_megabytes() -> None:
    objects = Kept()
    of_batch(objects, *map(str, range(20)), body="x" * 1_000_000)
    assert [len(lines_in(data)) for data in objects.data.values()] == [7, 7, 6]


def test_a_letter_that_fills_an_object_alone_does_not_empty_the_one_before() -> None:
    objects = Kept()
    batch = OriginalsOfBatch(objects, "batch", lambda: None)  # type: ignore[arg-type]
    for copy, body in (("a", "{}"), ("b", "\0" * 1_048_000), ("c", "\0" * 1_048_000)):
        batch.add(named(copy), held(Letter(copy, body), f"o-{copy}"))
    batch.flush()
    assert [len(lines_in(data)) for data in objects.data.values()] == [2, 1]


def test_the_same_letters_have_the_same_object_and_what_is_there_stays() -> None:
    """A freeze that goes on after a crash brings nothing back that was forgotten since."""
    objects = Kept()
    of_batch(objects, "a", "b")
    [stored] = objects.data
    objects.data[stored] = packed([])
    of_batch(objects, "a", "b")
    assert objects.data == {stored: packed([])}
    of_batch(objects, "a", "c")
    assert len(objects.data) == 2


# Forgetting


@pytest.mark.parametrize("id_", ["a", "o-a"])
def test_a_letter_is_taken_out_by_its_copy_or_its_origin(id_: str) -> None:
    before = [line("a", "mine"), line("b", "mentions a and o-a"), line("c")]
    after = without(packed(before), {id_})
    assert after is not None
    assert lines_in(after) == before[1:]


def test_an_object_without_the_letter_stays_as_it_is() -> None:
    assert without(packed([line("b", "mentions a")]), {"a"}) is None


def test_a_damaged_line_that_names_the_letter_goes_too() -> None:
    torn = line("a", "mine").replace(b'"home"', b'"hole"')
    after = without(packed([torn, line("b")]), {"a"})
    assert after is not None
    assert lines_in(after) == [line("b")]


def test_a_damaged_object_loses_all_because_nothing_can_be_sent_of_it() -> None:
    assert without(b"damaged", {"a"}) == packed([])


# A run


@pytest.mark.parametrize("size", [0, 20_000])
@pytest.mark.parametrize("fifo", [False, True])
def test_a_run_keeps_each_letter_as_it_was_and_after_its_end(size: int, fifo: bool) -> None:
    """Whether its body waits in the table or in the bucket."""
    stage = Stage(with_(Stage().pipeline, fifo=fifo))
    bodies = [json.dumps({"n": number, "filling": "x" * size}) for number in range(12)]
    origins = []
    for number, body in enumerate(bodies):
        group = {"MessageGroupId": "g", "MessageDeduplicationId": str(number)} if fifo else {}
        shop = {"shop": {"DataType": "String.code", "StringValue": "ß"}}
        origins.append(stage.put(body, MessageAttributes=shop, **group))
    for _ in bodies:
        stage.fail()
    plan = ReplayPlan(pipeline="orders", source="dlq", selection=Selection())
    run = Run(stage)
    while not run.snapshot().done:
        stage.clock.advance(60)
    parts = (stage.pipeline, stage.resources, stage.clients, stage.world)
    assert plan.run_id == run.id
    assert freeze_for(Stores(*parts), plan).run(stage.clock() + 60).done
    found = kept(stage, run.id)
    assert sorted(each.stamp.origin for each in found.values()) == sorted(origins)
    assert sorted(each.letter.body for each in found.values()) == sorted(bodies)
    assert {each.letter.attributes["shop"] for each in found.values()} == {
        Attribute("String.code", "ß")
    }
    assert {each.home for each in found.values()} == {"dlq"}
    names = {each.copy: each for each in Manifest(run.objects).names(_index(run))}
    assert {copy: each.name for copy, each in found.items()} == names


def _index(run: Run) -> Any:
    index = Manifest(run.objects).index()
    assert index is not None
    return index


def frozen(stage: Stage, **plan: Any) -> Run:
    """A run whose snapshot of the DLQ is frozen."""
    run = Run(stage, **plan)
    parts = (stage.pipeline, stage.resources, stage.clients, stage.world)
    assert run.snapshot().done
    assert freeze_for(Stores(*parts), run.plan).run(stage.clock() + 60).done
    return run


def test_a_setting_of_zero_days_keeps_nothing_and_changes_nothing_else() -> None:
    stage = Stage()
    put(stage, "{}", "{}")
    stage.resources = replace(stage.resources, replay_days=0)
    run = frozen(stage)
    assert len(list(Manifest(run.objects).names(_index(run)))) == 2
    assert kept(stage, run.id) == {}


@pytest.mark.parametrize("destination", [DISCARD, RESTORE])
def test_a_run_that_throws_away_or_brings_back_keeps_no_original(destination: str) -> None:
    """A discard has copies of its own, and none if a person wants none."""
    stage = Stage()
    put(stage, "{}")
    run = frozen(stage, destination=destination)
    assert kept(stage, run.id) == {}


def test_no_letter_that_stays_outside_of_the_run_is_kept() -> None:
    stage = Stage()
    mine, _ = put(stage, "{}", "{}")
    run = frozen(stage, counted=[mine])
    assert [each.name.origin for each in kept(stage, run.id).values()] == [mine]


def test_a_row_that_somebody_else_wrote_is_held_and_has_no_original() -> None:
    """A row can name the object of another letter, or hold no stamp of ours."""
    stage = Stage()
    put(stage, '{"n": 1}', '{"n": 2}', '{"n": 3}')
    run = Run(stage)
    assert run.snapshot().done
    first, second, _ = sorted(stage.waiting(), key=lambda item: item["pk"]["S"])
    client: Any = stage.dynamodb
    client.put_item(TableName=LETTERS, Item={**first, "object": {"S": "waiting/orders/other"}})
    client.put_item(TableName=LETTERS, Item={**second, "stamp": {"S": "{"}})
    noted: list[str] = []
    parts = (stage.pipeline, stage.resources, stage.clients, stage.world)
    assert (
        freeze_for(Stores(*parts, note_bad_row=noted.append), run.plan).run(stage.clock() + 60).done
    )
    assert _index(run).messages == 3
    assert len(noted) == 1
    damaged: list[int] = []
    assert len(list(kept(stage, run.id, damaged.append))) == len(damaged) == 1


def test_the_freeze_asks_the_table_no_more_often_than_without_originals() -> None:
    def requests(days: int) -> int:
        stage = Stage()
        put(stage, *["{}"] * 12)
        stage.resources = replace(stage.resources, replay_days=days)
        run = Run(stage)
        assert run.snapshot().done
        counted = EachCall(stage.dynamodb, calls := Calls())
        stage.dynamodb = counted  # type: ignore[assignment]
        parts = (stage.pipeline, stage.resources, stage.clients, stage.world)
        assert freeze_for(Stores(*parts), run.plan).run(stage.clock() + 60).done
        return calls.made

    assert requests(30) == requests(0) > 0


# Crashes


class Crash(BaseException):
    """The process ends here."""


@dataclass
class Calls:
    """The calls that clients make; the one numbered `at` ends the process, before or after it."""

    at: int = -1
    after: bool = False
    made: int = 0


_REQUESTS = ("item", "items", "object", "v2", "query")


class EachCall:
    """A client whose calls are counted."""

    def __init__(self, client: Any, calls: Calls) -> None:
        self._client = client
        self._calls = calls

    def __getattr__(self, attribute: str) -> Any:
        method, calls = getattr(self._client, attribute), self._calls
        if attribute == "items" or not attribute.endswith(_REQUESTS):
            return method

        def call(*arguments: Any, **options: Any) -> Any:
            calls.made += 1
            if calls.made == calls.at and not calls.after:
                raise Crash
            try:
                return method(*arguments, **options)
            finally:
                if calls.made == calls.at:
                    raise Crash

        return call


def crashes(steps: Callable[[Calls], None], every: int = 1) -> Iterator[str]:
    """Repeat something with a crash before and after each of its calls, or one of so many."""
    for after in (False, True):
        for at in itertools.count(1, every):
            calls = Calls(at, after)
            try:
                steps(calls)
            except Crash:
                yield f"call {at}, {'after' if after else 'before'} it"
            else:
                assert at > 3
                break


def test_a_freeze_that_is_cut_off_at_any_call_goes_on_and_keeps_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_objects, "MOST_LETTERS", 2)
    stage = Stage()

    def cut_off(calls: Calls) -> None:
        nonlocal stage
        stage = Stage()
        put(stage, *[json.dumps({"n": n, "x": "x" * 5_000 * (n % 2)}) for n in range(5)])
        run = Run(stage)
        assert run.snapshot().done
        table, bucket = stage.dynamodb, stage.s3
        stage.dynamodb, stage.s3 = EachCall(table, calls), EachCall(bucket, calls)  # type: ignore[assignment]
        try:
            freeze_for(Stores(*_parts(stage)), run.plan).run(stage.clock() + 60)
        finally:
            stage.dynamodb, stage.s3 = table, bucket

    ended = 0
    for where in crashes(cut_off):
        ended += 1
        run = Run(stage)
        assert freeze_for(Stores(*_parts(stage)), run.plan).run(stage.clock() + 60).done, where
        found = kept(stage, run.id)
        names = {each.copy: each for each in Manifest(run.objects).names(_index(run))}
        assert {copy: each.name for copy, each in found.items()} == names, where
        assert sorted(json.loads(each.letter.body)["n"] for each in found.values()) == [*range(5)]
    assert ended > 20


def _parts(stage: Stage) -> Any:
    return (stage.pipeline, stage.resources, stage.clients, stage.world)


def test_forgetting_that_is_cut_off_at_any_call_leaves_the_letter_whole_or_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_objects, "MOST_LETTERS", 2)
    before = Stage()
    mine, *others = put(before, *[json.dumps({"n": n, "secret": f"4111-{n}"}) for n in range(5)])
    run = frozen(before).id
    bucket: Any = before.s3
    whole = S3RunObjects(bucket, BUCKET, "orders", run, originals_object)
    objects = {stored.name: whole.get(stored.name) for stored in whole.listed("")}
    stage = before

    def setup(client: Any) -> ForgetSetup:
        def of(run: str) -> S3RunObjects:
            return S3RunObjects(client, BUCKET, "orders", run, originals_object)

        return ForgetSetup(
            pipeline=stage.pipeline,
            names=list,
            folders=list,
            objects=of,
            tickets=lambda _run: [],
            with_originals=lambda: [run, "another"],
            originals=of,
            own=S3RunObjects(client, BUCKET, "orders", "forgets"),
            erase=lambda _ids: None,
            clock=stage.clock,
            note_damage=pytest.fail,
        )

    plan = replace(FORGETS, selection=Selection(ids=(mine,)))

    def cut_off(calls: Calls) -> None:
        nonlocal stage
        stage = Stage()
        restored = S3RunObjects(stage.s3, BUCKET, "orders", run, originals_object)  # type: ignore[arg-type]
        for key, data in objects.items():
            assert data is not None
            restored.put(key, data)
        assert forget(setup(EachCall(stage.s3, calls)), plan, stage.clock() + 60)

    ended = 0
    for where in crashes(cut_off):
        ended += 1
        origins = {each.name.origin for each in kept(stage, run).values()}
        assert origins >= set(others), where
        assert forget(setup(stage.s3), plan, stage.clock() + 60), where
        assert {each.name.origin for each in kept(stage, run).values()} == set(others)
        assert "4111-0" not in _everything(stage), where
    assert ended > 10


def _everything(stage: Stage) -> str:
    client: Any = stage.s3
    keys = [entry["Key"] for entry in client.list_objects_v2(Bucket=BUCKET).get("Contents", [])]
    bodies = [client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys]
    return repr([lines_in(data) if data[:2] == b"\x1f\x8b" else data for data in bodies])


def test_a_letter_that_was_processed_is_forgotten_out_of_the_originals_of_each_run() -> None:
    """It is in no queue and in no lane any more: the run has nothing to take and still erases."""
    stage = Stage()
    mine, other = put(stage, '{"secret": "4111-x"}', '{"secret": "5500-y"}')
    run = frozen(stage)
    for item in stage.waiting():
        stage.dynamodb.delete_item(TableName=LETTERS, Key={key: item[key] for key in ("pk", "sk")})
    assert "4111-x" in _everything(stage)
    plan = replace(FORGETS, source="lane:due", selection=Selection(ids=(mine,)))
    ended = execute(stage, plan)
    assert ended.state is RunState.DONE
    assert "4111-x" not in _everything(stage)
    assert [each.name.origin for each in kept(stage, run.id).values()] == [other]


def of_a_shop(**options: Any) -> Stage:
    return Stage(with_(Stage().pipeline, context={"card": "body.card"}, **options))


def by_key(**changes: Any) -> ReplayPlan:
    """A run that forgets what has one card, and has no letter to take."""
    selection = Selection(pattern={"context": {"card": ["4111-x"]}}, include=tuple(Reason))
    return replace(FORGETS, source="lane:due", selection=replace(selection, **changes))


def processed(stage: Stage, *bodies: str) -> tuple[list[str], str]:
    """Letters that a run has taken and that are processed: their ids, and the run."""
    ids = put(stage, *bodies)
    ledger = Stores(stage.pipeline, stage.resources, stage.clients, stage.world).ledger
    for id_ in ids:
        ledger.failed(id_, Failure(stage.clock(), 0, Category.TRANSIENT))
    run = frozen(stage)
    for item in stage.waiting():
        stage.dynamodb.delete_item(TableName=LETTERS, Key={key: item[key] for key in ("pk", "sk")})
    return ids, run.id


def copies(stage: Stage, letter: Letter, edited: Letter | None = None) -> S3RunObjects:
    """What a run has left that threw a letter away, or in which a person has edited it."""
    client: Any = stage.s3
    objects = S3RunObjects(client, BUCKET, "orders", "earlier")
    before, stamp = to_json(letter), stamps.to_data(Stamp(f"o-{letter.message_id}"))
    if edited is None:
        said = {"at": 1, "by": "ann", "because": "a test"}
        data = {"message": before, "home": "dlq", "stamp": stamp, "discarded": said}
        objects.put(f"discarded/{letter.message_id}.json", compact_json(data))
    else:
        origin, after = stamp["origin"], to_json(edited)
        data = {"origin": origin, "before": before, "after": after}
        objects.put(f"edits/{letter.message_id}-1763.json", compact_json(data))
    return objects


@pytest.mark.parametrize("groups", [None, ()])
def test_letters_that_were_processed_are_forgotten_by_a_key(groups: Any) -> None:
    """Their originals and their rows, also where a run takes no letter, as of FIFO groups."""
    stage = of_a_shop()
    (mine, other), run = processed(stage, '{"card": "4111-x"}', '{"card": "5500-y"}')
    assert execute(stage, by_key(groups=groups)).state is RunState.DONE
    assert [each.name.origin for each in kept(stage, run).values()] == [other]
    ledger = Stores(stage.pipeline, stage.resources, stage.clients, stage.world).ledger
    assert list(ledger.rows([mine, other])) == [other]


def test_what_a_discard_or_an_edit_has_kept_is_forgotten_by_a_key() -> None:
    stage = of_a_shop()
    mine, other = Letter("a", '{"card": "4111-x"}'), Letter("b", '{"card": "5500-y"}')
    copies(stage, mine)
    # Whether the letter has the key before or after the edit.
    copies(stage, replace(other, message_id="c"), replace(mine, message_id="c"))
    copies(stage, replace(mine, message_id="d"), replace(other, message_id="d"))
    copies(stage, replace(other, message_id="e"), replace(other, message_id="e"))
    objects = copies(stage, other)
    objects.put("discarded/torn.json", b"{")
    objects.put("edits/torn-1.json", b"[]")
    noted: list[str] = []
    assert execute(stage, by_key(), noted.append).state is RunState.DONE
    names = [stored.name for stored in objects.listed("")]
    assert names == [
        *("discarded/b.json", "discarded/torn.json"),
        *("edits/e-1763.json", "edits/torn-1.json"),
    ]
    # Whose they are cannot be known: they stay, and that is counted.
    assert noted == [
        "replay/orders/earlier/discarded/torn.json",
        "replay/orders/earlier/edits/torn-1.json",
    ]


def test_a_letter_found_by_its_key_is_forgotten_wherever_it_has_its_id() -> None:
    """An edit took the key away, and a later run has kept the letter without it."""
    stage = of_a_shop()
    (mine, other), run = processed(stage, '{"card": "4711"}', '{"card": "5500-y"}')
    letter = Letter("a", '{"card": "4111-x"}')
    objects = copies(stage, letter, Letter("a", '{"card": "4711"}'))
    [name] = [stored.name for stored in objects.listed("edits/")]
    objects.put(name, (objects.get(name) or b"").replace(b"o-a", mine.encode()))
    assert execute(stage, by_key()).state is RunState.DONE
    assert [each.name.origin for each in kept(stage, run).values()] == [other]


def test_a_plan_that_chooses_letters_by_nothing_forgets_no_processed_one() -> None:
    """An empty filter allows all letters: of what is kept it chooses none."""
    stage = of_a_shop()
    ids, run = processed(stage, '{"card": "4111-x"}', '{"card": "5500-y"}')
    assert execute(stage, by_key(pattern={})).state is RunState.DONE
    assert {each.name.origin for each in kept(stage, run).values()} == set(ids)


def test_a_look_for_a_key_that_runs_out_of_time_goes_on_where_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_objects, "MOST_LETTERS", 2)
    stage = of_a_shop()
    (mine, *_), run = processed(stage, '{"card": "4111-x"}', *['{"card": "5500-y"}'] * 4)
    bucket: Any = stage.s3
    asked: list[str] = []

    class Noted(S3RunObjects):
        def get(self, name: str) -> bytes | None:
            asked.append(name)
            return super().get(name)

    ticks = itertools.count()

    def of(name_: str) -> S3RunObjects:
        return Noted(bucket, BUCKET, "orders", name_, originals_object)

    setup = ForgetSetup(
        pipeline=stage.pipeline,
        names=list,
        tickets=lambda _run: [],
        erase=pytest.fail,
        with_originals=lambda: [run],
        originals=of,
        folders=list,
        objects=of,
        own=S3RunObjects(bucket, BUCKET, "orders", "forgets"),
        clock=lambda: float(next(ticks)),
        note_damage=pytest.fail,
    )
    selection = by_key().selection
    assert find_by_key(setup, selection, 3.0) is None
    assert len(asked) == 2
    assert find_by_key(setup, selection, 99.0) == {mine}
    assert len(asked) == len(set(asked)) == 3


def test_two_runs_that_forget_go_one_after_the_other() -> None:
    """Each writes objects anew: the later write would bring back what the earlier took out."""
    stage = of_a_shop()
    client: Any = stage.dynamodb
    other = replace(by_key(), source="dlq")
    DynamoDBReplayPlans(client, LETTERS, "orders", stage.clock).store(other, None)
    runs = DynamoDBReplayRuns(client, LETTERS, "orders", stage.clock)
    waits = ReplayRun(id=other.run_id, pipeline="orders", created=stage.clock() + 1)
    runs.create(waits)
    assert execute(stage, by_key()).state is RunState.DONE
    runs.change(waits, replace(waits, created=stage.clock() - 1, generation=1))
    with pytest.raises(AssertionError, match="the run does not end"):
        execute(stage, by_key(reasons=(Reason.POISON,)))


def test_forgetting_that_runs_out_of_time_goes_on_where_it_was() -> None:
    stage = Stage()
    mine = put(stage, "{}", "{}")[0]
    run = frozen(stage)
    asked: list[str] = []
    times = itertools.count()
    client: Any = stage.s3

    def of(name_: str) -> S3RunObjects:
        asked.append(name_)
        return S3RunObjects(client, BUCKET, "orders", name_, originals_object)

    setup = ForgetSetup(
        pipeline=stage.pipeline,
        names=list,
        folders=list,
        objects=of,
        tickets=lambda _run: [],
        with_originals=lambda: ["0", run.id],
        originals=of,
        own=S3RunObjects(client, BUCKET, "orders", "forgets"),
        erase=lambda _ids: pytest.fail("before all originals are gone"),
        clock=lambda: float(next(times)),
        note_damage=pytest.fail,
    )
    plan = replace(FORGETS, selection=Selection(ids=(mine,)))
    assert not forget(setup, plan, 0.0)
    assert asked == ["0", run.id]
    assert forget(replace(setup, erase=lambda _ids: None), plan, 99.0)
    assert asked == ["0", run.id, run.id]
