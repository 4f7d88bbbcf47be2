"""Bodies in the bucket that no message has any more are deleted, and no other."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest

from deadletter.aws.objects import S3StoredBodies
from deadletter.aws.wiring.moving import sweep_orphans
from deadletter.contract import DAY, ROWS_KEPT, Mode, body_object
from deadletter.redrive.orphans import StoredBody, delete_orphans
from deadletter.settings.pipeline import Pipeline
from tests.simulation.stage import Stage, with_
from tests.tables import BUCKET, LETTERS

LARGE = json.dumps({"tenantId": "a", "filling": "x" * 20_000})


def waits_in_the_bucket(stage: Stage) -> str:
    """A large letter that waits for weeks; the name of its body."""
    stage.add_rule("later", tenantId="a", action="HOLD")
    stage.put(LARGE)
    stage.fail()
    stage.run()
    [name] = names(stage)
    return name


def names(stage: Stage) -> list[str]:
    s3: Any = stage.s3
    answer = s3.list_objects_v2(Bucket=BUCKET, Prefix="waiting/")
    return [entry["Key"] for entry in answer.get("Contents", [])]


def store(stage: Stage, file: str, pipeline: str = "orders") -> str:
    name = body_object(pipeline, file)
    s3: Any = stage.s3
    s3.put_object(Bucket=BUCKET, Key=name, Body=b"{}")
    return name


def sweep(stage: Stage, **event: Any) -> int | None:
    """In the minute of the day in which the pipeline's bodies are looked through."""
    minute = crc32(stage.pipeline.name.encode()) % DAY
    stage.clock.advance((minute - stage.clock()) % DAY)
    return swept(stage, event)


def swept(stage: Stage, event: Any, pipeline: Pipeline | None = None) -> int | None:
    return sweep_orphans(
        pipeline or stage.pipeline,
        stage.resources,
        stage.clients,
        stage.world,
        event,
        stage.clock() + 300,
    )


def test_an_old_body_that_no_letter_has_is_deleted_and_that_of_a_letter_is_not() -> None:
    stage = Stage()
    kept = waits_in_the_bucket(stage)
    copy = kept.rpartition("/")[2]
    orphans = [store(stage, "gone"), store(stage, "gone.1763.edit"), store(stage, f"{copy}.1.edit")]
    others = store(stage, "gone", pipeline="orders-eu")
    assert sorted(names(stage)) == sorted([kept, *orphans, others])
    stage.clock.advance(ROWS_KEPT + DAY)
    assert sweep(stage) == 3
    assert sorted(names(stage)) == sorted([kept, others])


def test_the_body_of_an_edited_letter_stays_in_both_versions() -> None:
    stage = Stage()
    name = waits_in_the_bucket(stage)
    edited = store(stage, f"{name.rpartition('/')[2]}.1763.edit")
    [item] = stage.waiting()
    client: Any = stage.dynamodb
    client.put_item(TableName=LETTERS, Item={**item, "edit_object": {"S": edited}})
    stage.clock.advance(ROWS_KEPT + DAY)
    assert sweep(stage) == 0
    assert sorted(names(stage)) == sorted([name, edited])


def test_a_body_that_a_queue_may_still_bring_an_item_for_stays() -> None:
    """The item may be about to be written, also for the second time."""
    stage = Stage()
    young = store(stage, "young")
    stage.clock.advance(ROWS_KEPT - 2 * DAY)
    assert sweep(stage) == 0
    assert names(stage) == [young]


def test_bodies_are_looked_through_in_one_minute_of_the_day_after_runs_that_move_letters() -> None:
    stage = Stage()
    store(stage, "gone")
    stage.clock.advance(2 * ROWS_KEPT)
    sweep(stage, dry_run=True)
    for event in ({"dry_run": True}, {"source": "slow"}):
        assert swept(stage, event) is None
    for pipeline in (with_(stage.pipeline, mode=Mode.OBSERVE), with_(stage.pipeline, fifo=True)):
        assert swept(stage, {}, pipeline) is None
    stage.clock.advance(60)
    assert swept(stage, {}) is None
    stage.clock.advance(DAY - 30)
    assert swept(stage, {"source": "dlq"}) == 1


def test_a_bucket_that_gives_no_answer_costs_nothing_but_the_day() -> None:
    stage = Stage()
    stage.resources = replace(stage.resources, messages_bucket="none")
    assert sweep(stage) == 0


class Bodies:
    """Old bodies, of which items name none, and a clock that a look moves."""

    def __init__(self, number: int) -> None:
        self.deleted: list[str] = []
        self.asked: list[int] = []
        self.now = 2.0 * ROWS_KEPT
        self._number = number

    def all(self) -> Iterable[StoredBody]:
        for number in range(self._number):
            yield StoredBody(f"{number}", f"{number}", 0.0)

    def named(self, bodies: Sequence[StoredBody]) -> Collection[str]:
        self.asked.append(len(bodies))
        self.now += 10
        return ()

    def delete(self, name: str) -> None:
        self.deleted.append(name)


@pytest.mark.parametrize(("seconds", "deleted"), [(1_000.0, 250), (5.0, 100)])
def test_many_are_asked_about_together_until_the_run_has_to_end(
    seconds: float, deleted: int
) -> None:
    bodies = Bodies(250)
    assert delete_orphans(bodies, lambda: bodies.now, bodies.now + seconds) == deleted
    assert max(bodies.asked) == 100


def test_the_names_of_two_pipelines_are_told_apart() -> None:
    stage = Stage()
    store(stage, "a", pipeline="orders-eu")
    clients = stage.clients
    bodies = S3StoredBodies(clients.dynamodb, LETTERS, "orders", clients.s3, BUCKET)
    assert list(bodies.all()) == []
