"""The idempotency collisions of a pipeline: one row of the circuits table, beside its circuits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from deadletter.aws.dynamodb import PipelineRows, counters_in, number_in, text_in
from deadletter.aws.errors import Conflict, Failed, ours
from deadletter.aws.table import absent, below, kept, stored_number
from deadletter.contract import CIRCUITS, COLLISIONS_ROW, MINUTE, ROWS_KEPT
from deadletter.processing.collisions import (
    WINDOW,
    CollisionStore,
    CollisionsUnavailable,
    Counts,
    KnownCollisions,
)

MESSAGES, COLLIDED = "n_", "c_"
"""Prefixes of the counters of a minute: any number of processes add to them at once."""


@dataclass(eq=False, repr=False)
class DynamoDBCollisions(PipelineRows, CollisionStore):
    """The collisions of one pipeline."""

    KEYS = CIRCUITS

    def __post_init__(self) -> None:
        super().__post_init__()
        self._key = (self.pipeline, COLLISIONS_ROW)
        self._known: KnownCollisions | None = None

    def read(self) -> KnownCollisions | None:
        """What is known; None if the pipeline has no row. Raises CollisionsUnavailable."""
        with ours(CollisionsUnavailable):
            item = self._table.get_many([self._key]).get(self._key)
        return None if item is None else known_from(item)

    def count(self, counts: Counts, paths: tuple[str, ...], now: float) -> KnownCollisions:
        sets = {**kept({"since": stored_number(now)}), "ttl": int(now + ROWS_KEPT)}
        if paths:
            sets["paths"] = json.dumps(paths, ensure_ascii=False)
        adds = {
            f"{prefix}{minute}": number
            for minute, numbers in counts.items()
            for prefix, number in zip((MESSAGES, COLLIDED), numbers, strict=True)
            if number
        }
        with ours(CollisionsUnavailable):
            written = self._table.change(
                self._key, sets, adds=adds, removes=self._stale(counts, now), shown="ALL_NEW"
            )
        self._known = known_from(written)
        return self._known

    def note_bad_claim(self, name: str, now: float) -> None:
        """Keep the name of a claim that could not be read: only consumers read claims.

        It never raises: the next consumer that meets it tries again.
        """
        with suppress(Failed):
            noted = {"bad_claim": name, "bad_claim_at": stored_number(now)}
            self._table.change(self._key, {**noted, "ttl": int(now + ROWS_KEPT)})

    @ours(CollisionsUnavailable)
    def stop(self, until: float, now: float) -> bool:
        end = stored_number(until)
        try:
            before = self._table.change(
                self._key,
                {"stopped_until": end},
                when=absent("stopped_until") | below("stopped_until", end),
                shown="ALL_OLD",
            )
        except Conflict:
            return False
        return not known_from(before).is_stopped(now)

    def _stale(self, counts: Counts, now: float) -> list[str]:
        """The counters of minutes that no window holds any more."""
        oldest = int((now - WINDOW) // MINUTE)
        known = self._known.counts if self._known is not None else {}
        old = [minute for minute in sorted(known) if minute < oldest and minute not in counts]
        return [f"{prefix}{minute}" for minute in old for prefix in (MESSAGES, COLLIDED)]


def known_from(item: Mapping[str, Any]) -> KnownCollisions:
    """What a row says. A malformed part says nothing."""
    messages, collided = (counters_in(item, prefix) for prefix in (MESSAGES, COLLIDED))
    return KnownCollisions(
        since=number_in(item, "since") or 0.0,
        counts={
            minute: (messages.get(minute, 0), collided.get(minute, 0))
            for minute in messages.keys() | collided.keys()
        },
        stopped_until=number_in(item, "stopped_until") or 0.0,
        paths=_paths(item.get("paths")),
        bad_claim=text_in(item, "bad_claim"),
        bad_claim_at=number_in(item, "bad_claim_at") or 0.0,
    )


def _paths(value: Any) -> tuple[str, ...]:
    try:
        paths = json.loads(value)
    except (TypeError, ValueError, RecursionError):
        return ()
    if not isinstance(paths, list):
        return ()
    return tuple(path for path in paths if isinstance(path, str))
