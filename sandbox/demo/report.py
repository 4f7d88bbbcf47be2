"""The report of a demo, as JSON: the account, and what there is to see of how it came about."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from deadletter.failure.failure import Failure
from sandbox.demo.chronicle import Chronicle, open_times, thinned
from sandbox.demo.events import RECOVERING, ROLES, TENANTS, Event
from sandbox.demo.look import Look
from sandbox.demo.pages import Pages
from sandbox.demo.play import Played
from sandbox.demo.reconcile import DELIVERED, Reconciliation, ends_of

# Errors of the consumer's own, in a reader's words.
CAUSES = {
    "RefusedWhileOpen": "the circuit was not closed",
    "MessageUnfit": "the body cannot be read",
}


def figures(outcome: Reconciliation, last: Look, called: Pages, seconds: float) -> dict[str, Any]:
    """Write the account as the report's JSON; *seconds* is how long it all took."""
    return {
        "sent": outcome.sent,
        "delivered": outcome.delivered,
        "parked_by_reason": dict(outcome.parked_by_reason),
        "waiting": outcome.waiting,
        "lost": len(outcome.lost),
        "duplicates": outcome.duplicates,
        "seconds": round(seconds, 1),
        "healed": outcome.healed,
        "recovered": outcome.recovered,
        "held": outcome.held,
        "strangers": outcome.strangers,
        "altered": len(outcome.altered),
        "astray": len(outcome.astray),
        "unrecorded": len(outcome.unrecorded),
        "outages": last.circuit.trips,
        "runs": len(last.reports),
        "decisions": dict(last.decisions),
        "alarms_that_rang": list(called.rang),
        "alarms": called.alarms,
    }


def tenants(
    events: Sequence[Event], ends: Mapping[str, str], last: Look
) -> Sequence[Mapping[str, Any]]:
    """Each tenant with its role, its circuit at the end, and what became of its events."""
    found = {
        tenant: Counter(
            ends[event.digest]
            for event in events
            if event.tenant == tenant and event.digest in ends
        )
        for tenant in TENANTS
    }
    return [
        {
            "name": tenant,
            "role": ROLES[tenant],
            "circuit": str(last.circuit_of(tenant).state),
            "delivered": found[tenant][DELIVERED],
            "parked": sum(number for end, number in found[tenant].items() if end.isupper()),
            "answers": {
                str(status): number for status, number in sorted(last.answers(tenant).items())
            },
        }
        for tenant in TENANTS
    ]


def causes(
    origins: Mapping[str, Event],
    failures: Mapping[str, Sequence[Failure]],
    ends: Mapping[str, str],
) -> Sequence[Mapping[str, Any]]:
    """Why letters failed, by the ledger, most failures first, and what became of them.

    A letter counts for the cause of its first failure; all its failures that are on record are
    counted there.
    """
    numbers: Counter[tuple[str, str]] = Counter()
    became: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for origin, event in origins.items():
        if own := failures.get(origin):
            key = (cause(own[0]), event.tenant)
            numbers[key] += len(own)
            became[key][ends.get(event.digest, "lost")] += 1
    return [
        {
            "cause": text,
            "tenant": tenant,
            "failures": number,
            "ended": ", ".join(
                f"{letters} parked as {end}" if end.isupper() else f"{letters} {end}"
                for end, letters in sorted(became[text, tenant].items())
            ),
        }
        for (text, tenant), number in sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
    ]


def cause(failure: Failure) -> str:
    """What went wrong, in a few words."""
    if failure.http_status is not None:
        return f"HTTP {failure.http_status}"
    return CAUSES.get(failure.error_type, failure.error_type or str(failure.category))


def story(events: Sequence[Event], played: Played, chronicle: Chronicle) -> dict[str, Any]:
    """Write how it came about: told, seen, and why letters failed."""
    ends = ends_of(played.found)
    return {
        "timeline": chronicle.timeline,
        "samples": thinned(chronicle.samples),
        "outage": chronicle.outage,
        "circuit_open": open_times(chronicle.samples, RECOVERING),
        "tenants": tenants(events, ends, played.last),
        "causes": causes(played.origins, played.failures, ends),
    }
