"""The report of a demo, as JSON: the account, and what there is to see of how it came about.

Who would have been called stands in it too. The demo's outage is short and heals by itself, and
what is parked is parked today: on a machine that keeps up, no alarm rings in it, not even for a
minute. So what counts is the history of all alarms, and not the state that they are left in. It is
no part of the verdict: an alarm's minute lasts six seconds here, and a busy machine may take longer
for what a minute is enough for.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from subprocess import CompletedProcess
from typing import Any

from deadletter.failure.failure import Failure
from sandbox.demo.chronicle import Chronicle, open_times, thinned
from sandbox.demo.events import RECOVERING, ROLES, SNAPSHOT_TYPE, TENANTS, Event
from sandbox.demo.look import Look
from sandbox.demo.play import Played
from sandbox.demo.reconcile import DELIVERED, Reconciliation, ends_of

# Errors of the consumer's own, in a reader's words.
CAUSES = {
    "RefusedWhileOpen": "the circuit was not closed",
    "MessageUnfit": "the body cannot be read",
}


@dataclass(frozen=True, slots=True)
class Pages:
    """The number of alarms that are deployed, and those that were in ALARM at any time."""

    alarms: int
    rang: tuple[str, ...]

    @property
    def says(self) -> str:
        names = f": {', '.join(self.rang)}" if self.rang else ""
        return f"alarms that rang: {len(self.rang)}{names} (of {self.alarms} that watched)"


def pages(cloudwatch: Any) -> Pages:
    """Read the alarms that are deployed and the history of their states."""
    deployed = [
        alarm
        for page in cloudwatch.get_paginator("describe_alarms").paginate()
        for alarm in page.get("MetricAlarms", ())
    ]
    changes = (
        item
        for page in cloudwatch.get_paginator("describe_alarm_history").paginate(
            HistoryItemType="StateUpdate"
        )
        for item in page["AlarmHistoryItems"]
    )
    ringing = {alarm["AlarmName"] for alarm in deployed if alarm["StateValue"] == "ALARM"}
    return Pages(len(deployed), tuple(sorted(ringing | set(into_alarm(changes)))))


def into_alarm(changes: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """Name the alarm of each change into ALARM."""
    for change in changes:
        if json.loads(change["HistoryData"])["newState"]["stateValue"] == "ALARM":
            yield change["AlarmName"]


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


# One message, as `dlq show` tells of it.

# What is shown of it; the whole is in the report.
MOST_LINES = 25

Dlq = Callable[[Sequence[str]], "CompletedProcess[str]"]


@dataclass(frozen=True, slots=True)
class ToldLetter:
    """What was typed for the letter with this id, and the answer."""

    id: str
    command: str
    output: str

    @property
    def shown(self) -> str:
        """The answer, shortened if it is long."""
        lines = self.output.splitlines()
        if len(lines) <= MOST_LINES:
            return "\n".join(lines)
        kept = lines[: MOST_LINES - 1]
        return "\n".join([*kept, f"… {len(lines) - len(kept)} more lines: {self.command}"])


def choose(
    origins: Mapping[str, Event],
    failures: Mapping[str, Sequence[Failure]],
    healed: Collection[str],
) -> str | None:
    """Pick a letter that failed while its endpoint was down and was healed by a re-drive.

    *healed* are digests. A letter with most failures has most to tell; None without such a letter.
    """
    letters = [
        origin
        for origin, event in origins.items()
        if event.tenant == RECOVERING
        and SNAPSHOT_TYPE not in event.body
        and event.digest in healed
        and failures.get(origin)
    ]

    def lives_and_failures(origin: str) -> tuple[int, int]:
        return len({failure.attempt for failure in failures[origin]}), len(failures[origin])

    return max(letters, key=lives_and_failures, default=None)


def explained(origin: str, dlq: Dlq) -> ToldLetter:
    """Type `dlq show` for a letter."""
    words = ["show", origin]
    answer = dlq(words)
    return ToldLetter(origin, " ".join(["dlq", *words]), answer.stdout + answer.stderr)
