"""Puts together what the redriver's function does for a person beside its runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from deadletter.aws.clients import Clients
from deadletter.aws.wiring.stores import Stores
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
    asks: Mapping[str, Callable[[Stores, Any], dict[str, Any]]] = {RECALL: _recall, EDIT: _edit}
    for name, handle in asks.items():
        if name in event:
            return handle(Stores(pipeline, resources, clients, world), event[name])
    return None


def _recall(stores: Stores, asked: Any) -> dict[str, Any]:
    from deadletter.redrive.recall import RecallRefused, recall

    name, clock = stores.pipeline.name, stores.world.clock
    try:
        return dict(recall(asked, name, stores.room, clock=clock, in_parallel=in_threads))
    except RecallRefused as error:
        return {REFUSED: str(error)}


def _edit(stores: Stores, asked: Any) -> dict[str, Any]:
    # Most functions are never asked for an edit, and load none of it.
    from deadletter.aws.replay_edits import DynamoDBReplayEdits
    from deadletter.replay.edit_request import names_in
    from deadletter.replay.edits import EditRefused

    client, table, pipeline = stores.letters_table
    edits = DynamoDBReplayEdits(
        client,
        table,
        stores.clients.s3,
        bucket=stores.resources.letters_bucket,
        pipeline=pipeline,
        runs=stores.runs,
        room=stores.room,
        objects=stores.objects,
        clock=stores.world.clock,
    )
    try:
        return edits.apply(*names_in(asked))
    except EditRefused as error:
        return {REFUSED: str(error)}
