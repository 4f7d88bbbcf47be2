"""The command that helps most with a group of messages, and what its failure means."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from deadletter.failure.cause_index import CUT
from deadletter.signals.causes import CAUSES, CauseKey
from deadletter.signals.commands import typed

from .grouping import By, Letters
from .life_steps import Step

if TYPE_CHECKING:
    from deadletter.failure.cause_index import CauseEntry

_BUSY, _FAILS = 429, 500

# As the runtimes and the HTTP libraries call them.
_OF_DNS = ("gaierror", "NameResolution")
_OF_TLS = ("SSL", "Certificate")


def step_for(group: Letters, by: By, pipeline: str | None, queue: str | None) -> Step:
    """The suggested next command; `queue` is the place of a queue of no pipeline."""
    newest = group.newest
    if pipeline is None:
        where = quote(queue or "")
        return Step(f"dlq list --look --body --in {where}", "shows messages of the queue")
    if by is By.CAUSE and group.is_newest_read:
        missing = _missing_endpoint(newest)
        return missing or _of_cause(key_of(newest), newest, pipeline)
    explained = f"dlq show {newest.origin} --pipeline {pipeline}"
    return Step(explained, "tells what happened to one of them, and what to do")


def key_of(newest: CauseEntry) -> CauseKey:
    """The row of the cause that explains a failure."""
    from deadletter.failure.failure import PERMANENT, Blame

    error = newest.error_type
    if not newest.category:
        return CauseKey.UNRECORDED
    if newest.blame is Blame.CONFIGURATION:
        return CauseKey.REFUSES
    # One without a fingerprint was not tried: its circuit was open.
    if newest.blame is Blame.DEPENDENCY or not newest.fingerprint:
        if newest.http_status == _BUSY or "Throttl" in error:
            return CauseKey.BUSY
        if any(word in error for word in _OF_DNS):
            return CauseKey.DNS
        if any(word in error for word in _OF_TLS):
            return CauseKey.TLS
        return CauseKey.FAILS if newest.http_status == _FAILS else CauseKey.DOWN
    return CauseKey.UNREADABLE if newest.category in PERMANENT else CauseKey.OTHER


def _of_cause(key: CauseKey, newest: CauseEntry, pipeline: str) -> Step:
    cause, endpoint = CAUSES[key], _endpoint_of(newest)
    command = cause.endpoint if cause.endpoint and endpoint else cause.repair
    facts = {"pipeline": pipeline, "id": newest.origin, "tenant": endpoint or ""}
    return Step(typed(command, facts), cause.means)


def _endpoint_of(newest: CauseEntry) -> str | None:
    """The message's endpoint as `dlq endpoint` takes it; None if the ledger has not all of it.

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
