"""Puts together what the redriver's function does for a person beside its runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from deadletter.aws.clients import Clients
from deadletter.aws.wiring.parts.waiting_room import waiting_room_for
from deadletter.aws.wiring.world import World, in_threads
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources

RECALL, EDIT, REFUSED = "recall", "edit", "refused"
"""The fields of an event that asks for a recall or for edits, and of the answer that refuses it."""


def answer_request(
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients,
    world: World,
    event: Mapping[str, Any],
) -> dict[str, Any] | None:
    """The answer to an event that asks for something else than a run; None for a run.

    No answer holds a word of a letter: who may ask need not be allowed to read one.
    """
    asks: Mapping[str, Callable[..., dict[str, Any]]] = {RECALL: _recall, EDIT: _edit}
    for name, handle in asks.items():
        if name in event:
            return handle(pipeline, resources, clients, world, event[name])
    return None


def _recall(
    pipeline: Pipeline, resources: Resources, clients: Clients, world: World, asked: Any
) -> dict[str, Any]:
    from deadletter.redrive.recall import RecallRefused, recall

    room = waiting_room_for(pipeline, resources, clients, world)
    try:
        done = recall(asked, pipeline.name, room, clock=world.clock, in_parallel=in_threads)
    except RecallRefused as error:
        return {REFUSED: str(error)}
    return dict(done)


def _edit(
    pipeline: Pipeline, resources: Resources, clients: Clients, world: World, asked: Any
) -> dict[str, Any]:
    # Most functions are never asked for an edit, and load none of it.
    from deadletter.aws.replay_edits import DynamoDBReplayEdits
    from deadletter.aws.replay_runs import DynamoDBReplayRuns
    from deadletter.aws.wiring.custody import run_objects_for
    from deadletter.replay.edit_request import names_in
    from deadletter.replay.edits import EditRefused

    edits = DynamoDBReplayEdits(
        clients.dynamodb,
        resources.letters_table,
        clients.s3,
        bucket=resources.letters_bucket,
        pipeline=pipeline.name,
        runs=DynamoDBReplayRuns(
            clients.dynamodb, resources.letters_table, pipeline.name, world.clock
        ),
        room=waiting_room_for(pipeline, resources, clients, world),
        objects=partial(run_objects_for, pipeline, resources, clients),
        clock=world.clock,
    )
    try:
        return edits.apply(*names_in(asked))
    except EditRefused as error:
        return {REFUSED: str(error)}
