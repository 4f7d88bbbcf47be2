"""The command that helps most with a group of letters."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from deadletter.failure.cause_index import CUT

from .grouping import By, Letters
from .life_steps import Step

if TYPE_CHECKING:
    from deadletter.failure.cause_index import CauseEntry


def step_for(group: Letters, by: By, pipeline: str | None, queue: str | None) -> Step:
    """The suggested next command; `queue` is the place of a queue of no pipeline."""
    from deadletter.failure.failure import PERMANENT, Blame

    newest = group.newest
    if pipeline is None or (group.is_newest_read and not newest.category):
        where = quote(queue or "") if pipeline is None else f"dlq --pipeline {pipeline}"
        return Step(f"dlq list --look --body --in {where}", "shows messages of the queue")
    here = f"--pipeline {pipeline}"
    explain = Step(
        f"dlq show {newest.origin} {here}", "tells what happened to one of them, and what to do"
    )
    if by is not By.CAUSE:
        return explain
    if not group.is_newest_read:
        return explain
    if (step := _missing_endpoint(newest)) is not None:
        return step
    if newest.blame is Blame.DEPENDENCY or not newest.fingerprint:
        return Step(f"dlq circuit list {here}", "says whether the dependency is known to be down")
    if newest.blame is Blame.CONFIGURATION:
        return _repair(newest) or explain
    if newest.category in PERMANENT:
        return explain
    return Step(f"dlq show {newest.origin} --logs", "shows what the consumer logged when it failed")


def _endpoint_of(newest: CauseEntry) -> str | None:
    """The letter's endpoint as `dlq endpoint` takes it; None if the ledger does not keep it whole.

    Its key is that of another circuit in pipelines without our webhooks.
    """
    tenant, slash, endpoint = newest.about.endpoint.partition("/")
    return None if not slash or not endpoint or endpoint.endswith(CUT) else f"{tenant}/{endpoint}"


def _missing_endpoint(newest: CauseEntry) -> Step | None:
    """What repairs an endpoint that the dispatcher can't post to because it is not there, or off.

    It is no fault of the endpoint's own, so no blame says so.
    """
    from deadletter.webhook.endpoint import DISABLED, NO_SUCH_ENDPOINT

    name = _endpoint_of(newest)
    if name is None:
        return None
    if newest.words == NO_SUCH_ENDPOINT:
        return Step(f'dlq endpoint add {name} --url "<url>"', "adds the endpoint that is missing")
    if newest.words == DISABLED:
        return Step(f"dlq endpoint add {name}", "checks the endpoint, and switches it on again")
    return None


def _repair(newest: CauseEntry) -> Step | None:
    name = _endpoint_of(newest)
    if name is None:
        return None
    return Step(f"dlq endpoint add {name} --dry-run", "checks the endpoint that refuses")
