"""The command that helps most with a group of letters."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from .grouping import By, Letters
from .life_steps import WHY, Step

if TYPE_CHECKING:
    from deadletter.failure.cause_index import CauseEntry


def step_for(
    group: Letters, by: By, pipeline: str | None, queue: str | None, sudden: Collection[str]
) -> Step:
    """The suggested next command; `sudden` are the causes whose letters are held."""
    from deadletter.failure.failure import PERMANENT, Blame

    newest = group.newest
    if pipeline is None or (group.is_newest_read and not newest.category):
        where = f"--queue {queue}" if pipeline is None else f"--pipeline {pipeline}"
        return Step(f"dlq peek {where} --show-body", "shows messages of the queue")
    here = f"--pipeline {pipeline}"
    explain = Step(
        f"dlq explain {newest.origin} {here}", "tells one of its letters' life, and what to do"
    )
    if by is not By.CAUSE:
        return explain
    if newest.fingerprint in sudden:
        return Step(
            f"dlq cause retry {newest.fingerprint} {here} --reason {WHY}",
            "once it is mended: has its letters, which are held, tried again",
        )
    if not group.is_newest_read:
        return explain
    if newest.blame is Blame.DEPENDENCY or not newest.fingerprint:
        return Step(f"dlq circuit list {here}", "says whether the dependency is known to be down")
    if newest.blame is Blame.CONFIGURATION:
        return _repair(newest) or explain
    if newest.category in PERMANENT:
        return explain
    return Step(f"dlq logs {newest.origin} {here}", "shows what the consumer logged when it failed")


def _repair(newest: CauseEntry) -> Step | None:
    tenant, slash, endpoint = newest.about.endpoint.partition("/")
    if not slash or not endpoint or endpoint.endswith("…"):
        return None
    return Step(f"dlq endpoint check {tenant}/{endpoint}", "checks the endpoint that refuses")
